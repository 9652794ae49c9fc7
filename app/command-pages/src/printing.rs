//! Pages on standard output or in a folder, for the verbs `completions` and `man` of a program.

use crate::man::man_pages;
use clap::Command;
use std::io::{self, Write as _};
use std::path::Path;

/// Prints a page or a script as it is. A reader that closes its end early is no error.
///
/// # Errors
/// If standard output cannot be written.
pub fn print_text(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(io::Error::new(e.kind(), format!("standard output: {e}"))),
        Ok(()) => Ok(()),
    }
}

/// Writes the man pages of a program and of its verbs into a folder, or prints the page of the program.
///
/// # Errors
/// If a file or standard output cannot be written.
pub fn print_manual(command: &Command, folder: Option<&Path>) -> io::Result<()> {
    let pages = man_pages(command)?;
    let Some(folder) = folder else {
        return pages.first().map_or(Ok(()), |page| print_text(&page.text));
    };
    let failed = |path: &Path, e: &io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    std::fs::create_dir_all(folder).map_err(|e| failed(folder, &e))?;
    for page in &pages {
        let path = folder.join(&page.name);
        std::fs::write(&path, &page.text).map_err(|e| failed(&path, &e))?;
    }
    print_text(&format!("wrote {}: {} pages\n", folder.display(), pages.len()))
}

//! Messages for the user who started the program.

use crate::system::write_to_stderr;

/// Prints a line on standard error, in one write. It allocates nothing, and a signal handler may call it.
pub(crate) fn print_line(text: &[&str]) {
    let mut line = [0u8; 512];
    let mut length = 0;
    for part in ["kinescope: "].iter().chain(text).chain(&["\n"]) {
        let rest = line.get_mut(length..).unwrap_or_default();
        let bytes = part.as_bytes();
        let taken = bytes.len().min(rest.len());
        if let (Some(to), Some(from)) = (rest.get_mut(..taken), bytes.get(..taken)) {
            to.copy_from_slice(from);
        }
        length += taken;
    }
    write_to_stderr(line.get(..length).unwrap_or_default());
}

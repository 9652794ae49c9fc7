//! Man pages.

use crate::{visible_arguments, visible_verbs};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::io;

/// A man page of section 1.
#[derive(Clone, Debug)]
pub struct ManPage {
    /// File name: `kinescope-info.1`.
    pub name: String,
    /// Source of the page, for `man`.
    pub text: String,
}

/// Start of the text after a program's help, if the text lists exit codes.
const EXIT_CODES: &str = "Exit codes: ";

/// Returns the pages of a program: first its own, then those of its verbs in the order of the help, each followed by
/// those of its own verbs. Every page shows the exit codes of the program.
///
/// # Errors
/// If clap_mangen cannot write a page.
pub fn man_pages(command: &Command) -> io::Result<Vec<ManPage>> {
    let mut program = command.clone().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add_pages(&program, &program, None, &mut pages)?;
    Ok(pages)
}

fn add_pages(program: &Command, command: &Command, parent: Option<&str>, pages: &mut Vec<ManPage>) -> io::Result<()> {
    let title = command.get_display_name().unwrap_or_else(|| command.get_name());
    pages.push(ManPage {
        name: format!("{title}.1"),
        text: render(program, command, parent)?,
    });
    visible_verbs(command).try_for_each(|verb| add_pages(program, verb, Some(title), pages))
}

fn render(program: &Command, command: &Command, parent: Option<&str>) -> io::Result<String> {
    let (name, version) = (program.get_name(), program.get_version().unwrap_or_default());
    let man = Man::new(command.clone())
        .source(format!("{name} {version}"))
        .manual(format!("{name} manual"));
    let mut page: Vec<u8> = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if visible_arguments(command).next().is_some() {
        man.render_options_section(&mut page)?;
    }
    if visible_verbs(command).next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    let notes = command.get_after_help().map(ToString::to_string);
    if let Some(notes) = notes.filter(|n| !n.starts_with(EXIT_CODES)) {
        add_section("NOTES", &notes, &mut page)?;
    }
    let codes = program.get_after_help().map(ToString::to_string);
    if let Some(codes) = codes.as_deref().and_then(|c| c.strip_prefix(EXIT_CODES)) {
        add_section("EXIT STATUS", codes, &mut page)?;
    }
    if let Some(parent) = parent {
        add_section("SEE ALSO", &format!("{parent}(1)"), &mut page)?;
    }
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// Adds a section with a text whose line breaks stay.
fn add_section(heading: &str, text: &str, page: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    for (n, line) in text.lines().enumerate() {
        if n > 0 {
            roff.control("br", []);
        }
        roff.text([roman(line)]);
    }
    roff.to_writer(page)
}

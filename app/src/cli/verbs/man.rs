//! `man`: prints or writes the manual of this program, made from the command table.

use crate::cli::out::format_count;
use crate::cli::{Exit, Failure, Out};
use clap::{Args, Command};
use command_pages::{ManPage, VerbGroup, man_pages, markdown_reference};
use kinescope_files::output;
use serde::Serialize;
use std::path::PathBuf;

/// Options that verbs share, by their ids.
const SHARED_OPTIONS: [&str; 2] = ["json", "limit"];
/// File name of the Markdown reference.
const REFERENCE: &str = "command-line.md";

/// Arguments of the verb.
#[derive(Args)]
pub struct Arguments {
    /// Folder to write the pages into: kinescope.1 and kinescope-VERB.1 [default: print kinescope.1]
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Print the reference of all verbs as Markdown
    #[arg(long, conflicts_with = "folder")]
    markdown: bool,
}

/// Pages of the manual, which only the command line has.
#[derive(Serialize)]
struct Report<'a> {
    /// The pages. With `--markdown` there is one, `command-line.md`.
    pages: Vec<PageRow<'a>>,
}

/// A page of the manual, which is either written or printed.
#[derive(Serialize)]
struct PageRow<'a> {
    /// Name of the file.
    name: &'a str,
    /// The written file; `null` without FOLDER.
    path: Option<String>,
    /// The page; `null` with FOLDER.
    text: Option<&'a str>,
}

/// Returns the reference of all verbs of a command as Markdown.
pub fn render(command: &Command, groups: &[VerbGroup]) -> String {
    markdown_reference(command, groups, &SHARED_OPTIONS)
}

/// Runs the verb for the whole command line, which contains it.
pub fn run(arguments: &Arguments, command: &Command, groups: &[VerbGroup], out: &mut Out) -> Result<Exit, Failure> {
    if arguments.markdown {
        return print(REFERENCE, &render(command, groups), out);
    }
    let pages = man_pages(command)?;
    let Some(folder) = &arguments.folder else {
        return match pages.first() {
            Some(page) => print(&page.name, &page.text, out),
            None => Err(Failure::usage("this program has no man page")),
        };
    };
    std::fs::create_dir_all(folder).map_err(|e| Failure::file(folder, e))?;
    let path = |page: &ManPage| folder.join(&page.name);
    for page in &pages {
        output::write(&path(page), page.text.as_bytes())?;
    }
    if out.is_json() {
        let rows = pages.iter().map(|page| PageRow {
            name: &page.name,
            path: Some(path(page).display().to_string()),
            text: None,
        });
        out.value(&Report { pages: rows.collect() })?;
    } else {
        let count = format_count(pages.len() as u64, "page");
        out.line(format_args!("wrote {}: {count}", folder.display()))?;
    }
    Ok(Exit::Good)
}

fn print(name: &str, text: &str, out: &mut Out) -> Result<Exit, Failure> {
    if out.is_json() {
        let row = PageRow {
            name,
            path: None,
            text: Some(text),
        };
        out.value(&Report { pages: vec![row] })?;
    } else {
        out.bytes(text.as_bytes())?;
    }
    Ok(Exit::Good)
}

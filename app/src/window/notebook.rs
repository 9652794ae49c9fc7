//! Writing a notebook: its text, and a picture of the window at each of its moments.

use super::studio::{Shot, Studio};
use crate::document::Document;
use crate::document::notebook::{self, NotebookEntry};
use kinescope_files::output::{self, OutputError};
use std::path::{Path, PathBuf};
use trace_core::progress::{Cancelled, Progress};

/// Form of a notebook that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotebookFormat {
    /// CommonMark, its pictures in a folder beside it.
    Markdown,
    /// A page that stands alone, its pictures within.
    Html,
}

impl NotebookFormat {
    /// The form that a file's name says; `None`: it says none.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "md" | "markdown" => Some(Self::Markdown),
            "html" | "htm" => Some(Self::Html),
            _ => None,
        }
    }
}

/// Why a notebook was not written.
#[derive(Debug, thiserror::Error)]
pub enum NotebookError {
    /// The name says no form.
    #[error("{}: the name does not say the form (expected .md or .html)", .0.display())]
    Form(PathBuf),
    /// It cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The folder for pictures cannot be made.
    #[error("{}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A picture was not drawn.
    #[error("the window at event {event} was not drawn: {why}")]
    Picture {
        /// Where time stood.
        event: u64,
        /// What went wrong.
        why: String,
    },
    /// Nobody wants it any more.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotebookSummary {
    /// Notes.
    pub notes: u64,
    /// Pictures.
    pub pictures: u64,
    /// Why there are none, where they were wanted.
    pub no_pictures_reason: Option<String>,
}

/// Writes the notes of a document to a file whose name says the form. `shot`: how pictures are taken; `None`: without.
/// Where nothing can draw here there are none, and why is told.
///
/// # Errors
/// [`NotebookError`]; of a page that is not finished nothing is left.
pub fn write(
    doc: Document,
    to: &Path,
    shot: Option<&Shot>,
    progress: &Progress,
) -> Result<NotebookSummary, NotebookError> {
    let form = NotebookFormat::from_path(to).ok_or_else(|| NotebookError::Form(to.to_owned()))?;
    let entries = notebook::entries(&doc);
    let (title, about) = (doc.title.clone(), notebook::describe_recording(&doc));
    let (pictures, without) = match shot.filter(|_| !entries.is_empty()) {
        Some(shot) => match Studio::new(shot, progress.clone()) {
            Ok(studio) => (take_pictures(studio, doc, &entries, progress)?, None),
            Err(e) => (Vec::new(), Some(e.to_string())),
        },
        None => (Vec::new(), None),
    };
    let count = pictures.len() as u64;
    let text = match form {
        NotebookFormat::Html => notebook::page(&title, &about, &entries, &pictures),
        NotebookFormat::Markdown => {
            let names = save_pictures(&entries, &pictures, to, progress)?;
            notebook::markdown(&title, &about, &entries, &names)
        }
    };
    output::write(to, text.as_bytes())?;
    Ok(NotebookSummary {
        notes: entries.len() as u64,
        pictures: count,
        no_pictures_reason: without,
    })
}

/// A picture of each moment.
fn take_pictures(
    mut studio: Studio,
    doc: Document,
    entries: &[NotebookEntry],
    progress: &Progress,
) -> Result<Vec<Option<Vec<u8>>>, NotebookError> {
    let failed = |event: u64, e: anyhow::Error| match progress.check() {
        Err(cancelled) => NotebookError::Cancelled(cancelled),
        Ok(()) => NotebookError::Picture {
            event,
            why: format!("{e:#}"),
        },
    };
    studio.show(doc).map_err(|e| failed(0, e))?;
    let mut pictures = Vec::with_capacity(entries.len());
    progress.set_total(entries.len() as u64);
    for e in entries {
        let event = e.scene.event;
        let png = studio.show_scene(&e.scene).and_then(|()| studio.png());
        pictures.push(Some(png.map_err(|e| failed(event, e))?));
        progress.advance(1)?;
    }
    Ok(pictures)
}

/// Puts pictures into a folder beside the file, and gives their names as the file tells them.
fn save_pictures(
    entries: &[NotebookEntry],
    pictures: &[Option<Vec<u8>>],
    to: &Path,
    progress: &Progress,
) -> Result<Vec<Option<String>>, NotebookError> {
    if pictures.is_empty() {
        return Ok(Vec::new());
    }
    let stem = to.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = format!("{stem}-pictures");
    let folder = to.with_file_name(&name);
    std::fs::create_dir_all(&folder).map_err(|source| NotebookError::Folder {
        path: folder.clone(),
        source,
    })?;
    let mut names = Vec::with_capacity(pictures.len());
    for (e, png) in entries.iter().zip(pictures) {
        progress.check()?;
        let Some(png) = png else {
            names.push(None);
            continue;
        };
        let file = format!("event-{}.png", e.scene.event);
        output::write(&folder.join(&file), png)?;
        names.push(Some(format!("{name}/{file}")));
    }
    Ok(names)
}

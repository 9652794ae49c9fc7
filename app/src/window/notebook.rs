//! Notebook export: the text, and a picture of the window for each entry.

use super::studio::{Shot, Studio};
use kinescope_files::output::{self, OutputError};
use kinescope_session::Document;
use kinescope_session::notebook::{self, NotebookEntry};
use std::path::{Path, PathBuf};
use trace_core::progress::{Cancelled, Progress};

/// Format of an exported notebook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotebookFormat {
    /// CommonMark, with its pictures in a folder next to it.
    Markdown,
    /// A self-contained page with embedded pictures.
    Html,
}

impl NotebookFormat {
    /// Returns the format of a file name; `None`: the name has no known format.
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

/// The reason why a notebook was not written.
#[derive(Debug, thiserror::Error)]
pub enum NotebookError {
    /// The file name has no known format.
    #[error("{}: the name does not say the format (expected .md or .html)", .0.display())]
    Form(PathBuf),
    /// The file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The picture folder cannot be created.
    #[error("{}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A picture was not rendered.
    #[error("the window at event {event} was not drawn: {why}")]
    Picture {
        /// Event of the picture.
        event: u64,
        /// Reason.
        why: String,
    },
    /// The task was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Summary of a written notebook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotebookSummary {
    /// Number of notes.
    pub notes: u64,
    /// Number of pictures.
    pub pictures: u64,
    /// Reason why requested pictures are missing.
    pub no_pictures_reason: Option<String>,
}

/// Writes the notes of a document to a file in the format of its name. `shot` says how to take pictures; `None`: no
/// pictures. If this machine has no renderer, the summary says why there are no pictures.
///
/// # Errors
/// [`NotebookError`]; an unfinished page leaves no file.
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

/// Renders a picture for each entry.
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

/// Saves pictures in a folder next to the file, and returns their names as the file refers to them.
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

//! Requests that wait: for a recording to open, for an answer of the user, for the pixels of the window.

use egui::ColorImage;
use kinescope_files::link::Link;
use kinescope_files::scene::Scene;
use kinescope_session::Document;
use kinescope_session::program_run::CheckedRequest;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// Actions to run once the recording that is being opened is loaded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AfterOpen {
    /// A second recording to compare with.
    pub compare: Option<PathBuf>,
    /// Position to go to.
    pub goal: Option<Goal>,
    /// Panel to show.
    pub panel: Option<&'static str>,
}

/// A position in a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Goal {
    /// The scene to show there.
    pub scene: Scene,
    /// Number of events that the recording should have; `None`: unknown.
    pub events: Option<u64>,
}

impl Goal {
    /// Returns a goal that only selects an event.
    #[must_use]
    pub fn for_event(event: u64) -> Self {
        Self {
            scene: Scene {
                event,
                ..Scene::default()
            },
            events: None,
        }
    }

    /// Returns the position of a link; `None`: the position where the recording was left.
    #[must_use]
    pub fn from_link(link: &Link) -> Option<Self> {
        Some(Self {
            scene: link.scene.clone()?,
            events: link.events,
        })
    }
}

/// The action that was requested while edits were in no file.
pub enum LeaveAction {
    /// Exit the program.
    Quit,
    /// Close the recording.
    Close,
    /// Open another recording, or the same one again, with the actions that follow.
    Open(PathBuf, AfterOpen),
    /// Show a document that is already loaded.
    Show(Box<Document>),
    /// Follow a recording while a recorder writes it.
    Follow(PathBuf),
    /// Run a program, and follow its recording.
    Run(Box<CheckedRequest>),
}

impl LeaveAction {
    /// Returns the verb of the action.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Quit => "Quit",
            Self::Close => "Close",
            Self::Open(..) | Self::Show(_) => "Open",
            Self::Follow(_) => "Follow",
            Self::Run(_) => "Run",
        }
    }
}

/// A question or message that the user must answer before anything else.
pub enum Question {
    /// Whether to lose edits that are in no file.
    Leave(LeaveAction),
    /// Whether to discard the changes of an earlier run.
    DiscardEdits,
    /// Path of the discarded changes.
    EditsDiscarded(PathBuf),
    /// Whether a copy of the recording holds the edits.
    SaveCopy,
    /// Which recording of a folder to open.
    Recordings {
        /// The folder, which is not a recording itself.
        folder: PathBuf,
        /// The recordings in it, by name.
        recordings: Vec<PathBuf>,
    },
}

/// Format of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// Pixels.
    Png,
    /// Shapes.
    Svg,
}

impl PictureFormat {
    /// Returns the format of a file name, PNG if it has no extension; `None`: the format is unknown.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Self> {
        let Some(extension) = path.extension() else {
            return Some(Self::Png);
        };
        let extension = extension.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "png" => Some(Self::Png),
            "svg" => Some(Self::Svg),
            _ => None,
        }
    }
}

/// A picture that waits for the pixels of the window.
pub struct PictureRequest {
    pub(super) panel: &'static str,
    pub(super) to: PathBuf,
    pub(super) form: PictureFormat,
    /// Receives the pixels, once they were requested.
    pub(super) pixels: Option<mpsc::Receiver<Arc<ColorImage>>>,
    pub(super) since: Instant,
}

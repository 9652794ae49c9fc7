//! Path selection: the purposes, and the state of the path prompt for desktops without a file dialog.

use egui::Context;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The purpose of a selected path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// A recording file to open.
    Recording,
    /// A recording to follow, which may not exist yet.
    Follow,
    /// A recording file to compare with the open one.
    Second,
    /// A folder that holds a recording.
    Folder,
    /// A program to run.
    Program,
    /// Content for a buffer.
    Buffer,
    /// Comparison rules.
    Rules,
    /// Code to replace the recorded code.
    Code,
    /// The expected content of an output.
    ExpectedOutput,
    /// The expected picture of the screen.
    ExpectedScreen,
    /// A plan to replay.
    Plan,
    /// A pipeline file.
    Pipeline,
    /// The description of a campaign.
    CampaignDescription,
    /// A path to save to, with the suggested name.
    Save(String),
}

/// The result of asking for a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PickResult {
    /// The user selected this path.
    Path(PathBuf),
    /// The user cancelled.
    Cancelled,
    /// The desktop has no file dialog.
    NoDialog,
}

/// Asks a user for a path and blocks until the answer. Runs off the interface thread.
pub type Chooser = Arc<dyn Fn(&Pick) -> PickResult + Send + Sync>;

/// Maximum number of entries of a folder that are shown.
const MAX_SHOWN_ENTRIES: usize = 10;

/// Maximum number of folder entries that are scanned.
const MAX_SCANNED_ENTRIES: usize = 5000;

/// Callback that receives the path.
pub(super) type PickCallback<A> = Box<dyn FnOnce(&mut A, &Context, PathBuf) + Send>;

/// The path prompt while it is open.
pub struct PathPrompt<A> {
    pub(super) what: Pick,
    /// Text that the user typed.
    pub text: String,
    /// Matches in the typed folder, and the text that they were found for.
    pub(super) found: (String, Vec<PathMatch>),
    /// Index of the match that the arrow keys selected. The text shows it, and the list stays.
    pub(super) chosen: Option<usize>,
    pub(super) act: PickCallback<A>,
    pub(super) focused: bool,
    /// Whether the text is still the suggested one.
    pub(super) offered: bool,
}

/// A possible completion of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathMatch {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) folder: bool,
}

/// What the prompt can do with the current text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathCheck {
    /// Nothing; the reason.
    Invalid(&'static str),
    /// The path is valid.
    Take,
    /// The path exists and would be overwritten.
    Replace,
}

impl<A> PathPrompt<A> {
    /// Creates a prompt that starts in a folder.
    pub(super) fn new(what: Pick, folder: &Path, act: PickCallback<A>) -> Self {
        let start = match &what {
            Pick::Save(name) => folder.join(name),
            _ => folder.join(""),
        };
        Self {
            what,
            text: start.to_string_lossy().into_owned(),
            found: (String::new(), Vec::new()),
            chosen: None,
            act,
            focused: false,
            offered: true,
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        match self.text.strip_prefix("~/").zip(directories::BaseDirs::new()) {
            Some((rest, home)) => home.home_dir().join(rest),
            None => PathBuf::from(&self.text),
        }
    }

    pub(super) fn check_path(&self) -> PathCheck {
        let path = self.path();
        if !path.is_absolute() {
            return PathCheck::Invalid("Begin with / or ~/.");
        }
        match &self.what {
            Pick::Recording | Pick::Second if path.is_file() || is_recording(&path) => PathCheck::Take,
            Pick::Recording | Pick::Second if path.is_dir() => {
                PathCheck::Invalid("This folder is not a recording: add a name.")
            }
            Pick::Recording | Pick::Second => PathCheck::Invalid("No such file."),
            Pick::Follow if path.is_dir() => PathCheck::Invalid("This is a folder: add a name."),
            Pick::Follow if path.parent().is_some_and(Path::is_dir) => PathCheck::Take,
            Pick::Follow => PathCheck::Invalid("No such folder."),
            Pick::Folder if path.is_dir() => PathCheck::Take,
            Pick::Folder => PathCheck::Invalid("No such folder."),
            Pick::Save(_) if path.is_dir() => PathCheck::Invalid("This is a folder: add a name."),
            Pick::Save(_) if path.is_file() => PathCheck::Replace,
            Pick::Save(_) if path.parent().is_some_and(Path::is_dir) => PathCheck::Take,
            Pick::Save(_) => PathCheck::Invalid("No such folder."),
            _ if path.is_file() => PathCheck::Take,
            _ if path.is_dir() => PathCheck::Invalid("This is a folder: add a name."),
            _ => PathCheck::Invalid("No such file."),
        }
    }

    /// Updates the matches, once for each text.
    pub(super) fn refresh_matches(&mut self) {
        if self.found.0 == self.text {
            return;
        }
        self.chosen = None;
        let path = self.path();
        let (folder, begin) = if self.text.ends_with('/') {
            (path.as_path(), String::new())
        } else {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            (path.parent().unwrap_or(&path), name)
        };
        let entries = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .take(MAX_SCANNED_ENTRIES)
            .flatten();
        let mut found: Vec<PathMatch> = entries
            .map(|e| PathMatch {
                name: e.file_name().to_string_lossy().into_owned(),
                path: e.path(),
                folder: e.path().is_dir(),
            })
            .filter(|f| f.name.to_lowercase().starts_with(&begin) && (!begin.is_empty() || !f.name.starts_with('.')))
            .collect();
        found.sort_by(|a, b| (!a.folder, &a.name).cmp(&(!b.folder, &b.name)));
        found.truncate(MAX_SHOWN_ENTRIES);
        self.found = (self.text.clone(), found);
    }

    pub(super) fn title(&self) -> &'static str {
        match self.what {
            Pick::Recording => "Open file",
            Pick::Follow => "Follow a recording",
            Pick::Second => "Compare with file",
            Pick::Folder => "Open folder",
            Pick::Program => "Program to run",
            Pick::Buffer => "Load into buffer",
            Pick::Rules => "Open rules",
            Pick::Code => "Try other code",
            Pick::ExpectedOutput => "Expected content of an output",
            Pick::ExpectedScreen => "Expected screen",
            Pick::Plan => "Open plan",
            Pick::Pipeline => "Open pipeline",
            Pick::CampaignDescription => "Open description of a campaign",
            Pick::Save(_) => "Save",
        }
    }

    /// Completes the text to the longest common prefix of the matches, or to the first match if that adds nothing.
    pub(super) fn complete_text(&mut self) {
        let Some(first) = self.found.1.first().cloned() else {
            return;
        };
        let typed = self
            .path()
            .file_name()
            .map_or(0, |n| n.to_string_lossy().chars().count());
        let typed = if self.text.ends_with('/') { 0 } else { typed };
        let common = self.found.1.iter().fold(first.name.clone(), |common, f| {
            let same = common.chars().zip(f.name.chars()).take_while(|(a, b)| a == b);
            same.map(|(a, _)| a).collect()
        });
        // A truncated list does not contain all matches.
        let whole = self.found.1.len() < MAX_SHOWN_ENTRIES;
        if self.found.1.len() > 1 && whole && common.chars().count() > typed {
            let folder = first.path.parent().unwrap_or(&first.path);
            self.text = folder.join(common).to_string_lossy().into_owned();
        } else {
            self.complete(&first);
        }
    }

    /// Sets the text to the next match of the list (1), or the previous one (-1). Returns whether it did.
    pub(super) fn step(&mut self, by: i8) -> bool {
        let last = self.found.1.len().checked_sub(1);
        let (Some(last), true) = (last, by != 0) else {
            return false;
        };
        let next = match self.chosen {
            None if by > 0 => 0,
            None => last,
            Some(n) => n.saturating_add_signed(isize::from(by)).min(last),
        };
        let Some(entry) = self.found.1.get(next) else {
            return false;
        };
        self.text = entry.path.to_string_lossy().into_owned();
        // The entries of a folder are listed only after the user types a slash or presses Tab.
        self.found.0.clone_from(&self.text);
        self.chosen = Some(next);
        true
    }

    /// Returns the match that the arrow keys selected.
    pub(super) fn chosen_entry(&self) -> Option<PathMatch> {
        self.found.1.get(self.chosen?).cloned()
    }

    pub(super) fn complete(&mut self, found: &PathMatch) {
        self.text = found.path.to_string_lossy().into_owned();
        if found.folder {
            self.text.push('/');
        }
    }
}

/// Returns whether an importer knows this folder.
fn is_recording(path: &Path) -> bool {
    path.is_dir() && trace_import::fits(path)
}

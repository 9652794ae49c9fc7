//! The workspace file of a recording: next to the recording, or in the user's settings if that folder is read-only. It
//! is read once, written atomically, and renamed if damaged.

use super::settings::Settings;
use crate::log::{self, Level};
use kinescope_files::journal::sibling_path;
use kinescope_files::workspace::{MAX_BYTES, Workspace};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;

/// Extension of the file next to a recording: `alexnet.kine-workspace` for `alexnet.kine`.
pub const EXTENSION: &str = "kine-workspace";

/// The possible paths of a recording's workspace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspacePaths {
    beside: PathBuf,
    settings: PathBuf,
}

/// A workspace file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}; {became}", path.display())]
pub struct DamagedWorkspace {
    /// The file.
    pub path: PathBuf,
    /// Reason.
    pub reason: String,
    /// What was done with the file, as text.
    pub became: String,
}

/// A saved workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedWorkspace {
    /// The file.
    pub path: PathBuf,
    /// Reason why the file is not next to the recording, if it is elsewhere.
    pub fallback_reason: Option<String>,
}

impl WorkspacePaths {
    /// Returns the paths for a recording; `None` if nothing is saved.
    #[must_use]
    pub fn for_recording(recording: &Path, settings: &Settings) -> Option<Self> {
        Some(Self {
            beside: sibling_path(recording, EXTENSION),
            settings: settings.workspace_path(recording)?,
        })
    }

    /// Reads the workspace that was saved last. `None`: there is none. Renames a damaged file by appending `.damaged`,
    /// so that the next save does not overwrite it.
    #[must_use]
    pub fn read(&self) -> Option<Result<Workspace, DamagedWorkspace>> {
        let kept = |p: &Path| -> Option<SystemTime> {
            let meta = std::fs::metadata(p).ok().filter(std::fs::Metadata::is_file)?;
            Some(meta.modified().unwrap_or(SystemTime::UNIX_EPOCH))
        };
        let path = match (kept(&self.beside), kept(&self.settings)) {
            (None, None) => return None,
            (Some(b), Some(s)) if s > b => &self.settings,
            (Some(_), _) => &self.beside,
            (None, Some(_)) => &self.settings,
        };
        let read =
            read_text(path).and_then(|t| Workspace::parse(&t, &crate::panels::is_known).map_err(|e| e.to_string()));
        Some(read.map_err(|reason| DamagedWorkspace {
            reason,
            became: rename_damaged(path),
            path: path.clone(),
        }))
    }

    /// Saves a workspace next to the recording, or in the settings if that folder cannot be written.
    ///
    /// # Errors
    /// A message, if neither path can be written.
    pub fn save(&self, workspace: &Workspace) -> Result<SavedWorkspace, String> {
        let text = workspace.text();
        let why = match write_atomic(&self.beside, &text) {
            Ok(()) => {
                // An older file there is obsolete; a missing one is fine.
                let _ = std::fs::remove_file(&self.settings);
                return Ok(SavedWorkspace {
                    path: self.beside.clone(),
                    fallback_reason: None,
                });
            }
            Err(e) => format!("{}: {e}", self.beside.display()),
        };
        let folder = self.settings.parent().map(Path::to_owned).unwrap_or_default();
        match std::fs::create_dir_all(folder).and_then(|()| write_atomic(&self.settings, &text)) {
            Ok(()) => Ok(SavedWorkspace {
                path: self.settings.clone(),
                fallback_reason: Some(why),
            }),
            Err(e) => Err(format!("{why}; {}: {e}", self.settings.display())),
        }
    }
}

/// Saves the workspace file of the open recording.
#[derive(Default)]
pub(super) struct WorkspaceSaver {
    pub(super) places: Option<WorkspacePaths>,
    /// Content of the file, or the initial workspace.
    pub(super) last_saved: Option<Workspace>,
    pub(super) last_check: f64,
    pub(super) at_work: Option<JoinHandle<Result<SavedWorkspace, String>>>,
    pub(super) warned: bool,
}

impl WorkspaceSaver {
    /// Reports the result of a save once, if the user does not expect it.
    pub(super) fn report_result(&mut self, done: Result<SavedWorkspace, String>) {
        let line = match done {
            Ok(SavedWorkspace {
                fallback_reason: None, ..
            }) => return,
            Ok(SavedWorkspace {
                path,
                fallback_reason: Some(why),
            }) => format!(
                "the workspace is saved in {}, not next to the recording ({why})",
                path.display()
            ),
            Err(e) => format!("the workspace was not saved: {e}"),
        };
        if !std::mem::replace(&mut self.warned, true) {
            log::push(Level::Warning, line);
        }
    }

    /// Collects the result of a save; waits for it if `to_the_end`.
    pub(super) fn collect_result(&mut self, to_the_end: bool) {
        if let Some(t) = self.at_work.take_if(|t| to_the_end || t.is_finished()) {
            let done = t
                .join()
                .unwrap_or_else(|_| Err("the thread that wrote it ended early".into()));
            self.report_result(done);
        }
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(MAX_BYTES as u64 + 1).read_to_string(&mut text));
    read.map_err(|e| e.to_string())?;
    Ok(text)
}

/// Renames a damaged file and describes where it is.
fn rename_damaged(path: &Path) -> String {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    match std::fs::rename(path, &name) {
        Ok(()) => format!(
            "panels have their default layout; the file was renamed to {}",
            Path::new(&name).display()
        ),
        Err(e) => format!("panels have their default layout; the file could not be renamed: {e}"),
    }
}

/// Removes temporary files of killed windows, once for each file that this program writes.
fn remove_leftovers(path: &Path) {
    static DONE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let first = DONE
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(path.to_owned());
    if let (true, Some(folder), Some(name)) = (first, path.parent(), path.file_name().and_then(|n| n.to_str())) {
        let process = |file: &str| {
            file.strip_prefix(name)?
                .strip_prefix('.')?
                .strip_suffix(".tmp")?
                .parse()
                .ok()
        };
        trace_core::unfinished_files::remove(folder, process);
    }
}

/// Writes a file atomically.
pub(super) fn write_atomic(path: &Path, text: &str) -> std::io::Result<()> {
    remove_leftovers(path);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let new = PathBuf::from(name);
    let written = std::fs::File::create(&new)
        .and_then(|mut f| {
            // If the file system has no locks, the process id in the name must suffice.
            let _ = f.try_lock();
            f.write_all(text.as_bytes())
        })
        .and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        // Report the first failure.
        let _ = std::fs::remove_file(&new);
    }
    written
}

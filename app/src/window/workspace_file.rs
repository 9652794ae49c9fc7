//! Where a recording's workspace file lies: beside the recording, or in the person's settings where that place cannot
//! be written. Read once, kept whole, put aside when it is damaged.

use super::settings::Settings;
use crate::document::journal::sibling_path;
use crate::document::workspace::{MAX_BYTES, Workspace};
use crate::log::{self, Level};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;

/// Extension of the file beside a recording: `alexnet.kine-workspace` for `alexnet.kine`.
pub const EXTENSION: &str = "kine-workspace";

/// The places where a recording's workspace file may lie.
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
    /// What is wrong with it.
    pub reason: String,
    /// What became of it, in words.
    pub became: String,
}

/// A workspace that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedWorkspace {
    /// The file.
    pub path: PathBuf,
    /// Why it does not lie beside the recording, when it does not.
    pub fallback_reason: Option<String>,
}

impl WorkspacePaths {
    /// The places for a recording; `None` where nothing is kept.
    #[must_use]
    pub fn for_recording(recording: &Path, settings: &Settings) -> Option<Self> {
        Some(Self {
            beside: sibling_path(recording, EXTENSION),
            settings: settings.workspace_path(recording)?,
        })
    }

    /// The file beside the recording.
    #[must_use]
    pub fn beside(&self) -> &Path {
        &self.beside
    }

    /// Reads the workspace that was kept last. `None`: there is none. A damaged file is put aside, under its name
    /// with `.damaged` behind it, so that the next one kept does not overwrite it.
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

    /// Keeps a workspace beside the recording, or in the settings where that place cannot be written.
    ///
    /// # Errors
    /// In words, when neither place can be written.
    pub fn save(&self, workspace: &Workspace) -> Result<SavedWorkspace, String> {
        let text = workspace.text();
        let why = match write_atomic(&self.beside, &text) {
            Ok(()) => {
                // An older one there would only be in the way; where there is none that is well.
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

/// Keeps the workspace file of the open recording.
#[derive(Default)]
pub(super) struct WorkspaceSaver {
    pub(super) places: Option<WorkspacePaths>,
    /// As it stands in the file, or as it was at first.
    pub(super) last_saved: Option<Workspace>,
    pub(super) last_check: f64,
    pub(super) at_work: Option<JoinHandle<Result<SavedWorkspace, String>>>,
    pub(super) warned: bool,
}

impl WorkspaceSaver {
    /// Tells once what became of it, where that is not what the person expects.
    pub(super) fn report_result(&mut self, done: Result<SavedWorkspace, String>) {
        let line = match done {
            Ok(SavedWorkspace {
                fallback_reason: None, ..
            }) => return,
            Ok(SavedWorkspace {
                path,
                fallback_reason: Some(why),
            }) => format!(
                "the workspace is kept in {}, not beside the recording ({why})",
                path.display()
            ),
            Err(e) => format!("the workspace was not kept: {e}"),
        };
        if !std::mem::replace(&mut self.warned, true) {
            log::push(Level::Warning, line);
        }
    }

    /// Hears of a file that was being written; waits for it when `to_the_end`.
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

/// Puts a file aside and says where it is.
fn rename_damaged(path: &Path) -> String {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    match std::fs::rename(path, &name) {
        Ok(()) => format!(
            "panels are as at first, and the file was put aside as {}",
            Path::new(&name).display()
        ),
        Err(e) => format!("panels are as at first; the file could not be put aside: {e}"),
    }
}

/// Removes what windows that were killed left of a file, once for each file that this program writes.
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

/// Writes a file whole or not at all.
pub(super) fn write_atomic(path: &Path, text: &str) -> std::io::Result<()> {
    remove_leftovers(path);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let new = PathBuf::from(name);
    let written = std::fs::File::create(&new)
        .and_then(|mut f| {
            // Where the file system has no locks, the number of this process has to do.
            let _ = f.try_lock();
            f.write_all(text.as_bytes())
        })
        .and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        // The failure to tell is the first one.
        let _ = std::fs::remove_file(&new);
    }
    written
}

//! The state of the naming sheet, and the queue of names to write to the user's map files.

use super::name_form::Form;
use kinescope_files::changes::NamedItem;
use kinescope_files::output;
use register_maps::naming::{self, EditedNames, Key, MapHeader, NameEntry};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// A file that a name can be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The file.
    pub path: PathBuf,
    /// Short description of the recordings that the file applies to.
    pub description: String,
    /// Header to write if the file does not exist yet.
    pub head: MapHeader,
}

/// The naming sheet while it is open.
#[derive(Clone, Debug)]
pub struct NameSheet {
    /// Content of the form.
    pub form: Form,
    /// Files that the name can be written to.
    pub targets: Vec<Target>,
    /// Index of the selected file.
    pub target: usize,
    /// Error in the form.
    pub error: Option<String>,
    /// Whether the name is being written to the file.
    pub(super) busy: bool,
    pub(super) focused: bool,
    /// Bits that the user is selecting: start and current position of the drag.
    pub(super) dragged: Option<(u32, u32)>,
}

/// A change of a map file.
pub(super) enum NameJob {
    /// Writes an entry for a register or memory range.
    Say(Box<NameEntry>, Target),
    /// Replaces an entry with another.
    Put {
        path: PathBuf,
        head: MapHeader,
        key: Key,
        old: Option<String>,
        new: Option<String>,
    },
}

/// Queue of names to write to files, one at a time.
#[derive(Default)]
pub(super) struct NameQueue {
    pub(super) waiting: VecDeque<NameJob>,
    pub(super) busy: bool,
}

/// Reads the text of a file; empty if the file does not exist.
fn read_text(path: &Path) -> Result<String, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(e) => Err(format!("{}: {e}", path.display())),
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    output::write(path, text.as_bytes()).map_err(|e| e.to_string())
}

impl NameJob {
    /// Runs the job. Returns the edited names if it wrote a new entry.
    pub(super) fn run(&self) -> Result<Option<EditedNames>, String> {
        let describe = |path: &Path, e: naming::NamingError| format!("{}: {e}", path.display());
        match self {
            Self::Say(said, to) => {
                let text = read_text(&to.path)?;
                let written = naming::set_entry(&text, &to.head, said).map_err(|e| describe(&to.path, e))?;
                if written.text != text {
                    write(&to.path, &written.text)?;
                }
                Ok(Some(written))
            }
            Self::Put {
                path,
                head,
                key,
                old,
                new,
            } => {
                let text = read_text(path)?;
                let text = naming::replace_entry(&text, head, *key, old.as_deref(), new.as_deref())
                    .map_err(|e| describe(path, e))?;
                write(path, &text)?;
                Ok(None)
            }
        }
    }
}

pub(super) fn key_from_named(named: NamedItem) -> Key {
    match named {
        NamedItem::Register(offset) => Key::Register(offset),
        NamedItem::Memory { space, address } => Key::Memory { space, address },
    }
}

pub(super) fn named_from_key(key: Key) -> NamedItem {
    match key {
        Key::Register(offset) => NamedItem::Register(offset),
        Key::Memory { space, address } => NamedItem::Memory { space, address },
    }
}

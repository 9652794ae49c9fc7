//! Databases of tools that record single kernels: what the memory of the device held before a launch and behind it, the
//! launch, and the code as LLVM bitcode. They become recordings of calls, one launch after the other.
//!
//! [`record_replay`] and [`mneme`] say what the files hold; what both tell is here, how it becomes a recording in
//! `recording.rs`.

mod code;
mod files;
mod memory;
pub mod mneme;
pub mod record_replay;
mod recording;
mod snapshot_reader;
#[cfg(test)]
mod tests;

pub use recording::DATABASE;
use recording::build_recording;

use super::error::{FilePosition, ImportError};
use crate::recording::{CallWindow, ElementType, MemoryBuilder};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use snapshot_reader::{Content, MAX_NAME, Snapshot};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a database's JSON at most.
const MAX_JSON: u64 = 64 << 20;
/// Bytes that are looked at to tell whether a file is such a database.
const FIRST_LOOK: u64 = 1 << 18;
/// Launches of a database at most; the tools record one, or four, of a kernel.
const MAX_LAUNCHES: usize = 4096;
/// Variables of a launch at most, and allocations: each takes a page, however short it is.
const MAX_PER_KIND: usize = 1 << 17;
/// Modules of a database at most; the tools write one.
const MAX_MODULES: usize = 256;
/// Bytes of a hash, as text, at most.
const MAX_HASH: usize = 256;

/// What a database tells.
struct Database {
    /// Its JSON file.
    path: PathBuf,
    source: &'static str,
    tool: &'static str,
    /// Addresses that allocations were served from.
    window: CallWindow,
    /// Files of LLVM bitcode.
    modules: Vec<String>,
    launches: Vec<Launch>,
    argument_names: Vec<String>,
    /// What the tool knows the kernel's code by.
    static_hash: Option<String>,
}

/// A launch of a kernel, and the files that have its memory.
struct Launch {
    /// Mangled.
    name: Arc<str>,
    /// As its author wrote it; empty where that is not told.
    demangled: Arc<str>,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    before: String,
    /// Empty where the program ended before it was written.
    after: String,
    /// What the tool knows it by among launches of its kernel.
    dynamic_hash: Option<String>,
    /// How many launches are told to be like it, itself included.
    occurrences: Option<u64>,
}

/// Threads or blocks by dimension, as both tools write them.
#[derive(Clone, Copy, Deserialize)]
struct Dimensions {
    x: u32,
    y: u32,
    z: u32,
}

impl From<Dimensions> for [u32; 3] {
    fn from(d: Dimensions) -> Self {
        [d.x, d.y, d.z]
    }
}

/// What a snapshot file holds.
#[derive(Default)]
struct State {
    /// Values of the launch's arguments; none where only changes are told.
    arguments: Vec<Vec<u8>>,
    /// By name.
    variables: BTreeMap<String, Variable>,
    /// By address.
    blobs: BTreeMap<u64, Blob>,
}

/// A variable of a module.
struct Variable {
    /// Where it lay, where that is told.
    at: Option<u64>,
    content: Content,
}

/// An allocation.
struct Blob {
    content: Content,
    label: Option<Label>,
}

/// What the program told of an allocation.
#[derive(Clone)]
struct Label {
    element: ElementType,
    /// Largest distance of results that count as alike.
    threshold: f64,
    threshold_kind: &'static str,
    norm: &'static str,
    tag: String,
}

/// How the snapshots of a tool are read.
struct Form {
    before: fn(&mut Snapshot<'_>, &mut MemoryBuilder) -> Result<State, ImportError>,
    after: fn(&mut Snapshot<'_>, &State, &mut MemoryBuilder) -> Result<State, ImportError>,
}

impl State {
    /// Adds a variable that stands at byte `field` of the file.
    fn add_variable(
        &mut self,
        file: &Snapshot<'_>,
        field: u64,
        name: String,
        variable: Variable,
    ) -> Result<(), ImportError> {
        if self.variables.len() >= MAX_PER_KIND {
            return Err(file.malformed(field, format!("there are more than {MAX_PER_KIND} variables")));
        }
        match self.variables.entry(name) {
            Entry::Vacant(place) => {
                place.insert(variable);
                Ok(())
            }
            Entry::Occupied(known) => Err(file.malformed(field, format!("the variable {} comes twice", known.key()))),
        }
    }

    /// Adds an allocation at `address` that stands at byte `field` of the file.
    fn add_blob(&mut self, file: &Snapshot<'_>, field: u64, address: u64, blob: Blob) -> Result<(), ImportError> {
        if self.blobs.len() >= MAX_PER_KIND {
            return Err(file.malformed(field, format!("there are more than {MAX_PER_KIND} allocations")));
        }
        let bytes = blob.content.bytes.max(1);
        let below = self.blobs.range(..=address).next_back();
        let above = self.blobs.range(address..).next();
        let covered = below.is_some_and(|(at, b)| address - at < b.content.bytes.max(1));
        if covered || above.is_some_and(|(at, _)| at - address < bytes) {
            let message = format!("the allocation of {bytes} bytes at {address:#x} lies where another one does");
            return Err(file.malformed(field, message));
        }
        self.blobs.insert(address, blob);
        Ok(())
    }
}

impl Database {
    /// The same, where it is of a size that tools write: what is told of each launch is told again in notes.
    fn validate(self) -> Result<Self, ImportError> {
        let wrong = |message: String| Err(ImportError::malformed(&self.path, FilePosition::Whole, message));
        if self.modules.len() > MAX_MODULES {
            return wrong(format!(
                "it names {} modules, more than {MAX_MODULES}",
                self.modules.len()
            ));
        }
        let names = self.launches.iter().flat_map(|l| [&l.name, &l.demangled]);
        if names.into_iter().any(|n| n.len() as u64 > MAX_NAME) {
            return wrong(format!("the name of a kernel has more than {MAX_NAME} bytes"));
        }
        let dynamic = self.launches.iter().filter_map(|l| l.dynamic_hash.as_ref());
        if dynamic.chain(&self.static_hash).any(|h| h.len() > MAX_HASH) {
            return wrong(format!("a hash has more than {MAX_HASH} bytes"));
        }
        Ok(self)
    }

    /// Where a file lies that the database names: where its path says, or beside the database.
    fn file(&self, message: &str) -> PathBuf {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let report = Path::new(message);
        let there = folder.join(report);
        match report.file_name() {
            Some(name) if !there.is_file() => folder.join(name),
            _ => there,
        }
    }

    /// All files that belong to it.
    fn parts(&self) -> Vec<PathBuf> {
        let snapshots = self
            .launches
            .iter()
            .take(MAX_LAUNCHES)
            .flat_map(|l| [&l.before, &l.after]);
        let named = snapshots
            .filter(|message| !message.is_empty())
            .map(|text| self.file(text));
        let mut all: Vec<PathBuf> = named.collect();
        all.extend(code::find_code_files(self).into_iter().flatten());
        all.sort();
        all.dedup();
        all
    }
}

/// Whether a path is a JSON file whose beginning holds what `has` looks for.
pub(super) fn begins_as_json(path: &Path, has: impl Fn(&[u8]) -> bool) -> bool {
    let is_json = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
    if !is_json || !path.is_file() {
        return false;
    }
    let mut text = Vec::new();
    let read = File::open(path).and_then(|f| f.take(FIRST_LOOK).read_to_end(&mut text));
    read.is_ok() && text.trim_ascii_start().first() == Some(&b'{') && has(&text)
}

/// The JSON of a database.
fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ImportError> {
    let io = |e| ImportError::io(path, e);
    let file = File::open(path).map_err(io)?;
    let mut text = Vec::new();
    file.take(MAX_JSON + 1).read_to_end(&mut text).map_err(io)?;
    if text.len() as u64 > MAX_JSON {
        let message = format!("a database of more than {MAX_JSON} bytes is not read");
        return Err(ImportError::malformed(path, FilePosition::Whole, message));
    }
    serde_json::from_slice(&text).map_err(|e| {
        let place = if e.line() > 0 {
            FilePosition::Line(e.line() as u64)
        } else {
            FilePosition::Whole
        };
        ImportError::malformed(path, place, e.to_string())
    })
}

/// A hexadecimal number of a database, with or without `0x`.
fn hexadecimal(path: &Path, key: &str, text: &str) -> Result<u64, ImportError> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| {
        let message = format!("{key} is {text:?}, which is no hexadecimal number of 64 bits");
        ImportError::malformed(path, FilePosition::Whole, message)
    })
}

//! The contents of a database and of its snapshots, as both tools write them.

use super::snapshot_reader::{Content, MAX_NAME, Snapshot};
use crate::error::{FilePosition, ImportError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::recording::{CallWindow, ElementType, MemoryBuilder};

/// Maximum size of a database's JSON, bytes.
const MAX_JSON: u64 = 64 << 20;
/// Maximum number of launches of a database; the tools record one, or four, of a kernel.
pub(super) const MAX_LAUNCHES: usize = 4096;
/// Maximum number of variables, and of allocations, of a launch: each takes a page, however short it is.
const MAX_PER_KIND: usize = 1 << 17;
/// Maximum number of modules of a database; the tools write one.
const MAX_MODULES: usize = 256;
/// Maximum size of a hash as text, bytes.
const MAX_HASH: usize = 256;

/// The contents of a database.
pub(super) struct Database {
    /// Its JSON file.
    pub path: PathBuf,
    pub source: &'static str,
    pub tool: &'static str,
    /// Address range of allocations.
    pub window: CallWindow,
    /// Files of LLVM bitcode.
    pub modules: Vec<String>,
    pub launches: Vec<Launch>,
    pub argument_names: Vec<String>,
    /// The tool's identifier of the kernel's code.
    pub static_hash: Option<String>,
}

/// A launch of a kernel, and the files that have its memory.
pub(super) struct Launch {
    /// Mangled.
    pub name: Arc<str>,
    /// Source name; empty if unknown.
    pub demangled: Arc<str>,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub before: String,
    /// Empty if the program ended before the file was written.
    pub after: String,
    /// The tool's identifier among launches of its kernel.
    pub dynamic_hash: Option<String>,
    /// Reported number of equal launches, itself included.
    pub occurrences: Option<u64>,
}

/// Threads or blocks by dimension, as both tools write them.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Dimensions {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}

impl From<Dimensions> for [u32; 3] {
    fn from(d: Dimensions) -> Self {
        [d.x, d.y, d.z]
    }
}

/// The contents of a snapshot file.
#[derive(Default)]
pub(super) struct State {
    /// Values of the launch's arguments; empty in a snapshot of changes.
    pub arguments: Vec<Vec<u8>>,
    /// By name.
    pub variables: BTreeMap<String, Variable>,
    /// By address.
    pub blobs: BTreeMap<GpuVa, Blob>,
}

/// A variable of a module.
pub(super) struct Variable {
    /// Its address, if known.
    pub at: Option<GpuVa>,
    pub content: Content,
}

/// An allocation.
pub(super) struct Blob {
    pub content: Content,
    pub label: Option<Label>,
}

/// The program's label of an allocation.
#[derive(Clone)]
pub(super) struct Label {
    pub element: ElementType,
    /// Maximum difference of results that count as equal.
    pub threshold: f64,
    pub threshold_kind: &'static str,
    pub norm: &'static str,
    pub tag: String,
}

/// The snapshot format of a tool.
pub(super) struct Form<'a> {
    pub before: &'a ReadBefore<'a>,
    pub after: &'a ReadAfter<'a>,
}

/// Reads the memory before a launch.
pub(super) type ReadBefore<'a> = dyn Fn(&mut Snapshot<'_>, &mut MemoryBuilder) -> Result<State, ImportError> + 'a;
/// Reads the memory after a launch, from that before it.
pub(super) type ReadAfter<'a> =
    dyn Fn(&mut Snapshot<'_>, &State, &mut MemoryBuilder) -> Result<State, ImportError> + 'a;

impl State {
    /// Adds the variable at byte `field` of the file.
    pub fn add_variable(
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
            Entry::Occupied(known) => Err(file.malformed(field, format!("the variable {} occurs twice", known.key()))),
        }
    }

    /// Adds an allocation at `address`, from byte `field` of the file.
    pub fn add_blob(&mut self, file: &Snapshot<'_>, field: u64, address: GpuVa, blob: Blob) -> Result<(), ImportError> {
        if self.blobs.len() >= MAX_PER_KIND {
            return Err(file.malformed(field, format!("there are more than {MAX_PER_KIND} allocations")));
        }
        let bytes = blob.content.bytes.max(1);
        let below = self.blobs.range(..=address).next_back();
        let above = self.blobs.range(address..).next();
        let covered = below.is_some_and(|(at, b)| address - *at < b.content.bytes.max(1));
        if covered || above.is_some_and(|(at, _)| *at - address < bytes) {
            let message = format!("the allocation of {bytes} bytes at {address:#x} overlaps another one");
            return Err(file.malformed(field, message));
        }
        self.blobs.insert(address, blob);
        Ok(())
    }
}

impl Database {
    /// Returns the database if its size is plausible for the tools: data of each launch is repeated in notes.
    pub fn validate(self) -> Result<Self, ImportError> {
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

    /// Returns the path of a file that the database names: at its path, or next to the database.
    pub fn file(&self, message: &str) -> PathBuf {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let report = Path::new(message);
        let there = folder.join(report);
        match report.file_name() {
            Some(name) if !there.is_file() => folder.join(name),
            _ => there,
        }
    }
}

/// Reads the JSON of a database.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ImportError> {
    let io = |e| ImportError::io(path, e);
    let file = File::open(path).map_err(io)?;
    let mut text = Vec::new();
    file.take(MAX_JSON + 1).read_to_end(&mut text).map_err(io)?;
    if text.len() as u64 > MAX_JSON {
        let message = format!("the database has more than {MAX_JSON} bytes");
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

/// Parses a hexadecimal number of a database, with or without `0x`.
pub(super) fn hexadecimal(path: &Path, key: &str, text: &str) -> Result<u64, ImportError> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| {
        let message = format!("{key} is {text:?}, which is not a hexadecimal number of 64 bits");
        ImportError::malformed(path, FilePosition::Whole, message)
    })
}

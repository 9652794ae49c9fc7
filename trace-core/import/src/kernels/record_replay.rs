//! The importer of RecordReplay databases, the predecessor of Mneme: one JSON file, and for each kernel the device
//! memory before and after one launch.
//!
//! The format is that of github.com/koparasy/Mneme, commit d9627fa. `src/record.cpp` writes the JSON (keys in
//! alphabetical order) and the head of a snapshot, `src/memory.cpp` its allocations; `src/replay.cpp` reads both. A
//! snapshot has no magic and no version. It holds little-endian 64-bit numbers:
//!
//! - the number of arguments, their sizes, their values one after the other
//! - the number of variables, and for each the length of its name, the name, its size, its bytes
//! - to the end of the file allocations: address, size, bytes. The size is rounded up to what the driver maps, 2 MiB
//!
//! The database lacks the addresses of variables, the order of kernels, the device, times and threads.

use super::code::list_files;
use super::database::{Blob, Database, Dimensions, Form, Launch, State, Variable, hexadecimal, read_json};
use super::recording::build_recording;
use super::snapshot_reader::Snapshot;
use crate::ImportError;
use crate::json_head::{begins_as_json, describe_missing_keys};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trace_core::GpuVa;
use trace_core::progress::Progress;
use trace_core::recording::{CallWindow, MemoryBuilder, Recording};

/// Value of [`trace_core::recording::Identity::source`] for a recording made from such a database.
pub const SOURCE: &str = "record-replay";

/// The JSON file.
#[derive(Deserialize)]
struct DatabaseFile {
    /// Hexadecimal, without `0x`.
    #[serde(rename = "StartVAAddr")]
    start: String,
    #[serde(rename = "TotalSize")]
    bytes: u64,
    /// By mangled name.
    #[serde(rename = "Kernels")]
    kernels: BTreeMap<String, Kernel>,
    #[serde(rename = "Modules", default)]
    modules: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Kernel {
    name: String,
    grid: Dimensions,
    block: Dimensions,
    shared_memory: u32,
    input_data: String,
    output_data: String,
}

/// Whether a path looks like such a database: a JSON file with its keys.
#[must_use]
pub fn fits(path: &Path) -> bool {
    let has_both = |text: &[u8]| {
        let has = |word: &str| memchr::memmem::find(text, word.as_bytes()).is_some();
        has("\"Kernels\"") && (has("\"StartVAAddr\"") || has("\"InputData\""))
    };
    begins_as_json(path, has_both)
}

/// Describes a JSON file that lacks a key of such a database.
pub(crate) fn describe_close(path: &Path) -> Option<String> {
    let typical = ["StartVAAddr", "InputData"];
    describe_missing_keys(
        path,
        "a database of RecordReplay",
        &typical,
        &["Kernels", "StartVAAddr"],
    )
}

/// Returns the files that a database names, and modules that could replace its bitcode.
#[must_use]
pub fn parts(path: &Path) -> Vec<PathBuf> {
    database(path).map_or_else(|_| Vec::new(), |d| list_files(&d))
}

/// Imports a database.
///
/// # Errors
///
/// When a file cannot be read or does not follow its format, no launch of the database has its memory available, or the
/// work was cancelled.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    let form = Form {
        before: &before,
        after: &after,
    };
    build_recording(database(path)?, &form, progress)
}

fn database(path: &Path) -> Result<Database, ImportError> {
    let file: DatabaseFile = read_json(path)?;
    let start = hexadecimal(path, "StartVAAddr", &file.start)?;
    let launches = file.kernels.into_iter().map(|(key, k)| Launch {
        demangled: "".into(),
        grid: k.grid.into(),
        block: k.block.into(),
        shared: k.shared_memory,
        before: k.input_data,
        after: k.output_data,
        dynamic_hash: None,
        occurrences: None,
        name: if k.name.is_empty() { key.into() } else { k.name.into() },
    });
    let database = Database {
        path: path.to_owned(),
        source: SOURCE,
        tool: "RecordReplay",
        window: CallWindow {
            base: GpuVa::new(start),
            bytes: file.bytes,
        },
        modules: file.modules,
        launches: launches.collect(),
        argument_names: Vec::new(),
        static_hash: None,
    };
    database.validate()
}

/// Reads the memory before a launch.
fn before(file: &mut Snapshot<'_>, store: &mut MemoryBuilder) -> Result<State, ImportError> {
    let mut state = State {
        arguments: file.read_split_arguments()?,
        ..State::default()
    };
    for _ in 0..file.count(16, "the number of variables")? {
        let at = file.at();
        let name = file.name("the name of a variable")?;
        let field = file.at();
        let bytes = file.u64("the size of a variable")?;
        // Its address is unknown; it gets pages of its own.
        let content = file.content(field, bytes, 0, store, "a variable")?;
        state.add_variable(file, at, name, Variable { at: None, content })?;
    }
    while file.at() < file.bytes() {
        let at = file.at();
        let address = GpuVa::new(file.u64("the address of an allocation")?);
        let field = file.at();
        let bytes = file.u64("the size of an allocation")?;
        file.check_range(field, address, bytes, "an allocation")?;
        let phase = address.in_page();
        let content = file.content(field, bytes, phase, store, "an allocation")?;
        state.add_blob(file, at, address, Blob { content, label: None })?;
    }
    Ok(state)
}

/// Reads the memory after a launch, which has the same format.
fn after(file: &mut Snapshot<'_>, _before: &State, store: &mut MemoryBuilder) -> Result<State, ImportError> {
    before(file, store)
}

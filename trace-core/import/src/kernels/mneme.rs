//! The importer of Mneme databases: one JSON file per kernel, and for each recorded launch the device memory before and
//! after it. The memory after it is complete or a list of changes.
//!
//! The format is that of github.com/Olympus-HPC/Mneme, commit 4442a49. `include/mneme/MnemeSnapshot.hpp` writes JSON
//! and snapshots, `MnemeMemory.hpp` an allocation, `src/MnemeAnnotationInternal.cpp` its label.
//! `python/mneme/recorded_execution.py` writes the JSON again, with other spaces, when a database is moved. Numbers
//! have 64 bits and are little-endian unless stated otherwise. A full snapshot:
//!
//! - the number of variables, and for each the length of its name, the name, its size, its address, its bytes
//! - the number of allocations, and for each the bytes allocated, the bytes requested, the address, the contents of the
//!   requested bytes, and a label: type of the elements (8 bits), threshold (binary64), whether it is absolute or
//!   relative (8 bits), a norm (8 bits), the length of a tag, the tag
//! - the number of arguments, and for each its size and its value
//!
//! A snapshot of changes starts with [`DIFF`]. Then come all variables and all allocations again, without their bytes.
//! In their place, after an allocation's label, are the number of ranges and for each offset, length and bytes. There
//! are no arguments. Files that the database names are next to it, or at an absolute path.
//!
//! Mneme treats launches that differ only in arguments and memory as one: it records the first and counts the others.

use super::code::{before_internal, list_files};
use super::database::{Blob, Database, Dimensions, Form, Label, Launch, State, Variable, hexadecimal, read_json};
use super::recording::build_recording;
use super::snapshot_reader::Snapshot;
use crate::ImportError;
use crate::json_head::{begins_as_json, describe_missing_keys};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::progress::Progress;
use trace_core::recording::{CallWindow, ElementType, MemoryBuilder, Recording};

/// Value of [`trace_core::recording::Identity::source`] for a recording made from such a database.
pub const SOURCE: &str = "mneme";
/// First bytes of a snapshot of changes.
pub const DIFF: &[u8; 13] = b"MNEME_DIFF_V1";
/// Maximum size of a tag, bytes.
const MAX_TAG_BYTES: u64 = 1 << 16;

/// The JSON file.
#[derive(Deserialize)]
struct DatabaseFile {
    #[serde(rename = "StaticHash")]
    static_hash: Hash,
    #[serde(rename = "VAddr")]
    start: String,
    #[serde(rename = "VASize")]
    bytes: u64,
    #[serde(rename = "KernelName")]
    kernel: String,
    #[serde(rename = "DemangledName", default)]
    demangled: String,
    #[serde(rename = "Modules", default)]
    modules: Vec<String>,
    #[serde(rename = "ArgNames", default)]
    arguments: Vec<String>,
    /// By dynamic hash.
    instances: BTreeMap<String, Instance>,
}

/// A hash, written as a number or as a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Hash {
    Number(u64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Instance {
    grid_dims: Dimensions,
    block_dims: Dimensions,
    shared_mem: u32,
    prologue: String,
    #[serde(default)]
    epilogue: String,
    #[serde(default)]
    occurrences: Option<u64>,
}

/// Whether a path looks like such a database: a JSON file with its keys.
#[must_use]
pub fn fits(path: &Path) -> bool {
    let has_both = |text: &[u8]| {
        let has = |word: &str| memchr::memmem::find(text, word.as_bytes()).is_some();
        has("\"KernelName\"") && (has("\"BinaryBlobs\"") || has("\"StaticHash\""))
    };
    begins_as_json(path, has_both)
}

/// Describes a JSON file that lacks a key of such a database.
pub(crate) fn describe_close(path: &Path) -> Option<String> {
    let typical = ["StaticHash", "DemangledName"];
    describe_missing_keys(
        path,
        "a database of Mneme",
        &typical,
        &["StaticHash", "KernelName", "VAddr", "instances"],
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
        before: &read_full_snapshot,
        after: &read_diff_snapshot,
    };
    build_recording(database(path)?, &form, progress)
}

fn database(path: &Path) -> Result<Database, ImportError> {
    let file: DatabaseFile = read_json(path)?;
    let start = hexadecimal(path, "VAddr", &file.start)?;
    let hash = match file.static_hash {
        Hash::Number(n) => n.to_string(),
        Hash::Text(t) => t,
    };
    let plain = before_internal(&file.kernel).unwrap_or(&file.kernel);
    let demangled: Arc<str> = Some(file.demangled).filter(|d| *d != plain).unwrap_or_default().into();
    let name: Arc<str> = file.kernel.as_str().into();
    let launches = file.instances.into_iter().map(|(dynamic, i)| Launch {
        name: Arc::clone(&name),
        demangled: Arc::clone(&demangled),
        grid: i.grid_dims.into(),
        block: i.block_dims.into(),
        shared: i.shared_mem,
        before: i.prologue,
        after: i.epilogue,
        dynamic_hash: Some(dynamic),
        occurrences: i.occurrences,
    });
    let launches = launches.collect();
    let database = Database {
        path: path.to_owned(),
        source: SOURCE,
        tool: "Mneme",
        window: CallWindow {
            base: GpuVa::new(start),
            bytes: file.bytes,
        },
        modules: file.modules,
        launches,
        argument_names: file.arguments,
        static_hash: Some(hash),
    };
    database.validate()
}

/// Reads a full snapshot.
fn read_full_snapshot(file: &mut Snapshot<'_>, store: &mut MemoryBuilder) -> Result<State, ImportError> {
    let first = file.u64("the number of variables")?;
    whole_from(file, first, store)
}

/// Reads a full snapshot whose first number was already read.
fn whole_from(file: &mut Snapshot<'_>, variables: u64, store: &mut MemoryBuilder) -> Result<State, ImportError> {
    let mut state = State::default();
    file.check_count(0, variables, 24, "the number of variables")?;
    for _ in 0..variables {
        let at = file.at();
        let (name, bytes, address) = variable(file)?;
        let field = file.at();
        let phase = address.in_page();
        let content = file.content(field, bytes, phase, store, "a variable")?;
        let variable = Variable {
            at: Some(address),
            content,
        };
        state.add_variable(file, at, name, variable)?;
    }
    for _ in 0..file.count(43, "the number of allocations")? {
        let at = file.at();
        let (_, bytes, address) = allocation(file)?;
        let field = file.at();
        let phase = address.in_page();
        let content = file.content(field, bytes, phase, store, "an allocation")?;
        let label = label(file)?;
        state.add_blob(file, at, address, Blob { content, label })?;
    }
    state.arguments = file.arguments()?;
    file.end()?;
    Ok(state)
}

/// Reads the memory after a launch: complete, or the changes since before it.
fn read_diff_snapshot(
    file: &mut Snapshot<'_>,
    before: &State,
    store: &mut MemoryBuilder,
) -> Result<State, ImportError> {
    let first = file.u64("the first bytes of a snapshot")?.to_le_bytes();
    let Some((head, tail)) = DIFF.split_first_chunk::<8>() else {
        return Err(file.malformed(0, "no such snapshot is known"));
    };
    if first != *head {
        return whole_from(file, u64::from_le_bytes(first), store);
    }
    for expected in tail {
        if file.u8("the first bytes of a snapshot")? != *expected {
            return Err(file.malformed(8, "the version of the snapshot is not MNEME_DIFF_V1"));
        }
    }
    let mut state = State::default();
    let at = file.at();
    let count = file.count(32, "the number of variables")?;
    if count != before.variables.len() as u64 {
        let known = before.variables.len();
        return Err(file.malformed(
            at,
            format!("the file lists {count} variables, but there were {known} before the launch"),
        ));
    }
    for _ in 0..count {
        let at = file.at();
        let (name, bytes, address) = variable(file)?;
        let known = before.variables.get(&name);
        let Some(known) = known.filter(|v| v.content.bytes == bytes && v.at == Some(address)) else {
            let message =
                format!("the variable {name}, {bytes} bytes at {address:#x}, did not exist before the launch");
            return Err(file.malformed(at, message));
        };
        let content = file.read_changes(&known.content, store, &name)?;
        let variable = Variable {
            at: Some(address),
            content,
        };
        state.add_variable(file, at, name, variable)?;
    }
    let at = file.at();
    let count = file.count(51, "the number of allocations")?;
    if count != before.blobs.len() as u64 {
        let known = before.blobs.len();
        return Err(file.malformed(
            at,
            format!("the file lists {count} allocations, but there were {known} before the launch"),
        ));
    }
    for _ in 0..count {
        let at = file.at();
        let (_, bytes, address) = allocation(file)?;
        let label = label(file)?;
        let Some(known) = before.blobs.get(&address).filter(|b| b.content.bytes == bytes) else {
            let message = format!("{bytes} bytes at {address:#x} were not allocated before the launch");
            return Err(file.malformed(at, message));
        };
        let content = file.read_changes(&known.content, store, "an allocation")?;
        state.add_blob(file, at, address, Blob { content, label })?;
    }
    file.end()?;
    Ok(state)
}

/// Reads name, size and address of a variable.
fn variable(file: &mut Snapshot<'_>) -> Result<(String, u64, GpuVa), ImportError> {
    let name = file.name("the name of a variable")?;
    let field = file.at();
    let bytes = file.u64("the size of a variable")?;
    let address = GpuVa::new(file.u64("the address of a variable")?);
    file.check_range(field, address, bytes, "a variable")?;
    Ok((name, bytes, address))
}

/// Reads the allocated bytes, requested bytes and address of an allocation.
fn allocation(file: &mut Snapshot<'_>) -> Result<(u64, u64, GpuVa), ImportError> {
    let taken = file.u64("the size of an allocation")?;
    let field = file.at();
    let bytes = file.u64("the size of an allocation")?;
    let address = GpuVa::new(file.u64("the address of an allocation")?);
    file.check_range(field, address, bytes, "an allocation")?;
    Ok((taken, bytes, address))
}

/// Reads the program's label of an allocation. Returns `None` for the default label.
fn label(file: &mut Snapshot<'_>) -> Result<Option<Label>, ImportError> {
    let at = file.at();
    let element = file.u8("the type of an allocation")?;
    let threshold = f64::from_bits(file.u64("the threshold of an allocation")?);
    let kind = file.u8("the threshold of an allocation")?;
    let norm = file.u8("the norm of an allocation")?;
    let tag = file.read_sized(MAX_TAG_BYTES, "the tag of an allocation")?;
    use ElementType as E;
    let types = [
        E::U8,
        E::I8,
        E::U16,
        E::I16,
        E::U32,
        E::I32,
        E::U64,
        E::I64,
        E::F16,
        E::F32,
        E::F64,
    ];
    let Some(known) = types.get(usize::from(element)) else {
        return Err(file.malformed(at, format!("the element type {element} does not exist")));
    };
    let kinds = ["absolute", "relative"];
    let Some(threshold_kind) = kinds.get(usize::from(kind)) else {
        return Err(file.malformed(at + 9, format!("the threshold kind {kind} does not exist")));
    };
    let norms = ["none", "l1", "l2", "linf"];
    let Some(norm_name) = norms.get(usize::from(norm)) else {
        return Err(file.malformed(at + 10, format!("the norm {norm} does not exist")));
    };
    let is_reported = element != 0 || threshold != 0.0 || kind != 0 || norm != 0 || !tag.is_empty();
    Ok(is_reported.then(|| Label {
        element: *known,
        threshold,
        threshold_kind,
        norm: norm_name,
        tag: String::from_utf8_lossy(&tag).into_owned(),
    }))
}

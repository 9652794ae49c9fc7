//! The importer of kernels that LLVM's offload library recorded (`LIBOMPTARGET_RECORD`): an OpenMP target region with the
//! device memory before and after it.
//!
//! The format is that of llvm-project, `offload/plugins-nextgen/common/src/RecordReplay.cpp`; before 2026 it was in
//! `PluginInterface.cpp`. Files of a kernel have the same name and one ending each:
//!
//! | ending | content | earlier |
//! |---|---|---|
//! | `json` | name, teams, threads, arguments, address and size of the memory | also `BumpAllocVAStart`, `DeviceMemorySize`, `NumTeamsClause`, `ThreadLimitClause`; no address in LLVM 16 |
//! | `record_input` | the memory before the kernel, from its first address on | `memory` |
//! | `record_output` | the memory after it | `original.output` |
//! | `globals` | a count (32 bits), and for each global the length of its name with the zero at its end (32 bits), its size (64 bits), the name, the bytes | name with a zero, size (32 bits), bytes, without a count; as they are after the kernel |
//! | `image` | the device code | |
//!
//! Numbers are little-endian. Arguments are words of 64 bits.

use super::code::list_files;
use super::database::{Blob, Database, Form, Launch, State, Variable, read_json};
use super::recording::{build_recording, format_path};
use super::snapshot_reader::{MAX_NAME, Snapshot};
use crate::ImportError;
use crate::error::FilePosition;
use crate::json_head::{begins_as_json, describe_missing_keys, has_key};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::{CallWindow, MemoryBuilder, Recording};

/// Value of [`trace_core::recording::Identity::source`] for a recording made from such files.
pub const SOURCE: &str = "llvm-offload";
/// Maximum number of arguments of a kernel.
const MAX_ARGUMENTS: usize = 1 << 12;
/// Endings of the memory before and after a kernel, the current one first.
const BEFORE: [&str; 2] = ["record_input", "memory"];
const AFTER: [&str; 2] = ["record_output", "original.output"];
const GLOBALS: &str = "globals";

/// The JSON file.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Description {
    name: String,
    #[serde(alias = "NumTeamsClause", default)]
    num_teams: u64,
    #[serde(alias = "ThreadLimitClause", default)]
    num_threads: u64,
    #[serde(default)]
    shared_memory_size: u64,
    #[serde(default)]
    loop_trip_count: u64,
    /// Written as a number with a sign.
    arg_ptrs: Vec<Word>,
    #[serde(alias = "BumpAllocVAStart")]
    v_alloc_addr: Option<Word>,
    #[serde(alias = "DeviceMemorySize", default)]
    v_alloc_size: u64,
}

/// A word of 64 bits, with a sign or without.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Word {
    Unsigned(u64),
    Signed(i64),
}

impl Word {
    fn get(self) -> u64 {
        match self {
            Self::Unsigned(n) => n,
            Self::Signed(n) => n.cast_unsigned(),
        }
    }
}

impl Description {
    /// Returns the address of the memory. A file of LLVM 16 does not give it: then it is the argument with the most
    /// arguments in the memory behind it, the highest of several, because numbers are smaller than addresses.
    fn address(&self) -> Option<GpuVa> {
        if let Some(given) = self.v_alloc_addr {
            return Some(GpuVa::new(given.get()));
        }
        let mut words: Vec<u64> = self.arg_ptrs.iter().map(|word| word.get()).collect();
        words.sort_unstable();
        let behind = |at: u64| {
            let end = at.saturating_add(self.v_alloc_size);
            words.partition_point(|w| *w < end) - words.partition_point(|w| *w < at)
        };
        words
            .iter()
            .max_by_key(|at| (behind(**at), **at))
            .map(|at| GpuVa::new(*at))
    }
}

/// Keys of the address or the size of the memory, of which a description has one at least.
const MEMORY_KEYS: [&str; 3] = ["VAllocAddr", "BumpAllocVAStart", "DeviceMemorySize"];

/// Whether a path is the description of such a kernel: a JSON file with its keys.
#[must_use]
pub fn fits(path: &Path) -> bool {
    begins_as_json(path, |text| {
        has_key(text, "ArgPtrs") && MEMORY_KEYS.iter().any(|key| has_key(text, key))
    })
}

/// Describes a JSON file that lacks a key of such a description.
pub(crate) fn describe_close(path: &Path) -> Option<String> {
    let typical = ["VAllocAddr", "BumpAllocVAStart", "LoopTripCount"];
    let format = "a kernel recorded by LLVM's offload library";
    describe_missing_keys(path, format, &typical, &["Name", "ArgPtrs", "VAllocAddr"])
}

/// Returns the other files of a kernel.
#[must_use]
pub fn parts(path: &Path) -> Vec<PathBuf> {
    let Ok(kernel) = RecordedKernel::read(path) else {
        return Vec::new();
    };
    let mut files = list_files(&kernel.database);
    files.push(kernel.file(GLOBALS));
    files
}

/// A kernel, and how its files are called.
struct RecordedKernel {
    database: Database,
    description: Description,
    /// Name of the files without an ending.
    stem: String,
}

impl RecordedKernel {
    fn read(path: &Path) -> Result<Self, ImportError> {
        let description: Description = read_json(path)?;
        let wrong = |message: String| ImportError::malformed(path, FilePosition::Whole, message);
        if description.arg_ptrs.len() > MAX_ARGUMENTS {
            let count = description.arg_ptrs.len();
            return Err(wrong(format!(
                "ArgPtrs has {count} arguments, more than {MAX_ARGUMENTS}"
            )));
        }
        let small = |key: &str, n: u64| u32::try_from(n).map_err(|_| wrong(format!("{key} is {n}, more than 32 bits")));
        // Without a clause, the earlier form has zero.
        let teams = small("NumTeams", description.num_teams)?.max(1);
        let threads = small("NumThreads", description.num_threads)?.max(1);
        let shared = small("SharedMemorySize", description.shared_memory_size)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let folder = path.parent().unwrap_or(Path::new(""));
        let find = |endings: [&str; 2]| {
            let names = [&stem, &description.name];
            let all = endings
                .iter()
                .flat_map(|ending| names.map(|name| format!("{name}.{ending}")));
            let mut existing = all.filter(|name| is_file_name(name) && folder.join(name).is_file());
            existing.next().unwrap_or_else(|| format!("{stem}.{}", endings[0]))
        };
        let base = description.address();
        let base = base.ok_or_else(|| wrong("VAllocAddr is missing, and no argument can stand for it".to_owned()))?;
        let hashes = stem.split_once('_').filter(|(kernel, launch)| {
            let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            is_number(kernel) && is_number(launch)
        });
        let launch = Launch {
            name: Arc::from(description.name.as_str()),
            demangled: "".into(),
            grid: [teams, 1, 1],
            block: [threads, 1, 1],
            shared,
            before: find(BEFORE),
            after: find(AFTER),
            dynamic_hash: hashes.map(|(_, launch)| launch.to_owned()),
            occurrences: None,
        };
        let database = Database {
            path: path.to_owned(),
            source: SOURCE,
            tool: "LLVM offload record replay",
            window: CallWindow {
                base,
                bytes: description.v_alloc_size,
            },
            modules: Vec::new(),
            launches: vec![launch],
            argument_names: Vec::new(),
            static_hash: hashes.map(|(kernel, _)| kernel.to_owned()),
        };
        Ok(Self {
            database: database.validate()?,
            description,
            stem,
        })
    }

    /// Returns the path of the file with an ending.
    fn file(&self, ending: &str) -> PathBuf {
        self.database.path.with_file_name(format!("{}.{ending}", self.stem))
    }
}

/// Whether a name from a file stays in its folder.
fn is_file_name(name: &str) -> bool {
    Path::new(name).file_name() == Some(name.as_ref())
}

/// Imports a kernel.
///
/// # Errors
///
/// When a file cannot be read or does not follow its format, the memory before the kernel is missing, or the work was
/// cancelled.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    let kernel = RecordedKernel::read(path)?;
    let at = kernel.database.window.base;
    let arguments: Vec<Vec<u8>> = kernel
        .description
        .arg_ptrs
        .iter()
        .map(|word| word.get().to_le_bytes().to_vec())
        .collect();
    let globals = kernel.file(GLOBALS);
    let before = |file: &mut Snapshot<'_>, store: &mut MemoryBuilder| {
        let mut state = read_memory(file, at, store)?;
        state.arguments.clone_from(&arguments);
        if globals.is_file() {
            let mut file = Snapshot::open(&globals, progress)?;
            read_globals(&mut file, &mut state, store)?;
        }
        Ok(state)
    };
    let after = |file: &mut Snapshot<'_>, _: &State, store: &mut MemoryBuilder| read_memory(file, at, store);
    let form = Form {
        before: &before,
        after: &after,
    };
    let mut findings = Vec::new();
    let place = format_path(path);
    let mut note = |kind, message: String| findings.push(Finding::new(kind, place.clone(), message));
    for (key, n) in [
        ("teams", kernel.description.num_teams),
        ("threads", kernel.description.num_threads),
    ] {
        if n == 0 {
            note(
                FindingKind::Assumed,
                format!("the file does not give the number of {key}; 1 is assumed"),
            );
        }
    }
    if kernel.description.v_alloc_addr.is_none() {
        let message = format!("the file does not give the address of the memory; {at} is assumed, from the arguments");
        note(FindingKind::Assumed, message);
    }
    if kernel.description.loop_trip_count > 0 {
        let count = kernel.description.loop_trip_count;
        let message = format!("the loop of the target region has {count} iterations, which a launch does not show");
        note(FindingKind::NotUsed, message);
    }
    let is_globals_missing = !globals.is_file();
    let mut recording = build_recording(kernel.database, &form, progress)?;
    if is_globals_missing {
        let message = "the values of globals are missing; a replay uses those of the code";
        findings.push(Finding::new(FindingKind::NotRecorded, format_path(&globals), message));
    }
    recording.metadata.findings.extend(findings);
    Ok(recording)
}

/// Reads the memory of the device: one range.
fn read_memory(file: &mut Snapshot<'_>, at: GpuVa, store: &mut MemoryBuilder) -> Result<State, ImportError> {
    let mut state = State::default();
    let bytes = file.bytes();
    file.check_range(0, at, bytes, "the memory")?;
    if bytes > 0 {
        let content = file.content(0, bytes, at.in_page(), store, "the memory")?;
        state.add_blob(file, 0, at, Blob { content, label: None })?;
    }
    Ok(state)
}

/// Reads the values of globals, in the current form or the earlier one.
fn read_globals(file: &mut Snapshot<'_>, state: &mut State, store: &mut MemoryBuilder) -> Result<(), ImportError> {
    if file.bytes() == 0 {
        return Ok(());
    }
    let count = file.u32("the number of globals")?;
    // A global takes at least 13 bytes. The earlier form begins with a name, which is no such number.
    if u64::from(count) > file.left() / 13 {
        return read_early_globals(file, count, state, store);
    }
    for _ in 0..count {
        let at = file.at();
        let name_bytes = file.u32("the name of a global")?;
        let field = file.at();
        let bytes = file.u64("the size of a global")?;
        let name = file.bytes_of(at, u64::from(name_bytes), MAX_NAME, "the name of a global")?;
        add_global(file, (at, field), &name, bytes, state, store)?;
    }
    file.end()
}

/// Reads globals without a count. The first four bytes are read already.
fn read_early_globals(
    file: &mut Snapshot<'_>,
    first: u32,
    state: &mut State,
    store: &mut MemoryBuilder,
) -> Result<(), ImportError> {
    let mut read = Vec::from(first.to_le_bytes());
    let mut at = 0;
    loop {
        let mut name = std::mem::take(&mut read);
        // A name of one or two letters would have left the start of its size in the bytes that were read.
        if let Some(end) = memchr::memchr(0, &name).filter(|end| end + 1 < name.len()) {
            return Err(file.malformed(
                at,
                format!("the name of a global ends after {end} bytes, before its size"),
            ));
        }
        while name.last() != Some(&0) {
            if name.len() as u64 > MAX_NAME {
                return Err(file.malformed(at, format!("the name of a global has more than {MAX_NAME} bytes")));
            }
            name.push(file.u8("the name of a global")?);
        }
        let field = file.at();
        let bytes = u64::from(file.u32("the size of a global")?);
        add_global(file, (at, field), &name, bytes, state, store)?;
        if file.left() == 0 {
            return Ok(());
        }
        at = file.at();
    }
}

/// Reads the bytes of a global. The positions are those of its entry and of its size.
fn add_global(
    file: &mut Snapshot<'_>,
    (at, field): (u64, u64),
    name: &[u8],
    bytes: u64,
    state: &mut State,
    store: &mut MemoryBuilder,
) -> Result<(), ImportError> {
    let name = name.strip_suffix(&[0]).unwrap_or(name);
    let content = file.content(field, bytes, 0, store, "a global")?;
    let name = String::from_utf8_lossy(name).into_owned();
    state.add_variable(file, at, name, Variable { at: None, content })
}

//! Names that the program gives to memory: unique in the recording, and passed from host memory to its copies.

use crate::process_memory::HostAddr;
use crate::trace::{Trace, When, lock};
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use trace_core::GpuVa;
use trace_core::api_trace::MAX_NAMED_BUFFERS;
use trace_core::recording::{BufferName, BufferShape, CopyKind, CopyRow, NAME_BUFFER_CALL, check_buffer_name};

/// Maximum number of host buffers with a name, and of names that wait for the recorded range.
const MAX_WAITING: usize = 4096;

/// Why an annotation was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Nothing is recorded now.
    NotRecorded,
    /// An argument is not valid.
    Invalid,
    /// There are too many names.
    TooMany,
}

/// A name of memory before its address is known to be one of the device.
#[derive(Clone, Debug)]
pub(crate) struct GivenName {
    pub name: String,
    pub form: Option<BufferShape>,
}

/// Names of memory so far.
#[derive(Debug, Default)]
pub(crate) struct Annotations {
    /// Host memory has names, so that copies must be looked at.
    has_host_names: AtomicBool,
    tables: Mutex<NameTables>,
}

#[derive(Debug, Default)]
struct NameTables {
    /// Memory of each name, unique.
    memory: HashMap<String, (GpuVa, u64)>,
    /// Number of times that a name was given to other memory.
    repeats: HashMap<String, u32>,
    /// Last name of each memory, as it was given.
    last: BTreeMap<(GpuVa, u64), String>,
    host: BTreeMap<(HostAddr, u64), GivenName>,
    /// Names that were given while nothing was recorded.
    waiting: Vec<(GpuVa, u64, GivenName)>,
    is_full: bool,
}

impl NameTables {
    /// Returns the unique form of a name for this memory: the name itself, or `x #2` if other memory has it.
    fn unique_name(&mut self, name: &str, memory: (GpuVa, u64)) -> Result<String, Refusal> {
        let mut unique = name.to_owned();
        while let Some(known) = self.memory.get(&unique) {
            if *known == memory {
                return Ok(unique);
            }
            let repeats = self.repeats.entry(name.to_owned()).or_insert(1);
            *repeats = repeats.saturating_add(1);
            unique = format!("{name} #{repeats}");
        }
        if self.memory.len() >= MAX_NAMED_BUFFERS {
            return Err(Refusal::TooMany);
        }
        check_buffer_name(&unique).map_err(|_| Refusal::Invalid)?;
        self.memory.insert(unique.clone(), memory);
        Ok(unique)
    }
}

impl Annotations {
    /// Names device memory.
    ///
    /// # Errors
    /// If nothing is recorded now, or the name cannot be unique.
    pub fn name_device(&self, trace: &Trace, at: GpuVa, bytes: u64, given: GivenName) -> Result<(), Refusal> {
        let mut tables = lock(&self.tables);
        if !trace.is_recorded(When::Launch) {
            if !trace.is_recorded(When::Known) {
                return Err(Refusal::NotRecorded);
            }
            if tables.waiting.len() >= MAX_WAITING {
                return Err(Refusal::TooMany);
            }
            tables.waiting.push((at, bytes, given));
            return Ok(());
        }
        let name = match tables.unique_name(&given.name, (at, bytes)) {
            Ok(name) => name,
            Err(refusal) => {
                if refusal == Refusal::TooMany && !tables.is_full {
                    tables.is_full = true;
                    let why =
                        format!("the program named more than {MAX_NAMED_BUFFERS} buffers: further ones have no name");
                    trace.note_not_recorded("names", why);
                }
                return Err(refusal);
            }
        };
        tables.last.insert((at, bytes), given.name);
        let form = given.form;
        let call = BufferName { name, at, bytes, form };
        drop(tables);
        trace.annotate(NAME_BUFFER_CALL, call.encode());
        Ok(())
    }

    /// Names memory of the host: the device memory of its copies gets the name.
    ///
    /// # Errors
    /// If nothing can be recorded any more, or there are too many names.
    pub fn name_host(&self, trace: &Trace, at: HostAddr, bytes: u64, given: GivenName) -> Result<(), Refusal> {
        if !trace.is_recorded(When::Known) {
            return Err(Refusal::NotRecorded);
        }
        let mut tables = lock(&self.tables);
        let key = (at, bytes);
        if tables.host.len() >= MAX_WAITING && !tables.host.contains_key(&key) {
            return Err(Refusal::TooMany);
        }
        tables.host.insert(key, given);
        self.has_host_names.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Hands over the names that were given before the recorded range began.
    pub fn enter_range(&self, trace: &Trace) {
        let waiting = std::mem::take(&mut lock(&self.tables).waiting);
        for (at, bytes, given) in waiting {
            // A name that cannot be unique is left out.
            let _ = self.name_device(trace, at, bytes, given);
        }
    }

    /// Names the device memory of a copy, if the host memory of the copy has a name.
    pub fn follow_copy(&self, trace: &Trace, row: &CopyRow) {
        if !self.has_host_names.load(Ordering::Relaxed) {
            return;
        }
        let host = match CopyKind::from_raw(row.kind) {
            Some(CopyKind::HostToDevice) => row.from,
            Some(CopyKind::DeviceToHost) => row.to,
            _ => return,
        };
        let Some(bytes) = row.total() else { return };
        let at = row.device();
        let tables = lock(&self.tables);
        let Some(given) = tables.host.get(&(HostAddr::new(host), bytes)) else {
            return;
        };
        if tables.last.get(&(at, bytes)) == Some(&given.name) {
            return;
        }
        let given = given.clone();
        drop(tables);
        // A copy whose memory cannot have the name keeps its automatic one.
        let _ = self.name_device(trace, at, bytes, given);
    }
}

//! Index of one side's calls before the alignment: ids that mean the same on both sides, names of transfers, and
//! digests of call contents.

use crate::GpuVa;
use crate::api_trace::{ApiTrace, Value, has_succeeded};
use crate::progress::{Cancelled, Progress};
use crate::recording::{CallEvent, CopyKind, CopyRow, LaunchRow, OrderRow, PageId, Recording};
use std::collections::{BTreeSet, HashMap};

/// Value of the identity's source in the recording of a replay.
const OUTCOME: &str = "outcome";

/// Host addresses as Linux gives them to programs. A value in this range on both sides differs between any two runs.
const HOST: std::ops::RangeInclusive<u64> = 0x5500_0000_0000..=0x7fff_ffff_ffff;

/// The index of one side.
pub(crate) struct CallIndex {
    pub(super) api_trace: ApiTrace,
    /// Ids of functions and of call names that mean the same on both sides.
    functions: Vec<u32>,
    names: Vec<u32>,
    /// Numbers of transfers by direction (`true`: to the device), address and size in bytes.
    carried: HashMap<(bool, u64, u64), usize>,
    /// Whether one side is a replay, which makes only calls that have an effect.
    played: bool,
    /// Names of snapshots that a replay did not take.
    untaken: BTreeSet<String>,
}

/// Indexes the calls of two API traces; returns `None` if one of them is not an API trace.
///
/// # Errors
/// If the work was cancelled.
pub(crate) fn index_calls(
    a: &Recording,
    b: &Recording,
    progress: &Progress,
) -> Result<Option<(CallIndex, CallIndex)>, Cancelled> {
    let none = |r: &Recording| {
        let e = &r.events;
        e.launches.is_empty() && e.copies.is_empty() && e.fills.is_empty() && e.calls.is_empty()
    };
    if none(a) || none(b) {
        return Ok(None);
    }
    let (Some(x), Some(y)) = (
        ApiTrace::from_recording(a, progress)?,
        ApiTrace::from_recording(b, progress)?,
    ) else {
        return Ok(None);
    };
    let functions = |c: &ApiTrace| {
        c.metadata()
            .functions
            .iter()
            .map(|f| f.name.clone())
            .collect::<Vec<_>>()
    };
    let (fx, fy) = numbers(&functions(&x), &functions(&y));
    let (nx, ny) = numbers(&x.metadata().names, &y.metadata().names);
    let played = [a, b].iter().any(|r| r.metadata.identity.source == OUTCOME);
    let untaken: BTreeSet<String> = match played {
        true => {
            let (x, y) = (snapshot_names(a, &x), snapshot_names(b, &y));
            x.symmetric_difference(&y).map(|name| (*name).to_owned()).collect()
        }
        false => BTreeSet::new(),
    };
    let of = |r: &Recording, api_trace: ApiTrace, functions: Vec<u32>, names: Vec<u32>| CallIndex {
        api_trace,
        functions,
        names,
        carried: number_copies(r),
        played,
        untaken: untaken.clone(),
    };
    Ok(Some((of(a, x, fx, nx), of(b, y, fy, ny))))
}

/// Returns the names of the snapshots that have pieces.
fn snapshot_names<'a>(recording: &Recording, api_trace: &'a ApiTrace) -> BTreeSet<&'a str> {
    let pieces = (0..recording.events.len())
        .filter(|at| matches!(recording.events.call(*at), Some(CallEvent::Copy(row)) if is_piece(&row)));
    pieces.filter_map(|at| snapshot_at(api_trace, at as u64)).collect()
}

/// Returns the name of the snapshot that an event belongs to, or starts.
fn snapshot_at(api_trace: &ApiTrace, event: u64) -> Option<&str> {
    let n = api_trace.snapshots().partition_point(|s| s.0 <= event).checked_sub(1)?;
    api_trace.snapshots().get(n).map(|s| s.1.as_str())
}

/// Assigns ids to names: equal names get equal ids, whichever side is first.
fn numbers(a: &[String], b: &[String]) -> (Vec<u32>, Vec<u32>) {
    let mut all: Vec<&String> = a.iter().chain(b).collect();
    all.sort_unstable();
    all.dedup();
    let of = |list: &[String]| {
        let number = |n: &String| u32::try_from(all.partition_point(|x| *x < n)).unwrap_or(u32::MAX);
        list.iter().map(number).collect()
    };
    (of(a), of(b))
}

/// Numbers the transfers to and from the host, in address order, as a replay does.
fn number_copies(recording: &Recording) -> HashMap<(bool, u64, u64), usize> {
    let mut all = HashMap::new();
    let mut counts = [0usize; 2];
    for at in 0..recording.events.len() {
        let Some(CallEvent::Copy(row)) = recording.events.call(at) else {
            continue;
        };
        let (Some((to_device, at, bytes)), true) = (copy_key(&row), has_succeeded(&CallEvent::Copy(row))) else {
            continue;
        };
        let [out, into] = &mut counts;
        let count = if to_device { into } else { out };
        all.entry((to_device, at, bytes)).or_insert_with(|| {
            *count += 1;
            *count - 1
        });
    }
    all
}

/// Returns the key of a program's transfer between host and device: direction (true: to the device), device address
/// and size in bytes.
fn copy_key(row: &CopyRow) -> Option<(bool, u64, u64)> {
    let to_device = match CopyKind::from_raw(row.kind)? {
        CopyKind::HostToDevice => true,
        CopyKind::DeviceToHost if !is_piece(row) => false,
        _ => return None,
    };
    Some((to_device, row.device().get(), row.total()?))
}

impl CallIndex {
    /// Returns the id of a function, the same on both sides.
    pub fn function(&self, index: u32) -> u32 {
        numbered(&self.functions, index)
    }

    /// Returns the id of a call's name, the same on both sides.
    pub fn call_name(&self, index: u32) -> u32 {
        numbered(&self.names, index)
    }

    /// Returns whether a call is not compared: if one side is a replay, calls that no replay makes.
    pub fn is_excluded(&self, event: u64, call: &CallEvent) -> bool {
        let untaken = || snapshot_at(&self.api_trace, event).is_some_and(|name| self.untaken.contains(name));
        self.played
            && match call {
                CallEvent::Call(row) => {
                    let name = self.api_trace.metadata().names.get(row.name as usize);
                    !name.is_some_and(|n| n.starts_with("snapshot")) || untaken()
                }
                CallEvent::Copy(row) if is_piece(row) => untaken(),
                call => !has_succeeded(call),
            }
    }

    /// Returns the name of a copy's content: the name that the program gave, `in0`, `out3`, or the memory that it refers to.
    pub(super) fn name(&self, event: u64, row: &CopyRow) -> String {
        let given = copy_key(row).and_then(|(_, at, bytes)| {
            let annotations = self.api_trace.annotations();
            annotations.name_of(GpuVa::new(at), bytes, event)
        });
        if let Some(given) = given {
            return given.name.name.clone();
        }
        let number = copy_key(row).and_then(|c| Some((c.0, *self.carried.get(&c)?)));
        match number {
            Some((true, n)) => format!("in{n}"),
            Some((false, n)) => format!("out{n}"),
            None => self.api_trace.buffers().format_address(row.device(), event),
        }
    }

    /// Returns a digest of a call's content: the pages of a copy, or the arguments of a launch without the addresses
    /// in them. Calls with equal digests carry the same content, except for differences in addresses.
    pub fn content_digest(&self, recording: &Recording, event: usize, call: &CallEvent) -> u64 {
        match call {
            // Snapshot contents are compared by buffer, wherever they are in the snapshot.
            CallEvent::Copy(row) if is_piece(row) => 0,
            CallEvent::Copy(row) => content(recording, row),
            CallEvent::Launch(row) => self.arguments(recording, event as u64, row),
            _ => 0,
        }
    }

    fn arguments(&self, recording: &Recording, event: u64, row: &LaunchRow) -> u64 {
        let mut digest = 1;
        for argument in self.api_trace.arguments(recording, event, row) {
            let mut take = |word: u64| digest = mix(digest, word);
            match &argument.value {
                Value::Pointer { place: Some(place), .. } => take(place.offset),
                Value::Pointer { to, .. } => take(u64::from(*to == GpuVa::ZERO)),
                Value::Bytes(places) => {
                    for (word, at) in argument.raw.chunks(8).zip((0u32..).step_by(8)) {
                        let number = number(word);
                        match places.iter().find(|p| p.0 == at) {
                            Some((.., place)) => take(place.offset),
                            None if is_host_address(number) => take(2),
                            None => take(number),
                        }
                    }
                }
                Value::Bits(bits) if is_host_address(*bits) => take(2),
                Value::Missing => take(3),
                _ => take(number(&argument.raw)),
            }
        }
        digest
    }
}

/// Returns whether a copy is a piece of a snapshot: it belongs to no stream.
pub(crate) fn is_piece(row: &CopyRow) -> bool {
    row.stream == OrderRow::NONE && row.kind == CopyKind::DeviceToHost as u32
}

/// Returns whether a word looks like a host address.
pub(super) fn is_host_address(word: u64) -> bool {
    HOST.contains(&word)
}

/// Mixes a value into a digest.
pub(crate) fn mix(digest: u64, with: u64) -> u64 {
    let m = u128::from(digest ^ with) * 0x9e37_79b9_7f4a_7c15;
    (m as u64 ^ (m >> 64) as u64).wrapping_add(0xf39c_c060_5ced_c835)
}

fn numbered(numbers: &[u32], index: u32) -> u32 {
    // A function that the metadata does not list keeps an id of its own.
    let own = u32::MAX.wrapping_sub(index);
    numbers.get(index as usize).copied().unwrap_or(own)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |n, b| n << 8 | u64::from(*b))
}

/// Returns a digest of the pages that hold a copy's content, without reading the pages themselves.
fn content(recording: &Recording, row: &CopyRow) -> u64 {
    let Some(pages) = recording.copy_pages(row) else {
        return 0;
    };
    // The start offset in the first page counts: the same pages hold other bytes from another offset.
    let mut digest = mix(4, row.device().get() % crate::PAGE_SIZE as u64);
    for id in recording.events.call_pages.iter_range(pages) {
        let word = match recording.memory.pages.digest(PageId(id)) {
            Some(d) => number(&d),
            None => 5,
        };
        digest = mix(digest, word);
    }
    digest
}

//! Rings of a dump: the commands that the GPU had not done become a job for each ring, with their register writes.

use super::GPU;
use super::objects::{DumpedObject, GPU_SPACE, place};
use crate::core_dumps::dump_contents::{DumpContents, parse_hex};
use crate::rd::pm4::{self, Buffers, RegisterWrite, Walk};
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{Access, EventsBuilder, SubmitRow};
use trace_core::registers::RegisterMap;
use trace_core::{GpuVa, RegOffset};

/// Maximum number of rings.
const MAX_RINGS: usize = 16;
/// Maximum size of a ring, bytes.
const MAX_RING_BYTES: u64 = 16 << 20;
/// Number of words before the read pointer in which the packet that the GPU executes may begin.
const LOOKBACK_WORDS: u64 = 20;
/// Maximum number of executed command words per word of the dump, and in total.
const WALKED_A_WORD: u64 = 64;
const MAX_WALKED: u64 = 1 << 26;

/// A ring.
struct Ring {
    line: u64,
    id: u64,
    va: GpuVa,
    /// Numbers of the last submit and of the last one that ended.
    fences: Option<(u64, u64)>,
    /// Words that the GPU reads and the driver writes next.
    pointers: Option<(u64, u64)>,
    words: Vec<u32>,
}

/// The rings of a dump.
#[derive(Default)]
pub(super) struct Rings {
    rings: Vec<Ring>,
    /// Contents of the buffers.
    pub buffers: Buffers,
    /// Name of the process.
    pub process: String,
}

impl Rings {
    /// Adds a ring, and stores it in memory.
    pub(super) fn add(&mut self, object: DumpedObject, contents: &mut DumpContents) {
        let id = object.id.unwrap_or(self.rings.len() as u64);
        let mut words: Vec<u32> = Vec::new();
        if let Some(data) = &object.data {
            let read = |word: &[u8]| word.iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
            let max = usize::try_from(MAX_RING_BYTES / 4).unwrap_or(0);
            words = data.chunks_exact(4).take(max).map(read).collect();
            let bytes = object.bytes.unwrap_or(0).min(MAX_RING_BYTES);
            let size = usize::try_from(bytes / 4).unwrap_or(0);
            if words.len() < size && !object.is_cut {
                words.resize(size, 0);
            }
        }
        let ring = Ring {
            line: object.line,
            id,
            va: GpuVa::new(object.iova.unwrap_or_default()),
            fences: object.last_fence.zip(object.retired_fence),
            pointers: object.rptr.zip(object.wptr),
            words,
        };
        if self.rings.len() < MAX_RINGS {
            self.rings.push(ring);
        } else {
            contents.count_unused_line(object.line, "rings beyond the sixteenth");
        }
        object.store(GPU_SPACE, &format!("ring {id}"), contents);
    }

    /// Adds the jobs of the rings, and reports them.
    pub(super) fn run(&self, generation: u32, contents: &mut DumpContents, events: &mut EventsBuilder) {
        let held: usize = self.buffers.values().map(Vec::len).sum::<usize>() / 4;
        let mut left = (held as u64 + 4096).saturating_mul(WALKED_A_WORD).min(MAX_WALKED);
        let gpu = contents.space(GPU).unwrap_or(0);
        for ring in &self.rings {
            events.mark(0, ring.describe());
            if !ring.is_busy() {
                continue;
            }
            let (start, words) = ring.pending_words(generation);
            let (address_space, head_va) = place(ring.va.saturating_add(start.saturating_mul(4)));
            let slot = u32::try_from(ring.id).unwrap_or(u32::MAX);
            let event = events.len() as u64;
            let row = SubmitRow {
                head_va,
                address_space,
                slot,
            };
            events.submit(0, row);
            let mut writes = 0u64;
            let mut write = |w: RegisterWrite| {
                writes += 1;
                let access = Access {
                    space: gpu,
                    write: true,
                    offset: RegOffset::new(w.register * 4),
                    width: 4,
                    value: u64::from(w.value),
                };
                events.access(0, 0, access);
            };
            let mut walk = Walk::new(&self.buffers, generation, pm4::every_mode(), left, &mut write);
            walk.ring_words(&words);
            let (walked, _, still) = walk.end();
            left = still;
            let place = format!("line {}", ring.line);
            let process = match self.process.is_empty() {
                true => String::new(),
                false => format!(" of {}", self.process),
            };
            let message = format!("the GPU had not done all commands{process}: {}", ring.describe());
            let finding = Finding::new(FindingKind::DriverError, place.clone(), message);
            contents.findings.push(finding.at_event(event));
            let message = match words.is_empty() {
                true => "the dump holds no commands of the ring: its job has no writes".to_owned(),
                false => format!(
                    "the {writes} writes of the job are those of the commands in ring {} from word {start} on, up to \
                     the driver's write pointer; the dump does not tell which of them the GPU executed. {} conditions \
                     are assumed to be met, {} packets write values that they do not contain, {} indirect buffers are \
                     not in the dump, and {} words begin no packet",
                    ring.id, walked.conditions, walked.computed, walked.missing, walked.no_packet
                ),
            };
            contents
                .findings
                .push(Finding::new(FindingKind::Assumed, place.clone(), message));
            if walked.endless {
                let message =
                    "the commands lead to more commands than a dump of this size can have; the rest is not used";
                contents
                    .findings
                    .push(Finding::new(FindingKind::NotUsed, place, message));
            }
        }
    }
}

impl Ring {
    fn describe(&self) -> String {
        let fences = self.fences.map_or_else(String::new, |(last, retired)| {
            format!(", submitted fence {last}, completed fence {retired}")
        });
        let pointers = self.pointers.map_or_else(String::new, |(rptr, wptr)| {
            format!(", read pointer {rptr}, write pointer {wptr}")
        });
        format!("ring {} at {:#x}{fences}{pointers}", self.id, self.va.get())
    }

    /// Whether the GPU had commands to do.
    fn is_busy(&self) -> bool {
        self.fences.is_some_and(|(last, retired)| last != retired)
            || self.pointers.is_some_and(|(rptr, wptr)| rptr != wptr)
    }

    /// Returns the words that the GPU had not read, and those of the packet that it executed: the number of the first
    /// one, and their values. The ring begins again at its end.
    fn pending_words(&self, generation: u32) -> (u64, Vec<u32>) {
        let (rptr, wptr) = self.pointers.unwrap_or_default();
        let size = self.words.len() as u64;
        if size == 0 || rptr >= size || wptr >= size {
            return (rptr, Vec::new());
        }
        let word = |at: u64| {
            usize::try_from(at % size)
                .ok()
                .and_then(|at| self.words.get(at))
                .copied()
        };
        // Headers have parity bits from the fifth generation on, so the one before the read pointer can be found.
        let lookback = if generation >= 5 {
            LOOKBACK_WORDS.min(size - 1)
        } else {
            0
        };
        let is_header = |back: &u64| word(rptr + size - back).is_some_and(pm4::is_checked_header);
        let back = (1..=lookback).rev().find(is_header).unwrap_or(0);
        let start = (rptr + size - back) % size;
        let count = (wptr + size - start) % size;
        (start, (0..count).filter_map(|n| word(start + n)).collect())
    }
}

/// Reports a fault of the GPU, with the buffer at its address.
pub(super) fn report_fault(lines: &[String], contents: &mut DumpContents) {
    if lines.is_empty() {
        return;
    }
    let address = |line: &String| {
        let value = ["iova", "far"].iter().find_map(|key| line.strip_prefix(key))?;
        parse_hex(value.trim_start_matches(['=', ':', ' ']).trim_start_matches("0x"))
    };
    let found = lines.iter().find_map(address).map(|at| {
        let (space, va) = place(GpuVa::new(at));
        format!("; the address is {}", contents.memory.describe_place(space, va))
    });
    let message = format!("a fault of the GPU: {}{}", lines.join(", "), found.unwrap_or_default());
    contents
        .findings
        .push(Finding::new(FindingKind::DriverError, "fault-info", message));
}

/// Adds a note about where the command processor was, by its registers.
pub(super) fn add_position(contents: &mut DumpContents, gpu_id: u32) {
    let Some(map) = RegisterMap::for_gpu(gpu_id) else {
        return;
    };
    let value = |name: &str| {
        let read = |name: &str| {
            let register = map.find_by_name(name)?;
            contents.find_read(GPU, register.offset.get()).map(u64::from)
        };
        let low = read(name).or_else(|| read(&format!("{name}_LO")))?;
        Some(read(&format!("{name}_HI")).unwrap_or(0) << 32 | low)
    };
    let level = |name: &str| {
        let base = value(&format!("CP_{name}_BASE"))?;
        let rest = value(&format!("CP_{name}_REM_SIZE")).or_else(|| value(&format!("CP_{name}_BUFSZ")));
        let rest = rest.map_or_else(String::new, |n| format!(", {n} words left"));
        Some(format!("{name} at {base:#x}{rest}"))
    };
    let levels: Vec<String> = ["IB1", "IB2"].iter().filter_map(|name| level(name)).collect();
    if !levels.is_empty() {
        contents.head.push(format!("command processor: {}", levels.join("; ")));
    }
}

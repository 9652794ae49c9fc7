//! The signal changes of each event: registers with their known bits, jobs, interrupts, memory.

pub(crate) use crate::value::Value;

use crate::locations::{AccessedBytes, Location, Locations};
use crate::{ExportSummary, Source, WavesError};
use std::collections::HashMap;
use trace_core::RegOffset;
use trace_core::progress::Progress;
use trace_core::recording::{DmaMapRow, EventKind};
use trace_core::registers::RecordedRegisters;

/// Number of events between two checks for cancellation.
const STEP: u64 = 1 << 14;

/// The subject of a signal, in the order of viewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    /// Index of the latest event.
    Event,
    /// Number of marks so far.
    Marks,
    /// Whether the slot runs a job.
    Running(u8),
    /// The latest job submitted to the slot.
    Job(u8),
    /// GPU address of the chain that a submit event names.
    Head(u32),
    /// Submit events of a slot so far.
    Submits(u32),
    /// Status of the latest interrupt of a line.
    Status(u32),
    /// Interrupts of a line so far.
    Interrupts(u32),
    /// Physical address of the latest CPU write.
    HostWriteAt,
    /// Size of the latest CPU write, bytes.
    HostWriteBytes,
    /// Bus address of the latest DMA mapping.
    DmaBus,
    /// Size of the latest DMA mapping, bytes.
    DmaBytes,
    /// A register of the map, or a location that the map does not name.
    Register { at: Location, of: RegisterSignal },
}

impl Key {
    /// Returns the value before the first event: a count is 0, and no job runs. All other values are unknown.
    pub fn initial_value(self) -> Value {
        match self {
            Self::Marks | Self::Running(_) | Self::Submits(_) | Self::Interrupts(_) => Value::from_bits(0),
            Self::Register {
                of: RegisterSignal::Reads | RegisterSignal::Writes,
                ..
            } => Value::from_bits(0),
            _ => Value::default(),
        }
    }
}

/// The signals of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RegisterSignal {
    /// The latest value read or written.
    Value,
    /// Number of reads so far.
    Reads,
    /// Number of writes so far.
    Writes,
}

fn bytes_of(bits: u32) -> u8 {
    bits.div_ceil(8).clamp(1, 8) as u8
}

/// The receiver of a walk's changes.
pub(crate) trait ChangeSink {
    /// Returns the signals that are known before the walk, with their numbers of bits. Their values follow all accesses
    /// from the first event on.
    fn known_signals(&self) -> Vec<(Key, u32)> {
        Vec::new()
    }
    /// Starts an event; times never decrease.
    fn event(&mut self, event: usize, time: u64) -> Result<(), WavesError>;
    /// Whether to keep the state of a signal. No state is kept for a refused signal, and the receiver counts what is
    /// left out.
    fn admit(&mut self, key: Key, bits: u32) -> bool;
    /// Sets the value of a signal of `bits` bits from now on.
    fn change(&mut self, key: Key, bits: u32, value: Value) -> Result<(), WavesError>;
}

/// A point in time of something that is not an event of the recording.
#[derive(Clone, Copy, Debug)]
enum Derived {
    Begin { slot: u8, job: u32 },
    End { slot: u8 },
    Interrupt { line: u32, status: u64 },
}

/// Walks through the selected events in order.
pub(crate) fn walk(
    source: &Source<'_>,
    progress: &Progress,
    to: &mut dyn ChangeSink,
) -> Result<ExportSummary, WavesError> {
    let events = &source.recording.events;
    let len = events.len();
    let is_match = |event: u64| source.events.is_none_or(|s| s.contains(event));
    let mut derived: Vec<(u64, Derived)> = Vec::new();
    for job in source.timeline.jobs.iter().filter(|j| is_match(j.submit_event)) {
        let slot = job.slot;
        derived.push((job.submit_event, Derived::Begin { slot, job: job.index }));
        derived.extend(job.done_event.map(|e| (e, Derived::End { slot })));
    }
    for i in &source.timeline.interrupts {
        let recorded = usize::try_from(i.event).is_ok_and(|e| events.interrupt(e).is_some());
        if is_match(i.event) && !recorded {
            let (line, status) = (i.line as u32, i.status);
            derived.push((i.event, Derived::Interrupt { line, status }));
        }
    }
    derived.retain(|(event, _)| *event < len as u64);
    derived.sort_by_key(|(event, _)| *event);

    let mut walk = Walk {
        source,
        device: RecordedRegisters::new(source.recording),
        counts: HashMap::new(),
        locations: Locations::default(),
        changed: Vec::new(),
        running: HashMap::new(),
        latest: 0,
        done: ExportSummary::default(),
        to,
    };
    for (key, bits) in walk.to.known_signals() {
        if let Key::Register {
            at,
            of: RegisterSignal::Value,
        } = key
        {
            walk.locations.add(at, bytes_of(bits));
        }
    }
    let selected: Box<dyn Iterator<Item = usize> + '_> = match source.events {
        Some(s) => Box::new(
            s.iter()
                .filter_map(|e| usize::try_from(e).ok())
                .take_while(|e| *e < len),
        ),
        None => Box::new(0..len),
    };
    progress.set_total(source.events.map_or(len as u64, |s| s.len()));
    let mut derived = derived.into_iter().peekable();
    for event in selected {
        walk.done.events += 1;
        if walk.done.events.is_multiple_of(STEP) {
            progress.advance(STEP)?;
        }
        while let Some((at, what)) = derived.next_if(|(at, _)| *at < event as u64) {
            walk.begin(at as usize)?;
            walk.derived(what)?;
        }
        walk.begin(event)?;
        walk.to.change(Key::Event, 64, Value::from_bits(event as u64))?;
        walk.event(event)?;
        while let Some((_, what)) = derived.next_if(|(at, _)| *at <= event as u64) {
            walk.derived(what)?;
        }
    }
    for (at, what) in derived {
        walk.begin(at as usize)?;
        walk.derived(what)?;
    }
    progress.check()?;
    Ok(walk.done)
}

struct Walk<'a, 'b> {
    source: &'a Source<'a>,
    device: Option<RecordedRegisters>,
    counts: HashMap<Key, u32>,
    locations: Locations,
    /// Locations of the current access, empty between two.
    changed: Vec<(Location, u32, Value)>,
    running: HashMap<u8, u32>,
    latest: u64,
    done: ExportSummary,
    to: &'b mut dyn ChangeSink,
}

impl Walk<'_, '_> {
    fn begin(&mut self, event: usize) -> Result<(), WavesError> {
        let time = self.source.time(event);
        if time < self.latest {
            self.done.held_back += 1;
        }
        self.latest = self.latest.max(time);
        self.to.event(event, self.latest)
    }

    fn event(&mut self, event: usize) -> Result<(), WavesError> {
        let events = &self.source.recording.events;
        match events.kind(event) {
            Some(EventKind::Read | EventKind::Write) => {
                if let Some(a) = events.access(event) {
                    self.access(a.space, a.offset.get(), a.width, Some(a.write), Some(a.value))?;
                }
            }
            Some(EventKind::Undecoded) => {
                if let Some(u) = events.undecoded(event) {
                    let space = events.space.get(event).unwrap_or(0);
                    self.access(space, u.offset.get(), u.width().unwrap_or(1), u.write(), None)?;
                }
            }
            Some(EventKind::Interrupt) => {
                if let Some(i) = events.interrupt(event) {
                    let (line, status) = (i.line, u64::from(i.status));
                    self.derived(Derived::Interrupt { line, status })?;
                }
            }
            Some(EventKind::Mark) => self.count(Key::Marks)?,
            Some(EventKind::Submit) => {
                if let Some(s) = events.submit(event) {
                    self.to
                        .change(Key::Head(s.slot), 64, Value::from_bits(s.head_va.get()))?;
                    self.count(Key::Submits(s.slot))?;
                }
            }
            Some(EventKind::HostWrite) => {
                if let Some(w) = events.host_write(event) {
                    self.to.change(Key::HostWriteAt, 64, Value::from_bits(w.at.get()))?;
                    self.to
                        .change(Key::HostWriteBytes, 32, Value::from_bits(u64::from(w.bytes)))?;
                }
            }
            Some(EventKind::DmaMap) => {
                if let Some(d) = events.dma_map(event) {
                    let known = if d.bus == DmaMapRow::UNKNOWN { 0 } else { u64::MAX };
                    self.to.change(
                        Key::DmaBus,
                        64,
                        Value {
                            bits: d.bus.get(),
                            known,
                        },
                    )?;
                    self.to.change(Key::DmaBytes, 64, Value::from_bits(d.bytes))?;
                }
            }
            // Driver calls are no signals; Perfetto's format shows them.
            Some(_) | None => {}
        }
        Ok(())
    }

    /// Handles an access whose value may be unknown; `write` says whether it was a write, if known.
    fn access(
        &mut self,
        space: u8,
        offset: u32,
        width: u8,
        write: Option<bool>,
        value: Option<u64>,
    ) -> Result<(), WavesError> {
        let width = width.clamp(1, 8);
        let mut named = false;
        if let Some(d) = self.device.filter(|d| d.space() == space) {
            for part in d.map().covered_registers(RegOffset::new(offset), width) {
                named = true;
                let at = Location {
                    space,
                    offset: part.register.offset.get(),
                    known: true,
                };
                self.count_access(at, part.register.width, write)?;
            }
        }
        if !named {
            let known = false;
            self.count_access(Location { space, offset, known }, width, write)?;
        }
        let bytes = AccessedBytes {
            offset,
            bytes: width,
            value,
        };
        let mut changed = std::mem::take(&mut self.changed);
        self.locations.set(space, bytes, &mut changed);
        for (at, bits, value) in changed.drain(..) {
            let of = RegisterSignal::Value;
            self.to.change(Key::Register { at, of }, bits, value)?;
        }
        self.changed = changed;
        Ok(())
    }

    /// Adds an accessed location, if it has a signal, and counts the access.
    fn count_access(&mut self, at: Location, bytes: u8, write: Option<bool>) -> Result<(), WavesError> {
        let key = |of| Key::Register { at, of };
        if self.to.admit(key(RegisterSignal::Value), u32::from(bytes) * 8) {
            self.locations.add(at, bytes);
        }
        match write {
            Some(true) => self.count(key(RegisterSignal::Writes)),
            Some(false) => self.count(key(RegisterSignal::Reads)),
            None => Ok(()),
        }
    }

    fn derived(&mut self, what: Derived) -> Result<(), WavesError> {
        match what {
            Derived::Begin { slot, job } => {
                let n = self.running.entry(slot).or_default();
                *n = n.saturating_add(1);
                self.to.change(Key::Running(slot), 1, Value::from_bits(1))?;
                self.to.change(Key::Job(slot), 32, Value::from_bits(u64::from(job)))
            }
            Derived::End { slot } => {
                let n = self.running.entry(slot).or_default();
                *n = n.saturating_sub(1);
                let still = u64::from(*n > 0);
                self.to.change(Key::Running(slot), 1, Value::from_bits(still))
            }
            Derived::Interrupt { line, status } => {
                self.to.change(Key::Status(line), 64, Value::from_bits(status))?;
                self.count(Key::Interrupts(line))
            }
        }
    }

    fn count(&mut self, key: Key) -> Result<(), WavesError> {
        if !self.to.admit(key, 32) {
            return Ok(());
        }
        let n = self.counts.entry(key).or_default();
        *n = n.wrapping_add(1);
        let n = u64::from(*n);
        self.to.change(key, 32, Value::from_bits(n))
    }
}

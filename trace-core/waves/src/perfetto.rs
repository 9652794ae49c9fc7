//! Perfetto traces: jobs and phases as slices, accesses and all other events as instants, registers as counters.
//!
//! The format is the published one: a message `Trace` of packets (`protos/perfetto/trace/perfetto_trace.proto`). Tracks
//! are described before their first use, and names are interned.

use crate::changes::{ChangeSink, Key, RegisterSignal, Value, walk};
use crate::names::{Signal, signals};
use crate::protobuf::Message;
use crate::{Clock, ExportSummary, MAX_LANES, MAX_SIGNALS, MAX_THREADS, Source, WavesError};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use trace_core::families::{JobForm, job_form};
use trace_core::progress::Progress;
use trace_core::recording::{ApiTraceMetadata, EventKind, InterruptLine};
use trace_core::registers::RecordedRegisters;
use trace_core::timeline::{JobSpan, Timeline};

/// The process of all tracks. It is no real process: threads keep their recorded numbers.
const PID: u64 = 1;
/// The only packet sequence.
const SEQUENCE: u64 = 1;

/// Field numbers of `Trace`, `TracePacket`, `TrackDescriptor` and `TrackEvent` in the schema.
mod field {
    pub const PACKET: u32 = 1;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE_ID: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const INTERNED: u32 = 12;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const TRACK_DESCRIPTOR: u32 = 60;

    pub const TRACK_UUID: u32 = 1;
    pub const TRACK_NAME: u32 = 2;
    pub const TRACK_PROCESS: u32 = 3;
    pub const TRACK_THREAD: u32 = 4;
    pub const TRACK_PARENT: u32 = 5;
    pub const TRACK_COUNTER: u32 = 8;

    pub const EVENT_ANNOTATION: u32 = 4;
    pub const EVENT_TYPE: u32 = 9;
    pub const EVENT_NAME_IID: u32 = 10;
    pub const EVENT_TRACK: u32 = 11;
    pub const EVENT_NAME: u32 = 23;
    pub const EVENT_COUNTER: u32 = 30;
    pub const EVENT_COUNTER_DOUBLE: u32 = 44;
}

const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// Maximum number of interned names; further names are written where they are used.
const MAX_NAMES: usize = 1 << 16;
/// Maximum size of an interned name, bytes.
const MAX_NAME: usize = 256;
/// Number of events, jobs and phases between two checks for cancellation.
const LOOK: usize = 1 << 14;

/// Writes a trace. Slices of phases are always present, whatever events are selected.
///
/// # Errors
///
/// When `to` cannot be written or the work is cancelled.
pub fn perfetto(source: &Source<'_>, to: &mut dyn Write, progress: &Progress) -> Result<ExportSummary, WavesError> {
    let mut packets = Packets {
        to,
        names: HashMap::new(),
        tracks: 0,
        uuid: 1,
    };
    let is_ticks = source.clock == Clock::Time && source.recording.counts_ticks();
    let unit = if is_ticks { " (1 ns is 1 tick)" } else { "" };
    // The interned names start empty in this file, and the process gets its name.
    let process = Message::new()
        .number(1, PID)
        .text(6, &format!("Kinescope: {}{}", title(source), unit));
    let process = Message::new()
        .number(field::TRACK_UUID, 1)
        .message(field::TRACK_PROCESS, &process);
    let first = Message::new()
        .number(field::SEQUENCE_ID, SEQUENCE)
        .number(field::SEQUENCE_FLAGS, 1)
        .message(field::TRACK_DESCRIPTOR, &process);
    packets.packet(&first)?;
    let jobs_left_out = slices(source, &mut packets, progress)?;

    let mut instants = Instants {
        source,
        device: RecordedRegisters::new(source.recording),
        calls: source.recording.api(),
        packets,
        threads: HashMap::new(),
        kinds: HashMap::new(),
        counters: HashMap::new(),
        joined: None,
        others: HashSet::new(),
        time: 0,
        event: 0,
        reported: None,
        missed: 0,
        left_out: None,
    };
    let done = walk(source, progress, &mut instants)?;
    Ok(ExportSummary {
        signals: instants.packets.tracks,
        left_out: instants.missed,
        jobs_left_out,
        threads_joined: instants.others.len() as u64,
        ..done
    })
}

fn title(source: &Source<'_>) -> &'static str {
    let device = RecordedRegisters::new(source.recording);
    device.map_or("recording", |d| d.map().name())
}

/// The output, with the interned names so far.
struct Packets<'a> {
    to: &'a mut dyn Write,
    names: HashMap<String, u64>,
    tracks: u64,
    uuid: u64,
}

/// Name and position of an event.
struct Mark<'a> {
    kind: u64,
    track: u64,
    time: u64,
    name: &'a str,
}

impl Packets<'_> {
    fn packet(&mut self, packet: &Message) -> Result<(), WavesError> {
        let whole = Message::new().message(field::PACKET, packet);
        Ok(self.to.write_all(whole.bytes())?)
    }

    /// Adds a track below the process; `extra` adds its type.
    fn track(&mut self, name: &str, extra: impl FnOnce(Message) -> Message) -> Result<u64, WavesError> {
        self.uuid += 1;
        self.tracks += 1;
        let track = Message::new()
            .number(field::TRACK_UUID, self.uuid)
            .text(field::TRACK_NAME, name)
            .number(field::TRACK_PARENT, 1);
        let packet = Message::new()
            .number(field::SEQUENCE_ID, SEQUENCE)
            .message(field::TRACK_DESCRIPTOR, &extra(track));
        self.packet(&packet)?;
        Ok(self.uuid)
    }

    /// Writes the start or end of a slice, or an instant, with an interned name.
    fn mark(&mut self, mark: &Mark<'_>, notes: &[(&str, Note<'_>)]) -> Result<(), WavesError> {
        let mut event = Message::new()
            .number(field::EVENT_TYPE, mark.kind)
            .number(field::EVENT_TRACK, mark.track);
        let mut interned = None;
        if !mark.name.is_empty() {
            match self.names.get(mark.name) {
                Some(id) => event = event.number(field::EVENT_NAME_IID, *id),
                None if self.names.len() >= MAX_NAMES || mark.name.len() > MAX_NAME => {
                    event = event.text(field::EVENT_NAME, mark.name)
                }
                None => {
                    let id = self.names.len() as u64 + 1;
                    self.names.insert(mark.name.to_owned(), id);
                    let name = Message::new().number(1, id).text(2, mark.name);
                    interned = Some(Message::new().message(2, &name));
                    event = event.number(field::EVENT_NAME_IID, id);
                }
            }
        }
        for (name, note) in notes {
            let one = Message::new();
            let one = match note {
                Note::Number(n) => one.number(3, *n),
                Note::Address(n) => one.number(7, *n),
                Note::Text(t) => one.text(6, t),
            };
            event = event.message(field::EVENT_ANNOTATION, &one.text(10, name));
        }
        self.event(mark.time, &event, interned.as_ref())
    }

    fn event(&mut self, time: u64, event: &Message, interned: Option<&Message>) -> Result<(), WavesError> {
        let mut packet = Message::new()
            .number(field::TIMESTAMP, time)
            .number(field::SEQUENCE_ID, SEQUENCE)
            .message(field::TRACK_EVENT, event)
            .number(field::SEQUENCE_FLAGS, 2);
        if let Some(interned) = interned {
            packet = packet.message(field::INTERNED, interned);
        }
        self.packet(&packet)
    }
}

/// A debug annotation of an event.
enum Note<'a> {
    Number(u64),
    /// Shown as `0x…`.
    Address(u64),
    Text(&'a str),
}

/// Non-decreasing times of the events where slices start and end.
struct Times {
    /// By ascending event.
    of: Vec<(u64, u64)>,
    clock: Clock,
}

impl Times {
    /// Computes the times as a walk over the selected events has them. An event has the latest time of the events
    /// walked so far. The walk includes the events of `own`, selected or not. Those of `other` lie between them.
    fn new(source: &Source<'_>, own: &[u64], other: &[u64], progress: &Progress) -> Result<Self, WavesError> {
        let mut asked: Vec<(u64, bool)> = own.iter().map(|e| (*e, true)).collect();
        asked.extend(other.iter().map(|e| (*e, false)));
        asked.sort_unstable();
        let mut of = Vec::with_capacity(asked.len());
        if source.clock == Clock::Events {
            return Ok(Self {
                of,
                clock: source.clock,
            });
        }
        let len = source.recording.events.len() as u64;
        let time = |event: u64| {
            let event = usize::try_from(event).ok();
            event.and_then(|e| source.recording.events.time.get(e)).unwrap_or(0)
        };
        let mut latest = 0;
        let mut asked = asked.into_iter().peekable();
        let mut ask = |latest: &mut u64, until: u64| {
            while let Some((event, comes_by)) = asked.next_if(|(e, _)| *e < until) {
                let here = time(event).max(*latest);
                if comes_by {
                    *latest = here;
                }
                of.push((event, here));
            }
        };
        let wanted: Box<dyn Iterator<Item = u64> + '_> = match source.events {
            Some(s) => Box::new(s.iter().take_while(|e| *e < len)),
            None => Box::new(0..len),
        };
        for (n, event) in wanted.enumerate() {
            if n.is_multiple_of(LOOK) {
                progress.check()?;
            }
            ask(&mut latest, event);
            latest = latest.max(time(event));
        }
        ask(&mut latest, u64::MAX);
        Ok(Self {
            of,
            clock: source.clock,
        })
    }

    /// Returns the time of a requested event.
    fn time_of(&self, event: u64) -> u64 {
        match self.clock {
            Clock::Events => event,
            Clock::Time => {
                // The last entry of an event: the walk has passed all earlier ones.
                let at = self.of.partition_point(|(e, _)| *e <= event);
                at.checked_sub(1).and_then(|at| self.of.get(at)).map_or(0, |(_, t)| *t)
            }
        }
    }
}

/// Writes jobs, on as many tracks per slot as overlap, and phases. Returns the number of jobs without a track.
fn slices(source: &Source<'_>, packets: &mut Packets<'_>, progress: &Progress) -> Result<u64, WavesError> {
    let events = source.recording.events.len() as u64;
    let Some(last) = events.checked_sub(1) else {
        return Ok(0);
    };
    let Timeline { jobs, phases, .. } = source.timeline;
    // The slice of a job whose end is unknown ends where it begins.
    let is_end_unknown = job_form(source.recording) == JobForm::RingEntries;
    let wanted = |j: &&JobSpan| j.submit_event < events && source.events.is_none_or(|s| s.contains(j.submit_event));
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for job in jobs.iter().filter(wanted) {
        own.push(job.submit_event);
        match job.done_event {
            Some(done) if done < events => own.push(done),
            _ if is_end_unknown => {}
            _ => other.push(last),
        }
    }
    other.extend(phases.iter().flat_map(|p| [p.first.min(last), p.last.min(last)]));
    let times = Times::new(source, &own, &other, progress)?;
    if !phases.is_empty() {
        let track = packets.track("Phases", |t| t)?;
        let mut latest = 0;
        for (n, phase) in phases.iter().enumerate() {
            if n.is_multiple_of(LOOK) {
                progress.check()?;
            }
            let begin = times.time_of(phase.first.min(last)).max(latest);
            let end = times.time_of(phase.last.min(last)).max(begin);
            latest = end;
            slice(packets, track, (begin, end), phase.name.name(), &[])?;
        }
    }
    // End of the latest slice of each track of a slot.
    let mut lanes: HashMap<u8, Vec<(u64, u64)>> = HashMap::new();
    let mut left_out = 0;
    for (n, job) in jobs.iter().filter(wanted).enumerate() {
        if n.is_multiple_of(LOOK) {
            progress.check()?;
        }
        let begin = times.time_of(job.submit_event);
        let without_end = if is_end_unknown { job.submit_event } else { last };
        let end = times
            .time_of(job.done_event.map_or(without_end, |e| e.min(last)))
            .max(begin);
        let own = lanes.entry(job.slot).or_default();
        let many = own.len() >= MAX_LANES;
        let track = match own.iter_mut().find(|(_, free)| *free <= begin) {
            Some(lane) => {
                lane.1 = end;
                lane.0
            }
            None if many => {
                left_out += 1;
                continue;
            }
            None => {
                let queue = source.recording.job_queue(job.slot);
                let queue = queue.map_or_else(|| format!("Job slot {}", job.slot), |q| format!("Queue {q}"));
                let name = match own.len() {
                    0 => queue,
                    _ => format!("{queue}, waiting"),
                };
                let track = packets.track(&name, |t| t)?;
                own.push((track, end));
                track
            }
        };
        let state = match (job.done_event, job.failed) {
            (None, _) if is_end_unknown => "end unknown",
            (None, _) => "not ended",
            (_, true) => "failed",
            _ => "done",
        };
        let notes = [
            ("head", Note::Address(job.head_va.get())),
            ("submit_event", Note::Number(job.submit_event)),
            ("state", Note::Text(state)),
        ];
        slice(packets, track, (begin, end), &format!("job {}", job.index), &notes)?;
    }
    Ok(left_out)
}

fn slice(
    packets: &mut Packets<'_>,
    track: u64,
    (begin, end): (u64, u64),
    name: &str,
    notes: &[(&str, Note<'_>)],
) -> Result<(), WavesError> {
    let mark = |kind, time, name| Mark {
        kind,
        track,
        time,
        name,
    };
    packets.mark(&mark(BEGIN, begin, name), notes)?;
    packets.mark(&mark(END, end, ""), &[])
}

/// The writer of events on the tracks of their threads or kinds, and of registers as counters.
struct Instants<'a> {
    source: &'a Source<'a>,
    device: Option<RecordedRegisters>,
    calls: Option<&'a ApiTraceMetadata>,
    packets: Packets<'a>,
    threads: HashMap<u32, u64>,
    kinds: HashMap<&'static str, u64>,
    /// Shown registers, with their tracks once all their bits are known.
    counters: HashMap<Key, Option<u64>>,
    /// The track of all threads beyond the maximum, and some of these threads: as many as have tracks are counted.
    joined: Option<u64>,
    others: HashSet<u32>,
    time: u64,
    event: usize,
    reported: Option<usize>,
    missed: u64,
    left_out: Option<usize>,
}

impl Instants<'_> {
    fn kind(&mut self, name: &'static str) -> Result<u64, WavesError> {
        if let Some(track) = self.kinds.get(name) {
            return Ok(*track);
        }
        let track = self.packets.track(name, |t| t)?;
        self.kinds.insert(name, track);
        Ok(track)
    }

    fn thread(&mut self, thread: u32) -> Result<u64, WavesError> {
        if let Some(track) = self.threads.get(&thread) {
            return Ok(*track);
        }
        if self.threads.len() >= MAX_THREADS {
            if self.others.len() < MAX_THREADS {
                self.others.insert(thread);
            }
            if let Some(track) = self.joined {
                return Ok(track);
            }
            let track = self.packets.track("Other threads", |t| t)?;
            self.joined = Some(track);
            return Ok(track);
        }
        let name = format!("Thread {thread}");
        // A thread number is signed in the schema; a number that does not fit gives a track with a name only.
        let track = self.packets.track(&name, |t| match i32::try_from(thread) {
            Ok(tid) if tid > 0 => {
                let inner = Message::new()
                    .number(1, PID)
                    .number(2, u64::from(thread))
                    .text(5, &name);
                t.message(field::TRACK_THREAD, &inner)
            }
            _ => t,
        })?;
        self.threads.insert(thread, track);
        Ok(track)
    }

    fn instant(&mut self, track: u64, name: &str, notes: &[(&str, Note<'_>)]) -> Result<(), WavesError> {
        let mark = Mark {
            kind: INSTANT,
            track,
            time: self.time,
            name,
        };
        self.packets.mark(&mark, notes)
    }

    /// Writes an event of the recording, once.
    fn write_event_once(&mut self) -> Result<(), WavesError> {
        let events = &self.source.recording.events;
        let at = self.event;
        let index = ("event", Note::Number(at as u64));
        let thread = events.thread.get(at).unwrap_or(0);
        match events.kind(at) {
            Some(EventKind::Read | EventKind::Write) => {
                let Some(a) = events.access(at) else { return Ok(()) };
                let name = self.device.and_then(|d| d.name_of(&a));
                let name = name.map_or_else(|| self.place(a.space, a.offset.get()), |n| n.into_owned());
                let means = self.device.and_then(|d| d.describe(&a)).unwrap_or_default();
                let track = self.thread(thread)?;
                let what = if a.write { "write" } else { "read" };
                let mut notes = vec![
                    index,
                    ("value", Note::Address(a.value)),
                    ("width", Note::Number(u64::from(a.width))),
                ];
                if !means.is_empty() {
                    notes.push(("means", Note::Text(&means)));
                }
                if self.joined == Some(track) {
                    notes.push(("thread", Note::Number(thread.into())));
                }
                self.instant(track, &format!("{what} {name}"), &notes)
            }
            Some(EventKind::Undecoded) => {
                let Some(u) = events.undecoded(at) else { return Ok(()) };
                let name = self.place(events.space.get(at).unwrap_or(0), u.offset.get());
                let track = self.thread(thread)?;
                let what = u.describe();
                let mut notes = vec![index, ("what", Note::Text(&what))];
                if self.joined == Some(track) {
                    notes.push(("thread", Note::Number(thread.into())));
                }
                self.instant(track, &format!("undecoded {name}"), &notes)
            }
            Some(EventKind::Mark) => {
                let row = events.payload.get(at).unwrap_or(0) as usize;
                let track = self.kind("Marks")?;
                match events.marks.get(row) {
                    Some(text) => self.instant(track, text, &[index]),
                    None => Ok(()),
                }
            }
            Some(EventKind::Submit) => {
                let Some(s) = events.submit(at) else { return Ok(()) };
                let track = self.kind("Submits")?;
                let notes = [
                    index,
                    ("head", Note::Address(s.head_va.get())),
                    ("address_space", Note::Number(u64::from(s.address_space))),
                ];
                self.instant(track, &format!("submit to slot {}", s.slot), &notes)
            }
            Some(EventKind::HostWrite) => {
                let Some(w) = events.host_write(at) else { return Ok(()) };
                let track = self.kind("CPU writes to memory")?;
                let notes = [
                    index,
                    ("address", Note::Address(w.at.get())),
                    ("bytes", Note::Number(u64::from(w.bytes))),
                ];
                self.instant(track, "CPU write", &notes)
            }
            Some(EventKind::DmaMap) => {
                let Some(d) = events.dma_map(at) else { return Ok(()) };
                let track = self.kind("Memory for the device")?;
                self.instant(track, &d.describe(), &[index])
            }
            Some(kind @ (EventKind::Object | EventKind::RingEntry | EventKind::SavedMemory)) => {
                let track = self.kind(match kind {
                    EventKind::Object => "Objects of the driver",
                    EventKind::RingEntry => "Ring entries",
                    _ => "Saved memory",
                })?;
                let text = self.source.recording.describe_driver_event(at);
                self.instant(track, &text.unwrap_or_default(), &[index])
            }
            Some(EventKind::Interrupt) | None => Ok(()),
            Some(kind) => {
                let Some(call) = events.call(at) else { return Ok(()) };
                let track = self.kind(match kind {
                    EventKind::Launch => "Launches",
                    EventKind::Copy | EventKind::Fill => "Copies",
                    EventKind::Order => "Order of streams",
                    EventKind::Allocation => "Memory of the device",
                    _ => "Calls",
                })?;
                let text = call.describe(self.calls);
                self.instant(track, &text, &[index])
            }
        }
    }

    fn place(&self, space: u8, offset: u32) -> String {
        match self.source.recording.metadata.spaces.get(usize::from(space)) {
            Some(s) => format!("{}+{offset:#x}", s.name),
            None => format!("space {space}+{offset:#x}"),
        }
    }

    fn counter(&mut self, key: Key, bits: u32) -> Result<Option<u64>, WavesError> {
        match self.counters.get(&key) {
            Some(Some(track)) => return Ok(Some(*track)),
            Some(None) => {}
            None => return Ok(None),
        }
        let named = signals(self.source.recording, std::iter::once((key, bits)));
        let name = named.first().map_or("register", |s: &Signal| &s.name);
        let track = self
            .packets
            .track(name, |t| t.message(field::TRACK_COUNTER, &Message::new()))?;
        self.counters.insert(key, Some(track));
        Ok(Some(track))
    }
}

impl ChangeSink for Instants<'_> {
    fn event(&mut self, event: usize, time: u64) -> Result<(), WavesError> {
        (self.event, self.time) = (event, time);
        Ok(())
    }

    fn admit(&mut self, key: Key, _: u32) -> bool {
        // Counts are not shown: the instants show them.
        if !matches!(
            key,
            Key::Register {
                of: RegisterSignal::Value,
                ..
            }
        ) {
            return false;
        }
        if self.counters.contains_key(&key) {
            return true;
        }
        if self.counters.len() < MAX_SIGNALS {
            self.counters.insert(key, None);
            return true;
        }
        if self.left_out != Some(self.event) {
            self.left_out = Some(self.event);
            self.missed += 1;
        }
        false
    }

    fn change(&mut self, key: Key, bits: u32, value: Value) -> Result<(), WavesError> {
        match key {
            Key::Event if self.reported != Some(self.event) => {
                self.reported = Some(self.event);
                self.write_event_once()
            }
            Key::Status(line) => {
                let track = self.kind("Interrupts")?;
                let name =
                    InterruptLine::from_raw(line).map_or_else(|| format!("line {line}"), |l| l.name().to_owned());
                let notes = [
                    ("event", Note::Number(self.event as u64)),
                    ("status", Note::Address(value.bits)),
                ];
                self.instant(track, &name, &notes)
            }
            // A counter cannot have an unknown value.
            Key::Register {
                of: RegisterSignal::Value,
                ..
            } if value.is_known(bits) => {
                let value = value.low(bits);
                let Some(track) = self.counter(key, bits)? else {
                    return Ok(());
                };
                let event = Message::new()
                    .number(field::EVENT_TYPE, COUNTER)
                    .number(field::EVENT_TRACK, track);
                // Counters are signed integers; larger values are written as floating-point numbers.
                let event = match i64::try_from(value) {
                    Ok(_) => event.number(field::EVENT_COUNTER, value),
                    Err(_) => event.double(field::EVENT_COUNTER_DOUBLE, value as f64),
                };
                self.packets.event(self.time, &event, None)
            }
            _ => Ok(()),
        }
    }
}

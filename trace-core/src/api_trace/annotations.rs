//! Annotations that a recorded program made: named ranges of its calls, and names of device memory.

use crate::GpuVa;
use crate::recording::{
    BufferName, CallEvent, CallRow, EventKind, NAME_BUFFER_CALL, RANGE_BEGIN_CALL, RANGE_END_CALL, Recording,
    check_range_name,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of named buffers of a recording; further ones have no name.
pub const MAX_NAMED_BUFFERS: usize = 1 << 16;
/// Maximum number of ranges of a recording; further ones are left out.
pub const MAX_RANGES: usize = 1 << 20;
/// Maximum number of ranges that are open at the same time; further ones are left out.
pub const MAX_OPEN_RANGES: usize = 64;

/// Maximum length of the arguments of an annotation, bytes: longer ones are not valid, and are not read.
const MAX_ARGUMENT_BYTES: u32 = 4096;

/// Memory that the program named, from the event on that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedBuffer {
    /// The name, unique in the recording, and the memory.
    pub name: BufferName,
    /// Event that names it.
    pub event: u64,
}

/// A named range of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramRange {
    /// Name. Ranges of one name share it.
    pub name: Arc<str>,
    /// Thread that began it.
    pub thread: u32,
    /// Level: the smallest number that no other open range had when this one began. A range has a greater level than
    /// the ranges around it.
    pub level: u32,
    /// Event that begins it.
    pub first: u64,
    /// Event that ends it; the last event of the recording if none does.
    pub last: u64,
    /// Whether an event ends it.
    pub is_ended: bool,
}

/// The annotations of a recording.
#[derive(Clone, Debug, Default)]
pub struct Annotations {
    buffers: Vec<NamedBuffer>,
    /// Names by first address and size, each an index and its event, in the order of events.
    by_memory: BTreeMap<(GpuVa, u64), Vec<(u64, usize)>>,
    ranges: Vec<ProgramRange>,
    /// Ranges of each level, as indices in the order of their beginnings. Ranges of a level do not overlap.
    levels: Vec<Vec<u32>>,
}

impl Annotations {
    /// Reads the annotations of an API trace. Returns none for other recordings. Takes time proportional to the number
    /// of events only if the program made annotations.
    #[must_use]
    pub fn from_recording(recording: &Recording) -> Self {
        let mut reader = AnnotationReader::default();
        let names = recording.api().map_or(&[][..], |m| &m.names);
        let calls = [NAME_BUFFER_CALL, RANGE_BEGIN_CALL, RANGE_END_CALL];
        if names.iter().any(|n| calls.contains(&n.as_str())) {
            let events = &recording.events;
            for at in 0..events.len() {
                if events.kind(at) == Some(EventKind::Call)
                    && let Some(CallEvent::Call(row)) = events.call(at)
                    && row.result == 0
                {
                    reader.take(recording, at, &row);
                }
            }
        }
        reader.finish(recording)
    }

    /// Returns the named memory, in the order of the events.
    #[must_use]
    pub fn buffers(&self) -> &[NamedBuffer] {
        &self.buffers
    }

    /// Returns the named memory with this name.
    #[must_use]
    pub fn find_buffer(&self, name: &str) -> Option<&NamedBuffer> {
        self.buffers.iter().find(|b| b.name.name == name)
    }

    /// Returns the name of exactly this memory at an event: the last one that it got before, or else the first one that
    /// it gets.
    #[must_use]
    pub fn name_of(&self, at: GpuVa, bytes: u64, event: u64) -> Option<&NamedBuffer> {
        let list = self.by_memory.get(&(at, bytes))?;
        let before = list.partition_point(|(e, _)| *e <= event);
        let (_, index) = list.get(before.saturating_sub(1))?;
        self.buffers.get(*index)
    }

    /// Returns the last name that memory got among these events, if it is exactly this memory.
    #[must_use]
    pub fn name_within(&self, at: GpuVa, bytes: u64, events: std::ops::RangeInclusive<u64>) -> Option<&NamedBuffer> {
        let list = self.by_memory.get(&(at, bytes))?;
        let before = list.partition_point(|(e, _)| *e <= *events.end());
        let (event, index) = list.get(before.checked_sub(1)?)?;
        self.buffers.get(*index).filter(|_| events.contains(event))
    }

    /// Returns every naming of memory with its event. Memory that got a name again has a naming for each time.
    pub(super) fn namings(&self) -> impl Iterator<Item = (u64, &NamedBuffer)> {
        let all = self.by_memory.values().flatten();
        all.filter_map(|(event, index)| Some((*event, self.buffers.get(*index)?)))
    }

    /// Returns the ranges in the order of their beginnings.
    #[must_use]
    pub fn ranges(&self) -> &[ProgramRange] {
        &self.ranges
    }

    /// Returns the ranges of each level, as indices of [`Self::ranges`] in the order of events. Ranges of a level do not
    /// overlap.
    #[must_use]
    pub fn levels(&self) -> &[Vec<u32>] {
        &self.levels
    }
}

/// Returns the shapes of buffers by name, the length of each dimension, the slowest first: those of the metadata, and
/// those that the program gave with a name.
#[must_use]
pub fn buffer_shapes(recording: &Recording) -> BTreeMap<String, Vec<u64>> {
    let mut shapes = recording.metadata.valid_shapes();
    for buffer in Annotations::from_recording(recording).buffers() {
        if let Some(form) = buffer.name.form.as_ref().filter(|f| !f.shape.is_empty()) {
            shapes.insert(buffer.name.name.clone(), form.shape.clone());
        }
    }
    shapes
}

/// Annotations while the events are read.
#[derive(Default)]
struct AnnotationReader {
    annotations: Annotations,
    names: BTreeMap<String, usize>,
    range_names: BTreeSet<Arc<str>>,
    /// Open ranges of each thread.
    open: BTreeMap<u32, Vec<OpenRange>>,
    open_count: usize,
    levels: BTreeSet<u32>,
}

/// A range that did not end yet.
#[derive(Clone, Copy)]
struct OpenRange {
    /// Its index, or `None` if it is left out.
    index: Option<usize>,
    /// Index of this range, or of the nearest one around it that is not left out.
    innermost: Option<usize>,
}

impl AnnotationReader {
    fn take(&mut self, recording: &Recording, at: usize, row: &CallRow) {
        let events = &recording.events;
        // Each call of a damaged file may refer to the same bytes, so that reading long ones takes very long.
        let arguments = || match row.arguments {
            ..=MAX_ARGUMENT_BYTES => events.call_arguments(row.arguments_at, row.arguments),
            _ => None,
        };
        let thread = || events.thread.get(at).unwrap_or(0);
        match recording.call_name(row) {
            Some(NAME_BUFFER_CALL) => {
                if let Some(name) = arguments().and_then(|a| BufferName::decode(&a)) {
                    self.add_buffer(at as u64, name);
                }
            }
            Some(RANGE_BEGIN_CALL) => {
                let name = arguments().and_then(|a| String::from_utf8(a).ok());
                self.begin(at as u64, thread(), name.filter(|n| check_range_name(n).is_ok()));
            }
            Some(RANGE_END_CALL) => self.end(at as u64, thread()),
            _ => {}
        }
    }

    fn add_buffer(&mut self, event: u64, name: BufferName) {
        let all = &mut self.annotations;
        let memory = (name.at, name.bytes);
        let index = match self.names.get(&name.name) {
            // A recorder gives each name to one range only.
            Some(known) => match all.buffers.get(*known) {
                Some(b) if (b.name.at, b.name.bytes) == memory => *known,
                _ => return,
            },
            None if all.buffers.len() >= MAX_NAMED_BUFFERS => return,
            None => {
                self.names.insert(name.name.clone(), all.buffers.len());
                all.buffers.push(NamedBuffer { name, event });
                all.buffers.len() - 1
            }
        };
        all.by_memory.entry(memory).or_default().push((event, index));
    }

    fn begin(&mut self, event: u64, thread: u32, name: Option<String>) {
        let is_full = self.annotations.ranges.len() >= MAX_RANGES || self.levels.len() >= MAX_OPEN_RANGES;
        if self.open_count >= MAX_RANGES {
            return;
        }
        self.open_count += 1;
        let open = self.open.entry(thread).or_default();
        let around = open.last().and_then(|o| o.innermost);
        let Some(name) = name.filter(|_| !is_full) else {
            return open.push(OpenRange {
                index: None,
                innermost: around,
            });
        };
        let above = around.and_then(|n| self.annotations.ranges.get(n)).map(|r| r.level);
        let lowest = above.map_or(0, |level| level.saturating_add(1));
        let level = (lowest..).find(|n| !self.levels.contains(n)).unwrap_or(u32::MAX);
        self.levels.insert(level);
        let name: Arc<str> = match self.range_names.get(name.as_str()) {
            Some(known) => Arc::clone(known),
            None => name.into(),
        };
        self.range_names.insert(Arc::clone(&name));
        let index = Some(self.annotations.ranges.len());
        open.push(OpenRange {
            index,
            innermost: index,
        });
        self.annotations.ranges.push(ProgramRange {
            name,
            thread,
            level,
            first: event,
            last: event,
            is_ended: false,
        });
    }

    fn end(&mut self, event: u64, thread: u32) {
        let Some(ended) = self.open.get_mut(&thread).and_then(Vec::pop) else {
            return;
        };
        self.open_count = self.open_count.saturating_sub(1);
        if let Some(range) = ended.index.and_then(|n| self.annotations.ranges.get_mut(n)) {
            range.last = event;
            range.is_ended = true;
            self.levels.remove(&range.level);
        }
    }

    fn finish(self, recording: &Recording) -> Annotations {
        let mut all = self.annotations;
        let last = (recording.events.len() as u64).saturating_sub(1);
        for range in all.ranges.iter_mut().filter(|r| !r.is_ended) {
            range.last = last;
        }
        for (range, index) in all.ranges.iter().zip(0u32..) {
            let level = range.level as usize;
            if level >= all.levels.len() {
                all.levels.resize(level + 1, Vec::new());
            }
            if let Some(list) = all.levels.get_mut(level) {
                list.push(index);
            }
        }
        all
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail in this way")]
mod tests {
    use super::*;
    use crate::recording::{ApiTraceMetadata, BufferShape, EventsBuilder, NOTE_CALL, TraceKind};

    fn named(name: &str, at: u64, bytes: u64, form: &str) -> Vec<u8> {
        let form = BufferShape::parse(form);
        let name = name.to_owned();
        let at = GpuVa::new(at);
        BufferName { name, at, bytes, form }.encode()
    }

    /// Builds a recording of calls: thread, index of the name, arguments.
    fn recording(calls: &[(u32, u32, Vec<u8>)]) -> Recording {
        let mut events = EventsBuilder::new();
        for (n, (thread, name, arguments)) in calls.iter().enumerate() {
            let row = CallRow {
                arguments_at: events.call_bytes(arguments),
                arguments: u32::try_from(arguments.len()).unwrap(),
                name: *name,
                about: u32::MAX,
                ..CallRow::default()
            };
            events.call(n as u64, *thread, row);
        }
        let mut recording = Recording {
            events: events.finish(),
            ..Recording::default()
        };
        let names = [NOTE_CALL, RANGE_BEGIN_CALL, RANGE_END_CALL, NAME_BUFFER_CALL];
        recording.metadata.kind = TraceKind::Api(ApiTraceMetadata {
            names: names.map(str::to_owned).to_vec(),
            ..ApiTraceMetadata::default()
        });
        recording
    }

    #[test]
    fn nested_ranges_and_threads_have_levels() {
        let begin = |thread, name: &str| (thread, 1, name.as_bytes().to_vec());
        let end = |thread| (thread, 2, Vec::new());
        let r = recording(&[
            end(7),
            begin(1, "step"),
            begin(1, "forward"),
            begin(2, "loader"),
            end(1),
            begin(1, "backward"),
            end(2),
            end(1),
            end(1),
            begin(1, "step"),
            begin(1, ""),
            end(1),
        ]);
        let all = Annotations::from_recording(&r);
        let shown: Vec<_> = all.ranges().iter().map(|r| (&*r.name, r.thread, r.level)).collect();
        assert_eq!(
            shown,
            [
                ("step", 1, 0),
                ("forward", 1, 1),
                ("loader", 2, 2),
                ("backward", 1, 1),
                ("step", 1, 0)
            ]
        );
        let spans: Vec<_> = all.ranges().iter().map(|r| (r.first, r.last, r.is_ended)).collect();
        assert_eq!(
            spans,
            [(1, 8, true), (2, 4, true), (3, 6, true), (5, 7, true), (9, 11, false)]
        );
        assert_eq!(all.levels(), [vec![0, 4], vec![1, 3], vec![2]]);
        assert!(Arc::ptr_eq(&all.ranges()[0].name, &all.ranges()[4].name));
        assert_eq!(r.describe_call(2).unwrap(), "range begin \"forward\"");
    }

    #[test]
    fn many_ranges_that_are_left_out_do_not_slow_the_others() {
        let begin = |name: &str| (1, 1, name.as_bytes().to_vec());
        let end = (1, 2, Vec::new());
        let n = 200_000;
        let mut calls = vec![begin("outer")];
        calls.extend(std::iter::repeat_n(begin(""), n));
        calls.extend((0..n).flat_map(|_| [begin("inner"), end.clone()]));
        let started = std::time::Instant::now();
        let all = Annotations::from_recording(&recording(&calls));
        assert_eq!((all.ranges().len(), all.levels().len()), (n + 1, 2));
        // A search through the open ranges for each range would take minutes.
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    #[test]
    fn long_arguments_are_not_read() {
        let mut name = named("x", 0x1000, 40, "f32");
        name.resize(MAX_ARGUMENT_BYTES as usize + 1, b' ');
        let all = Annotations::from_recording(&recording(&[
            (1, 3, name),
            (1, 1, vec![b'a'; 5000]),
            (1, 2, Vec::new()),
        ]));
        assert!(all.buffers().is_empty() && all.ranges().is_empty());
    }

    #[test]
    fn memory_has_the_name_that_it_got_last() {
        let r = recording(&[
            (1, 3, named("x", 0x1000, 40, "f32:1x10")),
            (1, 0, b"a note".to_vec()),
            (1, 3, named("y", 0x1000, 40, "f32:3")),
            (1, 3, named("x", 0x2000, 4, "")),
            (1, 3, named("in0", 0x3000, 4, "")),
            (1, 3, named("z", u64::MAX, 4, "")),
            (1, 3, vec![1, 2, 3]),
            (1, 3, named("x", 0x1000, 40, "")),
        ]);
        let all = Annotations::from_recording(&r);
        let names: Vec<_> = all.buffers().iter().map(|b| (b.name.name.as_str(), b.event)).collect();
        assert_eq!(names, [("x", 0), ("y", 2)]);
        let x = all.find_buffer("x").unwrap();
        assert_eq!(x.name.form.as_ref().unwrap().to_string(), "f32:1x10");
        // Three elements do not fill 40 bytes.
        assert_eq!(all.find_buffer("y").unwrap().name.form, None);
        let at = |event| all.name_of(GpuVa::new(0x1000), 40, event).map(|b| b.name.name.as_str());
        assert_eq!(
            (at(0), at(1), at(2), at(6), at(9)),
            (Some("x"), Some("x"), Some("y"), Some("y"), Some("x"))
        );
        assert_eq!(all.name_of(GpuVa::new(0x1000), 44, 3), None);
        let within = |events| all.name_within(GpuVa::new(0x1000), 40, events).map(|b| b.event);
        assert_eq!((within(3..=6), within(0..=1)), (None, Some(0)));
        assert_eq!(
            r.describe_call(0).unwrap(),
            "name buffer \"x\": 40 bytes at 0x1000, f32:1x10"
        );
        assert_eq!(r.describe_call(1).unwrap(), "mark \"a note\"");
    }
}

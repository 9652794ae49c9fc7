//! Fuzz target for the annotations of a program: calls that name ranges and memory, in an API trace.

use crate::input::Input;
use std::collections::BTreeSet;
use trace_core::api_trace::{Annotations, MAX_OPEN_RANGES, buffer_shapes};
use trace_core::recording::{
    ApiTraceMetadata, BufferName, CallRow, EventsBuilder, NAME_BUFFER_CALL, NOTE_CALL, RANGE_BEGIN_CALL,
    RANGE_END_CALL, Recording, TraceKind, check_buffer_name, check_range_name,
};

/// Names of calls, by the low bits of the byte of a call. One is a call of a driver.
const NAMES: [&str; 5] = [
    RANGE_BEGIN_CALL,
    RANGE_END_CALL,
    NAME_BUFFER_CALL,
    NOTE_CALL,
    "cuCtxSynchronize",
];
/// Bit of the byte of a call: it failed, so it annotates nothing.
const FAILED: u8 = 0x80;
/// Bit of the byte of a call: its arguments lie at any place of the recording.
const ANYWHERE: u8 = 0x40;
/// Maximum number of calls that are described.
const MAX_DESCRIBED: usize = 100;

/// Fuzzes the reader of annotations. The input is a list of calls: a byte for the name and the flags, the thread, the
/// length of the arguments in two bytes, and the arguments; with [`ANYWHERE`], two bytes for their place in their stead.
/// Ranges of a level do not overlap, names are valid and unique, and memory has the name that it got last.
pub fn annotations(data: &[u8]) -> bool {
    let recording = read_calls(data);
    let all = Annotations::from_recording(&recording);
    check_ranges(&all, recording.events.len() as u64);
    check_buffers(&all);
    // Calls may share long arguments, so describing all of them takes long.
    for at in 0..recording.events.len().min(MAX_DESCRIBED) {
        let _ = recording.describe_call(at);
    }
    assert!(buffer_shapes(&recording).len() <= all.buffers().len());
    !all.ranges().is_empty() || !all.buffers().is_empty()
}

fn read_calls(data: &[u8]) -> Recording {
    let mut input = Input(data);
    let mut events = EventsBuilder::new();
    let mut time = 0;
    while !input.is_empty() {
        let (call, thread, length) = (input.u8(), u32::from(input.u8()), input.u16());
        let arguments_at = if call & ANYWHERE != 0 {
            u64::from(input.u16())
        } else {
            let (arguments, rest) = input.0.split_at(usize::from(length).min(input.0.len()));
            input.0 = rest;
            events.call_bytes(arguments)
        };
        let row = CallRow {
            arguments_at,
            arguments: u32::from(length),
            name: u32::from(call & 0x3f) % NAMES.len() as u32,
            about: u32::MAX,
            result: u32::from(call & FAILED != 0),
            ..CallRow::default()
        };
        events.call(time, thread, row);
        time += 1;
    }
    let mut recording = Recording {
        events: events.finish(),
        ..Recording::default()
    };
    recording.metadata.kind = TraceKind::Api(ApiTraceMetadata {
        names: NAMES.map(str::to_owned).to_vec(),
        ..ApiTraceMetadata::default()
    });
    recording
}

fn check_ranges(all: &Annotations, events: u64) {
    // A range is at most this many levels above the one around it, and has at most as many around it.
    assert!(all.levels().len() <= MAX_OPEN_RANGES * MAX_OPEN_RANGES);
    let listed: usize = all.levels().iter().map(Vec::len).sum();
    assert_eq!(listed, all.ranges().len());
    for (level, indices) in (0u32..).zip(all.levels()) {
        let mut free_from = 0;
        for index in indices {
            let range = &all.ranges()[*index as usize];
            assert_eq!(range.level, level);
            assert!(free_from <= range.first && range.first <= range.last && range.last < events);
            assert!(check_range_name(&range.name).is_ok());
            free_from = if range.is_ended { range.last + 1 } else { events };
        }
    }
}

fn check_buffers(all: &Annotations) {
    let mut names = BTreeSet::new();
    for buffer in all.buffers() {
        let BufferName { name, at, bytes, form } = &buffer.name;
        assert!(names.insert(name) && check_buffer_name(name).is_ok());
        assert!(*bytes > 0 && at.checked_add(*bytes).is_some());
        assert!(form.as_ref().is_none_or(|f| f.fits(*bytes)));
        let again = buffer.name.encode();
        assert_eq!(BufferName::decode(&again).as_ref(), Some(&buffer.name));
        let named = all.name_of(*at, *bytes, buffer.event);
        assert_eq!(named.map(|b| b.event), Some(buffer.event));
        assert_eq!(all.name_within(*at, *bytes, buffer.event..=buffer.event), Some(buffer));
    }
}

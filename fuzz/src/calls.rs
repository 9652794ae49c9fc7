//! Fuzz target for API traces with arbitrary contents: metadata about code and streams, rows, and the replay made of
//! them.

use crate::input::Input;
use crate::recordings::{check_storable, read_all};
use replay_cuda::{Script, Step};
use trace_core::recording::{
    AllocationRow, CallEvent, CallRow, CopyRow, EventsBuilder, FillRow, LaunchRow, MemoryBuilder, OrderRow, TraceKind,
};
use trace_core::{GpuVa, PAGE_SIZE, Recording, diff};

/// Number of different pages that the recording holds.
const PAGES: u8 = 4;

/// Runs every query on an API trace. Returns whether a replay can be made of it.
pub fn query_all(recording: &Recording) -> bool {
    let metadata = recording.api();
    for at in 0..recording.events.len() {
        let Some(call) = recording.events.call(at) else {
            continue;
        };
        let text = call.describe(metadata);
        assert!(!text.is_empty() || metadata.is_some(), "a call without a description");
        match call {
            CallEvent::Copy(c) => {
                if let Some(bytes) = recording.copy_content(&c) {
                    assert_eq!(Some(bytes.len() as u64), c.total());
                }
            }
            CallEvent::Launch(l) => {
                let arguments = recording.events.call_arguments(l.arguments_at, l.arguments);
                assert!(arguments.is_none_or(|a| a.len() == l.arguments as usize));
                let _ = l.threads();
            }
            CallEvent::Call(c) => {
                let _ = recording.events.call_arguments(c.arguments_at, c.arguments);
            }
            _ => {}
        }
    }
    for module in metadata.iter().flat_map(|f| &f.modules) {
        if let Some(code) = recording.module_code(module) {
            assert_eq!(code.len() as u64, module.bytes);
        }
    }
    let Ok(script) = Script::new(recording) else {
        return false;
    };
    let mut end = 0;
    for (at, bytes) in &script.ranges {
        assert!(*at >= GpuVa::new(end) && *bytes > 0, "ranges of memory overlap");
        end = at.get() + bytes;
    }
    assert!(script.launches() <= script.steps.len() as u64);
    for (event, step) in &script.steps {
        assert!((*event as usize) < recording.events.len());
        match step {
            Step::Input(n) => {
                let t = &script.inputs[*n];
                assert!(t.event == *event && t.row.total().is_some());
                let _ = recording.copy_content(&t.row);
            }
            Step::Output(n) => assert_eq!(script.outputs[*n].event, *event),
            _ => {}
        }
    }
    true
}

/// Fuzzes an API trace. The input starts with the JSON metadata, after its length in two bytes. The ids of the pages
/// that copies name follow, after their number in one byte. The arguments follow, after their length in two bytes. The
/// rest is rows, each after its kind in one byte.
pub fn calls(data: &[u8]) -> bool {
    let mut input = Input(data);
    let json = piece(&mut input);
    let mut events = EventsBuilder::new();
    let ids: Vec<u32> = (0..input.u8()).map(|_| input.u32()).collect();
    events.call_pages(&ids);
    let arguments = piece(&mut input);
    events.call_bytes(&arguments);
    while !input.is_empty() && events.len() < 256 {
        let row = row(&mut input);
        events.push_call(events.len() as u64, 1, row);
    }
    let mut pages = MemoryBuilder::new();
    for n in 1..=PAGES {
        pages.add_page(&[n; PAGE_SIZE]);
    }
    let mut recording = Recording {
        events: events.finish(),
        memory: pages.finish(),
        ..Recording::default()
    };
    if let Ok(metadata) = serde_json::from_slice(&json) {
        recording.metadata.kind = TraceKind::Api(metadata);
    }
    read_all(&recording);
    check_storable(&recording);
    // Compare with a recording whose pages hold other bytes.
    let mut pages = MemoryBuilder::new();
    for n in 1..=PAGES {
        pages.add_page(&[n / 2 + 1; PAGE_SIZE]);
    }
    let other = Recording {
        memory: pages.finish(),
        ..recording.clone()
    };
    let d = diff::diff(&recording, &other);
    assert!(
        diff::diff(&other, &recording) == d.swapped(),
        "the order of the recordings changes their differences"
    );
    query_all(&recording)
}

/// Reads a length of two bytes, then that many bytes, limited to the rest of the input.
fn piece(input: &mut Input<'_>) -> Vec<u8> {
    let length = usize::from(input.u16());
    let (piece, rest) = input.0.split_at(length.min(input.0.len()));
    input.0 = rest;
    piece.to_vec()
}

fn row(input: &mut Input<'_>) -> CallEvent {
    let kind = input.u8();
    let three = |input: &mut Input<'_>| [input.u32(), input.u32(), input.u32()];
    match kind % 6 {
        0 => CallEvent::Launch(LaunchRow {
            arguments_at: input.u64(),
            arguments: input.u32(),
            function: input.u32(),
            stream: input.u32(),
            grid: three(input),
            block: three(input),
            cluster: three(input),
            shared: input.u32(),
            flags: input.u32(),
            result: input.u32(),
            took: input.u32(),
        }),
        1 => CallEvent::Copy(CopyRow {
            to: input.u64(),
            from: input.u64(),
            bytes: input.u64(),
            rows: input.u64(),
            to_pitch: input.u64(),
            from_pitch: input.u64(),
            pages_at: input.u64(),
            kind: input.u32(),
            stream: input.u32(),
            flags: input.u32(),
            result: input.u32(),
            took: input.u32(),
            reserved: 0,
        }),
        2 => CallEvent::Fill(FillRow {
            to: GpuVa::new(input.u64()),
            elements: input.u64(),
            rows: input.u64(),
            pitch: input.u64(),
            value: input.u32(),
            element: input.u32(),
            stream: input.u32(),
            flags: input.u32(),
            result: input.u32(),
            took: input.u32(),
            reserved: [0; 2],
        }),
        3 => CallEvent::Order(OrderRow {
            kind: input.u32(),
            stream: input.u32(),
            event: input.u32(),
            flags: input.u32(),
            result: input.u32(),
            took: input.u32(),
        }),
        4 => CallEvent::Allocation(AllocationRow {
            at: GpuVa::new(input.u64()),
            bytes: input.u64(),
            kind: input.u32(),
            stream: input.u32(),
            result: input.u32(),
            took: input.u32(),
        }),
        _ => CallEvent::Call(CallRow {
            arguments_at: input.u64(),
            arguments: input.u32(),
            name: input.u32(),
            about: input.u32(),
            result: input.u32(),
            took: input.u32(),
            flags: 0,
        }),
    }
}

/// Returns the input that makes a recording of these parts.
#[must_use]
pub fn encode(json: &[u8], pages: &[u32], arguments: &[u8], rows: &[CallEvent]) -> Vec<u8> {
    let mut out = (json.len() as u16).to_le_bytes().to_vec();
    out.extend_from_slice(json);
    out.push(pages.len() as u8);
    pages.iter().for_each(|p| out.extend_from_slice(&p.to_le_bytes()));
    out.extend_from_slice(&(arguments.len() as u16).to_le_bytes());
    out.extend_from_slice(arguments);
    for row in rows {
        let (kind, wide, narrow): (u8, Vec<u64>, Vec<u32>) = match *row {
            CallEvent::Launch(l) => {
                let shape = [l.grid, l.block, l.cluster].concat();
                let head = [l.arguments, l.function, l.stream];
                let tail = [l.shared, l.flags, l.result, l.took];
                (0, vec![l.arguments_at], [&head[..], &shape, &tail].concat())
            }
            CallEvent::Copy(c) => (
                1,
                vec![c.to, c.from, c.bytes, c.rows, c.to_pitch, c.from_pitch, c.pages_at],
                vec![c.kind, c.stream, c.flags, c.result, c.took],
            ),
            CallEvent::Fill(f) => (
                2,
                vec![f.to.get(), f.elements, f.rows, f.pitch],
                vec![f.value, f.element, f.stream, f.flags, f.result, f.took],
            ),
            CallEvent::Order(o) => (3, vec![], vec![o.kind, o.stream, o.event, o.flags, o.result, o.took]),
            CallEvent::Allocation(a) => (4, vec![a.at.get(), a.bytes], vec![a.kind, a.stream, a.result, a.took]),
            CallEvent::Call(c) => (
                5,
                vec![c.arguments_at],
                vec![c.arguments, c.name, c.about, c.result, c.took],
            ),
        };
        out.push(kind);
        wide.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        narrow.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
    }
    out
}

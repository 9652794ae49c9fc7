//! Vivante GPUs, from device core dumps of etnaviv: the commands of their front end.
//!
//! Facts: rnndb's `cmdstream.xml` and the kernel's `etnaviv_buffer.c`. A command begins at an even word; its upper five
//! bits are the operation.

use super::command_streams::{BufferContents, CommandSink, MAX_DEPTH, StreamFamily, StreamState, StreamSummary};
use crate::GpuVa;
use crate::recording::Identity;

/// Value of [`Identity::source`](crate::recording::Identity::source) for a device core dump of etnaviv.
pub const CORE_DUMP: &str = Identity::ETNAVIV_CORE_DUMP;

/// The family.
pub(super) static FAMILY: StreamFamily = StreamFamily {
    name: "vivante",
    title: "Vivante GPU",
    drivers: &["etnaviv"],
    queue_job_type: |_| "command stream",
    sources: &[CORE_DUMP],
};

/// A command without a length of its own: operation, name, number of words.
const COMMANDS: [(u32, &str, usize); 14] = [
    (2, "END", 2),
    (3, "NOP", 2),
    (5, "DRAW_PRIMITIVES", 4),
    (6, "DRAW_INDEXED_PRIMITIVES", 6),
    (7, "WAIT", 2),
    (8, "LINK", 2),
    (9, "STALL", 2),
    (10, "CALL", 4),
    (11, "RETURN", 2),
    (12, "DRAW_INSTANCED", 4),
    (13, "CHIP_SELECT", 2),
    (15, "WAIT_FENCE", 2),
    (16, "DRAW_INDIRECT", 2),
    (19, "SNAP_PAGES", 2),
];
const LOAD_STATE: u32 = 1;
const DRAW_2D: u32 = 4;
const END: u32 = 2;
const CALL: u32 = 10;
const RETURN: u32 = 11;
/// Engines that a stall names.
const ENGINES: [(u32, &str); 8] = [
    (1, "FE"),
    (5, "RA"),
    (6, "SH"),
    (7, "PE"),
    (11, "DE"),
    (15, "BLT"),
    (16, "TX"),
    (23, "TS"),
];

/// Decodes the commands of a buffer from `at` on, at most `words` words of it. Calls are followed, links are not: the
/// ring of the driver ends with a link to itself. Zeros end the commands: a ring that was not filled ends with them.
#[must_use]
pub fn decode_commands(
    memory: &BufferContents,
    at: GpuVa,
    words: u64,
    max_words: u64,
    sink: &mut dyn CommandSink,
) -> StreamSummary {
    let mut state = StreamState::new(memory, sink, max_words);
    run(&mut state, at, words, 0);
    state.summary
}

fn run(state: &mut StreamState<'_>, at: GpuVa, max: u64, depth: u8) {
    let words = state.words(at, max);
    if words.is_empty() || depth > MAX_DEPTH {
        state.summary.missing += u64::from(max > 0);
        return;
    }
    let mut next = 0usize;
    while let Some(&header) = words.get(next) {
        if header == 0 {
            return;
        }
        let operation = header >> 27;
        let here = at.saturating_add(next as u64 * 4);
        let length = match operation {
            LOAD_STATE => (1 + state_count(header)).next_multiple_of(2),
            // Two words of header, then a rectangle of two words each, and data.
            DRAW_2D => {
                let (rectangles, data) = (header >> 8 & 0xff, header >> 16 & 0x7ff);
                let rectangles = if rectangles == 0 { 256 } else { rectangles };
                (2 + rectangles as usize * 2 + data as usize).next_multiple_of(2)
            }
            _ => COMMANDS.iter().find(|c| c.0 == operation).map_or(2, |c| c.2),
        };
        if !state.count(length) {
            return;
        }
        let end = next.saturating_add(length).min(words.len());
        let arguments = words.get(next + 1..end).unwrap_or_default();
        // Padding at the end may be missing.
        state.summary.is_cut |= next + length > words.len() + 1;
        match operation {
            LOAD_STATE => load_state(state, header, arguments),
            DRAW_2D => state.command(here, format!("DRAW_2D: {} rectangles", header >> 8 & 0xff)),
            _ => match COMMANDS.iter().find(|c| c.0 == operation) {
                Some((_, name, _)) => state.command(here, describe(name, operation, header, arguments)),
                None => state.summary.unknown += 1,
            },
        }
        if matches!(operation, END | RETURN) {
            return;
        }
        if operation == CALL
            && let Some(target) = arguments.first()
        {
            let prefetch = u64::from(header & 0xffff) * 2;
            run(state, GpuVa::new(u64::from(*target)), prefetch, depth + 1);
        }
        next = next.saturating_add(length);
    }
}

/// Returns the number of states that a command loads.
fn state_count(header: u32) -> usize {
    match header >> 16 & 0x3ff {
        0 => 1024,
        count => count as usize,
    }
}

fn load_state(state: &mut StreamState<'_>, header: u32, values: &[u32]) {
    let first = u64::from(header & 0xffff);
    let is_fixed_point = header >> 26 & 1 == 1;
    for (n, value) in (0u64..).zip(values.iter().take(state_count(header))) {
        // The front end converts fixed point, with 16 bits after the point, to a float.
        let value = match is_fixed_point {
            true => ((*value as i32) as f32 / 65536.0).to_bits(),
            false => *value,
        };
        state.write((first + n) * 4, value);
    }
}

fn describe(name: &str, operation: u32, header: u32, arguments: &[u32]) -> String {
    let argument = |n: usize| arguments.get(n).copied().unwrap_or(0);
    let engine = |n: u32| {
        ENGINES
            .iter()
            .find(|e| e.0 == n)
            .map_or_else(|| n.to_string(), |e| e.1.to_owned())
    };
    match operation {
        5 => format!(
            "{name}: type {}, first {}, {} primitives",
            argument(0),
            argument(1),
            argument(2)
        ),
        6 => format!(
            "{name}: type {}, first {}, {} primitives, base {}",
            argument(0),
            argument(1),
            argument(2),
            argument(3) as i32
        ),
        7 => format!("{name}: {} cycles", header & 0xffff),
        8 => format!("{name}: {} words at {:#x}", (header & 0xffff) * 2, argument(0)),
        9 => format!(
            "{name}: {} waits for {}",
            engine(argument(0) & 0x1f),
            engine(argument(0) >> 8 & 0x1f)
        ),
        10 => format!(
            "{name}: {} words at {:#x}, returns to {:#x}",
            (header & 0xffff) * 2,
            argument(0),
            argument(2)
        ),
        12 => format!(
            "{name}: type {}, {} instances, {} vertices, first {}",
            header >> 16 & 0xf,
            header & 0xffff,
            argument(0) & 0xff_ffff,
            argument(1)
        ),
        13 => format!("{name}: {:#x}", header & 0xffff),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::command_streams::tests::{ReportedCommands, buffers};
    use super::*;

    fn decode(all: &[(u64, &[u32])], words: u64) -> (ReportedCommands, StreamSummary) {
        let mut reported = ReportedCommands::default();
        let memory = buffers(all);
        let summary = decode_commands(&memory, GpuVa::new(all[0].0), words, 1000, &mut reported);
        (reported, summary)
    }

    #[test]
    fn states_become_writes_and_other_commands_notes() {
        let called = [0x0802_0e00, 7, 8, 0, 0x5800_0000, 0];
        let first = [
            0x0c01_0100, // LOAD_STATE of one value in fixed point
            0x0001_8000,
            0x4800_0000,
            0x0701, // STALL
            0x5000_0003,
            0x9000,
            0x2,
            0x1018, // CALL
            0x2800_0000,
            4,
            0,
            2, // DRAW_PRIMITIVES
            0x3800_00c8,
            0, // WAIT
            0x4000_0002,
            0x1030, // LINK
            0,
            0,
        ];
        let (reported, summary) = decode(&[(0x1000, &first), (0x9000, &called)], 18);
        assert_eq!(reported.writes, [(0x400, 1.5f32.to_bits()), (0x3800, 7), (0x3804, 8)]);
        assert_eq!(
            reported.commands,
            [
                "STALL: FE waits for PE",
                "CALL: 6 words at 0x9000, returns to 0x1018",
                "RETURN",
                "DRAW_PRIMITIVES: type 4, first 0, 2 primitives",
                "WAIT: 200 cycles",
                "LINK: 4 words at 0x1030"
            ]
        );
        assert_eq!((summary.missing, summary.unknown, summary.is_cut), (0, 0, false));
    }

    #[test]
    fn damaged_commands_are_counted_and_bounded() {
        // A call of itself, an unknown operation, and a state that is cut.
        let words = [0x5000_0040, 0x1000, 2, 0x1000, 0xf800_0000, 0, 0x0804_0100, 1];
        let (reported, summary) = decode(&[(0x1000, &words)], 8);
        assert!(summary.commands < 1000 && summary.missing > 0 && summary.is_cut);
        assert!(summary.unknown > 0 && !reported.writes.is_empty());
        let (_, summary) = decode(&[(0x1000, &[1])], 0);
        assert_eq!(summary, StreamSummary::default());
    }
}

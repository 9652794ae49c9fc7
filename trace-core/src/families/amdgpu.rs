//! AMD GPUs, from device core dumps and trace events of amdgpu: the packets of graphics and compute rings (PM4).
//!
//! A packet of type 3 has an operation and a number of words, one of type 0 writes consecutive registers, and one of type
//! 2 is filler. Facts: the kernel's `soc15d.h` and `nvd.h`, and Mesa's list of packets.

mod packets;
use super::command_streams::{BufferContents, CommandSink, MAX_DEPTH, StreamFamily, StreamState, StreamSummary};
use crate::GpuVa;
use packets::{packet_name, register_base};

/// Value of [`Identity::source`](crate::recording::Identity::source) for a device core dump of amdgpu.
pub const CORE_DUMP: &str = "amdgpu-devcoredump";

/// The family.
pub(super) static FAMILY: StreamFamily = StreamFamily {
    name: "amdgpu",
    title: "AMD GPU",
    drivers: &["amdgpu"],
    queue_job_type,
    sources: &[CORE_DUMP],
};

/// Returns the type of a ring's jobs. Names of rings are those of the hardware blocks: `gfx_0.0.0`, `comp_1.0.0`,
/// `sdma0`, `vcn_dec_0`.
fn queue_job_type(queue: &str) -> &'static str {
    let is_of = |blocks: &[&str]| blocks.iter().any(|b| queue.starts_with(b));
    match () {
        () if is_of(&["gfx"]) => "graphics commands",
        () if is_of(&["comp"]) => "compute commands",
        () if is_of(&["sdma"]) => "copy commands",
        () if is_of(&["vcn", "uvd", "vce", "jpeg"]) => "video commands",
        () => "job of the driver",
    }
}

const NOP: u32 = 0x10;
const INDIRECT_BUFFER_CONST: u32 = 0x33;
const INDIRECT_BUFFER: u32 = 0x3f;
/// Maximum number of arguments that a note shows.
const MAX_ARGUMENTS: usize = 6;

/// Decodes the packets in `words`, which follow each other from `at` on: those of a ring, which begins again at its end,
/// or of an indirect buffer. Indirect buffers are followed as far as memory holds them.
#[must_use]
pub fn decode_packets(
    memory: &BufferContents,
    at: GpuVa,
    words: &[u32],
    max_words: u64,
    sink: &mut dyn CommandSink,
) -> StreamSummary {
    let mut state = StreamState::new(memory, sink, max_words);
    run(&mut state, at, words, 0);
    state.summary
}

fn run(state: &mut StreamState<'_>, at: GpuVa, words: &[u32], depth: u8) {
    let mut next = 0usize;
    while let Some(&header) = words.get(next) {
        let count = (header >> 16 & 0x3fff) as usize + 1;
        let length = match header >> 30 {
            // A filler, and a NOP without words.
            2 => 1,
            3 if header >> 8 & 0xff == NOP && count == 0x4000 => 1,
            1 => {
                state.summary.unknown += 1;
                1
            }
            _ => 1 + count,
        };
        if !state.count(length) {
            return;
        }
        let here = at.saturating_add(next as u64 * 4);
        let end = next.saturating_add(length).min(words.len());
        let arguments = words.get(next + 1..end).unwrap_or_default();
        state.summary.is_cut |= next.saturating_add(length) > words.len();
        match header >> 30 {
            0 => write_registers(state, u64::from(header & 0xffff), arguments),
            3 => run_packet(state, here, header >> 8 & 0xff, arguments, depth),
            _ => {}
        }
        next = next.saturating_add(length);
    }
}

/// Writes consecutive registers from the number `first` on.
fn write_registers(state: &mut StreamState<'_>, first: u64, values: &[u32]) {
    for (n, value) in (0u64..).zip(values) {
        state.write((first + n) * 4, *value);
    }
}

fn run_packet(state: &mut StreamState<'_>, at: GpuVa, code: u32, arguments: &[u32], depth: u8) {
    if let Some(base) = register_base(code) {
        if let Some((first, values)) = arguments.split_first() {
            write_registers(state, base + u64::from(first & 0xffff), values);
        }
        return;
    }
    if code == NOP {
        return;
    }
    let shown: Vec<String> = arguments
        .iter()
        .take(MAX_ARGUMENTS)
        .map(|w| format!("{w:#x}"))
        .collect();
    let more = if arguments.len() > MAX_ARGUMENTS { ", …" } else { "" };
    let name = packet_name(code).map_or_else(
        || {
            state.summary.unknown += 1;
            format!("packet {code:#x}")
        },
        str::to_owned,
    );
    state.command(at, format!("{name}: {}{more}", shown.join(", ")));
    if let (INDIRECT_BUFFER | INDIRECT_BUFFER_CONST, [low, high, control, ..]) = (code, arguments) {
        let target = GpuVa::new(u64::from(high & 0xffff) << 32 | u64::from(low & !3));
        let size = u64::from(control & 0xf_ffff);
        let words = state.words(target, size);
        if (words.len() as u64) < size || depth >= MAX_DEPTH {
            state.summary.missing += 1;
        }
        if depth < MAX_DEPTH {
            run(state, target, &words, depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::command_streams::tests::{ReportedCommands, buffers};
    use super::*;

    fn type3(code: u32, arguments: u32) -> u32 {
        3 << 30 | (arguments - 1) << 16 | code << 8
    }

    #[test]
    fn registers_are_written_and_indirect_buffers_followed() {
        let indirect = [
            type3(0x76, 3),
            0x20c,
            7,
            8,
            type3(0x69, 2),
            0x10,
            9,
            type3(0x15, 4),
            2,
            3,
            4,
            1,
        ];
        let ring = [
            0x8000_0000,
            type3(NOP, 2),
            1,
            2,
            type3(INDIRECT_BUFFER, 3),
            0x9000,
            1,
            12,
            0xffff_1000,
            type3(0xee, 1),
            5,
            1 << 16 | 0x40,
            1,
            2,
        ];
        let mut reported = ReportedCommands::default();
        let memory = buffers(&[(0x1_0000_9000, &indirect)]);
        let summary = decode_packets(&memory, GpuVa::new(0), &ring, 1000, &mut reported);
        assert_eq!(
            reported.writes,
            [(0xb830, 7), (0xb834, 8), (0x2_8040, 9), (0x100, 1), (0x104, 2)]
        );
        assert_eq!(
            reported.commands,
            [
                "INDIRECT_BUFFER: 0x9000, 0x1, 0xc",
                "DISPATCH_DIRECT: 0x2, 0x3, 0x4, 0x1",
                "packet 0xee: 0x5"
            ]
        );
        assert_eq!((summary.missing, summary.unknown, summary.is_cut), (0, 1, false));
    }

    #[test]
    fn damaged_packets_are_counted_and_bounded() {
        let itself = [type3(INDIRECT_BUFFER, 3), 0x9000, 0, 4, type3(0x37, 9), 1];
        let mut reported = ReportedCommands::default();
        let memory = buffers(&[(0x9000, &itself)]);
        let summary = decode_packets(&memory, GpuVa::new(0x9000), &itself, 50, &mut reported);
        assert!(summary.missing > 0 && summary.is_cut);
        let summary = decode_packets(&memory, GpuVa::new(0), &[0x4000_0000; 100], 50, &mut reported);
        assert!(summary.is_endless && summary.unknown == 51);
    }
}

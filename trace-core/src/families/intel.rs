//! Intel GPUs, from device core dumps of xe and error states of i915, and from their trace events: the commands of batch
//! buffers.
//!
//! The upper three bits of a command are its client: 0 for the command processor, 2 for copies, 3 for rendering. Facts:
//! Mesa's descriptions of commands, and the kernel's `intel_gpu_commands.h`.

use super::command_streams::{BufferContents, CommandSink, MAX_DEPTH, StreamFamily, StreamState, StreamSummary};
use crate::GpuVa;

/// Value of [`Identity::source`](crate::recording::Identity::source) for a device core dump of xe.
pub const XE_CORE_DUMP: &str = "xe-devcoredump";
/// The same for an error state of i915.
pub const I915_ERROR_STATE: &str = "i915-error-state";

/// The family.
pub(super) static FAMILY: StreamFamily = StreamFamily {
    name: "intel",
    title: "Intel GPU",
    drivers: &["i915", "xe"],
    queue_job_type,
    sources: &[XE_CORE_DUMP, I915_ERROR_STATE],
};

/// Returns the type of an engine's jobs. Names of engines begin with their class: `rcs0`, `vecs1`.
fn queue_job_type(queue: &str) -> &'static str {
    match queue.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "rcs" => "render commands",
        "bcs" => "copy commands",
        "vcs" => "video commands",
        "vecs" => "video enhancement commands",
        "ccs" => "compute commands",
        _ => "job of the driver",
    }
}

const BATCH_BUFFER_END: u32 = 0x0a;
const LOAD_REGISTER_IMM: u32 = 0x22;
const BATCH_BUFFER_START: u32 = 0x31;
/// Commands of the command processor: bits 23 to 28, and name. Those below 0x10 have one word.
const PROCESSOR: [(u32, &str); 29] = [
    (0x00, "MI_NOOP"),
    (0x01, "MI_SET_PREDICATE"),
    (0x02, "MI_USER_INTERRUPT"),
    (0x03, "MI_WAIT_FOR_EVENT"),
    (0x05, "MI_ARB_CHECK"),
    (0x07, "MI_REPORT_HEAD"),
    (0x08, "MI_ARB_ON_OFF"),
    (0x0a, "MI_BATCH_BUFFER_END"),
    (0x0b, "MI_SUSPEND_FLUSH"),
    (0x0c, "MI_PREDICATE"),
    (0x0d, "MI_TOPOLOGY_FILTER"),
    (0x14, "MI_DISPLAY_FLIP"),
    (0x18, "MI_SET_CONTEXT"),
    (0x1a, "MI_MATH"),
    (0x1b, "MI_SEMAPHORE_SIGNAL"),
    (0x1c, "MI_SEMAPHORE_WAIT"),
    (0x1d, "MI_FORCE_WAKEUP"),
    (0x20, "MI_STORE_DATA_IMM"),
    (0x21, "MI_STORE_DATA_INDEX"),
    (0x22, "MI_LOAD_REGISTER_IMM"),
    (0x24, "MI_STORE_REGISTER_MEM"),
    (0x26, "MI_FLUSH_DW"),
    (0x28, "MI_REPORT_PERF_COUNT"),
    (0x29, "MI_LOAD_REGISTER_MEM"),
    (0x2a, "MI_LOAD_REGISTER_REG"),
    (0x2e, "MI_COPY_MEM_MEM"),
    (0x2f, "MI_ATOMIC"),
    (0x31, "MI_BATCH_BUFFER_START"),
    (0x36, "MI_CONDITIONAL_BATCH_BUFFER_END"),
];
/// Commands of the renderer: the upper half of their first word, and name.
const RENDERER: [(u32, &str); 30] = [
    (0x6101, "STATE_BASE_ADDRESS"),
    (0x6102, "STATE_SIP"),
    (0x6904, "PIPELINE_SELECT"),
    (0x7000, "MEDIA_VFE_STATE"),
    (0x7001, "MEDIA_CURBE_LOAD"),
    (0x7002, "MEDIA_INTERFACE_DESCRIPTOR_LOAD"),
    (0x7004, "MEDIA_STATE_FLUSH"),
    (0x7105, "GPGPU_WALKER"),
    (0x7200, "CFE_STATE"),
    (0x7202, "COMPUTE_WALKER"),
    (0x7208, "COMPUTE_WALKER"),
    (0x7805, "3DSTATE_DEPTH_BUFFER"),
    (0x7808, "3DSTATE_VERTEX_BUFFERS"),
    (0x7809, "3DSTATE_VERTEX_ELEMENTS"),
    (0x780a, "3DSTATE_INDEX_BUFFER"),
    (0x7810, "3DSTATE_VS"),
    (0x7811, "3DSTATE_GS"),
    (0x7812, "3DSTATE_CLIP"),
    (0x7813, "3DSTATE_SF"),
    (0x7814, "3DSTATE_WM"),
    (0x7815, "3DSTATE_CONSTANT_VS"),
    (0x7817, "3DSTATE_CONSTANT_PS"),
    (0x781e, "3DSTATE_STREAMOUT"),
    (0x781f, "3DSTATE_SBE"),
    (0x7820, "3DSTATE_PS"),
    (0x7821, "3DSTATE_VIEWPORT_STATE_POINTERS_SF_CLIP"),
    (0x784d, "3DSTATE_PS_BLEND"),
    (0x784f, "3DSTATE_PS_EXTRA"),
    (0x7a00, "PIPE_CONTROL"),
    (0x7b00, "3DPRIMITIVE"),
];

/// Decodes the batch buffer at `at`, until its end. Further batch buffers are followed as far as memory holds them.
#[must_use]
pub fn decode_batch(memory: &BufferContents, at: GpuVa, max_words: u64, sink: &mut dyn CommandSink) -> StreamSummary {
    let mut state = StreamState::new(memory, sink, max_words);
    run(&mut state, at, 0);
    state.summary
}

/// Runs a batch buffer. Returns whether the one that started it goes on.
fn run(state: &mut StreamState<'_>, at: GpuVa, depth: u8) -> bool {
    let words = state.words(at, state.left.saturating_add(1));
    if words.is_empty() || depth > MAX_DEPTH {
        state.summary.missing += 1;
        return true;
    }
    let mut next = 0usize;
    while let Some(&header) = words.get(next) {
        let code = header >> 23 & 0x3f;
        let length = match header >> 29 {
            0 if code < 0x10 => 1,
            0 => (header & 0xff) as usize + 2,
            2 => (header & 0xff) as usize + 2,
            // Commands of one word.
            3 if matches!(header >> 16, 0x6904 | 0x690b | 0x6804) => 1,
            3 => (header & 0xff) as usize + 2,
            _ => {
                state.summary.unknown += 1;
                1
            }
        };
        if !state.count(length) {
            return false;
        }
        let here = at.saturating_add(next as u64 * 4);
        let end = next.saturating_add(length).min(words.len());
        let arguments = words.get(next + 1..end).unwrap_or_default();
        state.summary.is_cut |= next.saturating_add(length) > words.len();
        next = next.saturating_add(length);
        match (header >> 29, code) {
            (0, 0) => {}
            (0, LOAD_REGISTER_IMM) => {
                for pair in arguments.chunks_exact(2) {
                    if let [offset, value] = pair {
                        state.write(u64::from(offset & 0x7f_fffc), *value);
                    }
                }
            }
            (0, BATCH_BUFFER_START) => {
                let target = address(arguments);
                state.command(here, format!("MI_BATCH_BUFFER_START: {:#x}", target.get()));
                // A second-level batch comes back, a chained one does not.
                let is_nested = header >> 22 & 1 == 1;
                let goes_on = run(state, target, depth + 1);
                if !is_nested || !goes_on {
                    return goes_on;
                }
            }
            (0 | 2 | 3, _) => {
                let text = describe(header, arguments);
                state.command(here, text);
            }
            _ => {}
        }
        if (header >> 29, code) == (0, BATCH_BUFFER_END) {
            return true;
        }
    }
    true
}

/// Returns the address in two words. The upper bits repeat the sign.
fn address(words: &[u32]) -> GpuVa {
    let word = |n: usize| u64::from(words.get(n).copied().unwrap_or(0));
    GpuVa::new((word(1) << 32 | word(0)) & 0xffff_ffff_fffc)
}

fn describe(header: u32, arguments: &[u32]) -> String {
    let code = header >> 23 & 0x3f;
    let known = match header >> 29 {
        0 => PROCESSOR.iter().find(|n| n.0 == code),
        3 => RENDERER.iter().find(|n| n.0 == header >> 16),
        _ => None,
    };
    let name = match known {
        Some((_, name)) => (*name).to_owned(),
        None if header >> 29 == 2 => format!("copy command {:#x}", header >> 22 & 0x7f),
        None => format!("command {:#x}", header >> 16),
    };
    let shown: Vec<String> = arguments.iter().take(6).map(|w| format!("{w:#x}")).collect();
    let more = if arguments.len() > 6 { ", …" } else { "" };
    match shown.is_empty() {
        true => name,
        false => format!("{name}: {}{more}", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::command_streams::tests::{ReportedCommands, buffers};
    use super::*;

    #[test]
    fn batches_run_until_their_end() {
        let second = [0x1100_0003, 0x2580, 1, 0x2584, 2, 0x0500_0000, 0xdead_beef];
        let first = [
            0,
            0x7a00_0004,
            0x10,
            0,
            0,
            0,
            0,
            0x18c0_0001, // a second-level batch
            0x9000,
            0,
            0x6904_0002,
            0x1880_0001, // a chained one
            0x5000,
            0,
            0x0500_0000,
        ];
        let memory = buffers(&[(0x1000, &first), (0x9000, &second)]);
        let mut reported = ReportedCommands::default();
        let summary = decode_batch(&memory, GpuVa::new(0x1000), 1000, &mut reported);
        assert_eq!(reported.writes, [(0x2580, 1), (0x2584, 2)]);
        assert_eq!(
            reported.commands,
            [
                "PIPE_CONTROL: 0x10, 0x0, 0x0, 0x0, 0x0",
                "MI_BATCH_BUFFER_START: 0x9000",
                "MI_BATCH_BUFFER_END",
                "PIPELINE_SELECT",
                "MI_BATCH_BUFFER_START: 0x5000"
            ]
        );
        assert_eq!((summary.missing, summary.unknown, summary.is_cut), (1, 0, false));
    }

    #[test]
    fn batches_that_start_themselves_are_bounded() {
        let itself = [0x18c0_0001, 0x1000, 0, 0x1880_0001, 0x1000, 0];
        let memory = buffers(&[(0x1000, &itself)]);
        let summary = decode_batch(&memory, GpuVa::new(0x1000), 100, &mut ReportedCommands::default());
        assert!(summary.missing > 0 || summary.is_endless);
        let summary = decode_batch(&memory, GpuVa::new(0x2000), 100, &mut ReportedCommands::default());
        assert_eq!((summary.missing, summary.commands), (1, 0));
        let cut = buffers(&[(0, &[0x7b00_0005, 1][..]), (0x1000, &[0x8000_0000])]);
        assert!(decode_batch(&cut, GpuVa::new(0), 100, &mut ReportedCommands::default()).is_cut);
        assert_eq!(
            decode_batch(&cut, GpuVa::new(0x1000), 100, &mut ReportedCommands::default()).unknown,
            1
        );
    }
}

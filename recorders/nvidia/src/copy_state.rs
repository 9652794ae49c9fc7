//! State of a copy engine: the memory that a launch reads and writes.

use nvidia_channel::GpuVa;

/// Maximum number of lines of a copy whose lines are saved one by one.
const MAX_LINES: u32 = 1 << 16;

/// Methods of copies, in bytes.
mod method {
    pub const LAUNCH_DMA: u32 = 0x300;
    pub const OFFSET_IN_UPPER: u32 = 0x400;
    pub const OFFSET_IN_LOWER: u32 = 0x404;
    pub const OFFSET_OUT_UPPER: u32 = 0x408;
    pub const OFFSET_OUT_LOWER: u32 = 0x40c;
    pub const PITCH_IN: u32 = 0x410;
    pub const PITCH_OUT: u32 = 0x414;
    pub const LINE_LENGTH_IN: u32 = 0x418;
    pub const LINE_COUNT: u32 = 0x41c;
    pub const REMAP_COMPONENTS: u32 = 0x708;
}

/// A range of GPU memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GpuRange {
    pub va: GpuVa,
    pub bytes: u64,
}

/// The state of a copy engine's methods.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CopyState {
    upper: u32,
    lower: u32,
    pitch: i32,
    target_upper: u32,
    target_lower: u32,
    target_pitch: i32,
    line_bytes: u32,
    lines: u32,
    components: u32,
}

impl CopyState {
    /// Sets a method. Returns `true` if it launches a copy.
    pub fn set(&mut self, method: u32, value: u32) -> bool {
        match method {
            method::OFFSET_IN_UPPER => self.upper = value,
            method::OFFSET_IN_LOWER => self.lower = value,
            method::OFFSET_OUT_UPPER => self.target_upper = value,
            method::OFFSET_OUT_LOWER => self.target_lower = value,
            method::PITCH_IN => self.pitch = value as i32,
            method::PITCH_OUT => self.target_pitch = value as i32,
            method::LINE_LENGTH_IN => self.line_bytes = value,
            method::LINE_COUNT => self.lines = value,
            method::REMAP_COMPONENTS => self.components = value,
            method::LAUNCH_DMA => return true,
            _ => {}
        }
        false
    }

    /// Returns the range from the first to the last byte that a launch of the copy engine writes, or `None` if it is
    /// unknown or empty, or a fill: constants are no descriptor, and the program may write over them.
    pub fn target(&self, launch: u32) -> Option<GpuRange> {
        let bit = |n: u32| launch >> n & 1 != 0;
        let has_transfer = launch & 3 != 0;
        let (is_pitch, has_lines, has_remap, is_physical) = (bit(8), bit(9), bit(10), bit(13));
        let is_fill = has_remap && self.source_element_bytes().is_none();
        if !has_transfer || is_physical || !is_pitch || is_fill {
            return None;
        }
        let element_bytes = if has_remap { self.target_element_bytes() } else { 1 };
        let line_bytes = u64::from(self.line_bytes).saturating_mul(element_bytes);
        let lines = if has_lines { u64::from(self.lines) } else { 1 };
        let pitch = i64::from(self.target_pitch);
        let span = pitch.unsigned_abs().saturating_mul(lines.checked_sub(1)?);
        let va = u64::from(self.target_upper & 0x1ff_ffff) << 32 | u64::from(self.target_lower);
        let first = if pitch < 0 { va.wrapping_sub(span) } else { va };
        (line_bytes != 0).then(|| GpuRange {
            va: GpuVa(first),
            bytes: span.saturating_add(line_bytes),
        })
    }

    /// Returns the bytes of a target element with component mapping.
    fn target_element_bytes(&self) -> u64 {
        let size = u64::from(self.components >> 16 & 3) + 1;
        size * (u64::from(self.components >> 24 & 3) + 1)
    }

    /// Reports what a launch of the copy engine reads at GPU virtual addresses in lines.
    pub fn sources(&self, launch: u32, report: &mut impl FnMut(GpuRange)) {
        let bit = |n: u32| launch >> n & 1 != 0;
        let has_transfer = launch & 3 != 0;
        let (is_pitch, has_lines, has_remap, is_physical) = (bit(7), bit(9), bit(10), bit(12));
        if !has_transfer || is_physical || !is_pitch {
            return;
        }
        let line_bytes = match has_remap {
            true => match self.source_element_bytes() {
                Some(bytes) => u64::from(self.line_bytes).saturating_mul(bytes),
                None => return,
            },
            false => u64::from(self.line_bytes),
        };
        let va = u64::from(self.upper & 0x1_ffff) << 32 | u64::from(self.lower);
        let lines = if has_lines { self.lines } else { 1 };
        let pitch = i64::from(self.pitch);
        if line_bytes == 0 || lines == 0 {
            return;
        }
        let is_dense = pitch >= 0 && pitch.unsigned_abs() <= line_bytes.saturating_mul(2);
        if lines == 1 || is_dense || lines > MAX_LINES {
            let span = pitch.unsigned_abs().saturating_mul(u64::from(lines - 1));
            let first = if pitch < 0 { va.wrapping_sub(span) } else { va };
            report(GpuRange {
                va: GpuVa(first),
                bytes: span.saturating_add(line_bytes),
            });
            return;
        }
        for line in 0..i64::from(lines) {
            let offset = pitch.saturating_mul(line) as u64;
            report(GpuRange {
                va: GpuVa(va.wrapping_add(offset)),
                bytes: line_bytes,
            });
        }
    }

    /// Returns the bytes of a source element with component mapping, or `None` if all components are constants: a fill.
    fn source_element_bytes(&self) -> Option<u64> {
        let targets = self.components >> 24 & 3;
        let reads = (0..=targets).any(|n| self.components >> (4 * n) & 7 < 4);
        let size = u64::from(self.components >> 16 & 3) + 1;
        let sources = u64::from(self.components >> 20 & 3) + 1;
        reads.then_some(size * sources)
    }
}

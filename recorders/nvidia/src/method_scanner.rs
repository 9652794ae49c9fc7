//! Scanner of the words of a channel: the memory that copies read, and that copies and uploads write, and the launch
//! descriptors that commands name.
//!
//! Methods keep their values between submissions, so a channel has one scanner. It allocates nothing.

use crate::copy_state::{CopyState, GpuRange};
use nvidia_channel::GpuVa;
use nvidia_channel::qmd::MAX_QMD_BYTES;

/// Number of subchannels.
const SUBCHANNELS: usize = 8;
/// Subchannel of launches in every known driver, before it binds a class.
const COMPUTE_SUBCHANNEL: usize = 1;
/// Subchannel of copies in every known driver, before it binds a class.
const COPY_SUBCHANNEL: usize = 4;
/// Bytes of a word.
const WORD_BYTES: usize = 4;

/// Methods in bytes, with the classes that have them.
mod method {
    /// All classes.
    pub const SET_OBJECT: u32 = 0x0;
    // Uploads of compute, graphics and inline-to-memory classes.
    pub const LINE_LENGTH_IN: u32 = 0x180;
    pub const LINE_COUNT: u32 = 0x184;
    pub const OFFSET_OUT_UPPER: u32 = 0x188;
    pub const OFFSET_OUT: u32 = 0x18c;
    pub const LAUNCH_UPLOAD: u32 = 0x1b0;
    // Launches of compute classes.
    pub const SEND_PCAS_A: u32 = 0x2b4;
    pub const SET_INLINE_QMD_ADDRESS_A: u32 = 0x318;
    pub const SET_INLINE_QMD_ADDRESS_B: u32 = 0x31c;
    pub const LOAD_INLINE_QMD_DATA: u32 = 0x320;
}

/// What commands do with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryUse {
    /// A copy reads a range.
    CopySource(GpuRange),
    /// A copy or an upload writes a range.
    Written(GpuRange),
    /// A launch reads the descriptor at this address.
    Descriptor(GpuVa),
}

/// The engine behind a subchannel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    /// Launches and uploads.
    Compute,
    /// Uploads only.
    Upload,
    Copy,
    Other,
}

/// The state of methods of uploads and launches.
#[derive(Clone, Copy, Debug, Default)]
struct UploadState {
    upper: u32,
    lower: u32,
    line_bytes: u32,
    lines: u32,
    inline_upper: u32,
    inline_lower: u32,
}

/// The scanner of a channel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MethodScanner {
    /// Class of each subchannel, 0 if none was bound.
    classes: [u32; SUBCHANNELS],
    copies: [CopyState; SUBCHANNELS],
    uploads: [UploadState; SUBCHANNELS],
}

/// A header of methods.
struct Header {
    subchannel: usize,
    method: u32,
    count: usize,
    step: Step,
}

/// How the method changes between the words of a header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Every,
    Never,
    Once,
}

impl Header {
    /// Returns the header of an old form, whose count is in bits 28:18.
    fn from_old_form(word: u32, step: Step) -> Self {
        Self {
            subchannel: (word >> 13 & 7) as usize,
            method: word & 0x1ffc,
            count: (word >> 18 & 0x7ff) as usize,
            step,
        }
    }
}

impl MethodScanner {
    /// Passes what these words do with memory to `report`, in order. The bytes are words of 32 bits.
    pub fn scan(&mut self, mut words: &[u8], report: &mut impl FnMut(MemoryUse)) {
        while let Some((word, rest)) = words.split_first_chunk::<WORD_BYTES>() {
            let word = u32::from_le_bytes(*word);
            words = rest;
            let (subchannel, method) = ((word >> 13 & 7) as usize, (word & 0xfff) << 2);
            let count = (word >> 16 & 0x1fff) as usize;
            let new_form = |step| Header {
                subchannel,
                method,
                count,
                step,
            };
            let header = match word >> 29 {
                1 => new_form(Step::Every),
                3 => new_form(Step::Never),
                5 => new_form(Step::Once),
                // The value is part of the header.
                4 => {
                    let engine = self.engine(subchannel);
                    self.set(engine, subchannel, method, word >> 16 & 0x1fff, report);
                    continue;
                }
                // The segment ends.
                7 => return,
                // Old forms, which the engines of these chips do not take: only the words must be skipped.
                0 if word >> 16 & 3 == 0 => Header::from_old_form(word, Step::Every),
                2 if word >> 16 & 3 == 0 => Header::from_old_form(word, Step::Never),
                _ => continue,
            };
            let bytes = header.count.saturating_mul(WORD_BYTES).min(words.len());
            let (values, after) = words.split_at(bytes);
            words = after;
            self.run(&header, values, report);
        }
    }

    fn run(&mut self, header: &Header, values: &[u8], report: &mut impl FnMut(MemoryUse)) {
        let subchannel = header.subchannel;
        let engine = self.engine(subchannel);
        let binds = header.method == method::SET_OBJECT;
        // Most words are data of uploads: one method takes all of them.
        if !binds && (engine == Engine::Other || header.step == Step::Never && !is_followed(engine, header.method)) {
            return;
        }
        for (n, value) in values.chunks_exact(WORD_BYTES).enumerate() {
            let steps = match header.step {
                Step::Every => n as u32,
                Step::Never => 0,
                Step::Once => u32::from(n > 0),
            };
            let value = value.first_chunk().map_or(0, |v| u32::from_le_bytes(*v));
            let method = header.method.wrapping_add(4 * steps);
            self.set(engine, subchannel, method, value, report);
        }
    }

    fn engine(&self, subchannel: usize) -> Engine {
        match self.classes.get(subchannel).map(|class| class & 0xff) {
            Some(0) if subchannel == COPY_SUBCHANNEL => Engine::Copy,
            Some(0) if subchannel == COMPUTE_SUBCHANNEL => Engine::Compute,
            Some(0xb5) => Engine::Copy,
            Some(0xc0) => Engine::Compute,
            // Graphics, and the class that only uploads.
            Some(0x97 | 0x40) => Engine::Upload,
            _ => Engine::Other,
        }
    }

    fn set(&mut self, engine: Engine, subchannel: usize, method: u32, value: u32, report: &mut impl FnMut(MemoryUse)) {
        if method == method::SET_OBJECT {
            if let Some(class) = self.classes.get_mut(subchannel) {
                *class = value & 0xffff;
            }
            return;
        }
        match engine {
            Engine::Copy => {
                if let Some(copy) = self.copies.get_mut(subchannel)
                    && copy.set(method, value)
                {
                    copy.sources(value, &mut |range| report(MemoryUse::CopySource(range)));
                    if let Some(range) = copy.target(value) {
                        report(MemoryUse::Written(range));
                    }
                }
            }
            Engine::Compute | Engine::Upload => {
                let use_of_memory = self.uploads.get_mut(subchannel).and_then(|u| u.set(method, value));
                if let Some(use_of_memory) = use_of_memory
                    && (engine == Engine::Compute || matches!(use_of_memory, MemoryUse::Written(_)))
                {
                    report(use_of_memory);
                }
            }
            Engine::Other => {}
        }
    }
}

/// Whether repeated values of a method matter.
fn is_followed(engine: Engine, method: u32) -> bool {
    match engine {
        Engine::Copy => true,
        Engine::Compute | Engine::Upload => UploadState::METHODS.contains(&method),
        Engine::Other => false,
    }
}

impl UploadState {
    const METHODS: [u32; 9] = [
        method::LINE_LENGTH_IN,
        method::LINE_COUNT,
        method::OFFSET_OUT_UPPER,
        method::OFFSET_OUT,
        method::LAUNCH_UPLOAD,
        method::SEND_PCAS_A,
        method::SET_INLINE_QMD_ADDRESS_A,
        method::SET_INLINE_QMD_ADDRESS_B,
        method::LOAD_INLINE_QMD_DATA,
    ];

    /// Sets a method. Returns what it starts.
    fn set(&mut self, method: u32, value: u32) -> Option<MemoryUse> {
        match method {
            method::LINE_LENGTH_IN => self.line_bytes = value,
            method::LINE_COUNT => self.lines = value,
            method::OFFSET_OUT_UPPER => self.upper = value,
            method::OFFSET_OUT => self.lower = value,
            method::LAUNCH_UPLOAD => {
                return Some(MemoryUse::Written(GpuRange {
                    va: GpuVa(u64::from(self.upper & 0x1ff_ffff) << 32 | u64::from(self.lower)),
                    bytes: u64::from(self.line_bytes).saturating_mul(u64::from(self.lines)),
                }));
            }
            method::SEND_PCAS_A => return Some(MemoryUse::Descriptor(GpuVa(u64::from(value) << 8))),
            method::SET_INLINE_QMD_ADDRESS_A => self.inline_upper = value & 0x1ff,
            method::SET_INLINE_QMD_ADDRESS_B => self.inline_lower = value,
            method::LOAD_INLINE_QMD_DATA => {
                return Some(MemoryUse::Written(GpuRange {
                    va: GpuVa(u64::from(self.inline_upper) << 40 | u64::from(self.inline_lower) << 8),
                    bytes: MAX_QMD_BYTES as u64,
                }));
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests;

//! The writes of a channel plan that no work of the GPU can see the lack of: they are the plan's initial contents.

use nvidia_channel::command::{Command, Copy, Semaphore, Surface, SurfaceLayout, Upload};
use nvidia_channel::memory::NoMemory;
use nvidia_channel::push_buffer::{Method, PushBuffer};
use nvidia_channel::{Bindings, CommandReader};
use nvidia_client::Place;
use nvidia_client::steps::{EngineKind, PAGE_BYTES, Step};
use replay_engine::channel::{MemoryRanges, initial_bindings};
use std::borrow::Cow;
use trace_core::GpuVa;

/// Bytes that a semaphore has at most.
const SEMAPHORE_BYTES: u64 = 16;
/// Last byte of the class of compute engines.
const COMPUTE: u16 = 0xc0;
/// Method of compute engines that writes a notification.
const NOTIFY: u16 = 0x110;
/// First method of compute engines that runs a macro of the engine's firmware.
const CALL_MACRO: u16 = 0x3800;
/// First line distance that is a negative number for a copy engine.
const NEGATIVE_PITCH: u32 = 1 << 31;

/// Maximum size of a push buffer: a ring entry has 21 bits for its words.
const MAX_PUSH_BUFFER_BYTES: u64 = 4 << 21;

/// Follows the steps of a plan, and finds its initial writes.
///
/// A write is initial if nothing before it can have accessed its bytes: no work of the GPU, no read of an output, and no
/// write that is not initial. Commands other than launches access known ranges. After the first launch, or the first command whose ranges
/// are unknown, no write is initial.
pub(crate) struct InitialWriteFinder<'p> {
    is_open: bool,
    /// Memory that GPU work or writes that are not initial have accessed.
    accessed: MemoryRanges,
    /// Compute, copy.
    channels: [(Bindings, CommandReader); 2],
    /// The bytes of the last write, if it is the step before.
    last_write: Option<(u64, Cow<'p, [u8]>)>,
}

impl<'p> InitialWriteFinder<'p> {
    /// Creates a finder for a plan with a class of compute engines.
    pub fn new(compute_class: u16) -> Self {
        let channel = || (initial_bindings(compute_class), CommandReader::new());
        Self {
            is_open: true,
            accessed: MemoryRanges::default(),
            channels: [channel(), channel()],
            last_write: None,
        }
    }

    /// Takes the next step, and returns whether it is an initial write. `image` returns the page image of a number.
    pub fn is_initial(&mut self, step: &Step<'p>, image: impl Fn(u32) -> Option<&'p [u8; PAGE_BYTES]>) -> bool {
        let last_write = self.last_write.take();
        if !self.is_open {
            return false;
        }
        match *step {
            Step::Write { va, data } => {
                self.last_write = Some((va, Cow::Borrowed(data)));
                self.take_write(va, data.len() as u64)
            }
            Step::WritePages { va, bytes, pages } => {
                // Only a push buffer is read, and none is larger.
                if bytes <= MAX_PUSH_BUFFER_BYTES {
                    self.last_write = join_pages(va, bytes, pages, image).map(|content| (va, Cow::Owned(content)));
                }
                self.take_write(va, bytes)
            }
            Step::Submit { engine, va, words, .. } => {
                let bytes = u64::from(words).saturating_mul(4);
                let content = last_write.filter(|(at, data)| (*at, data.len() as u64) == (va, bytes));
                let is_known = content.is_some_and(|(_, data)| self.follow(engine, &data).is_some());
                self.is_open = is_known;
                self.access(va, bytes);
                false
            }
            // An output that is read before a write has the bytes before it.
            Step::Read { va, bytes, .. } => {
                self.access(va, bytes);
                false
            }
            Step::Map { .. } | Step::MapScheduler { .. } => false,
        }
    }

    fn take_write(&mut self, va: u64, bytes: u64) -> bool {
        let is_initial = !self.accessed.overlap(GpuVa::new(va), bytes);
        if !is_initial {
            self.access(va, bytes);
        }
        is_initial
    }

    fn access(&mut self, va: u64, bytes: u64) {
        self.accessed.add(GpuVa::new(va), bytes.max(1), Place::Video);
    }

    /// Adds the ranges that a push buffer accesses. Returns `None` if they are not all known.
    fn follow(&mut self, engine: EngineKind, words: &[u8]) -> Option<()> {
        let mut ranges = Vec::new();
        let (bindings, reader) = self.channels.get_mut(usize::from(engine == EngineKind::Copy))?;
        let buffer = PushBuffer::new(words);
        let mut methods = buffer.methods(bindings);
        while let Some(next) = reader.read_next(&mut methods, &NoMemory) {
            let (method, command) = next.ok()?;
            if accesses_unknown_memory(&method) {
                return None;
            }
            match command {
                None => {}
                Some(Command::Upload(upload)) => push_upload(&upload, &mut ranges)?,
                Some(Command::Copy(copy)) => push_copy(&copy, &mut ranges)?,
                Some(Command::Semaphore(semaphore)) => push_semaphore(&semaphore, &mut ranges),
                Some(Command::Launch(_) | Command::UnreadableLaunch(_)) => return None,
            }
        }
        for (va, bytes) in ranges {
            self.access(va, bytes);
        }
        Some(())
    }
}

/// Returns the bytes of page images, or `None` if one is missing.
fn join_pages<'p>(
    va: u64,
    bytes: u64,
    pages: &[[u8; 4]],
    image: impl Fn(u32) -> Option<&'p [u8; PAGE_BYTES]>,
) -> Option<Vec<u8>> {
    const ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
    let bytes = usize::try_from(bytes).ok()?;
    let mut content = Vec::with_capacity(bytes);
    let mut from = (va % PAGE_BYTES as u64) as usize;
    for number in pages {
        let page = match u32::from_le_bytes(*number) {
            0 => &ZEROS,
            number => image(number)?,
        };
        let end = PAGE_BYTES.min(from.saturating_add(bytes.saturating_sub(content.len())));
        content.extend_from_slice(page.get(from..end)?);
        from = 0;
    }
    Some(content)
}

/// Returns whether a method accesses memory that no command names.
fn accesses_unknown_memory(method: &Method) -> bool {
    let is_compute = method.class.is_some_and(|class| class & 0xff == COMPUTE);
    is_compute && (method.method == NOTIFY || method.method >= CALL_MACRO)
}

type Ranges = Vec<(u64, u64)>;

fn push_semaphore(semaphore: &Semaphore, ranges: &mut Ranges) {
    ranges.push((semaphore.address.0, SEMAPHORE_BYTES));
}

fn push_lines(address: u64, line: u64, lines: u32, pitch: u32, ranges: &mut Ranges) -> Option<()> {
    let before_last = u64::from(lines).saturating_sub(1);
    if before_last > 0 && pitch >= NEGATIVE_PITCH {
        return None;
    }
    let extent = before_last.checked_mul(u64::from(pitch))?.checked_add(line)?;
    ranges.push((address, extent));
    Some(())
}

fn push_upload(upload: &Upload, ranges: &mut Ranges) -> Option<()> {
    if upload.layout == SurfaceLayout::BlockLinear && upload.lines > 1 {
        return None;
    }
    let line = u64::from(upload.line_bytes);
    push_lines(upload.address.0, line, upload.lines, upload.pitch, ranges)?;
    upload.semaphore.iter().for_each(|s| push_semaphore(s, ranges));
    Some(())
}

fn push_copy(copy: &Copy, ranges: &mut Ranges) -> Option<()> {
    let (from, to) = copy.remap.map_or((1, 1), |r| {
        let bytes = u64::from(r.component_bytes);
        (
            bytes.saturating_mul(u64::from(r.source_components)),
            bytes.saturating_mul(u64::from(r.destination_components)),
        )
    });
    let mut push = |surface: &Surface, pixel: u64| {
        if surface.physical || surface.layout == SurfaceLayout::BlockLinear {
            return None;
        }
        let line = u64::from(copy.line_length).checked_mul(pixel)?;
        push_lines(surface.address.0, line, copy.lines, surface.pitch, ranges)
    };
    if copy.fill_pattern().is_none() {
        push(&copy.source, from)?;
    }
    push(&copy.destination, to)?;
    copy.semaphore.iter().for_each(|s| push_semaphore(s, ranges));
    Some(())
}

#[cfg(test)]
mod tests;

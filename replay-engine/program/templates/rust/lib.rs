//! @TITLE@ as a program of its own, made by Kinescope.
//!
//! [`run`] puts the recorded memory and your inputs in place, does what the recorded driver did to the device, compares
//! what it reads with what was recorded, and copies the outputs out. It needs no operating system, takes no heap and
//! does not panic; `README.md` says what it asks of the machine.
#![no_std]
#![forbid(unsafe_code)]

mod plan;

pub use plan::{ACTIONS, BASE, BYTES, Inputs, Outputs};
pub use replay_core::{Counts, Device, DeviceError, Divergence, Failure, FailureKind, WaitResult};

use replay_core::{Actions, Budget, Compared, Flow, Observer, execute};

/// Nanoseconds between two reads of a poll.
const POLL_STEP_NS: u64 = 1_000;
/// Bytes of an image.
const PAGE: usize = 4096;

/// A device with the memory that it shares with this program: [`BYTES`] bytes, which the device sees at the physical
/// address [`BASE`]. What the program stores the device must see, and the other way: where caches stand between, clean
/// them in [`Memory::store`] and [`Memory::clear`], and invalidate them in [`Memory::load`].
pub trait Memory: Device {
    /// Makes bytes of the memory zero.
    ///
    /// # Errors
    /// When they are outside of it.
    fn clear(&mut self, offset: u64, bytes: u64) -> Result<(), DeviceError>;

    /// Puts bytes into the memory.
    ///
    /// # Errors
    /// When they are outside of it.
    fn store(&mut self, offset: u64, from: &[u8]) -> Result<(), DeviceError>;

    /// Takes bytes from the memory.
    ///
    /// # Errors
    /// When they are outside of it.
    fn load(&mut self, offset: u64, to: &mut [u8]) -> Result<(), DeviceError>;
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Actions, reads compared and matched, interrupts.
    pub counts: Counts,
    /// The first value that differed from the recording.
    pub first_divergence: Option<Divergence>,
}

impl Report {
    /// Whether everything that was compared was as recorded.
    #[must_use]
    pub fn matched(&self) -> bool {
        self.counts.divergences == 0
    }
}

/// Why a run did not come to its end. The device is left as it is: reset it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The memory could not be put in place or read; the offset in it.
    Memory(u64, DeviceError),
    /// The replay broke off.
    Replay(Failure),
    /// A status that is waited for did not come in its time: what the run did until there, and what was read last. What
    /// follows was proved for a device that came so far.
    NoStatus(Counts, Divergence),
}

/// Bytes of a buffer that lie together.
pub(crate) struct Piece {
    pub buffer: usize,
    pub at: usize,
    pub bytes: usize,
    pub offset: u64,
}

/// Bytes of an input that lie together in an image.
pub(crate) struct ImagePiece {
    pub image: u32,
    pub place: usize,
    pub buffer: usize,
    pub at: usize,
    pub bytes: usize,
}

/// Replays the recording on a device. The device has to be in its power-on state.
///
/// An input that is `None` is as it was recorded; an output that is `None` is not taken. A run whose reads do not all
/// match comes to its end too: look at [`Report::matched`].
///
/// # Errors
/// When the device or its memory fails, an interrupt or a status that is waited for does not come in its time, or the
/// budget is spent.
pub fn run<D: Memory>(device: &mut D, inputs: &Inputs<'_>, outputs: &mut Outputs<'_>) -> Result<Report, Error> {
    place(device, inputs)?;
    let budget = Budget {
        actions: plan::ACTIONS,
        time_ns: plan::TIME_NS,
        poll_step_ns: POLL_STEP_NS,
    };
    let mut first = Differences { first: None, missed: None };
    let mut running = Running { device, inputs };
    let result = execute(&mut running, Actions::new(plan::BODY), &budget, &mut first);
    let counts = result.map_err(|failure| match first.missed {
        Some(missed) => Error::NoStatus(failure.counts, missed),
        None => Error::Replay(failure),
    })?;
    for p in plan::OUTPUT_PIECES {
        if let Some(to) = outputs.get(p.buffer).and_then(|o| o.get_mut(p.at..p.at + p.bytes)) {
            device.load(p.offset, to).map_err(|e| Error::Memory(p.offset, e))?;
        }
    }
    Ok(Report {
        counts,
        first_divergence: first.first,
    })
}

/// Puts the recorded memory in place, and the inputs.
fn place<D: Memory>(device: &mut D, inputs: &Inputs<'_>) -> Result<(), Error> {
    if BYTES > 0 {
        device.clear(0, BYTES).map_err(|e| Error::Memory(0, e))?;
    }
    let mut rest = plan::MEMORY;
    for (offset, bytes) in plan::RUNS {
        let Some((now, behind)) = rest.split_at_checked(*bytes) else {
            return Err(Error::Memory(*offset, DeviceError::OutOfRange));
        };
        device.store(*offset, now).map_err(|e| Error::Memory(*offset, e))?;
        rest = behind;
    }
    for p in plan::INPUT_PIECES {
        if let Some(from) = inputs.get(p.buffer).and_then(|i| i.get(p.at..p.at + p.bytes)) {
            device.store(p.offset, from).map_err(|e| Error::Memory(p.offset, e))?;
        }
    }
    Ok(())
}

/// What differs in a run: the first of it, and the wait that ended it.
struct Differences {
    first: Option<Divergence>,
    missed: Option<Divergence>,
}

impl Observer for Differences {
    fn divergence(&mut self, divergence: &Divergence) -> Flow {
        self.first.get_or_insert(*divergence);
        if matches!(divergence.compared, Compared::Until(_)) {
            self.missed = Some(*divergence);
            return Flow::Stop;
        }
        Flow::Continue
    }
}

/// A device during a run, with the images that changes of memory take bytes from.
struct Running<'a, D> {
    device: &'a mut D,
    inputs: &'a Inputs<'a>,
}

impl<D: Memory> Device for Running<'_, D> {
    fn read(&mut self, space: u8, offset: u64, width: u8) -> Result<u64, DeviceError> {
        if space == replay_core::MEMORY {
            let mut bytes = [0; 8];
            let read = bytes.get_mut(..usize::from(width)).ok_or(DeviceError::OutOfRange)?;
            self.device.load(offset, read)?;
            return Ok(u64::from_le_bytes(bytes));
        }
        self.device.read(space, offset, width)
    }

    fn write(&mut self, space: u8, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        if space == replay_core::MEMORY {
            return self.put(offset, width, value);
        }
        self.device.write(space, offset, width, value)
    }

    fn wait_interrupt(&mut self, lines: u32, limit_ns: u64) -> Result<WaitResult, DeviceError> {
        self.device.wait_interrupt(lines, limit_ns)
    }

    fn pause(&mut self, ns: u64) -> Result<(), DeviceError> {
        self.device.pause(ns)
    }

    fn put(&mut self, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        let bytes = value.to_le_bytes();
        let bytes = bytes.get(..usize::from(width)).ok_or(DeviceError::OutOfRange)?;
        self.device.store(offset, bytes)
    }

    fn copy(&mut self, offset: u64, bytes: u32, image: u32) -> Result<(), DeviceError> {
        let owner = usize::try_from(image).ok().and_then(|i| plan::OWNERS.get(i).copied().flatten());
        if owner.is_some_and(|input| self.inputs.get(input).is_none()) {
            return Ok(());
        }
        let start = usize::try_from(image).ok().and_then(|i| i.checked_mul(PAGE));
        let place = (offset % PAGE as u64) as usize;
        let end = place.saturating_add(bytes as usize);
        let page = start.and_then(|s| plan::IMAGES.get(s..s.checked_add(PAGE)?));
        let from = page.and_then(|p| p.get(place..end)).ok_or(DeviceError::NoImages)?;
        self.device.store(offset, from)?;
        let first = plan::IMAGE_PIECES.partition_point(|p| p.image < image);
        for p in plan::IMAGE_PIECES.iter().skip(first).take_while(|p| p.image == image) {
            let (from, to) = (p.place.max(place), (p.place + p.bytes).min(end));
            let at = p.at.saturating_add(from.saturating_sub(p.place));
            if from < to
                && let Some(given) = self.inputs.get(p.buffer).and_then(|i| i.get(at..at + (to - from)))
            {
                self.device.store(offset - place as u64 + from as u64, given)?;
            }
        }
        Ok(())
    }

    fn now_ns(&mut self) -> u64 {
        self.device.now_ns()
    }
}

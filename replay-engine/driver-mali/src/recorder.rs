//! Recorder of every register access with the device's time and of every CPU write to memory.

use crate::error::DriverError;
use replay_core::WaitResult;
use replay_engine::device::{RegisterTarget, space};
use std::collections::BTreeMap;
use std::ops::Range;
use trace_core::container::{ContainerError, Sink, Writer};
use trace_core::recording::{
    Access, Events, EventsBuilder, FrameRole, HostWriteRow, Identity, Memory, MemoryBuilder, PageId, ZERO_PAGE,
};
use trace_core::{PAGE_SIZE, PhysAddr, RegOffset};

/// Size of an event with its access, and of a page image with its digest, bytes.
const EVENT_BYTES: u64 = 31;
const PAGE_BYTES: u64 = PAGE_SIZE as u64 + 32;

/// Thread number under which the driver's accesses are recorded.
const THREAD: u32 = 1;

/// Recorder of the actions of a [`crate::Driver`].
#[derive(Debug, Default)]
pub struct Recorder {
    identity: Identity,
    events: EventsBuilder,
    memory: MemoryBuilder,
    /// Whether the initial memory of a replay was recorded.
    begun: bool,
    /// CPU writes since the latest event.
    written: BTreeMap<u64, WrittenFrame>,
    /// Whether the recording has ended. The work may go on, but nothing more is recorded.
    ended: bool,
}

/// Parts of a frame that the CPU wrote, sorted and separate.
#[derive(Debug)]
struct WrittenFrame {
    role: FrameRole,
    parts: Vec<Range<usize>>,
}

impl WrittenFrame {
    /// Adds a part and joins adjacent parts.
    fn add(&mut self, part: Range<usize>) {
        if part.is_empty() {
            return;
        }
        let from = self.parts.partition_point(|p| p.end < part.start);
        let to = self.parts.partition_point(|p| p.start <= part.end);
        let joined = match (self.parts.get(from), to.checked_sub(1).and_then(|l| self.parts.get(l))) {
            (Some(first), Some(last)) if from < to => first.start.min(part.start)..last.end.max(part.end),
            _ => part,
        };
        self.parts.splice(from..to.max(from), [joined]);
    }
}

impl Recorder {
    /// Creates an empty recorder. `title` describes the recording and becomes part of the tool's name.
    #[must_use]
    pub fn new(title: &str) -> Self {
        let tool = format!("driver-mali {}: {title}", env!("CARGO_PKG_VERSION"));
        Self {
            identity: Identity {
                tool,
                ..Identity::default()
            },
            ..Self::default()
        }
    }

    /// Returns the identity of the recording. The driver fills in the values that it reads from the device.
    pub fn identity_mut(&mut self) -> &mut Identity {
        &mut self.identity
    }

    /// Returns whether the initial memory of a replay was recorded.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Returns the latest event.
    pub(crate) fn last_event(&self) -> u64 {
        (self.events.len() as u64).saturating_sub(1)
    }

    /// Records that the CPU wrote a part of a frame. An empty part records that the frame was taken into use. Before
    /// the first snapshot nothing is recorded, because the snapshot contains it.
    pub(crate) fn add_host_write(&mut self, frame: u64, role: FrameRole, part: Range<usize>) {
        if self.begun && !self.ended {
            let written = self.written.entry(frame);
            written
                .or_insert_with(|| WrittenFrame {
                    role,
                    parts: Vec::new(),
                })
                .add(part);
        }
    }

    /// Makes events of the CPU writes since the latest event.
    fn flush_host_writes(&mut self, device: &mut dyn RegisterTarget) -> Result<(), DriverError> {
        if self.written.is_empty() {
            return Ok(());
        }
        let time = device.now_ns();
        let mut frames = Vec::with_capacity(self.written.len());
        let mut page = ZERO_PAGE;
        for (frame, written) in std::mem::take(&mut self.written) {
            device.load_page(frame, &mut page)?;
            let id = self.memory.add_page(&page);
            frames.push((frame, id, written.role));
            for part in written.parts {
                let row = HostWriteRow {
                    at: PhysAddr::new(frame * PAGE_SIZE as u64 + part.start as u64),
                    bytes: part.len() as u32,
                    page: id.0,
                };
                self.events.host_write(time, THREAD, row);
            }
        }
        self.memory.add_changes(self.events.len() as u64, frames);
        Ok(())
    }

    /// Takes a snapshot of all memory as it is before the next event. The first snapshot is the state at the start of
    /// the recording, whatever came before it. Returns the number of frames that hold data, and how many of these are
    /// zero.
    pub(crate) fn take_snapshot(
        &mut self,
        device: &mut dyn RegisterTarget,
        taken: impl Iterator<Item = (u64, FrameRole)>,
    ) -> Result<(u64, u64), DriverError> {
        if self.ended {
            return Ok((0, 0));
        }
        self.flush_host_writes(device)?;
        let mut frames = Vec::new();
        let mut page = ZERO_PAGE;
        let (mut data, mut zeros) = (0, 0);
        for (frame, role) in taken {
            device.load_page(frame, &mut page)?;
            let id = self.memory.add_page(&page);
            if role == FrameRole::Data {
                data += 1;
                zeros += u64::from(id == PageId::ZERO);
            }
            frames.push((frame, id, role));
        }
        let event = if std::mem::replace(&mut self.begun, true) {
            self.events.len() as u64
        } else {
            0
        };
        self.memory.add_snapshot(event, frames);
        Ok((data, zeros))
    }

    /// Stops recording.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns the number of events so far.
    pub(crate) fn events(&self) -> u64 {
        self.events.len() as u64
    }

    /// Returns the approximate size of the recording so far, in memory and in a file, bytes.
    pub(crate) fn byte_count(&self) -> u64 {
        self.events.len() as u64 * EVENT_BYTES + self.memory.pages() as u64 * PAGE_BYTES
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Appends what the file does not contain yet.
    pub(crate) fn append_to<S: Sink>(&self, writer: &mut Writer<S>) -> Result<(), ContainerError> {
        writer.put_growing(&self.events, &self.memory)
    }

    pub(crate) fn finish(self) -> (Identity, Events, Memory) {
        (self.identity, self.events.finish(), self.memory.finish())
    }

    fn add_access(&mut self, device: &mut dyn RegisterTarget, write: bool, offset: u32, value: u64) {
        if self.ended {
            return;
        }
        let access = Access {
            space: space::REGISTERS,
            write,
            offset: RegOffset::new(offset),
            width: 4,
            value,
        };
        self.events.access(device.now_ns(), THREAD, access);
    }

    pub(crate) fn read(&mut self, device: &mut dyn RegisterTarget, offset: u32) -> Result<u32, DriverError> {
        self.flush_host_writes(device)?;
        let value = device
            .read(space::REGISTERS, u64::from(offset), 4)
            .map_err(|error| DriverError::Access {
                what: "read",
                offset,
                error,
            })?;
        self.add_access(device, false, offset, value);
        Ok(value as u32)
    }

    pub(crate) fn write(
        &mut self,
        device: &mut dyn RegisterTarget,
        offset: u32,
        value: u32,
    ) -> Result<(), DriverError> {
        self.flush_host_writes(device)?;
        device
            .write(space::REGISTERS, u64::from(offset), 4, u64::from(value))
            .map_err(|error| DriverError::Access {
                what: "write",
                offset,
                error,
            })?;
        self.add_access(device, true, offset, u64::from(value));
        Ok(())
    }

    /// Waits for one of `lines`. The wait itself records no event, as in a driver whose handler is called.
    pub(crate) fn wait(
        &mut self,
        device: &mut dyn RegisterTarget,
        lines: u32,
        limit_ns: u64,
        what: &'static str,
    ) -> Result<u32, DriverError> {
        // Writes by a job during the wait are not CPU writes.
        self.flush_host_writes(device)?;
        match device.wait_interrupt(lines, limit_ns) {
            Ok(WaitResult::Raised { lines }) => Ok(lines),
            Ok(WaitResult::TimedOut) => Err(DriverError::NoInterrupt { what, limit_ns }),
            Err(error) => Err(DriverError::Access {
                what: "wait",
                offset: 0,
                error,
            }),
        }
    }
}

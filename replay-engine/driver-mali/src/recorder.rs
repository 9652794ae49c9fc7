//! Takes down every register access with the device's time and every write of the CPU to memory, and makes a recording
//! of it.

use crate::error::DriverError;
use replay_core::WaitResult;
use replay_engine::device::{Board, space};
use std::collections::BTreeMap;
use std::ops::Range;
use trace_core::PAGE_SIZE;
use trace_core::container::{ContainerError, Sink, Writer};
use trace_core::recording::{
    Access, Events, EventsBuilder, FrameRole, HostWriteRow, Identity, Memory, MemoryBuilder, PageId, ZERO_PAGE,
};

/// Bytes of an event with its access, and of a page image with its digest.
const EVENT_BYTES: u64 = 31;
const PAGE_BYTES: u64 = PAGE_SIZE as u64 + 32;

/// Thread that the driver's accesses are recorded under.
const THREAD: u32 = 1;

/// Collects what a [`crate::Driver`] does.
#[derive(Debug, Default)]
pub struct Recorder {
    identity: Identity,
    events: EventsBuilder,
    memory: MemoryBuilder,
    /// Whether the memory that a replay begins with was taken down.
    begun: bool,
    /// What the CPU wrote since the latest event.
    written: BTreeMap<u64, WrittenFrame>,
    /// Nothing more is taken down: the recording has ended, the work goes on.
    ended: bool,
}

/// Parts of a frame that the CPU wrote, in order and apart.
#[derive(Debug)]
struct WrittenFrame {
    role: FrameRole,
    parts: Vec<Range<usize>>,
}

impl WrittenFrame {
    /// Adds a part, and joins those that touch.
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
    /// Nothing recorded yet. `title` says what the recording is of; it becomes part of the tool's name.
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

    /// Who and what the recording is of; the driver fills in what it reads from the device.
    pub fn identity_mut(&mut self) -> &mut Identity {
        &mut self.identity
    }

    /// Whether the memory that a replay begins with was taken down.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// The latest event.
    pub(crate) fn last_event(&self) -> u64 {
        (self.events.len() as u64).saturating_sub(1)
    }

    /// The CPU wrote a part of a frame, or, where the part is empty, took the frame into use. Before the first
    /// snapshot there is nothing to tell: the snapshot does.
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

    /// Makes events of what the CPU wrote since the latest one.
    fn flush_host_writes(&mut self, board: &mut dyn Board) -> Result<(), DriverError> {
        if self.written.is_empty() {
            return Ok(());
        }
        let time = board.now_ns();
        let mut frames = Vec::with_capacity(self.written.len());
        let mut page = ZERO_PAGE;
        for (frame, written) in std::mem::take(&mut self.written) {
            board.load_page(frame, &mut page)?;
            let id = self.memory.add_page(&page);
            frames.push((frame, id, written.role));
            for part in written.parts {
                let row = HostWriteRow {
                    at: frame * PAGE_SIZE as u64 + part.start as u64,
                    bytes: part.len() as u32,
                    page: id.0,
                };
                self.events.host_write(time, THREAD, row);
            }
        }
        self.memory.add_changes(self.events.len() as u64, frames);
        Ok(())
    }

    /// Takes down all of memory as it is before the next event; the first time at the recording's start, whatever came
    /// before it. Gives how many frames hold data, and how many of these are zero.
    pub(crate) fn take_snapshot(
        &mut self,
        board: &mut dyn Board,
        taken: impl Iterator<Item = (u64, FrameRole)>,
    ) -> Result<(u64, u64), DriverError> {
        if self.ended {
            return Ok((0, 0));
        }
        self.flush_host_writes(board)?;
        let mut frames = Vec::new();
        let mut page = ZERO_PAGE;
        let (mut data, mut zeros) = (0, 0);
        for (frame, role) in taken {
            board.load_page(frame, &mut page)?;
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

    /// From here on nothing is taken down.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Number of events so far.
    pub(crate) fn events(&self) -> u64 {
        self.events.len() as u64
    }

    /// About how many bytes the recording takes so far, in memory and in a file.
    pub(crate) fn byte_count(&self) -> u64 {
        self.events.len() as u64 * EVENT_BYTES + self.memory.pages() as u64 * PAGE_BYTES
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Pushes what a file does not hold yet.
    pub(crate) fn append_to<S: Sink>(&self, writer: &mut Writer<S>) -> Result<(), ContainerError> {
        writer.put_growing(&self.events, &self.memory)
    }

    pub(crate) fn finish(self) -> (Identity, Events, Memory) {
        (self.identity, self.events.finish(), self.memory.finish())
    }

    fn add_access(&mut self, board: &mut dyn Board, write: bool, offset: u32, value: u64) {
        if self.ended {
            return;
        }
        let access = Access {
            space: space::REGISTERS,
            write,
            offset,
            width: 4,
            value,
        };
        self.events.access(board.now_ns(), THREAD, access);
    }

    pub(crate) fn read(&mut self, board: &mut dyn Board, offset: u32) -> Result<u32, DriverError> {
        self.flush_host_writes(board)?;
        let value = board
            .read(space::REGISTERS, u64::from(offset), 4)
            .map_err(|error| DriverError::Access {
                what: "read",
                offset,
                error,
            })?;
        self.add_access(board, false, offset, value);
        Ok(value as u32)
    }

    pub(crate) fn write(&mut self, board: &mut dyn Board, offset: u32, value: u32) -> Result<(), DriverError> {
        self.flush_host_writes(board)?;
        board
            .write(space::REGISTERS, u64::from(offset), 4, u64::from(value))
            .map_err(|error| DriverError::Access {
                what: "write",
                offset,
                error,
            })?;
        self.add_access(board, true, offset, u64::from(value));
        Ok(())
    }

    /// Waits for one of `lines`; the wait itself leaves no event, as in a driver whose handler is called.
    pub(crate) fn wait(
        &mut self,
        board: &mut dyn Board,
        lines: u32,
        limit_ns: u64,
        what: &'static str,
    ) -> Result<u32, DriverError> {
        // What a job writes meanwhile the CPU did not.
        self.flush_host_writes(board)?;
        match board.wait_interrupt(lines, limit_ns) {
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

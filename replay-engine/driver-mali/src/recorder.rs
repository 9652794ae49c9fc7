//! Takes down every register access with the device's time, and makes a recording of it.

use crate::error::DriverError;
use replay_core::WaitResult;
use replay_engine::device::{Board, space};
use trace_core::recording::{Access, Events, EventsBuilder, Identity};

/// Thread that the driver's accesses are recorded under.
const THREAD: u32 = 1;

/// Collects what a [`crate::Driver`] does.
#[derive(Debug, Default)]
pub struct Recorder {
    identity: Identity,
    events: EventsBuilder,
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
            events: EventsBuilder::new(),
        }
    }

    /// Who and what the recording is of; the driver fills in what it reads from the device.
    pub fn identity_mut(&mut self) -> &mut Identity {
        &mut self.identity
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn finish(self) -> (Identity, Events) {
        (self.identity, self.events.finish())
    }

    fn take(&mut self, board: &mut dyn Board, write: bool, offset: u32, value: u64) {
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
        let value = board
            .read(space::REGISTERS, u64::from(offset), 4)
            .map_err(|error| DriverError::Access {
                what: "read",
                offset,
                error,
            })?;
        self.take(board, false, offset, value);
        Ok(value as u32)
    }

    pub(crate) fn write(&mut self, board: &mut dyn Board, offset: u32, value: u32) -> Result<(), DriverError> {
        board
            .write(space::REGISTERS, u64::from(offset), 4, u64::from(value))
            .map_err(|error| DriverError::Access {
                what: "write",
                offset,
                error,
            })?;
        self.take(board, true, offset, u64::from(value));
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

//! The sending side of a relay's end: messages on the main connection, bytes on it or on lanes, and their order.

use crate::error::RelayError;
use crate::frame_sender::FrameSender;
use crate::known_contents::{KnownContents, MIN_CONTENT_BYTES};
use crate::lanes::{LaneSource, Lanes, PART_BYTES};
use crate::lock;
use crate::record::{Content, Record};
use crate::request_ranges::SharedRange;
use crate::shared_memory::SharedMemory;
use remote_calls::Encoder;
use std::sync::{Arc, Mutex, MutexGuard};

/// Size from which a frame is sent before more is added, bytes.
const FULL_FRAME_BYTES: usize = 64 << 10;
/// Minimum size of a range for the lanes, bytes.
pub const MIN_LANE_BYTES: u64 = 256 << 10;
/// Bytes at the start of a long message that differ each time: its header, and handles.
const LONG_MESSAGE_HEAD_BYTES: usize = 40;

/// The frames that are being written.
#[derive(Debug, Default)]
struct MainState {
    /// Full frames.
    full: Vec<Vec<u8>>,
    frame: Encoder,
    /// Numbers of the lanes' parts that the other end knows.
    fenced: Vec<u64>,
    buffer: Vec<u8>,
}

/// The sending side of an end.
pub struct Link {
    sender: Arc<dyn FrameSender>,
    memory: Arc<SharedMemory>,
    contents: Arc<KnownContents>,
    main: Mutex<MainState>,
    lanes: Lanes,
}

impl Link {
    /// Creates the sending side for an end with this memory.
    pub fn new(sender: Arc<dyn FrameSender>, memory: Arc<SharedMemory>, contents: KnownContents) -> Self {
        Self {
            sender,
            memory,
            contents: Arc::new(contents),
            main: Mutex::default(),
            lanes: Lanes::default(),
        }
    }

    fn source(&self) -> LaneSource {
        LaneSource {
            memory: Arc::clone(&self.memory),
            contents: Arc::clone(&self.contents),
        }
    }

    /// Adds a lane.
    ///
    /// # Errors
    /// If there are too many lanes, or no thread can be started.
    pub fn add_lane(
        &self,
        sender: Arc<dyn FrameSender>,
        on_failure: impl FnOnce(RelayError) + Send + 'static,
    ) -> Result<(), RelayError> {
        self.lanes.add(self.source(), sender, on_failure)
    }

    /// Begins to write records. Others wait until the writer ends.
    pub fn writer(&self) -> LinkWriter<'_> {
        LinkWriter {
            link: self,
            state: lock(&self.main),
        }
    }

    /// Ends the lanes. The main connection is for the owner of its sender to end.
    pub fn end_lanes(&self) {
        self.lanes.end();
    }
}

/// A writer of records. [`LinkWriter::flush`] sends them, and so do [`LinkWriter::range`] and [`LinkWriter::message`].
///
/// A thread that holds a lock of its end only adds records: a send can wait for the other end, whose answers need that lock.
pub struct LinkWriter<'l> {
    link: &'l Link,
    state: MutexGuard<'l, MainState>,
}

impl LinkWriter<'_> {
    /// Sends bytes of shared memory ahead of the next message.
    ///
    /// # Errors
    /// If they cannot be read or sent.
    pub fn range(&mut self, range: SharedRange) -> Result<(), RelayError> {
        self.link.memory.check(range.area, range.offset, range.bytes)?;
        if range.bytes >= MIN_LANE_BYTES && self.link.lanes.send(range) {
            return Ok(());
        }
        let mut done = 0;
        while done < range.bytes {
            let part = SharedRange {
                offset: range.offset + done,
                bytes: (range.bytes - done).min(PART_BYTES),
                ..range
            };
            let MainState { frame, buffer, .. } = &mut *self.state;
            self.link.source().write_record(part, buffer, frame)?;
            self.close_full_frame();
            self.send_full()?;
            done += part.bytes;
        }
        Ok(())
    }

    /// Adds a record. It is not sent yet.
    pub fn add(&mut self, record: &Record<'_>) {
        record.write(&mut self.state.frame);
        self.close_full_frame();
    }

    /// Sends a request or an answer, after the bytes before it.
    ///
    /// # Errors
    /// If it cannot be sent.
    pub fn message(&mut self, message: &[u8]) -> Result<(), RelayError> {
        self.fence();
        if message.len() >= MIN_CONTENT_BYTES + LONG_MESSAGE_HEAD_BYTES {
            let (head, tail) = message.split_at(LONG_MESSAGE_HEAD_BYTES);
            let tail: Content<'_> = self.link.contents.content(tail);
            self.add(&Record::LongMessage { head, tail });
        } else {
            self.add(&Record::Message(message));
        }
        self.send_full()
    }

    /// Adds a message about a host function, after the bytes before it.
    pub fn host_function(&mut self, message: &[u8]) {
        self.fence();
        self.add(&Record::HostFunction(message));
    }

    /// Makes what follows wait for the parts on the lanes.
    fn fence(&mut self) {
        let issued = self.link.lanes.issued();
        if issued != self.state.fenced {
            self.add(&Record::Fence(issued.clone()));
            self.state.fenced = issued;
        }
    }

    fn close_full_frame(&mut self) {
        if self.state.frame.as_bytes().len() >= FULL_FRAME_BYTES {
            let frame = std::mem::take(&mut self.state.frame);
            self.state.full.push(frame.into_buffer());
        }
    }

    /// Sends the full frames.
    fn send_full(&mut self) -> Result<(), RelayError> {
        for frame in std::mem::take(&mut self.state.full) {
            self.link.sender.send(&frame)?;
            if self.state.frame.as_bytes().is_empty() {
                self.state.frame = Encoder::with_buffer(frame);
            }
        }
        Ok(())
    }

    /// Sends what was written.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn flush(&mut self) -> Result<(), RelayError> {
        self.send_full()?;
        if self.state.frame.as_bytes().is_empty() {
            return Ok(());
        }
        let sent = self.link.sender.send(self.state.frame.as_bytes());
        let buffer = std::mem::take(&mut self.state.frame).into_buffer();
        self.state.frame = Encoder::with_buffer(buffer);
        sent
    }
}

//! Lanes: connections beside the main one, each with a thread that reads bytes of shared memory and sends them.

use crate::error::RelayError;
use crate::frame_sender::{FrameSender, MARGIN_BYTES};
use crate::known_contents::KnownContents;
use crate::lock;
use crate::record::{MAX_LANES, Record};
use crate::request_ranges::SharedRange;
use crate::shared_memory::SharedMemory;
use remote_calls::Encoder;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Maximum size of the parts that a range is sent in, bytes.
pub const PART_BYTES: u64 = 512 << 10;
/// Minimum size of the parts that lanes get, bytes: about a message of the connection.
const MIN_PART_BYTES: u64 = 64 << 10;
/// Alignment of the sizes of parts, bytes.
const PART_ALIGNMENT: u64 = 4096;

/// Maximum size of what comes before the bytes of a record, with the margin of the connection.
const MAX_START_BYTES: usize = 128;

/// A lane, as the thread sees it that distributes work.
#[derive(Debug)]
struct Lane {
    jobs: Sender<SharedRange>,
    /// Number of its jobs so far.
    issued: u64,
}

/// The lanes of a connection.
#[derive(Debug, Default)]
pub struct Lanes {
    lanes: Mutex<Vec<Lane>>,
}

/// What a lane's thread needs.
pub struct LaneSource {
    /// Memory that it reads.
    pub memory: Arc<SharedMemory>,
    /// Contents that the other end has.
    pub contents: Arc<KnownContents>,
}

impl LaneSource {
    /// Reads a range and appends its record to a frame.
    ///
    /// # Errors
    /// If the range cannot be read.
    pub fn write_record(
        &self,
        range: SharedRange,
        buffer: &mut Vec<u8>,
        frame: &mut Encoder,
    ) -> Result<(), RelayError> {
        let SharedRange { area, offset, bytes } = range;
        buffer.resize(size_of(bytes)?, 0);
        self.memory.read(area, offset, buffer)?;
        let end = Record::write_data_start(area, offset, self.contents.content(buffer), frame);
        frame.write_raw(end);
        Ok(())
    }

    /// Writes a frame with the record of a range into a buffer, for [`FrameSender::send_in_place`]. `start` is memory for
    /// the start of the record.
    fn write_frame<'b>(
        &self,
        range: SharedRange,
        buffer: &'b mut Vec<u8>,
        start: &mut Encoder,
    ) -> Result<&'b mut [u8], RelayError> {
        let SharedRange { area, offset, bytes } = range;
        buffer.resize(MAX_START_BYTES + size_of(bytes)?, 0);
        let content = buffer.get_mut(MAX_START_BYTES..).unwrap_or_default();
        self.memory.read(area, offset, content)?;
        let end = Record::write_data_start(area, offset, self.contents.content(content), start).len();
        let start = start.as_bytes();
        let too_long = RelayError::Unexpected("a start of a record of this size");
        let Some(at) = (MAX_START_BYTES - MARGIN_BYTES).checked_sub(start.len()) else {
            return Err(too_long);
        };
        let frame = buffer.get_mut(at..MAX_START_BYTES + end).ok_or(too_long)?;
        if let Some(to) = frame.get_mut(MARGIN_BYTES..MARGIN_BYTES + start.len()) {
            to.copy_from_slice(start);
        }
        Ok(frame)
    }
}

fn size_of(bytes: u64) -> Result<usize, RelayError> {
    usize::try_from(bytes).map_err(|_| RelayError::Unexpected("a range of this size"))
}

impl Lanes {
    /// Adds a lane. A thread sends what it is given. `on_failure` is called if that fails.
    ///
    /// # Errors
    /// If there are too many lanes, or no thread can be started.
    pub fn add(
        &self,
        source: LaneSource,
        sender: Arc<dyn FrameSender>,
        on_failure: impl FnOnce(RelayError) + Send + 'static,
    ) -> Result<(), RelayError> {
        let mut lanes = lock(&self.lanes);
        if lanes.len() >= MAX_LANES as usize {
            return Err(RelayError::Lane(MAX_LANES + 1));
        }
        let (jobs, work) = channel();
        let thread = std::thread::Builder::new().name("kinescope-lane".into());
        thread.spawn(move || {
            if let Err(e) = send_all(&source, &*sender, &work) {
                on_failure(e);
            }
            sender.close();
        })?;
        lanes.push(Lane { jobs, issued: 0 });
        Ok(())
    }

    /// Gives a range to the lanes, in parts. Returns `false` if there are no lanes.
    pub fn send(&self, range: SharedRange) -> bool {
        let mut lanes = lock(&self.lanes);
        if lanes.is_empty() {
            return false;
        }
        // All lanes carry parts of one copy.
        let share = (range.bytes / lanes.len() as u64).next_multiple_of(PART_ALIGNMENT);
        let most = share.clamp(MIN_PART_BYTES, PART_BYTES);
        let mut done = 0;
        while done < range.bytes {
            let bytes = (range.bytes - done).min(most);
            let part = SharedRange {
                offset: range.offset + done,
                bytes,
                ..range
            };
            // The lane with the fewest jobs so far: all have parts of about the same size.
            if let Some(lane) = lanes.iter_mut().min_by_key(|lane| lane.issued) {
                lane.issued += 1;
                // A thread that ended reported why.
                let _ = lane.jobs.send(part);
            }
            done += bytes;
        }
        true
    }

    /// Returns the numbers of parts that were given to each lane.
    pub fn issued(&self) -> Vec<u64> {
        lock(&self.lanes).iter().map(|lane| lane.issued).collect()
    }

    /// Ends the threads after their work.
    pub fn end(&self) {
        lock(&self.lanes).clear();
    }
}

fn send_all(source: &LaneSource, sender: &dyn FrameSender, work: &Receiver<SharedRange>) -> Result<(), RelayError> {
    let mut buffer = Vec::new();
    let mut start = Encoder::default();
    for range in work {
        start = Encoder::with_buffer(start.into_buffer());
        sender.send_in_place(source.write_frame(range, &mut buffer, &mut start)?)?;
    }
    Ok(())
}

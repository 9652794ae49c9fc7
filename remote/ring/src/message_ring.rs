//! The two ends of a ring: a writer and a reader of messages.
//!
//! A message is its length (a 32-bit word), its bytes, and zero to seven bytes of padding up to a multiple of 8.
//! Positions count the bytes since the ring was created, modulo 2³²; the size of a ring divides 2³². A message that
//! reaches the end of the ring continues at its start. The length never wraps around, because positions are multiples
//! of 8.

use crate::error::RingError;
use crate::layout::ControlWord;
use crate::parking::{WaitRequest, default_spin, wake_if_parked};
use crate::peer::Peer;
use crate::region::Region;
use crate::ring_name::RingName;
use crate::ring_waker::RingWaker;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Size of a message's length, bytes.
const LENGTH_BYTES: u32 = 4;
/// Messages begin at multiples of this number of bytes.
const MESSAGE_ALIGNMENT: u32 = 8;

/// How long [`MessageReader::read`] waits for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It does not wait, and does not ask whether the peer is alive.
    No,
    /// Until a point in time.
    Until(Instant),
    /// Until a message arrives or the peer ends.
    Forever,
}

/// What the two kinds of ends have in common.
#[derive(Debug)]
struct RingEnd {
    region: Arc<Region>,
    ring: RingName,
    ring_bytes: u32,
    /// Position of this end. The peer can overwrite the published copy, but not this one.
    position: u32,
    /// The last position of the peer that was checked.
    peer_position: u32,
    spin: Duration,
}

impl RingEnd {
    fn new(region: Arc<Region>, ring: RingName) -> Self {
        let ring_bytes = region.layout().ring_bytes(ring);
        Self {
            region,
            ring,
            ring_bytes,
            position: 0,
            peer_position: 0,
            spin: default_spin(),
        }
    }

    fn max_message_bytes(&self) -> u32 {
        self.ring_bytes / 4
    }

    /// Returns the number of ring bytes that a message takes, or `None` if it is longer than the maximum.
    #[inline]
    fn padded_bytes(&self, length: u32) -> Option<u32> {
        (length <= self.max_message_bytes()).then(|| (length + LENGTH_BYTES).next_multiple_of(MESSAGE_ALIGNMENT))
    }

    /// Loads the peer's position once, and keeps it if it is a multiple of 8 for which `is_valid` returns `true`.
    fn load_peer_position(
        &mut self,
        word: ControlWord,
        field: &'static str,
        is_valid: impl FnOnce(&Self, u32) -> bool,
    ) -> Result<(), RingError> {
        let position = self.region.control_word(self.ring, word).load(Ordering::SeqCst);
        if !position.is_multiple_of(MESSAGE_ALIGNMENT) || !is_valid(self, position) {
            return Err(RingError::Corrupt {
                ring: self.ring,
                field,
                value: position,
                expected: "a multiple of 8 within the ring, not before the last one",
            });
        }
        self.peer_position = position;
        Ok(())
    }

    /// Publishes this end's position, and wakes the peer if it is parked and `wakes` is set.
    #[inline]
    fn publish(&self, position: ControlWord, parked: ControlWord, wakes: bool) {
        // `SeqCst` also releases the bytes that were copied before.
        let word = self.region.control_word(self.ring, position);
        word.store(self.position, Ordering::SeqCst);
        if wakes {
            wake_if_parked(self.region.control_word(self.ring, parked));
        }
    }
}

/// The end of a ring that writes messages.
#[derive(Debug)]
pub struct MessageWriter(RingEnd);

impl MessageWriter {
    pub(crate) fn new(region: Arc<Region>, ring: RingName) -> Self {
        Self(RingEnd::new(region, ring))
    }

    /// Returns the maximum length of a message, bytes: a quarter of the ring.
    #[must_use]
    pub fn max_message_bytes(&self) -> u32 {
        self.0.max_message_bytes()
    }

    /// Sets how long a wait spins before it sleeps.
    pub fn set_spin(&mut self, spin: Duration) {
        self.0.spin = spin;
    }

    /// Writes the concatenation of `parts` as one message and publishes it. Waits while the ring is full.
    ///
    /// # Errors
    /// [`RingError::MessageTooLong`] above [`Self::max_message_bytes`]. [`RingError::PeerGone`] if the ring is full and
    /// the peer has ended. [`RingError::Corrupt`] if the peer published an invalid position. Nothing is published then.
    #[inline]
    pub fn write(&mut self, parts: &[&[u8]], peer: &dyn Peer) -> Result<(), RingError> {
        let too_long = || RingError::MessageTooLong {
            ring: self.0.ring,
            max: self.0.max_message_bytes(),
        };
        let length = parts
            .iter()
            .try_fold(0u32, |sum, part| sum.checked_add(u32::try_from(part.len()).ok()?))
            .ok_or_else(too_long)?;
        let needed = self.0.padded_bytes(length).ok_or_else(too_long)?;
        if self.free_bytes() < needed {
            self.wait_for_space(needed, peer)?;
        }
        let end = &mut self.0;
        let mut at = end.position;
        end.region.copy_to_ring(end.ring, at, &length.to_le_bytes())?;
        at = at.wrapping_add(LENGTH_BYTES);
        for part in parts {
            end.region.copy_to_ring(end.ring, at, part)?;
            // The sum of the lengths is a `u32`, so that each is.
            at = at.wrapping_add(part.len() as u32);
        }
        end.position = end.position.wrapping_add(needed);
        end.publish(ControlWord::Written, ControlWord::ReaderParked, true);
        Ok(())
    }

    /// Returns the number of bytes that are free, as far as this end knows.
    #[inline]
    fn free_bytes(&self) -> u32 {
        let used = self.0.position.wrapping_sub(self.0.peer_position);
        self.0.ring_bytes.saturating_sub(used)
    }

    fn load_reader_position(&mut self) -> Result<(), RingError> {
        self.0
            .load_peer_position(ControlWord::Read, "the reader's position", |end, position| {
                let used = end.position.wrapping_sub(position);
                used <= end.position.wrapping_sub(end.peer_position)
            })
    }

    #[cold]
    fn wait_for_space(&mut self, needed: u32, peer: &dyn Peer) -> Result<(), RingError> {
        self.load_reader_position()?;
        if self.free_bytes() >= needed {
            return Ok(());
        }
        let region = Arc::clone(&self.0.region);
        let request = WaitRequest {
            ring: self.0.ring,
            awaited: "space",
            parked: region.control_word(self.0.ring, ControlWord::WriterParked),
            spin: self.0.spin,
            deadline: None,
            peer,
        };
        // Without a deadline the wait ends with space or with an error.
        request.wait(|| {
            self.load_reader_position()?;
            Ok(self.free_bytes() >= needed)
        })?;
        Ok(())
    }
}

/// The end of a ring that reads messages.
#[derive(Debug)]
pub struct MessageReader(RingEnd);

impl MessageReader {
    pub(crate) fn new(region: Arc<Region>, ring: RingName) -> Self {
        Self(RingEnd::new(region, ring))
    }

    /// Returns the maximum length of a message, bytes: a quarter of the ring.
    #[must_use]
    pub fn max_message_bytes(&self) -> u32 {
        self.0.max_message_bytes()
    }

    /// Sets how long a wait spins before it sleeps.
    pub fn set_spin(&mut self, spin: Duration) {
        self.0.spin = spin;
    }

    /// Returns what wakes this end from another thread.
    #[must_use]
    pub fn waker(&self) -> RingWaker {
        RingWaker::new(Arc::clone(&self.0.region), self.0.ring)
    }

    /// Replaces the contents of `into` by the next message, and returns `true`. Returns `false` if no message arrives
    /// within `wait`; then `into` is unchanged.
    ///
    /// # Errors
    /// [`RingError::PeerGone`] if the ring is empty and the peer has ended. [`RingError::Corrupt`] if the peer published
    /// an invalid position or length; each later call that meets the same value fails too.
    #[inline]
    pub fn read(&mut self, into: &mut Vec<u8>, wait: Wait, peer: &dyn Peer) -> Result<bool, RingError> {
        if self.available_bytes() == 0 {
            self.load_writer_position()?;
            if self.available_bytes() == 0 && !self.wait_for_message(wait, peer)? {
                return Ok(false);
            }
        }
        let mut length = [0; LENGTH_BYTES as usize];
        let end = &mut self.0;
        end.region.copy_from_ring(end.ring, end.position, &mut length)?;
        let length = u32::from_le_bytes(length);
        let available = end.peer_position.wrapping_sub(end.position);
        let Some(taken) = end.padded_bytes(length).filter(|bytes| *bytes <= available) else {
            return Err(RingError::Corrupt {
                ring: end.ring,
                field: "the length of a message",
                value: length,
                expected: "at most the maximum and the published bytes",
            });
        };
        into.resize(length as usize, 0);
        let start = end.position.wrapping_add(LENGTH_BYTES);
        end.region.copy_from_ring(end.ring, start, into)?;
        end.position = end.position.wrapping_add(taken);
        // A writer that sleeps on a full ring is woken when half of it is free, not for each message: half of the ring
        // holds any message, and is free at the latest when this end has read all.
        let wakes = available - taken <= end.ring_bytes / 2;
        end.publish(ControlWord::Read, ControlWord::WriterParked, wakes);
        Ok(true)
    }

    /// Returns the number of bytes that can be read, as far as this end knows.
    #[inline]
    fn available_bytes(&self) -> u32 {
        self.0.peer_position.wrapping_sub(self.0.position)
    }

    #[inline]
    fn load_writer_position(&mut self) -> Result<(), RingError> {
        self.0
            .load_peer_position(ControlWord::Written, "the writer's position", |end, position| {
                let available = position.wrapping_sub(end.position);
                (end.peer_position.wrapping_sub(end.position)..=end.ring_bytes).contains(&available)
            })
    }

    #[cold]
    fn wait_for_message(&mut self, wait: Wait, peer: &dyn Peer) -> Result<bool, RingError> {
        let deadline = match wait {
            Wait::No => return Ok(false),
            Wait::Until(deadline) => Some(deadline),
            Wait::Forever => None,
        };
        let region = Arc::clone(&self.0.region);
        let request = WaitRequest {
            ring: self.0.ring,
            awaited: "a message",
            parked: region.control_word(self.0.ring, ControlWord::ReaderParked),
            spin: self.0.spin,
            deadline,
            peer,
        };
        request.wait(|| {
            self.load_writer_position()?;
            Ok(self.available_bytes() != 0)
        })
    }
}

/// Moves both ends of an empty ring to a position, for tests of positions that wrap around.
#[cfg(test)]
pub(crate) fn move_ends(writer: &mut MessageWriter, reader: &mut MessageReader, position: u32) {
    for end in [&mut writer.0, &mut reader.0] {
        (end.position, end.peer_position) = (position, position);
        for word in [ControlWord::Written, ControlWord::Read] {
            end.region
                .control_word(end.ring, word)
                .store(position, Ordering::SeqCst);
        }
    }
}

/// The ends of the rings are made here: a region does not know who reads and writes it.
impl Region {
    /// Returns the client's ends: the writer of requests and the reader of answers.
    ///
    /// # Errors
    /// [`RingError::EndsTaken`] after the first call: two writers of one ring would overwrite each other's messages.
    pub fn client_ends(self: &Arc<Self>) -> Result<(MessageWriter, MessageReader), RingError> {
        self.take_ends(1, "client")?;
        let writer = MessageWriter::new(Arc::clone(self), RingName::Request);
        Ok((writer, MessageReader::new(Arc::clone(self), RingName::Answer)))
    }

    /// Returns the worker's ends: the writer of answers and the reader of requests.
    ///
    /// # Errors
    /// [`RingError::EndsTaken`] after the first call.
    pub fn worker_ends(self: &Arc<Self>) -> Result<(MessageWriter, MessageReader), RingError> {
        self.take_ends(2, "worker")?;
        let writer = MessageWriter::new(Arc::clone(self), RingName::Answer);
        Ok((writer, MessageReader::new(Arc::clone(self), RingName::Request)))
    }
}

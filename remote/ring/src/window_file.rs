//! The file behind host memory that a program and its worker both map: passing, reading and writing it without a mapping.
//!
//! The file is sparse: memory is used where [`WindowFile::commit`] was called, until [`WindowFile::release`].

use crate::error::RingError;
use crate::region::SIZE_SEALS;
use crate::region_passing::{pass_files, receive_region};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::{Errno, retry_on_intr};
use std::os::fd::{AsFd, OwnedFd};

/// Maximum size of a window, bytes.
pub(crate) const MAX_WINDOW_BYTES: u64 = 64 << 30;
/// Alignment of ranges, bytes: a page.
pub const WINDOW_PAGE_BYTES: u64 = 4096;
/// Length of the message that passes a window: its address and its size, bytes.
const MESSAGE_BYTES: usize = 16;

/// The file of a window, with the address at which the program maps it.
#[derive(Debug)]
pub struct WindowFile {
    file: OwnedFd,
    bytes: u64,
    address: u64,
}

impl WindowFile {
    /// Creates a file of `bytes` bytes, for a window that the program maps at `address`.
    ///
    /// # Errors
    /// If the size is no valid one, or the operating system refuses.
    pub fn create(address: u64, bytes: u64) -> Result<Self, RingError> {
        check_size(bytes)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file =
            rustix::fs::memfd_create("kinescope-host-memory", flags).map_err(RingError::at("creating host memory"))?;
        rustix::fs::ftruncate(&file, bytes).map_err(RingError::at("setting the size of host memory"))?;
        rustix::fs::fcntl_add_seals(&file, SIZE_SEALS | SealFlags::SEAL)
            .map_err(RingError::at("sealing the size of host memory"))?;
        Ok(Self { file, bytes, address })
    }

    /// Passes the window to a peer over a connected Unix stream socket.
    ///
    /// # Errors
    /// If the peer has ended.
    pub fn pass(&self, socket: impl AsFd) -> Result<(), RingError> {
        let mut message = [0; MESSAGE_BYTES];
        message[..8].copy_from_slice(&self.address.to_le_bytes());
        message[8..].copy_from_slice(&self.bytes.to_le_bytes());
        pass_files(socket.as_fd(), &message, &[self.file.as_fd()])
    }

    /// Receives a window from a peer.
    ///
    /// # Errors
    /// If the message or the file is none of a window, or the operating system refuses.
    pub fn receive(socket: impl AsFd) -> Result<Self, RingError> {
        let (message, file) = receive_region(socket)?;
        let word = |at: usize| -> Option<u64> { Some(u64::from_le_bytes(message.get(at..at + 8)?.try_into().ok()?)) };
        let (Some(address), Some(bytes), MESSAGE_BYTES) = (word(0), word(8), message.len()) else {
            return Err(RingError::Greeting(
                "the message that passes host memory has another length",
            ));
        };
        check_size(bytes)?;
        crate::region::check_file(&file, bytes)?;
        Ok(Self { file, bytes, address })
    }

    /// Returns the file, to be mapped.
    pub(crate) const fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Sets the address at which the program maps the window.
    pub(crate) const fn set_address(&mut self, address: u64) {
        self.address = address;
    }

    /// Returns the size, bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the address at which the program maps the window.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Checks that a range is in the window.
    ///
    /// # Errors
    /// [`RingError::OutOfRange`] if it reaches past the end.
    pub fn check(&self, offset: u64, bytes: u64) -> Result<(), RingError> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(RingError::OutOfRange {
                area: "host memory",
                offset,
                bytes,
                limit: self.bytes,
            });
        }
        Ok(())
    }

    /// Gives memory to a range, so that an access cannot fail for lack of it. Its bytes are zero.
    ///
    /// # Errors
    /// If there is not enough memory, or the range reaches past the end.
    pub fn commit(&self, offset: u64, bytes: u64) -> Result<(), RingError> {
        self.check(offset, bytes)?;
        rustix::fs::fallocate(&self.file, FallocateFlags::empty(), offset, bytes)
            .map_err(RingError::at("allocating host memory"))
    }

    /// Takes the memory of a range away. Its bytes are zero when it is used again.
    ///
    /// # Errors
    /// If the operating system refuses, or the range reaches past the end.
    pub fn release(&self, offset: u64, bytes: u64) -> Result<(), RingError> {
        self.check(offset, bytes)?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.file, flags, offset, bytes).map_err(RingError::at("freeing host memory"))
    }

    /// Returns the memory that the window uses, bytes.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn used_bytes(&self) -> Result<u64, RingError> {
        let state = rustix::fs::fstat(&self.file).map_err(RingError::at("reading the size of host memory"))?;
        Ok((state.st_blocks as u64).saturating_mul(512))
    }

    /// Fills `bytes` from the window at `offset`. Memory that is not in use reads as zeros.
    ///
    /// # Errors
    /// If the range reaches past the end, or the operating system refuses.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), RingError> {
        self.check(offset, bytes.len() as u64)?;
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let read = retry_on_intr(|| rustix::io::pread(&self.file, &mut *rest, offset + done as u64));
            match read.map_err(RingError::at("reading host memory"))? {
                // The size is sealed, and the range was checked.
                0 => return Err(RingError::at("reading host memory")(Errno::IO)),
                count => done += count,
            }
        }
        Ok(())
    }

    /// Writes `bytes` into the window at `offset`. Memory comes into use where there was none.
    ///
    /// # Errors
    /// If the range reaches past the end, or there is not enough memory.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), RingError> {
        self.check(offset, bytes.len() as u64)?;
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let written = retry_on_intr(|| rustix::io::pwrite(&self.file, rest, offset + done as u64));
            match written.map_err(RingError::at("writing host memory"))? {
                0 => return Err(RingError::at("writing host memory")(Errno::NOSPC)),
                count => done += count,
            }
        }
        Ok(())
    }
}

fn check_size(bytes: u64) -> Result<(), RingError> {
    if bytes == 0 || !bytes.is_multiple_of(WINDOW_PAGE_BYTES) || bytes > MAX_WINDOW_BYTES {
        return Err(RingError::Layout {
            field: "host memory",
            value: bytes,
            expected: "whole pages, at most 64 GiB",
        });
    }
    Ok(())
}

//! Host memory that a program and its worker both map, at one address where that is possible.
//!
//! The file is sparse: memory is used where [`HostWindow::commit`] was called, until [`HostWindow::release`].
#![allow(
    unsafe_code,
    reason = "memory that another process writes has no safe interface; users copy through checked addresses"
)]

use crate::error::RingError;
use crate::region::SIZE_SEALS;
use crate::region_passing::{pass_files, receive_region};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{null_mut, without_provenance_mut};

/// Sizes that are tried, bytes: a process with limited address space gets a smaller one.
const SIZES: [u64; 3] = [64 << 30, 4 << 30, 256 << 20];
/// Addresses that are tried before the kernel chooses: no usual layout of a process has something there.
const ADDRESSES: [u64; 4] = [0x2a00_0000_0000, 0x2c00_0000_0000, 0x3200_0000_0000, 0x3600_0000_0000];
/// Alignment of ranges, bytes: a page.
pub const WINDOW_PAGE_BYTES: u64 = 4096;
/// Length of the message that passes a window: its address and its size, bytes.
const MESSAGE_BYTES: usize = 16;

/// A mapped window. It is unmapped when the value ends.
#[derive(Debug)]
pub struct HostWindow {
    start: *mut u8,
    bytes: u64,
    file: OwnedFd,
    is_at_peer_address: bool,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for HostWindow {}
// SAFETY: no Rust reference to the mapped bytes exists. Users of the addresses copy, and the peer may write at any time.
unsafe impl Sync for HostWindow {}

/// Maps a file: at an address, if nothing is there, or where the kernel chooses.
fn map(file: &OwnedFd, bytes: u64, address: Option<u64>) -> Result<*mut u8, RingError> {
    let length = usize::try_from(bytes).map_err(|_| RingError::at("mapping host memory")(rustix::io::Errno::NOMEM))?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let (at, flags) = match address {
        Some(address) => (
            without_provenance_mut(address as usize),
            MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE,
        ),
        None => (null_mut(), MapFlags::SHARED | MapFlags::NORESERVE),
    };
    // SAFETY: the new mapping replaces none. The file is as long as the mapping, and its seals keep it so.
    let start =
        unsafe { mmap(at, length, protection, flags, file, 0) }.map_err(RingError::at("mapping host memory"))?;
    if address.is_some() && start != at {
        // A kernel before 4.17 takes the address as a hint.
        // SAFETY: the mapping was just made, and nothing uses it.
        let _ = unsafe { munmap(start, length) };
        return Err(RingError::at("mapping host memory")(rustix::io::Errno::EXIST));
    }
    Ok(start.cast())
}

impl HostWindow {
    /// Creates a window, as large as the process can map.
    ///
    /// # Errors
    /// If the operating system refuses every size.
    pub fn create() -> Result<Self, RingError> {
        let mut last = None;
        for bytes in SIZES {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let file = rustix::fs::memfd_create("kinescope-host-memory", flags)
                .map_err(RingError::at("creating host memory"))?;
            rustix::fs::ftruncate(&file, bytes).map_err(RingError::at("setting the size of host memory"))?;
            rustix::fs::fcntl_add_seals(&file, SIZE_SEALS | SealFlags::SEAL)
                .map_err(RingError::at("sealing the size of host memory"))?;
            for address in ADDRESSES.map(Some).into_iter().chain([None]) {
                match map(&file, bytes, address) {
                    Ok(start) => {
                        return Ok(Self {
                            start,
                            bytes,
                            file,
                            is_at_peer_address: true,
                        });
                    }
                    Err(e) => last = Some(e),
                }
            }
        }
        Err(last.unwrap_or(RingError::Greeting("no size of host memory is possible")))
    }

    /// Passes the window to a peer over a connected Unix stream socket.
    ///
    /// # Errors
    /// If the peer has ended.
    pub fn pass(&self, socket: impl AsFd) -> Result<(), RingError> {
        let mut message = [0; MESSAGE_BYTES];
        message[..8].copy_from_slice(&(self.start.addr() as u64).to_le_bytes());
        message[8..].copy_from_slice(&self.bytes.to_le_bytes());
        pass_files(socket.as_fd(), &message, &[self.file.as_fd()])
    }

    /// Receives a window from a peer, and maps it at the peer's address if nothing is there.
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
        let max_bytes = SIZES.iter().copied().max().unwrap_or(0);
        if bytes == 0 || bytes % WINDOW_PAGE_BYTES != 0 || bytes > max_bytes {
            return Err(RingError::Layout {
                field: "host memory",
                value: bytes,
                expected: "whole pages, at most 64 GiB",
            });
        }
        crate::region::check_file(&file, bytes)?;
        let at_peer_address = map(
            &file,
            bytes,
            Some(address).filter(|at| *at != 0 && at % WINDOW_PAGE_BYTES == 0),
        );
        let is_at_peer_address = at_peer_address
            .as_ref()
            .is_ok_and(|start| start.addr() as u64 == address);
        let start = match at_peer_address {
            Ok(start) => start,
            Err(_) => map(&file, bytes, None)?,
        };
        Ok(Self {
            start,
            bytes,
            file,
            is_at_peer_address,
        })
    }

    /// Returns the size, bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the address of the first byte in this process.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.start.addr() as u64
    }

    /// Returns whether a received window is mapped at the peer's address, so that addresses in it mean the same to both.
    #[must_use]
    pub const fn is_at_peer_address(&self) -> bool {
        self.is_at_peer_address
    }

    /// Returns the address of a range. It is valid while the window exists.
    ///
    /// # Errors
    /// [`RingError::OutOfRange`] if the range reaches past the end.
    pub fn pointer(&self, offset: u64, bytes: u64) -> Result<*mut u8, RingError> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(RingError::OutOfRange {
                area: "host memory",
                offset,
                bytes,
                limit: self.bytes,
            });
        }
        Ok(self.start.wrapping_add(offset as usize))
    }

    /// Gives memory to a range, so that an access cannot fail for lack of it. Its bytes are zero.
    ///
    /// # Errors
    /// If there is not enough memory, or the range reaches past the end.
    pub fn commit(&self, offset: u64, bytes: u64) -> Result<(), RingError> {
        self.pointer(offset, bytes)?;
        rustix::fs::fallocate(&self.file, FallocateFlags::empty(), offset, bytes)
            .map_err(RingError::at("allocating host memory"))
    }

    /// Takes the memory of a range away. Its bytes are zero when it is used again.
    ///
    /// # Errors
    /// If the operating system refuses, or the range reaches past the end.
    pub fn release(&self, offset: u64, bytes: u64) -> Result<(), RingError> {
        self.pointer(offset, bytes)?;
        rustix::fs::fallocate(
            &self.file,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            offset,
            bytes,
        )
        .map_err(RingError::at("freeing host memory"))
    }
}

impl Drop for HostWindow {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and what uses its addresses has ended.
        let _ = unsafe { munmap(self.start.cast(), self.bytes as usize) };
    }
}

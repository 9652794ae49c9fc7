//! Host memory that a program and its worker both map, at one address where that is possible.
#![allow(
    unsafe_code,
    reason = "memory that another process writes has no safe interface; users copy through checked addresses"
)]

use crate::error::RingError;
use crate::window_file::{MAX_WINDOW_BYTES, WINDOW_PAGE_BYTES, WindowFile};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{copy_nonoverlapping, null_mut, without_provenance_mut};

/// Sizes that are tried, bytes: a process with limited address space gets a smaller one.
const SIZES: [u64; 3] = [MAX_WINDOW_BYTES, 4 << 30, 256 << 20];
/// Addresses that are tried before the kernel chooses: no usual layout of a process has something there.
const ADDRESSES: [u64; 4] = [0x2a00_0000_0000, 0x2c00_0000_0000, 0x3200_0000_0000, 0x3600_0000_0000];

/// A mapped window. It is unmapped when the value ends.
#[derive(Debug)]
pub struct HostWindow {
    start: *mut u8,
    file: WindowFile,
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
            let mut file = WindowFile::create(0, bytes)?;
            for address in ADDRESSES.map(Some).into_iter().chain([None]) {
                match map(file.file(), bytes, address) {
                    Ok(start) => {
                        file.set_address(start.addr() as u64);
                        return Ok(Self { start, file });
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
        self.file.pass(socket)
    }

    /// Receives a window from a peer, and maps it at the program's address if nothing is there.
    ///
    /// # Errors
    /// If the message or the file is none of a window, or the operating system refuses.
    pub fn receive(socket: impl AsFd) -> Result<Self, RingError> {
        let file = WindowFile::receive(socket)?;
        let address = Some(file.address()).filter(|at| *at != 0 && at.is_multiple_of(WINDOW_PAGE_BYTES));
        let start = match map(file.file(), file.bytes(), address) {
            Ok(start) => start,
            Err(_) => map(file.file(), file.bytes(), None)?,
        };
        Ok(Self { start, file })
    }

    /// Maps a window where the kernel chooses, for an end of a relay that copies from and to it.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn attach(file: WindowFile) -> Result<Self, RingError> {
        let start = map(file.file(), file.bytes(), None)?;
        Ok(Self { start, file })
    }

    /// Returns the file.
    #[must_use]
    pub const fn file(&self) -> &WindowFile {
        &self.file
    }

    /// Fills `bytes` from the window at `offset`. Many threads can read and write at once, which those of the file cannot.
    ///
    /// # Errors
    /// [`RingError::OutOfRange`] if the range reaches past the end.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), RingError> {
        let from = self.pointer(offset, bytes.len() as u64)?;
        // SAFETY: `from` is mapped for the whole length, and the file's seals keep it so. No Rust reference to the mapped
        // bytes exists. The peer may write at the same time: then the bytes are unspecified, but valid.
        unsafe { copy_nonoverlapping(from.cast_const(), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Writes `bytes` into the window at `offset`. Memory comes into use where there was none.
    ///
    /// # Errors
    /// [`RingError::OutOfRange`] if the range reaches past the end.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), RingError> {
        let to = self.pointer(offset, bytes.len() as u64)?;
        // SAFETY: as in `read`.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// Returns the size, bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Returns the address of the first byte in this process.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.start.addr() as u64
    }

    /// Returns the address of a range. It is valid while the window exists.
    ///
    /// # Errors
    /// [`RingError::OutOfRange`] if the range reaches past the end.
    pub fn pointer(&self, offset: u64, bytes: u64) -> Result<*mut u8, RingError> {
        self.file.check(offset, bytes)?;
        Ok(self.start.wrapping_add(offset as usize))
    }

    /// Gives memory to a range, so that an access cannot fail for lack of it. Its bytes are zero.
    ///
    /// # Errors
    /// If there is not enough memory, or the range reaches past the end.
    pub fn commit(&self, offset: u64, bytes: u64) -> Result<(), RingError> {
        self.file.commit(offset, bytes)
    }

    /// Takes the memory of a range away. Its bytes are zero when it is used again.
    ///
    /// # Errors
    /// If the operating system refuses, or the range reaches past the end.
    pub fn release(&self, offset: u64, bytes: u64) -> Result<(), RingError> {
        self.file.release(offset, bytes)
    }
}

impl Drop for HostWindow {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and what uses its addresses has ended.
        let _ = unsafe { munmap(self.start.cast(), self.bytes() as usize) };
    }
}

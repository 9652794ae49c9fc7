//! A file in memory that programs and the device map at the same time.
#![allow(unsafe_code, reason = "other mappings of the file change the bytes at any time")]

use crate::system::{self, Errno};
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// Memory that is a file, with the device's own mapping of it.
#[derive(Debug)]
pub struct SharedMemory {
    fd: RawFd,
    address: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value, and every access copies bytes or is atomic.
unsafe impl Send for SharedMemory {}
// SAFETY: as above; no reference to the bytes leaves this file.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Creates memory of zeros. A page takes space when it is first written.
    pub fn new(name: &CStr, bytes: u64) -> Result<Self, Errno> {
        let size = usize::try_from(bytes).map_err(|_| Errno(libc::ENOMEM))?;
        let fd = system::create_memory_file(name, bytes, true)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: the kernel chooses an unused range.
        match unsafe { system::map(std::ptr::null_mut(), size, protection, flags, fd, 0) } {
            Ok(address) => Ok(Self {
                fd,
                address: address.cast(),
                bytes: size,
            }),
            Err(error) => {
                let _ = system::close(fd);
                Err(error)
            }
        }
    }

    /// Returns the file.
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Returns the address of a range of bytes, or `None` if it is not within the memory.
    fn range(&self, offset: u64, bytes: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(bytes)?;
        // SAFETY: the range ends within the mapping.
        (end <= self.bytes).then(|| unsafe { self.address.add(offset) })
    }

    /// Reads bytes. Returns `false` if they are not within the memory.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        let Some(from) = self.range(offset, out.len()) else {
            return false;
        };
        // SAFETY: the range is within the mapping, and `out` is separate from it.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
        true
    }

    /// Writes bytes. Returns `false` if they are not within the memory.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let Some(to) = self.range(offset, bytes.len()) else {
            return false;
        };
        // SAFETY: the range is within the mapping, and `bytes` is separate from it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        true
    }

    /// Returns an aligned word, or `None` if there is none at the offset.
    fn word(&self, offset: u64) -> Option<&AtomicU32> {
        let word = self.range(offset, 4).filter(|_| offset.is_multiple_of(4))?;
        // SAFETY: the word is aligned and within the mapping, which lives as long as this value. Programs store and
        // load it as a word too.
        Some(unsafe { AtomicU32::from_ptr(word.cast()) })
    }

    /// Loads an aligned word.
    #[cfg(test)]
    pub fn load(&self, offset: u64) -> Option<u32> {
        Some(self.word(offset)?.load(Ordering::SeqCst))
    }

    /// Stores an aligned word. Returns `false` if there is none at the offset.
    pub fn store(&self, offset: u64, value: u32) -> bool {
        self.word(offset)
            .map(|word| word.store(value, Ordering::SeqCst))
            .is_some()
    }

    /// Stores an aligned word, and returns the earlier one.
    pub fn swap(&self, offset: u64, value: u32) -> Option<u32> {
        Some(self.word(offset)?.swap(value, Ordering::SeqCst))
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: nothing uses the mapping after its owner. Programs have mappings of their own.
        let _ = unsafe { system::unmap(self.address.cast(), self.bytes) };
        let _ = system::close(self.fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_stay_within_the_memory() {
        let memory = SharedMemory::new(c"test", 0x1000).unwrap();
        assert!(memory.write(0xffc, &[1, 2, 3, 4]));
        assert_eq!(memory.load(0xffc), Some(0x0403_0201));
        assert_eq!(memory.swap(0xffc, 7), Some(0x0403_0201));
        let mut out = [0; 4];
        assert!(memory.read(0xffc, &mut out));
        assert_eq!(out, [7, 0, 0, 0]);
        assert!(!memory.write(0xffd, &[0; 4]));
        assert!(!memory.read(u64::MAX, &mut out));
        assert_eq!((memory.load(0x1000), memory.load(2)), (None, None));
        assert!(!memory.store(0xffe, 1));
    }
}

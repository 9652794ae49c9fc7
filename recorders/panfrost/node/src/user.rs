//! Memory of the calling program: access by host address, with an error for an invalid address.

use crate::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

/// Memory that a call's pointers refer to. Its addresses are host addresses.
pub trait UserMemory {
    /// Fills `out` from a host address.
    ///
    /// # Errors
    /// Returns [`Errno::FAULT`] if a byte is not accessible.
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Errno>;

    /// Writes bytes at a host address.
    ///
    /// # Errors
    /// Returns [`Errno::FAULT`] if a byte is not accessible.
    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Errno>;
}

/// The memory of this process through `/proc/self/mem`: the kernel checks the addresses, so that a wrong one returns an
/// error instead of ending the program.
#[derive(Debug)]
pub struct ProcessMemory(File);

impl ProcessMemory {
    /// Opens the memory. A child process needs its own.
    ///
    /// # Errors
    /// Returns an error if there is no `/proc`.
    pub fn open() -> io::Result<Self> {
        let file = File::options().read(true).write(true).open("/proc/self/mem")?;
        Ok(Self(file))
    }

    /// Returns the number of its descriptor.
    #[must_use]
    pub fn own_descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

impl UserMemory for ProcessMemory {
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Errno> {
        self.0.read_exact_at(out, at).map_err(|_| Errno::FAULT)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.0.write_all_at(bytes, at).map_err(|_| Errno::FAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_memory_is_accessed_and_bad_addresses_fault() {
        let memory = ProcessMemory::open().unwrap();
        let words = [0x1122_3344u32, 5];
        let at = words.as_ptr() as u64;
        let mut four = [0; 4];
        memory.read(at, &mut four).unwrap();
        assert_eq!(u32::from_le_bytes(four), 0x1122_3344);
        for bad in [0, 8, u64::MAX, u64::MAX - 2, 1 << 63] {
            assert_eq!(memory.read(bad, &mut four), Err(Errno::FAULT), "{bad:#x}");
            assert_eq!(memory.write(bad, &four), Err(Errno::FAULT), "{bad:#x}");
        }
    }
}

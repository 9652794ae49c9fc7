//! Files in memory that nobody can change: a parent hands over a plan and its page images without a copy in the worker.
#![allow(
    unsafe_code,
    reason = "mapping a file is unsafe by nature; the comment at the call says why it is sound"
)]

use memmap2::{Mmap, MmapOptions};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;

/// The seals of a file whose bytes and length stay as they are.
const FIXED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::WRITE);

/// Creates a file in memory, and seals it after `write` has filled it.
///
/// # Errors
/// If the system has no memory for it, or `write` fails.
pub(crate) fn create_sealed<E: From<io::Error>>(write: impl FnOnce(&mut File) -> Result<(), E>) -> Result<OwnedFd, E> {
    let flags = MemfdFlags::CLOEXEC.union(MemfdFlags::ALLOW_SEALING);
    let mut file = File::from(memfd_create(c"kinescope-plan", flags).map_err(io::Error::from)?);
    write(&mut file)?;
    fcntl_add_seals(&file, FIXED.union(SealFlags::SEAL)).map_err(io::Error::from)?;
    Ok(file.into())
}

/// Creates a file of `bytes` bytes in memory, and seals it after `fill` has filled it. Threads can fill parts of it at once:
/// the system lets only one thread at a time write to a file.
///
/// # Errors
/// If the system refuses the file.
pub(crate) fn create_sealed_map(bytes: usize, fill: impl FnOnce(&mut [u8])) -> io::Result<OwnedFd> {
    create_sealed(|file| {
        file.set_len(bytes as u64)?;
        if bytes > 0 {
            // SAFETY: nobody else has the file yet. The mapping ends here: a file with one cannot be sealed.
            let mut map = unsafe { MmapOptions::new().len(bytes).map_mut(&*file)? };
            fill(&mut map);
        }
        Ok(())
    })
}

/// A sealed file in the address space of this process.
#[derive(Debug)]
pub(crate) struct SealedMap(Mmap);

impl SealedMap {
    /// Maps a file.
    ///
    /// # Errors
    /// If the file is not sealed, or cannot be mapped.
    pub fn new(file: OwnedFd) -> io::Result<Self> {
        Self::map(file, &mut MmapOptions::new())
    }

    /// Maps a file of which every page is soon read: its pages are present at once, without a fault for each.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn with_present_pages(file: OwnedFd) -> io::Result<Self> {
        Self::map(file, MmapOptions::new().populate())
    }

    fn map(file: OwnedFd, options: &mut MmapOptions) -> io::Result<Self> {
        let is_fixed = fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(FIXED));
        if !is_fixed {
            let why = "it is not sealed, so that its sender could still change it";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        // Private: kernels before 6.7 refuse shared maps of sealed files.
        // SAFETY: the seals stay as long as the file, so that nobody writes or shortens it while it is mapped.
        let map = unsafe { options.map_copy_read_only(&File::from(file))? };
        Ok(Self(map))
    }
}

impl Deref for SealedMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn sealed_files_are_mapped_and_stay_as_they_are() {
        let sealed = create_sealed(|file| file.write_all(&[7; 5000])).unwrap();
        let mut copy = File::from(sealed.try_clone().unwrap());
        assert!(copy.set_len(10).is_err() && copy.set_len(10_000).is_err());
        assert!(copy.write_all(&[1]).is_err());
        assert_eq!(*SealedMap::new(sealed).unwrap(), [7; 5000]);
        let empty = create_sealed(|_| Ok::<_, io::Error>(())).unwrap();
        assert!(SealedMap::new(empty).unwrap().is_empty());
    }

    #[test]
    fn files_that_can_change_are_refused() {
        let open = memfd_create(c"open", MemfdFlags::ALLOW_SEALING).unwrap();
        fcntl_add_seals(&open, SealFlags::SHRINK).unwrap();
        assert!(SealedMap::new(open).is_err());
        assert!(SealedMap::new(File::open("/proc/self/exe").unwrap().into()).is_err());
    }
}

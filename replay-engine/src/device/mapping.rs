//! Memory shared by a device and this program: mapped register windows, and DMA memory.
//!
//! Every access is one volatile load or store of the requested width, after a bounds check.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::fs::File;
use std::io;
use std::ptr::{NonNull, null_mut};
use trace_core::PAGE_SIZE;

/// Size of a huge page, bytes.
pub(super) const HUGE: u64 = 2 << 20;

/// A mapping of this process that a device also accesses.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// First byte of the mapping, page-aligned.
    start: NonNull<u8>,
    /// Length of the mapping, bytes.
    mapped: usize,
    /// Offset of the window in the mapping.
    skip: usize,
    /// Length of the window, bytes.
    bytes: u64,
}

// SAFETY: the mapping belongs to this value alone, which lends no reference into it. The kernel allows its use from any
// thread.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those of `mmap`, and nothing points into the mapping any more. If unmapping
        // fails, the mapping stays until the process ends, which is harmless.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

impl Mapping {
    /// Maps `bytes` bytes of a device file from offset `at`. `at` needs no alignment.
    pub fn map_file(file: &File, at: u64, bytes: u64) -> io::Result<Self> {
        let skip = at % PAGE_SIZE as u64;
        let length = |n: u64| usize::try_from(n).ok().filter(|n| *n > 0);
        let mapped = bytes.checked_add(skip).and_then(length);
        let mapped = mapped.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address chosen by the kernel affects no memory of this program. Only volatile
        // accesses go to it.
        let start = unsafe { mmap(null_mut(), mapped, rights, MapFlags::SHARED, file, at - skip) }?;
        Self::from_raw(start.cast(), mapped, skip as usize, bytes)
    }

    /// Maps a zeroed huge page that is locked in place.
    pub fn map_huge_page() -> io::Result<Self> {
        Self::anonymous(HUGE, MapFlags::HUGETLB | MapFlags::HUGE_2MB | MapFlags::POPULATE)
    }

    /// Maps `bytes` zeroed bytes, all resident.
    pub fn map_anonymous(bytes: u64) -> io::Result<Self> {
        Self::anonymous(bytes, MapFlags::POPULATE)
    }

    fn anonymous(bytes: u64, flags: MapFlags) -> io::Result<Self> {
        let mapped = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as in `map_file`. The mapping is shared, so a fork of this process never makes the kernel move it.
        let start = unsafe { mmap_anonymous(null_mut(), mapped, rights, MapFlags::SHARED | flags) }?;
        Self::from_raw(start.cast(), mapped, 0, bytes)
    }

    fn from_raw(start: *mut u8, mapped: usize, skip: usize, bytes: u64) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self {
            start,
            mapped,
            skip,
            bytes,
        })
    }

    /// Returns the length of the window, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the virtual address of the first byte, for the kernel's address tables. It must not be dereferenced.
    pub fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64 + self.skip as u64
    }

    /// Returns the pointer for an access, or `None` if it is outside the window or not a multiple of its width.
    #[inline(always)]
    fn place(&self, offset: u64, width: u8) -> Option<*mut u8> {
        let end = offset.checked_add(u64::from(width))?;
        if end > self.bytes || offset & u64::from(width.wrapping_sub(1)) != 0 {
            return None;
        }
        // SAFETY: the window lies in the mapping, and the access in the window.
        Some(unsafe { self.start.as_ptr().add(self.skip).add(offset as usize) })
    }

    /// Reads 1, 2, 4 or 8 bytes. Returns `None` for another width, and for an access outside the window or not aligned.
    #[inline(always)]
    pub fn read(&self, offset: u64, width: u8) -> Option<u64> {
        let at = self.place(offset, width)?;
        // SAFETY: `place` has checked the bounds. The window is aligned to 8 bytes or more, as all kernel windows are,
        // or the alignment is checked below. The memory is readable and not borrowed.
        unsafe {
            match width {
                1 => Some(at.read_volatile().into()),
                2 if at.cast::<u16>().is_aligned() => Some(at.cast::<u16>().read_volatile().into()),
                4 if at.cast::<u32>().is_aligned() => Some(at.cast::<u32>().read_volatile().into()),
                8 if at.cast::<u64>().is_aligned() => Some(at.cast::<u64>().read_volatile()),
                _ => None,
            }
        }
    }

    /// Writes the low 1, 2, 4 or 8 bytes of a value. Returns `None` as [`Mapping::read`] does.
    #[inline(always)]
    pub fn write(&self, offset: u64, width: u8, value: u64) -> Option<()> {
        let at = self.place(offset, width)?;
        // SAFETY: as in `read`; the memory is writable.
        unsafe {
            match width {
                1 => at.write_volatile(value as u8),
                2 if at.cast::<u16>().is_aligned() => at.cast::<u16>().write_volatile(value as u16),
                4 if at.cast::<u32>().is_aligned() => at.cast::<u32>().write_volatile(value as u32),
                8 if at.cast::<u64>().is_aligned() => at.cast::<u64>().write_volatile(value),
                _ => return None,
            }
        }
        Some(())
    }

    /// Reads bytes, in 4-byte accesses where possible.
    pub fn load(&self, offset: u64, to: &mut [u8]) -> Option<()> {
        let (mut at, mut rest) = (offset, to);
        while !rest.is_empty() {
            let width = if at.is_multiple_of(4) && rest.len() >= 4 { 4 } else { 1 };
            let value = self.read(at, width)?.to_le_bytes();
            let (now, behind) = rest.split_at_mut(usize::from(width));
            now.copy_from_slice(value.get(..usize::from(width))?);
            (at, rest) = (at.checked_add(u64::from(width))?, behind);
        }
        Some(())
    }

    /// Writes bytes, in 8-byte accesses where possible.
    pub fn store(&self, offset: u64, from: &[u8]) -> Option<()> {
        let (mut at, mut rest) = (offset, from);
        while !rest.is_empty() {
            let width = if at.is_multiple_of(8) && rest.len() >= 8 { 8 } else { 1 };
            let (now, behind) = rest.split_at(usize::from(width));
            let mut value = [0; 8];
            value.get_mut(..now.len())?.copy_from_slice(now);
            self.write(at, width, u64::from_le_bytes(value))?;
            (at, rest) = (at.checked_add(u64::from(width))?, behind);
        }
        Some(())
    }
}

/// Orders all earlier stores before all later accesses, as the device sees them. PC processors do this by themselves.
#[inline]
pub(super) fn fence() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction only waits and changes nothing.
    unsafe {
        std::arch::asm!("dsb sy", options(nostack, preserves_flags));
    }
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn mapped(bytes: &[u8], at: u64, length: u64) -> Mapping {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Mapping::map_file(&file, at, length).unwrap()
    }

    #[test]
    fn accesses_of_every_width_are_checked_and_little_endian() {
        let bytes: Vec<u8> = (0..=255).cycle().take(PAGE_SIZE).collect();
        let m = mapped(&bytes, 0, 0x20);
        assert_eq!(m.read(1, 1), Some(1));
        assert_eq!(m.read(2, 2), Some(0x0302));
        assert_eq!(m.read(4, 4), Some(0x0706_0504));
        assert_eq!(m.read(0x18, 8), Some(0x1f1e_1d1c_1b1a_1918));
        for (offset, width) in [
            (1, 2),
            (2, 4),
            (4, 8),
            (0x20, 1),
            (0x1c, 8),
            (u64::MAX, 1),
            (u64::MAX - 3, 4),
        ] {
            assert_eq!(m.read(offset, width), None, "{offset:#x} {width}");
            assert_eq!(m.write(offset, width, 0), None, "{offset:#x} {width}");
        }
        for width in [0, 3, 5, 16, 255] {
            assert_eq!(m.read(0, width), None, "{width}");
        }
        m.write(8, 4, 0xffff_ffff_8765_4321).unwrap();
        assert_eq!(m.read(8, 8), Some(0x0f0e_0d0c_8765_4321));
        let mut some = [0; 7];
        m.load(9, &mut some).unwrap();
        assert_eq!(some, [0x43, 0x65, 0x87, 0x0c, 0x0d, 0x0e, 0x0f]);
        m.store(0x11, &[1; 0xf]).unwrap();
        assert_eq!(
            (m.read(0x10, 1), m.read(0x18, 8)),
            (Some(0x10), Some(0x0101_0101_0101_0101))
        );
        assert_eq!(m.store(0x11, &[1; 0x10]), None);
    }

    #[test]
    fn mmio_region_may_start_inside_a_page() {
        let mut bytes = vec![0; PAGE_SIZE];
        bytes[0x100..0x104].copy_from_slice(&[1, 2, 3, 4]);
        let m = mapped(&bytes, 0x100, 0x10);
        assert_eq!(m.read(0, 4), Some(0x0403_0201));
        assert_eq!((m.read(0x10, 1), m.bytes()), (None, 0x10));
        assert!(Mapping::map_file(&tempfile::tempfile().unwrap(), 0, 0).is_err());
    }
}

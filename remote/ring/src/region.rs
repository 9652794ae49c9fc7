//! The mapped region: a sealed file in memory that two processes share.
#![allow(
    unsafe_code,
    reason = "memory that another process writes has no safe interface; each access is checked against the layout"
)]

use crate::error::RingError;
use crate::layout::{Area, ControlWord, HEADER_BYTES, RINGS_START, RegionLayout};
use crate::ring_name::RingName;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, copy_nonoverlapping, null_mut};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Type of the file system of memory files (`TMPFS_MAGIC` of Linux).
const MEMORY_FILE_SYSTEM: u64 = 0x0102_1994;
/// Seals without which a peer could truncate the file, so that an access would end the process with `SIGBUS`.
pub(crate) const SIZE_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// A mapped region. It is unmapped when the value ends.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    /// Mapped length, bytes: at least `RINGS_START`.
    mapped_bytes: usize,
    layout: RegionLayout,
    file: OwnedFd,
    /// Bit 0: the client's ends were taken. Bit 1: the worker's.
    taken_ends: AtomicU8,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for Region {}
// SAFETY: control words are atomics. Other bytes are only copied, never borrowed; the peer may write them at any time
// anyway, and every value of a byte is valid.
unsafe impl Sync for Region {}

impl Region {
    /// Creates a region. Its bytes are zero.
    ///
    /// # Errors
    /// If a size is out of bounds, or the operating system refuses.
    pub fn create(layout: RegionLayout) -> Result<Self, RingError> {
        layout.check()?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("kinescope-ring", flags).map_err(RingError::at("creating a region"))?;
        rustix::fs::ftruncate(&file, layout.total_bytes()).map_err(RingError::at("setting the region's size"))?;
        rustix::io::pwrite(&file, &layout.encode(), 0).map_err(RingError::at("writing the region's header"))?;
        rustix::fs::fcntl_add_seals(&file, SIZE_SEALS | SealFlags::SEAL)
            .map_err(RingError::at("sealing the region's size"))?;
        Self::map(file, layout)
    }

    /// Maps a region that a peer created.
    ///
    /// # Errors
    /// [`RingError::InvalidFile`] if the file is not a region, or its size can change. [`RingError::Layout`] if a size
    /// is out of bounds. [`RingError::System`] if the operating system refuses.
    pub fn open(file: OwnedFd) -> Result<Self, RingError> {
        let size = check_sealed(&file)?;
        let mut header = [0; HEADER_BYTES];
        let read = rustix::io::pread(&file, &mut header, 0).map_err(RingError::at("reading a region's header"))?;
        check("the header's size", read as u64, HEADER_BYTES as u64)?;
        let layout = RegionLayout::decode(&header)?;
        check("the size", size, layout.total_bytes())?;
        Self::map(file, layout)
    }

    /// Maps a file whose layout was checked and whose size is sealed.
    fn map(file: OwnedFd, layout: RegionLayout) -> Result<Self, RingError> {
        let mapped_bytes = usize::try_from(layout.total_bytes()).map_err(|_| RingError::Layout {
            field: "staging_bytes",
            value: layout.staging_bytes,
            expected: "a size that this process can map",
        })?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so that the new mapping replaces none. The file is at least as long
        // as the mapping, and its seals keep it so.
        let start = unsafe { mmap(null_mut(), mapped_bytes, protection, MapFlags::SHARED, &file, 0) }
            .map_err(RingError::at("mapping a region"))?;
        let start = NonNull::new(start.cast()).ok_or(RingError::System {
            action: "mapping a region",
            source: std::io::ErrorKind::AddrNotAvailable.into(),
        })?;
        Ok(Self {
            start,
            mapped_bytes,
            layout,
            file,
            taken_ends: AtomicU8::new(0),
        })
    }

    /// Returns the region's file, to be passed to a peer.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the sizes of the region's parts. They were checked, and the peer cannot change them.
    #[must_use]
    pub fn layout(&self) -> RegionLayout {
        self.layout
    }

    /// Notes that the ends of one side are in use.
    ///
    /// # Errors
    /// [`RingError::EndsTaken`] if they are already.
    pub(crate) fn take_ends(&self, bit: u8, side: &'static str) -> Result<(), RingError> {
        if self.taken_ends.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return Err(RingError::EndsTaken { side });
        }
        Ok(())
    }

    /// Returns the size of the staging area, bytes.
    #[must_use]
    pub fn staging_bytes(&self) -> u64 {
        self.layout.staging_bytes
    }

    /// Copies `bytes` into the staging area at `offset`, bytes.
    ///
    /// The caller tells the peer by a message when the bytes are complete.
    ///
    /// # Errors
    /// [`RingError::OutOfRange`] if the range reaches past the end.
    pub fn copy_to_staging(&self, offset: u64, bytes: &[u8]) -> Result<(), RingError> {
        self.copy_in(self.layout.staging(), offset, bytes)
    }

    /// Copies from the staging area at `offset`, bytes, and fills `bytes`.
    ///
    /// A peer that writes during the copy changes which bytes arrive. Check the copy, not the area.
    ///
    /// # Errors
    /// [`RingError::OutOfRange`] if the range reaches past the end.
    pub fn copy_from_staging(&self, offset: u64, bytes: &mut [u8]) -> Result<(), RingError> {
        self.copy_out(self.layout.staging(), offset, bytes)
    }

    /// Copies like [`Region::copy_from_staging`], and writes past the processor's caches where it can: for parts of a copy
    /// that they do not hold.
    ///
    /// # Errors
    /// [`RingError::OutOfRange`] if the range reaches past the end.
    pub fn copy_from_staging_uncached(&self, offset: u64, bytes: &mut [u8]) -> Result<(), RingError> {
        let from = self.pointer(self.layout.staging(), offset, bytes.len() as u64)?;
        // SAFETY: as in `copy_in`.
        unsafe { copy_uncached(from.cast_const(), bytes) };
        Ok(())
    }

    /// Returns the address of a range of the staging area, for a driver. It is valid while the region exists.
    ///
    /// # Errors
    /// [`RingError::OutOfRange`] if the range reaches past the end.
    pub fn staging_pointer(&self, offset: u64, bytes: u64) -> Result<*mut u8, RingError> {
        self.pointer(self.layout.staging(), offset, bytes)
    }

    /// Returns a control word of a ring.
    #[inline]
    pub(crate) fn control_word(&self, ring: RingName, word: ControlWord) -> &AtomicU32 {
        let offset = word.offset(ring);
        debug_assert!(offset < RINGS_START);
        // SAFETY: the offset is below `RINGS_START` and a multiple of 128, the mapping is aligned to a page and at least
        // `RINGS_START` bytes long, and it lives as long as `self`. All accesses of this process to it are atomic.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(offset as usize).cast()) }
    }

    /// Copies `bytes` into a ring, from `position` on, in two parts if they wrap around.
    ///
    /// # Errors
    /// [`RingError::OutOfRange`] if they are longer than the ring.
    #[inline]
    pub(crate) fn copy_to_ring(&self, ring: RingName, position: u32, bytes: &[u8]) -> Result<(), RingError> {
        let area = self.layout.ring(ring);
        let offset = u64::from(position) & (area.bytes - 1);
        let (first, second) = bytes.split_at(bytes.len().min((area.bytes - offset) as usize));
        self.copy_in(area, offset, first)?;
        if !second.is_empty() {
            self.copy_in(area, 0, second)?;
        }
        Ok(())
    }

    /// Copies from a ring, from `position` on, in two parts if the bytes wrap around. Fills `bytes`.
    ///
    /// # Errors
    /// [`RingError::OutOfRange`] if they are longer than the ring.
    #[inline]
    pub(crate) fn copy_from_ring(&self, ring: RingName, position: u32, bytes: &mut [u8]) -> Result<(), RingError> {
        let area = self.layout.ring(ring);
        let offset = u64::from(position) & (area.bytes - 1);
        let (first, second) = bytes.split_at_mut(bytes.len().min((area.bytes - offset) as usize));
        self.copy_out(area, offset, first)?;
        if !second.is_empty() {
            self.copy_out(area, 0, second)?;
        }
        Ok(())
    }

    #[inline]
    fn copy_in(&self, area: Area, offset: u64, bytes: &[u8]) -> Result<(), RingError> {
        let to = self.pointer(area, offset, bytes.len() as u64)?;
        // SAFETY: `to` is mapped for the whole length. No Rust reference to the mapping's bytes exists, so that `bytes`
        // does not overlap them. The peer may write at the same time: then the bytes are unspecified, but valid.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    #[inline]
    fn copy_out(&self, area: Area, offset: u64, bytes: &mut [u8]) -> Result<(), RingError> {
        let from = self.pointer(area, offset, bytes.len() as u64)?;
        // SAFETY: as in `copy_in`.
        unsafe { copy_nonoverlapping(from.cast_const(), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Returns the address of `bytes` bytes at an offset of an area.
    #[inline]
    fn pointer(&self, area: Area, offset: u64, bytes: u64) -> Result<*mut u8, RingError> {
        if offset.checked_add(bytes).is_none_or(|end| end > area.bytes) {
            return Err(RingError::OutOfRange {
                area: area.name,
                offset,
                bytes,
                limit: area.bytes,
            });
        }
        // SAFETY: areas end within the mapping, whose length is a `usize`, and the range is within its area.
        Ok(unsafe { self.start.as_ptr().add((area.start + offset) as usize) })
    }
}

/// Fills `to` from `from`. Whole vectors are written with a hint that the caches do not need them.
///
/// # Safety
/// `from` is valid for reads of the length of `to`.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_uncached(from: *const u8, to: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    // The bytes of a `__m128i` are any bytes, and vectors are aligned to their size.
    // SAFETY: each 16 bytes are a valid vector.
    let (first, vectors, last) = unsafe { to.align_to_mut::<__m128i>() };
    let (first_bytes, vector_bytes) = (first.len(), size_of_val(vectors));
    // SAFETY: the three parts are as long together as `to`, which `from` is valid for. SSE2 is in every x86-64 processor.
    unsafe {
        copy_nonoverlapping(from, first.as_mut_ptr(), first_bytes);
        let mut at = from.add(first_bytes).cast::<__m128i>();
        for vector in vectors {
            _mm_stream_si128(vector, _mm_loadu_si128(at));
            at = at.add(1);
        }
        // Such writes are not ordered with others without it.
        _mm_sfence();
        copy_nonoverlapping(from.add(first_bytes + vector_bytes), last.as_mut_ptr(), last.len());
    }
}

/// Fills `to` from `from`.
///
/// # Safety
/// `from` is valid for reads of the length of `to`.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_uncached(from: *const u8, to: &mut [u8]) {
    // SAFETY: the caller guarantees it.
    unsafe { copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and what borrows from it has ended. An error cannot be handled here; the
        // mapping would stay until the process ends.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped_bytes) };
    }
}

/// Compares a property of a received file with the only valid value.
fn check(field: &'static str, found: impl Into<u64>, expected: impl Into<u64>) -> Result<(), RingError> {
    let (found, expected) = (found.into(), expected.into());
    if found != expected {
        return Err(RingError::InvalidFile { field, found, expected });
    }
    Ok(())
}

/// Returns the size of a received file, bytes. An access to it cannot fail: its size cannot change, and it needs no huge
/// pages.
fn check_sealed(file: &OwnedFd) -> Result<u64, RingError> {
    let seals = rustix::fs::fcntl_get_seals(file).map_err(RingError::at("reading the seals of a received file"))?;
    check("the set of size seals", (seals & SIZE_SEALS).bits(), SIZE_SEALS.bits())?;
    // Files of huge pages can be sealed too, but an access ends with `SIGBUS` if the machine has no huge page left.
    let system = rustix::fs::fstatfs(file).map_err(RingError::at("reading the type of a received file"))?;
    check("the file system", system.f_type as u64, MEMORY_FILE_SYSTEM)?;
    let state = rustix::fs::fstat(file).map_err(RingError::at("reading the size of a received file"))?;
    Ok(state.st_size as u64)
}

/// Checks that a received file is memory of this size, which cannot change.
pub(crate) fn check_file(file: &OwnedFd, bytes: u64) -> Result<(), RingError> {
    check("the size", check_sealed(file)?, bytes)
}

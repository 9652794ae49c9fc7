//! The model as a program sees it: `open`, `close`, `ioctl`, `mmap` and `munmap` of the driver's files.
#![allow(unsafe_code, reason = "requests have pointers, and mappings have addresses")]

use crate::caller::Caller;
use crate::device_thread::DeviceThread;
use crate::files::{DriverFile, State};
use crate::lock;
use crate::settings::Settings;
use crate::system::{self, Errno};
use libc::c_void;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of file descriptors of a program that opens the driver.
const MAX_DESCRIPTORS: usize = 1 << 16;

/// What a model holds: zero for each number after all programs are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelUsage {
    /// Open files.
    pub files: usize,
    /// Clients.
    pub clients: usize,
    /// Objects of all clients.
    pub objects: usize,
    /// Channels of the device.
    pub channels: usize,
    /// Mappings in all address spaces.
    pub mappings: usize,
    /// Bytes of allocated video memory.
    pub video_bytes: u64,
    /// How often the device's thread looked at the doorbell. It rests while no channel is scheduled.
    pub polls: u64,
}

/// A driver and its GPU.
#[derive(Debug)]
pub struct Model {
    shared: Arc<DeviceThread>,
    /// A bit for each open descriptor: others are recognized without a lock.
    descriptors: Box<[AtomicU64]>,
}

impl Model {
    /// Returns a driver that no program has opened.
    ///
    /// # Errors
    /// If the system has no memory for the registers.
    pub fn new(settings: Settings) -> Result<Self, Errno> {
        Ok(Self {
            shared: DeviceThread::new(State::new(settings)?),
            descriptors: (0..MAX_DESCRIPTORS / 64).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Returns what the model holds.
    #[must_use]
    pub fn usage(&self) -> ModelUsage {
        let state = lock(&self.shared.state);
        ModelUsage {
            files: state.files.len(),
            clients: state.clients.len(),
            objects: state.clients.values().map(|c| c.objects.len()).sum(),
            channels: state.gpu.channels.len(),
            mappings: state.gpu.spaces.values().map(|s| s.len()).sum(),
            video_bytes: state.gpu.used_memory,
            polls: self.shared.polls(),
        }
    }

    /// Returns whether the driver has a path, or refuses it as a GPU that does not exist.
    #[must_use]
    pub fn has_path(path: &[u8]) -> bool {
        DriverFile::from_path(path).is_some()
    }

    /// Returns whether the driver has a file of this path.
    #[must_use]
    pub fn has_file(path: &[u8]) -> bool {
        DriverFile::from_path(path).is_some_and(|kind| kind != DriverFile::Missing)
    }

    /// Returns the word and the bit of a descriptor.
    fn descriptor_bit(&self, fd: RawFd) -> Option<(&AtomicU64, u64)> {
        let fd = usize::try_from(fd).ok()?;
        Some((self.descriptors.get(fd / 64)?, 1 << (fd % 64)))
    }

    /// Returns whether a descriptor is one of the driver's. Takes no lock.
    #[must_use]
    pub fn has_descriptor(&self, fd: RawFd) -> bool {
        self.descriptor_bit(fd)
            .is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
    }

    /// Opens a file of the driver. `flags` are those of `open`: only `O_CLOEXEC` has a meaning. Returns `None` if the
    /// driver does not have the path.
    #[must_use]
    pub fn open(&self, path: &[u8], flags: i32) -> Option<Result<RawFd, Errno>> {
        let kind = DriverFile::from_path(path)?;
        let close_on_exec = flags & libc::O_CLOEXEC != 0;
        let fd = match lock(&self.shared.state).open(kind, close_on_exec) {
            Ok(fd) => fd,
            Err(error) => return Some(Err(error)),
        };
        if matches!(kind, DriverFile::Version | DriverFile::Information) {
            return Some(Ok(fd));
        }
        let Some((word, bit)) = self.descriptor_bit(fd) else {
            let _ = lock(&self.shared.state).close(fd);
            return Some(Err(Errno(libc::EMFILE)));
        };
        word.fetch_or(bit, Ordering::AcqRel);
        Some(Ok(fd))
    }

    /// Closes a file of the driver. Returns `None` if the descriptor is not one of the driver's.
    #[must_use]
    pub fn close(&self, fd: RawFd) -> Option<Result<(), Errno>> {
        if !self.has_descriptor(fd) {
            return None;
        }
        // The bit is cleared before the descriptor is free: another thread may get its number at once.
        if let Some((word, bit)) = self.descriptor_bit(fd) {
            word.fetch_and(!bit, Ordering::AcqRel);
        }
        lock(&self.shared.state).close(fd)
    }

    /// Answers an ioctl. Returns `None` if the descriptor is not one of the driver's.
    ///
    /// # Safety
    /// `argument`, and the pointers in it, must name memory that the caller owns and expects the driver to write.
    #[must_use]
    pub unsafe fn ioctl(&self, fd: RawFd, request: u64, argument: *mut c_void) -> Option<Result<i32, Errno>> {
        if !self.has_descriptor(fd) {
            return None;
        }
        // SAFETY: the caller promises the memory.
        let caller = unsafe { Caller::new() };
        let address = argument.expose_provenance() as u64;
        // The request has 32 bits; C programs pass it with or without its sign.
        let request = request as u32;
        let mut state = lock(&self.shared.state);
        let kind = state.file(fd)?.kind;
        let result = match kind {
            DriverFile::Uvm => state.uvm_ioctl(caller, fd, request, address),
            _ => state.rm_ioctl(caller, fd, request, address),
        };
        let runs = state.gpu.has_scheduled_channels();
        drop(state);
        if runs {
            self.shared.wake();
        }
        Some(result)
    }

    /// Maps a file of the driver. Returns `None` if the descriptor is not one of the driver's.
    ///
    /// # Safety
    /// As for `mmap`: with `MAP_FIXED` the range must be the caller's to replace.
    #[must_use]
    pub unsafe fn mmap(
        &self,
        fd: RawFd,
        address: *mut c_void,
        bytes: usize,
        protection: i32,
        flags: i32,
        offset: i64,
    ) -> Option<Result<*mut c_void, Errno>> {
        if !self.has_descriptor(fd) {
            return None;
        }
        let mut state = lock(&self.shared.state);
        let file = state.file(fd)?;
        if file.kind == DriverFile::Uvm {
            drop(state);
            let flags = flags | libc::MAP_ANONYMOUS;
            // SAFETY: the caller promises the range.
            return Some(unsafe { system::map(address, bytes, protection, flags, -1, 0) });
        }
        let target = file.mapping.as_ref().and_then(|mapping| {
            let memory = mapping.memory.upgrade()?;
            let start = u64::try_from(offset).ok()?;
            let end = start.checked_add(bytes as u64)?;
            let limit = mapping.bytes.checked_next_multiple_of(0x1000)?;
            let offset = i64::try_from(mapping.offset.checked_add(start)?).ok()?;
            (end <= limit).then_some((memory, offset))
        });
        // The lock stays until the mapping exists: the memory's file must not be closed before.
        let Some((memory, offset)) = target else {
            return Some(Err(Errno(libc::EINVAL)));
        };
        let Some(file) = memory.fd() else {
            return Some(Err(Errno(libc::EINVAL)));
        };
        // SAFETY: the caller promises the range.
        let result = unsafe { system::map(address, bytes, protection, flags, file, offset) };
        drop(state);
        Some(result)
    }

    /// Removes a mapping.
    ///
    /// # Errors
    /// As `munmap`.
    ///
    /// # Safety
    /// As for `munmap`: nothing may use the range afterwards.
    pub unsafe fn munmap(&self, address: *mut c_void, bytes: usize) -> Result<(), Errno> {
        // SAFETY: the caller promises the range.
        unsafe { system::unmap(address, bytes) }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.stop();
        let mut state = lock(&self.shared.state);
        let open: Vec<RawFd> = state.files.keys().copied().collect();
        for fd in open {
            let _ = state.close(fd);
        }
    }
}

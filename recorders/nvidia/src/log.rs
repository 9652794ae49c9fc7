//! The log: a file that grows by mapped windows. A record exists once its first word is stored, and a killed program
//! leaves all records so far.
#![allow(unsafe_code, reason = "the file is mapped memory")]

use crate::address::HostAddr;
use crate::guarded_copy::{copy_bytes_to, copy_to};
use crate::system::{
    Errno, FileIdentity, create_file, file_identity, map_file, populate, reserve_file, set_file_length, unmap,
};
use libc::c_int;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, Ordering};
use thiserror::Error;

/// Bytes of the header of a record: type, bytes of the content, time, thread, 0.
pub(crate) const HEADER_BYTES: u64 = 24;
/// Bytes of a window of the file.
const WINDOW_BYTES: u64 = 32 << 20;
/// Bytes whose pages are made present at once.
const POPULATED_BYTES: u64 = 256 << 10;
/// Bytes after the records whose pages are made present at requests of the program.
const PREPARED_BYTES: u64 = WINDOW_BYTES;
/// Bytes whose pages one request makes present: about 0.4 ms.
const PREPARED_AT_ONCE: u64 = 1 << 20;
/// Bytes of small parts that are copied together.
const GATHERED_BYTES: usize = 256;
/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;
/// Maximum bytes of the content of a record.
pub(crate) const MAX_CONTENT_BYTES: u64 = 16 << 20;

/// Why a record cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum LogError {
    /// The program's memory is not readable at this place. The log stays as it was.
    #[error("memory of the program is not readable")]
    Unreadable,
    /// A record has more than [`MAX_CONTENT_BYTES`].
    #[error("a record is too large")]
    TooLarge,
    /// The log reached its maximum size.
    #[error("the log reached its limit")]
    Limit,
    /// The file cannot grow.
    #[error("the log cannot grow: the disk is full, or the program closed the file")]
    Full,
}

/// A part of the content of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    /// Bytes of the recorder.
    Bytes(&'a [u8]),
    /// Memory of the program: address and number of bytes. It may be inaccessible.
    Memory(HostAddr, u64),
}

impl Part<'_> {
    fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Memory(_, bytes) => *bytes,
        }
    }
}

/// A copy to the window that puts small parts together.
struct GatheredCopy {
    to: *mut u8,
    bytes: [u8; GATHERED_BYTES],
    length: usize,
}

impl GatheredCopy {
    /// Begins a copy.
    ///
    /// # Safety
    /// `to` may be written for all bytes that are put.
    unsafe fn new(to: *mut u8) -> Self {
        Self {
            to,
            bytes: [0; GATHERED_BYTES],
            length: 0,
        }
    }

    /// Adds bytes of the recorder.
    fn put(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        if let Some(to) = self.bytes.get_mut(self.length..self.length.saturating_add(bytes.len())) {
            to.copy_from_slice(bytes);
            self.length += bytes.len();
            return Ok(());
        }
        self.flush()?;
        self.advance(bytes.len(), LogError::Full, |to| {
            // SAFETY: the creator allows the range.
            unsafe { copy_bytes_to(to, bytes) }
        })
    }

    /// Adds memory of the program.
    fn put_memory(&mut self, from: HostAddr, bytes: usize) -> Result<(), LogError> {
        self.flush()?;
        self.advance(bytes, LogError::Unreadable, |to| {
            // SAFETY: the creator allows the range.
            unsafe { copy_to(to, from, bytes) }
        })
    }

    /// Copies what was put together.
    fn flush(&mut self) -> Result<(), LogError> {
        let length = std::mem::take(&mut self.length);
        let bytes = self.bytes.get(..length).unwrap_or_default();
        // SAFETY: the creator allows the range.
        if !unsafe { copy_bytes_to(self.to, bytes) } {
            return Err(LogError::Full);
        }
        self.to = self.to.wrapping_add(length);
        Ok(())
    }

    fn advance(&mut self, bytes: usize, error: LogError, copy: impl FnOnce(*mut u8) -> bool) -> Result<(), LogError> {
        if !copy(self.to) {
            return Err(error);
        }
        self.to = self.to.wrapping_add(bytes);
        Ok(())
    }
}

/// The log of this process.
#[derive(Debug)]
pub(crate) struct LogFile {
    fd: c_int,
    identity: FileIdentity,
    window: HostAddr,
    /// Position of the window in the file, bytes.
    window_at: u64,
    window_bytes: u64,
    /// Position after the last record, bytes.
    end: u64,
    /// Position after the last byte that may be other than zero.
    dirty_end: u64,
    /// Position up to which the pages of the window are present.
    populated: u64,
    /// Maximum size of the file, bytes.
    limit: u64,
}

impl LogFile {
    /// Creates the file, which must not exist. `limit` is its maximum size in bytes.
    ///
    /// # Errors
    /// If the file exists, or cannot be created or mapped.
    pub fn create(path: &CStr, limit: u64) -> Result<Self, Errno> {
        let fd = create_file(path)?;
        let mut log = Self {
            fd,
            identity: file_identity(fd).unwrap_or_default(),
            window: HostAddr::default(),
            window_at: 0,
            window_bytes: 0,
            end: 0,
            dirty_end: 0,
            populated: 0,
            limit,
        };
        log.map_window(HEADER_BYTES).map_err(|_| Errno(libc::ENOSPC))?;
        Ok(log)
    }

    /// Returns the descriptor, which the program must not close.
    pub fn descriptor(&self) -> c_int {
        self.fd
    }

    /// Returns the bytes of all records.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Maps a window at the end of the records, with room for `bytes` bytes. It allocates no memory of the program.
    fn map_window(&mut self, bytes: u64) -> Result<(), LogError> {
        if file_identity(self.fd) != Some(self.identity) {
            return Err(LogError::Full);
        }
        let at = self.end / PAGE_BYTES * PAGE_BYTES;
        let wanted = (self.end - at).saturating_add(bytes).max(WINDOW_BYTES);
        let window_bytes = wanted.div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES);
        reserve_file(self.fd, at, window_bytes).map_err(|_| LogError::Full)?;
        let window = map_file(self.fd, at, window_bytes).map_err(|_| LogError::Full)?;
        self.unmap_window();
        (self.window, self.window_at, self.window_bytes) = (window, at, window_bytes);
        self.populated = at;
        Ok(())
    }

    fn unmap_window(&mut self) {
        if self.window_bytes != 0 {
            // SAFETY: the window belongs to the log, which refers to it nowhere else.
            unsafe { unmap(self.window, self.window_bytes) };
            self.window_bytes = 0;
        }
    }

    /// Returns the address for `bytes` bytes after the last record.
    fn reserve(&mut self, bytes: u64) -> Result<*mut u8, LogError> {
        let offset = self.end.checked_sub(self.window_at).ok_or(LogError::Full)?;
        if offset.saturating_add(bytes) > self.window_bytes {
            self.map_window(bytes)?;
        }
        let offset = self.end.checked_sub(self.window_at).ok_or(LogError::Full)?;
        self.populate(self.end.saturating_add(bytes));
        self.window
            .checked_add(offset)
            .map(HostAddr::pointer)
            .ok_or(LogError::Full)
    }

    /// Makes some pages after the records present, so that a doorbell finds them. Requests to the driver call it, which
    /// take long themselves.
    pub fn prepare(&mut self) {
        let window_end = self.window_at.saturating_add(self.window_bytes);
        let goal = self.end.saturating_add(PREPARED_BYTES).min(window_end);
        if self.window_bytes != 0 && self.populated < goal {
            self.populate(self.populated.saturating_add(PREPARED_AT_ONCE).min(goal));
        }
    }

    /// Makes pages of the window present up to a position, many at once: a fault for each page costs more.
    fn populate(&mut self, end: u64) {
        while self.populated < end {
            let offset = self.populated.saturating_sub(self.window_at);
            let bytes = self.window_bytes.saturating_sub(offset).min(POPULATED_BYTES);
            let is_done = self
                .window
                .checked_add(offset)
                .is_some_and(|at| bytes != 0 && populate(at, bytes).is_ok());
            // A kernel that cannot do it handles the faults.
            self.populated = if is_done { self.populated + bytes } else { u64::MAX };
        }
    }

    /// Appends a record. A failed append leaves the log as it was.
    ///
    /// # Errors
    /// If a part is not readable, or the log is full.
    pub fn append(&mut self, kind: u32, time: u64, thread: u32, parts: &[Part<'_>]) -> Result<(), LogError> {
        let content = parts.iter().map(Part::bytes).fold(0, u64::saturating_add);
        if content > MAX_CONTENT_BYTES {
            return Err(LogError::TooLarge);
        }
        let record = HEADER_BYTES + content;
        if self.end.saturating_add(record) > self.limit {
            return Err(LogError::Limit);
        }
        let at = self.reserve(record + HEADER_BYTES)?;
        let next = self.end + record;
        // Bytes that no append wrote are zero: a header of zeros, the end for a reader, follows the last record.
        let is_next_clean = self.dirty_end <= next;
        self.dirty_end = self.dirty_end.max(next);
        // SAFETY: `reserve` returned memory for the record and a header after it. Only this record's bytes and that
        // header are written, and a fault in the file's mapping ends the copy.
        unsafe {
            let mut to = GatheredCopy::new(at.add(HEADER_BYTES as usize));
            for part in parts {
                match part {
                    Part::Bytes(bytes) => to.put(bytes)?,
                    Part::Memory(from, bytes) => to.put_memory(*from, *bytes as usize)?,
                }
            }
            if !is_next_clean {
                to.put(&[0; HEADER_BYTES as usize])?;
            }
            to.flush()?;
            let mut header = [0u8; HEADER_BYTES as usize];
            header[4..8].copy_from_slice(&(content as u32).to_le_bytes());
            header[8..16].copy_from_slice(&time.to_le_bytes());
            header[16..20].copy_from_slice(&thread.to_le_bytes());
            if !copy_bytes_to(at, &header) {
                return Err(LogError::Full);
            }
            self.publish(at, kind);
        }
        self.end += record;
        Ok(())
    }

    /// Stores the type of a record, which makes it valid.
    ///
    /// # Safety
    /// `at` is a header in the window that was just written.
    unsafe fn publish(&self, at: *mut u8, kind: u32) {
        std::sync::atomic::fence(Ordering::Release);
        let bytes = kind.to_le();
        if at.align_offset(align_of::<AtomicU32>()) == 0 {
            // SAFETY: the word is aligned and in the window; only readers of the file share it.
            unsafe { AtomicU32::from_ptr(at.cast()) }.store(bytes, Ordering::Release);
        } else {
            // SAFETY: the word is in the window.
            unsafe { at.cast::<u32>().write_unaligned(bytes) };
        }
    }

    /// Cuts the file after its last record. The next record makes it grow again.
    pub fn trim(&mut self) {
        if file_identity(self.fd) == Some(self.identity) {
            self.unmap_window();
            self.window_at = self.end;
            self.dirty_end = self.end;
            // A file that cannot be cut ends in zeros, which readers accept.
            let _ = set_file_length(self.fd, self.end);
        }
    }
}

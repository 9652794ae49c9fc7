//! A reader of snapshot files: fields with the position in every error, and bytes that become pages.

use crate::bytes::Stream;
use crate::error::{FilePosition, ImportError};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use trace_core::mmu::VA_BITS;
use trace_core::progress::Progress;
use trace_core::recording::{MemoryBuilder, Page, PageId};
use trace_core::{GpuVa, PAGE_SIZE};

/// Maximum size of a name, bytes: mangled names of templates are long.
pub(super) const MAX_NAME: u64 = 1 << 16;
/// Maximum size of all arguments of a launch, bytes; no device accepts a quarter of it.
const MAX_ARGUMENTS: u64 = 1 << 17;
/// Maximum number of arguments of a launch.
const MAX_VALUES: u64 = 1 << 15;
/// Number of pages between two progress reports.
const REPORT_EVERY: u64 = 256;

/// Device memory as pages of the recording: bytes of the first page before it and of the last page after it are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// Number of bytes.
    pub bytes: u64,
    /// Offset in the first page.
    pub phase: usize,
    /// The pages.
    pub pages: Vec<PageId>,
}

impl Content {
    /// Returns the range of content bytes in page `n`.
    pub fn part(&self, n: usize) -> std::ops::Range<usize> {
        let from = if n == 0 { self.phase } else { 0 };
        let end = (self.phase as u64 + self.bytes).saturating_sub(n as u64 * PAGE_SIZE as u64);
        from..(end.min(PAGE_SIZE as u64) as usize)
    }
}

/// A snapshot file.
pub(super) struct Snapshot<'a> {
    path: &'a Path,
    from: Stream<BufReader<File>>,
    progress: &'a Progress,
}

impl<'a> Snapshot<'a> {
    /// Opens the file at its first byte.
    pub fn open(path: &'a Path, progress: &'a Progress) -> Result<Self, ImportError> {
        let io = |e| ImportError::io(path, e);
        let file = File::open(path).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        Ok(Self {
            path,
            from: Stream::new(BufReader::with_capacity(1 << 18, file), bytes),
            progress,
        })
    }

    /// Returns the number of bytes used so far.
    pub fn at(&self) -> u64 {
        self.from.at()
    }

    /// Returns the size of the file, bytes.
    pub fn bytes(&self) -> u64 {
        self.from.bytes()
    }

    /// Returns an error at a byte of the file.
    pub fn malformed(&self, at: u64, message: impl Into<String>) -> ImportError {
        ImportError::malformed(self.path, FilePosition::Byte(at), message)
    }

    fn ends(&self, what: &str) -> ImportError {
        self.malformed(self.at(), format!("the file ends in {what}"))
    }

    fn io(&self, e: std::io::Error) -> ImportError {
        ImportError::io(self.path, e)
    }

    /// Reads a 64-bit number.
    pub fn u64(&mut self, what: &str) -> Result<u64, ImportError> {
        let read = self.from.u64().map_err(|e| ImportError::io(self.path, e))?;
        read.ok_or_else(|| self.ends(what))
    }

    /// Returns the number of bytes that are not used yet.
    pub fn left(&self) -> u64 {
        self.from.left()
    }

    /// Reads a 32-bit number.
    pub fn u32(&mut self, what: &str) -> Result<u32, ImportError> {
        let mut bytes = [0; 4];
        for byte in &mut bytes {
            *byte = self.u8(what)?;
        }
        Ok(u32::from_le_bytes(bytes))
    }

    /// Reads `bytes` bytes, which do not become pages; their number was read at byte `field`.
    pub fn bytes_of(&mut self, field: u64, bytes: u64, max: u64, what: &str) -> Result<Vec<u8>, ImportError> {
        self.some(field, bytes, max, what)
    }

    /// Reads an 8-bit number.
    pub fn u8(&mut self, what: &str) -> Result<u8, ImportError> {
        let read = self.from.u8().map_err(|e| ImportError::io(self.path, e))?;
        read.ok_or_else(|| self.ends(what))
    }

    /// Reads a count of items that take at least `min` bytes each.
    pub fn count(&mut self, min: u64, what: &str) -> Result<u64, ImportError> {
        let at = self.at();
        let count = self.u64(what)?;
        self.check_count(at, count, min, what)?;
        Ok(count)
    }

    /// Checks that `count` items of at least `min` bytes each can follow; the count was read at byte `field`.
    pub fn check_count(&self, field: u64, count: u64, min: u64, what: &str) -> Result<(), ImportError> {
        let left = self.from.left();
        if count <= left / min {
            return Ok(());
        }
        Err(self.malformed(field, format!("{what} is {count}, but only {left} bytes follow")))
    }

    /// Reads a size and as many bytes, which do not become pages.
    pub fn read_sized(&mut self, max: u64, what: &str) -> Result<Vec<u8>, ImportError> {
        let at = self.at();
        let bytes = self.u64(what)?;
        self.some(at, bytes, max, what)
    }

    fn some(&mut self, at: u64, bytes: u64, max: u64, what: &str) -> Result<Vec<u8>, ImportError> {
        let left = self.from.left();
        if bytes > left || bytes > max {
            let message = format!("{what} has {bytes} bytes; {left} bytes follow, and the maximum is {max}");
            return Err(self.malformed(at, message));
        }
        let mut out = vec![0; bytes as usize];
        match self.from.fill(&mut out).map_err(|e| self.io(e))? {
            true => Ok(out),
            false => Err(self.ends(what)),
        }
    }

    /// Reads a name with its length before it.
    pub fn name(&mut self, what: &str) -> Result<String, ImportError> {
        let bytes = self.read_sized(MAX_NAME, what)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads arguments with all sizes first: their number, the sizes, the values.
    pub fn read_split_arguments(&mut self) -> Result<Vec<Vec<u8>>, ImportError> {
        let at = self.at();
        let count = self.count(8, "the number of arguments")?;
        if count > MAX_VALUES {
            return Err(self.malformed(
                at,
                format!("the launch has {count} arguments; the maximum is {MAX_VALUES}"),
            ));
        }
        let mut sizes = Vec::new();
        let mut all = 0u64;
        for _ in 0..count {
            let size = self.u64("the size of an argument")?;
            all = all.saturating_add(size);
            if all > MAX_ARGUMENTS {
                return Err(self.malformed(at, format!("the arguments have more than {MAX_ARGUMENTS} bytes")));
            }
            sizes.push(size);
        }
        let mut values = Vec::new();
        for size in sizes {
            let at = self.at();
            values.push(self.some(at, size, MAX_ARGUMENTS, "an argument")?);
        }
        Ok(values)
    }

    /// Reads arguments, each after its size.
    pub fn arguments(&mut self) -> Result<Vec<Vec<u8>>, ImportError> {
        let at = self.at();
        let count = self.count(8, "the number of arguments")?;
        if count > MAX_VALUES {
            return Err(self.malformed(
                at,
                format!("the launch has {count} arguments; the maximum is {MAX_VALUES}"),
            ));
        }
        let mut values = Vec::new();
        let mut all = 0u64;
        for _ in 0..count {
            let value = self.read_sized(MAX_ARGUMENTS, "an argument")?;
            all += value.len() as u64;
            if all > MAX_ARGUMENTS {
                return Err(self.malformed(at, format!("the arguments have more than {MAX_ARGUMENTS} bytes")));
            }
            values.push(value);
        }
        Ok(values)
    }

    /// Checks a range of device addresses whose size was read at byte `field`.
    pub fn check_range(&self, field: u64, at: GpuVa, bytes: u64, what: &str) -> Result<(), ImportError> {
        let fits = at.checked_add(bytes).is_some_and(|end| end.get() <= 1 << VA_BITS);
        if fits {
            return Ok(());
        }
        Err(self.malformed(
            field,
            format!("{what} has {bytes} bytes at {at:#x}, outside the addresses of any device"),
        ))
    }

    /// Reads `bytes` bytes of content from offset `phase` of their first page; their number was read at byte `field`.
    pub fn content(
        &mut self,
        field: u64,
        bytes: u64,
        phase: usize,
        store: &mut MemoryBuilder,
        what: &str,
    ) -> Result<Content, ImportError> {
        let left = self.from.left();
        if bytes > left {
            return Err(self.malformed(field, format!("{what} has {bytes} bytes, but only {left} follow")));
        }
        let mut content = Content {
            bytes,
            phase,
            pages: Vec::new(),
        };
        let mut image = [0; PAGE_SIZE];
        let count = (phase as u64 + bytes).div_ceil(PAGE_SIZE as u64);
        let mut unreported = 0;
        for n in 0..if bytes == 0 { 0 } else { count } {
            let part = content.part(n as usize);
            if part.len() < PAGE_SIZE {
                image = [0; PAGE_SIZE];
            }
            let there = match image.get_mut(part) {
                Some(to) => {
                    unreported += to.len() as u64;
                    self.from.fill(to).map_err(|e| ImportError::io(self.path, e))?
                }
                None => false,
            };
            if !there {
                return Err(self.ends(what));
            }
            content.pages.push(store.add_page(&image));
            if n % REPORT_EVERY == REPORT_EVERY - 1 || n + 1 == count {
                self.progress.advance(std::mem::take(&mut unreported))?;
            }
        }
        Ok(content)
    }

    /// Reads changed ranges after their count, each with offset, size and bytes, and applies them to content.
    pub fn read_changes(
        &mut self,
        base: &Content,
        store: &mut MemoryBuilder,
        what: &str,
    ) -> Result<Content, ImportError> {
        let count = self.count(16, "the number of changed ranges")?;
        // Pages are stored after all ranges are known: ranges in any order then store no page twice.
        let mut changed: BTreeMap<usize, Box<Page>> = BTreeMap::new();
        for n in 0..count {
            let at = self.at();
            let offset = self.u64("a changed range")?;
            let bytes = self.u64("a changed range")?;
            let end = offset.checked_add(bytes).filter(|e| *e <= base.bytes);
            let Some(end) = end.filter(|_| bytes <= self.from.left()) else {
                let (all, left) = (base.bytes, self.from.left());
                let message = format!(
                    "a changed range of {bytes} bytes from byte {offset} on is outside {what}, which has {all} bytes; \
                     {left} bytes follow in the file"
                );
                return Err(self.malformed(at, message));
            };
            let (mut from, end) = (base.phase as u64 + offset, base.phase as u64 + end);
            while from < end {
                let (page, within) = ((from / PAGE_SIZE as u64) as usize, (from % PAGE_SIZE as u64) as usize);
                let length = (end - from).min((PAGE_SIZE - within) as u64) as usize;
                let image = changed.entry(page).or_insert_with(|| {
                    let known = base.pages.get(page).and_then(|id| store.image(*id));
                    Box::new(known.copied().unwrap_or([0; PAGE_SIZE]))
                });
                let there = match image.get_mut(within..within + length) {
                    Some(to) => self.from.fill(to).map_err(|e| ImportError::io(self.path, e))?,
                    None => false,
                };
                if !there {
                    return Err(self.ends(what));
                }
                from += length as u64;
            }
            if n % REPORT_EVERY == 0 {
                self.progress.check()?;
            }
        }
        let mut content = base.clone();
        for (page, image) in changed {
            if let Some(to) = content.pages.get_mut(page) {
                *to = store.add_page(&image);
            }
        }
        Ok(content)
    }

    /// Checks that the file ends here.
    pub fn end(&self) -> Result<(), ImportError> {
        match self.from.left() {
            0 => Ok(()),
            left => Err(self.malformed(
                self.at(),
                format!("{left} bytes follow after the expected end of the file"),
            )),
        }
    }
}

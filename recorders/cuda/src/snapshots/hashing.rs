//! Page hashes computed by the device: content that did not change since the last snapshot does not cross the bus.
//!
//! A small PTX function is loaded into the program's context when it is first needed. It runs on a stream of its own
//! while the context is idle: a snapshot has waited for all earlier work. Its memory is the driver's own, outside the
//! window. If any of this fails, memory is copied and hashed on the host.

use super::hash_kernel::build_ptx;
use crate::driver::driver;
use cuda_driver::{CuDevicePtr, CuFunction, CuModule, CuStream, CudaError, STREAM_NON_BLOCKING};
use cuda_session::{PageHash, count_pages};
use libc::c_void;
use std::collections::HashMap;
use trace_core::GpuVa;

const PAGE: u64 = trace_core::PAGE_SIZE as u64;
/// Maximum number of pages hashed at once: 4 GiB of memory, whose hashes take 16 MiB.
const MAX_PAGES: u64 = 1 << 20;
/// Maximum number of ranges hashed at once.
const MAX_RANGES: usize = 1 << 16;
/// Threads of a block; each group of 32 hashes one page at a time.
const THREADS: u32 = 128;
/// Maximum number of blocks; each continues with further pages when it is done.
const MAX_BLOCKS: u64 = 4096;

/// The hasher of each context that needed one; none if it did not load or run.
#[derive(Debug, Default)]
pub(super) struct Hashers {
    of: HashMap<usize, Option<Hasher>>,
    why: Option<CudaError>,
}

/// Objects loaded into a context.
#[derive(Debug)]
struct Hasher {
    module: CuModule,
    function: CuFunction,
    stream: CuStream,
    ranges: Buffer,
    hashes: Buffer,
}

// SAFETY: the handles are the driver's, and any thread can use them.
unsafe impl Send for Hasher {}

/// A buffer of device memory; empty at first.
#[derive(Clone, Copy, Debug, Default)]
struct Buffer {
    at: CuDevicePtr,
    bytes: usize,
}

impl Buffer {
    /// Grows the buffer to at least this size. Its content is lost.
    fn grow(&mut self, bytes: usize) -> Result<(), CudaError> {
        if self.bytes >= bytes {
            return Ok(());
        }
        self.free();
        let bytes = bytes.next_power_of_two();
        // SAFETY: the pointer is valid for the answer.
        unsafe { driver().cuMemAlloc_v2(&raw mut self.at, bytes)? };
        self.bytes = bytes;
        Ok(())
    }

    fn free(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the memory belongs to this value and is unused: every run is waited for.
            let _ = unsafe { driver().cuMemFree_v2(self.at) };
        }
        *self = Self::default();
    }
}

/// A range in the layout that the device's function reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Entry {
    from: GpuVa,
    end: GpuVa,
    /// Index of its first page among the pages of all ranges.
    first: u64,
}

impl Hashers {
    /// Returns the page hashes of each range (first address and size in bytes), or `None` if the device does not hash.
    /// This context must have access to all ranges, and they start at multiples of eight bytes.
    pub fn hash(&mut self, context: usize, ranges: &[(GpuVa, u64)]) -> Option<Vec<Vec<PageHash>>> {
        let why = &mut self.why;
        let hasher = self.of.entry(context).or_insert_with(|| match Hasher::load() {
            Ok(hasher) => Some(hasher),
            Err(e) => {
                why.get_or_insert(e);
                None
            }
        });
        match hasher.as_mut()?.hash(ranges) {
            Ok(all) => Some(all),
            Err(e) => {
                self.why.get_or_insert(e);
                if let Some(h) = hasher.take() {
                    h.unload();
                }
                None
            }
        }
    }

    /// Forgets a destroyed context.
    pub fn forget(&mut self, context: usize) {
        self.of.remove(&context);
    }

    /// Returns why the device did not hash, or `None` if it did.
    pub fn error(&self) -> Option<&CudaError> {
        self.why.as_ref()
    }
}

impl Hasher {
    fn load() -> Result<Self, CudaError> {
        let d = driver();
        let mut text = build_ptx().into_bytes();
        text.push(0);
        let mut made = Self {
            module: std::ptr::null_mut(),
            function: std::ptr::null_mut(),
            stream: std::ptr::null_mut(),
            ranges: Buffer::default(),
            hashes: Buffer::default(),
        };
        // SAFETY: the strings end in zeros, and the pointers are valid for the answers.
        let loaded = unsafe {
            d.cuModuleLoadData(&raw mut made.module, text.as_ptr().cast())
                .and_then(|()| d.cuModuleGetFunction(&raw mut made.function, made.module, c"kinescope_hash".as_ptr()))
                .and_then(|()| d.cuStreamCreate(&raw mut made.stream, STREAM_NON_BLOCKING))
        };
        match loaded {
            Ok(()) => Ok(made),
            Err(e) => {
                made.unload();
                Err(e)
            }
        }
    }

    fn unload(mut self) {
        let d = driver();
        self.ranges.free();
        self.hashes.free();
        // SAFETY: the handles, if any, belong to this value; nothing runs.
        unsafe {
            if !self.stream.is_null() {
                let _ = d.cuStreamDestroy_v2(self.stream);
            }
            if !self.module.is_null() {
                let _ = d.cuModuleUnload(self.module);
            }
        }
    }

    fn hash(&mut self, ranges: &[(GpuVa, u64)]) -> Result<Vec<Vec<PageHash>>, CudaError> {
        let mut all: Vec<Vec<PageHash>> = ranges.iter().map(|_| Vec::new()).collect();
        // Parts of ranges, as many as are hashed at once, and the range of each part.
        let (mut entries, mut owners, mut pages) = (Vec::new(), Vec::new(), 0);
        for (n, (at, bytes)) in ranges.iter().enumerate() {
            let end = *at + *bytes;
            let mut from = *at;
            while from < end {
                let room = MAX_PAGES - pages;
                let to = (from.align_down(PAGE) + room * PAGE).min(end);
                let count = count_pages(from, to - from);
                let first = pages;
                entries.push(Entry { from, end: to, first });
                owners.push((n, count));
                pages += count;
                from = to;
                if pages == MAX_PAGES || entries.len() == MAX_RANGES {
                    self.run(&entries, &owners, pages, &mut all)?;
                    entries.clear();
                    owners.clear();
                    pages = 0;
                }
            }
        }
        if pages > 0 {
            self.run(&entries, &owners, pages, &mut all)?;
        }
        Ok(all)
    }

    fn run(
        &mut self,
        entries: &[Entry],
        owners: &[(usize, u64)],
        pages: u64,
        all: &mut [Vec<PageHash>],
    ) -> Result<(), CudaError> {
        let d = driver();
        let mut hashes: Vec<PageHash> = vec![[0; 2]; pages as usize];
        self.ranges.grow(size_of_val(entries))?;
        self.hashes.grow(size_of_val(hashes.as_slice()))?;
        let (mut table, mut count) = (self.ranges.at, entries.len() as u32);
        let (mut pages, mut out) = (pages, self.hashes.at);
        let mut parameters: [*mut c_void; 4] = [
            (&raw mut table).cast(),
            (&raw mut count).cast(),
            (&raw mut pages).cast(),
            (&raw mut out).cast(),
        ];
        let blocks = pages.div_ceil(u64::from(THREADS / 32)).min(MAX_BLOCKS) as u32;
        // SAFETY: the buffers are as long as the copied data, which stays until the stream is waited for. The function
        // takes these parameters and reads only the memory of the ranges.
        unsafe {
            d.cuMemcpyHtoDAsync_v2(table, entries.as_ptr().cast(), size_of_val(entries), self.stream)?;
            let launched = d.cuLaunchKernel(
                self.function,
                blocks,
                1,
                1,
                THREADS,
                1,
                1,
                0,
                self.stream,
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            );
            let copied = launched.and_then(|()| {
                let bytes = size_of_val(hashes.as_slice());
                d.cuMemcpyDtoHAsync_v2(hashes.as_mut_ptr().cast(), out, bytes, self.stream)
            });
            // Whatever failed, started work must end before its memory is freed.
            let waited = d.cuStreamSynchronize(self.stream);
            copied.and(waited)?;
        }
        let mut rest = hashes.as_slice();
        for (owner, count) in owners {
            let Some((own, behind)) = rest.split_at_checked(*count as usize) else {
                break;
            };
            if let Some(to) = all.get_mut(*owner) {
                to.extend_from_slice(own);
            }
            rest = behind;
        }
        Ok(())
    }
}

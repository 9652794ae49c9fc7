//! Page hashes computed by the device: content that did not change since the last snapshot does not cross the bus.
//!
//! A small PTX function is loaded into the program's context when it is first needed. It runs on a stream of its own
//! while the context is idle: a snapshot has waited for all earlier work. Its memory is the driver's own, outside the
//! window. If any of this fails, memory is copied and hashed on the host.

use crate::driver::driver;
use cuda_driver::{CuDevicePtr, CuFunction, CuModule, CuStream, CudaError, STREAM_NON_BLOCKING};
use cuda_session::{HASH_FIRST, HASH_PLACE, HASH_SECOND, PageHash, count_pages};
use libc::c_void;
use std::collections::HashMap;
use std::fmt::Write as _;

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
    from: u64,
    end: u64,
    /// Index of its first page among the pages of all ranges.
    first: u64,
}

impl Hashers {
    /// Returns the page hashes of each range (first address and size in bytes), or `None` if the device does not hash.
    /// This context must have access to all ranges, and they start at multiples of eight bytes.
    pub fn hash(&mut self, context: usize, ranges: &[(u64, u64)]) -> Option<Vec<Vec<PageHash>>> {
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

    fn hash(&mut self, ranges: &[(u64, u64)]) -> Result<Vec<Vec<PageHash>>, CudaError> {
        let mut all: Vec<Vec<PageHash>> = ranges.iter().map(|_| Vec::new()).collect();
        // Parts of ranges, as many as are hashed at once, and the range of each part.
        let (mut entries, mut owners, mut pages) = (Vec::new(), Vec::new(), 0);
        for (n, (at, bytes)) in ranges.iter().enumerate() {
            let end = at + bytes;
            let mut from = *at;
            while from < end {
                let room = MAX_PAGES - pages;
                let to = ((from / PAGE + room) * PAGE).min(end);
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

/// Returns the PTX function: 32 threads hash a page, word by word as `cuda_session::hash_page` does. Each thread takes
/// every 32nd word; the sums are then added up. A page that its range fills is read without checks of the range's ends.
fn build_ptx() -> String {
    let mut t = String::from(
        "\
.version 6.0
.target sm_50
.address_size 64
.visible .entry kinescope_hash(
 .param .u64 p_ranges, .param .u32 p_count, .param .u64 p_pages, .param .u64 p_out)
{
 .reg .pred %p<8>;
 .reg .b32 %r<16>;
 .reg .b64 %d<32>;
 ld.param.u64 %d0, [p_ranges];
 ld.param.u32 %r0, [p_count];
 ld.param.u64 %d1, [p_pages];
 ld.param.u64 %d2, [p_out];
 cvta.to.global.u64 %d0, %d0;
 cvta.to.global.u64 %d2, %d2;
 mov.u32 %r1, %tid.x;
 and.b32 %r2, %r1, 31;
 shr.u32 %r3, %r1, 5;
 mov.u32 %r4, %ctaid.x;
 mov.u32 %r5, %ntid.x;
 shr.u32 %r5, %r5, 5;
 mad.lo.u32 %r6, %r4, %r5, %r3;
 cvt.u64.u32 %d3, %r6;
 mov.u32 %r7, %nctaid.x;
 mul.lo.u32 %r7, %r7, %r5;
 cvt.u64.u32 %d4, %r7;
PAGE:
 setp.ge.u64 %p0, %d3, %d1;
 @%p0 bra END;
 mov.u32 %r8, 0;
 sub.u32 %r9, %r0, 1;
SEARCH:
 setp.ge.u32 %p1, %r8, %r9;
 @%p1 bra FOUND;
 add.u32 %r10, %r8, %r9;
 add.u32 %r10, %r10, 1;
 shr.u32 %r10, %r10, 1;
 mul.wide.u32 %d5, %r10, 24;
 add.u64 %d5, %d0, %d5;
 ld.global.u64 %d6, [%d5+16];
 setp.le.u64 %p2, %d6, %d3;
 @%p2 mov.u32 %r8, %r10;
 @!%p2 sub.u32 %r9, %r10, 1;
 bra SEARCH;
FOUND:
 mul.wide.u32 %d5, %r8, 24;
 add.u64 %d5, %d0, %d5;
 ld.global.u64 %d7, [%d5];
 ld.global.u64 %d8, [%d5+8];
 ld.global.u64 %d9, [%d5+16];
 sub.u64 %d9, %d3, %d9;
 shl.b64 %d9, %d9, 12;
 and.b64 %d10, %d7, -4096;
 add.u64 %d10, %d10, %d9;
 cvt.u64.u32 %d11, %r2;
 shl.b64 %d12, %d11, 3;
 add.u64 %d13, %d10, %d12;
",
    );
    // A write to a string cannot fail.
    let _ = write!(
        t,
        " add.u64 %d14, %d11, 1;
 mul.lo.u64 %d14, %d14, {HASH_PLACE:#x};
 mov.u64 %d15, 0;
 mov.u64 %d16, 0;
 setp.lt.u64 %p3, %d10, %d7;
 add.u64 %d17, %d10, 4096;
 setp.gt.u64 %p4, %d17, %d8;
 or.pred %p3, %p3, %p4;
 @%p3 bra EDGE;
 mov.u32 %r11, 4;
WHOLE:
"
    );
    for n in 0..4 {
        let _ = writeln!(t, " ld.global.u64 %d{}, [%d13+{}];", 20 + n, n * 256);
    }
    for n in 0..4 {
        mix(&mut t, 20 + n);
    }
    t.push_str(
        " add.u64 %d13, %d13, 1024;
 sub.u32 %r11, %r11, 1;
 setp.ne.u32 %p5, %r11, 0;
 @%p5 bra WHOLE;
 bra SUM;
EDGE:
 mov.u32 %r11, 16;
EDGE_WORD:
 mov.u64 %d20, 0;
 setp.ge.u64 %p5, %d13, %d7;
 setp.lt.u64 %p6, %d13, %d8;
 and.pred %p5, %p5, %p6;
 @!%p5 bra EDGE_MIX;
 ld.global.u64 %d20, [%d13];
 sub.u64 %d21, %d8, %d13;
 setp.ge.u64 %p5, %d21, 8;
 @%p5 bra EDGE_MIX;
 cvt.u32.u64 %r12, %d21;
 shl.b32 %r12, %r12, 3;
 mov.u64 %d22, 1;
 shl.b64 %d22, %d22, %r12;
 sub.u64 %d22, %d22, 1;
 and.b64 %d20, %d20, %d22;
EDGE_MIX:
",
    );
    mix(&mut t, 20);
    t.push_str(
        " add.u64 %d13, %d13, 256;
 sub.u32 %r11, %r11, 1;
 setp.ne.u32 %p5, %r11, 0;
 @%p5 bra EDGE_WORD;
SUM:
",
    );
    for distance in [16, 8, 4, 2, 1] {
        for sum in ["%d15", "%d16"] {
            let _ = write!(
                t,
                " mov.b64 {{%r12, %r13}}, {sum};
 shfl.sync.down.b32 %r12, %r12, {distance}, 31, 0xffffffff;
 shfl.sync.down.b32 %r13, %r13, {distance}, 31, 0xffffffff;
 mov.b64 %d20, {{%r12, %r13}};
 add.u64 {sum}, {sum}, %d20;
"
            );
        }
    }
    t.push_str(
        " setp.ne.u32 %p5, %r2, 0;
 @%p5 bra NEXT;
 shl.b64 %d20, %d3, 4;
 add.u64 %d20, %d2, %d20;
 st.global.u64 [%d20], %d15;
 st.global.u64 [%d20+8], %d16;
NEXT:
 add.u64 %d3, %d3, %d4;
 bra PAGE;
END:
 ret;
}
",
    );
    t
}

/// Adds a word to the two sums, and advances to the next word's offset.
fn mix(t: &mut String, word: u32) {
    let [a, b] = HASH_FIRST;
    let [c, e] = HASH_SECOND;
    let step = HASH_PLACE.wrapping_mul(32);
    let _ = write!(
        t,
        " xor.b64 %d26, %d{word}, %d14;
 mul.lo.u64 %d26, %d26, {a:#x};
 shr.u64 %d27, %d26, 32;
 xor.b64 %d26, %d26, %d27;
 mul.lo.u64 %d26, %d26, {b:#x};
 shr.u64 %d27, %d26, 29;
 xor.b64 %d26, %d26, %d27;
 add.u64 %d15, %d15, %d26;
 add.u64 %d28, %d{word}, %d14;
 mul.lo.u64 %d28, %d28, {c:#x};
 shr.u64 %d29, %d28, 31;
 xor.b64 %d28, %d28, %d29;
 mul.lo.u64 %d28, %d28, {e:#x};
 shr.u64 %d29, %d28, 33;
 xor.b64 %d28, %d28, %d29;
 add.u64 %d16, %d16, %d28;
 add.u64 %d14, %d14, {step:#x};
"
    );
}

//! Copies of device memory on the device, with restore of only the changed pages.
//!
//! A kernel compares memory page by page, so only one byte per page crosses the bus. If the driver does not accept the
//! kernel, everything is copied back, and the report says so.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use cuda_driver::{
    CuDevicePtr, CuFunction, CuModule, CudaError, Driver, EXTRA_BUFFER, EXTRA_END, EXTRA_SIZE, OUT_OF_MEMORY,
};
use std::ffi::{CString, c_void};
use trace_core::PAGE_SIZE;

/// Name of the kernel.
const NAME: &str = "kinescope_pages";
/// Size of its parameters, bytes: three addresses and the restore flag.
const PARAMETERS: usize = 32;
/// Threads per block: each thread compares 16 bytes, a block compares a page.
const THREADS: u32 = 256;
/// Maximum number of pages of one launch: the maximum first dimension of a grid.
const MAX_PAGES: u64 = (1 << 31) - 1;
const PAGE: u64 = PAGE_SIZE as u64;
/// Bytes that are read from the device at once.
const PIECE: u64 = 4 << 20;
/// Device memory that copies leave free, bytes: launches need memory for stacks, and modules for code.
const RESERVE: u64 = 512 << 20;
/// Architectures to compile the kernel for: the oldest that drivers still accept, by age.
const TARGETS: [&str; 3] = ["sm_50", "sm_75", "sm_90"];

/// The kernel. Each block compares a current page with the saved page and sets the page's byte if they differ. On
/// request it also restores the saved page.
const TEXT: &str = ".version 6.0
.target TARGET
.address_size 64
.visible .entry kinescope_pages(
    .param .u64 is, .param .u64 kept, .param .u64 flags, .param .u32 back)
{
    .reg .pred %same, %look;
    .reg .b16 %one;
    .reg .b32 %page, %thread, %back;
    .reg .b64 %is, %kept, %flags, %at, %step, %a0, %a1, %b0, %b1, %d0, %d1;
    ld.param.u64 %is, [is];
    ld.param.u64 %kept, [kept];
    ld.param.u64 %flags, [flags];
    ld.param.u32 %back, [back];
    cvta.to.global.u64 %is, %is;
    cvta.to.global.u64 %kept, %kept;
    cvta.to.global.u64 %flags, %flags;
    mov.u32 %page, %ctaid.x;
    mov.u32 %thread, %tid.x;
    mul.wide.u32 %at, %page, 4096;
    mul.wide.u32 %step, %thread, 16;
    add.s64 %at, %at, %step;
    add.s64 %is, %is, %at;
    add.s64 %kept, %kept, %at;
    ld.global.v2.u64 {%a0, %a1}, [%is];
    ld.global.v2.u64 {%b0, %b1}, [%kept];
    xor.b64 %d0, %a0, %b0;
    xor.b64 %d1, %a1, %b1;
    or.b64 %d0, %d0, %d1;
    setp.eq.u64 %same, %d0, 0;
    @%same bra DONE;
    cvt.u64.u32 %at, %page;
    add.s64 %flags, %flags, %at;
    mov.u16 %one, 1;
    st.global.u8 [%flags], %one;
    setp.eq.u32 %look, %back, 0;
    @%look bra DONE;
    st.global.v2.u64 [%is], {%b0, %b1};
DONE:
    ret;
}
";

/// The loaded kernel, or none if the driver does not accept it.
#[derive(Debug)]
pub(super) struct CompareKernel {
    driver: Driver,
    loaded: Option<(CuModule, CuFunction)>,
}

impl CompareKernel {
    /// Loads the kernel if the driver accepts it.
    pub fn load(driver: Driver) -> Self {
        let loaded = TARGETS.iter().find_map(|target| {
            let text = CString::new(TEXT.replace("TARGET", target)).ok()?;
            let name = CString::new(NAME).ok()?;
            let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: a zero-terminated string and a valid output pointer.
            unsafe { driver.cuModuleLoadData(&raw mut module, text.as_ptr().cast()) }.ok()?;
            // SAFETY: a loaded module, a C string, and a valid output pointer.
            match unsafe { driver.cuModuleGetFunction(&raw mut function, module, name.as_ptr()) } {
                Ok(()) => Some((module, function)),
                Err(_) => {
                    // SAFETY: the module that was just loaded.
                    let _ = unsafe { driver.cuModuleUnload(module) };
                    None
                }
            }
        });
        Self { driver, loaded }
    }

    /// Compares `pages` pages and sets the byte of each page that differs. If `back` is set, restores the saved
    /// contents. Returns `false` if there is no kernel.
    fn compare(&self, is: u64, kept: u64, flags: u64, pages: u64, back: bool) -> Result<bool, CudaError> {
        let Some((_, function)) = self.loaded else {
            return Ok(false);
        };
        let mut at = 0;
        while at < pages {
            let now = (pages - at).min(MAX_PAGES);
            let mut parameters = [0u8; PARAMETERS];
            let words = [is + at * PAGE, kept + at * PAGE, flags + at, u64::from(back)];
            for (to, word) in parameters.as_chunks_mut::<8>().0.iter_mut().zip(words) {
                *to = word.to_le_bytes();
            }
            // The last parameter is a four-byte word.
            let mut size = PARAMETERS - 4;
            let mut extra: [*mut c_void; 5] = [
                EXTRA_BUFFER as *mut c_void,
                parameters.as_mut_ptr().cast(),
                EXTRA_SIZE as *mut c_void,
                (&raw mut size).cast(),
                EXTRA_END as *mut c_void,
            ];
            let grid = u32::try_from(now).unwrap_or(u32::MAX);
            // SAFETY: the kernel reads `pages` pages of both ranges, which are mapped, and writes one byte for each.
            // The driver has read the parameters when the call returns.
            unsafe {
                self.driver.cuLaunchKernel(
                    function,
                    grid,
                    1,
                    1,
                    THREADS,
                    1,
                    1,
                    0,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                    extra.as_mut_ptr(),
                )?;
            }
            at += now;
        }
        Ok(true)
    }
}

impl Drop for CompareKernel {
    fn drop(&mut self) {
        if let Some((module, _)) = self.loaded {
            // SAFETY: loaded by this value, and no device work is pending.
            let _ = unsafe { self.driver.cuModuleUnload(module) };
        }
    }
}

/// Device memory allocated by the replay itself, freed on drop.
#[derive(Debug)]
struct DeviceAllocation {
    driver: Driver,
    at: CuDevicePtr,
}

impl DeviceAllocation {
    fn new(driver: Driver, bytes: u64) -> Result<Self, CudaError> {
        let mut at = 0;
        // SAFETY: a valid output pointer.
        unsafe { driver.cuMemAlloc_v2(&raw mut at, bytes as usize)? };
        Ok(Self { driver, at })
    }
}

impl Drop for DeviceAllocation {
    fn drop(&mut self) {
        // SAFETY: allocated by this value, and no device work is pending.
        let _ = unsafe { self.driver.cuMemFree_v2(self.at) };
    }
}

/// The location of the copy of a range.
#[derive(Debug)]
enum SavedRange {
    /// On the device, with a byte per page for the differences.
    Device {
        copy: DeviceAllocation,
        flags: DeviceAllocation,
    },
    /// On the host, because the range is not a whole number of pages or the device has no room.
    Host(Vec<u8>),
}

/// A copy of memory at one time.
#[derive(Debug)]
pub struct SavedMemory {
    driver: Driver,
    ranges: Vec<(u64, u64, SavedRange)>,
}

/// Statistics of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreStats {
    /// Number of 4 KiB pages that had changed, or that were restored without a comparison.
    pub pages: u64,
    /// Number of pages that were compared or restored in total.
    pub of: u64,
    /// Whether only changed pages were restored.
    pub changed_alone: bool,
}

impl SavedMemory {
    /// Copies memory ranges, each given as first byte and length in bytes. Waits for pending device work.
    pub(super) fn save(driver: Driver, ranges: &[(u64, u64)]) -> Result<Self, CudaError> {
        let mut kept = Self {
            driver,
            ranges: Vec::new(),
        };
        for (at, bytes) in ranges {
            let copied = kept.copy(*at, *bytes)?;
            kept.ranges.push((*at, *bytes, copied));
        }
        // SAFETY: the call takes no pointers; it waits for all device work.
        unsafe { driver.cuCtxSynchronize()? };
        Ok(kept)
    }

    fn copy(&self, at: u64, bytes: u64) -> Result<SavedRange, CudaError> {
        let d = &self.driver;
        let length = bytes as usize;
        if bytes.is_multiple_of(PAGE) && at.is_multiple_of(PAGE) && self.leaves_room(bytes) {
            let both =
                DeviceAllocation::new(*d, bytes).and_then(|copy| Ok((copy, DeviceAllocation::new(*d, bytes / PAGE)?)));
            match both {
                Ok((copy, flags)) => {
                    // SAFETY: a mapped range, and a copy of the same length.
                    unsafe { d.cuMemcpyDtoD_v2(copy.at, at, length)? };
                    return Ok(SavedRange::Device { copy, flags });
                }
                Err(CudaError::Refused {
                    result: OUT_OF_MEMORY, ..
                }) => {}
                Err(e) => return Err(e),
            }
        }
        let mut bytes = vec![0; length];
        // SAFETY: the buffer has the given length.
        unsafe { d.cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), at, length)? };
        Ok(SavedRange::Host(bytes))
    }

    /// Returns whether the device has room for this many bytes and for the additional memory of launches.
    fn leaves_room(&self, bytes: u64) -> bool {
        let (mut free, mut all) = (0, 0);
        // SAFETY: valid output pointers. If the driver reports nothing, the allocation is tried.
        let result = unsafe { self.driver.cuMemGetInfo_v2(&raw mut free, &raw mut all) };
        result.is_err() || bytes.saturating_add(RESERVE.min(all as u64 / 16)) <= free as u64
    }

    /// Restores what has changed since the copy.
    pub(super) fn restore(&self, tools: &CompareKernel) -> Result<RestoreStats, CudaError> {
        let d = &self.driver;
        let mut stats = RestoreStats {
            changed_alone: true,
            ..Default::default()
        };
        for (at, bytes, copied) in &self.ranges {
            let pages = bytes.div_ceil(PAGE);
            stats.of += pages;
            match copied {
                SavedRange::Device { copy, flags } => {
                    // SAFETY: memory of this value, of the given length.
                    unsafe { d.cuMemsetD8_v2(flags.at, 0, pages as usize)? };
                    if tools.compare(*at, copy.at, flags.at, pages, true)? {
                        stats.pages += self.flags(flags, pages)?.iter().filter(|f| **f != 0).count() as u64;
                    } else {
                        // SAFETY: a mapped range, and a copy of the same length.
                        unsafe { d.cuMemcpyDtoD_v2(*at, copy.at, *bytes as usize)? };
                        stats.pages += pages;
                        stats.changed_alone = false;
                    }
                }
                SavedRange::Host(was) => {
                    // SAFETY: the buffer has the length of the range.
                    unsafe { d.cuMemcpyHtoD_v2(*at, was.as_ptr().cast(), was.len())? };
                    stats.pages += pages;
                    stats.changed_alone &= pages <= 1;
                }
            }
        }
        // SAFETY: the call takes no pointers; it waits for all device work.
        unsafe { d.cuCtxSynchronize()? };
        Ok(stats)
    }

    /// Updates this copy to the current memory contents.
    pub(super) fn update(&mut self, tools: &CompareKernel) -> Result<(), CudaError> {
        let d = &self.driver;
        for (at, bytes, copied) in &mut self.ranges {
            match copied {
                SavedRange::Device { copy, flags } => {
                    // The kernel runs with both sides swapped, so that differences go into the copy.
                    if !tools.compare(copy.at, *at, flags.at, bytes.div_ceil(PAGE), true)? {
                        // SAFETY: a mapped range, and a copy of the same length.
                        unsafe { d.cuMemcpyDtoD_v2(copy.at, *at, *bytes as usize)? };
                    }
                }
                SavedRange::Host(was) => {
                    // SAFETY: the buffer has the given length.
                    unsafe { d.cuMemcpyDtoH_v2(was.as_mut_ptr().cast(), *at, was.len())? };
                }
            }
        }
        // SAFETY: the call takes no pointers; it waits for all device work.
        unsafe { d.cuCtxSynchronize() }
    }

    fn flags(&self, flags: &DeviceAllocation, pages: u64) -> Result<Vec<u8>, CudaError> {
        let mut set = vec![0u8; pages as usize];
        // SAFETY: the buffer has the given length. The copy waits for the kernel, which runs in the same stream.
        unsafe {
            self.driver
                .cuMemcpyDtoH_v2(set.as_mut_ptr().cast(), flags.at, set.len())?;
        }
        Ok(set)
    }

    /// Returns the first byte of each page that differs from this copy, ascending. The last page of a range may be
    /// partial.
    pub(super) fn find_differing_pages(&self, tools: &CompareKernel) -> Result<Vec<u64>, CudaError> {
        let d = &self.driver;
        let mut different = Vec::new();
        for (at, bytes, copied) in &self.ranges {
            let pages = bytes.div_ceil(PAGE);
            if let SavedRange::Device { copy, flags } = copied {
                // SAFETY: memory of this value, of the given length.
                unsafe { d.cuMemsetD8_v2(flags.at, 0, pages as usize)? };
                if tools.compare(*at, copy.at, flags.at, pages, false)? {
                    let set = self.flags(flags, pages)?;
                    let set = set.iter().enumerate().filter(|(_, f)| **f != 0);
                    different.extend(set.map(|(n, _)| at + n as u64 * PAGE));
                    continue;
                }
            }
            let mut is = vec![0u8; *bytes as usize];
            // SAFETY: the buffer has the given length.
            unsafe { d.cuMemcpyDtoH_v2(is.as_mut_ptr().cast(), *at, is.len())? };
            let mut brought = Vec::new();
            let was: &[u8] = match copied {
                SavedRange::Host(was) => was,
                SavedRange::Device { copy, .. } => {
                    brought.resize(is.len(), 0);
                    // SAFETY: as above.
                    unsafe { d.cuMemcpyDtoH_v2(brought.as_mut_ptr().cast(), copy.at, brought.len())? };
                    &brought
                }
            };
            let both = is.chunks(PAGE_SIZE).zip(was.chunks(PAGE_SIZE)).enumerate();
            different.extend(both.filter(|(_, (a, b))| a != b).map(|(n, _)| at + n as u64 * PAGE));
        }
        Ok(different)
    }

    /// Reads a memory range from this copy. Returns `false` if the copy does not hold all of it.
    pub(super) fn read(&self, at: u64, to: &mut [u8]) -> Result<bool, CudaError> {
        let end = at.saturating_add(to.len() as u64);
        let found = self
            .ranges
            .iter()
            .find(|(first, bytes, _)| *first <= at && end <= first + bytes);
        let Some((first, _, copied)) = found else {
            return Ok(false);
        };
        let skip = at - first;
        match copied {
            SavedRange::Device { copy, .. } => {
                // SAFETY: the buffer has the given length, and the memory is longer.
                unsafe {
                    self.driver
                        .cuMemcpyDtoH_v2(to.as_mut_ptr().cast(), copy.at + skip, to.len())?;
                }
                Ok(true)
            }
            SavedRange::Host(was) => {
                let from = skip as usize;
                let held = was.get(from..from + to.len());
                if let Some(held) = held {
                    to.copy_from_slice(held);
                }
                Ok(held.is_some())
            }
        }
    }
}

/// Joins pages to runs, each within one range and at most as long as one read. Returns first byte and length in bytes.
pub(super) fn join_pages(pages: &[u64], ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    let mut range_before = usize::MAX;
    for at in pages {
        let Some(n) = ranges.partition_point(|(first, _)| first <= at).checked_sub(1) else {
            continue;
        };
        let Some((first, bytes)) = ranges.get(n) else { continue };
        let left = first.saturating_add(*bytes).saturating_sub(*at);
        let now = left.min(PAGE);
        match joined.last_mut() {
            Some((from, length)) if n == range_before && *from + *length == *at && *length + now <= PIECE => {
                *length += now
            }
            _ if now > 0 => joined.push((*at, now)),
            _ => {}
        }
        range_before = n;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_joined_within_their_range() {
        let ranges = [(0x10_0000, 3 * PAGE), (0x10_3000, PAGE), (0x20_0010, 100)];
        let pages = [0x10_0000, 0x10_1000, 0x10_2000, 0x10_3000, 0x20_0010];
        assert_eq!(
            join_pages(&pages, &ranges),
            [(0x10_0000, 3 * PAGE), (0x10_3000, PAGE), (0x20_0010, 100)]
        );
        assert_eq!(
            join_pages(&[0x10_0000, 0x10_2000], &ranges),
            [(0x10_0000, PAGE), (0x10_2000, PAGE)]
        );
        assert_eq!(
            join_pages(&[0x1000], &ranges),
            [],
            "a page outside all ranges is not read"
        );
        let long = [(0, 4 * PIECE)];
        let pages: Vec<u64> = (0..PIECE / PAGE + 1).map(|n| n * PAGE).collect();
        assert_eq!(join_pages(&pages, &long), [(0, PIECE), (PIECE, PAGE)]);
    }
}

//! DMA memory that a device accesses and this process writes: huge pages that are contiguous on the bus, or a range
//! that the machine reserves for the device.

use super::host::Host;
use super::mapping::{HUGE, Mapping, fence};
use super::vfio::DmaMapping;
use super::{Arena, ReplayDeviceError};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::FileExt as _;
use trace_core::recording::{Page, ZERO_PAGE};
use trace_core::{BusAddr, PAGE_SIZE, PhysAddr};

/// Size of the address space of functions with 32 address lines.
const LOW: u64 = 1 << 32;
/// Entries of `/proc/self/pagemap`: the frame bits and the present bit.
const FRAME: u64 = (1 << 55) - 1;
const PRESENT: u64 = 1 << 63;

/// Returns the free huge pages of a machine, bytes.
#[must_use]
pub fn free(host: &Host) -> u64 {
    let free = host.number("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    free.unwrap_or(0).saturating_mul(HUGE)
}

/// Returns the memory available on a machine, bytes, or 0 if its kernel does not report it.
pub(super) fn available(host: &Host) -> u64 {
    let message = host.text("proc/meminfo").unwrap_or_default();
    let line = message.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

/// The memory for plans.
#[derive(Debug)]
pub(super) struct Memory {
    /// The DMA mapping, if an IOMMU contains the device. It must end before the memory does.
    _reached: Option<DmaMapping>,
    base: u64,
    /// Length of each piece but the last, bytes.
    piece: u64,
    pieces: Vec<Mapping>,
    /// Frames that may differ from zero, or `None` if the device may have written memory.
    written: Option<BTreeSet<u64>>,
    last: u64,
    /// Whether memory was written since the last access to a window of the device.
    stored: bool,
    /// Number of memory fences so far.
    #[cfg(test)]
    orders: u64,
}

/// Returns the longest contiguous run among page addresses in any order. A run below 4 GiB is preferred, and the run
/// lies below `limit`. Returns indices, in address order.
pub(super) fn longest_run(places: &[u64], page: u64, limit: u64) -> Vec<usize> {
    let at = |i: usize| places.get(i).copied().unwrap_or(u64::MAX);
    let low = |i: &usize| at(*i).checked_add(page).is_some_and(|end| end <= limit);
    let mut order: Vec<usize> = (0..places.len()).filter(low).collect();
    order.sort_by_key(|i| at(*i));
    let runs = order.chunk_by(|a, b| {
        // A run that starts below 4 GiB ends there.
        at(*a).checked_add(page) == Some(at(*b)) && (at(*a) < LOW) == (at(*b) < LOW)
    });
    let rank = |run: &&[usize]| (run.first().is_some_and(|i| at(*i) < LOW), run.len());
    // Of equal runs the first one is used: it has the lowest address.
    let best = runs.reduce(|a, b| if rank(&b) > rank(&a) { b } else { a });
    best.map(<[usize]>::to_vec).unwrap_or_default()
}

impl Memory {
    /// Returns memory of length zero.
    pub fn none() -> Self {
        Self {
            _reached: None,
            base: 0,
            piece: HUGE,
            pieces: Vec::new(),
            written: Some(BTreeSet::new()),
            last: u64::MAX,
            stored: false,
            #[cfg(test)]
            orders: 0,
        }
    }

    /// Returns one piece of memory at bus addresses from `base`.
    pub fn at_bus_address(base: BusAddr, mapping: Mapping) -> Self {
        Self {
            base: base.get(),
            piece: mapping.bytes().max(1),
            pieces: vec![mapping],
            ..Self::none()
        }
    }

    /// Returns memory that an IOMMU maps for the device.
    pub fn from_dma_mapping(reached: DmaMapping, mapping: Mapping) -> Self {
        let base = reached.at;
        Self {
            _reached: Some(reached),
            ..Self::at_bus_address(base, mapping)
        }
    }

    /// Returns the memory with a description for the user.
    pub fn with_description(self) -> (Self, String) {
        let arena = self.arena();
        let message = format!("{} MiB of memory at {}", arena.pages >> 8, arena.base);
        (self, message)
    }

    /// Allocates free huge pages of this machine: at most `max` bytes, at most one `among`th of them, and below
    /// `limit` if the device's addresses are limited. `Err` holds the reason for the user.
    pub fn from_huge_pages(host: &Host, max: u64, among: u64, limit: Option<u64>) -> Result<Self, String> {
        let free = host.number("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
        let free = free.map_err(|e| format!("this kernel has no huge pages of 2 MiB ({e})"))?;
        let wanted = (max / HUGE).min(free / among.max(1)).min(1 << 20);
        if max == 0 {
            return Err("none was requested".to_owned());
        }
        if wanted == 0 {
            return Err("no huge pages of 2 MiB are free; `sysctl vm.nr_hugepages=32` reserves 64 MiB".to_owned());
        }
        let mut taken: Vec<Mapping> = Vec::new();
        let mut refused = None;
        for _ in 0..wanted {
            match Mapping::map_huge_page() {
                Ok(page) => taken.push(page),
                Err(e) => {
                    refused = Some(e);
                    break;
                }
            }
        }
        let places: io::Result<Vec<u64>> = taken.iter().map(|m| place(host, m.address())).collect();
        let places = places.map_err(|e| {
            format!("the bus addresses of huge pages are not known (/proc/self/pagemap: {e}); run the agent as root")
        })?;
        let run = longest_run(&places, HUGE, limit.unwrap_or(u64::MAX));
        if let (true, false, Some(limit)) = (run.is_empty(), places.is_empty(), limit) {
            return Err(format!(
                "the device's addresses have {} bits, and none of the {} free huge pages lies below {limit:#x}; an \
                 IOMMU removes this limit",
                limit.trailing_zeros(),
                places.len()
            ));
        }
        let base = run.first().and_then(|i| places.get(*i)).copied();
        let Some(base) = base else {
            let why = refused.map_or_else(|| "none was given".to_owned(), |e| e.to_string());
            return Err(format!("no huge page of 2 MiB is available: {why}"));
        };
        let mut taken: Vec<Option<Mapping>> = taken.into_iter().map(Some).collect();
        let pieces = run.iter().filter_map(|i| taken.get_mut(*i)?.take()).collect();
        Ok(Self {
            base,
            piece: HUGE,
            pieces,
            ..Self::none()
        })
    }

    /// Returns the arena of this memory.
    pub fn arena(&self) -> Arena {
        Arena {
            base: PhysAddr::new(self.base),
            pages: self.bytes() / PAGE_SIZE as u64,
        }
    }

    fn bytes(&self) -> u64 {
        self.pieces.iter().map(Mapping::bytes).sum()
    }

    /// Returns the piece and the offset in it.
    #[inline]
    fn find(&self, offset: u64) -> Option<(&Mapping, u64)> {
        let piece = usize::try_from(offset / self.piece).ok()?;
        Some((self.pieces.get(piece)?, offset % self.piece))
    }

    /// Orders earlier stores before the next access to a window.
    #[inline]
    pub fn settle(&mut self) {
        if self.stored {
            self.fence();
        }
    }

    /// Orders earlier stores before everything that follows, and makes earlier device writes visible.
    #[inline]
    pub fn fence(&mut self) {
        fence();
        self.stored = false;
        #[cfg(test)]
        {
            self.orders += 1;
        }
    }

    /// Reads a word, including device writes.
    #[inline]
    pub fn read(&self, offset: u64, width: u8) -> Option<u64> {
        fence();
        let (piece, at) = self.find(offset)?;
        piece.read(at, width)
    }

    /// Orders a store after the earlier ones while the device may read memory: an index after the descriptors that it
    /// publishes. Some processors do not guarantee this order.
    #[inline]
    fn in_order(&mut self) {
        if self.stored && self.written.is_none() {
            self.fence();
        }
        self.stored = true;
    }

    /// Writes a word.
    #[inline]
    pub fn write(&mut self, offset: u64, width: u8, value: u64) -> Option<()> {
        self.in_order();
        let (piece, at) = self.find(offset)?;
        piece.write(at, width, value)?;
        self.note(PhysAddr::new(self.base.saturating_add(offset)).frame());
        Some(())
    }

    fn note(&mut self, frame: u64) {
        if self.last != frame {
            self.last = frame;
            if let Some(written) = &mut self.written {
                written.insert(frame);
            }
        }
    }

    /// Notes that the device may write memory from now on.
    pub fn note_device_writes(&mut self) {
        self.written = None;
    }

    /// Returns the frames that may differ from zero.
    pub fn list_content_frames(&self) -> Option<Vec<u64>> {
        self.written.as_ref().map(|w| w.iter().copied().collect())
    }

    /// Returns the offset of a frame.
    fn offset(&self, frame: u64) -> Result<u64, ReplayDeviceError> {
        let at = frame.checked_mul(PAGE_SIZE as u64).map(PhysAddr::new);
        let at = at.filter(|at| self.arena().contains(*at));
        at.map(|at| at.get() - self.base)
            .ok_or(ReplayDeviceError::OutsideArena { frame })
    }

    /// Stores a page image in a frame.
    pub fn store_page(&mut self, frame: u64, page: &Page) -> Result<(), ReplayDeviceError> {
        self.store(PhysAddr::new(frame.saturating_mul(PAGE_SIZE as u64)), page)
    }

    /// Stores bytes in a frame.
    pub fn store(&mut self, at: PhysAddr, bytes: &[u8]) -> Result<(), ReplayDeviceError> {
        self.in_order();
        let frame = at.frame();
        let offset = self.offset(frame)?.saturating_add(at.in_page() as u64);
        if at.in_page().saturating_add(bytes.len()) > PAGE_SIZE {
            return Err(ReplayDeviceError::OutsideArena {
                frame: frame.saturating_add(1),
            });
        }
        let stored = self.find(offset).and_then(|(piece, at)| piece.store(at, bytes));
        self.note(frame);
        stored.ok_or(ReplayDeviceError::OutsideArena { frame })
    }

    /// Loads the image of a frame, including device writes.
    pub fn load(&self, frame: u64, page: &mut Page) -> Result<(), ReplayDeviceError> {
        fence();
        let offset = self.offset(frame)?;
        let loaded = self.find(offset).and_then(|(piece, at)| piece.load(at, page));
        loaded.ok_or(ReplayDeviceError::OutsideArena { frame })
    }

    /// Clears all of the memory.
    pub fn clear(&mut self) -> Result<(), ReplayDeviceError> {
        let first = PhysAddr::new(self.base).frame();
        let all = first..first.saturating_add(self.arena().pages);
        let frames: Vec<u64> = match self.written.take() {
            Some(written) => written.into_iter().collect(),
            None => all.collect(),
        };
        self.written = Some(BTreeSet::new());
        for frame in frames {
            self.store_page(frame, &ZERO_PAGE)?;
        }
        self.written = Some(BTreeSet::new());
        self.last = u64::MAX;
        Ok(())
    }
}

/// Returns the bus address of a page of this process.
fn place(host: &Host, address: u64) -> io::Result<u64> {
    let file = host.open("proc/self/pagemap", false).map_err(|e| e.source)?;
    let mut entry = [0; 8];
    file.read_exact_at(&mut entry, address / PAGE_SIZE as u64 * 8)?;
    let entry = u64::from_le_bytes(entry);
    let frame = entry & FRAME;
    // Without privileges, the kernel reports frame 0.
    if entry & PRESENT == 0 || frame == 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(frame * PAGE_SIZE as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_run_below_4_gib_is_used_in_address_order() {
        let page = |n: u64| n * HUGE;
        assert_eq!(
            longest_run(&[page(7), page(3), page(5), page(4), page(9)], HUGE, u64::MAX),
            [1, 3, 2]
        );
        let high: Vec<u64> = (0..4).map(|n| LOW + page(n)).collect();
        let mut addresses = high.clone();
        addresses.push(page(9));
        assert_eq!(longest_run(&addresses, HUGE, u64::MAX), [4]);
        assert_eq!(longest_run(&high, HUGE, u64::MAX), [0, 1, 2, 3]);
        assert_eq!(longest_run(&[LOW - HUGE, LOW], HUGE, u64::MAX), [0]);
        // The whole page must be below the limit.
        assert_eq!(longest_run(&[page(1), page(2), page(3)], HUGE, page(3)), [0, 1]);
        assert!(longest_run(&[page(1)], HUGE, page(2) - 1).is_empty());
        assert_eq!(longest_run(&[u64::MAX, 0], HUGE, u64::MAX), [1]);
        assert!(longest_run(&[], HUGE, u64::MAX).is_empty());
    }

    #[test]
    fn stores_are_ordered_if_the_device_may_read_them() {
        let mut m = Memory::at_bus_address(
            BusAddr::new(0x10_0000),
            Mapping::map_anonymous(4 * PAGE_SIZE as u64).unwrap(),
        );
        let stores = |m: &mut Memory| {
            let before = m.orders;
            m.write(0x1000, 8, 1).unwrap();
            m.store(PhysAddr::new(0x10_1100), &[1; 16]).unwrap();
            m.write(0x1002, 2, 1).unwrap();
            m.orders - before
        };
        // The device does not run while the plan's pages are stored.
        assert_eq!(stores(&mut m), 0);
        m.fence();
        m.note_device_writes();
        assert_eq!(stores(&mut m), 2);
        m.fence();
        m.clear().unwrap();
        assert_eq!(stores(&mut m), 0);
    }

    #[test]
    fn device_memory_is_accessed_in_bounds_and_cleared() {
        let mut m = Memory::at_bus_address(
            BusAddr::new(0x10_0000),
            Mapping::map_anonymous(4 * PAGE_SIZE as u64).unwrap(),
        );
        assert_eq!((m.arena().base, m.arena().pages), (PhysAddr::new(0x10_0000), 4));
        m.write(0x1008, 8, 0x1122_3344_5566_7788).unwrap();
        m.store(PhysAddr::new(0x10_2ffc), &[1, 2, 3, 4]).unwrap();
        assert_eq!(m.list_content_frames(), Some(vec![0x101, 0x102]));
        let mut page = ZERO_PAGE;
        m.load(0x101, &mut page).unwrap();
        assert_eq!(page[8..10], [0x88, 0x77]);
        assert!(m.store(PhysAddr::new(0x10_2ffc), &[0; 5]).is_err());
        assert!(m.store(PhysAddr::new(0x10_4000), &[0]).is_err());
        assert!(m.load(0xff, &mut page).is_err());
        assert_eq!((m.read(0x4000, 1), m.write(u64::MAX, 8, 0)), (None, None));
        m.note_device_writes();
        assert_eq!(m.list_content_frames(), None);
        m.clear().unwrap();
        assert_eq!((m.read(0x1008, 8), m.list_content_frames()), (Some(0), Some(vec![])));
        assert_eq!(Memory::none().arena().pages, 0);
        assert!(Memory::none().read(0, 4).is_none());
    }
}

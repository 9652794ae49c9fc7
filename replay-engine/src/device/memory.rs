//! Memory that a device may reach, and this process writes: huge pages that lie one behind the other on the bus, or a
//! piece that the machine keeps for the device.

use super::host::Host;
use super::mapping::{HUGE, Mapping, fence};
use super::vfio::DmaMapping;
use super::{Arena, BoardError};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::FileExt as _;
use trace_core::recording::{Page, ZERO_PAGE};
use trace_core::{PAGE_SIZE, PhysAddr};

/// What functions with 32 address lines reach.
const LOW: u64 = 1 << 32;
/// Entries of `/proc/self/pagemap`: bits of the frame, and whether there is one.
const FRAME: u64 = (1 << 55) - 1;
const PRESENT: u64 = 1 << 63;

/// Bytes of huge pages that a machine has free.
#[must_use]
pub fn free(host: &Host) -> u64 {
    let free = host.number("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    free.unwrap_or(0).saturating_mul(HUGE)
}

/// Bytes of memory that a machine can spare now; none where its kernel does not tell.
pub(super) fn available(host: &Host) -> u64 {
    let message = host.text("proc/meminfo").unwrap_or_default();
    let line = message.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

/// Memory for plans.
#[derive(Debug)]
pub(super) struct Memory {
    /// That the device reaches it, where an IOMMU keeps it from all other memory; ends before the memory does.
    _reached: Option<DmaMapping>,
    base: u64,
    /// Bytes of each piece but the last.
    piece: u64,
    pieces: Vec<Mapping>,
    /// Frames that may differ from zero; `None` when the device may have written by itself.
    written: Option<BTreeSet<u64>>,
    last: u64,
    /// Whether it was written since the latest access to a window of the device.
    stored: bool,
    /// How often order was made.
    #[cfg(test)]
    orders: u64,
}

/// The longest run of pages that lie one behind the other, of the places of pages in any order; below 4 GiB where one
/// is there, and all of it below `limit`. Gives indices, in the order of their places.
pub(super) fn longest_run(places: &[u64], page: u64, limit: u64) -> Vec<usize> {
    let at = |i: usize| places.get(i).copied().unwrap_or(u64::MAX);
    let low = |i: &usize| at(*i).checked_add(page).is_some_and(|end| end <= limit);
    let mut order: Vec<usize> = (0..places.len()).filter(low).collect();
    order.sort_by_key(|i| at(*i));
    let runs = order.chunk_by(|a, b| {
        // A run that begins below 4 GiB ends there.
        at(*a).checked_add(page) == Some(at(*b)) && (at(*a) < LOW) == (at(*b) < LOW)
    });
    let rank = |run: &&[usize]| (run.first().is_some_and(|i| at(*i) < LOW), run.len());
    // Of equals the first: the lower.
    let best = runs.reduce(|a, b| if rank(&b) > rank(&a) { b } else { a });
    best.map(<[usize]>::to_vec).unwrap_or_default()
}

impl Memory {
    /// None.
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

    /// Memory at addresses of the bus from `base` on, in one piece.
    pub fn at_bus_address(base: u64, mapping: Mapping) -> Self {
        Self {
            base,
            piece: mapping.bytes().max(1),
            pieces: vec![mapping],
            ..Self::none()
        }
    }

    /// Memory that an IOMMU lets the device reach.
    pub fn from_dma_mapping(reached: DmaMapping, mapping: Mapping) -> Self {
        let base = reached.at;
        Self {
            _reached: Some(reached),
            ..Self::at_bus_address(base, mapping)
        }
    }

    /// The memory, and what there is of it in words for a person.
    pub fn with_description(self) -> (Self, String) {
        let arena = self.arena();
        let message = format!("{} MiB of memory at {}", arena.pages >> 8, arena.base);
        (self, message)
    }

    /// Huge pages that are free on this machine, `most` bytes at most, and one `among`th of them at most, below `limit`
    /// where the device's addresses go no further. `Err` says, for a person, why there are none.
    pub fn from_huge_pages(host: &Host, most: u64, among: u64, limit: Option<u64>) -> Result<Self, String> {
        let free = host.number("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
        let free = free.map_err(|e| format!("this kernel has no huge pages of 2 MiB ({e})"))?;
        let wanted = (most / HUGE).min(free / among.max(1)).min(1 << 20);
        if most == 0 {
            return Err("none was asked for".to_owned());
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
            format!(
                "where huge pages lie on the bus cannot be told (/proc/self/pagemap: {e}); the agent needs to be root"
            )
        })?;
        let run = longest_run(&places, HUGE, limit.unwrap_or(u64::MAX));
        if let (true, false, Some(limit)) = (run.is_empty(), places.is_empty(), limit) {
            return Err(format!(
                "the device's addresses have {} bits, and none of the {} huge pages that are free lies below {limit:#x}; \
                 behind an IOMMU that would not matter",
                limit.trailing_zeros(),
                places.len()
            ));
        }
        let base = run.first().and_then(|i| places.get(*i)).copied();
        let Some(base) = base else {
            let why = refused.map_or_else(|| "none was given".to_owned(), |e| e.to_string());
            return Err(format!("no huge page of 2 MiB could be had: {why}"));
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

    /// Where it is.
    pub fn arena(&self) -> Arena {
        Arena {
            base: PhysAddr(self.base),
            pages: self.bytes() / PAGE_SIZE as u64,
        }
    }

    fn bytes(&self) -> u64 {
        self.pieces.iter().map(Mapping::bytes).sum()
    }

    /// The piece and the offset in it.
    #[inline]
    fn find(&self, offset: u64) -> Option<(&Mapping, u64)> {
        let piece = usize::try_from(offset / self.piece).ok()?;
        Some((self.pieces.get(piece)?, offset % self.piece))
    }

    /// Makes what was stored come before the access to a window that follows.
    #[inline]
    pub fn settle(&mut self) {
        if self.stored {
            self.fence();
        }
    }

    /// Makes what was stored come before everything that follows, and what the device did before it seen.
    #[inline]
    pub fn fence(&mut self) {
        fence();
        self.stored = false;
        #[cfg(test)]
        {
            self.orders += 1;
        }
    }

    /// Reads a word, as the device left it.
    #[inline]
    pub fn read(&self, offset: u64, width: u8) -> Option<u64> {
        fence();
        let (piece, at) = self.find(offset)?;
        piece.read(at, width)
    }

    /// Makes a store come behind those before it, where the device may be looking: an index behind the descriptors that
    /// it leads to. The processor alone keeps no such order everywhere.
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
        self.note(PhysAddr(self.base.saturating_add(offset)).frame());
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

    /// The device may write by itself from now on.
    pub fn note_device_writes(&mut self) {
        self.written = None;
    }

    /// Frames that may differ from zero.
    pub fn list_content_frames(&self) -> Option<Vec<u64>> {
        self.written.as_ref().map(|w| w.iter().copied().collect())
    }

    /// Offset of a frame.
    fn offset(&self, frame: u64) -> Result<u64, BoardError> {
        let at = frame.checked_mul(PAGE_SIZE as u64).map(PhysAddr);
        let at = at.filter(|at| self.arena().contains(*at));
        at.map(|at| at.0 - self.base).ok_or(BoardError::OutsideArena { frame })
    }

    /// Puts an image into a frame.
    pub fn store_page(&mut self, frame: u64, page: &Page) -> Result<(), BoardError> {
        self.store(PhysAddr(frame.saturating_mul(PAGE_SIZE as u64)), page)
    }

    /// Puts bytes into a frame.
    pub fn store(&mut self, at: PhysAddr, bytes: &[u8]) -> Result<(), BoardError> {
        self.in_order();
        let frame = at.frame();
        let offset = self.offset(frame)?.saturating_add(at.in_page() as u64);
        if at.in_page().saturating_add(bytes.len()) > PAGE_SIZE {
            return Err(BoardError::OutsideArena {
                frame: frame.saturating_add(1),
            });
        }
        let stored = self.find(offset).and_then(|(piece, at)| piece.store(at, bytes));
        self.note(frame);
        stored.ok_or(BoardError::OutsideArena { frame })
    }

    /// The image in a frame, as the device left it.
    pub fn load(&self, frame: u64, page: &mut Page) -> Result<(), BoardError> {
        fence();
        let offset = self.offset(frame)?;
        let loaded = self.find(offset).and_then(|(piece, at)| piece.load(at, page));
        loaded.ok_or(BoardError::OutsideArena { frame })
    }

    /// Makes all of it zero.
    pub fn clear(&mut self) -> Result<(), BoardError> {
        let first = PhysAddr(self.base).frame();
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

/// Where a page of this process lies on the bus.
fn place(host: &Host, address: u64) -> io::Result<u64> {
    let file = host.open("proc/self/pagemap", false).map_err(|e| e.source)?;
    let mut entry = [0; 8];
    file.read_exact_at(&mut entry, address / PAGE_SIZE as u64 * 8)?;
    let entry = u64::from_le_bytes(entry);
    let frame = entry & FRAME;
    // Without the right to know, the kernel tells frame 0.
    if entry & PRESENT == 0 || frame == 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(frame * PAGE_SIZE as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_run_below_4_gib_is_taken_in_the_order_of_its_places() {
        let page = |n: u64| n * HUGE;
        assert_eq!(
            longest_run(&[page(7), page(3), page(5), page(4), page(9)], HUGE, u64::MAX),
            [1, 3, 2]
        );
        let high: Vec<u64> = (0..4).map(|n| LOW + page(n)).collect();
        let mut places = high.clone();
        places.push(page(9));
        assert_eq!(longest_run(&places, HUGE, u64::MAX), [4]);
        assert_eq!(longest_run(&high, HUGE, u64::MAX), [0, 1, 2, 3]);
        assert_eq!(longest_run(&[LOW - HUGE, LOW], HUGE, u64::MAX), [0]);
        // All of a page has to be below the limit.
        assert_eq!(longest_run(&[page(1), page(2), page(3)], HUGE, page(3)), [0, 1]);
        assert!(longest_run(&[page(1)], HUGE, page(2) - 1).is_empty());
        assert_eq!(longest_run(&[u64::MAX, 0], HUGE, u64::MAX), [1]);
        assert!(longest_run(&[], HUGE, u64::MAX).is_empty());
    }

    #[test]
    fn each_store_comes_behind_the_one_before_where_a_device_may_look() {
        let mut m = Memory::at_bus_address(0x10_0000, Mapping::map_anonymous(4 * PAGE_SIZE as u64).unwrap());
        let stores = |m: &mut Memory| {
            let before = m.orders;
            m.write(0x1000, 8, 1).unwrap();
            m.store(PhysAddr(0x10_1100), &[1; 16]).unwrap();
            m.write(0x1002, 2, 1).unwrap();
            m.orders - before
        };
        // Nothing looks while the plan's pages are put in place.
        assert_eq!(stores(&mut m), 0);
        m.fence();
        m.note_device_writes();
        assert_eq!(stores(&mut m), 2);
        m.fence();
        m.clear().unwrap();
        assert_eq!(stores(&mut m), 0);
    }

    #[test]
    fn memory_is_read_and_written_within_it_and_cleared() {
        let mut m = Memory::at_bus_address(0x10_0000, Mapping::map_anonymous(4 * PAGE_SIZE as u64).unwrap());
        assert_eq!((m.arena().base, m.arena().pages), (PhysAddr(0x10_0000), 4));
        m.write(0x1008, 8, 0x1122_3344_5566_7788).unwrap();
        m.store(PhysAddr(0x10_2ffc), &[1, 2, 3, 4]).unwrap();
        assert_eq!(m.list_content_frames(), Some(vec![0x101, 0x102]));
        let mut page = ZERO_PAGE;
        m.load(0x101, &mut page).unwrap();
        assert_eq!(page[8..10], [0x88, 0x77]);
        assert!(m.store(PhysAddr(0x10_2ffc), &[0; 5]).is_err());
        assert!(m.store(PhysAddr(0x10_4000), &[0]).is_err());
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

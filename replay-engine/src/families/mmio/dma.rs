//! Memory of a recorded device with DMA: its recorded contents, and its location in the arena.

use crate::device::Arena;
use crate::plan::bus::{BusError, DeviceMemory, DmaRelocator, MemoryChange, Ranges, is_within};
use crate::plan::relocate::CpuMemory;
use crate::plan::{CompileError, PageImages, PlanPage};
use replay_core::Action;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use trace_core::recording::{Digest, DmaMapRow, FrameRole, HostWriteRow, Page, PageId, ZERO_PAGE, zero_digest};
use trace_core::registers::RegisterMap;
use trace_core::{BusAddr, PAGE_SIZE, Recording};

const PAGE: u64 = PAGE_SIZE as u64;
/// Maximum size of a change that is encoded as a value, bytes.
const VALUE_BYTES: u64 = 8;

/// Recorded memory, as the CPU left it.
struct RecordedMemory<'a> {
    cpu: CpuMemory<'a>,
    /// Start and end of each run of frames.
    runs: BTreeMap<BusAddr, BusAddr>,
}

impl DeviceMemory for RecordedMemory<'_> {
    fn page(&self, frame: u64) -> Option<&Page> {
        self.holds(BusAddr::from_page(frame)?, 1)
            .then(|| self.cpu.frame(frame).unwrap_or(&ZERO_PAGE))
    }

    fn holds(&self, at: BusAddr, bytes: u64) -> bool {
        let run = self.runs.range(..=at).next_back();
        run.is_some_and(|(start, end)| is_within(&(*start..*end), at, bytes))
    }
}

/// The relocation of a recording's memory into the arena.
pub(super) struct Dma<'a> {
    recording: &'a Recording,
    recorded: RecordedMemory<'a>,
    pub mover: DmaRelocator<'a>,
    /// Runs of frames, with their offset in the arena, bytes.
    pub runs: Vec<(Range<BusAddr>, u64)>,
    images: Vec<Digest>,
    by_image: HashMap<Digest, u32>,
    by_digest: PageImages,
    first_frame: u64,
}

/// The pages that a plan takes from it.
pub(super) struct DmaPages {
    pub pages: Vec<PlanPage>,
    pub used_pages: u64,
    pub images: Vec<Digest>,
    pub by_digest: PageImages,
}

/// Returns all frames with recorded contents, as byte ranges.
fn frames(recording: &Recording) -> Ranges {
    let mut all = Ranges::default();
    // Such a device has no page tables: its addresses are those of the frames.
    let bytes = |frame: u64| BusAddr::new(frame.saturating_mul(PAGE));
    for run in recording.memory.snapshots.iter().flat_map(|s| &s.runs) {
        all.add(bytes(run.first_frame)..bytes(run.first_frame.saturating_add(run.count.into())));
    }
    for row in recording.events.host_writes.iter() {
        all.add(bytes(row.frame())..bytes(row.frame().saturating_add(1)));
    }
    for row in recording.events.dma_maps.iter().filter(|r| r.bus != DmaMapRow::UNKNOWN) {
        let end = row.bus.saturating_add(row.bytes).get().div_ceil(PAGE);
        all.add(bytes(row.bus.page())..bytes(end));
    }
    all
}

impl<'a> Dma<'a> {
    /// Places the recording's memory. Returns `None` if the recording has none. Also returns `None` if the recording
    /// lacks its contents and the map does not describe the device's DMA.
    pub fn new(
        recording: &'a Recording,
        map: &'a RegisterMap,
        arena: Arena,
        limit_ns: u64,
    ) -> Result<Option<Self>, CompileError> {
        let held = recording.memory.snapshots.iter().any(|s| !s.runs.is_empty());
        let contents = held || !recording.events.host_writes.is_empty();
        if !contents {
            return Ok(None);
        }
        let first_write = (0..recording.events.len()).find(|e| recording.events.host_write(*e).is_some());
        if map.bus_master().is_none() && first_write.is_none() {
            return Ok(None);
        }
        let (mut runs, mut to) = (Vec::new(), 0u64);
        for range in frames(recording).iter() {
            let bytes = range.end - range.start;
            runs.push((range, to));
            to = to.saturating_add(bytes);
        }
        if to.div_ceil(PAGE) > arena.pages {
            return Err(CompileError::ArenaTooSmall { pages: arena.pages });
        }
        let refused = |BusError(why)| CompileError::BusMastering {
            event: first_write.unwrap_or(0) as u64,
            why,
        };
        let mover = DmaRelocator::new(map, runs.iter().cloned(), arena.bus_base(), limit_ns).map_err(refused)?;
        Ok(Some(Self {
            recording,
            recorded: RecordedMemory {
                cpu: CpuMemory::new(recording),
                runs: runs.iter().map(|(r, _)| (r.start, r.end)).collect(),
            },
            mover,
            runs,
            images: Vec::new(),
            by_image: HashMap::new(),
            by_digest: PageImages::new(),
            first_frame: arena.base.frame(),
        }))
    }

    /// Processes a register write at an event.
    pub fn write(&mut self, event: u32, offset: u64, width: u8, value: u64) -> Result<(), BusError> {
        self.mover.write(event, offset, width, value, &self.recorded)
    }

    /// Processes the host writes from event `at` on, which were observed together. Returns the event after them.
    pub fn host_writes(&mut self, at: usize) -> Result<usize, CompileError> {
        let mut rows = Vec::new();
        while let Some(row) = self.recording.events.host_write(at + rows.len()) {
            rows.push(row);
        }
        let first = u32::try_from(at).unwrap_or(u32::MAX);
        for (i, row) in rows.iter().enumerate() {
            let failed = CompileError::HostWrite { event: (at + i) as u64 };
            self.recorded.cpu.write(row).ok_or(failed)?;
        }
        let apart = self.mover.indices();
        let mut pieces = Vec::new();
        for row in &rows {
            let start = BusAddr::new(row.at.get());
            let end = start.saturating_add(row.bytes.into());
            let mut cuts = vec![start, end];
            cuts.extend(
                apart
                    .iter()
                    .flat_map(|r| [r.start, r.end])
                    .filter(|c| start < *c && *c < end),
            );
            cuts.sort_unstable();
            cuts.dedup();
            for (from, to) in cuts.iter().zip(cuts.iter().skip(1)) {
                pieces.push(self.piece(first, row, *from..*to)?);
            }
        }
        let refused = |BusError(why)| CompileError::BusMastering { event: at as u64, why };
        self.mover.change(first, pieces, &self.recorded).map_err(refused)?;
        Ok(at + rows.len())
    }

    fn piece(&mut self, event: u32, row: &HostWriteRow, range: Range<BusAddr>) -> Result<MemoryChange, CompileError> {
        let missing = CompileError::HostWrite { event: event.into() };
        let store = &self.recording.memory.pages;
        let (Some(page), Some(digest), Some(offset)) = (
            store.page(PageId(row.page)),
            store.digest(PageId(row.page)),
            self.mover.offset(range.start),
        ) else {
            return Err(missing);
        };
        let bytes = range.end - range.start;
        let from = range.start.in_page();
        let action = if bytes.is_power_of_two() && bytes <= VALUE_BYTES && range.start.is_aligned(bytes) {
            let all = page.get(from..from + bytes as usize).ok_or(missing)?;
            Action::Put {
                event,
                offset,
                width: bytes as u8,
                value: all.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b)),
            }
        } else {
            Action::Copy {
                event,
                offset,
                bytes: bytes as u32,
                image: self.image(digest, page)?,
            }
        };
        Ok(MemoryChange {
            at: range.start,
            bytes,
            action,
        })
    }

    fn image(&mut self, digest: Digest, page: &Page) -> Result<u32, CompileError> {
        if let Some(number) = self.by_image.get(&digest) {
            return Ok(*number);
        }
        let number = u32::try_from(self.images.len()).map_err(|_| CompileError::TooManyImages)?;
        self.images.push(digest);
        self.by_image.insert(digest, number);
        if digest != zero_digest() {
            self.by_digest.entry(digest).or_insert_with(|| (*page).into());
        }
        Ok(number)
    }

    /// Returns the initial pages of memory, and the images.
    pub fn place(mut self) -> DmaPages {
        let start = self.recording.memory.at(0);
        let (mut pages, mut used_pages) = (Vec::new(), 0);
        for (range, to) in &self.runs {
            let count = (range.end - range.start) / PAGE;
            used_pages = to / PAGE + count;
            for n in 0..count {
                let Some(id) = start.page_id(range.start.page() + n).filter(|id| *id != PageId::ZERO) else {
                    continue;
                };
                let store = &self.recording.memory.pages;
                if let (Some(page), Some(digest)) = (store.page(id), store.digest(id)) {
                    self.by_digest.entry(digest).or_insert_with(|| (*page).into());
                    pages.push(PlanPage {
                        frame: self.first_frame.saturating_add(to / PAGE + n),
                        digest,
                        role: FrameRole::Data,
                    });
                }
            }
        }
        DmaPages {
            pages,
            used_pages,
            images: self.images,
            by_digest: self.by_digest,
        }
    }
}

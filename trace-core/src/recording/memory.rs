//! Page images by content, and snapshots that give the page of each frame at an event.

use super::column::Column;
use super::damage::{Damage, DamagedBlock};
use super::page_runs::{FrameRole, PageId, PageRun, RunsBuilder, overlay};
use super::section_check::BLOCK_BYTES;
use super::section_kind::SectionKind;
use super::shared_bytes::SharedBytes;
use super::shared_page::SharedPage;
use crate::progress::{Cancelled, Progress};
use crate::{PAGE_SIZE, PhysAddr};
use rayon::prelude::{
    IndexedParallelIterator as _, IntoParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _,
};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

/// Number of images that a processor hashes at a time: a MiB.
const IMAGES_PER_TASK: usize = (1 << 20) / PAGE_SIZE;

/// A page image.
pub type Page = [u8; PAGE_SIZE];

/// The page of zeros.
pub static ZERO_PAGE: Page = [0; PAGE_SIZE];

/// BLAKE3 digest of a page image.
pub type Digest = [u8; 32];

/// Page images, each stored once. Id 0 is the page of zeros.
#[derive(Clone, Default)]
pub struct PageStore {
    inner: Arc<Pages>,
}

#[derive(Default)]
struct Pages {
    /// Digest of page `i + 1`.
    digests: Column<Digest>,
    data: PageData,
}

/// A page image that does not match the digest in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedPage {
    /// First byte of the image in the file.
    pub byte: u64,
    /// The digest in the file.
    pub digest: Digest,
}

/// Contiguous page images in shared bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageRun {
    /// Number of images.
    pub pages: u64,
    /// First byte of the first image.
    pub start: u64,
}

enum PageData {
    Owned(Vec<SharedPage>),
    /// Runs with the index of their first page, by that index.
    Mapped {
        bytes: Arc<dyn SharedBytes>,
        runs: Vec<(u64, ImageRun)>,
        /// Verification of images at first use, for images of a file.
        check: Option<ImageCheck>,
    },
}

/// The verification state of a file's images.
struct ImageCheck {
    damage: Damage,
    /// Whether the file's sections are in blocks.
    blocks: bool,
    /// State per image: 0 unknown, 1 valid, 2 damaged.
    states: OnceLock<Box<[AtomicU8]>>,
}

impl Default for PageData {
    fn default() -> Self {
        Self::Owned(Vec::new())
    }
}

impl std::fmt::Debug for PageStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PageStore({} pages)", self.inner.digests.len())
    }
}

impl PageStore {
    /// Creates a store over mapped bytes: page `i + 1` has `digests[i]` and is at byte `offsets[i]`. Returns `None` if
    /// the two lists differ in length or a page would reach past the end.
    #[must_use]
    pub fn mapped(bytes: Arc<dyn SharedBytes>, digests: Vec<Digest>, offsets: Vec<u64>) -> Option<Self> {
        let runs = offsets.into_iter().map(|start| ImageRun { pages: 1, start }).collect();
        Self::mapped_runs(bytes, digests.into(), runs)
    }

    /// Creates a store over runs of images in mapped bytes, in the order of their ids from 1 on. Costs nothing per
    /// page. Returns `None` if the numbers of images and digests differ, or a run would reach past the end.
    #[must_use]
    pub fn mapped_runs(bytes: Arc<dyn SharedBytes>, digests: Column<Digest>, runs: Vec<ImageRun>) -> Option<Self> {
        Self::lend(bytes, digests, runs, None)
    }

    /// Same as [`PageStore::mapped_runs`], for images of a file with sections in blocks or not: each is verified
    /// against its digest at first use.
    pub(crate) fn checked_runs(
        bytes: Arc<dyn SharedBytes>,
        digests: Column<Digest>,
        runs: Vec<ImageRun>,
        damage: Damage,
        blocks: bool,
    ) -> Option<Self> {
        let check = ImageCheck {
            damage,
            blocks,
            states: OnceLock::new(),
        };
        Self::lend(bytes, digests, runs, Some(check))
    }

    fn lend(
        bytes: Arc<dyn SharedBytes>,
        digests: Column<Digest>,
        runs: Vec<ImageRun>,
        check: Option<ImageCheck>,
    ) -> Option<Self> {
        let end = bytes.len() as u64;
        let mut first = 0u64;
        let mut placed = Vec::with_capacity(runs.len());
        for run in runs {
            let size = run.pages.checked_mul(PAGE_SIZE as u64)?;
            run.start.checked_add(size).filter(|e| *e <= end)?;
            placed.push((first, run));
            first = first.checked_add(run.pages)?;
        }
        if digests.len() as u64 != first {
            return None;
        }
        Some(Self {
            inner: Arc::new(Pages {
                digests,
                data: PageData::Mapped {
                    bytes,
                    runs: placed,
                    check,
                },
            }),
        })
    }

    /// Returns the number of stored page images, without the page of zeros.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.digests.len()
    }

    /// Whether no page is stored besides the page of zeros.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the image of a page, or `None` for an unknown id or a damaged image. An image of a file is verified
    /// against its digest at first use.
    #[must_use]
    pub fn page(&self, id: PageId) -> Option<&Page> {
        if id == PageId::ZERO {
            return Some(&ZERO_PAGE);
        }
        let at = id.0 as usize - 1;
        match &self.inner.data {
            PageData::Owned(v) => v.get(at).map(|p| &**p),
            PageData::Mapped { check: None, .. } => self.inner.image(at).map(|(_, page)| page),
            PageData::Mapped { check: Some(check), .. } => self.inner.checked(at, check),
        }
    }

    /// Returns the image of a page for longer than the store, like [`Self::page`].
    #[must_use]
    pub fn shared_page(&self, id: PageId) -> Option<SharedPage> {
        let Some(at) = (id.0 as usize).checked_sub(1) else {
            return Some(ZERO_PAGE.into());
        };
        match &self.inner.data {
            PageData::Owned(pages) => pages.get(at).cloned(),
            PageData::Mapped { bytes, check, .. } => {
                let image = match check {
                    None => self.inner.image(at),
                    Some(check) => self.inner.checked_at(at, check),
                };
                SharedPage::in_bytes(bytes, usize::try_from(image?.0).ok()?)
            }
        }
    }

    /// Returns images for longer than the store, like [`Self::shared_page`]. All processors verify them.
    #[must_use]
    pub fn shared_pages(&self, ids: &[PageId]) -> Vec<Option<SharedPage>> {
        let verified = ids.par_iter().with_min_len(IMAGES_PER_TASK);
        verified.for_each(|id| _ = self.page(*id));
        ids.iter().map(|id| self.shared_page(*id)).collect()
    }

    /// Returns the stored images in the order of their ids, from 1 on.
    pub fn iter(&self) -> impl Iterator<Item = &Page> {
        (1..).map_while(|id| self.page(PageId(id)))
    }

    /// Returns the digest of a page, or `None` for an id that the store does not have.
    #[must_use]
    pub fn digest(&self, id: PageId) -> Option<Digest> {
        if id == PageId::ZERO {
            return Some(zero_digest());
        }
        self.inner.digests.get(id.0 as usize - 1)
    }

    /// Returns the first image that does not match its digest. Verifies all images of a file that were not verified
    /// before; images built by this program have the digest that it computed.
    ///
    /// # Errors
    ///
    /// When the work was cancelled.
    pub fn damaged(&self, progress: &Progress) -> Result<Option<DamagedPage>, Cancelled> {
        let PageData::Mapped { check: Some(check), .. } = &self.inner.data else {
            return Ok(None);
        };
        if self.len() > IMAGES_PER_TASK {
            // All processors hash. Damage is noted afterwards, in the order of the ids.
            let tasks = 0..self.len().div_ceil(IMAGES_PER_TASK);
            tasks.into_par_iter().try_for_each(|task| {
                progress.check()?;
                let images = (0..self.len()).skip(task * IMAGES_PER_TASK).take(IMAGES_PER_TASK);
                images.for_each(|at| self.inner.note_if_sound(at, check));
                Ok(())
            })?;
        }
        let mut first = None;
        for at in 0..self.len() {
            if at % 256 == 0 {
                progress.check()?;
            }
            if self.inner.checked(at, check).is_none() && first.is_none() {
                let (byte, _) = self.inner.image(at).unwrap_or((0, &ZERO_PAGE));
                let digest = self.inner.digests.get(at).unwrap_or_default();
                first = Some(DamagedPage { byte, digest });
            }
        }
        Ok(first)
    }
}

impl Pages {
    /// Returns an image in shared bytes, and its first byte.
    fn image(&self, at: usize) -> Option<(u64, &Page)> {
        let PageData::Mapped { bytes, runs, .. } = &self.data else {
            return None;
        };
        let at = at as u64;
        let (first, run) = runs.get(runs.partition_point(|(first, _)| *first <= at).checked_sub(1)?)?;
        let index = at.checked_sub(*first).filter(|i| *i < run.pages)?;
        // In range: the whole run was compared with the length at construction.
        let start = run.start + index * PAGE_SIZE as u64;
        let image = bytes.slice(start as usize..start as usize + PAGE_SIZE)?;
        Some((start, image.try_into().ok()?))
    }

    /// Notes that an image of a file matches its digest, if it does and that is not known.
    fn note_if_sound(&self, at: usize, check: &ImageCheck) {
        let Some((_, image)) = self.image(at) else { return };
        if let Some(state) = self.state(at, check)
            && state.load(Ordering::Relaxed) == 0
            && self.digests.get(at) == Some(*blake3::hash(image).as_bytes())
        {
            state.store(1, Ordering::Relaxed);
        }
    }

    /// Returns what is known about an image: 0 for nothing, 1 if it matches its digest, 2 if it does not.
    fn state<'c>(&self, at: usize, check: &'c ImageCheck) -> Option<&'c AtomicU8> {
        let make = || (0..self.digests.len()).map(|_| AtomicU8::new(0)).collect();
        check.states.get_or_init(make).get(at)
    }

    /// Returns an image of a file, if it matches its digest.
    fn checked(&self, at: usize, check: &ImageCheck) -> Option<&Page> {
        self.checked_at(at, check).map(|(_, image)| image)
    }

    /// Returns an image of a file, like [`Self::checked`], and its first byte.
    fn checked_at(&self, at: usize, check: &ImageCheck) -> Option<(u64, &Page)> {
        let (byte, image) = self.image(at)?;
        let state = self.state(at, check)?;
        // No other memory depends on the state, and all threads compute the same value.
        match state.load(Ordering::Relaxed) {
            1 => return Some((byte, image)),
            2 => return None,
            _ => {}
        }
        if self.digests.get(at) == Some(*blake3::hash(image).as_bytes()) {
            state.store(1, Ordering::Relaxed);
            return Some((byte, image));
        }
        state.store(2, Ordering::Relaxed);
        let PageData::Mapped { runs, .. } = &self.data else {
            return None;
        };
        let run = runs.iter().rev().find(|(first, _)| *first <= at as u64);
        let start = run.map_or(0, |(_, run)| run.start);
        let id = at as u64 + 1;
        check.damage.add(DamagedBlock {
            kind: SectionKind::PageImages,
            name: None,
            block: check.blocks.then(|| (byte - start) / BLOCK_BYTES as u64),
            bytes: byte..byte + PAGE_SIZE as u64,
            rows: at as u64..id,
            reason: Some(format!("page {id} does not agree with its digest")),
        });
        None
    }
}

/// Returns the BLAKE3 digest of the page of zeros.
#[must_use]
pub fn zero_digest() -> Digest {
    static DIGEST: OnceLock<Digest> = OnceLock::new();
    *DIGEST.get_or_init(|| *blake3::hash(&ZERO_PAGE).as_bytes())
}

/// The page of each physical frame from an event on: the runs that differ from the parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The state holds before this event (0: at the start; the number of events: at the end).
    pub event: u64,
    /// Index of the base snapshot; `None` for a full one.
    pub parent: Option<u32>,
    /// Sorted by frame, not overlapping.
    pub runs: Vec<PageRun>,
}

/// Maximum number of parents on the way to a full snapshot.
pub const MAX_PARENTS: usize = 64;

/// The memory of a recording.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Page images.
    pub pages: PageStore,
    /// Snapshots, sorted by event; parents come before their children.
    pub snapshots: Arc<Vec<Snapshot>>,
}

/// Memory as it was at one event.
#[derive(Clone, Copy, Debug)]
pub struct MemoryView<'a> {
    memory: &'a Memory,
    snapshot: Option<usize>,
}

impl Memory {
    /// Returns the memory in the last snapshot at or before `event`. Before the first snapshot, the first one is used:
    /// a source that dumps memory once, late, has nothing better.
    #[must_use]
    pub fn at(&self, event: u64) -> MemoryView<'_> {
        let n = self.snapshots.partition_point(|s| s.event <= event);
        let snapshot = if self.snapshots.is_empty() {
            None
        } else {
            Some(n.saturating_sub(1))
        };
        MemoryView { memory: self, snapshot }
    }

    /// Returns the memory at the end of the recording.
    #[must_use]
    pub fn last(&self) -> MemoryView<'_> {
        self.at(u64::MAX)
    }
}

impl<'a> MemoryView<'a> {
    /// Returns the page of a frame, or `None` if the recording does not hold the frame's contents.
    #[must_use]
    pub fn page_id(&self, frame: u64) -> Option<PageId> {
        let mut at = self.snapshot?;
        for _ in 0..=MAX_PARENTS {
            let s = self.memory.snapshots.get(at)?;
            let n = s.runs.partition_point(|r| r.first_frame <= frame);
            if let Some(id) = n.checked_sub(1).and_then(|i| s.runs[i].page(frame)) {
                return Some(id);
            }
            let parent = s.parent? as usize;
            if parent >= at {
                return None;
            }
            at = parent;
        }
        None
    }

    /// Returns the image in a frame, or `None` if the recording does not hold it.
    #[must_use]
    pub fn frame(&self, frame: u64) -> Option<&'a Page> {
        self.memory.pages.page(self.page_id(frame)?)
    }

    /// Reads a little-endian 64-bit word that does not cross a page. Returns `None` without content.
    #[must_use]
    pub fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        let bytes = self.frame(at.frame())?.get(at.in_page()..at.in_page() + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Returns all runs that hold at this event, sorted by frame, not overlapping.
    #[must_use]
    pub fn runs(&self) -> Vec<PageRun> {
        let mut chain = Vec::new();
        let mut at = self.snapshot;
        while let Some(i) = at {
            let Some(s) = self.memory.snapshots.get(i) else { break };
            chain.push(s);
            at = s
                .parent
                .map(|p| p as usize)
                .filter(|p| *p < i && chain.len() <= MAX_PARENTS);
        }
        let mut chain = chain.into_iter();
        let newest = chain.next().map(|s| s.runs.clone()).unwrap_or_default();
        chain.fold(newest, |newer, older| overlay(&newer, &older.runs))
    }
}

/// A builder of page images and snapshots.
#[derive(Default)]
pub struct MemoryBuilder {
    pub(crate) digests: Vec<Digest>,
    pub(crate) pages: Vec<SharedPage>,
    by_digest: HashMap<Digest, PageId>,
    pub(crate) snapshots: Vec<Snapshot>,
}

impl std::fmt::Debug for MemoryBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (pages, snapshots) = (self.pages.len(), self.snapshots.len());
        write!(f, "MemoryBuilder({pages} pages, {snapshots} snapshots)")
    }
}

impl MemoryBuilder {
    /// Creates an empty builder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of page images so far, the page of zeros not counted.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Returns the image of an id that [`MemoryBuilder::add_page`] returned.
    #[must_use]
    pub fn image(&self, id: PageId) -> Option<&Page> {
        match (id.0 as usize).checked_sub(1) {
            None => Some(&ZERO_PAGE),
            Some(at) => self.pages.get(at).map(|p| &**p),
        }
    }

    /// Stores an image once, and returns its id.
    pub fn add_page(&mut self, page: &Page) -> PageId {
        if *page == ZERO_PAGE {
            return PageId::ZERO;
        }
        self.add_shared_page(*blake3::hash(page).as_bytes(), || (*page).into())
    }

    /// Stores an image once, and returns its id. The caller has compared it with its digest.
    pub fn add_shared_page(&mut self, digest: Digest, page: impl FnOnce() -> SharedPage) -> PageId {
        if digest == zero_digest() {
            return PageId::ZERO;
        }
        if let Some(id) = self.by_digest.get(&digest) {
            return *id;
        }
        self.pages.push(page());
        self.digests.push(digest);
        let id = PageId(self.pages.len() as u32);
        self.by_digest.insert(digest, id);
        id
    }

    /// Adds a full snapshot from frames in any order; the last entry of a frame counts.
    pub fn add_snapshot(&mut self, event: u64, frames: impl IntoIterator<Item = (u64, PageId, FrameRole)>) {
        let sorted: std::collections::BTreeMap<u64, (PageId, FrameRole)> =
            frames.into_iter().map(|(f, p, r)| (f, (p, r))).collect();
        let mut runs = RunsBuilder::default();
        for (f, (p, role)) in sorted {
            runs.push(f, p, role);
        }
        self.snapshots.push(Snapshot {
            event,
            parent: None,
            runs: runs.finish(),
        });
    }

    /// Adds a full snapshot from runs, which are sorted by frame and do not overlap.
    pub fn add_runs(&mut self, event: u64, runs: Vec<PageRun>) {
        self.snapshots.push(Snapshot {
            event,
            parent: None,
            runs,
        });
    }

    /// Adds a snapshot of the changes since the previous snapshot, at the same event or later. Frames come in any
    /// order; the last entry of a frame counts.
    ///
    /// The cost depends on the changed frames, not on all frames. The parent of snapshot n is the one whose number is n
    /// without its lowest bit. So a lookup passes as many parents as n has bits, and every change is stored in at most
    /// as many snapshots. The changes since that parent are those of the snapshots between.
    pub fn add_changes(&mut self, event: u64, frames: impl IntoIterator<Item = (u64, PageId, FrameRole)>) {
        let number = self.snapshots.len();
        self.add_snapshot(event, frames);
        let Some(before) = number.checked_sub(1) else { return };
        // Numbers count from the last full snapshot on, so that others may come before it.
        let full = self.snapshots.iter().take(number).rposition(|s| s.parent.is_none());
        let base = full.unwrap_or(0);
        let own = number - base;
        let parent = base + (own & (own - 1));
        let mut runs = self.snapshots.pop().map(|s| s.runs).unwrap_or_default();
        let mut at = before;
        while at != parent {
            let Some(s) = self.snapshots.get(at) else { break };
            runs = overlay(&runs, &s.runs);
            match s.parent {
                Some(p) => at = p as usize,
                None => break,
            }
        }
        self.snapshots.push(Snapshot {
            event,
            parent: u32::try_from(parent).ok(),
            runs,
        });
    }

    /// Returns the memory.
    #[must_use]
    pub fn finish(mut self) -> Memory {
        self.snapshots.sort_by_key(|s| s.event);
        Memory {
            pages: PageStore {
                inner: Arc::new(Pages {
                    digests: self.digests.into(),
                    data: PageData::Owned(self.pages),
                }),
            },
            snapshots: Arc::new(self.snapshots),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_stored_once_and_runs_fold() {
        let mut b = MemoryBuilder::new();
        let p = |v: u8| Box::new([v; PAGE_SIZE]);
        let ids: Vec<PageId> = [1u8, 2, 3, 0, 0, 3].iter().map(|v| b.add_page(&p(*v))).collect();
        assert_eq!(ids, [1, 2, 3, 0, 0, 3].map(PageId));
        b.add_snapshot(
            0,
            ids.iter()
                .enumerate()
                .map(|(i, id)| (100 + i as u64, *id, FrameRole::Data)),
        );
        let m = b.finish();
        assert_eq!(m.snapshots[0].runs.len(), 3);
        for (i, id) in ids.iter().enumerate() {
            assert_eq!(m.at(0).page_id(100 + i as u64), Some(*id));
        }
        assert_eq!(m.at(0).page_id(106), None);
        assert_eq!(
            m.at(0).read_u64(PhysAddr::new(101 * 4096 + 8)),
            Some(0x0202_0202_0202_0202)
        );
        assert_eq!(m.pages.len(), 3);
    }

    #[test]
    fn memory_changes_are_listed_in_proportion_to_their_size() {
        let mut b = MemoryBuilder::new();
        let blank = b.add_page(&[0xff; PAGE_SIZE]);
        let frames = 1000u64;
        b.add_snapshot(0, (0..frames).map(|f| (f, blank, FrameRole::Data)));
        let mut pages = Vec::new();
        for n in 1..=500u64 {
            let id = b.add_page(&[(n % 250) as u8; PAGE_SIZE]);
            pages.push((n * 7 % frames, id));
            b.add_changes(n, [(n * 7 % frames, id, FrameRole::Data)]);
        }
        let m = b.finish();
        let max = m.snapshots.iter().skip(1).map(|s| s.runs.len()).sum::<usize>();
        assert!(max <= 500 * 10, "{max} runs");
        for at in [0, 1, 2, 3, 63, 64, 65, 127, 255, 256, 257, 499, 500u64] {
            let view = m.at(at);
            for f in 0..frames {
                let latest = pages.iter().take(at as usize).rev().find(|p| p.0 == f);
                assert_eq!(
                    view.page_id(f),
                    Some(latest.map_or(blank, |p| p.1)),
                    "frame {f} at {at}"
                );
            }
        }
        let parents = |mut n: usize| {
            let mut count = 0;
            while let Some(p) = m.snapshots[n].parent {
                (n, count) = (p as usize, count + 1);
            }
            count
        };
        assert!((0..=500).map(parents).max() <= Some(9));
    }

    #[test]
    fn a_child_snapshot_changes_its_parent() {
        let mut b = MemoryBuilder::new();
        let (one, two) = (b.add_page(&[1; PAGE_SIZE]), b.add_page(&[2; PAGE_SIZE]));
        b.add_snapshot(0, [(5, one, FrameRole::Data), (6, one, FrameRole::Data)]);
        let mut m = b.finish();
        let mut s = (*m.snapshots).clone();
        let run = PageRun {
            first_frame: 6,
            count: 1,
            first_page: two,
            repeat: false,
            role: FrameRole::Data,
        };
        s.push(Snapshot {
            event: 10,
            parent: Some(0),
            runs: vec![run],
        });
        m.snapshots = Arc::new(s);
        assert_eq!(m.at(9).page_id(6), Some(one));
        assert_eq!(m.at(10).page_id(6), Some(two));
        assert_eq!(m.at(10).page_id(5), Some(one));
        assert_eq!(
            m.at(10).runs().len(),
            1,
            "pages 1 and 2 in frames 5 and 6 are not one run"
        );
    }
}

//! The map of an address space at a snapshot: mappings, owners, last changes and entropy. It is built off the interface
//! thread. A query for any range costs one binary search.

use std::collections::BTreeMap;
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::addresses::{
    self, Entropies, Island, MapRun, MappedRuns, Owner, Pieces, ReverseMap, ReverseMapping, ValueRun,
};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Recording;

/// Maximum number of islands that strips show.
const MAX_ISLANDS: usize = 512;
/// Maximum number of listed mappings of one page.
pub const MAX_PLACES: usize = 256;

/// The key of a map: an address space index and a memory snapshot number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressMapKey {
    /// Index of the address space.
    pub space: u32,
    /// Number of the snapshot.
    pub snapshot: usize,
}

impl AddressMapKey {
    /// Returns the key of the map that shows an address space at an event.
    #[must_use]
    pub fn at(recording: &Recording, space: u32, event: u64) -> Self {
        let snapshots = &recording.memory.snapshots;
        let snapshot = snapshots.partition_point(|s| s.event <= event).saturating_sub(1);
        Self { space, snapshot }
    }
}

/// The mappings of an address space, with the data that the colours show.
#[derive(Debug, Default)]
pub struct AddressMap {
    /// The event before which memory had this state.
    pub event: u64,
    /// The mapped runs.
    pub runs: Pieces<MapRun>,
    /// The mapped ranges without large gaps.
    pub islands: Vec<Island>,
    /// The owner of each range.
    pub owners: Pieces<Owner>,
    /// Position of each buffer in address order, by buffer index. Adjacent buffers have successive positions.
    pub order: BTreeMap<u32, u32>,
    /// The event of the last change of each range.
    pub changes: Pieces<ValueRun>,
    /// Reverse mappings: every address at which memory is mapped.
    pub places: ReverseMap,
    /// What the map lacks, and why.
    pub problem: Option<String>,
}

impl AddressMap {
    /// Walks the page tables of every address space and scans the snapshots.
    ///
    /// # Errors
    /// Returns an error if the operation was cancelled.
    pub fn new(recording: &Recording, key: AddressMapKey, progress: &Progress) -> Result<Self, Cancelled> {
        let event = recording.memory.snapshots.get(key.snapshot).map_or(0, |s| s.event);
        let view = recording.memory.at(event);
        let mut room = MappedRuns::MAX_RUNS;
        let mut spaces = Vec::new();
        for s in &recording.metadata.address_spaces {
            spaces.push(MappedRuns::build(s, &view, &mut room, progress)?);
        }
        let places = ReverseMap::new(spaces.iter().map(|r| r.list.as_slice()));
        let Some(own) = spaces.into_iter().nth(key.space as usize) else {
            return Ok(Self::default());
        };
        let mut problem = own.problem.map(|e| e.to_string());
        let changed = addresses::last_changes(recording, event, progress)?;
        let (changes, all) = addresses::map_values(&own.list, &changed);
        if !own.all || !all {
            problem.get_or_insert_with(|| {
                format!(
                    "there are more than {} runs of pages; the rest is not shown",
                    MappedRuns::MAX_RUNS
                )
            });
        }
        let owners = addresses::find_owners(&recording.metadata.buffers, key.space);
        let mut order = BTreeMap::new();
        for o in owners.list() {
            let next = order.len() as u32;
            order.entry(o.buffer).or_insert(next);
        }
        Ok(Self {
            event,
            islands: addresses::find_islands(&own.list, MAX_ISLANDS),
            owners,
            order,
            changes,
            places,
            problem,
            runs: Pieces::new(own.list),
        })
    }

    /// Returns every mapping of the page of an address, including the page itself. The flag says whether the list is
    /// complete.
    #[must_use]
    pub fn places_of(&self, va: GpuVa) -> (Vec<ReverseMapping>, bool) {
        let page = va.align_down(4096);
        let Some(pa) = self.runs.at(va).and_then(|r| r.target(page)) else {
            return (Vec::new(), true);
        };
        self.places.find_mappings(&(pa..pa.saturating_add(4096)), MAX_PLACES)
    }

    /// Returns the range from the first to the last mapped address.
    #[must_use]
    pub fn extent(&self) -> std::ops::Range<GpuVa> {
        let first = self.runs.list().first().map_or(0, |r| r.va.get());
        GpuVa::new(first)..self.runs.list().last().map_or(GpuVa::new(first), |r| r.end())
    }
}

/// Computes the entropy of the mapped memory. The flag says whether the result is complete.
///
/// # Errors
/// Returns an error if the operation was cancelled.
pub fn entropy(
    recording: &Recording,
    map: &AddressMap,
    pages: &Entropies,
    progress: &Progress,
) -> Result<(Arc<Pieces<ValueRun>>, bool), Cancelled> {
    let view = recording.memory.at(map.event);
    let (frames, all) = pages.frames(&view, progress)?;
    let (found, whole) = addresses::map_values(map.runs.list(), &frames);
    Ok((Arc::new(found), all && whole))
}

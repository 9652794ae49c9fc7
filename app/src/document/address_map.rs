//! The map of an address space at a snapshot: what is mapped, whose it is, when it changed, how much it tells. Made
//! apart from the interface thread, and asked for any range at the cost of a search.

use std::collections::BTreeMap;
use std::sync::Arc;
use trace_core::addresses::{
    self, Entropies, Island, MapRun, MappedRuns, Owner, Pieces, ReverseMap, ReverseMapping, ValueRun,
};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{PhysAddr, Recording};

/// Maximum number of islands that strips show.
const MAX_ISLANDS: usize = 512;
/// Maximum number of places of one page that are listed.
pub const MAX_PLACES: usize = 256;

/// Which map it is: an address space by its index, and a snapshot of memory by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressMapKey {
    /// Index of the address space.
    pub space: u32,
    /// Number of the snapshot.
    pub snapshot: usize,
}

impl AddressMapKey {
    /// The map that shows an address space at an event.
    #[must_use]
    pub fn at(recording: &Recording, space: u32, event: u64) -> Self {
        let snapshots = &recording.memory.snapshots;
        let snapshot = snapshots.partition_point(|s| s.event <= event).saturating_sub(1);
        Self { space, snapshot }
    }
}

/// What is mapped in an address space, and everything that colours tell of it.
#[derive(Debug, Default)]
pub struct AddressMap {
    /// The event before which memory stood so.
    pub event: u64,
    /// What is mapped.
    pub runs: Pieces<MapRun>,
    /// Where it is mapped, without the great voids.
    pub islands: Vec<Island>,
    /// Whose it is.
    pub owners: Pieces<Owner>,
    /// Buffers by the order of their addresses: neighbours follow one another. The number of a buffer is its index.
    pub order: BTreeMap<u32, u32>,
    /// The event of the last change of what is there.
    pub changes: Pieces<ValueRun>,
    /// Everywhere that memory is mapped.
    pub places: ReverseMap,
    /// What is not in the map, and why.
    pub problem: Option<String>,
}

impl AddressMap {
    /// Walks the tables of every address space and looks through the snapshots.
    ///
    /// # Errors
    /// When nobody wants it any more.
    pub fn new(recording: &Recording, key: AddressMapKey, progress: &Progress) -> Result<Self, Cancelled> {
        let event = recording.memory.snapshots.get(key.snapshot).map_or(0, |s| s.event);
        let view = recording.memory.at(event);
        let mut room = MappedRuns::MAX_RUNS;
        let mut spaces = Vec::new();
        for s in &recording.facts.address_spaces {
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
        let owners = addresses::find_owners(&recording.facts.buffers, key.space);
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

    /// Everywhere that the page of an address is mapped, itself included; the flag says whether these are all.
    #[must_use]
    pub fn places_of(&self, va: u64) -> (Vec<ReverseMapping>, bool) {
        let page = trace_core::GpuVa(va & !4095);
        let Some(pa) = self.runs.at(va).and_then(|r| r.target(page)) else {
            return (Vec::new(), true);
        };
        self.places
            .find_mappings(&(pa..PhysAddr(pa.0.saturating_add(4096))), MAX_PLACES)
    }

    /// All that is mapped, from the first address to the last.
    #[must_use]
    pub fn extent(&self) -> std::ops::Range<u64> {
        let first = self.runs.list().first().map_or(0, |r| r.va.0);
        first..self.runs.list().last().map_or(first, |r| r.end().0)
    }
}

/// The entropy of what is mapped; the flag says whether all of it is there.
///
/// # Errors
/// When nobody wants it any more.
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

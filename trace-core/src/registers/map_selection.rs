//! The user's maps, and their selection over the embedded ones.
//!
//! A map is immutable and lives as long as the program. A map that is replaced because its file changed stays in
//! memory, since callers may still hold its registers. The reader of maps limits the total.

use super::recorded::is_map_for;
use super::{RegisterMap, register_space};
use crate::recording::{Recording, Space};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

/// The recordings that a user map applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapScope {
    /// Recordings of the devices that it names, by PCI ids, device tree or id register. If it names none: recordings
    /// whose device no embedded map knows and that have a register space of the map's name.
    ItsDevices,
    /// The recording that was opened from this path.
    Recording(Arc<Path>),
}

impl MapScope {
    fn is_for(&self, recording: &Recording) -> bool {
        matches!((self, &recording.opened_from), (Self::Recording(of), Some(from)) if of == from)
    }
}

struct MapEntry {
    source: String,
    of: MapScope,
    map: &'static RegisterMap,
}

static CHOSEN: RwLock<Vec<MapEntry>> = RwLock::new(Vec::new());

/// Sets the map of a source, replacing its previous one; `None` removes it. The source is any identifier that the
/// caller chooses, usually a path.
pub fn choose(source: &str, map: Option<(&'static RegisterMap, MapScope)>) {
    let mut all = CHOSEN.write().unwrap_or_else(PoisonError::into_inner);
    all.retain(|c| c.source != source);
    if let Some((map, of)) = map {
        let at = all.partition_point(|c| c.source.as_str() < source);
        all.insert(
            at,
            MapEntry {
                source: source.to_owned(),
                of,
                map,
            },
        );
    }
}

/// Returns the user's maps for a recording, the lower one first: the one of its device (the first by source name), then
/// the one for the recording alone.
fn user_maps_for(recording: &Recording, built_in: Option<&'static RegisterMap>) -> [Option<&'static RegisterMap>; 2] {
    let all = CHOSEN.read().unwrap_or_else(PoisonError::into_inner);
    if all.is_empty() {
        return [None, None];
    }
    let alone = all.iter().find(|c| c.of.is_for(recording)).map(|c| c.map);
    let hardware = recording.hardware();
    let gpu = recording.metadata.identity.gpu_id;
    let of_devices = all.iter().filter(|c| c.of == MapScope::ItsDevices).map(|c| c.map);
    let mut of_devices = of_devices.filter(|m| is_map_for(m, recording));
    let named = of_devices.clone().find(|m| {
        let on_bus = hardware.as_ref().is_some_and(|h| m.hardware_name(h).is_some());
        on_bus || gpu != 0 && m.gpu_name(gpu).is_some()
    });
    if named.is_some() || built_in.is_some() {
        return [named, alone];
    }
    let nobodys = of_devices.find(|m| {
        let nobodys = m.devices.is_empty() && m.gpus.is_empty() && !m.space().is_empty();
        let space = |s: &Space| s.kind == crate::recording::SpaceKind::Registers && s.name == m.space();
        nobodys && recording.metadata.spaces.iter().any(space)
    });
    [nobodys, alone]
}

/// Returns the maps that name a recording's registers, the uppermost first. Maps below a map whose registers are in
/// another space of the recording do not count.
pub(super) fn layers(recording: &Recording) -> Vec<&'static RegisterMap> {
    let built_in = RegisterMap::built_in_for(recording);
    let mut list: Vec<&'static RegisterMap> = Vec::new();
    for map in std::iter::once(built_in)
        .chain(user_maps_for(recording, built_in))
        .flatten()
    {
        let fits = |under: &&&RegisterMap| {
            map.space().is_empty() || register_space(recording, Some(map)) == register_space(recording, Some(**under))
        };
        if list.first().filter(fits).is_none() {
            list.clear();
        }
        list.insert(0, map);
    }
    list
}

/// Returns the map that names a recording's registers: the user's maps over the embedded one.
pub(super) fn map_for(recording: &Recording) -> Option<&'static RegisterMap> {
    let mut rising = layers(recording).into_iter().rev();
    let lowest = rising.next()?;
    Some(rising.fold(lowest, |under, own| overlay_cached(own, under)))
}

/// Maximum size of all overlaid pairs of maps since the program started, bytes.
const MAX_OVERLAID: u64 = 256 << 20;

/// Overlaid maps by the addresses of both maps.
#[derive(Default)]
struct OverlayCache {
    pairs: HashMap<(usize, usize), &'static RegisterMap>,
    bytes: u64,
}

static OVERLAID: LazyLock<RwLock<OverlayCache>> = LazyLock::new(RwLock::default);

/// Returns a map laid over another, built once. Returns the upper map alone if both together have too many registers or
/// maps were changed too often.
fn overlay_cached(own: &'static RegisterMap, under: &'static RegisterMap) -> &'static RegisterMap {
    let key = (std::ptr::from_ref(own).addr(), std::ptr::from_ref(under).addr());
    let made = OVERLAID.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(map) = made.pairs.get(&key) {
        return map;
    }
    drop(made);
    let mut all = OVERLAID.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(map) = all.pairs.get(&key) {
        return map;
    }
    let made = own.overlay(under).map_err(|e| e.to_string());
    let made = made.and_then(|map| match all.bytes.saturating_add(map.built_bytes()) {
        bytes if bytes <= MAX_OVERLAID => Ok((map, bytes)),
        _ => Err(format!(
            "maps changed so often that they take more than {} MiB; start the program again",
            MAX_OVERLAID >> 20
        )),
    });
    let map = match made {
        Ok((map, bytes)) => {
            all.bytes = bytes;
            &*Box::leak(Box::new(map))
        }
        Err(e) => {
            tracing::warn!("{} cannot be combined with {}: {e}", own.name(), under.name());
            own
        }
    };
    all.pairs.insert(key, map);
    map
}

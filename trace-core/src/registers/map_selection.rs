//! The user's maps, and their selection over the embedded ones.
//!
//! A map is immutable and lives as long as the program. A map that is replaced because its file changed stays in
//! memory, since callers may still hold its registers. The reader of maps limits the total.

use super::recorded::is_map_for;
use super::{RegisterMap, embedded, register_space};
use crate::recording::{Identity, Recording, Space};
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
        let on_bus = hardware.is_some_and(|h| m.hardware_name(h).is_some());
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

/// Returns the common name of the recorded device. This is the GPU's name in the recording, else the name of the bus
/// device in a map, else the device's ids. Empty if the recording has none.
#[must_use]
pub fn recorded_name(recording: &Recording) -> String {
    let message = &recording.metadata.identity.gpu_name;
    if !message.is_empty() {
        return message.clone();
    }
    let Some(hardware) = recording.hardware() else {
        return String::new();
    };
    embedded::hardware_name(hardware).map_or_else(|| hardware.id(), str::to_owned)
}

impl RegisterMap {
    /// Returns the map that names the registers of a recording's device: the user's maps ([`choose`]) over the
    /// embedded one.
    #[must_use]
    pub fn for_recording(recording: &Recording) -> Option<&'static Self> {
        let mut rising = Self::list_for_recording(recording).into_iter().rev();
        let lowest = rising.next()?;
        Some(rising.fold(lowest, |under, own| overlay_cached(own, under)))
    }

    /// Returns the maps that [`RegisterMap::for_recording`] combines, highest precedence first. Maps below a map whose
    /// registers are in another space of the recording do not count.
    #[must_use]
    pub fn list_for_recording(recording: &Recording) -> Vec<&'static Self> {
        let built_in = Self::built_in_for(recording);
        let mut list: Vec<&'static Self> = Vec::new();
        for map in std::iter::once(built_in)
            .chain(user_maps_for(recording, built_in))
            .flatten()
        {
            let fits = |under: &&&Self| {
                map.space().is_empty()
                    || register_space(recording, Some(map)) == register_space(recording, Some(**under))
            };
            if list.first().filter(fits).is_none() {
                list.clear();
            }
            list.insert(0, map);
        }
        list
    }

    /// Returns the embedded map for the device of a recording: for its bus device, else for the GPU of its id register.
    /// Jobs, page tables and data stored with a recording depend on this map only, never on a user map, which only
    /// gives names. Returns `None` also if the recording has only other windows of the device than the window of the
    /// map.
    #[must_use]
    pub fn built_in_for(recording: &Recording) -> Option<&'static Self> {
        Self::for_device_of(recording).filter(|map| is_map_for(map, recording))
    }

    /// Returns the embedded map for the device of a recording, whichever windows of it were recorded.
    pub(crate) fn for_device_of(recording: &Recording) -> Option<&'static Self> {
        let on_bus = recording.hardware().and_then(Self::for_hardware);
        let known = on_bus.or_else(|| Self::for_gpu(recording.metadata.identity.gpu_id));
        // Driver traces and dumps of etnaviv do not name their device; the kernel driver fixes the layout.
        let is_fixed =
            recording.driver_trace().is_some() || recording.metadata.identity.source == Identity::ETNAVIV_CORE_DUMP;
        known.or_else(|| Self::for_space_of(recording).filter(|_| is_fixed))
    }

    /// Returns the map that the jobs of a recording depend on: the embedded map for its device. If the recording has
    /// submit events or ring entries and no map knows the device, it is a map without registers.
    #[must_use]
    pub fn for_jobs_of(recording: &Recording) -> Option<&'static Self> {
        static NAMELESS: LazyLock<RegisterMap> = LazyLock::new(RegisterMap::default);
        let built_in = Self::built_in_for(recording);
        let events = &recording.events;
        let has_submits = !events.submits.is_empty() || !events.ring_entries.is_empty();
        built_in.or_else(|| has_submits.then(|| &*NAMELESS))
    }
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

//! Maps that a person keeps: which of them stand in place of the embedded ones.
//!
//! A map is immutable and lives as long as the program. One that is replaced because its file changed stays in memory:
//! whatever looks at a recording may still hold its registers. Whoever reads maps bounds how much that becomes.

use super::RegisterMap;
use crate::recording::{Recording, Space};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// Which recordings a map of a person's is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum For {
    /// Those whose device it names, by PCI ids, device tree or id register; and, where it names none, those whose device
    /// no embedded map knows and that have a space of registers of the map's name for it.
    ItsDevices,
    /// The recording that was opened from this path.
    Recording(Arc<Path>),
}

impl For {
    fn is(&self, recording: &Recording) -> bool {
        matches!((self, &recording.opened_from), (Self::Recording(of), Some(from)) if of == from)
    }
}

struct Chosen {
    source: String,
    of: For,
    map: &'static RegisterMap,
}

static CHOSEN: RwLock<Vec<Chosen>> = RwLock::new(Vec::new());

/// Sets the map that a source stands for, in place of the one it stood for before; `None` takes it away. The source is
/// any name that the caller tells it by, a path as a rule.
pub fn choose(source: &str, map: Option<(&'static RegisterMap, For)>) {
    let mut all = CHOSEN.write().unwrap_or_else(PoisonError::into_inner);
    all.retain(|c| c.source != source);
    if let Some((map, of)) = map {
        let at = all.partition_point(|c| c.source.as_str() < source);
        all.insert(
            at,
            Chosen {
                source: source.to_owned(),
                of,
                map,
            },
        );
    }
}

/// The person's map for a recording: one that is for it alone before those of a device, these by their sources' names.
pub(super) fn of(recording: &Recording) -> Option<&'static RegisterMap> {
    let all = CHOSEN.read().unwrap_or_else(PoisonError::into_inner);
    if all.is_empty() {
        return None;
    }
    if let Some(own) = all.iter().find(|c| c.of.is(recording)) {
        return Some(own.map);
    }
    let hardware = recording.hardware();
    let gpu = recording.facts.identity.gpu_id;
    let mut of_devices = all.iter().filter(|c| c.of == For::ItsDevices).map(|c| c.map);
    let named = of_devices.clone().find(|m| {
        let on_bus = hardware.as_ref().is_some_and(|h| m.hardware_name(h).is_some());
        on_bus || gpu != 0 && m.gpu_name(gpu).is_some()
    });
    if named.is_some() || RegisterMap::built_in_for(recording).is_some() {
        return named;
    }
    of_devices.find(|m| {
        let nobodys = m.devices.is_empty() && m.gpus.is_empty() && !m.space().is_empty();
        let space = |s: &Space| s.kind == crate::recording::SpaceKind::Registers && s.name == m.space();
        nobodys && recording.facts.spaces.iter().any(space)
    })
}

//! State of the map, and the results computed for it.

use super::camera::{SquareCamera, StripsCamera};
use egui::Pos2;
use kinescope_session::address_map::{AddressMap, AddressMapKey};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::addresses::{Entropies, Pieces, ValueRun};
use trace_core::progress::Progress;

/// Layout of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Along Hilbert's curve, all address bits a square.
    #[default]
    Square,
    /// In rows, without the large gaps.
    Strips,
}

/// Meaning of the colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// Read, write, execute.
    #[default]
    Rights,
    /// The buffer that it belongs to.
    Owner,
    /// Entropy of the bytes.
    Entropy,
    /// The event at which it changed last.
    Change,
}

impl Colour {
    /// All variants, in the order in which they are offered.
    pub const ALL: [Self; 4] = [Self::Rights, Self::Owner, Self::Entropy, Self::Change];

    /// Returns the name that the user sees.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Rights => "rights",
            Self::Owner => "buffer",
            Self::Entropy => "entropy",
            Self::Change => "last change",
        }
    }

    /// Returns a sentence that describes what the colours show.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Rights => "The access rights of the GPU.",
            Self::Owner => "The recorded buffer at the address.",
            Self::Entropy => "The entropy of the page, bits per byte: 0 if all bytes are equal, 8 if they look random.",
            Self::Change => "The event at which the content changed last, if it is recorded.",
        }
    }
}

/// Entropy along a map; the flag is true if it is complete.
pub type Entropy = (Arc<Pieces<ValueRun>>, bool);

/// State of the map.
#[derive(Clone, Default)]
pub struct Atlas {
    /// Layout of addresses.
    pub shape: Shape,
    /// Meaning of the colours.
    pub colour: Colour,
    /// The part of the square in view.
    pub square: SquareCamera,
    /// The part of the strips in view.
    pub strips: StripsCamera,
    /// The address space and shape that the view was placed for.
    pub(super) fitted: Option<(u32, Shape)>,
    /// The rest of a running zoom, and its centre.
    pub(super) zooming: Option<(f64, Pos2)>,
    /// The last shown selection, so that what is selected elsewhere is brought into view.
    pub(super) seen: Option<(u32, GpuVa)>,
    /// Cached maps, the last used one at the end.
    pub(super) maps: Vec<(AddressMapKey, Arc<AddressMap>)>,
    pub(super) making: Option<(AddressMapKey, Progress)>,
    /// The request that the user stopped.
    pub(super) stopped: Option<(AddressMapKey, bool)>,
    pub(super) pages: Option<Arc<Entropies>>,
    pub(super) entropies: Vec<(AddressMapKey, Entropy)>,
    pub(super) measuring: Option<(AddressMapKey, Progress)>,
}

/// Maximum number of cached maps: the user can step between a few snapshots without a wait.
const MAX_CACHED_MAPS: usize = 6;

fn cache_insert<T>(list: &mut Vec<(AddressMapKey, T)>, key: AddressMapKey, made: T) {
    list.retain(|(k, _)| *k != key);
    if list.len() >= MAX_CACHED_MAPS {
        list.remove(0);
    }
    list.push((key, made));
}

impl Atlas {
    /// Returns the map of an address space and a snapshot, once it is computed.
    #[must_use]
    pub fn map(&self, key: AddressMapKey) -> Option<Arc<AddressMap>> {
        self.maps.iter().find(|(k, _)| *k == key).map(|(_, m)| Arc::clone(m))
    }

    /// Returns the map to show until the requested one is computed: another snapshot of the same address space.
    pub(super) fn fallback_map(&self, key: AddressMapKey) -> Option<Arc<AddressMap>> {
        let same = self.maps.iter().rev().find(|(k, _)| k.space == key.space);
        same.map(|(_, m)| Arc::clone(m))
    }

    /// Returns the entropy along a map, once it is known.
    #[must_use]
    pub fn entropy(&self, key: AddressMapKey) -> Option<Entropy> {
        self.entropies.iter().find(|(k, _)| *k == key).map(|(_, e)| e.clone())
    }

    pub(super) fn take_map(&mut self, key: AddressMapKey, made: Option<AddressMap>) {
        if self.making.as_ref().is_some_and(|(k, _)| *k == key) {
            self.making = None;
        }
        match made {
            Some(map) => cache_insert(&mut self.maps, key, Arc::new(map)),
            None => self.stopped = Some((key, false)),
        }
    }

    pub(super) fn take_entropy(&mut self, key: AddressMapKey, made: Option<(Arc<Entropies>, Entropy)>) {
        if self.measuring.as_ref().is_some_and(|(k, _)| *k == key) {
            self.measuring = None;
        }
        match made {
            Some((pages, found)) => {
                self.pages = Some(pages);
                cache_insert(&mut self.entropies, key, found);
            }
            None => self.stopped = Some((key, true)),
        }
    }
}

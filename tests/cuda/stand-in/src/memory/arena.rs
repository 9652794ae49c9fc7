//! Allocations: small ones share a piece of physical memory, larger ones have their own.

use super::mapping::{Mapping, Reach};
use super::places::{Place, Purpose};
use super::{Charge, GRANULE};
use crate::codes::OUT_OF_MEMORY;
use crate::{Answer, lock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What is larger has a piece of its own.
const SMALL: u64 = 1 << 20;

/// Memory as the driver reaches it. It stays while anything reaches it, whatever happened to its addresses.
pub struct Bytes {
    host: u64,
    _open: Option<Mapping>,
    _charge: Option<Charge>,
    /// The addresses on the device go last, so that nobody finds them free too early.
    _place: Option<Place>,
    /// Tells this piece from every other.
    pub number: u64,
}

impl Bytes {
    /// Memory without addresses on the device.
    pub fn physical(bytes: u64) -> Answer<Self> {
        let charge = Charge::take(bytes)?;
        let open = Mapping::anywhere(bytes, Reach::Process).ok_or(OUT_OF_MEMORY)?;
        Ok(Self { host: open.at(), _open: Some(open), _charge: Some(charge), _place: None, number: next_number() })
    }

    /// Memory under addresses that nobody but the driver reaches.
    fn hidden(purpose: Purpose, bytes: u64) -> Answer<Self> {
        let place = Place::find(purpose, bytes, GRANULE, Reach::Nobody).ok_or(OUT_OF_MEMORY)?;
        Ok(Self { _place: Some(place), ..Self::physical(bytes)? })
    }

    /// Memory under addresses that the program reaches as well.
    fn open(purpose: Purpose, bytes: u64) -> Answer<Self> {
        let place = Place::find(purpose, bytes, GRANULE, Reach::Process).ok_or(OUT_OF_MEMORY)?;
        Ok(Self { host: place.at(), _open: None, _charge: None, _place: Some(place), number: next_number() })
    }

    /// The host's own memory, which the device reaches as well.
    pub fn of_host(bytes: u64) -> Answer<Self> {
        let open = Mapping::anywhere(bytes, Reach::Process).ok_or(OUT_OF_MEMORY)?;
        Ok(Self { host: open.at(), _open: Some(open), _charge: None, _place: None, number: next_number() })
    }

    /// Where the driver reaches its first byte.
    pub fn host(&self) -> u64 {
        self.host
    }
}

/// A number that was not given yet.
pub fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

struct Chunk {
    purpose: Purpose,
    at: u64,
    bytes: u64,
    memory: Arc<Bytes>,
    /// Parts in use by where they begin in it.
    used: BTreeMap<u64, u64>,
}

impl Chunk {
    fn make(purpose: Purpose, bytes: u64) -> Answer<Self> {
        let memory = match purpose {
            Purpose::Managed => Bytes::open(purpose, bytes)?,
            _ => Bytes::hidden(purpose, bytes)?,
        };
        let at = memory._place.as_ref().map_or(0, Place::at);
        Ok(Self { purpose, at, bytes, memory: Arc::new(memory), used: BTreeMap::new() })
    }

    /// The first gap of so many bytes.
    fn gap(&self, bytes: u64) -> Option<u64> {
        let mut from = 0;
        for (at, used) in &self.used {
            if at - from >= bytes {
                return Some(from);
            }
            from = at + used;
        }
        (self.bytes - from >= bytes).then_some(from)
    }

    fn take(&mut self, from: u64, bytes: u64) -> Part {
        self.used.insert(from, bytes);
        Part {
            at: self.at + from,
            host: self.memory.host() + from,
            memory: Arc::clone(&self.memory),
            whole: (self.at, self.bytes),
        }
    }
}

/// A part of the device's memory.
pub struct Part {
    /// Its address on the device.
    pub at: u64,
    /// Where the driver reaches it.
    pub host: u64,
    /// What keeps it.
    pub memory: Arc<Bytes>,
    /// Address and bytes of the piece that it is a part of.
    pub whole: (u64, u64),
}

static CHUNKS: Mutex<Vec<Chunk>> = Mutex::new(Vec::new());

/// Takes so many bytes.
pub fn take(purpose: Purpose, bytes: u64) -> Answer<Part> {
    let step = if purpose == Purpose::Variables { 256 } else { 512 };
    let bytes = bytes.max(1).checked_next_multiple_of(step).ok_or(OUT_OF_MEMORY)?;
    let mut chunks = lock(&CHUNKS);
    if bytes <= SMALL {
        let shared = chunks.iter_mut().filter(|c| c.purpose == purpose && c.bytes == GRANULE);
        for chunk in shared {
            if let Some(from) = chunk.gap(bytes) {
                return Ok(chunk.take(from, bytes));
            }
        }
    }
    let whole = bytes.checked_next_multiple_of(GRANULE).ok_or(OUT_OF_MEMORY)?;
    let mut chunk = Chunk::make(purpose, whole)?;
    let part = chunk.take(0, bytes);
    // In the order of their addresses, so that gaps at low ones are taken first.
    let place = chunks.partition_point(|c| c.at < chunk.at);
    chunks.insert(place, chunk);
    Ok(part)
}

/// Gives a part back.
pub fn give_back(at: u64) {
    let mut chunks = lock(&CHUNKS);
    let Some(place) = chunks.iter().position(|c| (c.at..c.at + c.bytes).contains(&at)) else { return };
    let Some(chunk) = chunks.get_mut(place) else { return };
    let from = at - chunk.at;
    chunk.used.remove(&from);
    if chunk.used.is_empty() {
        chunks.remove(place);
    }
}

/// Gives all back.
pub fn forget() {
    lock(&CHUNKS).clear();
}

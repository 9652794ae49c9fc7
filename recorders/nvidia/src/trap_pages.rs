//! The pages of doorbells that the program mapped. They take no stores, and each has an alias that the recorder uses.
//! Loads stay free where the program may load: they submit nothing, and each trap costs a launch microseconds.
//!
//! The handler of faults searches them before it takes a lock.

use crate::address::HostAddr;
use crate::system::protect;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Maximum number of mapped ranges.
const MAX_PAGES: usize = 64;

/// A range of doorbells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrapPage {
    pub start: HostAddr,
    pub bytes: u64,
    /// The second mapping of the same registers.
    pub alias: HostAddr,
    /// Rights that the program asked for.
    pub rights: i32,
    /// Handle of the client.
    pub client: u32,
    /// Handle of the device.
    pub device: u32,
}

impl TrapPage {
    /// Returns where the alias shows an address of the page.
    pub fn alias_of(&self, address: HostAddr) -> Option<HostAddr> {
        self.alias.checked_add(address.offset_from(self.start)?)
    }
}

/// A page in fields that a signal handler may read at any time. Its size is 0 if there is none.
struct Slot {
    start: AtomicU64,
    bytes: AtomicU64,
    alias: AtomicU64,
    rights: AtomicI32,
    client: AtomicU32,
    device: AtomicU32,
}

impl Slot {
    const fn new() -> Self {
        Self {
            start: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            alias: AtomicU64::new(0),
            rights: AtomicI32::new(0),
            client: AtomicU32::new(0),
            device: AtomicU32::new(0),
        }
    }

    fn page(&self) -> Option<TrapPage> {
        let bytes = self.bytes.load(Ordering::Acquire);
        (bytes != 0).then(|| TrapPage {
            start: HostAddr::new(self.start.load(Ordering::Relaxed)),
            bytes,
            alias: HostAddr::new(self.alias.load(Ordering::Relaxed)),
            rights: self.rights.load(Ordering::Relaxed),
            client: self.client.load(Ordering::Relaxed),
            device: self.device.load(Ordering::Relaxed),
        })
    }
}

static PAGES: [Slot; MAX_PAGES] = [const { Slot::new() }; MAX_PAGES];

/// Adds a page. Only the thread that has the recorder's lock calls it. Returns `false` if there are too many.
pub(crate) fn add(page: TrapPage) -> bool {
    let Some(slot) = PAGES.iter().find(|s| s.bytes.load(Ordering::Relaxed) == 0) else {
        return false;
    };
    slot.start.store(page.start.get(), Ordering::Relaxed);
    slot.alias.store(page.alias.get(), Ordering::Relaxed);
    slot.rights.store(page.rights, Ordering::Relaxed);
    slot.client.store(page.client, Ordering::Relaxed);
    slot.device.store(page.device, Ordering::Relaxed);
    slot.bytes.store(page.bytes, Ordering::Release);
    true
}

/// Returns the page that holds an address.
pub(crate) fn find(address: HostAddr) -> Option<TrapPage> {
    let holds = |page: &TrapPage| address.offset_from(page.start).is_some_and(|n| n < page.bytes);
    PAGES.iter().filter_map(Slot::page).find(holds)
}

/// Removes a page that overlaps a range, and returns it.
pub(crate) fn take_overlapping(start: HostAddr, bytes: u64) -> Option<TrapPage> {
    let end = start.get().saturating_add(bytes);
    let overlaps =
        |page: &TrapPage| page.start.get() < end && start.get() < page.start.get().saturating_add(page.bytes);
    PAGES.iter().find_map(|slot| {
        let page = slot.page().filter(overlaps)?;
        slot.bytes.store(0, Ordering::Release);
        Some(page)
    })
}

/// Makes all pages accessible, with the rights that the program asked for. They stay known: a thread may fault at one
/// that was just opened.
pub(crate) fn open_all() {
    for page in PAGES.iter().filter_map(Slot::page) {
        // A page that cannot be opened is one that the program has just removed.
        let _ = protect(page.start, page.bytes, page.rights);
    }
}

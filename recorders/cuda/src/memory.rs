//! Device memory: allocations are served from one address window, so that a replay finds the same addresses free.

mod deferred_frees;
mod mappings;
mod pools;
mod window;

pub(crate) use deferred_frees::FreeCondition;
pub(crate) use mappings::NewMapping;
pub(crate) use pools::Pools;

use crate::contexts::current_context_and_device;
use crate::driver::driver;
use crate::process_memory::HostAddr;
use crate::trace::{Trace, lock};
use cuda_driver::{CuDevice, CuMemHandle, CudaError, MEMORY_DEVICE, POINTER_MEMORY_TYPE};
use cuda_session::{Window, WindowError};
use deferred_frees::{DeferredFreeId, DeferredFrees};
use mappings::Mappings;
use std::collections::BTreeMap;
use std::sync::Mutex;
use trace_core::GpuVa;
use trace_core::recording::CallWindow;
use window::{WindowBacking, reserve_window};

/// A piece of memory in a snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// First address.
    pub at: GpuVa,
    /// Size in bytes.
    pub bytes: u64,
    /// The piece was served from the window.
    pub in_window: bool,
}

impl Piece {
    /// Returns the piece of a module's variable.
    pub fn variable((at, bytes): (GpuVa, u64)) -> Self {
        Self {
            at,
            bytes,
            in_window: false,
        }
    }
}

/// A range of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SharedRange {
    /// First address.
    pub at: GpuVa,
    /// Size in bytes.
    pub bytes: u64,
    /// The memory moves between host and device, and does not belong to the host alone.
    pub managed: bool,
}

/// Kind of memory that the driver served itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DriverMemoryKind {
    /// Device memory.
    Plain,
    /// Memory that host and device share.
    Managed,
    /// A graph's own memory, which exists while the graph runs.
    OfGraph,
    /// Device memory that the program mapped itself and that no device can access yet.
    Mapped,
}

#[derive(Clone, Copy, Debug)]
struct DriverAllocation {
    bytes: u64,
    served: DriverMemoryKind,
    context: usize,
    device: CuDevice,
}

/// State of the device's memory.
pub(crate) struct Memory {
    /// A window is requested.
    wanted: bool,
    window: Option<Window>,
    mapped: WindowBacking,
    /// The context of each allocation in the window.
    taken_in: BTreeMap<GpuVa, usize>,
    /// Allocations of the window that the program has freed but that can still be in use.
    deferred_frees: DeferredFrees,
    /// Allocations that the driver served itself, by first address.
    driver_allocations: BTreeMap<GpuVa, DriverAllocation>,
    /// First addresses of memory freed since the last query.
    gone: Vec<GpuVa>,
    /// Pinned host memory: first address and size in bytes.
    pub pinned: BTreeMap<HostAddr, u64>,
    /// Addresses that the program reserved, and physical memory that it mapped there.
    mappings: Mappings,
}

/// Why an allocation is not served from the window. The driver then serves it, and reports its own errors.
pub(crate) enum WindowRefusal {
    /// There is no window, or it belongs to another device.
    NoWindow,
    /// The window has no room or no memory left, or the memory could not be mapped.
    Refused,
}

impl Memory {
    pub fn new(wanted: bool) -> Self {
        Self {
            wanted,
            window: None,
            mapped: WindowBacking::none(),
            taken_in: BTreeMap::new(),
            deferred_frees: DeferredFrees::default(),
            driver_allocations: BTreeMap::new(),
            gone: Vec::new(),
            pinned: BTreeMap::new(),
            mappings: Mappings::default(),
        }
    }

    /// Reserves the window on the first call.
    fn reserve(&mut self, trace: &Trace) {
        if !self.wanted || self.window.is_some() {
            return;
        }
        match reserve_window() {
            Ok((window, device)) => {
                self.mapped.set_device(device);
                let (base, bytes) = window.range();
                let mut tables = trace.session.tables();
                tables.metadata.window = CallWindow { base, bytes };
                tables.mark_changed();
                self.window = Some(window);
            }
            Err(why) => {
                self.wanted = false;
                trace.note_not_recorded(
                    "window",
                    format!(
                        "allocations could not come from one range of addresses ({why}): the driver chose their \
                         addresses, and a replay may not find them free"
                    ),
                );
            }
        }
    }

    /// Allocates `bytes` bytes from the window, at least 1, and returns their address.
    pub fn take(&mut self, trace: &Trace, bytes: u64) -> Result<GpuVa, WindowRefusal> {
        self.reserve(trace);
        self.reclaim(trace, &[]);
        let here = current_context_and_device();
        let window = self.window.as_mut().ok_or(WindowRefusal::NoWindow)?;
        // The window belongs to the device that was used first.
        let (context, _) = here
            .filter(|(_, device)| *device == self.mapped.device)
            .ok_or(WindowRefusal::NoWindow)?;
        match window.allocate(bytes, &mut self.mapped) {
            Ok(at) => {
                self.taken_in.insert(at, context);
                Ok(at)
            }
            Err(WindowError::Full { .. } | WindowError::Backing(_)) => Err(WindowRefusal::Refused),
        }
    }

    /// Returns the size in bytes and the context of the program's allocation at this window address.
    pub fn find_piece(&self, at: GpuVa) -> Option<(u64, usize)> {
        let (first, bytes) = self.window.as_ref()?.find(at)?;
        let is_taken = first == at && !self.deferred_frees.contains(at);
        is_taken.then(|| (bytes, self.taken_in.get(&at).copied().unwrap_or(0)))
    }

    /// Returns the window allocation that contains an address: first address, size in bytes, context.
    pub fn find_containing(&self, at: GpuVa) -> Option<(GpuVa, u64, usize)> {
        let (first, bytes) = self.window.as_ref()?.find(at)?;
        Some((first, bytes, self.taken_in.get(&first).copied().unwrap_or(0)))
    }

    /// Adds physical memory that the program has a handle of; no device for the host's or another process's.
    pub fn add_physical(&mut self, handle: CuMemHandle, device: Option<CuDevice>) {
        self.mappings.add_memory(handle, device);
    }

    /// Reserves addresses for the program's own mappings, or returns `None` if the driver must.
    pub fn reserve_addresses(&mut self, trace: &Trace, bytes: u64) -> Option<GpuVa> {
        if self.wanted {
            self.mappings.reserve(trace, bytes)
        } else {
            None
        }
    }

    /// Frees reserved addresses. Returns whether they were reserved without mappings, or `None` if the driver reserved
    /// them.
    pub fn free_addresses(&mut self, at: GpuVa, bytes: u64) -> Option<bool> {
        self.mappings.free(at, bytes)
    }

    /// Adds a mapping of the program's own. Its memory is accessible once the program grants access.
    pub fn map(&mut self, at: GpuVa, bytes: u64, offset: usize, handle: CuMemHandle) -> NewMapping {
        let own = current_context_and_device().map(|(_, device)| device);
        let first = Some(self.device()).filter(|d| *d >= 0).or(own);
        let mapping = self.mappings.map((at, bytes), offset, handle, first, own);
        if let NewMapping::Own(device, _) = mapping {
            let own = DriverAllocation {
                bytes,
                served: DriverMemoryKind::Mapped,
                context: 0,
                device,
            };
            self.driver_allocations.insert(at, own);
        }
        mapping
    }

    /// Removes the program's own mappings in a range. Returns the recorded ones, with their sizes in bytes.
    pub fn unmap(&mut self, at: GpuVa, bytes: u64) -> Vec<(GpuVa, u64)> {
        let gone = self.mappings.unmap(at, at.saturating_add(bytes));
        for (first, _) in &gone {
            self.remove_driver_allocation(*first);
        }
        gone
    }

    /// Grants or revokes the device's access to the mappings in a range.
    pub fn allow_mapped(&mut self, at: GpuVa, bytes: u64, allowed: bool) {
        let end = at.saturating_add(bytes);
        for (_, own) in self.driver_allocations.range_mut(at..end) {
            match own.served {
                DriverMemoryKind::Mapped if allowed => own.served = DriverMemoryKind::Plain,
                DriverMemoryKind::Plain if !allowed && own.context == 0 => own.served = DriverMemoryKind::Mapped,
                _ => {}
            }
        }
    }

    /// Returns whether an address lies in the window, allocated or not.
    pub fn is_in_window(&self, at: GpuVa) -> bool {
        self.window.as_ref().is_some_and(|w| w.contains(at))
    }

    /// Frees an unused allocation of the window.
    pub fn free(&mut self, at: GpuVa) -> Result<(), CudaError> {
        self.gone.push(at);
        self.taken_in.remove(&at);
        self.deferred_frees.remove(at, false);
        match self.window.as_mut().and_then(|w| w.free(at, &mut self.mapped)) {
            Some(Err(e)) => Err(e),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Defers the free of a window allocation that the program no longer owns.
    pub fn defer_free(&mut self, at: GpuVa, until: FreeCondition) {
        self.gone.push(at);
        let context = self.taken_in.get(&at).copied().unwrap_or(0);
        self.deferred_frees.insert(at, until, context);
    }

    /// Returns the frees that complete with a wait for a context. Call it before the wait, because more can be deferred
    /// meanwhile.
    pub fn list_idle(&self, context: usize) -> Vec<DeferredFreeId> {
        self.deferred_frees.list_idle(context)
    }

    /// Frees memory that is no longer used: the given frees, whose context was waited for, and those with complete
    /// events.
    pub fn reclaim(&mut self, trace: &Trace, idle: &[DeferredFreeId]) {
        if self.deferred_frees.is_empty() {
            return;
        }
        let idle = idle.iter().filter(|leaver| self.deferred_frees.is_pending(**leaver));
        let mut done: Vec<GpuVa> = idle.map(|(at, _)| *at).collect();
        if !trace.is_capturing() {
            done.extend(self.deferred_frees.list_done());
        }
        for at in done {
            // Memory that cannot be unmapped stays mapped; its addresses are free.
            let _ = self.free(at);
        }
    }

    /// Returns whether freed memory is still in use.
    pub fn has_deferred_frees(&self) -> bool {
        !self.deferred_frees.is_empty()
    }

    /// Returns the pinned host memory that contains an address: first address and size in bytes.
    pub fn find_pinned(&self, at: HostAddr) -> Option<(HostAddr, u64)> {
        let (first, bytes) = self.pinned.range(..=at).next_back()?;
        (at.get() - first.get() < *bytes).then_some((*first, *bytes))
    }

    /// Returns the range shared by host and device that contains an address.
    pub fn find_shared(&self, at: GpuVa) -> Option<SharedRange> {
        if let Some((first, bytes)) = self.find_pinned(HostAddr::from_shared(at)) {
            return Some(SharedRange {
                at: first.to_shared(),
                bytes,
                managed: false,
            });
        }
        self.managed()
            .find(|range| at >= range.at && at - range.at < range.bytes)
    }

    /// Returns all managed memory.
    pub fn managed(&self) -> impl Iterator<Item = SharedRange> + '_ {
        let managed = self
            .driver_allocations
            .iter()
            .filter(|(_, o)| o.served == DriverMemoryKind::Managed);
        managed.map(|(at, o)| SharedRange {
            at: *at,
            bytes: o.bytes,
            managed: true,
        })
    }

    /// Adds an allocation that the driver served.
    pub fn add_driver_allocation(&mut self, at: GpuVa, bytes: u64, served: DriverMemoryKind) {
        let (context, device) = current_context_and_device().unwrap_or((0, -1));
        let own = DriverAllocation {
            bytes,
            served,
            context,
            device,
        };
        self.driver_allocations.insert(at, own);
    }

    /// Removes an allocation that the driver served, and returns its size in bytes.
    pub fn remove_driver_allocation(&mut self, at: GpuVa) -> Option<u64> {
        let own = self.driver_allocations.remove(&at)?;
        self.gone.push(at);
        Some(own.bytes)
    }

    /// Forgets a destroyed context with all of its allocations.
    pub fn forget_context(&mut self, context: usize) {
        let gone: Vec<GpuVa> = self
            .driver_allocations
            .iter()
            .filter(|(_, o)| o.context == context)
            .map(|(at, _)| *at)
            .collect();
        for at in gone {
            self.remove_driver_allocation(at);
        }
        let gone: Vec<GpuVa> = self
            .taken_in
            .iter()
            .filter(|(_, c)| **c == context)
            .map(|(at, _)| *at)
            .collect();
        for at in gone {
            // The event was destroyed with the context.
            self.deferred_frees.remove(at, true);
            let _ = self.free(at);
        }
    }

    /// Allows another device to access memory of this one: it can access the window's memory as it can the driver's.
    pub fn allow_peer(&mut self, other: CuDevice, owner: CuDevice) {
        self.mapped.allow_peer(other, owner);
    }

    /// Returns whether a device has any known memory.
    pub fn has_memory_on(&self, device: CuDevice) -> bool {
        self.mapped.device == device || self.driver_allocations.values().any(|o| o.device == device)
    }

    /// Returns the device of the window, or -1 if there is no window.
    pub fn device(&self) -> CuDevice {
        self.mapped.device
    }

    /// Returns whether an address is in known device memory.
    pub fn is_device(&self, at: GpuVa) -> bool {
        if self.is_in_window(at) {
            return true;
        }
        let own = self.driver_allocations.range(..=at).next_back();
        own.is_some_and(|(first, own)| at - *first < own.bytes)
    }

    /// Returns all memory of a snapshot by address, the window's memory first.
    pub fn pieces(&self) -> Vec<Piece> {
        let window = self.window.iter().flat_map(Window::allocations);
        let window = window
            .filter(|(at, _)| !self.deferred_frees.contains(*at))
            .map(|(at, bytes)| Piece {
                at,
                bytes,
                in_window: true,
            });
        let own = self
            .driver_allocations
            .iter()
            .filter(|(_, o)| !matches!(o.served, DriverMemoryKind::OfGraph | DriverMemoryKind::Mapped) && o.bytes > 0);
        let own = own.map(|(at, o)| Piece {
            at: *at,
            bytes: o.bytes,
            in_window: false,
        });
        window.chain(own).collect()
    }

    /// Returns the first addresses of memory freed since the last call.
    pub fn take_freed(&mut self) -> Vec<GpuVa> {
        std::mem::take(&mut self.gone)
    }

    /// Returns whether functions in a context of a device can access a piece, word by word to its end.
    pub fn is_accessible(&self, piece: &Piece, (context, device): (usize, CuDevice)) -> bool {
        if piece.in_window {
            return device == self.mapped.device;
        }
        let whole = piece.at.is_aligned(8) && piece.bytes.is_multiple_of(8);
        let own = self.driver_allocations.get(&piece.at);
        // Memory that the program maps itself belongs to no context.
        let is_of = |o: &DriverAllocation| o.context == context || o.context == 0 && o.device == device;
        whole && own.is_some_and(|o| o.served == DriverMemoryKind::Plain && is_of(o))
    }
}

/// Returns whether an address is in device memory; the driver is queried if it is unknown here.
pub(crate) fn is_device(memory: &Mutex<Memory>, at: GpuVa) -> bool {
    if lock(memory).is_device(at) {
        return true;
    }
    let mut kind = 0u32;
    // SAFETY: the query has a valid pointer for the answer, which is four bytes.
    let asked = unsafe { driver().cuPointerGetAttribute((&raw mut kind).cast(), POINTER_MEMORY_TYPE, at.get()) };
    asked.is_ok() && kind == MEMORY_DEVICE
}

/// Returns whether the driver knows host memory in a range: copies from and to it run while the program continues.
pub(crate) fn is_pinned(memory: &Mutex<Memory>, at: HostAddr, end: HostAddr) -> bool {
    let memory = lock(memory);
    let before = memory.pinned.range(..end).next_back();
    let pinned = before.is_some_and(|(first, bytes)| first.saturating_add(*bytes) > at);
    drop(memory);
    pinned || {
        let mut kind = 0u32;
        // SAFETY: the query has a valid pointer for the answer, which is four bytes.
        unsafe { driver().cuPointerGetAttribute((&raw mut kind).cast(), POINTER_MEMORY_TYPE, at.get()) }.is_ok()
    }
}

//! Device memory: allocations are served from one address window, so that a replay finds the same addresses free.

use crate::deferred_frees::{DeferredFreeId, DeferredFrees, FreeCondition};
use crate::mappings::Mappings;
use crate::recorder::Recorder;
use crate::resolve::driver;
use crate::shared_memory::SharedRange;
use cuda_driver::{
    ACCESS_READ_WRITE, ALLOCATION_PINNED, AccessDescription, AllocationProperties, CuContext, CuDevice, CudaError,
    DEVICE_VIRTUAL_MEMORY, LOCATION_DEVICE, MEMORY_DEVICE, MemLocation, POINTER_MEMORY_TYPE,
};
use cuda_session::{Backing, GRANULE, Window, WindowError};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use trace_core::recording::CallWindow;

/// First address of the window: drivers grant it on request, and programs and their libraries do not use it.
pub(crate) const WINDOW_BASE: u64 = 0x1539_4000_0000;
/// Size of the window if the driver grants it, bytes: addresses cost nothing.
pub(crate) const WINDOW_BYTES: u64 = 1 << 40;
/// `CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED`.
const DEVICE_DIRECT_RDMA: i32 = 110;
/// Minimum size of the window, bytes.
const MIN_WINDOW: u64 = 16 << 30;

const _: () = assert!(WINDOW_BASE.is_multiple_of(GRANULE));

/// A piece of memory in a snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// First address.
    pub at: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// The piece was served from the window.
    pub in_window: bool,
}

impl Piece {
    /// Returns the piece of a module's variable.
    pub fn variable((at, bytes): (u64, u64)) -> Self {
        Self {
            at,
            bytes,
            in_window: false,
        }
    }
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
    taken_in: BTreeMap<u64, usize>,
    /// Allocations of the window that the program has freed but that can still be in use.
    deferred_frees: DeferredFrees,
    /// Allocations that the driver served itself, by first address.
    driver_allocations: BTreeMap<u64, DriverAllocation>,
    /// First addresses of memory freed since the last query.
    gone: Vec<u64>,
    /// Pinned host memory: first address and size in bytes.
    pub pinned: BTreeMap<u64, u64>,
    /// Addresses that the program reserved, and physical memory that it mapped there.
    pub mappings: Mappings,
}

/// Physical memory of the window.
struct WindowBacking {
    device: CuDevice,
    /// Mappings by first address: size in bytes and the memory's handle.
    handles: BTreeMap<u64, (u64, u64)>,
    /// Other devices that the program allows to access this device's memory.
    peers: Vec<CuDevice>,
    /// Network cards and similar devices can access it as well, as they can the driver's own memory.
    direct: bool,
}

impl WindowBacking {
    /// Sets which devices can access a mapping.
    fn allow(&self, at: u64, bytes: u64) -> Result<(), CudaError> {
        let of = |id: CuDevice| AccessDescription {
            location: MemLocation {
                kind: LOCATION_DEVICE,
                id,
            },
            flags: ACCESS_READ_WRITE,
        };
        let all: Vec<AccessDescription> = [self.device].iter().chain(&self.peers).map(|id| of(*id)).collect();
        // SAFETY: the mapping is in the window, and there are as many structures as the length says.
        unsafe { driver().cuMemSetAccess(at, bytes as usize, all.as_ptr(), all.len()) }
    }
}

impl Backing for WindowBacking {
    type Error = CudaError;

    fn map(&mut self, at: u64, bytes: u64) -> Result<(), CudaError> {
        let d = driver();
        let length = bytes as usize;
        let location = MemLocation {
            kind: LOCATION_DEVICE,
            id: self.device,
        };
        let properties = AllocationProperties {
            kind: ALLOCATION_PINNED,
            handle_types: 0,
            location,
            win32: std::ptr::null_mut(),
            flags: [0, u8::from(self.direct), 0, 0, 0, 0, 0, 0],
        };
        let mut handle = 0;
        // SAFETY: the structures belong to this function. The addresses are in the window, reserved and not mapped.
        unsafe { d.cuMemCreate(&raw mut handle, length, &raw const properties, 0)? };
        // SAFETY: as above.
        let mapped = unsafe { d.cuMemMap(at, length, 0, handle, 0) }.and_then(|()| {
            self.allow(at, bytes).inspect_err(|_| {
                // SAFETY: the range was just mapped.
                let _ = unsafe { d.cuMemUnmap(at, length) };
            })
        });
        if let Err(e) = mapped {
            // SAFETY: the memory is not mapped.
            let _ = unsafe { d.cuMemRelease(handle) };
            return Err(e);
        }
        self.handles.insert(at, (bytes, handle));
        Ok(())
    }

    fn unmap(&mut self, at: u64, bytes: u64) -> Result<(), CudaError> {
        let d = driver();
        // SAFETY: the mapping is in this window and unused: the caller waited for the device before the free.
        unsafe { d.cuMemUnmap(at, bytes as usize)? };
        match self.handles.remove(&at) {
            // SAFETY: the memory is not mapped any more.
            Some((_, handle)) => unsafe { d.cuMemRelease(handle) },
            None => Ok(()),
        }
    }
}

/// Why an allocation is not served from the window. The driver then serves it, and reports its own errors.
pub(crate) enum WindowRefusal {
    /// There is no window, or it belongs to another device.
    NoWindow,
    /// The window has no room or no memory left, or the memory could not be mapped.
    Refused,
}

/// Returns the context of the calling thread, and its device.
pub(crate) fn current_context_and_device() -> Option<(usize, CuDevice)> {
    let d = driver();
    let (mut device, mut context): (CuDevice, CuContext) = (0, std::ptr::null_mut());
    // SAFETY: the queries have valid pointers for the answers.
    let asked = unsafe {
        d.cuCtxGetCurrent(&raw mut context)
            .and_then(|()| d.cuCtxGetDevice(&raw mut device))
    };
    (asked.is_ok() && !context.is_null()).then_some((context as usize, device))
}

/// Returns the context of the calling thread, or 0 if it has none.
pub(crate) fn current_context() -> usize {
    let mut context: CuContext = std::ptr::null_mut();
    // SAFETY: the query has a valid pointer for the answer.
    let asked = unsafe { driver().cuCtxGetCurrent(&raw mut context) };
    asked.map_or(0, |()| context as usize)
}

impl Memory {
    pub fn new(wanted: bool) -> Self {
        Self {
            wanted,
            window: None,
            mapped: WindowBacking {
                device: -1,
                handles: BTreeMap::new(),
                peers: Vec::new(),
                direct: false,
            },
            taken_in: BTreeMap::new(),
            deferred_frees: DeferredFrees::default(),
            driver_allocations: BTreeMap::new(),
            gone: Vec::new(),
            pinned: BTreeMap::new(),
            mappings: Mappings::default(),
        }
    }

    /// Reserves the window on the first call.
    fn reserve(&mut self, recorder: &Recorder) {
        if !self.wanted || self.window.is_some() {
            return;
        }
        match reserve() {
            Ok((window, device)) => {
                let mut direct = 0;
                // SAFETY: the query has a valid pointer for the answer.
                let asked = unsafe { driver().cuDeviceGetAttribute(&raw mut direct, DEVICE_DIRECT_RDMA, device) };
                self.mapped.direct = asked.is_ok() && direct != 0;
                let (base, bytes) = window.range();
                let mut tables = recorder.session.tables();
                tables.metadata.window = CallWindow { base, bytes };
                tables.mark_changed();
                self.mapped.device = device;
                self.window = Some(window);
            }
            Err(why) => {
                self.wanted = false;
                recorder.note_not_recorded(
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
    pub fn take(&mut self, recorder: &Recorder, bytes: u64) -> Result<u64, WindowRefusal> {
        self.reserve(recorder);
        self.reclaim(recorder, &[]);
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
    pub fn find_piece(&self, at: u64) -> Option<(u64, usize)> {
        let (first, bytes) = self.window.as_ref()?.find(at)?;
        let is_taken = first == at && !self.deferred_frees.contains(at);
        is_taken.then(|| (bytes, self.taken_in.get(&at).copied().unwrap_or(0)))
    }

    /// Returns the window allocation that contains an address: first address, size in bytes, context.
    pub fn find_containing(&self, at: u64) -> Option<(u64, u64, usize)> {
        let (first, bytes) = self.window.as_ref()?.find(at)?;
        Some((first, bytes, self.taken_in.get(&first).copied().unwrap_or(0)))
    }

    /// Returns whether allocations are served from addresses that the recorder chooses.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Adds device memory that the program mapped; it is accessible once the program grants access.
    pub fn add_mapping(&mut self, at: u64, bytes: u64, device: CuDevice) {
        let own = DriverAllocation {
            bytes,
            served: DriverMemoryKind::Mapped,
            context: 0,
            device,
        };
        self.driver_allocations.insert(at, own);
    }

    /// Grants or revokes the device's access to the mappings in a range.
    pub fn allow_mapped(&mut self, at: u64, bytes: u64, allowed: bool) {
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
    pub fn is_in_window(&self, at: u64) -> bool {
        self.window.as_ref().is_some_and(|w| w.contains(at))
    }

    /// Frees an unused allocation of the window.
    pub fn free(&mut self, at: u64) -> Result<(), CudaError> {
        self.gone.push(at);
        self.taken_in.remove(&at);
        self.deferred_frees.remove(at, false);
        match self.window.as_mut().and_then(|w| w.free(at, &mut self.mapped)) {
            Some(Err(e)) => Err(e),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Defers the free of a window allocation that the program no longer owns.
    pub fn defer_free(&mut self, at: u64, until: FreeCondition) {
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
    pub fn reclaim(&mut self, recorder: &Recorder, idle: &[DeferredFreeId]) {
        if self.deferred_frees.is_empty() {
            return;
        }
        let idle = idle.iter().filter(|leaver| self.deferred_frees.is_pending(**leaver));
        let mut done: Vec<u64> = idle.map(|(at, _)| *at).collect();
        if recorder.captures.load(Ordering::Relaxed) == 0 {
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

    /// Returns the range shared by host and device that contains an address.
    pub fn find_shared(&self, at: u64) -> Option<SharedRange> {
        let pinned = self.pinned.range(..=at).next_back();
        if let Some((first, bytes)) = pinned.filter(|(first, bytes)| at - **first < **bytes) {
            return Some(SharedRange {
                at: *first,
                bytes: *bytes,
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
    pub fn add_driver_allocation(&mut self, at: u64, bytes: u64, served: DriverMemoryKind) {
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
    pub fn remove_driver_allocation(&mut self, at: u64) -> Option<u64> {
        let own = self.driver_allocations.remove(&at)?;
        self.gone.push(at);
        Some(own.bytes)
    }

    /// Forgets a destroyed context with all of its allocations.
    pub fn forget_context(&mut self, context: usize) {
        let gone: Vec<u64> = self
            .driver_allocations
            .iter()
            .filter(|(_, o)| o.context == context)
            .map(|(at, _)| *at)
            .collect();
        for at in gone {
            self.remove_driver_allocation(at);
        }
        let gone: Vec<u64> = self
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
        if owner != self.mapped.device || other == owner || self.mapped.peers.contains(&other) {
            return;
        }
        self.mapped.peers.push(other);
        let all: Vec<(u64, u64)> = self
            .mapped
            .handles
            .iter()
            .map(|(at, (bytes, _))| (*at, *bytes))
            .collect();
        // If one mapping is refused, so are the others.
        let allowed = all.iter().try_for_each(|(at, bytes)| self.mapped.allow(*at, *bytes));
        if allowed.is_err() {
            self.mapped.peers.retain(|peer| *peer != other);
        }
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
    pub fn is_device(&self, at: u64) -> bool {
        if self.is_in_window(at) {
            return true;
        }
        let own = self.driver_allocations.range(..=at).next_back();
        own.is_some_and(|(first, own)| at - first < own.bytes)
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
    pub fn take_freed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.gone)
    }

    /// Returns whether functions in a context of a device can access a piece, word by word to its end.
    pub fn is_accessible(&self, piece: &Piece, (context, device): (usize, CuDevice)) -> bool {
        if piece.in_window {
            return device == self.mapped.device;
        }
        let whole = piece.at.is_multiple_of(8) && piece.bytes.is_multiple_of(8);
        let own = self.driver_allocations.get(&piece.at);
        // Memory that the program maps itself belongs to no context.
        let is_of = |o: &DriverAllocation| o.context == context || o.context == 0 && o.device == device;
        whole && own.is_some_and(|o| o.served == DriverMemoryKind::Plain && is_of(o))
    }
}

/// Reserves a range at a fixed address, or a shorter one if the driver does not grant the whole size.
pub(crate) fn reserve_at(base: u64, max: u64, min: u64) -> Result<u64, String> {
    let d = driver();
    let mut bytes = max;
    let mut last = String::new();
    while bytes >= min {
        let mut at = 0;
        // SAFETY: the call only reserves addresses; the driver returns where.
        match unsafe { d.cuMemAddressReserve(&raw mut at, bytes as usize, 0, base, 0) } {
            Ok(()) if at == base => return Ok(bytes),
            Ok(()) => {
                last = format!("the driver returned {at:#x} instead of {base:#x}");
                // SAFETY: the range was just reserved and is not used.
                let _ = unsafe { d.cuMemAddressFree(at, bytes as usize) };
            }
            Err(e) => last = e.to_string(),
        }
        bytes /= 4;
    }
    Err(last)
}

/// Reserves the window.
fn reserve() -> Result<(Window, CuDevice), String> {
    let d = driver();
    let (mut device, mut able) = (0, 0);
    // SAFETY: the queries have valid pointers for the answers.
    unsafe {
        d.cuCtxGetDevice(&raw mut device).map_err(|e| e.to_string())?;
        d.cuDeviceGetAttribute(&raw mut able, DEVICE_VIRTUAL_MEMORY, device)
            .map_err(|e| e.to_string())?;
    }
    if able == 0 {
        return Err("the device cannot map memory at chosen addresses".to_owned());
    }
    let bytes = reserve_at(WINDOW_BASE, WINDOW_BYTES, MIN_WINDOW)?;
    Ok((Window::new(WINDOW_BASE, bytes), device))
}

impl Recorder {
    /// Returns whether an address is in device memory; the driver is queried if it is unknown here.
    pub fn is_device(&self, at: u64) -> bool {
        if crate::recorder::lock(&self.memory).is_device(at) {
            return true;
        }
        let mut kind = 0u32;
        // SAFETY: the query has a valid pointer for the answer, which is four bytes.
        let asked = unsafe { driver().cuPointerGetAttribute((&raw mut kind).cast(), POINTER_MEMORY_TYPE, at) };
        asked.is_ok() && kind == MEMORY_DEVICE
    }
}

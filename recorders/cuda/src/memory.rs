//! Memory of the device: allocations are served from one window of addresses, so that a replay finds the same ones
//! free.

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

/// Where the window begins: an address that drivers give to whoever asks for it, and that programs and their libraries
/// leave alone.
pub(crate) const WINDOW_BASE: u64 = 0x1539_4000_0000;
/// How long the window is, where the driver gives as much: addresses cost nothing.
pub(crate) const WINDOW_BYTES: u64 = 1 << 40;
/// `CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED`.
const DEVICE_DIRECT_RDMA: i32 = 110;
/// The shortest window that is tried.
const MIN_WINDOW: u64 = 16 << 30;

const _: () = assert!(WINDOW_BASE.is_multiple_of(GRANULE));

/// A piece of memory that a snapshot tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// First byte.
    pub at: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Whether it was served from the window.
    pub in_window: bool,
}

impl Piece {
    /// A variable of a module.
    pub fn variable((at, bytes): (u64, u64)) -> Self {
        Self {
            at,
            bytes,
            in_window: false,
        }
    }
}

/// What memory is that the driver served itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DriverMemoryKind {
    /// The device's.
    Plain,
    /// Memory that host and device share.
    Managed,
    /// A graph's own, which is there while the graph runs.
    OfGraph,
    /// The device's, which the program mapped itself and which nobody reaches yet.
    Mapped,
}

#[derive(Clone, Copy, Debug)]
struct DriverAllocation {
    bytes: u64,
    served: DriverMemoryKind,
    context: usize,
    device: CuDevice,
}

/// What is known of the device's memory.
pub(crate) struct Memory {
    /// Whether a window is wanted.
    wanted: bool,
    window: Option<Window>,
    mapped: WindowBacking,
    /// The context that each piece of the window was taken in.
    taken_in: BTreeMap<u64, usize>,
    /// Pieces of the window that the program has given back and that may still be used.
    deferred_frees: DeferredFrees,
    /// Allocations that the driver served itself, by first address.
    driver_allocations: BTreeMap<u64, DriverAllocation>,
    /// First bytes of what was given back since somebody asked.
    gone: Vec<u64>,
    /// Memory of the host that is pinned: first byte and bytes.
    pub pinned: BTreeMap<u64, u64>,
    /// Addresses that the program reserved, and physical memory that it mapped there.
    pub mappings: Mappings,
}

/// Physical memory behind the window.
struct WindowBacking {
    device: CuDevice,
    /// What is mapped: by first byte, bytes and the memory's handle.
    handles: BTreeMap<u64, (u64, u64)>,
    /// Other devices that the program lets reach this one's memory.
    peers: Vec<CuDevice>,
    /// Whether network cards and the like may reach it too, as they may the driver's own.
    direct: bool,
}

impl WindowBacking {
    /// Says who may reach a mapping.
    fn allow(&self, at: u64, bytes: u64) -> Result<(), CudaError> {
        let of = |id: CuDevice| AccessDescription {
            location: MemLocation {
                kind: LOCATION_DEVICE,
                id,
            },
            flags: ACCESS_READ_WRITE,
        };
        let all: Vec<AccessDescription> = [self.device].iter().chain(&self.peers).map(|id| of(*id)).collect();
        // SAFETY: a mapping of the window, and as many forms as are told.
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
        // SAFETY: forms of this function, and addresses of the window, which is reserved and not mapped there.
        unsafe { d.cuMemCreate(&raw mut handle, length, &raw const properties, 0)? };
        // SAFETY: as above.
        let mapped = unsafe { d.cuMemMap(at, length, 0, handle, 0) }.and_then(|()| {
            self.allow(at, bytes).inspect_err(|_| {
                // SAFETY: what was just mapped.
                let _ = unsafe { d.cuMemUnmap(at, length) };
            })
        });
        if let Err(e) = mapped {
            // SAFETY: the memory is mapped nowhere.
            let _ = unsafe { d.cuMemRelease(handle) };
            return Err(e);
        }
        self.handles.insert(at, (bytes, handle));
        Ok(())
    }

    fn unmap(&mut self, at: u64, bytes: u64) -> Result<(), CudaError> {
        let d = driver();
        // SAFETY: a mapping of this window, which nothing uses: whoever gives it back waited for the device.
        unsafe { d.cuMemUnmap(at, bytes as usize)? };
        match self.handles.remove(&at) {
            // SAFETY: mapped nowhere any more.
            Some((_, handle)) => unsafe { d.cuMemRelease(handle) },
            None => Ok(()),
        }
    }
}

/// Why an allocation is not served from the window: the driver serves it, and says itself what it has against that.
pub(crate) enum WindowRefusal {
    /// There is no window, or it is of another device.
    NoWindow,
    /// There is no room or no memory left in it, or the memory could not be mapped.
    Refused,
}

/// The context of the calling thread, and its device.
pub(crate) fn current_context_and_device() -> Option<(usize, CuDevice)> {
    let d = driver();
    let (mut device, mut context): (CuDevice, CuContext) = (0, std::ptr::null_mut());
    // SAFETY: questions with places for the answers.
    let asked = unsafe {
        d.cuCtxGetCurrent(&raw mut context)
            .and_then(|()| d.cuCtxGetDevice(&raw mut device))
    };
    (asked.is_ok() && !context.is_null()).then_some((context as usize, device))
}

/// The context of the calling thread; 0: none.
pub(crate) fn current_context() -> usize {
    let mut context: CuContext = std::ptr::null_mut();
    // SAFETY: a question with a place for the answer.
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

    /// Reserves the window, at the first call.
    fn reserve(&mut self, recorder: &Recorder) {
        if !self.wanted || self.window.is_some() {
            return;
        }
        match reserve() {
            Ok((window, device)) => {
                let mut direct = 0;
                // SAFETY: a question with a place for the answer.
                let asked = unsafe { driver().cuDeviceGetAttribute(&raw mut direct, DEVICE_DIRECT_RDMA, device) };
                self.mapped.direct = asked.is_ok() && direct != 0;
                let (base, bytes) = window.range();
                let mut tables = recorder.session.tables();
                tables.facts.window = CallWindow { base, bytes };
                tables.mark_changed();
                self.mapped.device = device;
                self.window = Some(window);
            }
            Err(why) => {
                self.wanted = false;
                recorder.note_not_recorded(
                    "window",
                    format!("allocations could not be served from one range of addresses ({why}): they are the driver's own, and a replay may not find their addresses free"),
                );
            }
        }
    }

    /// `bytes` bytes from the window, at least 1: their address.
    pub fn take(&mut self, recorder: &Recorder, bytes: u64) -> Result<u64, WindowRefusal> {
        self.reserve(recorder);
        self.reclaim(recorder, &[]);
        let here = current_context_and_device();
        let window = self.window.as_mut().ok_or(WindowRefusal::NoWindow)?;
        // The window is of the device that was used first.
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

    /// What of the window begins at an address and is the program's: its bytes, and the context that it was taken in.
    pub fn find_piece(&self, at: u64) -> Option<(u64, usize)> {
        let (first, bytes) = self.window.as_ref()?.find(at)?;
        let is_taken = first == at && !self.deferred_frees.contains(at);
        is_taken.then(|| (bytes, self.taken_in.get(&at).copied().unwrap_or(0)))
    }

    /// The piece of the window that an address lies in: first byte, bytes, context.
    pub fn find_containing(&self, at: u64) -> Option<(u64, u64, usize)> {
        let (first, bytes) = self.window.as_ref()?.find(at)?;
        Some((first, bytes, self.taken_in.get(&first).copied().unwrap_or(0)))
    }

    /// Whether allocations are served from addresses that the recorder chooses.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// The program mapped memory of the device; it is reached once it is said who may.
    pub fn add_mapping(&mut self, at: u64, bytes: u64, device: CuDevice) {
        let own = DriverAllocation {
            bytes,
            served: DriverMemoryKind::Mapped,
            context: 0,
            device,
        };
        self.driver_allocations.insert(at, own);
    }

    /// The program said that the device may reach what is mapped in a range, or that it may not.
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

    /// Whether an address lies in the window, whatever is there.
    pub fn is_in_window(&self, at: u64) -> bool {
        self.window.as_ref().is_some_and(|w| w.contains(at))
    }

    /// Gives back a piece of the window that nothing uses.
    pub fn free(&mut self, at: u64) -> Result<(), CudaError> {
        self.gone.push(at);
        self.taken_in.remove(&at);
        self.deferred_frees.remove(at, false);
        match self.window.as_mut().and_then(|w| w.free(at, &mut self.mapped)) {
            Some(Err(e)) => Err(e),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// A piece of the window is the program's no more, and is given back later.
    pub fn defer_free(&mut self, at: u64, until: FreeCondition) {
        self.gone.push(at);
        let context = self.taken_in.get(&at).copied().unwrap_or(0);
        self.deferred_frees.insert(at, until, context);
    }

    /// What is free once a context was waited for: asked before the wait, since more may leave meanwhile.
    pub fn list_idle(&self, context: usize) -> Vec<DeferredFreeId> {
        self.deferred_frees.list_idle(context)
    }

    /// Gives back what is used no more: pieces whose context was waited for since they left, and those whose events are
    /// done.
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
            // What cannot be unmapped stays mapped; its addresses are free.
            let _ = self.free(at);
        }
    }

    /// Whether something leaves that is still used.
    pub fn has_deferred_frees(&self) -> bool {
        !self.deferred_frees.is_empty()
    }

    /// The memory which host and device share that an address lies in.
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

    /// All managed memory.
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

    /// An allocation that the driver served.
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

    /// One is given back: its bytes.
    pub fn remove_driver_allocation(&mut self, at: u64) -> Option<u64> {
        let own = self.driver_allocations.remove(&at)?;
        self.gone.push(at);
        Some(own.bytes)
    }

    /// A context is gone, with all that was taken in it.
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
            // Its event went with the context.
            self.deferred_frees.remove(at, true);
            let _ = self.free(at);
        }
    }

    /// The program lets another device reach memory of this one: it reaches the window's as it does the driver's.
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
        // Where one is refused, so are the others.
        let allowed = all.iter().try_for_each(|(at, bytes)| self.mapped.allow(*at, *bytes));
        if allowed.is_err() {
            self.mapped.peers.retain(|peer| *peer != other);
        }
    }

    /// Whether anything is known to be on a device.
    pub fn has_memory_on(&self, device: CuDevice) -> bool {
        self.mapped.device == device || self.driver_allocations.values().any(|o| o.device == device)
    }

    /// The device that the window is of; -1: there is none.
    pub fn device(&self) -> CuDevice {
        self.mapped.device
    }

    /// Whether an address is of the device's memory, as far as is known here.
    pub fn is_device(&self, at: u64) -> bool {
        if self.is_in_window(at) {
            return true;
        }
        let own = self.driver_allocations.range(..=at).next_back();
        own.is_some_and(|(first, own)| at - first < own.bytes)
    }

    /// All memory that a snapshot tells, by address: that of the window first.
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

    /// What was given back since this was last asked: first bytes.
    pub fn take_freed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.gone)
    }

    /// Whether functions that run in a context of a device reach a piece, word by word to its end.
    pub fn is_accessible(&self, piece: &Piece, (context, device): (usize, CuDevice)) -> bool {
        if piece.in_window {
            return device == self.mapped.device;
        }
        let whole = piece.at.is_multiple_of(8) && piece.bytes.is_multiple_of(8);
        let own = self.driver_allocations.get(&piece.at);
        // What the program maps itself belongs to no context.
        let is_of = |o: &DriverAllocation| o.context == context || o.context == 0 && o.device == device;
        whole && own.is_some_and(|o| o.served == DriverMemoryKind::Plain && is_of(o))
    }
}

/// Asks for a range of addresses at its place, a shorter one where the driver does not give the whole.
pub(crate) fn reserve_at(base: u64, most: u64, least: u64) -> Result<u64, String> {
    let d = driver();
    let mut bytes = most;
    let mut last = String::new();
    while bytes >= least {
        let mut at = 0;
        // SAFETY: a range of addresses alone; the driver says where it is.
        match unsafe { d.cuMemAddressReserve(&raw mut at, bytes as usize, 0, base, 0) } {
            Ok(()) if at == base => return Ok(bytes),
            Ok(()) => {
                last = format!("the driver gave {at:#x} in the place of {base:#x}");
                // SAFETY: what was just reserved, and is not used.
                let _ = unsafe { d.cuMemAddressFree(at, bytes as usize) };
            }
            Err(e) => last = e.to_string(),
        }
        bytes /= 4;
    }
    Err(last)
}

/// Asks for the window.
fn reserve() -> Result<(Window, CuDevice), String> {
    let d = driver();
    let (mut device, mut able) = (0, 0);
    // SAFETY: questions with places for the answers.
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
    /// Whether an address is of the device's memory; the driver is asked where it is not known here.
    pub fn is_device(&self, at: u64) -> bool {
        if crate::recorder::lock(&self.memory).is_device(at) {
            return true;
        }
        let mut kind = 0u32;
        // SAFETY: a question with a place for the answer, which is of four bytes.
        let asked = unsafe { driver().cuPointerGetAttribute((&raw mut kind).cast(), POINTER_MEMORY_TYPE, at) };
        asked.is_ok() && kind == MEMORY_DEVICE
    }
}

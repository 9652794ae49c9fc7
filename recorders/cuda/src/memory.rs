//! Memory of the device: allocations are served from one window of addresses, so that a replay finds the same ones free.

use crate::recorder::{Form, Recorder, is_ok, lock};
use crate::resolve::driver;
use cuda_driver::{
    ACCESS_READ_WRITE, ALLOCATION_PINNED, AccessDescription, AllocationProperties, CuDevice, CuDevicePtr, CuMemPool,
    CuResult, CuStream, CudaError, DEVICE_VIRTUAL_MEMORY, LOCATION_DEVICE, MEMORY_DEVICE, MemLocation, OUT_OF_MEMORY,
    POINTER_MEMORY_TYPE, SUCCESS,
};
use cuda_session::{Backing, Begun, GRANULE, Window, WindowError, With};
use libc::c_void;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use trace_core::recording::{
    AllocationKind, AllocationRow, CALL_ASYNC, CallEvent, CallWindow, CopyKind, CopyRow, OrderRow,
};

/// Where the window begins: an address that drivers give to whoever asks for it, and that programs and their libraries
/// leave alone.
const WINDOW_BASE: u64 = 0x1539_4000_0000;
/// How long the window is, where the driver gives as much: addresses cost nothing.
const WINDOW_BYTES: u64 = 1 << 40;
/// The shortest window that is tried.
const LEAST_WINDOW: u64 = 16 << 30;
/// Bytes that a snapshot reads at once.
const PIECE: usize = 64 << 20;

/// What is known of the device's memory.
pub(crate) struct Memory {
    /// Whether a window is wanted.
    wanted: bool,
    window: Option<Window>,
    mapped: Mapped,
    /// Allocations that the driver served itself, by first address.
    own: BTreeMap<u64, u64>,
    /// Memory of the host that is pinned: first byte and bytes.
    pinned: BTreeMap<u64, u64>,
}

/// Physical memory behind the window.
struct Mapped {
    device: CuDevice,
    handles: BTreeMap<u64, u64>,
}

impl Backing for Mapped {
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
            flags: [0; 8],
        };
        let mut handle = 0;
        // SAFETY: forms of this function, and addresses of the window, which is reserved and not mapped there.
        unsafe { d.cuMemCreate(&raw mut handle, length, &raw const properties, 0)? };
        let access = AccessDescription {
            location,
            flags: ACCESS_READ_WRITE,
        };
        // SAFETY: as above.
        let mapped = unsafe {
            d.cuMemMap(at, length, 0, handle, 0).and_then(|()| {
                d.cuMemSetAccess(at, length, &raw const access, 1).inspect_err(|_| {
                    let _ = d.cuMemUnmap(at, length);
                })
            })
        };
        if let Err(e) = mapped {
            // SAFETY: the memory is mapped nowhere.
            let _ = unsafe { d.cuMemRelease(handle) };
            return Err(e);
        }
        self.handles.insert(at, handle);
        Ok(())
    }

    fn unmap(&mut self, at: u64, bytes: u64) -> Result<(), CudaError> {
        let d = driver();
        // SAFETY: a mapping of this window, which nothing uses: whoever gives it back waited for the device.
        unsafe { d.cuMemUnmap(at, bytes as usize)? };
        match self.handles.remove(&at) {
            // SAFETY: mapped nowhere any more.
            Some(handle) => unsafe { d.cuMemRelease(handle) },
            None => Ok(()),
        }
    }
}

impl Memory {
    pub fn new(wanted: bool) -> Self {
        Self {
            wanted,
            window: None,
            mapped: Mapped {
                device: -1,
                handles: BTreeMap::new(),
            },
            own: BTreeMap::new(),
            pinned: BTreeMap::new(),
        }
    }

    /// The window, reserved at the first call. `None`: there is none, and the driver serves allocations itself.
    fn window(&mut self, recorder: &Recorder) -> Option<(&mut Window, &mut Mapped)> {
        if self.wanted && self.window.is_none() {
            match reserve() {
                Ok((window, device)) => {
                    let (base, bytes) = window.range();
                    let mut tables = recorder.session.tables();
                    tables.facts.window = CallWindow { base, bytes };
                    tables.touch();
                    self.mapped.device = device;
                    self.window = Some(window);
                }
                Err(why) => {
                    self.wanted = false;
                    recorder.not_recorded(
                        "window",
                        format!("allocations could not be served from one range of addresses ({why}): they are the driver's own, and a replay may not find their addresses free"),
                    );
                }
            }
        }
        let mut device = 0;
        // SAFETY: a question with a place for the answer.
        let asked = unsafe { driver().cuCtxGetDevice(&raw mut device) };
        // The window is of the device that was used first.
        if asked.is_err() || device != self.mapped.device {
            return None;
        }
        self.window.as_mut().map(|w| (w, &mut self.mapped))
    }

    /// Whether an address is of the device's memory, as far as is known here.
    pub fn is_device(&self, at: u64) -> bool {
        if self.window.as_ref().is_some_and(|w| w.holds(at)) {
            return true;
        }
        let own = self.own.range(..=at).next_back();
        own.is_some_and(|(first, bytes)| at - first < *bytes)
    }

    fn all(&self) -> Vec<(u64, u64)> {
        let window = self.window.iter().flat_map(Window::allocations);
        let own = self.own.iter().map(|(at, bytes)| (*at, *bytes));
        window.chain(own).collect()
    }
}

/// Asks for the window at its address, a shorter one where the driver does not give the whole.
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
    let mut bytes = WINDOW_BYTES;
    let mut last = String::new();
    while bytes >= LEAST_WINDOW {
        let mut at = 0;
        // SAFETY: a range of addresses alone; the driver says where it is.
        match unsafe { d.cuMemAddressReserve(&raw mut at, bytes as usize, 0, WINDOW_BASE, 0) } {
            Ok(()) if at == WINDOW_BASE => return Ok((Window::new(at, bytes), device)),
            Ok(()) => {
                last = format!("the driver gave {at:#x} in the place of {WINDOW_BASE:#x}");
                // SAFETY: what was just reserved, and is not used.
                let _ = unsafe { d.cuMemAddressFree(at, bytes as usize) };
            }
            Err(e) => last = e.to_string(),
        }
        bytes /= 4;
    }
    Err(last)
}

type Call<'a> = &'a mut dyn FnMut() -> CuResult;

fn told(r: &Recorder, begun: Begun, kind: AllocationKind, at: u64, bytes: u64, stream: u32, result: CuResult) {
    let row = AllocationRow {
        at,
        bytes,
        kind: kind as u32,
        stream,
        result,
        took: begun.took(),
    };
    r.hand(begun, CallEvent::Allocation(row), With::Nothing);
}

/// `bytes` bytes from the window: their address, or what the driver answered. `None`: the driver shall serve them.
fn take(r: &Recorder, bytes: u64) -> Option<Result<u64, CuResult>> {
    if bytes == 0 {
        return None;
    }
    let mut memory = lock(&r.memory);
    let (window, mapped) = memory.window(r)?;
    match window.take(bytes, mapped) {
        Ok(at) => Some(Ok(at)),
        Err(WindowError::Backing(CudaError::Refused { result, .. })) => Some(Err(result)),
        Err(WindowError::Full { .. }) => Some(Err(OUT_OF_MEMORY)),
        Err(WindowError::Backing(CudaError::Missing { .. })) => None,
    }
}

/// `cuMemAlloc`.
pub(crate) fn alloc(r: &Recorder, _form: Form, call: Call<'_>, at: *mut CuDevicePtr, bytes: usize) -> CuResult {
    r.tell_device();
    let begun = r.session.begun();
    let served = if at.is_null() { None } else { take(r, bytes as u64) };
    let result = match served {
        Some(Ok(address)) => {
            // SAFETY: the program's place for the answer, which is not null.
            unsafe { *at = address };
            SUCCESS
        }
        Some(Err(result)) => result,
        None => own(r, call, at, bytes as u64),
    };
    // SAFETY: the place holds the answer where the call succeeded.
    let address = if is_ok(result) { unsafe { *at } } else { 0 };
    told(
        r,
        begun,
        AllocationKind::Take,
        address,
        bytes as u64,
        OrderRow::NONE,
        result,
    );
    result
}

/// An allocation that the driver serves.
fn own(r: &Recorder, call: Call<'_>, at: *mut CuDevicePtr, bytes: u64) -> CuResult {
    let result = call();
    if is_ok(result) && !at.is_null() {
        // SAFETY: the driver has put the answer there.
        lock(&r.memory).own.insert(unsafe { *at }, bytes);
    }
    result
}

/// `cuMemAllocPitch`.
#[allow(clippy::too_many_arguments, reason = "those of the driver's function")]
pub(crate) fn alloc_pitch(
    r: &Recorder,
    _form: Form,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    _element: u32,
) -> CuResult {
    r.tell_device();
    let begun = r.session.begun();
    // Drivers round rows up to this much.
    let row = width.next_multiple_of(512);
    let bytes = row.checked_mul(height).filter(|b| *b > 0);
    let served = match bytes {
        Some(bytes) if !at.is_null() && !pitch.is_null() => take(r, bytes as u64),
        _ => None,
    };
    let result = match served {
        Some(Ok(address)) => {
            // SAFETY: the program's places for the answers, which are not null.
            unsafe {
                *at = address;
                *pitch = row;
            }
            SUCCESS
        }
        Some(Err(result)) => result,
        None => own(r, call, at, bytes.unwrap_or(0) as u64),
    };
    // SAFETY: the place holds the answer where the call succeeded.
    let address = if is_ok(result) { unsafe { *at } } else { 0 };
    let bytes = bytes.unwrap_or(0) as u64;
    told(r, begun, AllocationKind::Take, address, bytes, OrderRow::NONE, result);
    result
}

/// `cuMemAllocManaged`.
pub(crate) fn alloc_managed(
    r: &Recorder,
    _form: Form,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: usize,
    _flags: u32,
) -> CuResult {
    r.tell_device();
    let begun = r.session.begun();
    let result = own(r, call, at, bytes as u64);
    // SAFETY: the place holds the answer where the call succeeded.
    let address = if is_ok(result) { unsafe { *at } } else { 0 };
    r.not_recorded(
        "managed memory",
        "the program has memory that host and device share: what the host writes there is not seen, and a replay has it as it was filled by calls alone",
    );
    told(
        r,
        begun,
        AllocationKind::TakeManaged,
        address,
        bytes as u64,
        OrderRow::NONE,
        result,
    );
    result
}

/// `cuMemAllocAsync`.
pub(crate) fn alloc_async(
    r: &Recorder,
    form: Form,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: usize,
    stream: CuStream,
) -> CuResult {
    r.tell_device();
    let begun = r.session.begun();
    // Memory of a graph that is captured is the graph's own.
    let served = if at.is_null() || r.captured(stream, form) != 0 {
        None
    } else {
        take(r, bytes as u64)
    };
    let result = match served {
        Some(Ok(address)) => {
            // SAFETY: the program's place for the answer, which is not null.
            unsafe { *at = address };
            SUCCESS
        }
        Some(Err(result)) => result,
        None => own(r, call, at, bytes as u64),
    };
    // SAFETY: the place holds the answer where the call succeeded.
    let address = if is_ok(result) { unsafe { *at } } else { 0 };
    let stream = r.stream(stream, form);
    told(
        r,
        begun,
        AllocationKind::TakeInOrder,
        address,
        bytes as u64,
        stream,
        result,
    );
    result
}

/// `cuMemAllocFromPoolAsync`.
pub(crate) fn alloc_from_pool(
    r: &Recorder,
    form: Form,
    call: Call<'_>,
    at: *mut CuDevicePtr,
    bytes: usize,
    _pool: CuMemPool,
    stream: CuStream,
) -> CuResult {
    alloc_async(r, form, call, at, bytes, stream)
}

/// `cuMemFree`.
pub(crate) fn free(r: &Recorder, _form: Form, call: Call<'_>, at: CuDevicePtr) -> CuResult {
    let begun = r.session.begun();
    let (result, bytes) = give(r, call, at, || {
        // SAFETY: waits, as the driver's own function does before it gives memory back.
        unsafe { driver().cuCtxSynchronize() }
    });
    r.all_done(None);
    if at != 0 {
        told(r, begun, AllocationKind::Give, at, bytes, OrderRow::NONE, result);
    }
    result
}

/// `cuMemFreeAsync`.
pub(crate) fn free_async(r: &Recorder, form: Form, call: Call<'_>, at: CuDevicePtr, stream: CuStream) -> CuResult {
    let begun = r.session.begun();
    let (result, bytes) = give(r, call, at, || {
        // What the stream has may still use the memory. Waiting for it is slower than the driver's pools, and safe.
        // SAFETY: a stream of the program's.
        unsafe { driver().cuCtxSynchronize() }
    });
    let stream = r.stream(stream, form);
    told(r, begun, AllocationKind::GiveInOrder, at, bytes, stream, result);
    result
}

/// Gives memory back: what was answered, and how much it was.
fn give(r: &Recorder, call: Call<'_>, at: u64, wait: impl FnOnce() -> Result<(), CudaError>) -> (CuResult, u64) {
    let mut memory = lock(&r.memory);
    let memory = &mut *memory;
    let ours = memory
        .window
        .as_ref()
        .and_then(|w| w.of(at))
        .filter(|(first, _)| *first == at);
    let Some((_, bytes)) = ours else {
        let bytes = memory.own.remove(&at).unwrap_or(0);
        return (call(), bytes);
    };
    if let Err(e) = wait() {
        return (e.result().unwrap_or(SUCCESS), bytes);
    }
    let given = memory.window.as_mut().and_then(|w| w.give(at, &mut memory.mapped));
    let result = match given {
        Some(Err(e)) => e.result().unwrap_or(SUCCESS),
        Some(Ok(_)) | None => SUCCESS,
    };
    (result, bytes)
}

/// `cuMemGetAddressRange`: of memory of the window it is the program's own piece, and not what is mapped around it.
pub(crate) fn address_range(
    r: &Recorder,
    _form: Form,
    call: Call<'_>,
    base: *mut CuDevicePtr,
    bytes: *mut usize,
    at: CuDevicePtr,
) -> CuResult {
    let memory = lock(&r.memory);
    let Some((first, length)) = memory.window.as_ref().and_then(|w| w.of(at)) else {
        drop(memory);
        return call();
    };
    // SAFETY: the program's places for the answers; null where it does not want one.
    unsafe {
        if !base.is_null() {
            *base = first;
        }
        if !bytes.is_null() {
            *bytes = length as usize;
        }
    }
    SUCCESS
}

/// `cuMemAllocHost`.
pub(crate) fn alloc_host(r: &Recorder, _form: Form, call: Call<'_>, at: *mut *mut c_void, bytes: usize) -> CuResult {
    let begun = r.session.begun();
    let result = call();
    pinned(r, begun, at, bytes, result);
    result
}

/// `cuMemHostAlloc`.
pub(crate) fn host_alloc(
    r: &Recorder,
    _form: Form,
    call: Call<'_>,
    at: *mut *mut c_void,
    bytes: usize,
    _flags: u32,
) -> CuResult {
    let begun = r.session.begun();
    let result = call();
    pinned(r, begun, at, bytes, result);
    result
}

fn pinned(r: &Recorder, begun: Begun, at: *mut *mut c_void, bytes: usize, result: CuResult) {
    let address = if is_ok(result) && !at.is_null() {
        // SAFETY: the driver has put the answer there.
        (unsafe { *at }) as u64
    } else {
        0
    };
    if address != 0 {
        lock(&r.memory).pinned.insert(address, bytes as u64);
    }
    told(
        r,
        begun,
        AllocationKind::TakeHost,
        address,
        bytes as u64,
        OrderRow::NONE,
        result,
    );
}

/// `cuMemFreeHost`.
pub(crate) fn free_host(r: &Recorder, _form: Form, call: Call<'_>, at: *mut c_void) -> CuResult {
    let begun = r.session.begun();
    r.forget_host(at as u64);
    let bytes = lock(&r.memory).pinned.remove(&(at as u64)).unwrap_or(0);
    let result = call();
    told(
        r,
        begun,
        AllocationKind::GiveHost,
        at as u64,
        bytes,
        OrderRow::NONE,
        result,
    );
    result
}

/// `cuMemHostRegister`.
pub(crate) fn register_host(
    r: &Recorder,
    _form: Form,
    call: Call<'_>,
    at: *mut c_void,
    bytes: usize,
    _flags: u32,
) -> CuResult {
    let begun = r.session.begun();
    let result = call();
    if is_ok(result) {
        lock(&r.memory).pinned.insert(at as u64, bytes as u64);
    }
    told(
        r,
        begun,
        AllocationKind::TakeHost,
        at as u64,
        bytes as u64,
        OrderRow::NONE,
        result,
    );
    result
}

/// `cuMemHostUnregister`.
pub(crate) fn unregister_host(r: &Recorder, form: Form, call: Call<'_>, at: *mut c_void) -> CuResult {
    free_host(r, form, call, at)
}

/// `cuMemHostGetDevicePointer`: the device reaches the host's memory by itself.
pub(crate) fn host_device_pointer(
    r: &Recorder,
    _form: Form,
    call: Call<'_>,
    _to: *mut CuDevicePtr,
    _at: *mut c_void,
    _flags: u32,
) -> CuResult {
    r.not_recorded(
        "memory of the host",
        "the program asked for the device's address of memory of the host: what kernels read and write there is not in the recording",
    );
    call()
}

impl Recorder {
    /// Whether an address is of the device's memory; the driver is asked where it is not known here.
    pub fn is_device(&self, at: u64) -> bool {
        if lock(&self.memory).is_device(at) {
            return true;
        }
        let mut kind = 0u32;
        // SAFETY: a question with a place for the answer, which is of four bytes.
        let asked = unsafe { driver().cuPointerGetAttribute((&raw mut kind).cast(), POINTER_MEMORY_TYPE, at) };
        asked.is_ok() && kind == MEMORY_DEVICE
    }

    /// Records what all allocations hold now, as copies that no call made.
    pub fn snapshot(&self, why: &'static str) {
        let d = driver();
        // SAFETY: waits for the device.
        if self.captures.load(Ordering::Relaxed) > 0 || unsafe { d.cuCtxSynchronize() }.is_err() {
            self.not_recorded(
                "snapshot",
                "memory could not be read: the device does not answer, or a graph is being captured",
            );
            return;
        }
        let name = if why == "begin" {
            "snapshot at the begin"
        } else {
            "snapshot at the end"
        };
        let all = lock(&self.memory).all();
        let begun = self.session.begun();
        let call = {
            let name = self.session.tables().name(name);
            trace_core::recording::CallRow {
                name,
                about: u32::try_from(all.len()).unwrap_or(u32::MAX),
                ..Default::default()
            }
        };
        let thread = crate::resolve::thread();
        self.session.record(begun, thread, CallEvent::Call(call), With::Nothing);
        for (at, bytes) in all {
            let mut done = 0;
            while done < bytes {
                let length = (bytes - done).min(PIECE as u64) as usize;
                let mut content = vec![0u8; length];
                // SAFETY: as many bytes as the place has, of memory that is allocated.
                if unsafe { d.cuMemcpyDtoH_v2(content.as_mut_ptr().cast(), at + done, length) }.is_err() {
                    break;
                }
                let row = CopyRow {
                    from: at + done,
                    bytes: length as u64,
                    rows: 1,
                    kind: CopyKind::DeviceToHost as u32,
                    stream: OrderRow::NONE,
                    flags: CALL_ASYNC,
                    ..Default::default()
                };
                self.session
                    .record(begun, thread, CallEvent::Copy(row), With::Content(content));
                done += length as u64;
            }
        }
    }
}

/// Bytes that memory comes in; told apart so that a reader of this file finds it.
const _: () = assert!(WINDOW_BASE.is_multiple_of(GRANULE));

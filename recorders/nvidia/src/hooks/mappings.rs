//! Mappings of device files, and the pages of doorbells among them.

use super::ReentryGuard;
use crate::address::HostAddr;
use crate::files;
use crate::log::{LogError, Part};
use crate::next_function::real;
use crate::process::{is_recording, lock, stop};
use crate::recorder::Recorder;
use crate::records::{self, DeviceName, MapCall, ScanReason, kind};
use crate::requests::is_doorbell_class;
use crate::submissions::log_all;
use crate::system::{errno, protect, set_errno};
use crate::tables::{HostMapping, PreparedMapping};
use crate::trap_pages::{self, TrapPage};
use crate::visible_memory::{MappedMemory, ObjectKey};
use libc::{c_int, c_void, off_t, size_t};

/// Name of the device file through which memory of the host is mapped.
const CONTROL_FILE: &[u8] = b"nvidiactl\0";

/// The arguments of a mapping.
#[derive(Clone, Copy)]
struct Arguments {
    wanted: *mut c_void,
    bytes: size_t,
    rights: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
}

fn forward(a: Arguments) -> *mut c_void {
    type Map = unsafe extern "C" fn(*mut c_void, size_t, c_int, c_int, c_int, off_t) -> *mut c_void;
    let none = libc::MAP_FAILED;
    real!("mmap", Map, none, a.wanted, a.bytes, a.rights, a.flags, a.fd, a.offset)
}

fn forward_unmap(at: *mut c_void, bytes: size_t) -> c_int {
    type Unmap = unsafe extern "C" fn(*mut c_void, size_t) -> c_int;
    real!("munmap", Unmap, -1, at, bytes)
}

fn map(arguments: Arguments) -> *mut c_void {
    if !is_recording() {
        return forward(arguments);
    }
    let is_file = arguments.flags & libc::MAP_ANONYMOUS == 0;
    if is_file
        && let Some(name) = files::find(arguments.fd)
        && let Some(_inside) = ReentryGuard::enter()
    {
        let at = forward(arguments);
        let error = errno();
        if let Some(mut guard) = lock() {
            guard.run(|recorder, thread| record(recorder, thread, arguments, at, name));
        }
        set_errno(error);
        return at;
    }
    if arguments.flags & libc::MAP_FIXED != 0 {
        // libcuda replaces mappings of the device by fresh memory, without `munmap`. Afterwards a ring reads as zeros.
        let error = errno();
        remove(arguments.wanted, arguments.bytes);
        set_errno(error);
    }
    forward(arguments)
}

/// Logs a mapping of a device file, and what it replaces.
fn record(
    recorder: &mut Recorder,
    thread: u32,
    arguments: Arguments,
    at: *mut c_void,
    name: DeviceName,
) -> Result<(), LogError> {
    let (start, bytes) = (HostAddr::new(at as u64), arguments.bytes as u64);
    let prepared = recorder.tables.take_prepared(arguments.fd);
    let call = MapCall {
        wanted: HostAddr::new(arguments.wanted as u64),
        bytes,
        offset: arguments.offset as u64,
        address: start,
        protection: arguments.rights,
        flags: arguments.flags,
        fd: arguments.fd,
        handle: prepared.map_or(0, |p| p.object.handle),
        name,
    };
    recorder.append(kind::MAP, thread, &[Part::Bytes(&call.encode())])?;
    if at == libc::MAP_FAILED {
        return Ok(());
    }
    forget(recorder, start, bytes);
    let Some(prepared) = prepared else { return Ok(()) };
    let class = recorder.tables.object(prepared.object).map_or(0, |o| o.class);
    let is_host = name.starts_with(CONTROL_FILE);
    let memory = match is_doorbell_class(class) {
        true => MappedMemory::Doorbells,
        false if is_host => MappedMemory::Host,
        false => MappedMemory::Video,
    };
    recorder.tables.add_host_mapping(HostMapping {
        start,
        bytes,
        object: prepared.object,
        offset: prepared.offset,
        memory,
    });
    if memory == MappedMemory::Doorbells {
        set_trap(recorder, thread, arguments, start, prepared);
    }
    Ok(())
}

/// Makes a page of doorbells inaccessible, after a second mapping of it.
fn set_trap(recorder: &mut Recorder, thread: u32, arguments: Arguments, start: HostAddr, prepared: PreparedMapping) {
    let alias = forward(Arguments {
        wanted: std::ptr::null_mut(),
        flags: libc::MAP_SHARED,
        ..arguments
    });
    if alias == libc::MAP_FAILED {
        stop(recorder, thread, "a page of doorbells cannot be mapped a second time");
        return;
    }
    let device = ObjectKey {
        handle: prepared.device,
        ..prepared.object
    };
    let page = TrapPage {
        start,
        bytes: arguments.bytes as u64,
        alias: HostAddr::new(alias as u64),
        rights: arguments.rights,
        client: prepared.object.client,
        device: recorder.tables.device_of(device),
    };
    if !trap_pages::add(page) {
        stop(recorder, thread, "the program maps too many pages of doorbells");
    } else if protect(page.start, page.bytes, libc::PROT_READ)
        // Loads trap too if the driver does not allow them by this right.
        .or_else(|_| protect(page.start, page.bytes, libc::PROT_NONE))
        .is_err()
    {
        stop(recorder, thread, "a page of doorbells cannot be made inaccessible");
    }
}

/// Forgets the mappings in a range, and the aliases of pages of doorbells in it.
fn forget(recorder: &mut Recorder, start: HostAddr, bytes: u64) {
    recorder.tables.remove_host_range(start, bytes);
    while let Some(page) = trap_pages::take_overlapping(start, bytes) {
        forward_unmap(page.alias.pointer().cast(), page.bytes as usize);
    }
}

/// Logs that a range is unmapped or replaced, if it holds mappings of a device.
fn remove(at: *mut c_void, bytes: size_t) {
    let Some(_inside) = ReentryGuard::enter() else { return };
    let Some(mut guard) = lock() else { return };
    let (start, bytes) = (HostAddr::new(at as u64), bytes as u64);
    guard.run(|recorder, thread| {
        if !recorder.tables.has_host_mapping(start, bytes) {
            return Ok(());
        }
        log_all(recorder, thread, ScanReason::Unmap)?;
        recorder.append(kind::UNMAP, thread, &[Part::Bytes(&records::unmap(start, bytes))])?;
        forget(recorder, start, bytes);
        Ok(())
    });
}

macro_rules! maps {
    ($($name:ident)+) => { $(
        /// Replaces the C library's function.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            wanted: *mut c_void,
            bytes: size_t,
            rights: c_int,
            flags: c_int,
            fd: c_int,
            offset: off_t,
        ) -> *mut c_void {
            map(Arguments { wanted, bytes, rights, flags, fd, offset })
        }
    )+ };
}

// On 64-bit Linux the two functions are the same.
maps! { mmap mmap64 }

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(at: *mut c_void, bytes: size_t) -> c_int {
    if is_recording() {
        remove(at, bytes);
    }
    forward_unmap(at, bytes)
}

/// Replaces the C library's function. libcuda moves no mapping of a device; one that moves is not followed.
///
/// # Safety
/// The same as the C library's function. The fifth argument is passed like the first variable argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    at: *mut c_void,
    old_bytes: size_t,
    bytes: size_t,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    type Remap = unsafe extern "C" fn(*mut c_void, size_t, size_t, c_int, ...) -> *mut c_void;
    if is_recording() {
        remove(at, old_bytes);
    }
    real!("mremap", Remap, libc::MAP_FAILED, at, old_bytes, bytes, flags, to)
}

//! The device with the properties that tests need, and the driver's initialization.

use crate::Answer;
use crate::call::Call;
use crate::codes::{INVALID_DEVICE, INVALID_VALUE};
use crate::memory::allocation::POOL;
use crate::pointers::give;
use crate::settings::settings;
use cuda_driver::{CuDevice, CuMemPool, Uuid};
use std::ffi::c_char;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Version of the interface.
const VERSION: i32 = 13_000;
/// Compute capability.
pub const CAPABILITY: (u32, u32) = (9, 0);
/// Number of multiprocessors.
pub const MULTIPROCESSORS: u32 = 16;
/// Maximum number of threads on a multiprocessor.
pub const THREADS: u32 = 2048;
/// Maximum number of blocks on a multiprocessor.
pub const BLOCKS: u32 = 32;
/// Number of registers of a multiprocessor.
pub const REGISTERS: u32 = 65_536;
/// Maximum number of threads in a block.
pub const BLOCK_THREADS: u32 = 1024;
/// Default size of a block's shared memory, bytes.
pub const SHARED: u32 = 48 << 10;
/// Maximum size of shared memory that a function can request, bytes.
pub const MAX_SHARED: u32 = 227 << 10;

const NAME: &[u8] = b"Stand-in GPU\0";
const UUID: Uuid = Uuid {
    bytes: *b"kinescope-stand-",
};
/// One past the highest attribute number.
const ATTRIBUTES: i32 = 148;

static BEGUN: AtomicBool = AtomicBool::new(false);
/// Whether this process is a fork of the process that initialized the driver. Its locks have the parent's state.
static CHILD: AtomicBool = AtomicBool::new(false);

/// Returns whether `cuInit` was called.
pub fn is_initialized() -> bool {
    BEGUN.load(Ordering::Acquire)
}

/// Returns whether this process is a fork of a process that initialized the driver.
pub fn is_child() -> bool {
    CHILD.load(Ordering::Relaxed)
}

extern "C" fn in_child() {
    CHILD.store(true, Ordering::Relaxed);
}

/// Checks that the number is this device's.
pub fn check(device: CuDevice) -> Answer {
    if device == 0 { Ok(()) } else { Err(INVALID_DEVICE) }
}

/// Returns an attribute by its number, or 0 if the number is unknown.
fn attribute(number: i32) -> i32 {
    match number {
        1..=3 => BLOCK_THREADS as i32,
        4 => 64,
        5 | 11 => i32::MAX,
        6 | 7 => 65_535,
        8 => SHARED as i32,
        9 | 12 | 82 => REGISTERS as i32,
        10 | 51 => 32,
        13 => 1_980_000,
        14 => 512,
        16 => MULTIPROCESSORS as i32,
        36 => 3_201_000,
        37 => 6_144,
        38 => 60 << 20,
        39 => THREADS as i32,
        40 => 3,
        75 => CAPABILITY.0 as i32,
        76 => CAPABILITY.1 as i32,
        81 => 228 << 10,
        97 => MAX_SHARED as i32,
        106 => BLOCKS as i32,
        111 => 1 << 10,
        // These are supported features: concurrent kernels, mapped host memory, unified addresses, managed memory,
        // priorities, cooperative launches, virtual memory, pools and clusters.
        15 | 19 | 31 | 32 | 33 | 41 | 78 | 83 | 90 | 91 | 95 | 99 | 102 | 115 | 120 => 1,
        _ => 0,
    }
}

pub fn cuInit(_: &Call, flags: u32) -> Answer {
    static ONCE: Once = Once::new();
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the function is in this library, which a program that initialized the driver keeps loaded.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
    BEGUN.store(true, Ordering::Release);
    Ok(())
}

pub fn cuDriverGetVersion(_: &Call, to: *mut i32) -> Answer {
    give(to, VERSION)
}

pub fn cuDeviceGet(_: &Call, to: *mut CuDevice, ordinal: i32) -> Answer {
    check(ordinal)?;
    give(to, ordinal)
}

pub fn cuDeviceGetCount(_: &Call, to: *mut i32) -> Answer {
    give(to, 1)
}

pub fn cuDeviceGetName(_: &Call, to: *mut c_char, bytes: i32, device: CuDevice) -> Answer {
    check(device)?;
    let room = usize::try_from(bytes)
        .ok()
        .filter(|room| *room > 0)
        .ok_or(INVALID_VALUE)?;
    for (place, byte) in NAME.iter().take(room).enumerate() {
        let last = place + 1 == room;
        give(to.wrapping_add(place), if last { 0 } else { *byte as c_char })?;
    }
    Ok(())
}

pub fn cuDeviceGetAttribute(_: &Call, to: *mut i32, number: i32, device: CuDevice) -> Answer {
    check(device)?;
    if !(1..ATTRIBUTES).contains(&number) {
        return Err(INVALID_VALUE);
    }
    give(to, attribute(number))
}

pub fn cuDeviceTotalMem_v2(_: &Call, to: *mut usize, device: CuDevice) -> Answer {
    check(device)?;
    give(to, settings().memory as usize)
}

pub fn cuDeviceGetUuid_v2(_: &Call, to: *mut Uuid, device: CuDevice) -> Answer {
    check(device)?;
    give(to, UUID)
}

pub fn cuDeviceGetDefaultMemPool(_: &Call, to: *mut CuMemPool, device: CuDevice) -> Answer {
    check(device)?;
    give(to, crate::handles::pointer(POOL))
}

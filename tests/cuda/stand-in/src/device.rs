//! The device: one, as large as a test needs.

use crate::Answer;
use crate::call::Call;
use crate::codes::{INVALID_DEVICE, INVALID_VALUE, NOT_INITIALIZED};
use crate::pointers::give;
use cuda_driver::{CuDevice, CuResult, Uuid};
use std::ffi::{CString, c_char};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Version of the interface.
pub const VERSION: i32 = 13_000;
/// The device's memory.
pub const MEMORY: u64 = 1 << 30;
/// Multiprocessors.
pub const MULTIPROCESSORS: u64 = 132;
/// Threads that one of them holds.
pub const THREADS: u64 = 2048;
/// Threads of a block.
pub const BLOCK_THREADS: u32 = 1024;
/// Bytes of shared memory that a block has unasked.
pub const SHARED: u32 = 48 << 10;
/// Bytes of shared memory that a function may ask for.
pub const MOST_SHARED: u32 = 227 << 10;

const NAME: &[u8] = b"Stand-in GPU\0";
const UUID: Uuid = Uuid { bytes: *b"kinescope-stand-" };
/// Numbers of attributes end before this.
const ATTRIBUTES: i32 = 148;

static BEGUN: AtomicBool = AtomicBool::new(false);

/// Whether `cuInit` was called.
pub fn begun() -> bool {
    BEGUN.load(Ordering::Acquire)
}

/// Whether this is the device.
pub fn check(device: CuDevice) -> Answer {
    if device == 0 { Ok(()) } else { Err(INVALID_DEVICE) }
}

/// Attributes that are not zero.
fn attribute(number: i32) -> i32 {
    match number {
        1 | 2 | 3 => BLOCK_THREADS as i32,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65_535,
        8 => SHARED as i32,
        9 => 65_536,
        10 => 32,
        11 => i32::MAX,
        12 | 82 => 65_536,
        13 => 1_980_000,
        14 => 512,
        16 => MULTIPROCESSORS as i32,
        33 => 1,
        36 => 3_201_000,
        37 => 6_144,
        38 => 60 << 20,
        39 => THREADS as i32,
        40 => 3,
        51 => 32,
        75 => 9,
        81 => 228 << 10,
        97 => MOST_SHARED as i32,
        106 => 32,
        111 => 1 << 10,
        // What can be done here: concurrent kernels, mapped host memory, unified addresses, managed memory, priorities,
        // launches together, virtual memory, pools, clusters.
        15 | 19 | 31 | 32 | 41 | 78 | 83 | 90 | 91 | 95 | 99 | 102 | 115 | 120 => 1,
        _ => 0,
    }
}

pub fn cuInit(_: &Call, flags: u32) -> Answer {
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
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
    let room = usize::try_from(bytes).ok().filter(|room| *room > 0).ok_or(INVALID_VALUE)?;
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
    give(to, MEMORY as usize)
}

pub fn cuDeviceGetUuid_v2(_: &Call, to: *mut Uuid, device: CuDevice) -> Answer {
    check(device)?;
    give(to, UUID)
}

/// Texts that programs hold pointers to: made once, and never freed.
static TEXTS: Mutex<Vec<(CuResult, CString)>> = Mutex::new(Vec::new());

fn error_text(error: CuResult, to: *mut *const c_char) -> Answer {
    let name = cuda_driver::result_name(error);
    let mut texts = crate::lock(&TEXTS);
    if let Some(name) = name
        && !texts.iter().any(|(code, _)| *code == error)
    {
        texts.push((error, CString::new(name).map_err(|_| NOT_INITIALIZED)?));
    }
    // The text itself lies on the heap, and stays where it is when the list grows.
    let found = texts.iter().find(|(code, _)| *code == error).map(|(_, text)| text.as_ptr());
    give(to, found.unwrap_or(std::ptr::null()))?;
    found.map(|_| ()).ok_or(INVALID_VALUE)
}

pub fn cuGetErrorName(_: &Call, error: CuResult, to: *mut *const c_char) -> Answer {
    error_text(error, to)
}

/// The name stands for the description too.
pub fn error_string(error: CuResult, to: *mut *const c_char) -> Answer {
    error_text(error, to)
}

//! Calls about the device, and the driver's initialization.

use crate::Answer;
use crate::call::Call;
use crate::codes::INVALID_VALUE;
use crate::device::{
    BLOCK_THREADS, BLOCKS, CAPABILITY, MAX_SHARED, MULTIPROCESSORS, REGISTERS, SHARED, THREADS, check, initialize,
};
use crate::pointers::give;
use crate::settings::settings;
use cuda_driver::{CuDevice, Uuid};
use std::ffi::c_char;

/// Version of the interface.
const VERSION: i32 = 13_000;
const NAME: &[u8] = b"Stand-in GPU\0";
const UUID: Uuid = Uuid {
    bytes: *b"kinescope-stand-",
};
/// Attribute numbers are below this.
const ATTRIBUTES: i32 = 148;

/// Returns an attribute; unknown ones are zero.
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
        // Supported features: concurrent kernels, mapped host memory, unified addresses, managed memory, priorities,
        // cooperative launches, virtual memory, pools, clusters.
        15 | 19 | 31 | 32 | 33 | 41 | 78 | 83 | 90 | 91 | 95 | 99 | 102 | 115 | 120 => 1,
        _ => 0,
    }
}

pub fn cuInit(_: &Call, flags: u32) -> Answer {
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    initialize();
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

//! Seeds of what NVIDIA's drivers send to a GPU: launches recorded on an H100, a copy, descriptors, ioctl arguments.

use super::seed::Add;
use crate::nvidia_channel::CLASSES;
use std::path::Path;

/// Class of the compute engine of an H100.
const HOPPER: u16 = 0xcbc0;
/// Class of a compute engine before it.
const AMPERE: u16 = 0xc7c0;

/// Returns the byte that selects a class.
fn select(class: u16) -> u8 {
    CLASSES.iter().position(|c| *c == class).unwrap_or(0) as u8
}

/// Returns a recorded file, or no bytes if it is missing; the target then refuses the seed.
fn recorded(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace-core/nvidia-channel/tests/data");
    std::fs::read(folder.join(name)).unwrap_or_default()
}

fn push_buffer(class: u16, flags: u8, bytes: &[u8]) -> Vec<u8> {
    [&[select(class) | flags], bytes].concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    for (file, name) in [("vadd", "h100-launch-vadd.pb"), ("bigparam", "h100-launch-bigparam.pb")] {
        add("nvidia_push_buffer", file, push_buffer(HOPPER, 0, &recorded(name)));
    }
    // A copy with its semaphore, a semaphore of the channel, and a launch whose descriptor is in other memory.
    let copy = words(&[
        0x2008_8100,
        0,
        0x1000,
        0,
        0x2000,
        64,
        64,
        32,
        2,
        0x2003_8090,
        0,
        0x3000,
        1,
        0x2001_80c0,
        0x39e,
        0x2005_0017,
        0x4000,
        0,
        7,
        0,
        1,
    ]);
    add("nvidia_push_buffer", "copy", push_buffer(AMPERE, 0, &copy));
    let launch = words(&[0x2001_20ad, 0x10, 0x2001_20b0, 9, 0x8007_2044]);
    add("nvidia_push_buffer", "memory", push_buffer(AMPERE, 0x80, &launch));

    let descriptor = |class: Option<u16>, bytes: &[u8]| [&[class.map_or(0, |c| select(c) + 1)], bytes].concat();
    let vadd = recorded("h100-launch-vadd.qmd");
    add("nvidia_qmd", "vadd", descriptor(Some(HOPPER), &vadd));
    add("nvidia_qmd", "vadd-without-class", descriptor(None, &vadd));
    for (file, bytes, at, version, class) in [
        ("v02_02", 256, 72, 0x22, 0xc3c0),
        ("v03_00", 256, 72, 0x30, AMPERE),
        ("v05_00", 384, 58, 0x50, 0xcec0),
        ("v05_01", 384, 58, 0x51, 0xcdc0),
    ] {
        let mut content: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
        content[72] = 0;
        content[at] = version;
        add("nvidia_qmd", file, descriptor(Some(class), &content));
    }

    let argument = |branch: u8, kind: u8, request: u32, bytes: usize| {
        let content = (0..bytes).map(|n| n as u8);
        [branch, kind]
            .into_iter()
            .chain(request.to_le_bytes())
            .chain(content)
            .collect::<Vec<u8>>()
    };
    add("nvidia_ioctl", "control", argument(1, 0, 0xc020_462a, 32));
    add("nvidia_ioctl", "cards", argument(1, 0, 0xc090_46c8, 144));
    add("nvidia_ioctl", "map-570", argument(0, 0, 0xc038_4657, 56));
    add("nvidia_ioctl", "range", argument(2, 1, 0x49, 24));
    add("nvidia_ioctl", "channel", argument(1, 2, 0xc86f, 368));
    add("nvidia_ioctl", "name", argument(1, 3, 0x2080_0110, 132));
    add("nvidia_ioctl", "entry", argument(0, 4, 0, 8));
}

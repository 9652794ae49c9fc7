//! Geometry and palette of a frame buffer device, `/dev/fb0`. From the kernel's `include/uapi/linux/fb.h`.
#![allow(
    unsafe_code,
    reason = "the two requests can be made by ioctl alone: the kernel writes into memory that is handed to it"
)]

use rustix::ioctl::{Getter, Updater, ioctl};
use std::fs::File;
use std::io;

/// Geometry of a frame buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameBuffer {
    /// Visible pixels of a line.
    pub width: u32,
    /// Number of visible lines.
    pub height: u32,
    /// First visible pixel of a line.
    pub left: u32,
    /// First visible line.
    pub top: u32,
    /// Bits per pixel.
    pub bits: u32,
    /// Lowest bit and number of bits of red, green and blue.
    pub channels: [(u32, u32); 3],
    /// Palette, if pixels are palette indices.
    pub palette: Option<Vec<[u8; 3]>>,
}

/// `FBIOGET_VSCREENINFO`, which fills a `struct fb_var_screeninfo`, and `FBIOGETCMAP`, which takes a `struct fb_cmap`.
const GEOMETRY: rustix::ioctl::Opcode = 0x4600;
const PALETTE: rustix::ioctl::Opcode = 0x4604;
/// Words of `struct fb_var_screeninfo`.
const WORDS: usize = 40;
/// Number of palette colours for pixels of eight bits.
const COLOURS: usize = 256;

/// `struct fb_cmap`: the range of colours, and the addresses of their channels.
#[repr(C)]
struct Colours {
    start: u32,
    len: u32,
    channels: [*mut u16; 3],
    transparency: *mut u16,
}

/// Reads the geometry of an open frame buffer device.
///
/// # Errors
/// Returns an error if it is not a frame buffer, or if it has no palette although its pixels are palette indices.
pub(crate) fn read_geometry(file: &File) -> io::Result<FrameBuffer> {
    // SAFETY: the request fills a structure of 40 words of 32 bits and nothing else, whatever the architecture.
    let words: [u32; WORDS] = unsafe { ioctl(file, Getter::<GEOMETRY, [u32; WORDS]>::new()) }?;
    let [
        width,
        height,
        _,
        _,
        left,
        top,
        bits,
        _,
        rs,
        rb,
        _,
        gs,
        gb,
        _,
        bs,
        bb,
        ..,
    ] = words;
    Ok(FrameBuffer {
        width,
        height,
        left,
        top,
        bits,
        channels: [(rs, rb), (gs, gb), (bs, bb)],
        palette: if bits <= 8 { Some(palette(file, bits)?) } else { None },
    })
}

fn palette(file: &File, bits: u32) -> io::Result<Vec<[u8; 3]>> {
    let colours = COLOURS.min(1 << bits);
    let mut channels = [[0u16; COLOURS]; 3];
    let [red, green, blue] = &mut channels;
    let mut asked = Colours {
        start: 0,
        len: colours as u32,
        channels: [red.as_mut_ptr(), green.as_mut_ptr(), blue.as_mut_ptr()],
        transparency: std::ptr::null_mut(),
    };
    // SAFETY: the structure has the kernel's layout. Each of its three lists has room for `len` colours, and the fourth
    // is null, which the kernel ignores. All of them outlive the request.
    unsafe { ioctl(file, Updater::<PALETTE, Colours>::new(&mut asked)) }?;
    let [red, green, blue] = &channels;
    let all = red.iter().zip(green).zip(blue).take(colours);
    // A channel has 16 bits, of which a display uses the upper ones.
    Ok(all.map(|((r, g), b)| [r, g, b].map(|c| (c >> 8) as u8)).collect())
}

//! Picture of the display at the end of a recording: its frame buffer, read back after the trace.

use crate::device::Device;
use crate::fbdev::FrameBuffer;
use crate::kernel::{Kernel, MAX_PART_BYTES, read_trimmed};
use trace_core::screen::Picture;

/// Maximum number of pixels of a picture.
const MAX_PIXELS: u64 = 1 << 26;

/// Reads the picture of the device's frame buffer. Returns `None` if it has no frame buffer, otherwise the picture or
/// why there is none.
pub(crate) fn read_picture(kernel: &dyn Kernel, device: &Device) -> Option<Result<Picture, String>> {
    let name = crate::busy::frame_buffers(kernel, device).into_iter().next()?;
    // Programs see only a copy with such a driver, and the display can show another buffer.
    if kernel.exists(&format!("{}/drm", device.folder())) {
        return Some(Err(format!(
            "{name} is only a copy of the picture that this driver shows"
        )));
    }
    Some(read(kernel, &name).map_err(|why| format!("{name}: {why}")))
}

fn read(kernel: &dyn Kernel, name: &str) -> Result<Picture, String> {
    let stride = read_trimmed(kernel, &format!("/sys/class/graphics/{name}/stride"));
    let stride: u64 = stride
        .and_then(|s| s.parse().ok())
        .ok_or("the kernel does not report the length of its lines")?;
    let buffer = kernel
        .frame_buffer(&format!("/dev/{name}"))
        .map_err(|e| e.to_string())?;
    let lines = stride
        .checked_mul(u64::from(buffer.height))
        .filter(|n| *n <= MAX_PART_BYTES as u64)
        .ok_or("it has too many lines")?;
    let first = stride
        .checked_mul(u64::from(buffer.top))
        .ok_or("it begins beyond its end")?;
    let bytes = usize::try_from(lines).map_err(|e| e.to_string())?;
    let memory = kernel
        .read_bytes_at(&format!("/dev/{name}"), first, bytes)
        .map_err(|e| e.to_string())?;
    decode(&buffer, usize::try_from(stride).map_err(|e| e.to_string())?, &memory)
}

/// Decodes a frame buffer's memory as a picture.
fn decode(buffer: &FrameBuffer, stride: usize, memory: &[u8]) -> Result<Picture, String> {
    let pixels = u64::from(buffer.width) * u64::from(buffer.height);
    let each = match buffer.bits {
        8 | 16 | 24 | 32 if pixels <= MAX_PIXELS => buffer.bits as usize / 8,
        bits => return Err(format!("{pixels} pixels of {bits} bits are not supported")),
    };
    let mut rgb = Vec::with_capacity(usize::try_from(pixels).unwrap_or(0) * 3);
    for y in 0..buffer.height as usize {
        let line = y * stride + buffer.left as usize * each;
        let line = memory
            .get(line..line + buffer.width as usize * each)
            .ok_or("it could not be read completely")?;
        for pixel in line.chunks_exact(each) {
            let value = pixel.iter().rev().fold(0u32, |v, b| v << 8 | u32::from(*b));
            match &buffer.palette {
                Some(colours) => rgb.extend(colours.get(value as usize).copied().unwrap_or_default()),
                None => rgb.extend(buffer.channels.map(|(shift, bits)| channel(value, shift, bits))),
            }
        }
    }
    Picture::new(buffer.width, buffer.height, rgb).map_err(|e| e.to_string())
}

/// Expands a channel of a pixel to eight bits as displays do, with its upper bits repeated below it.
fn channel(value: u32, shift: u32, bits: u32) -> u8 {
    if bits == 0 || bits > 8 || shift > 31 {
        return 0;
    }
    let v = value >> shift & ((1 << bits) - 1);
    let mut all = v << (8 - bits);
    let mut have = bits;
    while have < 8 {
        all |= all >> have;
        have *= 2;
    }
    all as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_decoded_by_their_format() {
        let buffer = FrameBuffer {
            width: 2,
            height: 2,
            left: 1,
            top: 0,
            bits: 16,
            channels: [(11, 5), (5, 6), (0, 5)],
            palette: None,
        };
        let memory: Vec<u8> = [0, 0xf800, 0x07e0, 9, 0, 0x001f, 0x8410, 9]
            .iter()
            .flat_map(|p: &u16| p.to_le_bytes())
            .collect();
        let picture = decode(&buffer, 8, &memory).unwrap();
        assert_eq!(picture.rgb(), [255, 0, 0, 0, 255, 0, 0, 0, 255, 132, 130, 132]);
        assert!(decode(&buffer, 8, &memory[..13]).is_err());
        let palette = FrameBuffer {
            bits: 8,
            palette: Some(vec![[1, 2, 3], [4, 5, 6]]),
            ..buffer.clone()
        };
        let picture = decode(&palette, 4, &[9, 1, 0, 9, 9, 0, 7, 9]).unwrap();
        assert_eq!(picture.rgb(), [4, 5, 6, 1, 2, 3, 1, 2, 3, 0, 0, 0]);
        let odd = FrameBuffer { bits: 4, ..buffer };
        assert!(decode(&odd, 8, &memory).unwrap_err().contains("4 bits"));
    }
}

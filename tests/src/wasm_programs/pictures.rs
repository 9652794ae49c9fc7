//! Pictures in BMP form, and checks of the programs that read them.

use super::equality::{as_text, expect_equal};
use super::random::Random;

const HEADER_BYTES: usize = 54;
/// Standard deviation of the blur.
const DEVIATION: f64 = 10.0;
/// Distance up to which a pixel has an effect: three standard deviations.
const RADIUS: i64 = 30;
/// Number of blocks of a hash in each direction.
const BLOCKS: usize = 8;

struct Picture {
    width: usize,
    height: usize,
    /// Blue, green and red of each pixel, from the bottom row up.
    pixels: Vec<[u8; 3]>,
}

/// Returns a picture of 16 to 47 pixels in each direction: a gradient, rectangles and noise.
pub(super) fn make(random: &mut Random) -> Vec<u8> {
    let mut size = || usize::try_from(16 + random.below(32)).unwrap_or(16);
    let (width, height) = (size(), size());
    let row_bytes = (width * 3).next_multiple_of(4);
    let (left, top, color) = (random.below(16), random.below(16), random.next().to_le_bytes());
    let mut bytes = b"BM".to_vec();
    let mut put = |value: usize, width: usize| bytes.extend(value.to_le_bytes().iter().take(width));
    put(HEADER_BYTES + row_bytes * height, 4);
    put(0, 4);
    for (value, width) in [(HEADER_BYTES, 4), (40, 4), (width, 4), (height, 4), (1, 2), (24, 2)] {
        put(value, width);
    }
    for value in [0, row_bytes * height, 2835, 2835, 0, 0] {
        put(value, 4);
    }
    for y in 0..height as u64 {
        let mut row = Vec::with_capacity(row_bytes);
        for x in 0..width as u64 {
            let inside = (left..left + 10).contains(&x) && (top..top + 10).contains(&y);
            for (channel, color) in (0_u64..).zip(color.iter().take(3)) {
                let gradient = x * 4 + y * (channel + 1) + random.below(8);
                row.push(if inside { *color } else { gradient.min(255) as u8 });
            }
        }
        row.resize(row_bytes, 0);
        bytes.extend(row);
    }
    bytes
}

fn read(bytes: &[u8]) -> Result<Picture, String> {
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
        bytes.map(u32::from_le_bytes).ok_or("the file is too short")
    };
    let (width, height) = (number(18)? as usize, number(22)? as usize);
    let row_bytes = (width * 3).next_multiple_of(4);
    let expected = HEADER_BYTES + row_bytes * height;
    if bytes.len() != expected {
        return Err(format!("{} bytes (expected {expected})", bytes.len()));
    }
    let rows = bytes.iter().skip(HEADER_BYTES).copied().collect::<Vec<_>>();
    let pixels = rows.chunks_exact(row_bytes).flat_map(|row| {
        let (pixels, _) = row.as_chunks::<3>();
        pixels.get(..width).unwrap_or_default().to_vec()
    });
    Ok(Picture {
        width,
        height,
        pixels: pixels.collect(),
    })
}

impl Picture {
    /// Returns a value of the pixel at a position, or at the nearest one inside the picture.
    fn value(&self, x: i64, y: i64, channel: usize) -> f64 {
        let clamp = |at: i64, size: usize| usize::try_from(at).unwrap_or(0).min(size - 1);
        let index = clamp(y, self.height) * self.width + clamp(x, self.width);
        let value = self.pixels.get(index).and_then(|p| p.get(channel));
        value.copied().unwrap_or_default().into()
    }
}

/// Checks each pixel against the sum over its square of neighbours, in double precision. One step of difference is
/// allowed: the program rounds each sum of a row.
pub(super) fn check_blur(input: &[u8], output: &[u8]) -> Result<(), String> {
    if input.get(..HEADER_BYTES) != output.get(..HEADER_BYTES) {
        return Err("the header differs".into());
    }
    let (before, after) = (read(input)?, read(output)?);
    let weight = |k: i64| (-(k * k) as f64 / (2.0 * DEVIATION * DEVIATION)).exp();
    let sum: f64 = (-RADIUS..=RADIUS).map(weight).sum();
    // A sample of the pixels: each one costs 3721 products.
    for y in (0..before.height as i64).step_by(5) {
        for x in (0..before.width as i64).step_by(3) {
            for channel in 0..3 {
                let mut expected = 0.0;
                for dy in -RADIUS..=RADIUS {
                    for dx in -RADIUS..=RADIUS {
                        expected += before.value(x + dx, y + dy, channel) * weight(dx) * weight(dy);
                    }
                }
                expected /= sum * sum;
                let found = after.value(x, y, channel);
                if (found - expected).abs() > 1.0 {
                    return Err(format!("pixel {x},{y} is {found} (expected {expected:.2})"));
                }
            }
        }
    }
    Ok(())
}

/// Checks the hash: a bit for each of 8 by 8 blocks that is brighter than the median of its band of two rows.
pub(super) fn check_block_hash(input: &[u8], output: &[u8]) -> Result<(), String> {
    let picture = read(input)?;
    let (width, height) = (picture.width / BLOCKS, picture.height / BLOCKS);
    let brightness = |row: usize, column: usize| -> u64 {
        let mut sum = 0;
        for y in row * height..(row + 1) * height {
            // The first row of blocks is at the top, and the last row of the file.
            let line = picture.height - 1 - y;
            let pixels = picture
                .pixels
                .iter()
                .skip(line * picture.width + column * width)
                .take(width);
            sum += pixels.flatten().map(|v| u64::from(*v)).sum::<u64>();
        }
        sum
    };
    let mut bits = String::new();
    for band in 0..BLOCKS / 2 {
        let blocks: Vec<u64> = (0..2 * BLOCKS)
            .map(|i| brightness(2 * band + i / BLOCKS, i % BLOCKS))
            .collect();
        let mut sorted = blocks.clone();
        sorted.sort_unstable();
        let middle: u64 = sorted.iter().skip(BLOCKS - 1).take(2).sum();
        bits.extend(blocks.iter().map(|b| if 2 * b > middle { '1' } else { '0' }));
    }
    let hash = u64::from_str_radix(&bits, 2).map_err(|e| e.to_string())?;
    expect_equal(as_text(output)?, &format!("{hash:016x}\n"))
}

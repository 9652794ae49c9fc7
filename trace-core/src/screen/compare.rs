//! Pixel-by-pixel comparison of two pictures.

use super::page::StoreState;
use super::picture::Picture;
use serde::Serialize;

/// A rectangle of pixels, both ends inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PixelBounds {
    /// First column.
    pub left: u32,
    /// First row.
    pub top: u32,
    /// Last column, included.
    pub right: u32,
    /// Last row, included.
    pub bottom: u32,
}

/// The differences of two pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Pixels per row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Number of compared pixels.
    pub compared: u64,
    /// Number of different pixels.
    pub differing: u64,
    /// The smallest rectangle with all differences.
    pub bounds: Option<PixelBounds>,
    /// Maximum difference of a channel, 0 to 255.
    pub worst: u8,
    /// Maximum channel difference of each pixel, rows from the top; 0 if it was not compared.
    pub difference: Vec<u8>,
}

/// The reason why pictures cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// Their sizes differ.
    #[error("one picture has {} by {} pixels, the other {} by {}", .a.0, .a.1, .b.0, .b.1)]
    Size {
        /// Width and height of the first.
        a: (u32, u32),
        /// Width and height of the second.
        b: (u32, u32),
    },
}

/// Compares two pictures.
///
/// # Errors
///
/// When their sizes differ.
pub fn compare(a: &Picture, b: &Picture) -> Result<Comparison, CompareError> {
    compare_where(a, b, &[])
}

/// Compares the known pixels of two pictures, by a list of what is known of each; pixels beyond the list are compared.
///
/// # Errors
///
/// When the sizes of the pictures differ.
pub fn compare_where(a: &Picture, b: &Picture, known: &[StoreState]) -> Result<Comparison, CompareError> {
    let (size_a, size_b) = ((a.width(), a.height()), (b.width(), b.height()));
    if size_a != size_b {
        return Err(CompareError::Size { a: size_a, b: size_b });
    }
    let (width, height) = size_a;
    let pixels = a.rgb().as_chunks::<3>().0.iter().zip(b.rgb().as_chunks::<3>().0);
    let known = known.iter().copied().chain(std::iter::repeat(StoreState::Stored));
    let mut compared = 0;
    let difference: Vec<u8> = pixels
        .zip(known)
        .map(|((a, b), known)| {
            if known != StoreState::Stored {
                return 0;
            }
            compared += 1;
            a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0)
        })
        .collect();
    let mut bounds: Option<PixelBounds> = None;
    let mut differing = 0;
    for (row, y) in difference.chunks_exact((width as usize).max(1)).zip(0u32..) {
        let Some(left) = row.iter().position(|d| *d != 0) else {
            continue;
        };
        let right = row.iter().rposition(|d| *d != 0).unwrap_or(left);
        differing += row.iter().filter(|d| **d != 0).count() as u64;
        let (left, right) = (left as u32, right as u32);
        bounds = Some(match bounds {
            None => PixelBounds {
                left,
                top: y,
                right,
                bottom: y,
            },
            Some(b) => PixelBounds {
                left: b.left.min(left),
                right: b.right.max(right),
                bottom: y,
                ..b
            },
        });
    }
    Ok(Comparison {
        width,
        height,
        compared,
        differing,
        bounds,
        worst: difference.iter().copied().max().unwrap_or(0),
        difference,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds([left, top, right, bottom]: [u32; 4]) -> PixelBounds {
        PixelBounds {
            left,
            top,
            right,
            bottom,
        }
    }

    fn picture(change: impl Fn(&mut [u8])) -> Picture {
        let mut rgb = vec![10u8; 4 * 3 * 3];
        change(&mut rgb);
        Picture::new(4, 3, rgb).unwrap()
    }

    #[test]
    fn differences_are_counted_bounded_and_measured() {
        let a = picture(|_| {});
        assert_eq!(compare(&a, &a).unwrap().bounds, None);
        let at = |x: usize, y: usize| (y * 4 + x) * 3;
        let b = picture(|rgb| {
            rgb[at(1, 1) + 2] = 0;
            rgb[at(3, 2)] = 250;
            rgb[at(3, 2) + 1] = 11;
        });
        let c = compare(&a, &b).unwrap();
        assert_eq!((c.compared, c.differing, c.worst), (12, 2, 240));
        assert_eq!(c.bounds, Some(bounds([1, 1, 3, 2])));
        assert_eq!((c.difference[5], c.difference[11], c.difference[0]), (10, 240, 0));
        let mut known = vec![StoreState::Stored; 12];
        known[11] = StoreState::Lost;
        let c = compare_where(&a, &b, &known).unwrap();
        assert_eq!((c.compared, c.differing, c.worst), (11, 1, 10));
        assert_eq!(c.bounds, Some(bounds([1, 1, 1, 1])));
    }

    #[test]
    fn pictures_of_other_sizes_are_not_compared() {
        let a = picture(|_| {});
        let b = Picture::new(1, 1, vec![0; 3]).unwrap();
        let e = compare(&a, &b).unwrap_err();
        assert_eq!(e.to_string(), "one picture has 4 by 3 pixels, the other 1 by 1");
    }
}

//! Shapes of a picture of elements: the likely shapes, and the element of each pixel.

/// Range of sides of a picture that are offered without a request.
const SIDES: std::ops::RangeInclusive<u64> = 4..=4096;
/// Maximum number of shapes that are offered.
const MAX_OFFERED_SHAPES: usize = 8;

/// Layout of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Grey pictures one after another, shown side by side.
    Tiles,
    /// Red, green and blue, one picture each.
    Planes,
    /// Red, green and blue of each pixel together.
    Interleaved,
}

/// A picture of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pixels across, of one tile.
    pub width: u64,
    /// Pixels down, of one tile.
    pub height: u64,
    /// Number of tiles, 1 for colour.
    pub tiles: u64,
    /// Layout of the channels.
    pub layout: Layout,
}

fn square(n: u64) -> Option<u64> {
    let s = (n as f64).sqrt().round() as u64;
    (s.checked_mul(s) == Some(n) && SIDES.contains(&s)).then_some(s)
}

/// Returns the likely shapes for a number of elements, the likeliest first.
#[must_use]
pub fn candidates(elements: u64) -> Vec<Shape> {
    let mut out = Vec::new();
    let of = |s: u64, tiles: u64, layout: Layout| Shape {
        width: s,
        height: s,
        tiles,
        layout,
    };
    for k in (1..=1024).filter(|k| elements.is_multiple_of(*k)) {
        let Some(s) = square(elements / k) else { continue };
        if k == 3 {
            // Planes first, as the frameworks of GPU recordings lay images out.
            out.push(of(s, 1, Layout::Planes));
            out.push(of(s, 1, Layout::Interleaved));
        }
        out.push(of(s, k, Layout::Tiles));
        if out.len() >= MAX_OFFERED_SHAPES {
            break;
        }
    }
    out
}

/// Returns a shape with rows of a width that the user chose.
#[must_use]
pub fn rows(elements: u64, width: u64) -> Shape {
    let width = width.clamp(1, elements.max(1));
    Shape {
        width,
        height: elements.div_ceil(width),
        tiles: 1,
        layout: Layout::Tiles,
    }
}

impl Shape {
    /// Returns the picture of an array with these dimensions, the slowest first; `None` for a plain list of values,
    /// and for an array that is too large to show. All dimensions before the last two are pictures one after another;
    /// three of them, or three values a pixel, are colours.
    #[must_use]
    pub fn from_dimensions(sides: &[u64]) -> Option<Self> {
        let (before, layout) = match sides {
            [before @ .., h, w, 3] if *h > 1 && *w > 1 && before.iter().all(|n| *n == 1) => {
                (&[*h, *w][..], Layout::Interleaved)
            }
            all => (all, Layout::Tiles),
        };
        let [before @ .., height, width] = before else {
            return None;
        };
        let tiles = before.iter().try_fold(1u64, |all, n| all.checked_mul(*n))?;
        let (tiles, layout) = match (tiles, layout) {
            (3, Layout::Tiles) => (1, Layout::Planes),
            other => other,
        };
        let fits = (2..=*SIDES.end()).contains(width) && (2..=*SIDES.end()).contains(height);
        (fits && (1..=*SIDES.end()).contains(&tiles)).then_some(Self {
            width: *width,
            height: *height,
            tiles,
            layout,
        })
    }

    /// Describes the shape.
    #[must_use]
    pub fn name(&self) -> String {
        let size = format!("{}×{}", self.width, self.height);
        match (self.layout, self.tiles) {
            (Layout::Planes, _) => format!("{size} colour, in planes"),
            (Layout::Interleaved, _) => format!("{size} colour, by pixel"),
            (Layout::Tiles, 1) => format!("{size} grey"),
            (Layout::Tiles, n) => format!("{n} of {size}"),
        }
    }

    /// Returns whether a pixel has three elements.
    #[must_use]
    pub fn is_colour(&self) -> bool {
        self.layout != Layout::Tiles
    }

    /// Returns the number of tiles across.
    fn across(&self) -> u64 {
        ((self.tiles as f64).sqrt().ceil() as u64).max(1)
    }

    /// Returns the size of the full picture, pixels, with a pixel between tiles.
    #[must_use]
    pub fn size(&self) -> [u64; 2] {
        let (x, y) = (self.across(), self.tiles.div_ceil(self.across()).max(1));
        let side = |n: u64, s: u64| n.saturating_mul(s.saturating_add(1)).saturating_sub(1);
        [side(x, self.width), side(y, self.height)]
    }

    /// Returns the elements of a pixel: one, or three in a coloured picture. `None`: between tiles, or outside.
    #[must_use]
    pub fn elements(&self, x: u64, y: u64) -> Option<[u64; 3]> {
        let (w, h) = (self.width.saturating_add(1), self.height.saturating_add(1));
        let (tx, ty) = (x / w, y / h);
        let (x, y) = (x % w, y % h);
        let tile = ty.checked_mul(self.across())?.checked_add(tx)?;
        if x >= self.width || y >= self.height || tx >= self.across() || tile >= self.tiles {
            return None;
        }
        let plane = self.width.checked_mul(self.height)?;
        let at = y * self.width + x;
        Some(match self.layout {
            Layout::Tiles => [tile.checked_mul(plane)?.checked_add(at)?; 3],
            Layout::Planes => [at, at.checked_add(plane)?, at.checked_add(plane.checked_mul(2)?)?],
            Layout::Interleaved => {
                let first = at.checked_mul(3)?;
                [first, first.checked_add(1)?, first.checked_add(2)?]
            }
        })
    }

    /// Returns the pixel of an element.
    #[must_use]
    pub fn pixel(&self, element: u64) -> Option<[u64; 2]> {
        let plane = self.width.checked_mul(self.height).filter(|p| *p > 0)?;
        let (tile, at) = match self.layout {
            Layout::Tiles => (element / plane, element % plane),
            Layout::Planes => (0, element % plane),
            Layout::Interleaved => (0, element / 3),
        };
        if tile >= self.tiles || at >= plane {
            return None;
        }
        let (tx, ty) = (tile % self.across(), tile / self.across());
        Some([
            tx * (self.width + 1) + at % self.width,
            ty * (self.height + 1) + at / self.width,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensor_dimensions_give_picture_shapes() {
        let shape = |sides: &[u64]| Shape::from_dimensions(sides).map(|s| (s.width, s.height, s.tiles, s.layout));
        assert_eq!(shape(&[8, 8]), Some((8, 8, 1, Layout::Tiles)));
        assert_eq!(shape(&[4, 6]), Some((6, 4, 1, Layout::Tiles)));
        assert_eq!(shape(&[3, 4, 6]), Some((6, 4, 1, Layout::Planes)));
        assert_eq!(shape(&[1, 4, 6, 3]), Some((6, 4, 1, Layout::Interleaved)));
        assert_eq!(shape(&[2, 16, 5, 7]), Some((7, 5, 32, Layout::Tiles)));
        for none in [&[][..], &[10], &[1, 10], &[8192, 8192], &[u64::MAX, u64::MAX, 4, 4]] {
            assert_eq!(shape(none), None, "{none:?}");
        }
    }

    #[test]
    fn square_images_of_one_or_three_channels_are_suggested() {
        let first = |n: u64| candidates(n).first().copied();
        assert_eq!(
            first(784).map(|s| (s.width, s.tiles, s.layout)),
            Some((28, 1, Layout::Tiles))
        );
        assert_eq!(
            first(227 * 227 * 3).map(|s| (s.width, s.layout)),
            Some((227, Layout::Planes))
        );
        // The buffer holds two pictures, as in the recording of mnist.
        assert_eq!(first(1568).map(|s| (s.width, s.tiles)), Some((28, 2)));
        assert!(first(1).is_none());
        assert!(first(17).is_none());
    }

    #[test]
    fn pixels_and_elements_map_to_each_other() {
        let shapes = [
            candidates(1568)[0],
            Shape {
                layout: Layout::Planes,
                ..rows(12, 4)
            },
            Shape {
                layout: Layout::Interleaved,
                ..rows(12, 4)
            },
            rows(10, 4),
        ];
        for s in shapes {
            let [w, h] = s.size();
            let mut seen = 0;
            for y in 0..h {
                for x in 0..w {
                    let Some(e) = s.elements(x, y) else { continue };
                    seen += 1;
                    for i in e {
                        assert_eq!(s.pixel(i), Some([x, y]), "{s:?} element {i}");
                    }
                }
            }
            assert_eq!(seen, s.width * s.height * s.tiles);
        }
        assert_eq!(rows(10, 4).size(), [4, 3]);
        assert_eq!(candidates(1568)[0].size(), [57, 28]);
    }
}

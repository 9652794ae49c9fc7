//! A picture drawn from a framebuffer: colours of the pixels, and which of them the recording shows.

use super::format::{Palette, ScreenFormat};
use super::framebuffer::FramebufferState;
use super::page::StoreState;
use super::picture::{Picture, PictureError};
use std::convert::Infallible;

/// A picture drawn from a framebuffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedScreen {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
    known: Vec<StoreState>,
}

/// Numbers of pixels by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PixelCounts {
    /// Pixels of known colour.
    pub known: u64,
    /// Pixels with bytes that no store of the recording set, or with an unknown palette colour.
    pub never: u64,
    /// Pixels set by a store whose value is not in the recording.
    pub lost: u64,
}

impl RenderedScreen {
    /// Draws `state` in the format `format`. Time depends on the pixels; `format` should have been checked.
    #[must_use]
    pub fn new(state: &FramebufferState, format: &ScreenFormat, palette: &Palette) -> Self {
        let drawn: Result<Self, Infallible> = Self::from_rows(format, palette, |at, row, states| {
            state.read(at, row, states);
            Ok(())
        });
        match drawn {
            Ok(drawn) => drawn,
            Err(never) => match never {},
        }
    }

    /// Draws what `read` returns in the format `format`, which should have been checked. `read` gets the offset of each
    /// row's first byte in the framebuffer, for its bytes and their states.
    ///
    /// # Errors
    ///
    /// The errors of `read`.
    pub fn from_rows<E>(
        format: &ScreenFormat,
        palette: &Palette,
        mut read: impl FnMut(u64, &mut [u8], &mut [StoreState]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let (width, height) = (format.width as usize, format.height as usize);
        let size = format.pixel.bytes() as usize;
        let mut row = vec![0u8; width * size];
        let mut states = vec![StoreState::Never; width * size];
        let mut rgb = vec![0u8; width * height * 3];
        let mut known = vec![StoreState::Never; width * height];
        let rows = rgb.chunks_exact_mut((width * 3).max(1));
        let rows = rows.zip(known.chunks_exact_mut(width.max(1)));
        for ((rgb, known), y) in rows.zip(0u64..) {
            let at = format.base.saturating_add(y.saturating_mul(u64::from(format.pitch)));
            read(at, &mut row, &mut states)?;
            let pixels = row.chunks_exact(size).zip(states.chunks_exact(size));
            let to = rgb.as_chunks_mut::<3>().0.iter_mut().zip(known);
            for ((bytes, store_states), (rgb, known)) in pixels.zip(to) {
                *known = together(store_states);
                if *known != StoreState::Stored {
                    continue;
                }
                match format.color(format.value(bytes), palette) {
                    Some(c) => *rgb = c,
                    None => *known = StoreState::Never,
                }
            }
        }
        Ok(Self {
            width: format.width,
            height: format.height,
            rgb,
            known,
        })
    }

    /// Returns the number of pixels per row.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Returns red, green and blue of each pixel, rows from the top; black if unknown.
    #[must_use]
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// Returns the state of each pixel, rows from the top.
    #[must_use]
    pub fn known(&self) -> &[StoreState] {
        &self.known
    }

    /// Returns the colour of a pixel, or `None` outside, or if it is unknown.
    #[must_use]
    pub fn pixel(&self, x: u32, y: u32) -> Option<[u8; 3]> {
        let at = self.at(x, y)?;
        let known = self.known.get(at) == Some(&StoreState::Stored);
        self.rgb.as_chunks::<3>().0.get(at).copied().filter(|_| known)
    }

    /// Returns the state of a pixel, or `None` outside.
    #[must_use]
    pub fn known_at(&self, x: u32, y: u32) -> Option<StoreState> {
        self.known.get(self.at(x, y)?).copied()
    }

    fn at(&self, x: u32, y: u32) -> Option<usize> {
        (x < self.width && y < self.height).then(|| y as usize * self.width as usize + x as usize)
    }

    /// Returns the numbers of pixels by state.
    #[must_use]
    pub fn counts(&self) -> PixelCounts {
        let count = |k: StoreState| self.known.iter().filter(|x| **x == k).count() as u64;
        PixelCounts {
            known: count(StoreState::Stored),
            never: count(StoreState::Never),
            lost: count(StoreState::Lost),
        }
    }

    /// Converts to a picture, with `unknown` in place of unknown pixels.
    ///
    /// # Errors
    ///
    /// When it has more pixels than a picture can have.
    pub fn to_picture(&self, unknown: [u8; 3]) -> Result<Picture, PictureError> {
        let mut rgb = self.rgb.clone();
        for (c, k) in rgb.as_chunks_mut::<3>().0.iter_mut().zip(&self.known) {
            if *k != StoreState::Stored {
                *c = unknown;
            }
        }
        Picture::new(self.width, self.height, rgb)
    }

    /// Returns red, green, blue and opacity of each pixel: 255, or 0 if unknown.
    #[must_use]
    pub fn to_rgba(&self) -> Vec<u8> {
        let pixels = self.rgb.as_chunks::<3>().0.iter().zip(&self.known);
        pixels
            .flat_map(|([r, g, b], k)| [*r, *g, *b, if *k == StoreState::Stored { 255 } else { 0 }])
            .collect()
    }
}

/// Returns the state of a pixel from the states of its bytes.
#[inline]
fn together(states: &[StoreState]) -> StoreState {
    let mut out = StoreState::Stored;
    for k in states {
        match k {
            StoreState::Stored => {}
            StoreState::Lost => return StoreState::Lost,
            StoreState::Never => out = StoreState::Never,
        }
    }
    out
}

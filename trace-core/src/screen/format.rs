//! The format of a screen in a framebuffer: base, pitch, size, pixel format, palette.

/// Maximum number of pixels in a row, and maximum number of rows.
pub const MAX_SIDE: u32 = 1 << 15;
/// Maximum number of pixels of a screen.
pub const MAX_PIXELS: u64 = 1 << 26;

/// Pixel format. Names list the parts from the highest bit to the lowest, as manuals of Linux and GPUs do;
/// [`ScreenFormat::order`] gives the byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PixelFormat {
    /// One byte, an index into the palette.
    Indexed8,
    /// Two bytes: an unused bit, 5 bits each of red, green and blue.
    Rgb555,
    /// Two bytes: 5 bits of red, 6 of green, 5 of blue.
    Rgb565,
    /// Three bytes, red highest.
    Rgb888,
    /// Three bytes, blue highest.
    Bgr888,
    /// Four bytes: an unused one, red, green, blue.
    Xrgb8888,
    /// Four bytes: an unused one, blue, green, red.
    Xbgr8888,
}

impl PixelFormat {
    /// Every form.
    pub const ALL: [Self; 7] = [
        Self::Indexed8,
        Self::Rgb555,
        Self::Rgb565,
        Self::Rgb888,
        Self::Bgr888,
        Self::Xrgb8888,
        Self::Xbgr8888,
    ];

    /// Returns the name on the command line, in JSON and in the window.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Indexed8 => "indexed8",
            Self::Rgb555 => "rgb555",
            Self::Rgb565 => "rgb565",
            Self::Rgb888 => "rgb888",
            Self::Bgr888 => "bgr888",
            Self::Xrgb8888 => "xrgb8888",
            Self::Xbgr8888 => "xbgr8888",
        }
    }

    /// Returns the format of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }

    /// Returns the size of a pixel, 1 to 4 bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::Indexed8 => 1,
            Self::Rgb555 | Self::Rgb565 => 2,
            Self::Rgb888 | Self::Bgr888 => 3,
            Self::Xrgb8888 | Self::Xbgr8888 => 4,
        }
    }

    /// Returns red, green and blue of a pixel's value, or `None` for a palette index.
    #[must_use]
    pub fn color(self, value: u32) -> Option<[u8; 3]> {
        let [b0, b1, b2, _] = value.to_le_bytes();
        // A part of fewer than 8 bits is scaled so that its largest value is 255.
        let five = |v: u32| ((v & 31) << 3 | (v & 31) >> 2) as u8;
        let six = |v: u32| ((v & 63) << 2 | (v & 63) >> 4) as u8;
        Some(match self {
            Self::Indexed8 => return None,
            Self::Rgb555 => [five(value >> 10), five(value >> 5), five(value)],
            Self::Rgb565 => [five(value >> 11), six(value >> 5), five(value)],
            Self::Rgb888 | Self::Xrgb8888 => [b2, b1, b0],
            Self::Bgr888 | Self::Xbgr8888 => [b0, b1, b2],
        })
    }
}

/// Byte order of a pixel in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// The lowest byte first.
    #[default]
    Little,
    /// The highest byte first.
    Big,
}

/// The location of a screen's pixels in a framebuffer space, and their format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScreenFormat {
    /// Offset of the first pixel in the space, in bytes.
    pub base: u64,
    /// Distance between rows, bytes.
    pub pitch: u32,
    /// Pixels per row, 1 to [`MAX_SIDE`].
    pub width: u32,
    /// Rows, 1 to [`MAX_SIDE`].
    pub height: u32,
    /// Pixel format.
    pub pixel: PixelFormat,
    /// Byte order of a pixel.
    pub order: ByteOrder,
}

/// The reason why a screen format is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// No pixels, or too many.
    #[error(
        "the screen has {width} by {height} pixels, but a side has 1 to {MAX_SIDE} pixels and the screen at most \
             {MAX_PIXELS}"
    )]
    Size {
        /// Pixels per row.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// A row does not fit the pitch.
    #[error("the pitch of {pitch} bytes is less than a row: {width} pixels take {row} bytes")]
    Pitch {
        /// Distance between rows, bytes.
        pitch: u32,
        /// Pixels per row.
        width: u32,
        /// Size of a row, bytes.
        row: u64,
    },
    /// The last row ends after the end of the space.
    #[error("the screen ends at byte {end:#x} of the framebuffer, which has {bytes:#x} bytes")]
    Outside {
        /// One past its last byte.
        end: u64,
        /// Size of the space, bytes.
        bytes: u64,
    },
}

impl ScreenFormat {
    /// Returns the size of a row's pixels, bytes.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        u64::from(self.width) * u64::from(self.pixel.bytes())
    }

    /// Returns the offset after the last byte, or `u64::MAX` if it is no valid offset.
    #[must_use]
    pub fn end(&self) -> u64 {
        let rows = u64::from(self.height.saturating_sub(1)) * u64::from(self.pitch);
        self.base.saturating_add(rows).saturating_add(self.row_bytes())
    }

    /// Checks whether the format fits a framebuffer of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// The reason why it does not.
    pub fn check(&self, bytes: u64) -> Result<(), FormatError> {
        let (width, height) = (self.width, self.height);
        let pixels = u64::from(width) * u64::from(height);
        if pixels == 0 || width > MAX_SIDE || height > MAX_SIDE || pixels > MAX_PIXELS {
            return Err(FormatError::Size { width, height });
        }
        if u64::from(self.pitch) < self.row_bytes() {
            return Err(FormatError::Pitch {
                pitch: self.pitch,
                width,
                row: self.row_bytes(),
            });
        }
        match self.end() {
            end if end > bytes => Err(FormatError::Outside { end, bytes }),
            _ => Ok(()),
        }
    }

    /// Returns the offset of a pixel's first byte in the space, or `None` outside the screen.
    #[must_use]
    pub fn offset(&self, x: u32, y: u32) -> Option<u64> {
        if x >= self.width || y >= self.height {
            return None;
        }
        let in_screen = u64::from(y) * u64::from(self.pitch) + u64::from(x) * u64::from(self.pixel.bytes());
        self.base.checked_add(in_screen)
    }

    /// Returns the value of a pixel from its bytes.
    #[must_use]
    pub fn value(&self, bytes: &[u8]) -> u32 {
        let step = |v: u32, b: &u8| v << 8 | u32::from(*b);
        match self.order {
            ByteOrder::Little => bytes.iter().rev().fold(0, step),
            ByteOrder::Big => bytes.iter().fold(0, step),
        }
    }

    /// Returns the colour of a pixel's value, or `None` if its palette colour is unknown.
    #[must_use]
    pub fn color(&self, value: u32, palette: &Palette) -> Option<[u8; 3]> {
        match self.pixel {
            PixelFormat::Indexed8 => palette.color(value as u8),
            form => form.color(value),
        }
    }
}

impl std::fmt::Display for ScreenFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let order = match self.order {
            ByteOrder::Little => "",
            ByteOrder::Big => ", big-endian",
        };
        let Self {
            width, height, pitch, ..
        } = self;
        let name = self.pixel.name();
        write!(
            f,
            "{width} by {height}, {name}{order}, pitch {pitch} at {:#x}",
            self.base
        )
    }
}

/// The known colours of the 256 palette indices.
#[derive(Clone, PartialEq, Eq)]
pub struct Palette {
    colors: [[u8; 3]; 256],
    known: [u64; 4],
}

impl std::fmt::Debug for Palette {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Palette({} known)",
            self.known.iter().map(|w| w.count_ones()).sum::<u32>()
        )
    }
}

impl Default for Palette {
    /// Creates a palette without known colours.
    fn default() -> Self {
        Self {
            colors: [[0; 3]; 256],
            known: [0; 4],
        }
    }
}

impl Palette {
    /// Returns a palette in which every index is a grey of its own value, for display of indices without a known
    /// palette.
    #[must_use]
    pub fn grey() -> Self {
        let mut p = Self::default();
        for i in 0..=255 {
            p.set(i, [i; 3]);
        }
        p
    }

    /// Sets a colour.
    pub fn set(&mut self, index: u8, color: [u8; 3]) {
        self.colors[usize::from(index)] = color;
        self.known[usize::from(index >> 6)] |= 1 << (index & 63);
    }

    /// Returns the colour of an index, if it is known.
    #[must_use]
    pub fn color(&self, index: u8) -> Option<[u8; 3]> {
        let known = self.known[usize::from(index >> 6)] >> (index & 63) & 1 == 1;
        known.then(|| self.colors[usize::from(index)])
    }

    /// Whether no colour is known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.known == [0; 4]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(pixel: PixelFormat) -> ScreenFormat {
        ScreenFormat {
            base: 0x100,
            pitch: 64,
            width: 16,
            height: 4,
            pixel,
            order: ByteOrder::Little,
        }
    }

    #[test]
    fn colours_are_stretched_to_eight_bits() {
        use PixelFormat as P;
        assert_eq!(P::Rgb565.color(0xffff), Some([255; 3]));
        assert_eq!(P::Rgb565.color(0xf800), Some([255, 0, 0]));
        assert_eq!(P::Rgb565.color(0x0020), Some([0, 4, 0]));
        assert_eq!(P::Rgb555.color(0x83e0), Some([0, 255, 0]));
        assert_eq!(P::Xrgb8888.color(0xff11_2233), Some([0x11, 0x22, 0x33]));
        assert_eq!(P::Xbgr8888.color(0xff11_2233), Some([0x33, 0x22, 0x11]));
        assert_eq!(P::Indexed8.color(7), None);
        for f in P::ALL {
            assert_eq!(P::by_name(f.name()), Some(f));
        }
    }

    #[test]
    fn invalid_framebuffer_format_is_refused_with_its_values() {
        let f = format(PixelFormat::Xrgb8888);
        assert_eq!(f.check(0x200), Ok(()));
        assert_eq!(
            f.check(0x1ff),
            Err(FormatError::Outside {
                end: 0x200,
                bytes: 0x1ff
            })
        );
        let wide = ScreenFormat { width: 17, ..f };
        assert_eq!(
            wide.check(0x1000),
            Err(FormatError::Pitch {
                pitch: 64,
                width: 17,
                row: 68
            })
        );
        for (width, height) in [(0, 1), (1, 0), (MAX_SIDE + 1, 1), (MAX_SIDE, MAX_SIDE)] {
            let none = ScreenFormat { width, height, ..f };
            assert_eq!(none.check(u64::MAX), Err(FormatError::Size { width, height }));
        }
        let far = ScreenFormat { base: u64::MAX, ..f };
        assert!(far.check(1 << 40).is_err());
    }

    #[test]
    fn pixel_offsets_follow_the_pitch_and_byte_order() {
        let f = format(PixelFormat::Rgb888);
        assert_eq!(f.offset(2, 1), Some(0x100 + 64 + 6));
        assert_eq!(f.offset(16, 0), None);
        assert_eq!(f.value(&[1, 2, 3]), 0x03_0201);
        let big = ScreenFormat {
            order: ByteOrder::Big,
            ..f
        };
        assert_eq!(big.value(&[1, 2, 3]), 0x01_0203);
        assert_eq!(f.to_string(), "16 by 4, rgb888, pitch 64 at 0x100");
    }

    #[test]
    fn palette_index_has_a_colour_once_set() {
        let f = format(PixelFormat::Indexed8);
        let mut p = Palette::default();
        assert!(p.is_unknown());
        p.set(200, [1, 2, 3]);
        assert_eq!(f.color(200, &p), Some([1, 2, 3]));
        assert_eq!(f.color(201, &p), None);
        assert_eq!(f.color(9, &Palette::grey()), Some([9; 3]));
    }
}

//! A picture that a device showed, and its file format PPM (binary, `P6`), which QEMU and framebuffer tools write.

/// Maximum size of a picture file, bytes.
pub const MAX_FILE: u64 = 512 << 20;

/// A picture: three bytes per pixel, red, green and blue, rows from the top, no padding.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
}

impl std::fmt::Debug for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Picture({} by {})", self.width, self.height)
    }
}

/// The reason why bytes are no picture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PictureError {
    /// The first bytes are not those of a binary PPM file.
    #[error("the file is not a binary PPM picture: it does not start with P6")]
    NotPpm,
    /// A number in the head is missing or malformed.
    #[error("byte {byte}: the {what} of the picture is missing or not a number")]
    Head {
        /// Its position.
        byte: usize,
        /// Its name.
        what: &'static str,
    },
    /// It has more than one byte a sample.
    #[error("the samples of the picture go up to {maximum}, but only 255 is supported")]
    Depth {
        /// Largest sample.
        maximum: u32,
    },
    /// It has no pixels, or too many.
    #[error("a picture cannot have {width} by {height} pixels")]
    Size {
        /// Pixels per row.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// The number of bytes does not match the size.
    #[error("a picture of {width} by {height} pixels has {expected} bytes, but the file has {bytes}")]
    Short {
        /// Pixels per row.
        width: u32,
        /// Rows.
        height: u32,
        /// Number of bytes expected.
        expected: u64,
        /// Number of bytes present.
        bytes: u64,
    },
}

impl Picture {
    /// Creates a picture from pixels.
    ///
    /// # Errors
    ///
    /// When it has no pixels, or the number of bytes is not three per pixel.
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Result<Self, PictureError> {
        let expected = size(width, height)?;
        if rgb.len() as u64 != expected {
            return Err(PictureError::Short {
                width,
                height,
                expected,
                bytes: rgb.len() as u64,
            });
        }
        Ok(Self { width, height, rgb })
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

    /// Returns the red, green and blue of each pixel, rows from the top.
    #[must_use]
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// Returns a pixel, counted from the top left, or `None` outside.
    #[must_use]
    pub fn pixel(&self, x: u32, y: u32) -> Option<[u8; 3]> {
        if x >= self.width {
            return None;
        }
        let at = (y as usize).checked_mul(self.width as usize)?.checked_add(x as usize)?;
        self.rgb.get(at.checked_mul(3)?..)?.first_chunk().copied()
    }

    /// Formats the picture as a binary PPM file.
    #[must_use]
    pub fn to_ppm(&self) -> Vec<u8> {
        let mut bytes = format!("P6\n{} {}\n255\n", self.width, self.height).into_bytes();
        bytes.extend_from_slice(&self.rgb);
        bytes
    }

    /// Parses a binary PPM file of one byte per sample. Comments and data after the last pixel are skipped.
    ///
    /// # Errors
    ///
    /// When the bytes are no such file, or end before the last pixel.
    pub fn from_ppm(bytes: &[u8]) -> Result<Self, PictureError> {
        if !bytes.starts_with(b"P6") {
            return Err(PictureError::NotPpm);
        }
        let mut at = 2;
        let width = number(bytes, &mut at, "width")?;
        let height = number(bytes, &mut at, "height")?;
        let maximum = number(bytes, &mut at, "largest sample")?;
        if maximum != 255 {
            return Err(PictureError::Depth { maximum });
        }
        let expected = size(width, height)?;
        // One byte of white space, then the samples.
        let pixels = bytes.get(at.saturating_add(1)..).unwrap_or_default();
        match usize::try_from(expected).ok().and_then(|n| pixels.get(..n)) {
            Some(rgb) => Self::new(width, height, rgb.to_vec()),
            None => Err(PictureError::Short {
                width,
                height,
                expected,
                bytes: pixels.len() as u64,
            }),
        }
    }
}

/// Returns the size of a picture, bytes.
fn size(width: u32, height: u32) -> Result<u64, PictureError> {
    let pixels = u64::from(width) * u64::from(height);
    match pixels.checked_mul(3) {
        Some(n) if n > 0 && n <= MAX_FILE => Ok(n),
        _ => Err(PictureError::Size { width, height }),
    }
}

/// Parses the next number of the head, after spaces and comments.
fn number(bytes: &[u8], at: &mut usize, what: &'static str) -> Result<u32, PictureError> {
    let start = *at;
    loop {
        match bytes.get(*at) {
            Some(b) if b.is_ascii_whitespace() => *at += 1,
            Some(b'#') => {
                while bytes.get(*at).is_some_and(|b| *b != b'\n') {
                    *at += 1;
                }
            }
            _ => break,
        }
    }
    let first = *at;
    while bytes.get(*at).is_some_and(u8::is_ascii_digit) {
        *at += 1;
    }
    let digits = bytes.get(first..*at).and_then(|d| std::str::from_utf8(d).ok());
    let value = digits.filter(|_| first > start).and_then(|d| d.parse().ok());
    value.ok_or(PictureError::Head { byte: first, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_read_as_it_is_written() {
        let p = Picture::new(2, 2, vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]).unwrap();
        assert_eq!(p.pixel(1, 0), Some([4, 5, 6]));
        assert_eq!(p.pixel(0, 1), Some([7, 8, 9]));
        assert_eq!(p.pixel(2, 0), None);
        assert_eq!(p.pixel(0, 2), None);
        assert_eq!(Picture::from_ppm(&p.to_ppm()), Ok(p.clone()));
        let mut entries = b"P6 # two\n#\n2\t2 255\n".to_vec();
        entries.extend_from_slice(p.rgb());
        entries.push(b'\n');
        assert_eq!(Picture::from_ppm(&entries), Ok(p));
    }

    #[test]
    fn invalid_ppm_files_are_refused_with_an_offset() {
        assert_eq!(Picture::from_ppm(b"P5\n1 1\n255\n123"), Err(PictureError::NotPpm));
        assert_eq!(
            Picture::from_ppm(b"P6\n1 x"),
            Err(PictureError::Head {
                byte: 5,
                what: "height"
            })
        );
        assert_eq!(
            Picture::from_ppm(b"P62 1 255\n"),
            Err(PictureError::Head { byte: 2, what: "width" })
        );
        assert_eq!(
            Picture::from_ppm(b"P6\n1 1\n65535\n123456"),
            Err(PictureError::Depth { maximum: 65535 })
        );
        for (head, width, height) in [
            (&b"P6\n0 9\n255\n"[..], 0, 9),
            (b"P6\n4294967295 4294967295\n255\n", u32::MAX, u32::MAX),
        ] {
            assert_eq!(Picture::from_ppm(head), Err(PictureError::Size { width, height }));
        }
        assert_eq!(
            Picture::from_ppm(b"P6\n2 1\n255\n12345"),
            Err(PictureError::Short {
                width: 2,
                height: 1,
                expected: 6,
                bytes: 5
            })
        );
        assert!(Picture::new(1, 1, vec![0; 4]).is_err());
    }
}

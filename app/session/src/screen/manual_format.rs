//! The screen format as the user writes it: one text on the command line, fields in the window.

use crate::text;
use trace_core::screen::{ByteOrder, PixelFormat, ScreenFormat};

/// Syntax of a format text, for messages.
const EXPECTED: &str = "WIDTHxHEIGHT,PIXEL and optionally pitch=BYTES, base=OFFSET, big-endian, for example \
                        640x480,rgb565,pitch=1280,base=0x1000";

/// The text fields of a screen format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManualFormat {
    /// Pixels per row.
    pub width: String,
    /// Rows.
    pub height: String,
    /// Bytes from one row to the next.
    pub pitch: String,
    /// Offset of the first byte.
    pub base: String,
    /// Pixel format.
    pub pixel: PixelFormat,
    /// Byte order of a pixel.
    pub order: ByteOrder,
}

impl ManualFormat {
    /// Returns the fields of a format.
    #[must_use]
    pub fn from_format(f: &ScreenFormat) -> Self {
        Self {
            width: f.width.to_string(),
            height: f.height.to_string(),
            pitch: f.pitch.to_string(),
            base: format!("{:#x}", f.base),
            pixel: f.pixel,
            order: f.order,
        }
    }

    /// Parses the fields, for a framebuffer of `bytes` bytes.
    ///
    /// # Errors
    /// A description of the error in the fields.
    pub fn format(&self, bytes: u64) -> Result<ScreenFormat, String> {
        let number = |name: &str, t: &str| {
            let n = text::parse_number(t.trim()).ok_or_else(|| format!("the {name} {t:?} is not a number"))?;
            Ok::<u64, String>(n)
        };
        let small = |name: &str, t: &str| {
            let n = number(name, t)?;
            u32::try_from(n).map_err(|_| format!("the {name} {t} is too large"))
        };
        let format = ScreenFormat {
            base: number("base", &self.base)?,
            pitch: small("pitch", &self.pitch)?,
            width: small("width", &self.width)?,
            height: small("height", &self.height)?,
            pixel: self.pixel,
            order: self.order,
        };
        format.check(bytes).map_err(|e| e.to_string())?;
        Ok(format)
    }
}

/// Returns an initial format if the recording states none: the common screen size that fits the stored bytes.
pub(super) fn guess_format(bytes: u64) -> ScreenFormat {
    let sizes = [(1920, 1080), (1280, 800), (1024, 768), (800, 600), (640, 480)];
    let fits = |(w, h): &(u32, u32)| u64::from(*w) * u64::from(*h) * 4 <= bytes.max(640 * 480 * 4);
    let (width, height) = sizes.into_iter().find(fits).unwrap_or((640, 480));
    ScreenFormat {
        base: 0,
        pitch: width * 4,
        width,
        height,
        pixel: PixelFormat::Xrgb8888,
        order: ByteOrder::Little,
    }
}

/// Parses a format text.
///
/// # Errors
/// A description of the error and of the expected syntax.
pub fn parse(message: &str) -> Result<ScreenFormat, String> {
    let wrong = |what: String| format!("{what} (expected {EXPECTED})");
    let mut parts = message.split(',').map(str::trim);
    let size = parts.next().unwrap_or_default();
    let side = |t: &str| t.parse::<u32>().ok();
    let sides = size.split_once('x').and_then(|(w, h)| side(w).zip(side(h)));
    let (width, height) = sides.ok_or_else(|| wrong(format!("'{size}' is not a size")))?;
    let name = parts.next().unwrap_or_default();
    let pixel = PixelFormat::by_name(name).ok_or_else(|| {
        let known = PixelFormat::ALL.map(PixelFormat::name).join(", ");
        format!("'{name}' is not a pixel format (expected {known})")
    })?;
    let mut format = ScreenFormat {
        base: 0,
        pitch: width.saturating_mul(pixel.bytes()),
        width,
        height,
        pixel,
        order: ByteOrder::Little,
    };
    for part in parts {
        let value = part
            .split_once('=')
            .and_then(|(k, v)| Some((k, text::parse_number(v)?)));
        match value {
            Some(("base", n)) => format.base = n,
            Some(("pitch", n)) => {
                format.pitch = u32::try_from(n).map_err(|_| wrong(format!("the pitch {n} is too large")))?;
            }
            None if part == "big-endian" => format.order = ByteOrder::Big,
            _ => return Err(wrong(format!("'{part}' is not part of a screen format"))),
        }
    }
    Ok(format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_screen_format_parses_text_and_fields() {
        let f = parse("640x480,rgb565,base=0x1000,pitch=2048,big-endian").unwrap();
        assert_eq!((f.width, f.height, f.pitch, f.base), (640, 480, 2048, 0x1000));
        assert_eq!((f.pixel, f.order), (PixelFormat::Rgb565, ByteOrder::Big));
        assert_eq!(ManualFormat::from_format(&f).format(1 << 24), Ok(f));
        assert_eq!(parse("8x2,xrgb8888").unwrap().pitch, 32);
    }

    #[test]
    fn invalid_screen_formats_are_errors() {
        for (text, part) in [
            ("640,rgb565", "'640' is not a size"),
            ("640x480", "'' is not a pixel format (expected indexed8, "),
            ("640x480,yuv", "'yuv' is not a pixel format"),
            ("640x480,rgb565,pitch", "'pitch' is not part"),
            ("640x480,rgb565,pitch=x", "'pitch=x' is not part"),
        ] {
            let e = parse(text).unwrap_err();
            assert!(e.contains(part), "{text}: {e}");
        }
        let mut h = ManualFormat::from_format(&guess_format(0));
        assert_eq!((h.width.as_str(), h.height.as_str()), ("640", "480"));
        h.pitch = "many".into();
        assert_eq!(h.format(1 << 24).unwrap_err(), "the pitch \"many\" is not a number");
        h.pitch = "10".into();
        assert!(h.format(1 << 24).unwrap_err().contains("less than a row"));
    }
}

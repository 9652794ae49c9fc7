//! Element values of buffers: formatting, parsing, and import of raw, NPY, PNG and CSV files.

use std::path::Path;
use trace_core::recording::{Buffer, ElementType};

use trace_core::memory::bf16_to_f32;
pub use trace_core::memory::f16_to_f32;

/// Parses a string of hex digits to bytes. White space between bytes is allowed.
#[must_use]
pub fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
    let clean: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    if !clean.len().is_multiple_of(2) {
        return None;
    }
    clean
        .chunks_exact(2)
        .map(|p| Some(digit(p[0])? << 4 | digit(p[1])?))
        .collect()
}

/// Returns an element as a number. 64-bit integers lose what an `f64` cannot hold.
#[must_use]
pub fn element_f64(element: ElementType, bytes: &[u8]) -> Option<f64> {
    Some(match element {
        ElementType::U8 => f64::from(*bytes.first()?),
        ElementType::I8 => f64::from(*bytes.first()? as i8),
        ElementType::U16 => f64::from(u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?)),
        ElementType::I16 => f64::from(i16::from_le_bytes(bytes.get(..2)?.try_into().ok()?)),
        ElementType::F16 => f64::from(f16_to_f32(u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?))),
        ElementType::U32 => f64::from(u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?)),
        ElementType::I32 => f64::from(i32::from_le_bytes(bytes.get(..4)?.try_into().ok()?)),
        ElementType::F32 => f64::from(f32::from_le_bytes(bytes.get(..4)?.try_into().ok()?)),
        ElementType::U64 => u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?) as f64,
        ElementType::I64 => i64::from_le_bytes(bytes.get(..8)?.try_into().ok()?) as f64,
        ElementType::F64 => f64::from_le_bytes(bytes.get(..8)?.try_into().ok()?),
        ElementType::BF16 => f64::from(bf16_to_f32(u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?))),
    })
}

/// Formats an element as text that [`parse_element`] parses.
#[must_use]
pub fn format_element(element: ElementType, bytes: &[u8]) -> String {
    trace_core::memory::element_text(element, bytes).unwrap_or_default()
}

/// Parses the text of an element to its bytes.
///
/// # Errors
/// A description of the error in the text.
pub fn parse_element(element: ElementType, text: &str) -> Result<Vec<u8>, String> {
    trace_core::memory::parse_element(element, text.trim()).map_err(|e| e.to_string())
}

/// Returns the bytes of an element with this value, rounded or clamped to the range of its type.
#[must_use]
pub fn element_bytes(element: ElementType, v: f64) -> Vec<u8> {
    let r = v.round();
    match element {
        ElementType::U8 => (r as u8).to_le_bytes().to_vec(),
        ElementType::I8 => (r as i8).to_le_bytes().to_vec(),
        ElementType::U16 => (r as u16).to_le_bytes().to_vec(),
        ElementType::I16 => (r as i16).to_le_bytes().to_vec(),
        ElementType::F16 => trace_core::memory::f64_to_f16(v).to_le_bytes().to_vec(),
        ElementType::U32 => (r as u32).to_le_bytes().to_vec(),
        ElementType::I32 => (r as i32).to_le_bytes().to_vec(),
        ElementType::F32 => (v as f32).to_le_bytes().to_vec(),
        ElementType::U64 => (r as u64).to_le_bytes().to_vec(),
        ElementType::I64 => (r as i64).to_le_bytes().to_vec(),
        ElementType::F64 => v.to_le_bytes().to_vec(),
        ElementType::BF16 => trace_core::memory::f64_to_bf16(v).to_le_bytes().to_vec(),
    }
}

/// Maximum size of a file that is loaded into a buffer, bytes.
const MAX_FILE: u64 = 1 << 32;

/// Loads a file as the contents of a buffer: `.npy`, `.csv` and `.png` as numbers, anything else as raw bytes. With
/// `planes`, the channels of a picture are stored one after another instead of pixel by pixel.
///
/// # Errors
/// A description of the error: unreadable file, wrong type, wrong size.
pub fn load(path: &Path, buffer: &Buffer, planes: bool) -> Result<Vec<u8>, String> {
    let describe = |what: String| format!("{}: {what}", path.display());
    let extension = path
        .extension()
        .map(|e| e.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    if !matches!(extension.as_str(), "csv" | "png") {
        // Its errors already name the file.
        return crate::buffers::read_file(path, buffer).map_err(|e| e.to_string());
    }
    let size = std::fs::metadata(path).map_err(|e| describe(e.to_string()))?.len();
    if size > MAX_FILE {
        return Err(describe(format!(
            "the file has {size} bytes, more than any buffer can hold"
        )));
    }
    let data = std::fs::read(path).map_err(|e| describe(e.to_string()))?;
    let expected = buffer.bytes / buffer.element.bytes() as u64;
    let (out, what) = if extension == "csv" {
        csv(&data, buffer.element, expected)
    } else {
        png(&data, buffer.element, planes, expected)
    }
    .map_err(describe)?;
    if out.len() as u64 != buffer.bytes {
        return Err(describe(format!(
            "{what}, but buffer '{}' takes exactly {expected} of type {}",
            buffer.name,
            buffer.element.name()
        )));
    }
    Ok(out)
}

/// Parses elements separated by commas, semicolons, tabs or spaces. Also returns a description of the text.
fn csv(data: &[u8], element: ElementType, expected: u64) -> Result<(Vec<u8>, String), String> {
    let text = std::str::from_utf8(data).map_err(|e| {
        let line = data.iter().take(e.valid_up_to()).filter(|b| **b == b'\n').count() + 1;
        format!("line {line}: the file is not text (byte {})", e.valid_up_to())
    })?;
    let mut out = Vec::new();
    let mut count = 0u64;
    for (n, line) in text.lines().enumerate() {
        let cells = line
            .split([',', ';', '\t', ' '])
            .map(str::trim)
            .filter(|c| !c.is_empty());
        for (i, cell) in cells.enumerate() {
            let place = || format!("line {}, value {}", n + 1, i + 1);
            count += 1;
            if count > expected {
                return Err(format!(
                    "{}: the file has more than the {expected} values of the buffer",
                    place()
                ));
            }
            out.extend(parse_element(element, cell).map_err(|e| format!("{}: {e}", place()))?);
        }
    }
    let lines = text.lines().count();
    Ok((out, format!("the file holds {count} values in {lines} lines")))
}

/// Maximum number of pixels of a loaded picture.
const MAX_PIXELS: u64 = 1 << 28;

/// Decodes the elements of a picture: one channel for grey, three for colour. Floating-point elements get 0 to 1,
/// integers 0 to 255.
fn png(data: &[u8], element: ElementType, planes: bool, expected: u64) -> Result<(Vec<u8>, String), String> {
    let format = image::ImageFormat::Png;
    let size = image::ImageReader::with_format(std::io::Cursor::new(data), format)
        .into_dimensions()
        .map_err(|e| e.to_string())?;
    let (w, h) = (u64::from(size.0), u64::from(size.1));
    let pixels = w.saturating_mul(h);
    if pixels > MAX_PIXELS {
        return Err(format!("{w}×{h} pixels are more than a buffer can hold"));
    }
    let image = image::load_from_memory_with_format(data, format).map_err(|e| e.to_string())?;
    // A grey buffer uses the brightness of a colour picture. A colour buffer repeats a grey picture three times.
    let channels: u64 = match (image.color().has_color(), expected) {
        (true, n) if n == pixels => 1,
        (false, n) if n == pixels.saturating_mul(3) => 3,
        (colour, _) => 1 + 2 * u64::from(colour),
    };
    let samples: Vec<u16> = if channels == 3 {
        image.into_rgb16().into_raw()
    } else {
        image.into_luma16().into_raw()
    };
    let scale = if element.is_float() { 65535.0 } else { 257.0 };
    let message = format!(
        "the picture holds {w}×{h} pixels of {channels} channels, {} values",
        pixels * channels
    );
    if samples.len() as u64 != expected {
        return Ok((Vec::new(), message));
    }
    let mut out = Vec::with_capacity(samples.len() * element.bytes());
    let mut put = |v: Option<&u16>| out.extend(element_bytes(element, f64::from(*v.unwrap_or(&0)) / scale));
    if planes && channels == 3 {
        for c in 0..3 {
            samples.iter().skip(c).step_by(3).for_each(|v| put(Some(v)));
        }
    } else {
        samples.iter().for_each(|v| put(Some(v)));
    }
    Ok((out, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_four_kinds_fill_a_buffer() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, data: &[u8]| {
            let p = dir.path().join(name);
            std::fs::write(&p, data).unwrap();
            p
        };
        let buffer = |bytes: u64| Buffer {
            name: "in".into(),
            role: trace_core::recording::BufferRole::Input,
            address_space: 0,
            va: trace_core::GpuVa::ZERO,
            bytes,
            element: ElementType::F32,
        };
        let f32s = |v: &[f32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>();
        let want = f32s(&[1.0, 2.5, -3.0]);
        assert_eq!(load(&put("a.bin", &want), &buffer(12), false).unwrap(), want);
        assert_eq!(load(&put("a.csv", b"1, 2.5\n-3"), &buffer(12), false).unwrap(), want);
        let mut npy = b"\x93NUMPY\x01\x00".to_vec();
        let header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n";
        npy.extend((header.len() as u16).to_le_bytes());
        npy.extend(header);
        npy.extend(&want);
        assert_eq!(load(&put("a.npy", &npy), &buffer(12), false).unwrap(), want);
        let image = image::GrayImage::from_raw(3, 1, vec![0, 255, 51]).unwrap();
        image.save(dir.path().join("a.png")).unwrap();
        assert_eq!(
            load(&dir.path().join("a.png"), &buffer(12), false).unwrap(),
            f32s(&[0.0, 1.0, 0.2])
        );
        let image = image::RgbImage::from_raw(2, 1, vec![255, 0, 51, 0, 255, 102]).unwrap();
        image.save(dir.path().join("c.png")).unwrap();
        let colour = dir.path().join("c.png");
        assert_eq!(
            load(&colour, &buffer(24), false).unwrap(),
            f32s(&[1.0, 0.0, 0.2, 0.0, 1.0, 0.4])
        );
        assert_eq!(
            load(&colour, &buffer(24), true).unwrap(),
            f32s(&[1.0, 0.0, 0.0, 1.0, 0.2, 0.4])
        );
    }

    #[test]
    fn unfit_value_files_are_reported_with_their_location() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, data: &[u8]| {
            let p = dir.path().join(name);
            std::fs::write(&p, data).unwrap();
            p
        };
        let buffer = Buffer {
            name: "in".into(),
            role: trace_core::recording::BufferRole::Input,
            address_space: 0,
            va: trace_core::GpuVa::ZERO,
            bytes: 12,
            element: ElementType::F32,
        };
        let wrong = |p: std::path::PathBuf| {
            let e = load(&p, &buffer, false).unwrap_err();
            let name = p.file_name().unwrap().to_string_lossy().into_owned();
            assert_eq!(e.matches(&name).count(), 1, "the error names the file once: {e}");
            e
        };
        let e = wrong(put("b.bin", &[0; 8]));
        assert!(e.contains('8') && e.contains("12"), "{e}");
        let e = wrong(put("c.csv", b"1\n2, x"));
        assert!(e.contains("line 2, value 2") && e.contains("\"x\""), "{e}");
        let e = wrong(put("d.csv", b"1,2,3,4"));
        assert!(e.contains("line 1, value 4") && e.contains('3'), "{e}");
        let e = wrong(put("e.csv", b"1\n2"));
        assert!(e.contains("2 values in 2 lines") && e.contains("exactly 3"), "{e}");
        let e = wrong(put("f.csv", b"1\n\xff"));
        assert!(e.contains("line 2"), "{e}");
        let e = wrong(put("g.npy", b"\x93NUMPY\x07\x00"));
        assert!(e.contains("byte 6"), "{e}");
        wrong(put("h.png", b"no picture"));
        image::GrayImage::new(2, 2).save(dir.path().join("i.png")).unwrap();
        let e = wrong(dir.path().join("i.png"));
        assert!(e.contains("2×2") && e.contains("exactly 3"), "{e}");
    }

    #[test]
    fn hex_is_read_or_refused() {
        assert_eq!(parse_hex("00 fF\n10"), Some(vec![0, 255, 16]));
        assert_eq!(parse_hex("0"), None);
        assert_eq!(parse_hex("zz"), None);
    }
}

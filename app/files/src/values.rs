//! Values of buffers: reading and writing elements, and bringing raw, NPY, PNG and CSV files in.

use std::path::Path;
use trace_core::recording::{Buffer, ElementType};

pub use trace_core::memory::{f16_to_f32, f32_to_f16};

/// Bytes that a string of hex digits spells; white space between bytes is allowed.
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

/// An element as a number; integers of 64 bits lose what a `f64` cannot hold.
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
    })
}

/// An element as text that [`parse_element`] reads back.
#[must_use]
pub fn element_text(element: ElementType, bytes: &[u8]) -> String {
    trace_core::memory::element_text(element, bytes).unwrap_or_default()
}

/// The bytes of an element that a person wrote.
///
/// # Errors
/// What is wrong with the text, in words.
pub fn parse_element(element: ElementType, text: &str) -> Result<Vec<u8>, String> {
    trace_core::memory::parse_element(element, text.trim()).map_err(|e| e.to_string())
}

fn from_numbers(element: ElementType, values: impl Iterator<Item = f64>) -> Vec<u8> {
    let mut out = Vec::new();
    for v in values {
        match element {
            ElementType::U8 => out.push(v as u8),
            ElementType::I8 => out.push(v as i8 as u8),
            ElementType::U16 => out.extend((v as u16).to_le_bytes()),
            ElementType::I16 => out.extend((v as i16).to_le_bytes()),
            ElementType::F16 => out.extend(f32_to_f16(v as f32).to_le_bytes()),
            ElementType::U32 => out.extend((v as u32).to_le_bytes()),
            ElementType::I32 => out.extend((v as i32).to_le_bytes()),
            ElementType::F32 => out.extend((v as f32).to_le_bytes()),
            ElementType::U64 => out.extend((v as u64).to_le_bytes()),
            ElementType::I64 => out.extend((v as i64).to_le_bytes()),
            ElementType::F64 => out.extend(v.to_le_bytes()),
        }
    }
    out
}

/// Largest file brought into a buffer.
const MOST_FILE: u64 = 1 << 32;

/// The bytes that a file gives a buffer: `.npy`, `.csv` and `.png` as numbers, anything else as it is.
///
/// # Errors
/// What is wrong with the file, in words: unreadable, another type, another size.
pub fn load(path: &Path, buffer: &Buffer) -> Result<Vec<u8>, String> {
    let told = |what: String| format!("{}: {what}", path.display());
    let extension = path
        .extension()
        .map(|e| e.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    if !matches!(extension.as_str(), "csv" | "png") {
        return crate::buffers::read_file(path, buffer).map_err(|e| told(e.to_string()));
    }
    let size = std::fs::metadata(path).map_err(|e| told(e.to_string()))?.len();
    if size > MOST_FILE {
        return Err(told(format!("{size} bytes are more than a buffer can take")));
    }
    let data = std::fs::read(path).map_err(|e| told(e.to_string()))?;
    let out = if extension == "csv" {
        csv(&String::from_utf8_lossy(&data), buffer.element)
    } else {
        png(&data, buffer)
    };
    let out = out.map_err(told)?;
    if out.len() as u64 != buffer.bytes {
        return Err(told(format!(
            "it holds {} bytes, and the buffer takes {}",
            out.len(),
            buffer.bytes
        )));
    }
    Ok(out)
}

fn csv(text: &str, element: ElementType) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for (n, line) in text.lines().enumerate() {
        for cell in line.split([',', ';', '\t', ' ']).filter(|c| !c.trim().is_empty()) {
            out.extend(parse_element(element, cell).map_err(|e| format!("line {}: {e}", n + 1))?);
        }
    }
    Ok(out)
}

fn png(data: &[u8], buffer: &Buffer) -> Result<Vec<u8>, String> {
    let element = buffer.element;
    let reader = || image::ImageReader::with_format(std::io::Cursor::new(data), image::ImageFormat::Png);
    // A few bytes can tell of a picture that fills the memory: its size is compared before it is unpacked.
    let (width, height) = reader().into_dimensions().map_err(|e| e.to_string())?;
    let least = u64::from(width) * u64::from(height);
    if least.saturating_mul(element.bytes() as u64) > buffer.bytes {
        return Err(format!(
            "{width}×{height} pixels are more than the {} bytes of the buffer",
            buffer.bytes
        ));
    }
    let image = reader().decode().map_err(|e| e.to_string())?;
    let channels: Vec<u8> = match image {
        image::DynamicImage::ImageLuma8(i) => i.into_raw(),
        other if other.color().has_color() => other.into_rgb8().into_raw(),
        other => other.into_luma8().into_raw(),
    };
    let float = matches!(element, ElementType::F16 | ElementType::F32 | ElementType::F64);
    let scale = if float { 1.0 / 255.0 } else { 1.0 };
    Ok(from_numbers(
        element,
        channels.into_iter().map(|v| f64::from(v) * scale),
    ))
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
            va: trace_core::GpuVa(0),
            bytes,
            element: ElementType::F32,
        };
        let f32s = |v: &[f32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>();
        let want = f32s(&[1.0, 2.5, -3.0]);
        assert_eq!(load(&put("a.bin", &want), &buffer(12)).unwrap(), want);
        assert_eq!(load(&put("a.csv", b"1, 2.5\n-3"), &buffer(12)).unwrap(), want);
        let mut npy = b"\x93NUMPY\x01\x00".to_vec();
        let header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n";
        npy.extend((header.len() as u16).to_le_bytes());
        npy.extend(header);
        npy.extend(&want);
        assert_eq!(load(&put("a.npy", &npy), &buffer(12)).unwrap(), want);
        let image = image::GrayImage::from_raw(3, 1, vec![0, 255, 51]).unwrap();
        image.save(dir.path().join("a.png")).unwrap();
        assert_eq!(
            load(&dir.path().join("a.png"), &buffer(12)).unwrap(),
            f32s(&[0.0, 1.0, 0.2])
        );
        let e = load(&put("b.bin", &[0; 8]), &buffer(12)).unwrap_err();
        assert!(e.contains('8') && e.contains("12"), "{e}");
        assert!(load(&put("c.csv", b"1\nx"), &buffer(8)).unwrap_err().contains("line 2"));
    }

    #[test]
    fn a_picture_far_larger_than_the_buffer_is_refused_before_it_is_unpacked() {
        let mut file = Vec::new();
        image::GrayImage::new(1, 1)
            .write_to(&mut std::io::Cursor::new(&mut file), image::ImageFormat::Png)
            .unwrap();
        // Width and height of the first chunk, and its checksum (CRC-32, of chunk type and data).
        file[16..20].copy_from_slice(&60_000u32.to_be_bytes());
        file[20..24].copy_from_slice(&60_000u32.to_be_bytes());
        let mut crc = u32::MAX;
        for byte in &file[12..29] {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
            }
        }
        file[29..33].copy_from_slice(&(!crc).to_be_bytes());
        let buffer = Buffer {
            name: "in".into(),
            role: trace_core::recording::BufferRole::Input,
            address_space: 0,
            va: trace_core::GpuVa(0),
            bytes: 16,
            element: ElementType::F64,
        };
        let e = png(&file, &buffer).unwrap_err();
        assert!(e.contains("60000×60000 pixels are more than the 16 bytes"), "{e}");
    }

    #[test]
    fn hex_is_read_or_refused() {
        assert_eq!(parse_hex("00 fF\n10"), Some(vec![0, 255, 16]));
        assert_eq!(parse_hex("0"), None);
        assert_eq!(parse_hex("zz"), None);
    }
}

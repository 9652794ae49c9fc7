//! NumPy's NPY file format, versions 1 to 3: plain little-endian numbers in C order.

use trace_core::recording::ElementType;

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// An NPY file that borrows its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Npy<'a> {
    /// Type of the elements.
    pub element: ElementType,
    /// Length of each dimension, the slowest first; empty for a single number.
    pub shape: Vec<u64>,
    /// The elements, little-endian, in C order.
    pub data: &'a [u8],
}

/// Why bytes cannot be read as NPY. Positions are byte offsets in the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NpyError {
    /// The file does not start with the NPY magic.
    #[error("byte 0: not an NPY file (expected \\x93NUMPY)")]
    Magic,
    /// The version is not 1, 2 or 3.
    #[error("byte 6: NPY version {0}.{1} is not supported (expected 1.0, 2.0 or 3.0)")]
    Version(u8, u8),
    /// The file ends inside its header.
    #[error("byte {at}: the file ends inside its header (expected {expected} bytes)")]
    Short {
        /// Size of the file, bytes.
        at: usize,
        /// Bytes expected.
        expected: usize,
    },
    /// The header has a missing or invalid entry.
    #[error("header: {0}")]
    Header(String),
    /// The element type is not supported.
    #[error("header: element type '{0}' is not supported (expected little-endian i1 to i8, u1 to u8, f2, f4, f8)")]
    Element(String),
    /// The length of the data does not match the shape.
    #[error("byte {at}: the file has {got} bytes of data, but its shape needs {expected}")]
    Data {
        /// Offset of the first byte of the data.
        at: usize,
        /// Bytes in the file.
        got: usize,
        /// Bytes expected.
        expected: u64,
    },
}

impl<'a> Npy<'a> {
    /// Parses the bytes of a file.
    ///
    /// # Errors
    /// Returns an error if the bytes are not NPY, or their length does not match the shape. Big-endian data is not
    /// supported, nor is Fortran order with more than one dimension.
    pub fn read(bytes: &'a [u8]) -> Result<Self, NpyError> {
        let short = |expected| NpyError::Short {
            at: bytes.len(),
            expected,
        };
        if !bytes.starts_with(MAGIC) {
            return Err(NpyError::Magic);
        }
        let &[major, minor] = bytes
            .get(6..8)
            .and_then(|v| <&[u8; 2]>::try_from(v).ok())
            .ok_or(short(8))?;
        let (length, start) = match (major, minor) {
            (1, 0) => {
                let n: [u8; 2] = bytes.get(8..10).and_then(|v| v.try_into().ok()).ok_or(short(10))?;
                (usize::from(u16::from_le_bytes(n)), 10)
            }
            (2 | 3, 0) => {
                let n: [u8; 4] = bytes.get(8..12).and_then(|v| v.try_into().ok()).ok_or(short(12))?;
                (u32::from_le_bytes(n) as usize, 12)
            }
            _ => return Err(NpyError::Version(major, minor)),
        };
        let end = length.saturating_add(start);
        let header = bytes.get(start..end).ok_or(short(end))?;
        let header =
            std::str::from_utf8(header).map_err(|_| NpyError::Header("is not text (expected a dictionary)".into()))?;
        let descr = quoted(value_of(header, "descr")?)?;
        let element = element_of(descr)?;
        let fortran = match value_of(header, "fortran_order")? {
            v if v.starts_with("False") => false,
            v if v.starts_with("True") => true,
            _ => return Err(NpyError::Header("'fortran_order' is neither True nor False".into())),
        };
        let shape = tuple(value_of(header, "shape")?)?;
        if fortran && shape.len() > 1 {
            return Err(NpyError::Header(
                "the array is in Fortran order (expected C order)".into(),
            ));
        }
        let count = shape.iter().try_fold(1u64, |n, d| n.checked_mul(*d));
        let expected = count
            .and_then(|n| n.checked_mul(element.bytes() as u64))
            .ok_or_else(|| NpyError::Header("the shape holds more than 2^64 bytes".into()))?;
        let data = bytes.get(end..).unwrap_or_default();
        if data.len() as u64 != expected {
            return Err(NpyError::Data {
                at: end,
                got: data.len(),
                expected,
            });
        }
        Ok(Self { element, shape, data })
    }
}

/// Maximum number of dimensions of a NumPy array.
const MAX_DIMENSIONS: usize = 32;

/// Returns an NPY file, version 1.0. It has this shape if the number of elements matches the data; otherwise it has one
/// dimension. Bytes after the last complete element are left out.
#[must_use]
pub fn write(element: ElementType, shape: &[u64], data: &[u8]) -> Vec<u8> {
    let count = data.len() / element.bytes();
    let elements = shape.iter().try_fold(1u64, |all, n| all.checked_mul(*n));
    let fits = elements == Some(count as u64) && (1..=MAX_DIMENSIONS).contains(&shape.len());
    let sides = match shape {
        [] | [_] => format!("{count},"),
        _ if !fits => format!("{count},"),
        sides => sides.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut header = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
        descr_of(element),
        sides
    );
    // The data starts at a multiple of 64, after a line feed.
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut out = Vec::with_capacity(10 + header.len() + data.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&(header.len() as u16).to_le_bytes());
    out.extend_from_slice(header.as_bytes());
    out.extend(data.iter().take(count * element.bytes()));
    out
}

/// Returns the text after `'key':` in the header.
fn value_of<'h>(header: &'h str, key: &str) -> Result<&'h str, NpyError> {
    let missing = || NpyError::Header(format!("there is no '{key}'"));
    for quote in ['\'', '"'] {
        if let Some((_, rest)) = header.split_once(&format!("{quote}{key}{quote}")) {
            return rest
                .trim_start()
                .strip_prefix(':')
                .map(str::trim_start)
                .ok_or_else(missing);
        }
    }
    Err(missing())
}

fn quoted(text: &str) -> Result<&str, NpyError> {
    let quote = text.chars().next().filter(|c| *c == '\'' || *c == '"');
    quote
        .and_then(|q| text.strip_prefix(q)?.split_once(q))
        .map(|(v, _)| v)
        .ok_or_else(|| NpyError::Header("'descr' is not a plain type (records are not supported)".into()))
}

fn tuple(text: &str) -> Result<Vec<u64>, NpyError> {
    let bad = || NpyError::Header("'shape' is not a list of numbers".into());
    let (inner, _) = text.strip_prefix('(').and_then(|t| t.split_once(')')).ok_or_else(bad)?;
    let parts = inner.split(',').map(str::trim).filter(|p| !p.is_empty());
    parts
        .map(|p| p.trim_end_matches('L').parse().map_err(|_| bad()))
        .collect()
}

fn element_of(descr: &str) -> Result<ElementType, NpyError> {
    Ok(match descr {
        "|u1" | "<u1" | "|b1" | "u1" => ElementType::U8,
        "|i1" | "<i1" | "i1" => ElementType::I8,
        "<u2" => ElementType::U16,
        "<i2" => ElementType::I16,
        "<u4" => ElementType::U32,
        "<i4" => ElementType::I32,
        "<u8" => ElementType::U64,
        "<i8" => ElementType::I64,
        "<f2" => ElementType::F16,
        "<f4" => ElementType::F32,
        "<f8" => ElementType::F64,
        "|V2" => ElementType::BF16,
        other => return Err(NpyError::Element(other.chars().take(16).collect())),
    })
}

fn descr_of(element: ElementType) -> &'static str {
    match element {
        ElementType::U8 => "|u1",
        ElementType::I8 => "|i1",
        ElementType::U16 => "<u2",
        ElementType::I16 => "<i2",
        ElementType::U32 => "<u4",
        ElementType::I32 => "<i4",
        ElementType::U64 => "<u8",
        ElementType::I64 => "<i8",
        ElementType::F16 => "<f2",
        ElementType::F32 => "<f4",
        ElementType::F64 => "<f8",
        // NumPy has no such type, so its bits are written as two untyped bytes.
        ElementType::BF16 => "|V2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what NumPy 1.24 writes for `np.save(f, np.arange(6, dtype='<f4').reshape(2, 3))`.
    fn numpy_file() -> Vec<u8> {
        let mut v = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        v.extend_from_slice(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
        v.resize(127, b' ');
        v.push(b'\n');
        v.extend((0..6).flat_map(|i| (i as f32).to_le_bytes()));
        v
    }

    #[test]
    fn a_file_of_numpy_reads() {
        let file = numpy_file();
        let npy = Npy::read(&file).unwrap();
        assert_eq!(
            (npy.element, npy.shape.as_slice(), npy.data.len()),
            (ElementType::F32, &[2u64, 3][..], 24)
        );
        assert_eq!(npy.data[20..], 5.0f32.to_le_bytes());
    }

    #[test]
    fn every_element_type_round_trips_and_data_is_aligned() {
        for element in ElementType::ALL {
            let data: Vec<u8> = (0..64).collect();
            let file = write(element, &[], &data);
            let npy = Npy::read(&file).unwrap();
            assert_eq!((npy.element, npy.data), (element, data.as_slice()));
            assert_eq!(npy.shape, [(64 / element.bytes()) as u64]);
            assert_eq!((file.len() - 64) % 64, 0);
        }
    }

    #[test]
    fn npy_errors_report_their_offset() {
        let file = numpy_file();
        assert_eq!(Npy::read(b"PK\x03\x04"), Err(NpyError::Magic));
        assert_eq!(Npy::read(&file[..9]), Err(NpyError::Short { at: 9, expected: 10 }));
        assert_eq!(Npy::read(&file[..100]), Err(NpyError::Short { at: 100, expected: 128 }));
        assert_eq!(
            Npy::read(&file[..140]),
            Err(NpyError::Data {
                at: 128,
                got: 12,
                expected: 24
            })
        );
        let edit = |from: &str, to: &str| {
            let s = String::from_utf8_lossy(&file[10..128]).replace(from, to);
            let mut v = b"\x93NUMPY\x02\x00".to_vec();
            v.extend_from_slice(&(s.len() as u32).to_le_bytes());
            v.extend_from_slice(s.as_bytes());
            v.extend_from_slice(&file[128..]);
            Npy::read(&v).map(|n| n.shape).map_err(|e| e.to_string())
        };
        assert_eq!(edit("<f4", "<f4"), Ok(vec![2, 3]));
        assert!(edit("<f4", ">f4").unwrap_err().contains("'>f4' is not supported"));
        assert!(edit("False", "True").unwrap_err().contains("Fortran order"));
        assert!(edit("(2, 3)", "(9223372036854775807, 9)").unwrap_err().contains("2^64"));
        assert!(edit("'descr'", "'desk'").unwrap_err().contains("no 'descr'"));
        assert!(edit("'<f4'", "[('a', '<f4')]").unwrap_err().contains("records"));
    }

    #[test]
    fn no_prefix_of_a_file_panics() {
        let file = numpy_file();
        for end in 0..file.len() {
            assert!(Npy::read(&file[..end]).is_err());
        }
    }
}

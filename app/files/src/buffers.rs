//! Files that hold a buffer's contents: NPY by its name, otherwise raw little-endian elements.

pub mod npy;

use npy::{Npy, NpyError};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use trace_core::recording::{Buffer, ElementType};

/// Why a file cannot be read or written as a buffer's contents.
#[derive(Debug, thiserror::Error)]
pub enum BufferFileError {
    /// The file could not be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Output(#[from] crate::output::OutputError),
    /// The file is not NPY, or is in an unsupported NPY form.
    #[error("{}: {source}", path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// The NPY error.
        source: NpyError,
    },
    /// The element type of the file differs from that of the buffer.
    #[error("{}: the file holds {got} elements, but buffer '{buffer}' has {expected}; convert it, or give raw bytes", path.display())]
    Element {
        /// The file.
        path: PathBuf,
        /// Name of the buffer.
        buffer: String,
        /// Type in the file.
        got: &'static str,
        /// Type of the buffer.
        expected: &'static str,
    },
    /// The file has too many or too few bytes.
    #[error(
        "{}: the file holds {got} bytes{}, but buffer '{buffer}' takes exactly {expected} bytes of {element}",
        path.display(),
        of(.held)
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// Name of the buffer.
        buffer: String,
        /// Bytes in the file, without its header.
        got: u64,
        /// Element type that the file states, if it states one.
        held: Option<&'static str>,
        /// Bytes of the buffer.
        expected: u64,
        /// Type of the buffer.
        element: &'static str,
    },
    /// The file name has the extension of a format that cannot be written.
    #[error(
        "{}: files of this extension cannot be written (expected .npy, or .bin or another name for raw bytes)",
        path.display()
    )]
    Name {
        /// The file.
        path: PathBuf,
    },
}

fn of(held: &Option<&'static str>) -> String {
    held.map_or_else(String::new, |h| format!(" of {h}"))
}

/// File extensions that state a format other than raw bytes.
const OTHER_FORMATS: [&str; 20] = [
    "csv", "tsv", "txt", "json", "xlsx", "parquet", "arrow", "npz", "h5", "pt", "png", "jpg", "jpeg", "gif", "bmp",
    "webp", "tif", "tiff", "svg", "kine",
];

/// Checks that a buffer can be written under this name: `.npy` is NPY, and a name without the extension of another
/// format is raw bytes.
///
/// # Errors
/// [`BufferFileError::Name`] if the extension states another format.
pub fn check_file_name(path: &Path) -> Result<(), BufferFileError> {
    let says = |e: &std::ffi::OsStr| OTHER_FORMATS.iter().any(|f| e.eq_ignore_ascii_case(f));
    match path.extension().filter(|e| says(e)) {
        Some(_) => Err(BufferFileError::Name { path: path.to_owned() }),
        None => Ok(()),
    }
}

/// Whether the file name has the extension `.npy`.
#[must_use]
pub fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy"))
}

/// New contents of a buffer and the shape that the file states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContents {
    /// The bytes, exactly as many as the buffer has.
    pub bytes: Vec<u8>,
    /// Length of each dimension, slowest first, if the file holds an array of the buffer's type.
    pub shape: Option<Vec<u64>>,
}

/// Reads the complete new contents of `buffer` from a file.
///
/// # Errors
/// Returns an error if the file cannot be read, or does not hold exactly the buffer's bytes in its element type. NPY
/// arrays of bytes are accepted for any type.
pub fn read_file(path: &Path, buffer: &Buffer) -> Result<Vec<u8>, BufferFileError> {
    Ok(read_contents(path, buffer)?.bytes)
}

/// Reads the new contents like [`read_file`], and also returns the shape that the file states.
///
/// # Errors
/// The same as [`read_file`].
pub fn read_contents(path: &Path, buffer: &Buffer) -> Result<FileContents, BufferFileError> {
    let file = |source| BufferFileError::File {
        path: path.to_owned(),
        source,
    };
    let length = |got, held: Option<ElementType>| BufferFileError::Length {
        path: path.to_owned(),
        buffer: buffer.name.clone(),
        got,
        held: held.map(ElementType::name),
        expected: buffer.bytes,
        element: buffer.element.name(),
    };
    let from = File::open(path).map_err(file)?;
    let known = from.metadata().map_err(file)?;
    if known.is_dir() {
        let what = "is a folder (expected a file with the contents of the buffer)";
        return Err(file(std::io::Error::other(what)));
    }
    let size = known.len();
    // A header is far smaller than this, so a wrong file is rejected before it is read.
    let slack = if is_npy(path) { 1 << 20 } else { 0 };
    let max = buffer.bytes.saturating_add(slack);
    if size > max {
        return Err(length(size, None));
    }
    // The size of a pipe or device is not known in advance.
    let mut bytes = Vec::new();
    from.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(file)?;
    if bytes.len() as u64 > max {
        return Err(length(bytes.len() as u64, None));
    }
    let (data, held, shape) = if is_npy(path) {
        let npy = Npy::read(&bytes).map_err(|source| BufferFileError::Npy {
            path: path.to_owned(),
            source,
        })?;
        if npy.element != buffer.element && npy.element != ElementType::U8 && buffer.element != ElementType::U8 {
            return Err(BufferFileError::Element {
                path: path.to_owned(),
                buffer: buffer.name.clone(),
                got: npy.element.name(),
                expected: buffer.element.name(),
            });
        }
        let shape = (npy.element == buffer.element).then(|| npy.shape.clone());
        (npy.data.to_vec(), Some(npy.element), shape)
    } else {
        (bytes, None, None)
    };
    if data.len() as u64 != buffer.bytes {
        return Err(length(data.len() as u64, held));
    }
    Ok(FileContents { bytes: data, shape })
}

/// Writes the contents of a buffer to a file. An NPY file gets `shape` (length of each dimension, slowest first) if the
/// number of elements matches; otherwise it gets one dimension.
///
/// # Errors
/// Returns an error if the file cannot be written, or its extension states another format.
pub fn write_file(path: &Path, element: ElementType, shape: &[u64], data: &[u8]) -> Result<(), BufferFileError> {
    check_file_name(path)?;
    let bytes = if is_npy(path) {
        npy::write(element, shape, data)
    } else {
        data.to_vec()
    };
    Ok(crate::output::write(path, &bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::GpuVa;
    use trace_core::recording::BufferRole;

    fn buffer(element: ElementType, bytes: u64) -> Buffer {
        Buffer {
            name: "input".into(),
            role: BufferRole::Input,
            address_space: 0,
            va: GpuVa::new(0x1000),
            bytes,
            element,
        }
    }

    #[test]
    fn raw_and_npy_files_round_trip_and_invalid_ones_fail() {
        let dir = tempfile::tempdir().unwrap();
        let data: Vec<u8> = (0..16).collect();
        for name in ["a.bin", "a.npy"] {
            let path = dir.path().join(name);
            write_file(&path, ElementType::F32, &[], &data).unwrap();
            assert_eq!(read_file(&path, &buffer(ElementType::F32, 16)).unwrap(), data);
            let short = read_file(&path, &buffer(ElementType::F32, 20)).unwrap_err();
            assert!(
                matches!(
                    short,
                    BufferFileError::Length {
                        got: 16,
                        expected: 20,
                        ..
                    }
                ),
                "{short}"
            );
        }
        let e = read_file(&dir.path().join("a.npy"), &buffer(ElementType::I32, 16)).unwrap_err();
        assert!(
            e.to_string().contains("holds f32 elements, but buffer 'input' has i32"),
            "{e}"
        );
        let e = read_file(Path::new("/dev/zero"), &buffer(ElementType::U8, 16)).unwrap_err();
        assert!(
            matches!(
                e,
                BufferFileError::Length {
                    got: 17,
                    expected: 16,
                    ..
                }
            ),
            "{e}"
        );
        let bytes = dir.path().join("bytes.npy");
        write_file(&bytes, ElementType::U8, &[], &data[..4]).unwrap();
        let e = read_file(&bytes, &buffer(ElementType::F32, 16)).unwrap_err();
        assert!(
            e.to_string()
                .ends_with("holds 4 bytes of u8, but buffer 'input' takes exactly 16 bytes of f32"),
            "{e}"
        );
        let e = read_file(dir.path(), &buffer(ElementType::U8, 16)).unwrap_err();
        assert!(e.to_string().contains("is a folder"), "{e}");
        for name in ["a.csv", "a.PNG", "a.txt"] {
            let e = write_file(&dir.path().join(name), ElementType::F32, &[], &data).unwrap_err();
            assert!(
                matches!(e, BufferFileError::Name { .. }) && !dir.path().join(name).exists(),
                "{e}"
            );
        }
        write_file(&dir.path().join("raw"), ElementType::F32, &[], &data).unwrap();
        write_file(&dir.path().join("layer.0"), ElementType::F32, &[], &data).unwrap();
        let e = read_file(&dir.path().join("none.bin"), &buffer(ElementType::I32, 16)).unwrap_err();
        assert!(e.to_string().contains("none.bin"), "{e}");
    }
}

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
        /// What the system said.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Output(#[from] crate::output::OutputError),
    /// The file is not NPY in a form that can be used.
    #[error("{}: {source}", path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: NpyError,
    },
    /// The elements have another type than the buffer's.
    #[error("{}: holds {got} elements, buffer '{buffer}' has {expected}; convert it, or give raw bytes", path.display())]
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
    /// The file holds too much or too little.
    #[error("{}: holds {got} bytes, buffer '{buffer}' takes exactly {expected}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Name of the buffer.
        buffer: String,
        /// Bytes in the file, a header not counted.
        got: u64,
        /// Bytes of the buffer.
        expected: u64,
    },
}

/// Whether a file's name says that it is NPY.
#[must_use]
pub fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy"))
}

/// The whole new contents of `buffer` from a file.
///
/// # Errors
/// When the file cannot be read, or does not hold exactly the buffer's bytes in its element type. NPY of bytes is
/// taken for any type.
pub fn read_file(path: &Path, buffer: &Buffer) -> Result<Vec<u8>, BufferFileError> {
    let file = |source| BufferFileError::File {
        path: path.to_owned(),
        source,
    };
    let length = |got| BufferFileError::Length {
        path: path.to_owned(),
        buffer: buffer.name.clone(),
        got,
        expected: buffer.bytes,
    };
    let from = File::open(path).map_err(file)?;
    let size = from.metadata().map_err(file)?.len();
    // A header is far smaller than this: a wrong file is refused before it is read.
    let slack = if is_npy(path) { 1 << 20 } else { 0 };
    let most = buffer.bytes.saturating_add(slack);
    if size > most {
        return Err(length(size));
    }
    // A pipe or a device does not tell how long it is.
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(file)?;
    if bytes.len() as u64 > most {
        return Err(length(bytes.len() as u64));
    }
    let data = if is_npy(path) {
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
        npy.data.to_vec()
    } else {
        bytes
    };
    if data.len() as u64 != buffer.bytes {
        return Err(length(data.len() as u64));
    }
    Ok(data)
}

/// Writes a buffer's contents to a file. NPY gets the shape, the length of each dimension with the slowest first, where
/// it is of as many elements; otherwise it is a list.
///
/// # Errors
/// When the file cannot be written.
pub fn write_file(path: &Path, element: ElementType, shape: &[u64], data: &[u8]) -> Result<(), BufferFileError> {
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
            va: GpuVa(0x1000),
            bytes,
            element,
        }
    }

    #[test]
    fn raw_and_npy_files_come_back_and_wrong_ones_are_told() {
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
            e.to_string().contains("holds f32 elements, buffer 'input' has i32"),
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
        let e = read_file(&dir.path().join("none.bin"), &buffer(ElementType::I32, 16)).unwrap_err();
        assert!(e.to_string().contains("none.bin"), "{e}");
    }
}

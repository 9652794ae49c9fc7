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
    #[error(
        "{}: holds {got} bytes{}, buffer '{buffer}' takes exactly {expected} bytes of {element}",
        path.display(),
        of(.held)
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// Name of the buffer.
        buffer: String,
        /// Bytes in the file, a header not counted.
        got: u64,
        /// Type that the file gives its elements, where it gives one.
        held: Option<&'static str>,
        /// Bytes of the buffer.
        expected: u64,
        /// Type of the buffer.
        element: &'static str,
    },
    /// The name of a file to write promises what would not be written.
    #[error(
        "{}: the name says another format than can be written (expected .npy, or for raw bytes .bin or another name)",
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

/// Ends of names that say a format of their own, which raw bytes are not.
const OTHER_FORMATS: [&str; 20] = [
    "csv", "tsv", "txt", "json", "xlsx", "parquet", "arrow", "npz", "h5", "pt", "png", "jpg", "jpeg", "gif", "bmp",
    "webp", "tif", "tiff", "svg", "kine",
];

/// Whether a buffer can be written under this name: `.npy` is NPY, and anything that does not promise another format
/// is raw bytes.
///
/// # Errors
/// [`BufferFileError::Name`] when it promises another format.
pub fn check_file_name(path: &Path) -> Result<(), BufferFileError> {
    let says = |e: &std::ffi::OsStr| OTHER_FORMATS.iter().any(|f| e.eq_ignore_ascii_case(f));
    match path.extension().filter(|e| says(e)) {
        Some(_) => Err(BufferFileError::Name { path: path.to_owned() }),
        None => Ok(()),
    }
}

/// Whether a file's name says that it is NPY.
#[must_use]
pub fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy"))
}

/// New contents of a buffer, and the shape that their file gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContents {
    /// The bytes, as many as the buffer has.
    pub bytes: Vec<u8>,
    /// Length of each dimension, the slowest first, where the file holds an array of the buffer's type.
    pub shape: Option<Vec<u64>>,
}

/// The whole new contents of `buffer` from a file.
///
/// # Errors
/// When the file cannot be read, or does not hold exactly the buffer's bytes in its element type. NPY of bytes is
/// taken for any type.
pub fn read_file(path: &Path, buffer: &Buffer) -> Result<Vec<u8>, BufferFileError> {
    Ok(read_contents(path, buffer)?.bytes)
}

/// [`read_file`], with the shape that the file gives.
///
/// # Errors
/// As [`read_file`].
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
        let what = "is a folder (expected a file that holds the buffer's contents)";
        return Err(file(std::io::Error::other(what)));
    }
    let size = known.len();
    // A header is far smaller than this: a wrong file is refused before it is read.
    let slack = if is_npy(path) { 1 << 20 } else { 0 };
    let most = buffer.bytes.saturating_add(slack);
    if size > most {
        return Err(length(size, None));
    }
    // A pipe or a device does not tell how long it is.
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(file)?;
    if bytes.len() as u64 > most {
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

/// Writes a buffer's contents to a file. NPY gets the shape, the length of each dimension with the slowest first, where
/// it is of as many elements; otherwise it is a list.
///
/// # Errors
/// When the file cannot be written, or its name promises another format.
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
        let bytes = dir.path().join("bytes.npy");
        write_file(&bytes, ElementType::U8, &[], &data[..4]).unwrap();
        let e = read_file(&bytes, &buffer(ElementType::F32, 16)).unwrap_err();
        assert!(
            e.to_string()
                .ends_with("holds 4 bytes of u8, buffer 'input' takes exactly 16 bytes of f32"),
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

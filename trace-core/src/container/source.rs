//! Sources of a reader's metadata: `pread` on a file, or a slice. Every read is checked against the length.

use super::error::ContainerError;
use super::map::{Buffer, MappedFile};
use crate::recording::SharedBytes;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// An opened file or buffer.
pub(super) struct Source {
    /// Name in messages.
    pub place: String,
    /// Size when it was opened, bytes.
    pub len: u64,
    from: Backing,
}

enum Backing {
    File(File),
    Memory(Arc<Buffer>),
}

impl Source {
    pub fn open(path: &Path) -> Result<Self, ContainerError> {
        let place = path.display().to_string();
        let io = |source| ContainerError::Io {
            place: path.display().to_string(),
            source,
        };
        let file = File::open(path).map_err(io)?;
        Self::from_file(file, place)
    }

    pub fn from_file(file: File, place: String) -> Result<Self, ContainerError> {
        let meta = file.metadata().map_err(|source| ContainerError::Io {
            place: place.clone(),
            source,
        })?;
        if !meta.is_file() {
            // A file that is not regular has no bytes to report on.
            let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not a regular file");
            return Err(ContainerError::Io { place, source });
        }
        Ok(Self {
            place,
            len: meta.len(),
            from: Backing::File(file),
        })
    }

    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        let len = bytes.len() as u64;
        Self {
            place: "bytes in memory".to_owned(),
            len,
            from: Backing::Memory(Arc::new(Buffer::new(bytes))),
        }
    }

    /// Reads `bytes` bytes at offset `at`. Memory is allocated only after the length was checked.
    pub fn read(&self, at: u64, bytes: u64) -> Result<Vec<u8>, ContainerError> {
        let end = at.checked_add(bytes).filter(|e| *e <= self.len);
        let (Some(end), Ok(size)) = (end, usize::try_from(bytes)) else {
            return Err(self.damaged_error(
                at,
                format!("{bytes} bytes are expected here, but the file ends at {:#x}", self.len),
            ));
        };
        match &self.from {
            Backing::Memory(b) => {
                let part = usize::try_from(at).ok().zip(usize::try_from(end).ok());
                let part = part.and_then(|(a, e)| b.bytes().get(a..e));
                part.map(<[u8]>::to_vec)
                    .ok_or_else(|| self.damaged_error(at, "out of reach".to_owned()))
            }
            Backing::File(f) => {
                let mut out = vec![0; size];
                f.read_exact_at(&mut out, at).map_err(|e| self.io_error(e))?;
                Ok(out)
            }
        }
    }

    /// Shares the first `bytes` bytes for lending.
    pub fn share(&self, bytes: u64) -> Result<Arc<dyn SharedBytes>, ContainerError> {
        Ok(match &self.from {
            Backing::Memory(b) => Arc::clone(b) as Arc<dyn SharedBytes>,
            Backing::File(f) => Arc::new(MappedFile::new(f, bytes, &self.place).map_err(|e| self.io_error(e))?),
        })
    }

    pub fn io_error(&self, source: std::io::Error) -> ContainerError {
        ContainerError::Io {
            place: self.place.clone(),
            source,
        }
    }

    pub fn damaged_error(&self, byte: u64, what: String) -> ContainerError {
        ContainerError::Damaged {
            place: self.place.clone(),
            byte,
            what,
        }
    }
}

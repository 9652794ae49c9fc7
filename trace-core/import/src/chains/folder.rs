//! The files of a folder of job chains, each read under the name that another file gives.

use super::{HEAP_BYTES, LIST, MAX_OBJECTS, MAX_TEXT, Object, ObjectEntry, PAGE, Submit, SubmitFile};
use crate::error::{FilePosition, ImportError};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use trace_core::GpuVa;
use trace_core::mmu::VA_BITS;

/// A folder that is being read.
pub(super) struct Folder<'a> {
    pub path: &'a Path,
}

impl Folder<'_> {
    pub fn malformed(&self, name: &str, message: impl Into<String>) -> ImportError {
        ImportError::malformed(&self.path.join(name), FilePosition::Whole, message)
    }

    /// Returns the path of a file of this folder that another file names; names that lead elsewhere are refused.
    pub fn file(&self, by: &str, name: &str) -> Result<PathBuf, ImportError> {
        let plain = Path::new(name).file_name().is_some_and(|f| f == name);
        if plain {
            Ok(self.path.join(name))
        } else {
            Err(self.malformed(by, format!("{name:?} is not a file name")))
        }
    }

    fn missing_file(&self, by: &str, name: &str, error: std::io::Error) -> ImportError {
        if error.kind() == std::io::ErrorKind::NotFound && by != name {
            let message = format!("it is missing, but {by} names it: the folder is incomplete, copy it again");
            self.malformed(name, message)
        } else {
            ImportError::io(&self.path.join(name), error)
        }
    }

    pub fn other_size(&self, by: &str, name: &str, has: u64, expected: u64) -> ImportError {
        let message = format!(
            "it has {has} bytes, but {by} states {expected}: the folder has changed since it was written, copy \
                     it again"
        );
        self.malformed(name, message)
    }

    /// Returns the size of a file that another file names, bytes.
    pub fn size(&self, by: &str, name: &str) -> Result<u64, ImportError> {
        let known = std::fs::metadata(self.file(by, name)?).map_err(|e| self.missing_file(by, name, e))?;
        if known.is_file() {
            Ok(known.len())
        } else {
            Err(self.malformed(name, format!("it is not a regular file, but {by} names it")))
        }
    }

    /// Reads a file's bytes, at most one more than `max`.
    pub fn bytes(&self, by: &str, name: &str, max: u64) -> Result<Vec<u8>, ImportError> {
        let size = self.size(by, name)?.min(max);
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        let opened = File::open(self.path.join(name)).map_err(|e| self.missing_file(by, name, e))?;
        let read = opened.take(max.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|e| self.missing_file(by, name, e))?;
        Ok(bytes)
    }

    /// Reads a text file; `name` is the list itself, or named by it.
    pub fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, ImportError> {
        let bytes = self.bytes(LIST, name, MAX_TEXT)?;
        if bytes.len() as u64 > MAX_TEXT {
            return Err(self.malformed(name, format!("it has more than {MAX_TEXT} bytes")));
        }
        let what = if name == LIST {
            "the list of a folder of job chains"
        } else {
            "a submit of a folder of job chains"
        };
        serde_json::from_slice(&bytes).map_err(|e| self.malformed(name, format!("this is not {what}: {e}")))
    }

    pub fn hex(&self, name: &str, what: &str, text: &str) -> Result<u64, ImportError> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        u64::from_str_radix(digits, 16).map_err(|e| self.malformed(name, format!("{what} is {text:?}: {e}")))
    }

    pub fn submit(&self, name: &str) -> Result<Submit, ImportError> {
        let file: SubmitFile = self.json(name)?;
        let head = GpuVa::new(self.hex(name, "jc", &file.jc)?);
        let mut objects = Vec::new();
        let mut total = 0u64;
        for entry in file.bos {
            let object = self.object(name, entry)?;
            total = total.saturating_add(object.bytes);
            objects.push(object);
        }
        if total > MAX_OBJECTS {
            return Err(self.malformed(name, format!("its buffer objects take more than {MAX_OBJECTS} bytes")));
        }
        objects.sort_by_key(|o| o.va);
        if let Some((a, b)) = objects
            .iter()
            .zip(objects.iter().skip(1))
            .find(|(a, b)| a.end() > b.va.get())
        {
            return Err(self.malformed(name, format!("the buffer objects at {} and {} overlap", a.va, b.va)));
        }
        Ok(Submit {
            file: name.to_owned(),
            head,
            fragment: file.requirements & 1 != 0,
            objects,
        })
    }

    fn object(&self, name: &str, entry: ObjectEntry) -> Result<Object, ImportError> {
        let va = GpuVa::new(self.hex(name, "va", &entry.va)?);
        let end = va.get().checked_add(entry.size).filter(|end| *end <= 1 << VA_BITS);
        let whole = va.get().is_multiple_of(PAGE) && entry.size.is_multiple_of(PAGE);
        if !whole || entry.size == 0 || end.is_none() {
            let what = format!(
                "the buffer object of {} bytes at {va} does not consist of whole pages within the address range",
                entry.size
            );
            return Err(self.malformed(name, what));
        }
        let bytes = if entry.heap {
            entry.size.min(HEAP_BYTES)
        } else {
            entry.size
        };
        if let Some(file) = &entry.file {
            let has = self.size(name, file)?;
            if has != bytes {
                return Err(self.other_size(name, file, has, bytes));
            }
        }
        Ok(Object {
            handle: entry.handle,
            va,
            bytes,
            executable: !entry.noexec,
            used: entry.in_submit,
            file: entry.file,
        })
    }
}

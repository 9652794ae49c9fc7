//! Files that queues read, for example the parameters of a model: their bytes in the replay, or their names alone.

use super::commands::{BufferReference, after_semaphores};
use super::records::Record;
use std::collections::{BTreeMap, BTreeSet};

/// Number of the kind of files, and of the payload of a read.
pub(super) const FILE: u64 = 9;
const QUEUE_READ: u64 = 24;
/// Places in the description of a file, and its size, bytes.
const REFERENCE_SIZE_AT: usize = 40;
const REFERENCE_KIND_AT: usize = 60;
const DESCRIPTION_BYTES: usize = 112;
/// A reference that is a path, and one that is the whole file.
const PATH: u64 = 1;
const WHOLE: u64 = 2;
/// Maximum number of files, of their names in a message, and maximum size of all, bytes.
const MAX_FILES: usize = 1 << 12;
const MAX_NAMES: usize = 8;
const MAX_FILE_BYTES: usize = 2 << 30;

/// What the replay holds of a file.
enum FileContent {
    Bytes(Vec<u8>),
    /// The last part of its path.
    Name(String),
}

/// The files of a replay by their numbers.
#[derive(Default)]
pub(super) struct ReadFiles {
    files: BTreeMap<u64, FileContent>,
    bytes: usize,
    /// Number of reads of bytes that the replay does not hold, and the names of their files.
    missing: u64,
    missing_names: BTreeSet<String>,
}

/// Bytes that a queue reads from a file into a buffer.
pub(super) struct FileRead {
    pub(super) target: BufferReference,
    pub(super) data: Vec<u8>,
}

impl ReadFiles {
    /// Adds a file object.
    pub(super) fn add(&mut self, record: &Record) {
        let reference = || {
            let bytes = usize::try_from(record.field(REFERENCE_SIZE_AT, 8)?).ok()?;
            record.payload.get(DESCRIPTION_BYTES..)?.get(..bytes)
        };
        let Some(reference) = reference().filter(|_| self.files.len() < MAX_FILES) else {
            return;
        };
        let content = match record.field(REFERENCE_KIND_AT, 4) {
            Some(WHOLE) if self.bytes.saturating_add(reference.len()) <= MAX_FILE_BYTES => {
                self.bytes += reference.len();
                FileContent::Bytes(reference.to_vec())
            }
            Some(PATH) => {
                let path = String::from_utf8_lossy(reference);
                let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
                FileContent::Name(name.to_owned())
            }
            // The bytes are with each read.
            _ => return,
        };
        self.files.insert(record.object, content);
    }

    /// Returns what a queue reads, or `None` if the record is no read or the replay does not hold the bytes.
    pub(super) fn read(&mut self, record: &Record) -> Option<FileRead> {
        (record.payload_kind == QUEUE_READ).then_some(())?;
        let target = BufferReference::parse(record, 16)?;
        let captured = usize::try_from(record.field(64, 8)?).ok()?;
        if captured > 0 {
            let at = after_semaphores(record, 72, 88)?;
            let data = record.payload.get(at..)?.get(..captured)?.to_vec();
            return Some(FileRead { target, data });
        }
        let (file, offset) = (record.field(0, 8)?, usize::try_from(record.field(8, 8)?).ok()?);
        if let Some(FileContent::Bytes(bytes)) = self.files.get(&file) {
            let size = usize::try_from(target.bytes).ok()?;
            let data = bytes.get(offset..)?.get(..size)?.to_vec();
            return Some(FileRead { target, data });
        }
        self.missing += 1;
        if let Some(FileContent::Name(name)) = self.files.get(&file)
            && self.missing_names.len() < MAX_NAMES
        {
            self.missing_names.insert(name.clone());
        }
        None
    }

    /// Returns a message about reads whose bytes the replay does not hold.
    pub(super) fn describe_missing(&self) -> Option<String> {
        let names: Vec<&str> = self.missing_names.iter().map(String::as_str).collect();
        let of = match names.is_empty() {
            true => String::new(),
            false => format!(" of {}", names.join(", ")),
        };
        (self.missing > 0).then(|| {
            format!(
                "{} reads of files have no bytes{of}: record with --device_replay_file_policy=capture-ranges",
                self.missing
            )
        })
    }
}

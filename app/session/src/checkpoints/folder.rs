//! The folder of a run's checkpoints: a file of page images that grows, and a file with the last checkpoint, which is
//! replaced as a whole.
//!
//! A checkpoint counts when its file has its final name. Page images without a checkpoint, which a killed program
//! left, are overwritten by the next ones.

use super::run_identity::RunIdentity;
use kinescope_files::output::{self, OutputError};
use replay_engine::run::{CheckpointRecord, CheckpointRecordError, Outcome, WrittenPage};
use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace_core::PAGE_SIZE;
use trace_core::encode::EncodeError;
use trace_core::recording::{Digest, Page, ZERO_PAGE};

/// Name of the file of page images: 4096 bytes each, in the order in which they were added.
const PAGES_FILE: &str = "kinescope-checkpoint.pages";
/// Name of the file of the last checkpoint.
const CHECKPOINT_FILE: &str = "kinescope-checkpoint";

/// Why a checkpoint cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointFileError {
    /// The folder or a file in it cannot be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The checkpoint was not written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Another program uses the folder.
    #[error("{}: another run writes its checkpoints here; give each run its own folder", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The record of a checkpoint cannot be used.
    #[error("{}: {source}; remove the file to start anew", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why.
        source: CheckpointRecordError,
    },
    /// A page image is missing, or does not have its digest.
    #[error("{}: the page image {number} {what}; remove the checkpoint to start anew", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// Number of the image, counted from 1.
        number: u32,
        /// What is wrong.
        what: &'static str,
    },
    /// A run changed more pages than a checkpoint can name.
    #[error("{}: more than {} page images", path.display(), u32::MAX)]
    TooManyImages {
        /// The file.
        path: PathBuf,
    },
    /// The checkpoint is of another recording or of other inputs.
    #[error(
        "{}: the checkpoint is of another recording, of other inputs, or of other options; give this run its own folder",
        path.display()
    )]
    OtherRun {
        /// The file.
        path: PathBuf,
    },
    /// The checkpoint cannot be encoded.
    #[error("the checkpoint could not be encoded")]
    Encode(#[from] EncodeError),
}

/// The state of a run between two of its jobs.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    /// The first job that has not run.
    pub next_job: u32,
    /// Data pages that the device changed before this job, by frame of the recording, ascending.
    pub pages: Vec<WrittenPage>,
    /// The joined outcome of the parts that ran, without outputs and recording.
    pub outcome: Outcome,
}

/// A folder of checkpoints that this program alone writes while it has it.
#[derive(Debug)]
pub struct CheckpointFolder {
    path: PathBuf,
    /// The file of page images, locked.
    pages: File,
    /// Digests of the images in the file that count, in order.
    images: Vec<Digest>,
    /// The number of each image, counted from 1.
    numbers: HashMap<Digest, u32>,
}

impl CheckpointFolder {
    /// Opens a folder, and creates it if it does not exist.
    ///
    /// # Errors
    /// If it cannot be written, or another program uses it.
    pub fn open(path: &Path) -> Result<Self, CheckpointFileError> {
        let io = |at: &Path| {
            let path = at.to_owned();
            move |source| CheckpointFileError::Io { path, source }
        };
        std::fs::create_dir_all(path).map_err(io(path))?;
        let at = path.join(PAGES_FILE);
        let pages = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&at)
            .map_err(io(&at))?;
        match pages.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(CheckpointFileError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(e)) => return Err(io(&at)(e)),
        }
        Ok(Self {
            path: path.to_owned(),
            pages,
            images: Vec::new(),
            numbers: HashMap::new(),
        })
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn pages_error(&self, source: io::Error) -> CheckpointFileError {
        CheckpointFileError::Io {
            path: self.path.join(PAGES_FILE),
            source,
        }
    }

    fn image_error(&self, number: u32, what: &'static str) -> CheckpointFileError {
        CheckpointFileError::Image {
            path: self.path.join(PAGES_FILE),
            number,
            what,
        }
    }

    /// Returns the last checkpoint of a run, or `None` if the folder has none.
    ///
    /// # Errors
    /// If it is damaged, or of another run.
    pub(super) fn read(&mut self, run: &RunIdentity) -> Result<Option<Checkpoint>, CheckpointFileError> {
        let path = self.path.join(CHECKPOINT_FILE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(CheckpointFileError::Io { path, source }),
        };
        let record = match CheckpointRecord::from_bytes(&bytes) {
            Ok(record) => record,
            Err(source) => return Err(CheckpointFileError::Record { path, source }),
        };
        if record.run != run.digest() {
            return Err(CheckpointFileError::OtherRun { path });
        }
        let mut read: HashMap<u32, Arc<Page>> = HashMap::new();
        let mut pages = Vec::with_capacity(record.frames.len());
        for (frame, number) in &record.frames {
            let page = match read.get(number) {
                Some(page) => Arc::clone(page),
                None => {
                    let page = Arc::new(self.read_image(*number, &record.images)?);
                    read.insert(*number, Arc::clone(&page));
                    page
                }
            };
            pages.push(WrittenPage { frame: *frame, page });
        }
        self.numbers = (1u32..).zip(&record.images).map(|(n, digest)| (*digest, n)).collect();
        self.images = record.images;
        Ok(Some(Checkpoint {
            next_job: record.next_job,
            pages,
            outcome: record.outcome,
        }))
    }

    fn read_image(&self, number: u32, images: &[Digest]) -> Result<Page, CheckpointFileError> {
        let mut page = ZERO_PAGE;
        let Some(at) = number.checked_sub(1) else {
            return Ok(page);
        };
        let read = self.pages.read_exact_at(&mut page, u64::from(at) * PAGE_SIZE as u64);
        read.map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => self.image_error(number, "is missing"),
            _ => self.pages_error(e),
        })?;
        if images.get(at as usize) != Some(blake3::hash(&page).as_bytes()) {
            return Err(self.image_error(number, "does not have its digest"));
        }
        Ok(page)
    }

    /// Writes a checkpoint, durably: the images that the folder lacks first. Returns the number of new images.
    ///
    /// # Errors
    /// If a file cannot be written. The previous checkpoint is then still there.
    pub(super) fn write(&mut self, run: &RunIdentity, checkpoint: &Checkpoint) -> Result<u64, CheckpointFileError> {
        let before = self.images.len();
        let mut frames = Vec::with_capacity(checkpoint.pages.len());
        for written in &checkpoint.pages {
            frames.push((written.frame, self.add_image(&written.page)?));
        }
        let added = self.images.len().saturating_sub(before) as u64;
        if added > 0 {
            self.pages.sync_data().map_err(|e| self.pages_error(e))?;
        }
        let record = CheckpointRecord {
            run: run.digest(),
            next_job: checkpoint.next_job,
            images: self.images.clone(),
            frames,
            outcome: checkpoint.outcome.clone(),
        };
        let bytes = record.to_bytes()?;
        output::write(&self.path.join(CHECKPOINT_FILE), &bytes)?;
        Ok(added)
    }

    /// Returns the number of an image, and appends it if the file lacks it.
    fn add_image(&mut self, page: &Page) -> Result<u32, CheckpointFileError> {
        if *page == ZERO_PAGE {
            return Ok(0);
        }
        let digest = *blake3::hash(page).as_bytes();
        if let Some(number) = self.numbers.get(&digest) {
            return Ok(*number);
        }
        let at = self.images.len() as u64 * PAGE_SIZE as u64;
        self.pages.write_all_at(page, at).map_err(|e| self.pages_error(e))?;
        self.images.push(digest);
        let number = u32::try_from(self.images.len()).map_err(|_| CheckpointFileError::TooManyImages {
            path: self.path.join(PAGES_FILE),
        })?;
        self.numbers.insert(digest, number);
        Ok(number)
    }

    /// Removes the checkpoint of a run that is complete. The folder stays.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub(super) fn clear(&mut self) -> Result<(), CheckpointFileError> {
        let path = self.path.join(CHECKPOINT_FILE);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(CheckpointFileError::Io { path, source });
            }
            _ => {}
        }
        self.images.clear();
        self.numbers.clear();
        self.pages.set_len(0).map_err(|e| self.pages_error(e))
    }
}

//! The files that a pipeline names: recordings, modules and inputs.

use crate::module::{MAX_MODULE_BYTES, ModuleDefect};
use crate::tensor::{TensorData, TensorType};
use kinescope_files::{buffers, values};
use kinescope_session::{source, transfers};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::recording::{Api, Buffer, BufferRole};
use trace_core::{GpuVa, Recording};

/// A recording with the buffers that a replay can replace or return.
#[derive(Clone)]
pub struct StageRecording {
    /// The recording.
    pub recording: Recording,
    /// Its named buffers; of an API trace, the contents of its copies.
    pub buffers: Vec<Buffer>,
}

impl StageRecording {
    /// Creates the entry of an opened recording.
    #[must_use]
    pub fn new(recording: Recording) -> Self {
        let mut buffers = recording.metadata.buffers.clone();
        if recording.api().is_some() || recording.driver_trace().is_some() {
            buffers.extend(transfers::buffers(&recording));
        }
        Self { recording, buffers }
    }
}

/// Where the files of a pipeline come from.
pub trait Resources {
    /// Opens a recording.
    ///
    /// # Errors
    /// The reason in words, with the path.
    fn open_recording(&self, path: &Path) -> Result<StageRecording, String>;

    /// Reads a module, binary or text.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn read_module(&self, path: &Path) -> Result<Vec<u8>, ModuleDefect>;

    /// Returns where the file of an input is.
    fn locate_input(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    /// Checks that the file of an input is there. A run reads it, and another one may be given for it.
    ///
    /// # Errors
    /// The reason in words, with the path.
    fn check_input(&self, path: &Path) -> Result<(), String> {
        let _ = path;
        Ok(())
    }
}

/// The files of a pipeline in its folder. Each recording is opened once.
pub struct FolderResources<'a> {
    folder: PathBuf,
    /// Files that are elsewhere, by their paths in the pipeline file.
    elsewhere: HashMap<PathBuf, PathBuf>,
    progress: &'a Progress,
    opened: RefCell<HashMap<PathBuf, StageRecording>>,
}

impl<'a> FolderResources<'a> {
    /// Creates the resources of the pipeline file at `path`. Cancelling `progress` ends the reading of a recording.
    #[must_use]
    pub fn new(path: &Path, progress: &'a Progress) -> Self {
        Self {
            folder: path.parent().map(Path::to_owned).unwrap_or_default(),
            elsewhere: HashMap::new(),
            progress,
            opened: RefCell::default(),
        }
    }

    /// Creates the resources of a pipeline whose files are not in its folder: `files` has the path of each by its path
    /// in the pipeline file.
    #[must_use]
    pub fn with_files(files: HashMap<PathBuf, PathBuf>, progress: &'a Progress) -> Self {
        Self {
            folder: PathBuf::new(),
            elsewhere: files,
            progress,
            opened: RefCell::default(),
        }
    }

    fn locate(&self, path: &Path) -> PathBuf {
        let known = self.elsewhere.get(path).cloned();
        known.unwrap_or_else(|| self.folder.join(path))
    }

    fn open(&self, path: &Path) -> Result<StageRecording, String> {
        let describe = |e: &dyn std::fmt::Display| {
            let (message, path) = (e.to_string(), path.display().to_string());
            match message.contains(&path) {
                true => message,
                false => format!("{path}: {message}"),
            }
        };
        let opened = source::open(path, self.progress, || {}).map_err(|e| describe(&e))?;
        let recording = opened.opened.recording;
        // A damaged recording would replay something else.
        match recording.find_damage(self.progress) {
            Err(e) => return Err(describe(&e)),
            Ok(Some(block)) => return Err(describe(&format_args!("the recording is damaged: {block}"))),
            Ok(None) => {}
        }
        if recording.api().is_some_and(|trace| trace.api == Api::Wasm) {
            let message = "a run of a WebAssembly program is no recording of a device; use its module as a stage";
            return Err(describe(&message));
        }
        Ok(StageRecording::new(recording))
    }
}

impl Resources for FolderResources<'_> {
    fn open_recording(&self, path: &Path) -> Result<StageRecording, String> {
        let path = self.locate(path);
        if let Some(known) = self.opened.borrow().get(&path) {
            return Ok(known.clone());
        }
        let opened = self.open(&path)?;
        self.opened.borrow_mut().insert(path, opened.clone());
        Ok(opened)
    }

    fn read_module(&self, path: &Path) -> Result<Vec<u8>, ModuleDefect> {
        let path = self.locate(path);
        let describe = |e: std::io::Error| ModuleDefect::File(format!("{}: {e}", path.display()));
        let file = std::fs::File::open(&path).map_err(describe)?;
        let mut bytes = Vec::new();
        // One more byte shows that it is too large.
        file.take(MAX_MODULE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(describe)?;
        Ok(bytes)
    }

    fn locate_input(&self, path: &Path) -> PathBuf {
        self.locate(path)
    }

    fn check_input(&self, path: &Path) -> Result<(), String> {
        let path = self.locate(path);
        let found = std::fs::metadata(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        match found.is_dir() {
            true => Err(format!("{}: is a folder", path.display())),
            false => Ok(()),
        }
    }
}

/// Why a file cannot be used as an input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("input '{name}': {reason}")]
pub struct InputError {
    /// The input.
    pub name: String,
    /// Reason, in words, with the file.
    pub reason: String,
}

/// Reads a file as an input: raw bytes, `.npy`, `.csv` or `.png`, as its extension says.
///
/// # Errors
/// If it cannot be read, or holds another number or type of elements, or an array of another shape.
pub fn read_input(path: &Path, name: &str, tensor: &TensorType) -> Result<TensorData, InputError> {
    let fail = |reason: String| InputError {
        name: name.to_owned(),
        reason,
    };
    let buffer = Buffer {
        name: name.to_owned(),
        role: BufferRole::Input,
        address_space: 0,
        va: GpuVa::ZERO,
        bytes: tensor.bytes(),
        element: tensor.element(),
    };
    if !buffers::is_npy(path) {
        return Ok(Arc::new(values::load(path, &buffer, false).map_err(fail)?));
    }
    let contents = buffers::read_contents(path, &buffer).map_err(|e| fail(e.to_string()))?;
    let given = contents
        .shape
        .and_then(|shape| TensorType::new(tensor.element(), shape));
    if let Some(given) = given.filter(|given| !tensor.accepts(given)) {
        let path = path.display();
        return Err(fail(format!("{path}: the file holds {given} (expected {tensor})")));
    }
    Ok(Arc::new(contents.bytes))
}

//! The integration tests of this crate, in one program: it links once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "tests fail so, and say what they skip"
)]

mod adreno;
mod arm_shaders;
mod driver_analyses;
mod driver_jobs;
mod iree;
mod kernels;
mod llvm_offload;
mod mmio_excerpts;
mod mmio_logs;
mod mmt;
mod named_devices;
mod nvidia_log;
mod packed;
mod published;
mod regs_history;
mod screens;
mod text_logs;
mod trimmed_logs;

use std::path::{Path, PathBuf};
use trace_core::progress::Progress;
use trace_core::{Recording, timeline};
use trace_import::{ImportError, OpenOptions, Opened};

/// Opens a recording of any format.
fn open(path: &Path) -> Recording {
    open_with(path, &Progress::new()).unwrap()
}

fn open_with(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    trace_import::open(path, &OpenOptions::default(), progress).and_then(Opened::into_recording)
}

/// Imports `source`, and writes it with its derived data to `to`.
fn import_to_kine(source: &Path, to: &Path) {
    timeline::write(&open(source), to, &Progress::new()).unwrap();
}

/// The folder `name` of the published recordings. Where it is missing, says so and gives `None`: the test then skips.
fn recordings(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings"),
        PathBuf::from,
    );
    let folder = root.join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: {} is missing", folder.display());
    None
}

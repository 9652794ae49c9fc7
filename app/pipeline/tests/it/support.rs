//! What the tests share: paths of samples, pipelines in a folder, runs on simulators.

use kinescope_pipeline::{NamedTarget, NoOutcomes, Pipeline, RunError, RunRequest, RunResult, run};
use kinescope_session::targets::Targets;
use std::path::{Path, PathBuf};
use trace_core::progress::Progress;

/// The simulator of the samples.
pub const SIMULATOR: &str = "software:mali-g71";

/// An allocator that never frees, for modules.
pub const ALLOCATOR: &str = r#"
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 1024))
  (func (export "allocate") (param $bytes i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $next))
    (global.set $next (i32.add (local.get $at) (i32.and (i32.add (local.get $bytes) (i32.const 15)) (i32.const -16))))
    (local.get $at))
"#;

/// Returns the root of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Returns the path of a sample recording.
pub fn sample(name: &str) -> PathBuf {
    root().join("sample-traces").join(name)
}

/// Opens a pipeline file.
pub fn open(path: &Path) -> Pipeline {
    Pipeline::open(path, &Progress::new()).unwrap_or_else(|e| panic!("{e}"))
}

/// A folder with a pipeline file `p.kpipe` and a module `m.wat`.
pub struct TestFolder(tempfile::TempDir);

impl TestFolder {
    pub fn new(pipeline: &str, module: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let samples = root().join("sample-traces");
        let text = pipeline.replace("SAMPLES", samples.to_str().unwrap());
        std::fs::write(folder.path().join("p.kpipe"), text).unwrap();
        std::fs::write(folder.path().join("m.wat"), format!("(module {ALLOCATOR} {module})")).unwrap();
        Self(folder)
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().join("p.kpipe")
    }

    pub fn open(&self) -> Pipeline {
        open(&self.path())
    }
}

/// Runs a pipeline on targets, in the form of the command line.
pub fn run_on(pipeline: &Pipeline, targets: &Targets, on: &str) -> Result<RunResult, RunError> {
    let named = match on {
        "" => Vec::new(),
        on => NamedTarget::parse_list(on).unwrap(),
    };
    let request = RunRequest::new(targets, named);
    run(pipeline, &request, &mut NoOutcomes, &mut |_| {}, &Progress::new())
}

/// Returns the elements of a tensor.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.chunks_exact(4);
    words.map(|w| f32::from_le_bytes(w.try_into().unwrap())).collect()
}

/// Returns the elements of a tensor.
pub fn integers(bytes: &[u8]) -> Vec<i32> {
    let words = bytes.chunks_exact(4);
    words.map(|w| i32::from_le_bytes(w.try_into().unwrap())).collect()
}

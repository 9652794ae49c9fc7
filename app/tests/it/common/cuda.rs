//! CUDA devices without a GPU: a stand-in driver that programs of this build use.

use kinescope_session::targets::Targets;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path of a program of this build, in the folder of the window's program.
pub fn built_program(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_kinescope"));
    let path = program.with_file_name(name);
    assert!(path.is_file(), "{} is missing: run `cargo build` first", path.display());
    path
}

/// Returns targets whose CUDA devices use the stand-in driver.
pub fn stand_in_targets(folder: &Path) -> Targets {
    let library = folder.join("libcuda.so.1");
    std::os::unix::fs::symlink(built_program("libcuda_stand_in.so"), &library).unwrap();
    let (program, folder) = (built_program("kinescope"), folder.to_owned());
    Targets::new(Some(folder.join("keys"))).with_worker(move || {
        let mut command = Command::new(&program);
        command
            .arg("play-calls")
            .env("LD_LIBRARY_PATH", &folder)
            .env("KINESCOPE_CUDA_LIBRARY", &library);
        command
    })
}

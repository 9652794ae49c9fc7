//! CUDA devices without a GPU: the stand-in for the driver, which programs of this build play on.

use kinescope::document::boards::Boards;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program of this build that is beside the window's.
pub fn built(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_kinescope"));
    let path = program.with_file_name(name);
    assert!(path.is_file(), "{} is not there: cargo build first", path.display());
    path
}

/// Boards whose CUDA devices are the stand-in's.
pub fn stand_in(folder: &Path) -> Boards {
    let library = folder.join("libcuda.so.1");
    std::os::unix::fs::symlink(built("libcuda_stand_in.so"), &library).unwrap();
    let (program, folder) = (built("kinescope"), folder.to_owned());
    Boards::new(Some(folder.join("keys"))).with_player(move || {
        let mut command = Command::new(&program);
        command
            .arg("play-calls")
            .env("LD_LIBRARY_PATH", &folder)
            .env("KINESCOPE_CUDA_LIBRARY", &library);
        command
    })
}

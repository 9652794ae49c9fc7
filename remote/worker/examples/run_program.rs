//! Runs a program whose device is in a worker process, as `kinescope run` does, without building that program:
//! `run_program LIBRARY PROGRAM ARGUMENTS…`. It is its own worker process.
#![allow(clippy::print_stderr, reason = "a program for the people who change the worker")]

use remote_worker::{
    LibraryLink, LocalWorkers, ProgramSocket, SERVE_PROGRAM, program_environment, serve_standard_input,
};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(first) = arguments.next() else {
        eprintln!("run_program LIBRARY PROGRAM ARGUMENTS…");
        return ExitCode::from(2);
    };
    if first == SERVE_PROGRAM {
        return match serve_standard_input() {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("worker: {e}");
                ExitCode::FAILURE
            }
        };
    }
    match run(PathBuf::from(first), arguments) {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            eprintln!("run_program: {e}");
            ExitCode::from(2)
        }
    }
}

fn run(library: PathBuf, mut arguments: impl Iterator<Item = std::ffi::OsString>) -> std::io::Result<u8> {
    let own = std::env::current_exe()?;
    let links = [LibraryLink {
        name: "libcuda.so.1",
        library: std::path::absolute(library)?,
    }];
    let command = move || {
        let mut worker = Command::new(&own);
        if let Some(library) = std::env::var_os("WORKER_PRELOAD") {
            worker.env("LD_PRELOAD", library);
        }
        worker
    };
    let socket = ProgramSocket::open(&links, |folder| Ok(LocalWorkers::new(command, folder.to_owned())))?;
    let program = arguments.next().ok_or(std::io::ErrorKind::InvalidInput)?;
    let waits = std::env::var_os("WAIT_EACH").is_some();
    let status = Command::new(program)
        .args(arguments)
        .envs(program_environment(&socket, waits))
        .env("LD_LIBRARY_PATH", socket.library_folder())
        .status()?;
    let (reports, failures) = socket.finish();
    for report in reports {
        eprintln!("{} calls, {} waits", report.requests(), report.waits());
    }
    for failure in failures {
        eprintln!("{failure}");
    }
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(255))
}

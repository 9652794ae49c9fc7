//! Small CUDA programs that use only the driver, one for each feature that a recorder has to handle.
//!
//! Each program checks its own result on the CPU. If the result is correct, the program prints
//! `ok NAME checksum=<16 hex digits>` and exits with 0. Otherwise, it prints the error and exits with 1. The programs
//! do not depend on recorders, and run on NVIDIA's driver and on the tests' stand-in.
#![allow(unsafe_code, clippy::print_stdout, reason = "programs that call a driver, and print")]

mod annotations;
mod gpu;
mod math_libraries;
mod options;
mod program_context;
mod programs;
mod result;

use options::Options;

fn main() {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("cuda-client: {why}");
            std::process::exit(2);
        }
    };
    let done = programs::run(&options);
    if let Err(why) = &done {
        eprintln!("{}: {why}", options.program);
    }
    options.end.now(i32::from(done.is_err()));
}

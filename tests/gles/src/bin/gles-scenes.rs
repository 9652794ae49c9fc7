//! `gles-scenes`: runs scenes of the table on the first GPU that EGL finds, and prints the result of each scene.
#![allow(clippy::print_stdout, reason = "a command line program prints its output")]

use gles_programs::gpu::Gpu;
use gles_programs::scenes::SCENES;
use std::process::ExitCode;

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        for s in SCENES {
            println!("{:12} {}", s.name, s.description);
        }
        return ExitCode::SUCCESS;
    }
    let gpu = match Gpu::open() {
        Ok(gpu) => gpu,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::from(2);
        }
    };
    let mut good = true;
    for name in names {
        let Some(scene) = SCENES.iter().find(|s| s.name == name) else {
            eprintln!("there is no scene {name}");
            return ExitCode::from(2);
        };
        match (scene.run)(&gpu) {
            Ok(message) => println!("ok     {name:12} {message}"),
            Err(e) => {
                println!("FAILED {name:12} {e}");
                good = false;
            }
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! Small client of the panfrost render node, for tests. It uses the node like a driver, with one scene per run, and
//! exits with 0 if everything was correct. It does not depend on the node's implementation.
//!
//! Use: `panfrost-client SCENE ARGS…`, under `kinescope record --with panfrost --no-mesa`.
#![allow(
    unsafe_code,
    clippy::print_stdout,
    reason = "system calls and mapped memory, like a driver; the program prints its results"
)]

mod calls;
mod compute;
mod hostile;
mod scenes;

use std::process::ExitCode;

/// A scene with its name.
type Scene = (&'static str, fn(&[String]) -> Result<(), String>);

const SCENES: &[Scene] = &[
    ("work", scenes::work),
    ("many", scenes::many),
    ("threads", scenes::threads),
    ("fork", scenes::fork),
    ("sync", scenes::sync),
    ("paths", scenes::paths),
    ("fault", hostile::fault),
    ("hostile", hostile::calls),
    ("memory", hostile::memory),
    ("descriptors", hostile::descriptors),
    ("compute", compute::compute),
    ("endless", compute::endless),
    ("twice", scenes::twice),
    ("labels", scenes::labels),
    ("killed", scenes::killed),
    ("aborted", scenes::aborted),
    ("leave", scenes::leave),
    ("signal", scenes::signal),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        println!("no scene is named");
        return ExitCode::from(2);
    };
    let Some((_, scene)) = SCENES.iter().find(|(n, _)| n == name) else {
        println!("no scene {name}");
        return ExitCode::from(2);
    };
    match scene(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            println!("{name}: {e}");
            ExitCode::FAILURE
        }
    }
}

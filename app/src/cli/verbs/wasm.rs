//! `wasm`: runs WebAssembly programs, one copy for each input, on the CPU and on GPUs.

mod arguments;
mod bench;
mod check;
mod inputs;
mod outputs;
mod run;
mod translate;

use crate::cli::Verb;
use clap::{FromArgMatches as _, Subcommand};

pub const VERB: Verb = Verb {
    name: "wasm",
    about: "Run a WebAssembly program once for each input",
    args: |command| {
        WasmCommand::augment_subcommands(command)
            .subcommand_required(true)
            .arg_required_else_help(true)
    },
    run: |matches, out| match WasmCommand::from_arg_matches(matches)? {
        WasmCommand::Run(arguments) => run::run(&arguments, out),
        WasmCommand::Check(arguments) => check::run(&arguments, out),
        WasmCommand::Translate(arguments) => translate::run(&arguments, out),
        WasmCommand::Bench(arguments) => bench::run(&arguments, out),
    },
};

#[derive(Subcommand)]
enum WasmCommand {
    /// Run a program once for each input, and write its outputs to a folder
    ///
    /// Each input is the standard input of one copy with fresh memory. The folder gets NAME.stdout and NAME.stderr for
    /// each input, and report.json. The exit code is 1 if a copy trapped or exited with another code than 0.
    Run(Box<run::RunArguments>),
    /// Compare the results of a program on the CPU with those of another target
    ///
    /// Each input runs on both. System calls, outputs and ends are compared byte for byte. The exit code is 1 if an
    /// input has different results.
    Check(Box<check::CheckArguments>),
    /// Write the PTX text that a GPU runs
    ///
    /// The text has the program and its system calls. The sizes of the copies' memories follow from the limits.
    Translate(Box<translate::TranslateArguments>),
    /// Measure a program on the CPU and on a GPU
    ///
    /// The GPU runs the inputs with each cell size, without and with the cache of compiled programs.
    Bench(Box<bench::BenchArguments>),
}

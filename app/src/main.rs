//! The kinescope program.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(kinescope::cli::main())
}

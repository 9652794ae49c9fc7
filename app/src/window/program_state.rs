//! The state of programs that the window runs: the sheet that starts one, and the one that runs or has run last.

use kinescope_session::program_run::{ProgramRequest, ProgramRun};

/// The sheet that starts a program.
pub struct ProgramSheet {
    /// What to run. Its folder is set from `folder` at the start.
    pub request: ProgramRequest,
    /// The typed folder.
    pub folder: String,
    /// Names of targets that run programs; `None` until they are known.
    pub targets: Option<Vec<String>>,
    /// Why the program was not started.
    pub problem: Option<String>,
    pub(super) is_focused: bool,
    /// The target was filled in: the keyboard goes on to the program.
    pub(super) has_new_target: bool,
}

/// A program that runs or has run, and what the window shows of it.
pub struct ShownRun {
    /// The program.
    pub run: ProgramRun,
    /// Whether its output is shown.
    pub is_open: bool,
    /// Whether the user knows how it ended.
    pub(super) is_reported: bool,
}

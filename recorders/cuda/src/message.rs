//! Messages for the user who started the program.

use std::fmt::Display;
use std::io::Write as _;

/// Prints a message for the user who started the program.
pub(crate) fn say(message: impl Display) {
    let line = format!("kinescope: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

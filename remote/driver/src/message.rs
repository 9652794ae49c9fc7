//! Messages for the user of the program, on its standard error stream.

use std::fmt::Arguments;
use std::io::Write as _;

/// Prints a message. A program without a standard error stream gets none.
pub fn say(message: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "kinescope: {message}");
}

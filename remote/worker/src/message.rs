//! Messages of a worker process, which has no other way to a user.

use std::fmt::Arguments;
use std::io::Write as _;

/// Prints a message on the standard error stream.
pub fn say(message: Arguments<'_>) {
    // Nobody reads a stream that is closed.
    let _ = writeln!(std::io::stderr(), "kinescope: {message}");
}

//! The printer of programs: text, lines and offsets, with limits.

use crate::ProgramText;
use std::io;
use wasmprinter::{Config, Print};

/// Maximum size of a text in bytes. Printing stops there.
pub const MAX_TEXT_BYTES: usize = 1 << 30;
/// Maximum size of a line in bytes. Data segments are one line each; their rest is replaced by `…`.
pub const MAX_LINE_BYTES: usize = 4096;
/// Number of lines between two looks at the caller's wish to stop.
const LINES_BETWEEN_CHECKS: usize = 1024;

/// A program cannot be printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrintError {
    /// The caller stopped the printer.
    #[error("cancelled")]
    Cancelled,
    /// The program is damaged.
    #[error("the program cannot be printed: {0}")]
    Invalid(String),
}

/// Prints a program in its text form. `is_cancelled` is asked from time to time.
///
/// The time grows with the size of the program; call it outside the thread of a window.
///
/// # Errors
/// When the program is damaged, or the caller stops the printer.
pub fn print_program(program: &[u8], is_cancelled: &dyn Fn() -> bool) -> Result<ProgramText, PrintError> {
    let mut lines = Lines {
        text: String::new(),
        starts: Vec::new(),
        line_bytes: 0,
        stop: None,
        is_cancelled,
    };
    let printed = Config::new().print(program, &mut lines);
    match (printed, lines.stop) {
        (_, Some(Stop::Cancelled)) => Err(PrintError::Cancelled),
        (Err(_), Some(Stop::Full)) => Ok(ProgramText::new(lines.text, lines.starts, true)),
        (Err(e), None) => Err(PrintError::Invalid(format!("{e:#}"))),
        (Ok(()), _) => {
            if lines.text.ends_with('\n')
                && lines
                    .starts
                    .last()
                    .is_some_and(|(s, _)| *s as usize == lines.text.len())
            {
                lines.starts.pop();
            }
            Ok(ProgramText::new(lines.text, lines.starts, false))
        }
    }
}

/// Why the printer stops before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Cancelled,
    Full,
}

/// Takes the printed text.
struct Lines<'a> {
    text: String,
    /// Start and offset of each line.
    starts: Vec<(u32, Option<u64>)>,
    /// Bytes of the current line, with those that are left out.
    line_bytes: usize,
    stop: Option<Stop>,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl Print for Lines<'_> {
    fn write_str(&mut self, text: &str) -> io::Result<()> {
        let before = self.line_bytes;
        self.line_bytes = before.saturating_add(text.len());
        if self.line_bytes <= MAX_LINE_BYTES {
            self.text.push_str(text);
            return Ok(());
        }
        if before <= MAX_LINE_BYTES {
            let end = text.floor_char_boundary(MAX_LINE_BYTES - before);
            self.text.push_str(text.get(..end).unwrap_or_default());
            self.text.push('…');
        }
        Ok(())
    }

    fn newline(&mut self) -> io::Result<()> {
        self.text.push('\n');
        self.line_bytes = 0;
        if self.text.len() >= MAX_TEXT_BYTES {
            self.stop = Some(Stop::Full);
        } else if self.starts.len().is_multiple_of(LINES_BETWEEN_CHECKS) && (self.is_cancelled)() {
            self.stop = Some(Stop::Cancelled);
        }
        match self.stop {
            Some(_) => Err(io::Error::other("stopped")),
            None => Ok(()),
        }
    }

    fn start_line(&mut self, offset: Option<u64>) {
        // The text is shorter than 4 GiB: `newline` stops before that.
        let start = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        self.starts.push((start, offset));
    }

    /// Custom sections have no instructions. Debug information would be the largest part of many programs.
    fn print_custom_section(&mut self, _name: &str, _offset: u64, _data: &[u8]) -> io::Result<bool> {
        Ok(true)
    }
}

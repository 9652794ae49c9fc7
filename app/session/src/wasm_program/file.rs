//! A program's file, in binary or text form.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use wasm_run::{Program, ProgramError};

/// Maximum size of a program's file in bytes.
const MAX_PROGRAM_BYTES: u64 = 64 << 20;
/// The first bytes of the binary form.
const BINARY_MAGIC: &[u8] = b"\0asm";

/// Why a file is no program that can run. The text does not name the file.
#[derive(Debug, thiserror::Error)]
pub enum ProgramFileError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is too large.
    #[error("the program has more than 64 MiB")]
    TooLarge,
    /// It has neither form.
    #[error("no WebAssembly program: neither the binary form (it begins with \\0asm) nor text")]
    NoProgram,
    /// The text has a mistake. The message names the line and the column.
    #[error("{0}")]
    Text(String),
    /// The program cannot run.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// Opens a program. The content decides between binary and text form.
///
/// # Errors
/// When the file cannot be read, or is no program that can run. The message names the place in the file.
pub fn open_file(path: &Path) -> Result<Program, ProgramFileError> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_PROGRAM_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_PROGRAM_BYTES {
        return Err(ProgramFileError::TooLarge);
    }
    let binary = match bytes.starts_with(BINARY_MAGIC) {
        true => bytes,
        false => assemble(&bytes)?,
    };
    Ok(Program::parse(binary)?)
}

fn assemble(bytes: &[u8]) -> Result<Vec<u8>, ProgramFileError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ProgramFileError::NoProgram)?;
    wat::parse_str(text).map_err(|e| ProgramFileError::Text(to_one_line(&e.to_string())))
}

/// Returns an error of the assembler as one line. It has the position in its second line, and shows the source after it.
fn to_one_line(error: &str) -> String {
    let message = error.lines().next().unwrap_or_default();
    let position = error.split_once("<anon>:").and_then(|(_, rest)| {
        let position = rest.split_whitespace().next()?;
        position.split_once(':')
    });
    match position {
        // A long line has its position in the message.
        Some((line, column)) => {
            let message = message.split(" at <anon>:").next().unwrap_or_default();
            format!("line {line}, column {column}: {message}")
        }
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_assembler_are_one_line() {
        let shown = |text: &str| to_one_line(&wat::parse_str(text).unwrap_err().to_string());
        assert_eq!(
            shown("(module\n  (func (bogus)))"),
            "line 2, column 10: unknown operator or unexpected token"
        );
        let long = format!("(module {} (func (bogus)))", " ".repeat(600));
        assert_eq!(shown(&long), "line 1, column 617: unknown operator or unexpected token");
        assert_eq!(to_one_line("unknown local"), "unknown local");
    }
}

//! A program's file, in binary or text form.

use crate::cli::Failure;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use wasm_run::Program;

/// Maximum size of a program's file in bytes.
const MAX_PROGRAM_BYTES: u64 = 64 << 20;
/// The first bytes of the binary form.
const BINARY_MAGIC: &[u8] = b"\0asm";

/// Opens a program. The content decides between binary and text form.
///
/// # Errors
/// When the file cannot be read, or is no program that can run. The message names the place in the file.
pub fn open(path: &Path) -> Result<Program, Failure> {
    let failed = |e: std::io::Error| Failure::file(path, e);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_PROGRAM_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_PROGRAM_BYTES {
        return Err(Failure::file(path, "the program has more than 64 MiB"));
    }
    let binary = if bytes.starts_with(BINARY_MAGIC) {
        bytes
    } else {
        assemble(path, &bytes)?
    };
    Program::parse(binary).map_err(|e| Failure::file(path, e))
}

fn assemble(path: &Path, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|_| {
        Failure::file(
            path,
            "no WebAssembly program: neither the binary form (it begins with \\0asm) nor text",
        )
    })?;
    wat::parse_str(text).map_err(|e| Failure::file(path, to_one_line(&e.to_string())))
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

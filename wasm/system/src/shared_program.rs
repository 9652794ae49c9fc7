//! A program that imports its memory, so that the system module can be linked before it.
//!
//! The program calls the system module, and the system module uses the program's memory. A linker without circles takes
//! three modules in this order: the memory alone, the system module, the program with an imported memory.

use crate::{PROGRAM_MEMORY, PROGRAM_MODULE};

/// Bytes of the magic and the version of a binary.
const PREAMBLE_BYTES: usize = 8;
const IMPORT_SECTION: u8 = 2;
const MEMORY_SECTION: u8 = 5;
const EXPORT_SECTION: u8 = 7;
const CODE_SECTION: u8 = 10;
/// Kind of memories in imports and exports.
const MEMORY_KIND: u8 = 2;

/// A program in two modules: its memory, and the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedProgram {
    /// Binary of a module that has only the memory, and exports it as `memory`.
    pub memory: Vec<u8>,
    /// Binary of the program. Its last import is the memory, `program.memory`.
    pub program: Vec<u8>,
    /// Number of bytes by which the code stands later than in the original.
    code_shift: i64,
}

/// The program cannot be divided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// The program has no memory of its own.
    #[error("the program defines no memory")]
    NoMemory,
    /// The program is damaged.
    #[error("byte {offset:#x}: the section is damaged")]
    Damaged {
        /// Byte offset of the section in the file.
        offset: u64,
    },
}

impl SharedProgram {
    /// Divides the binary of a valid program.
    ///
    /// # Errors
    /// When the program defines no memory, or is damaged.
    pub fn divide(binary: &[u8]) -> Result<Self, ShareError> {
        let preamble = binary.get(..PREAMBLE_BYTES).ok_or(ShareError::Damaged { offset: 0 })?;
        let sections = Section::read_all(binary)?;
        let memory = sections.iter().find(|s| s.id == MEMORY_SECTION);
        let memory = memory
            .filter(|s| s.content.first() == Some(&1))
            .ok_or(ShareError::NoMemory)?;
        // After the count of 1, the section has the limits of the one memory.
        let limits = memory.content.get(1..).unwrap_or_default();

        let mut program = preamble.to_vec();
        let (mut has_import, mut code_shift) = (false, 0);
        for section in &sections {
            if section.id == IMPORT_SECTION {
                let damaged = ShareError::Damaged {
                    offset: section.start as u64,
                };
                let (count, imports) = read_unsigned(section.content).ok_or(damaged.clone())?;
                put_imports(&mut program, count.checked_add(1).ok_or(damaged)?, imports, limits);
                has_import = true;
                continue;
            }
            if !has_import && section.id > IMPORT_SECTION {
                put_imports(&mut program, 1, &[], limits);
                has_import = true;
            }
            if section.id == CODE_SECTION {
                code_shift = difference(program.len(), section.start);
            }
            if section.id != MEMORY_SECTION {
                program.extend_from_slice(section.whole);
            }
        }
        let mut memory_module = preamble.to_vec();
        put_section(&mut memory_module, MEMORY_SECTION, memory.content);
        let mut export = vec![1];
        put_name(&mut export, PROGRAM_MEMORY);
        export.extend([MEMORY_KIND, 0]);
        put_section(&mut memory_module, EXPORT_SECTION, &export);
        Ok(Self {
            memory: memory_module,
            program,
            code_shift,
        })
    }

    /// Returns the byte offset in the original file for a byte offset of code in `program`.
    #[must_use]
    pub fn original_offset(&self, offset: u64) -> u64 {
        offset.saturating_add_signed(self.code_shift.saturating_neg())
    }
}

/// A section of a binary.
struct Section<'a> {
    id: u8,
    /// Offset of its first byte, the id.
    start: usize,
    /// All bytes, with id and size.
    whole: &'a [u8],
    content: &'a [u8],
}

impl<'a> Section<'a> {
    fn read_all(binary: &'a [u8]) -> Result<Vec<Self>, ShareError> {
        let mut sections = Vec::new();
        let mut start = PREAMBLE_BYTES;
        while let Some((id, rest)) = binary.get(start..).and_then(|b| b.split_first()) {
            let damaged = || ShareError::Damaged { offset: start as u64 };
            let (size, rest) = read_unsigned(rest).ok_or_else(damaged)?;
            let content = rest.get(..size as usize).ok_or_else(damaged)?;
            let whole = binary.get(start..).ok_or_else(damaged)?;
            let bytes = whole.len() - rest.len() + content.len();
            sections.push(Self {
                id: *id,
                start,
                whole: whole.get(..bytes).ok_or_else(damaged)?,
                content,
            });
            start += bytes;
        }
        Ok(sections)
    }
}

fn difference(new: usize, old: usize) -> i64 {
    let (new, old) = (i64::try_from(new), i64::try_from(old));
    new.unwrap_or(i64::MAX).saturating_sub(old.unwrap_or(i64::MAX))
}

/// Writes an import section: `imports`, and the memory after them.
fn put_imports(to: &mut Vec<u8>, count: u32, imports: &[u8], limits: &[u8]) {
    let mut content = Vec::new();
    put_unsigned(&mut content, count);
    content.extend_from_slice(imports);
    put_name(&mut content, PROGRAM_MODULE);
    put_name(&mut content, PROGRAM_MEMORY);
    content.push(MEMORY_KIND);
    content.extend_from_slice(limits);
    put_section(to, IMPORT_SECTION, &content);
}

fn put_section(to: &mut Vec<u8>, id: u8, content: &[u8]) {
    to.push(id);
    put_unsigned(to, u32::try_from(content.len()).unwrap_or(u32::MAX));
    to.extend_from_slice(content);
}

fn put_name(to: &mut Vec<u8>, name: &str) {
    put_unsigned(to, u32::try_from(name.len()).unwrap_or(u32::MAX));
    to.extend_from_slice(name.as_bytes());
}

fn put_unsigned(to: &mut Vec<u8>, mut value: u32) {
    while value > 0x7f {
        to.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    to.push((value & 0x7f) as u8);
}

/// Reads a number in LEB128 form, and returns the bytes after it.
fn read_unsigned(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0_u64;
    for (i, byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((u32::try_from(value).ok()?, bytes.get(i + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the program of the tests, and the offset of its `unreachable` in it.
    fn program(imports: &str) -> (Vec<u8>, usize) {
        let text = format!(
            "(module {imports} (memory (export \"memory\") 3 200) (data (i32.const 5) \"abc\")
                (func (export \"_start\") (drop (i64.const 0x0123456789abcdef)) (unreachable)))"
        );
        let binary = wat::parse_str(text).unwrap();
        let at = find_trap(&binary);
        (binary, at)
    }

    /// Returns the offset of the instruction after the constant and the `drop`.
    fn find_trap(binary: &[u8]) -> usize {
        let pattern = [0x42, 0xef, 0x9b, 0xaf, 0xcd, 0xf8, 0xac, 0xd1, 0x91, 0x01, 0x1a, 0x00];
        let at = binary.windows(pattern.len()).position(|w| w == pattern).unwrap();
        at + pattern.len() - 1
    }

    #[test]
    fn offsets_of_code_have_their_original() {
        let many = "(import \"kinescope\" \"invoke\" (func (param i32 i32) (result i32)))".repeat(127);
        for imports in ["", "(import \"kinescope\" \"respond\" (func (param i32 i32)))", &many] {
            let (binary, at) = program(imports);
            let shared = SharedProgram::divide(&binary).unwrap();
            let moved = find_trap(&shared.program);
            assert_ne!(moved, at);
            assert_eq!(shared.original_offset(moved as u64), at as u64);
        }
    }

    #[test]
    fn memory_module_has_the_limits() {
        let (binary, _) = program("");
        let shared = SharedProgram::divide(&binary).unwrap();
        let expected = wat::parse_str("(module (memory (export \"memory\") 3 200))").unwrap();
        assert_eq!(shared.memory, expected);
    }

    #[test]
    fn damaged_programs_are_refused() {
        let none = wat::parse_str("(module (func))").unwrap();
        assert_eq!(SharedProgram::divide(&none), Err(ShareError::NoMemory));
        let (binary, _) = program("(import \"kinescope\" \"respond\" (func (param i32 i32)))");
        for length in 0..binary.len() {
            // A cut at the end of a section is a shorter program.
            let _ = SharedProgram::divide(&binary[..length]);
        }
        assert_eq!(
            SharedProgram::divide(&binary[..7]),
            Err(ShareError::Damaged { offset: 0 })
        );
        assert_eq!(
            SharedProgram::divide(&binary[..9]),
            Err(ShareError::Damaged { offset: 8 })
        );
        let long = [&binary[..8], &[1, 0xff, 0xff, 0xff, 0xff, 0x7f]].concat();
        assert_eq!(SharedProgram::divide(&long), Err(ShareError::Damaged { offset: 8 }));
    }
}

//! The code of executables, and the names of their functions.

use super::records::Record;
use crate::bytes::Endian;

/// Bytes of the payload before the name of the code's format.
const HEAD_BYTES: usize = 40;
/// Bytes before the functions, of a function, and of a parameter in the description of an executable.
const DESCRIPTION_BYTES: usize = 32;
const FUNCTION_BYTES: usize = 32;
const PARAMETER_BYTES: usize = 8;
/// Place of the size of a function's name in its description.
const NAME_SIZE_AT: usize = 26;

/// The payload of the operation that prepares an executable.
pub(super) struct Executable<'a> {
    /// Name of the code's format, for example `embedded-elf-x86_64`.
    pub(super) format: String,
    pub(super) code: &'a [u8],
    /// Names of functions by their numbers. Empty in version 1 of the format.
    pub(super) functions: Vec<String>,
}

impl<'a> Executable<'a> {
    /// Parses a payload, or returns `None` if it is too short. Names that are cut are left out.
    pub(super) fn parse(record: &'a Record) -> Option<Self> {
        let field = |at, bytes| record.field(at, bytes).and_then(|n| usize::try_from(n).ok());
        let (code, constants) = (field(8, 8)?, field(16, 8)?.checked_mul(4)?);
        let (format, description) = (field(28, 4)?, field(32, 4)?);
        let rest = record.payload.get(HEAD_BYTES..)?;
        let (format, rest) = rest.split_at_checked(format)?;
        let (code, rest) = rest.split_at_checked(code)?;
        let description = rest.get(constants..).and_then(|rest| rest.get(..description));
        Some(Self {
            format: String::from_utf8_lossy(format).into_owned(),
            code,
            functions: description.and_then(parse_names).unwrap_or_default(),
        })
    }
}

/// Parses the names of functions: counts, functions of a fixed size, parameters of a fixed size, then all names.
fn parse_names(description: &[u8]) -> Option<Vec<String>> {
    let field = |at, bytes| {
        let value = Endian::Little.read(description, at, bytes)?;
        usize::try_from(value).ok()
    };
    let (functions, parameters) = (field(0, 8)?, field(8, 8)?);
    let names_at = DESCRIPTION_BYTES
        .checked_add(functions.checked_mul(FUNCTION_BYTES)?)?
        .checked_add(parameters.checked_mul(PARAMETER_BYTES)?)?;
    let mut names = description.get(names_at..)?;
    (0..functions)
        .map(|n| {
            let bytes = field(DESCRIPTION_BYTES + n * FUNCTION_BYTES + NAME_SIZE_AT, 2)?;
            let (name, rest) = names.split_at_checked(bytes)?;
            names = rest;
            Some(String::from_utf8_lossy(name).into_owned())
        })
        .collect()
}

//! Arguments of ioctls as named values.

use super::DriverBranch;
use super::request::{DeviceFile, Request, RequestCode};
use super::structure::{FieldKind, Structure, StructureField};
use super::table::TABLES;
use std::fmt;
use thiserror::Error;

/// An argument that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ArgumentError {
    /// The request is unknown.
    #[error("the request {request:#x} is unknown")]
    UnknownRequest {
        /// The request word.
        request: u32,
    },
    /// The fields of the argument are unknown.
    #[error("the fields of {name} are unknown in driver branch {branch}")]
    UnknownFields {
        /// Name of the request, class or command.
        name: String,
        /// Branch of the driver.
        branch: DriverBranch,
    },
    /// The argument does not have the size that its struct has.
    #[error("{name} has {bytes} bytes; {structure} of driver branch {branch} has {expected}")]
    WrongSize {
        /// Name of the request, class or command.
        name: String,
        /// Name of the struct.
        structure: &'static str,
        /// Branch of the driver.
        branch: DriverBranch,
        /// Number of bytes.
        bytes: usize,
        /// Number of bytes of the struct.
        expected: usize,
    },
    /// The request word announces another size.
    #[error("the request {request:#x} announces {announced} bytes, and the argument has {bytes}")]
    AnnouncedSize {
        /// The request word.
        request: u32,
        /// Number of bytes in the request word.
        announced: usize,
        /// Number of bytes.
        bytes: usize,
    },
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// An unsigned number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// An address in the program's memory.
    Pointer(u64),
    /// An array of bytes.
    Bytes(Vec<u8>),
    /// An array of larger numbers.
    List(Vec<u64>),
}

/// A field and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentValue {
    /// The field.
    pub field: &'static StructureField,
    /// Number of the struct, for an argument that is an array of structs; 0 otherwise.
    pub element: usize,
    /// The value.
    pub value: Value,
}

/// A decoded argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Name of the request, class or command.
    pub name: String,
    /// The struct.
    pub structure: &'static Structure,
    /// The fields in order.
    pub values: Vec<ArgumentValue>,
}

impl Argument {
    /// Returns the number in a field, or `None` if the field does not exist or is an array. Signed numbers are
    /// extended.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        let value = self.values.iter().find(|v| v.field.name == name)?;
        match value.value {
            Value::Unsigned(n) | Value::Pointer(n) => Some(n),
            Value::Signed(n) => Some(n as u64),
            Value::Bytes(_) | Value::List(_) => None,
        }
    }

    /// Returns the verdict of the driver: the ioctl itself succeeds even if the driver refuses.
    #[must_use]
    pub fn status(&self) -> Option<u32> {
        let status = ["status", "rmStatus", "Status"]
            .iter()
            .find_map(|name| self.number(name))?;
        u32::try_from(status).ok()
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(n) | Self::Pointer(n) => write!(f, "{n:#x}"),
            Self::Signed(n) => write!(f, "{n}"),
            Self::Bytes(bytes) => {
                let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
                let rest = bytes.get(text.len()..).unwrap_or_default();
                if !text.is_empty() && text.iter().all(|b| (0x20..0x7f).contains(b)) && rest.iter().all(|b| *b == 0) {
                    return write!(f, "{:?}", String::from_utf8_lossy(text));
                }
                bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))
            }
            Self::List(numbers) => {
                f.write_str("[")?;
                for (n, number) in numbers.iter().enumerate() {
                    write!(f, "{}{number:#x}", if n == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Decodes the argument of an ioctl.
///
/// # Errors
/// If the request is unknown, or the argument is not as large as the branch has it.
pub fn decode_argument(
    branch: DriverBranch,
    file: DeviceFile,
    request: u32,
    bytes: &[u8],
) -> Result<Argument, ArgumentError> {
    let unknown = ArgumentError::UnknownRequest { request };
    let number = match file {
        DeviceFile::Uvm => request,
        DeviceFile::Rm => {
            let code = RequestCode::decode(request).ok_or(unknown.clone())?;
            let announced = usize::from(code.bytes);
            if announced != bytes.len() {
                return Err(ArgumentError::AnnouncedSize {
                    request,
                    announced,
                    bytes: bytes.len(),
                });
            }
            u32::from(code.number)
        }
    };
    let request = Request::find(file, number).ok_or(unknown)?;
    let structures = || {
        request
            .structures
            .iter()
            .filter_map(|name| Structure::find(name, branch))
    };
    let fits = |s: &&Structure| match request.repeated {
        true => s.bytes > 0 && bytes.len().is_multiple_of(s.bytes),
        false => s.bytes == bytes.len(),
    };
    let structure = structures().find(fits).or_else(|| structures().next());
    decode(request.name, branch, structure, request.repeated, bytes)
}

/// Decodes the parameters of an allocation by its class.
///
/// # Errors
/// If the parameters of the class are unknown, or do not have the size of the branch. Some classes may be allocated
/// without parameters: the caller sees from the size 0 that there are none.
pub fn decode_allocation(branch: DriverBranch, class: u32, bytes: &[u8]) -> Result<Argument, ArgumentError> {
    let name = super::class_name(class).map_or_else(|| format!("class {class:#06x}"), str::to_owned);
    let structures = TABLES.as_ref().ok().and_then(|t| t.allocations.get(&class));
    let structure = structures.and_then(|s| Structure::find(s, branch));
    decode(&name, branch, structure, false, bytes)
}

/// Returns the bytes of the parameters of an allocation, or `None` if the class has no known parameters in this branch.
/// A driver accepts the size 0 for them.
#[must_use]
pub fn allocation_bytes(branch: DriverBranch, class: u32) -> Option<usize> {
    let structures = &TABLES.as_ref().ok()?.allocations;
    Structure::find(structures.get(&class)?, branch).map(|s| s.bytes)
}

/// Decodes the parameters of a control command.
///
/// # Errors
/// If the parameters of the command are unknown, or do not have the size of the branch.
pub fn decode_control(branch: DriverBranch, command: u32, bytes: &[u8]) -> Result<Argument, ArgumentError> {
    let name = super::control_name(command).unwrap_or_else(|| format!("command {command:#010x}"));
    let structures = TABLES.as_ref().ok().and_then(|t| t.controls.get(&command));
    let structure = structures.and_then(|s| Structure::find(s, branch));
    decode(&name, branch, structure, false, bytes)
}

fn decode(
    name: &str,
    branch: DriverBranch,
    structure: Option<&'static Structure>,
    repeated: bool,
    bytes: &[u8],
) -> Result<Argument, ArgumentError> {
    let name = name.to_owned();
    let Some(structure) = structure else {
        return Err(ArgumentError::UnknownFields { name, branch });
    };
    let count = bytes.len().checked_div(structure.bytes).unwrap_or(0);
    let fits = count * structure.bytes == bytes.len() && (repeated || count == 1);
    if !fits {
        return Err(ArgumentError::WrongSize {
            name,
            structure: structure.name,
            branch,
            bytes: bytes.len(),
            expected: structure.bytes,
        });
    }
    let mut values = Vec::new();
    for (element, bytes) in bytes.chunks_exact(structure.bytes.max(1)).enumerate() {
        let fields = structure.fields.iter();
        values.extend(fields.filter_map(|field| {
            Some(ArgumentValue {
                field,
                element,
                value: read_value(field, bytes)?,
            })
        }));
    }
    Ok(Argument {
        name,
        structure,
        values,
    })
}

fn read_value(field: &StructureField, bytes: &[u8]) -> Option<Value> {
    let size = field.kind.bytes();
    let number = |at: usize| -> Option<u64> {
        let slice = bytes.get(at..at.checked_add(size)?)?;
        Some(slice.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
    };
    let Some(count) = field.count else {
        let value = number(field.offset)?;
        return Some(match field.kind {
            FieldKind::Unsigned(_) => Value::Unsigned(value),
            FieldKind::Pointer => Value::Pointer(value),
            FieldKind::Signed(size) => {
                let unused = 64 - 8 * u32::from(size.min(8));
                Value::Signed(((value << unused) as i64) >> unused)
            }
        });
    };
    if size == 1 {
        return Some(Value::Bytes(
            bytes.get(field.offset..field.offset.checked_add(count)?)?.to_vec(),
        ));
    }
    let numbers = (0..count).map(|n| number(field.offset.checked_add(n.checked_mul(size)?)?));
    Some(Value::List(numbers.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests;

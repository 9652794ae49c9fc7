//! Calls that annotate a recording: notes, ranges and names of memory that the recorded program gives.

use crate::GpuVa;
use crate::recording::ElementType;
use crate::recording::register_trace::MAX_DIMENSIONS;
use std::fmt;

/// Call of a note of the program. Its argument is the text.
pub const NOTE_CALL: &str = "mark";
/// Call that begins a range. Its argument is the name.
pub const RANGE_BEGIN_CALL: &str = "range begin";
/// Call that ends the last open range of its thread.
pub const RANGE_END_CALL: &str = "range end";
/// Call that names device memory; [`BufferName::encode`] describes its arguments.
pub const NAME_BUFFER_CALL: &str = "name buffer";

/// Maximum length of a name, bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 200;
/// Why a name cannot be a name of a range or of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It has no characters.
    #[error("the name is empty")]
    Empty,
    /// It is too long.
    #[error("the name is longer than {MAX_NAME_BYTES} bytes")]
    Long,
    /// It has a line break, a tab or another control character.
    #[error("the name has a control character")]
    Control,
    /// Kinescope itself gives such names to memory.
    #[error("names such as in0, out0, memory0, after0, alloc 0 and host 0 are given by Kinescope itself")]
    Automatic,
}

/// Checks the name of a range.
///
/// # Errors
/// If it is empty, longer than [`MAX_NAME_BYTES`], or has a control character.
pub fn check_range_name(name: &str) -> Result<(), NameError> {
    match name {
        "" => Err(NameError::Empty),
        _ if name.len() > MAX_NAME_BYTES => Err(NameError::Long),
        _ if name.chars().any(char::is_control) => Err(NameError::Control),
        _ => Ok(()),
    }
}

/// Checks the name of memory.
///
/// # Errors
/// As [`check_range_name`], and if Kinescope itself gives such names.
pub fn check_buffer_name(name: &str) -> Result<(), NameError> {
    check_range_name(name)?;
    let is_number = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let automatic = ["in", "out", "memory", "after", "alloc ", "host "];
    let is_automatic = automatic
        .iter()
        .any(|word| name.strip_prefix(word).is_some_and(is_number));
    if is_automatic {
        Err(NameError::Automatic)
    } else {
        Ok(())
    }
}

/// Element type and shape of memory, as text: `f32:1x10`, or `u8` for a list of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferShape {
    /// Type of the elements.
    pub element: ElementType,
    /// Length of each dimension, the slowest first. Empty: a list of unknown length.
    pub shape: Vec<u64>,
}

impl BufferShape {
    /// Parses the text. Returns `None` if it has another form, or more than [`MAX_DIMENSIONS`] dimensions.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (element, sides) = text.split_once(':').unwrap_or((text, ""));
        let element = ElementType::ALL.into_iter().find(|e| e.name() == element)?;
        let sides = sides.split('x').filter(|s| !s.is_empty());
        let shape: Vec<u64> = sides
            .take(MAX_DIMENSIONS + 1)
            .map(|s| s.parse().ok())
            .collect::<Option<_>>()?;
        (shape.len() <= MAX_DIMENSIONS).then_some(Self { element, shape })
    }

    /// Returns whether memory of this size has this form.
    #[must_use]
    pub fn fits(&self, bytes: u64) -> bool {
        let size = self.element.bytes().max(1) as u64;
        if self.shape.is_empty() {
            return bytes.is_multiple_of(size);
        }
        let elements = self.shape.iter().try_fold(1u64, |n, side| n.checked_mul(*side));
        elements.and_then(|n| n.checked_mul(size)) == Some(bytes)
    }
}

impl fmt::Display for BufferShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.element.name())?;
        for (n, side) in self.shape.iter().enumerate() {
            write!(f, "{}{side}", if n == 0 { ':' } else { 'x' })?;
        }
        Ok(())
    }
}

/// The arguments of a call that names memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferName {
    /// Name.
    pub name: String,
    /// First address.
    pub at: GpuVa,
    /// Size, bytes.
    pub bytes: u64,
    /// Element type and shape, if the program gave them.
    pub form: Option<BufferShape>,
}

impl BufferName {
    /// Returns the arguments: the address and the size as little-endian words of 8 bytes, the name in UTF-8, a zero, and
    /// the text of [`BufferShape`], which may be empty.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.extend(self.at.get().to_le_bytes());
        out.extend(self.bytes.to_le_bytes());
        out.extend(self.name.as_bytes());
        out.push(0);
        if let Some(form) = &self.form {
            out.extend(form.to_string().as_bytes());
        }
        out
    }

    /// Reads the arguments. Returns `None` if they have another form, or the name is not valid.
    #[must_use]
    pub fn decode(arguments: &[u8]) -> Option<Self> {
        let (at, rest) = arguments.split_first_chunk::<8>()?;
        let (bytes, rest) = rest.split_first_chunk::<8>()?;
        let end = rest.iter().take(MAX_NAME_BYTES + 1).position(|b| *b == 0)?;
        let (name, form) = rest.split_at_checked(end)?;
        let name = std::str::from_utf8(name)
            .ok()
            .filter(|n| check_buffer_name(n).is_ok())?;
        let at = GpuVa::new(u64::from_le_bytes(*at));
        let bytes = u64::from_le_bytes(*bytes);
        at.checked_add(bytes).filter(|_| bytes > 0)?;
        let form = form.get(1..).and_then(|f| std::str::from_utf8(f).ok());
        let form = form.and_then(BufferShape::parse).filter(|f| f.fits(bytes));
        Some(Self {
            name: name.to_owned(),
            at,
            bytes,
            form,
        })
    }
}

/// Returns whether a call with this name is an annotation or a note of the program. No driver has such a call.
#[must_use]
pub fn is_annotation(call: &str) -> bool {
    [NOTE_CALL, RANGE_BEGIN_CALL, RANGE_END_CALL, NAME_BUFFER_CALL].contains(&call)
}

/// Describes the arguments of an annotation or a note: `"inference"`. Returns `None` for other calls.
pub(super) fn describe_arguments(call: &str, arguments: &[u8]) -> Option<String> {
    match call {
        NOTE_CALL | RANGE_BEGIN_CALL | RANGE_END_CALL if !arguments.is_empty() => {
            Some(format!("{:?}", String::from_utf8_lossy(arguments)))
        }
        NAME_BUFFER_CALL => {
            let n = BufferName::decode(arguments)?;
            let form = n.form.map(|f| format!(", {f}")).unwrap_or_default();
            Some(format!("{:?}: {} bytes at {:#x}{form}", n.name, n.bytes, n.at))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_kinescope_gives_are_refused() {
        for name in ["in0", "out12.1", "memory3", "after0", "alloc 7", "host 1"] {
            assert_eq!(check_buffer_name(name), Err(NameError::Automatic), "{name}");
        }
        for name in ["input", "in", "logits", "out of range", "größe"] {
            assert_eq!(check_buffer_name(name), Ok(()), "{name}");
        }
        assert_eq!(check_range_name(""), Err(NameError::Empty));
        assert_eq!(check_range_name("a\nb"), Err(NameError::Control));
        assert_eq!(check_range_name(&"x".repeat(201)), Err(NameError::Long));
        for wrong in [
            "",
            "f33",
            "f32:ax1",
            "f32:1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1",
        ] {
            assert_eq!(BufferShape::parse(wrong), None, "{wrong}");
        }
    }
}

//! Errors in the files of a register map, and the location that they name.

/// An error in the files of a map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {place}: {reason}")]
pub struct RegisterMapError {
    /// The file.
    pub file: String,
    /// The register, field or enumeration, or the line of a TOML error.
    pub place: String,
    /// The reason.
    pub reason: String,
}

/// A location for errors.
pub(super) struct SourceLocation<'a> {
    pub file: &'a str,
    pub place: String,
}

impl SourceLocation<'_> {
    pub fn err(&self, reason: impl Into<String>) -> RegisterMapError {
        RegisterMapError {
            file: self.file.to_owned(),
            place: self.place.clone(),
            reason: reason.into(),
        }
    }
}

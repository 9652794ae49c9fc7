//! A file of a written folder, and the texts of its comments.

use std::path::PathBuf;
use trace_core::recording::ElementType;

/// File of the folder.
pub(super) struct File {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

impl File {
    pub fn new(path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            bytes: bytes.into(),
        }
    }
}

/// Converts text of a recording to one line of a comment that cannot end the comment.
pub(super) fn sanitize_comment(text: &str) -> String {
    let one = |c: char| {
        if c.is_control() || c == '*' || c == '\\' || c == '`' {
            ' '
        } else {
            c
        }
    };
    text.chars().map(one).collect()
}

/// Describes the contents of a buffer for a comment: `image`, 784 × f32.
pub(super) fn describe_buffer(bytes: u64, element: ElementType) -> String {
    let size = element.bytes().max(1) as u64;
    format!("{} × {}, little-endian", bytes / size, element.name())
}

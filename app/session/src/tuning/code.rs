//! Replacement code that the user provides in a file.

use replay_engine::tune::{ReplacementCode, ReplacementKind};
use std::path::{Path, PathBuf};

/// Maximum size of replacement code, bytes.
const MAX_CODE_BYTES: u64 = 32 << 20;

/// Why a code file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// The file cannot be read.
    #[error("{}: {why}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system error.
        why: std::io::Error,
    },
    /// The file is too large.
    #[error("{}: {bytes} bytes of code are more than {MAX_CODE_BYTES}", path.display())]
    TooMuch {
        /// The file.
        path: PathBuf,
        /// Size of the file, bytes.
        bytes: u64,
    },
    /// The file name does not state a known kind of code.
    #[error("{}: the file extension does not name a kind of code (expected .ptx, .cubin, .fatbin or .cu)", path.display())]
    Name {
        /// The file.
        path: PathBuf,
    },
}

/// Reads a code file, whose name states the kind of code.
///
/// # Errors
/// Returns an error if the file cannot be read, is too long, or has another name.
pub fn read(path: &Path) -> Result<ReplacementCode, CodeError> {
    let failed = |why| CodeError::Read {
        path: path.to_owned(),
        why,
    };
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let kind = match extension.to_ascii_lowercase().as_str() {
        "ptx" => ReplacementKind::Ptx,
        "cubin" => ReplacementKind::Cubin,
        "fatbin" => ReplacementKind::Fatbin,
        "cu" | "cpp" | "cxx" | "cc" => ReplacementKind::Source,
        _ => return Err(CodeError::Name { path: path.to_owned() }),
    };
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > MAX_CODE_BYTES {
        return Err(CodeError::TooMuch {
            path: path.to_owned(),
            bytes,
        });
    }
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
    Ok(ReplacementCode {
        name: name.unwrap_or_default(),
        kind,
        bytes: std::fs::read(path).map_err(failed)?,
        ..ReplacementCode::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_extension_selects_the_code_kind() {
        let folder = tempfile::tempdir().unwrap();
        for (name, kind) in [
            ("a.ptx", ReplacementKind::Ptx),
            ("b.CUBIN", ReplacementKind::Cubin),
            ("c.fatbin", ReplacementKind::Fatbin),
            ("d.cu", ReplacementKind::Source),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, name).unwrap();
            let code = read(&path).unwrap();
            assert_eq!(
                (code.kind, code.name.as_str(), code.bytes.as_slice()),
                (kind, name, name.as_bytes())
            );
        }
        let other = folder.path().join("e.txt");
        std::fs::write(&other, "x").unwrap();
        assert!(matches!(read(&other), Err(CodeError::Name { .. })));
        assert!(matches!(
            read(&folder.path().join("none.ptx")),
            Err(CodeError::Read { .. })
        ));
    }
}

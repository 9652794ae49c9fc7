//! Files of comparison rules that users share.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use trace_core::diff::{RuleError, Rules};

/// Maximum size of a rules file, bytes.
const LONGEST: u64 = 1 << 20;

/// Why a rules file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RulesFileError {
    /// The file cannot be read, or is not text.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: std::io::Error,
    },
    /// The file is too long for a rules file.
    #[error("{}: the file is longer than {LONGEST} bytes, the maximum for comparison rules", .0.display())]
    Long(PathBuf),
    /// A line is not a rule.
    #[error("{}: {source}", path.display())]
    Rule {
        /// The file.
        path: PathBuf,
        /// The line, the column, and the error.
        source: RuleError,
    },
}

/// Reads rules, one per line, from a file of at most 1 MiB. Returns them with the text of the file, including comments.
///
/// # Errors
/// [`RulesFileError`].
pub fn read(path: &Path) -> Result<(Rules, String), RulesFileError> {
    let io = |source| RulesFileError::Io {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(io)?;
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(io)?;
    if text.len() as u64 > LONGEST {
        return Err(RulesFileError::Long(path.to_owned()));
    }
    let rules = text.parse().map_err(|source| RulesFileError::Rule {
        path: path.to_owned(),
        source,
    })?;
    Ok((rules, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_files_keep_comments_and_errors_name_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules");
        let text = "# ours\nignore mappings\n";
        std::fs::write(&file, text).unwrap();
        let (rules, back) = read(&file).unwrap();
        assert_eq!((rules.list.len(), back.as_str()), (1, text));
        std::fs::write(&file, "ignore mappings\nignore buffr x\n").unwrap();
        let report = read(&file).unwrap_err().to_string();
        assert!(report.contains("rules: line 2, column 8:"), "{report}");
    }

    #[test]
    fn long_or_binary_rules_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules");
        std::fs::write(&file, vec![b'#'; LONGEST as usize + 1]).unwrap();
        assert!(matches!(read(&file), Err(RulesFileError::Long(_))));
        std::fs::write(&file, [0xff, 0xfe, 0]).unwrap();
        assert!(matches!(read(&file), Err(RulesFileError::Io { .. })));
        assert!(matches!(
            read(&folder.path().join("none")),
            Err(RulesFileError::Io { .. })
        ));
        assert!(read(Path::new("/dev/zero")).is_err(), "an endless file is refused");
    }
}

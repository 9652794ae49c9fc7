//! Rules of comparisons in files that persons share.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use trace_core::diff::{RuleError, Rules};

/// Longest file of rules, bytes.
const LONGEST: u64 = 1 << 20;

/// Why rules were not read.
#[derive(Debug, thiserror::Error)]
pub enum RulesFileError {
    /// The file cannot be read, or is no text.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is too long to be one of rules.
    #[error("{}: more than {LONGEST} bytes are too many for rules", .0.display())]
    Long(PathBuf),
    /// A line is no rule.
    #[error("{}: {source}", path.display())]
    Rule {
        /// The file.
        path: PathBuf,
        /// The line, the column, and what is wrong.
        source: RuleError,
    },
}

/// Reads rules, one a line, from a file of at most 1 MiB. Gives them with the text as it stands there, notes and all.
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
    fn rules_come_back_with_their_notes_and_a_wrong_line_is_told_with_its_place() {
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
    fn a_file_that_is_too_long_or_no_text_is_refused() {
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
        assert!(read(Path::new("/dev/zero")).is_err(), "ends where nothing does");
    }
}

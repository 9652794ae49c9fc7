//! The files of a campaign: found by their patterns, each digest computed once.

use crate::file_digest::{DigestError, digest_path};
use crate::matrix_error::MatrixError;
use crate::work::{InputFile, KeptOutcomes, RecordingFile};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use trace_core::progress::Progress;

/// Maximum number of work items of a campaign: recordings, each with its options, and the like.
pub(crate) const MAX_WORK_ITEMS: usize = 100_000;

/// The files of a campaign.
pub(crate) struct CampaignFiles<'a> {
    folder: &'a Path,
    keep_outcomes: KeptOutcomes,
    progress: &'a Progress,
    digests: BTreeMap<PathBuf, String>,
}

impl<'a> CampaignFiles<'a> {
    /// Creates the files of a campaign whose relative paths start from `folder`. Cancelling `progress` ends the reading.
    pub fn new(folder: &'a Path, keep_outcomes: KeptOutcomes, progress: &'a Progress) -> Self {
        Self {
            folder,
            keep_outcomes,
            progress,
            digests: BTreeMap::new(),
        }
    }

    /// Returns which outcomes the campaign keeps.
    pub fn keep_outcomes(&self) -> KeptOutcomes {
        self.keep_outcomes
    }

    /// Checks the number of work items that the entry in a line makes, before one more is added.
    pub fn check_count(&self, line: usize, count: usize) -> Result<(), MatrixError> {
        match count >= MAX_WORK_ITEMS {
            true => Err(MatrixError::Entry {
                line,
                reason: format!("more than {MAX_WORK_ITEMS} work items; divide the campaign"),
            }),
            false => Ok(()),
        }
    }

    /// Returns the name of a file in reports: its path in the campaign's folder, or else the whole path.
    pub fn name(&self, path: &Path) -> String {
        let name = path.strip_prefix(self.folder).unwrap_or(path);
        name.display().to_string()
    }

    /// Returns the digest of a file or folder.
    pub fn digest(&mut self, path: &Path) -> Result<String, DigestError> {
        if let Some(known) = self.digests.get(path) {
            return Ok(known.clone());
        }
        let digest = digest_path(path, self.progress)?;
        self.digests.insert(path.to_owned(), digest.clone());
        Ok(digest)
    }

    /// Returns a file that work is about.
    pub fn recording(&mut self, path: &Path) -> Result<RecordingFile, DigestError> {
        Ok(RecordingFile {
            name: self.name(path),
            digest: self.digest(path)?,
            path: path.to_owned(),
        })
    }

    /// Returns another file that work reads.
    pub fn input(&mut self, path: &Path) -> Result<InputFile, DigestError> {
        Ok(InputFile {
            digest: self.digest(path)?,
            path: path.to_owned(),
        })
    }

    /// Returns files by name.
    pub fn inputs(&mut self, files: &BTreeMap<String, PathBuf>) -> Result<BTreeMap<String, InputFile>, DigestError> {
        let input = |(name, path): (&String, &PathBuf)| Ok((name.clone(), self.input(path)?));
        files.iter().map(input).collect()
    }

    /// Returns the files that a path or pattern of the entry in a line names, in order of their paths. `what` names one of
    /// them.
    pub fn find(&self, line: usize, path: &str, what: &str) -> Result<Vec<PathBuf>, MatrixError> {
        let failed = |reason: String| MatrixError::Entry { line, reason };
        let folder = self.folder;
        let whole = folder.join(path);
        // A file whose name has the characters of a pattern is meant by that name.
        if whole.exists() {
            return Ok(vec![whole]);
        }
        let escaped = glob::Pattern::escape(&folder.to_string_lossy());
        let pattern = match Path::new(path).is_absolute() {
            true => path.to_owned(),
            false => format!("{}/{path}", escaped.trim_end_matches('/')),
        };
        let options = glob::MatchOptions {
            // The crate panics at names that are no Unicode if it looks for the dot.
            require_literal_leading_dot: false,
            require_literal_separator: true,
            ..glob::MatchOptions::default()
        };
        let matches = glob::glob_with(&pattern, options).map_err(|e| failed(format!("`{path}`: {e}")))?;
        let mut paths = Vec::new();
        for found in matches {
            let found = found.map_err(|e| failed(e.to_string()))?;
            if is_hidden(&found, &pattern) {
                continue;
            }
            if paths.len() >= MAX_WORK_ITEMS {
                return Err(failed(format!("`{path}` matches more than {MAX_WORK_ITEMS} files")));
            }
            paths.push(found);
        }
        if paths.is_empty() {
            return Err(failed(format!("no {what} matches `{path}` in {}", folder.display())));
        }
        paths.sort();
        Ok(paths)
    }
}

/// Whether a path has a hidden file or folder that no part of the pattern names with its dot.
fn is_hidden(path: &Path, pattern: &str) -> bool {
    let dotted: Vec<glob::Pattern> = pattern
        .split('/')
        .filter(|part| part.starts_with('.'))
        .filter_map(|part| glob::Pattern::new(part).ok())
        .collect();
    let mut names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_string_lossy()),
        _ => None,
    });
    names.any(|name| name.starts_with('.') && !dotted.iter().any(|part| part.matches(&name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    /// The program panicked at a name that is no Unicode.
    #[test]
    fn patterns_select_visible_files_with_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
        for name in [&b".git"[..], b"d", b".traces"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        for name in [
            &b"a.kine"[..],
            b"\xff.kine",
            b".b.kine",
            b".git/c.kine",
            b"d/e.kine",
            b".traces/f.kine",
        ] {
            std::fs::write(at(name), "").unwrap();
        }
        let progress = Progress::new();
        let files = CampaignFiles::new(folder.path(), KeptOutcomes::None, &progress);
        let find = |pattern: &str| {
            let found = files.find(1, pattern, "recording").unwrap().into_iter();
            let names = found.map(|path| path.strip_prefix(folder.path()).unwrap().to_string_lossy().into_owned());
            names.collect::<Vec<_>>()
        };
        assert!(find("*.kine").contains(&"a.kine".to_owned()));
        assert!(!find("*.kine").contains(&".b.kine".to_owned()));
        assert_eq!(find("[a-z].kine"), ["a.kine"]);
        assert_eq!(find(".*.kine"), [".b.kine"]);
        assert_eq!(find(".traces/*.kine"), [".traces/f.kine"]);
        let all = find("**/*.kine");
        assert!(all.contains(&"d/e.kine".to_owned()) && !all.iter().any(|name| name.contains(".git")));
        // A folder may be hidden itself.
        let hidden = CampaignFiles::new(&at(b".traces"), KeptOutcomes::None, &progress).find(1, "*.kine", "recording");
        assert_eq!(hidden.unwrap(), [at(b".traces/f.kine")]);
    }
}

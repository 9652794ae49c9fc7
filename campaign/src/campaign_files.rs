//! The files of a campaign: found by their patterns, each digest computed once.

use crate::file_digest::{DigestError, digest_path};
use crate::matrix_error::MatrixError;
use crate::work::{InputFile, KeptOutcomes, RecordingFile};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
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
            require_literal_leading_dot: true,
            require_literal_separator: true,
            ..glob::MatchOptions::default()
        };
        let matches = glob::glob_with(&pattern, options).map_err(|e| failed(format!("`{path}`: {e}")))?;
        let mut paths = Vec::new();
        for found in matches {
            let found = found.map_err(|e| failed(e.to_string()))?;
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

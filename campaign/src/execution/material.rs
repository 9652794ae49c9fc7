//! Where the files of a run are on this machine.

use super::stop::Stop;
use crate::file_digest::digest_path;
use crate::work::WorkItem;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trace_core::progress::Progress;

/// Where the files of a run are on this machine: for each path of [`WorkItem::files`], the path here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunMaterial {
    paths: BTreeMap<PathBuf, PathBuf>,
}

impl RunMaterial {
    /// Creates the list. `locate` returns the path here of a file, from its path on the machine of the campaign and its
    /// digest. The file must keep its extension, which decides how some files are read.
    #[must_use]
    pub fn new(work: &WorkItem, mut locate: impl FnMut(&Path, &str) -> PathBuf) -> Self {
        let files = work.files().into_iter();
        Self {
            paths: files
                .map(|(path, digest)| (path.clone(), locate(path, digest)))
                .collect(),
        }
    }

    /// Returns the files where the campaign found them, for a run on the machine of the campaign.
    #[must_use]
    pub fn of_campaign(work: &WorkItem) -> Self {
        Self::new(work, |path, _| path.to_owned())
    }

    /// Returns the path here of a file of the work.
    #[must_use]
    pub fn find(&self, path: &Path) -> Option<&Path> {
        self.paths.get(path).map(PathBuf::as_path)
    }

    /// Returns the path here of a file whose content must be the one that was queued.
    pub(super) fn checked(&self, path: &Path, digest: &str, progress: &Progress) -> Result<&Path, Stop> {
        let here = self
            .find(path)
            .ok_or_else(|| Stop::Refused(format!("{}: the file is missing here", path.display())))?;
        if digest_path(here, progress)? != digest {
            return Err(Stop::Refused(format!(
                "{}: the file changed after the campaign was queued; start a new campaign",
                here.display()
            )));
        }
        Ok(here)
    }
}

//! The matrix of a campaign: its work items by their targets by their repeats, as a list of runs.

use crate::campaign_files::{CampaignFiles, MAX_WORK_ITEMS};
use crate::description::Campaign;
use crate::file_digest::DigestError;
use crate::folder_queue::MAX_ENTRY_BYTES;
use crate::matrix_error::{MAX_RUNS, MatrixError};
use crate::run::{Run, RunId};
use crate::work::WorkItem;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use trace_core::progress::Progress;

/// Work on some targets, some times.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MatrixRow {
    work: WorkItem,
    targets: Vec<String>,
    repeats: u32,
}

impl MatrixRow {
    fn run_count(&self) -> u64 {
        (self.targets.len() as u64).saturating_mul(u64::from(self.repeats))
    }
}

/// The matrix of a campaign. It holds its rows; runs are computed. No two runs have the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    rows: Vec<MatrixRow>,
    /// Indices of the rows of each work, by its id.
    same_work: HashMap<RunId, Vec<usize>>,
    duplicates: u64,
}

/// Rows while entries are expanded. An entry can list runs of another one again.
#[derive(Default)]
struct MatrixRows {
    rows: Vec<MatrixRow>,
    /// Indices of the rows that have the same work, by its id.
    same_work: HashMap<RunId, Vec<usize>>,
    duplicates: u64,
}

impl MatrixRows {
    /// Adds work without the runs that earlier rows have. Of two rows of the same work, the one with more repeats keeps
    /// the target.
    fn add(&mut self, mut row: MatrixRow) {
        let same = self.same_work.entry(work_id(&row.work)).or_default();
        for n in same.iter() {
            let Some(earlier) = self.rows.get_mut(*n) else { continue };
            let (longer, shorter) = match earlier.repeats >= row.repeats {
                true => (earlier, &mut row),
                false => (&mut row, earlier),
            };
            let before = shorter.run_count();
            shorter.targets.retain(|t| !longer.targets.contains(t));
            self.duplicates += before - shorter.run_count();
        }
        if !row.targets.is_empty() {
            same.push(self.rows.len());
            self.rows.push(row);
        }
    }

    fn into_matrix(self) -> Matrix {
        let mut rows = self.rows;
        rows.retain(|row| !row.targets.is_empty());
        let mut same_work: HashMap<RunId, Vec<usize>> = HashMap::new();
        for (n, row) in rows.iter().enumerate() {
            same_work.entry(work_id(&row.work)).or_default().push(n);
        }
        Matrix {
            rows,
            same_work,
            duplicates: self.duplicates,
        }
    }
}

/// Returns the id of work, as that of its first run on no target.
fn work_id(work: &WorkItem) -> RunId {
    Run::new(work.clone(), "", 0).id
}

impl Matrix {
    /// Finds the files of a campaign, and computes their digests.
    ///
    /// # Errors
    /// If an entry matches no file, a file cannot be read, there are too many runs, or the work is cancelled.
    pub fn expand(campaign: &Campaign, progress: &Progress) -> Result<Self, MatrixError> {
        let mut files = CampaignFiles::new(&campaign.folder, campaign.keep_outcomes, progress);
        let mut rows = MatrixRows::default();
        for entry in &campaign.entries {
            let failed = |reason: String| entry.error(reason);
            let works = entry.expand(&mut files).map_err(|e| match e {
                MatrixError::Digest(e @ DigestError::Io { .. }) => failed(e.to_string()),
                e => e,
            })?;
            if rows.rows.len() + works.len() > MAX_WORK_ITEMS {
                let reason = format!("more than {MAX_WORK_ITEMS} work items; divide the campaign");
                return Err(failed(reason));
            }
            for work in works {
                let bytes = serde_json::to_vec(&work).map_err(|e| failed(e.to_string()))?.len();
                if bytes > MAX_ENTRY_BYTES {
                    return Err(failed(format!(
                        "the work on {} takes {bytes} bytes in the queue (at most {MAX_ENTRY_BYTES}); name fewer files",
                        work.recording().name
                    )));
                }
                rows.add(MatrixRow {
                    work,
                    targets: entry.targets.clone(),
                    repeats: entry.repeats,
                });
            }
        }
        let matrix = rows.into_matrix();
        match matrix.len() {
            n if n > MAX_RUNS => Err(MatrixError::TooManyRuns(n)),
            _ => Ok(matrix),
        }
    }

    /// Returns the number of runs.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.rows.iter().map(MatrixRow::run_count).fold(0, u64::saturating_add)
    }

    /// Returns whether the description lists a run.
    #[must_use]
    pub fn contains(&self, run: &Run) -> bool {
        let rows = self.same_work.get(&work_id(&run.work)).into_iter().flatten();
        let mut rows = rows.filter_map(|n| self.rows.get(*n));
        rows.any(|row| run.repeat < row.repeats && row.targets.contains(&run.target))
    }

    /// Returns the number of runs that entries list again. They are not in the matrix a second time.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Whether there are no runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of work items: recordings, each with its options, and the like.
    #[must_use]
    pub fn work_count(&self) -> usize {
        self.rows.len()
    }

    /// Returns the numbers of work items and of runs of each kind of work.
    #[must_use]
    pub fn kinds(&self) -> BTreeMap<&'static str, (u64, u64)> {
        let mut kinds: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
        for row in &self.rows {
            let (items, runs) = kinds.entry(row.work.kind()).or_default();
            *items += 1;
            *runs = runs.saturating_add(row.run_count());
        }
        kinds
    }

    /// Lists the work items.
    pub fn works(&self) -> impl Iterator<Item = &WorkItem> {
        self.rows.iter().map(|r| &r.work)
    }

    /// Returns the targets, in order of their names.
    #[must_use]
    pub fn targets(&self) -> BTreeSet<&str> {
        self.rows.iter().flat_map(|r| &r.targets).map(String::as_str).collect()
    }

    /// Returns the runs: all first repeats before all second ones, so that a stopped campaign covers every cell.
    pub fn runs(&self) -> impl Iterator<Item = Run> {
        let repeats = self.rows.iter().map(|r| r.repeats).max().unwrap_or(0);
        (0..repeats).flat_map(move |repeat| {
            let rows = self.rows.iter().filter(move |r| repeat < r.repeats);
            rows.flat_map(move |r| r.targets.iter().map(move |t| Run::new(r.work.clone(), t, repeat)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn campaign(folder: &Path, text: &str) -> Campaign {
        Campaign::parse(
            &format!("version = 1\ntargets = [\"cuda:0\", \"cuda:1\"]\n{text}"),
            folder,
        )
        .unwrap()
    }

    #[test]
    fn matrix_is_recordings_by_targets_by_repeats() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.kine", "a.kine", "c.txt", ".d.kine"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let text = "repeats = 2\n[[recordings]]\npath = \"*.kine\"\n[[recordings]]\npath = \"c.txt\"\nrepeats = 3\n\
                    targets = [\"cuda:2\"]\ninputs = { x = \"a.kine\" }\n";
        let matrix = Matrix::expand(&campaign(folder.path(), text), &Progress::new()).unwrap();
        assert_eq!((matrix.len(), matrix.work_count(), matrix.targets().len()), (11, 3, 3));
        let runs: Vec<Run> = matrix.runs().collect();
        assert_eq!(runs.len(), 11);
        let names: Vec<(&str, &str, u32)> = runs
            .iter()
            .map(|r| (r.work.recording().name.as_str(), r.target.as_str(), r.repeat))
            .collect();
        assert_eq!(
            names[..3],
            [
                ("a.kine", "cuda:0", 0),
                ("a.kine", "cuda:1", 0),
                ("b.kine", "cuda:0", 0)
            ]
        );
        assert_eq!(names[10], ("c.txt", "cuda:2", 2));
        let ids: BTreeSet<_> = runs.iter().map(|r| r.id).collect();
        assert_eq!(ids.len(), 11);
        assert_eq!(runs[4].work.files().len(), 2);
    }

    #[test]
    fn runs_that_are_listed_again_are_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.kine", "b.kine"] {
            std::fs::write(folder.path().join(name), "the same bytes").unwrap();
        }
        let expand = |text: &str| {
            let matrix = Matrix::expand(&campaign(folder.path(), text), &Progress::new()).unwrap();
            let ids: BTreeSet<_> = matrix.runs().map(|r| r.id).collect();
            assert_eq!((matrix.len(), matrix.runs().count()), (ids.len() as u64, ids.len()));
            assert!(matrix.runs().all(|run| matrix.contains(&run)));
            let others = matrix.runs().map(|run| Run::new(run.work, "cuda:2", run.repeat));
            assert!(!others.into_iter().any(|run| matrix.contains(&run)));
            let others = matrix.runs().map(|run| Run::new(run.work, &run.target, run.repeat + 4));
            assert!(!others.into_iter().any(|run| matrix.contains(&run)));
            (matrix.len(), matrix.work_count(), matrix.duplicates())
        };
        // Two entries of one file, and two files of the same bytes.
        let twice = "[[recordings]]\npath = \"a.kine\"\n[[recordings]]\npath = \"a.kine\"\n";
        assert_eq!(expand(twice), (2, 1, 2));
        assert_eq!(expand("[[recordings]]\npath = \"*.kine\"\n"), (2, 1, 2));
        // More repeats on one of the targets, before and after.
        let more = "[[recordings]]\npath = \"a.kine\"\nrepeats = 3\ntargets = [\"cuda:1\"]\n";
        let fewer = "[[recordings]]\npath = \"a.kine\"\nrepeats = 2\n";
        assert_eq!(expand(&format!("{more}{fewer}")), (5, 2, 2));
        assert_eq!(expand(&format!("{fewer}{more}")), (5, 2, 2));
        assert_eq!(expand(&format!("{fewer}{more}{more}{fewer}")), (5, 2, 9));
        // A row that loses all its targets is none.
        let most = "[[recordings]]\npath = \"a.kine\"\nrepeats = 4\n";
        assert_eq!(expand(&format!("{fewer}{more}{most}")), (8, 1, 7));
    }

    #[test]
    fn entries_without_files_are_refused_with_their_line() {
        let folder = tempfile::tempdir().unwrap();
        let campaign = campaign(folder.path(), "[[recordings]]\npath = \"*.kine\"\n");
        let failed = Matrix::expand(&campaign, &Progress::new()).unwrap_err().to_string();
        assert!(
            failed.starts_with("line 3: no recording matches `*.kine` in"),
            "{failed}"
        );
    }
}

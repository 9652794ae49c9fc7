//! The recordings in an unpacked archive.

use super::archive::{Container, MAX_MEMBERS, detect_container};
use super::formats::{self, Importer, find_importer};
use super::packed_folder::is_packed_recording;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Maximum depth of folders.
const MAX_DEPTH: usize = 32;

/// How much speaks for a member that can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// An archive in the archive.
    Archive,
    /// A kernel log, which people send along with a recording.
    KernelLog,
    Recording,
}

/// A member that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) path: PathBuf,
    rank: Rank,
}

/// Returns the members of an unpacked archive that can be opened: those with the most in their favour, by name.
pub(crate) fn find_candidates(folder: &Path) -> Vec<Candidate> {
    let mut all = Vec::new();
    collect(folder, 0, &mut all);
    let mut parts = BTreeSet::new();
    for candidate in &all {
        parts.extend(formats::importer_parts(&candidate.path));
    }
    all.retain(|c| !parts.contains(&c.path));
    let best = all.iter().map(|c| c.rank).max();
    all.retain(|c| Some(c.rank) == best);
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}

fn collect(path: &Path, depth: usize, all: &mut Vec<Candidate>) {
    let candidate = |rank| Candidate {
        path: path.to_owned(),
        rank,
    };
    if all.len() >= MAX_MEMBERS || depth > MAX_DEPTH {
        return;
    }
    if !path.is_dir() {
        let found = match detect_container(path) {
            Container::None => find_importer(path).map(rank_of),
            Container::Packed(_) => formats::find_packed_importer(path).map(rank_of),
            Container::Tar | Container::Zip => Some(Rank::Archive),
        };
        all.extend(found.map(candidate));
        return;
    }
    // The folder of the archive itself may hold files of other recordings too.
    if find_importer(path).is_some() || depth > 0 && is_packed_recording(path) {
        all.push(candidate(Rank::Recording));
        return;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        collect(&path, depth + 1, all);
    }
}

fn rank_of(importer: &Importer) -> Rank {
    match importer.is_companion {
        true => Rank::KernelLog,
        false => Rank::Recording,
    }
}

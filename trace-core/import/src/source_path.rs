//! What the user names: a path, `-` for standard input, a packed file, an archive or a member of one
//! (`FILE.tar.gz:inner/log.txt`). Everything becomes a path that an importer can read.

use super::OpenedRecording;
use super::archive::{self, Container, detect_container};
use super::candidates::find_candidates;
use super::error::{FilePosition, ImportError};
use super::file_description::{is_text, list_names};
use super::formats::{find_importer, find_packed_importer, importer_parts};
use super::packed_folder::{self, UnpackedFiles};
use super::packing::{Packing, strip_ending};
use super::unpacked_file::{copy_to_file, packing_of, read_head, unpacked};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// The path that stands for standard input.
const STANDARD_INPUT: &str = "-";
/// Maximum number of archives and packed files in each other.
const MAX_NESTED: usize = 4;

/// A path that an importer can read, and what the user calls it.
pub(super) struct PreparedSource {
    /// What an importer reads.
    pub(super) path: PathBuf,
    /// What the user named, with the chosen member.
    shown: PathBuf,
    /// Temporary folders, with what the user calls their content.
    folders: Vec<TemporaryFolder>,
    findings: Vec<Finding>,
}

/// A temporary folder, and what the user calls its content.
struct TemporaryFolder {
    folder: Arc<TempDir>,
    shown: PathBuf,
    /// Whether the content is that of an archive: its members come after a colon.
    is_archive: bool,
}

impl PreparedSource {
    fn plain(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            shown: path.to_owned(),
            folders: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Returns the temporary folder that the path lies in, if there is one.
    pub(super) fn folder(&self) -> Option<&Arc<TempDir>> {
        self.folders.last().map(|f| &f.folder)
    }

    /// Adds a temporary folder with the content of a folder that the user calls `shown`.
    fn take(&mut self, unpacked: UnpackedFiles, shown: PathBuf) {
        self.findings.extend(unpacked.findings);
        self.folders.push(TemporaryFolder {
            folder: Arc::new(unpacked.folder),
            shown,
            is_archive: false,
        });
    }

    /// Returns an error with the names that the user knows.
    pub(super) fn rename(&self, error: ImportError) -> ImportError {
        match self.folders.is_empty() {
            true => error,
            false => error.with_paths(|path| self.name_of(path), |text| self.rename_text(text)),
        }
    }

    /// Returns what the user calls a path.
    fn name_of(&self, path: &Path) -> PathBuf {
        if path == self.path {
            return self.shown.clone();
        }
        let inside = |f: &TemporaryFolder| {
            let member = path.strip_prefix(f.folder.path()).ok()?;
            Some(match f.is_archive {
                true => member_name(&f.shown, member),
                false => f.shown.join(member),
            })
        };
        self.folders
            .iter()
            .rev()
            .find_map(inside)
            .unwrap_or_else(|| path.to_owned())
    }

    /// Replaces paths of temporary folders in a text.
    fn rename_text(&self, text: &str) -> String {
        let mut text = text.replace(&*self.path.to_string_lossy(), &self.shown.to_string_lossy());
        for f in &self.folders {
            let from = format!("{}/", f.folder.path().display());
            let separator = if f.is_archive { ':' } else { '/' };
            text = text.replace(&from, &format!("{}{separator}", f.shown.display()));
        }
        text
    }

    /// Adds the findings of the unpacking to a recording, and gives its other findings the names that the user knows.
    pub(super) fn complete(&self, recording: &mut Recording) {
        if self.folders.is_empty() {
            return;
        }
        let findings = &mut recording.metadata.findings;
        for finding in findings.iter_mut() {
            finding.place = self.rename_text(&finding.place);
            finding.message = self.rename_text(&finding.message);
        }
        findings.extend(self.findings.iter().cloned());
    }

    /// Same as [`PreparedSource::complete`], for an opened recording.
    pub(super) fn complete_opened(&self, opened: &mut OpenedRecording) {
        self.complete(&mut opened.recording);
    }
}

/// Returns the name of a member of an archive, for users.
fn member_name(archive: &Path, member: &Path) -> PathBuf {
    let mut name = archive.as_os_str().to_owned();
    if !member.as_os_str().is_empty() {
        name.push(":");
        name.push(member.as_os_str());
    }
    name.into()
}

/// Splits `FILE:MEMBER` at the first colon before which there is a file. Returns `None` if there is none, or the path
/// exists as it is.
pub(super) fn split_member(path: &Path) -> Option<(PathBuf, PathBuf)> {
    if path.exists() {
        return None;
    }
    let bytes = path.as_os_str().as_bytes();
    let os = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
    memchr::memchr_iter(b':', bytes).find_map(|at| {
        let (file, member) = (os(bytes.get(..at)?), os(bytes.get(at + 1..)?));
        (file.is_file() && !member.as_os_str().is_empty()).then_some((file, member))
    })
}

/// Prepares what the user named for an importer. `is_raw` says that the user gave the format, so that any one file will
/// do.
///
/// # Errors
///
/// When nothing is there, an archive has no recording, or several, or lacks the named member, files exceed the limits of
/// `progress`, are nested too deeply, or the work was cancelled.
pub(super) fn prepare(path: &Path, is_raw: bool, progress: &Progress) -> Result<PreparedSource, ImportError> {
    let (mut source, mut member) = match split_member(path) {
        Some((file, member)) => (PreparedSource::plain(&file), Some(member)),
        None => (PreparedSource::plain(path), None),
    };
    if path == Path::new(STANDARD_INPUT) && !path.exists() {
        source = read_standard_input(progress)?;
    }
    std::fs::metadata(&source.path).map_err(|e| ImportError::io(path, e))?;
    for _ in 0..MAX_NESTED {
        let container = detect_container(&source.path);
        match container {
            Container::None => {
                if !is_raw {
                    unpack_siblings(&mut source, progress)?;
                }
                return check_member(source, member);
            }
            Container::Packed(_) => {
                let is_streamed = !is_raw && find_importer(&source.path).is_some();
                if is_streamed {
                    return check_member(source, member);
                }
                if !is_raw && find_packed_importer(&source.path).is_none() {
                    let error = ImportError::Unknown {
                        path: source.shown.clone(),
                        what: describe_packed(&source.path),
                    };
                    return Err(error);
                }
                let origin = source.path.parent().map(Path::to_owned);
                unpack_file(&mut source, progress)?;
                if !is_raw && let Some(origin) = origin {
                    unpack_parts(&mut source, &origin, progress)?;
                }
            }
            Container::Tar | Container::Zip => {
                let unpacked = archive::unpack(&source.path, container, progress).map_err(|e| source.rename(e))?;
                source.findings.extend(unpacked.findings);
                let folder = unpacked.folder;
                let chosen = choose(&source, folder.path(), member.take(), is_raw)?;
                source.folders.push(TemporaryFolder {
                    folder: Arc::new(folder),
                    shown: source.shown.clone(),
                    is_archive: true,
                });
                let rest = chosen.rest;
                source.shown = source.name_of(&chosen.path);
                source.path = chosen.path;
                source.findings.extend(chosen.finding);
                member = rest;
            }
        }
    }
    if detect_container(&source.path) != Container::None {
        let message = format!("more than {MAX_NESTED} archives are in each other; unpack the outer ones");
        return Err(ImportError::malformed(&source.shown, FilePosition::Whole, message));
    }
    check_member(source, member)
}

/// Refuses the name of a member of a file that is no archive.
fn check_member(source: PreparedSource, member: Option<PathBuf>) -> Result<PreparedSource, ImportError> {
    match member {
        Some(member) => {
            let message = format!("the file is no archive, so it has no member {}", member.display());
            Err(ImportError::malformed(&source.shown, FilePosition::Whole, message))
        }
        None => Ok(source),
    }
}

/// A chosen member.
struct Chosen {
    path: PathBuf,
    /// The rest of the user's name: a member of the member.
    rest: Option<PathBuf>,
    finding: Option<Finding>,
}

/// Chooses the member of an unpacked archive.
fn choose(
    source: &PreparedSource,
    folder: &Path,
    member: Option<PathBuf>,
    is_raw: bool,
) -> Result<Chosen, ImportError> {
    let relative = |path: &Path| path.strip_prefix(folder).unwrap_or(path).to_owned();
    let files = list_files(folder);
    if let Some(member) = member {
        let (name, rest) = match split_member(&folder.join(&member)) {
            Some((file, rest)) => (file, Some(rest)),
            None => (folder.join(&member), None),
        };
        let is_inside = member
            .components()
            .all(|c| matches!(c, std::path::Component::Normal(_)));
        if !is_inside || !name.exists() {
            let names: Vec<PathBuf> = files.iter().map(|f| relative(f)).collect();
            let message = format!(
                "the archive has no member {}; it has {}",
                member.display(),
                list_names(&names)
            );
            let named = member_name(&source.shown, &member);
            return Err(ImportError::malformed(&named, FilePosition::Whole, message));
        }
        return Ok(Chosen {
            path: name,
            rest,
            finding: None,
        });
    }
    let candidates = match is_raw {
        true => files.clone(),
        false => find_candidates(folder).into_iter().map(|c| c.path).collect(),
    };
    match candidates.as_slice() {
        [] => {
            let names: Vec<PathBuf> = files.iter().map(|f| relative(f)).collect();
            let what = match names.is_empty() {
                true => "an archive without files".to_owned(),
                false => format!("an archive without a recording: it holds {}", list_names(&names)),
            };
            Err(ImportError::Unknown {
                path: source.shown.clone(),
                what,
            })
        }
        [one] => {
            let read = importer_parts(one);
            let unused = files
                .iter()
                .filter(|f| !f.starts_with(one) && !read.contains(f))
                .map(|f| relative(f))
                .collect::<Vec<_>>();
            let finding = (!unused.is_empty()).then(|| {
                let message = format!(
                    "{} is opened; other members of the archive are not used: {}",
                    relative(one).display(),
                    list_names(&unused)
                );
                Finding::new(FindingKind::NotUsed, "archive", message)
            });
            Ok(Chosen {
                path: one.clone(),
                rest: None,
                finding,
            })
        }
        several => Err(ImportError::Several {
            path: source.shown.clone(),
            members: several
                .iter()
                .map(|p| member_name(&source.shown, &relative(p)))
                .collect(),
        }),
    }
}

/// Returns the members of an archive that can be opened, as the user names them; empty if it is none.
pub(super) fn members_of(path: &Path, progress: &Progress) -> Vec<PathBuf> {
    match prepare(path, false, progress) {
        Err(ImportError::Several { members, .. }) => members,
        Ok(source) if !source.folders.is_empty() => vec![source.shown],
        _ => Vec::new(),
    }
}

fn list_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    files
}

/// Describes a packed file whose content is no recording.
fn describe_packed(path: &Path) -> String {
    let packing = File::open(path).ok().as_ref().and_then(packing_of);
    let program = packing.map_or("a packer", Packing::program);
    let content = match read_head(path, 1 << 12) {
        Ok(head) if head.is_empty() => "nothing that can be unpacked".to_owned(),
        Ok(head) if is_text(&head) => "text".to_owned(),
        _ => "data that is not text".to_owned(),
    };
    format!("a file packed by {program} that holds {content}, and no importer knows it")
}

/// Reads standard input into a temporary file.
fn read_standard_input(progress: &Progress) -> Result<PreparedSource, ImportError> {
    let shown = Path::new(STANDARD_INPUT);
    let io = |e| ImportError::io(shown, e);
    let folder = tempfile::Builder::new().prefix("kinescope-").tempdir().map_err(io)?;
    let path = folder.path().join("standard-input");
    let limited = super::decompress::LimitedReader::new(io::stdin().lock(), progress);
    copy_to_file(limited, &path, |_| Ok(()), progress)
        .map_err(|e| e.with_paths(|_| shown.to_owned(), str::to_owned))?;
    Ok(PreparedSource {
        path,
        shown: shown.to_owned(),
        folders: vec![TemporaryFolder {
            folder: Arc::new(folder),
            shown: shown.to_owned(),
            is_archive: true,
        }],
        findings: Vec::new(),
    })
}

/// Unpacks a packed file into a temporary one of the same name without the ending of the packing. A cut file is unpacked
/// as far as it goes.
fn unpack_file(source: &mut PreparedSource, progress: &Progress) -> Result<(), ImportError> {
    let io = |e| ImportError::io(&source.shown, e);
    let folder = tempfile::Builder::new().prefix("kinescope-").tempdir().map_err(io)?;
    let name = source.path.file_name().unwrap_or_default().to_string_lossy();
    let path = folder.path().join(strip_ending(&name));
    let file = File::open(&source.path).map_err(io)?;
    progress.set_total(file.metadata().map_err(io)?.len().max(1));
    let read = Arc::new(AtomicU64::new(0));
    let mut reported = 0;
    let advance = |_| {
        let now = read.load(Ordering::Relaxed);
        let result = progress.advance(now.saturating_sub(reported));
        reported = now;
        result.map_err(ImportError::from)
    };
    let from = unpacked(file, &read, progress);
    let damage = copy_to_file(from, &path, advance, progress)
        .map_err(|e| e.with_paths(|_| source.shown.clone(), str::to_owned))?;
    if let Some(damage) = damage {
        let at = read.load(Ordering::Relaxed);
        let message = format!("the packed file cannot be decompressed further ({damage}); the part before it was used");
        let finding = Finding::new(FindingKind::TruncatedSection, format!("byte {at:#x}"), message);
        source.findings.push(finding);
    }
    source.folders.push(TemporaryFolder {
        folder: Arc::new(folder),
        shown: source.shown.clone(),
        is_archive: true,
    });
    source.path = path;
    Ok(())
}

/// Unpacks the files of a folder, or those next to a file, that its importer reads and that are packed one by one.
fn unpack_siblings(source: &mut PreparedSource, progress: &Progress) -> Result<(), ImportError> {
    let path = source.path.clone();
    if path.is_dir() {
        let is_known = find_importer(&path).is_some();
        let has_packed = match is_known {
            true => packed_folder::has_packed_parts(&path),
            false => packed_folder::is_packed_recording(&path),
        };
        if has_packed {
            let unpacked = packed_folder::unpack_folder(&path, progress).map_err(|e| source.rename(e))?;
            source.path = unpacked.folder.path().to_owned();
            source.take(unpacked, source.shown.clone());
        }
        return Ok(());
    }
    match path.parent() {
        Some(folder) => unpack_parts(source, folder, progress),
        None => Ok(()),
    }
}

/// Unpacks the files that the importer of the source reads besides it, from the folder `origin`.
fn unpack_parts(source: &mut PreparedSource, origin: &Path, progress: &Progress) -> Result<(), ImportError> {
    let found = packed_folder::unpack_parts(&source.path, origin, progress).map_err(|e| source.rename(e))?;
    if let Some((unpacked, path)) = found {
        source.path = path;
        let shown = source.name_of(origin);
        source.take(unpacked, shown);
    }
    Ok(())
}

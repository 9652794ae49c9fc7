//! The unpacking of an archive into a temporary folder, up to the limits of unpacked files.

use super::{Container, MAX_MEMBERS, tar, zip};
use crate::decompress::LimitedReader;
use crate::error::ImportError;
use crate::unpack_limit::is_over_limit;
use crate::unpacked_file::{is_damage, unpacked};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;

/// Size of a copied piece, bytes.
const PIECE_BYTES: usize = 1 << 18;
/// Maximum number of members that a finding names.
const MAX_NAMED: usize = 8;

/// An archive in a temporary folder.
pub(crate) struct UnpackedArchive {
    pub(crate) folder: TempDir,
    /// What could not be unpacked.
    pub(crate) findings: Vec<Finding>,
}

/// Names of members of one kind, and their number.
#[derive(Default)]
struct Names {
    first: Vec<String>,
    count: u64,
}

impl Names {
    fn add(&mut self, name: impl Into<String>) {
        self.count += 1;
        if self.first.len() < MAX_NAMED {
            self.first.push(name.into());
        }
    }

    /// Adds a finding if there are any.
    fn report(&self, kind: FindingKind, message: &str, findings: &mut Vec<Finding>) {
        if self.count > 0 {
            let more = if self.count > self.first.len() as u64 {
                ", ..."
            } else {
                ""
            };
            let names = self.first.join(", ");
            let message = format!("{} {message}: {names}{more}", self.count);
            findings.push(Finding::new(kind, "archive", message));
        }
    }
}

/// Unpacks an archive.
///
/// # Errors
///
/// When the file cannot be read, the folder cannot be written, the members exceed the limits of `progress` together, or
/// the work was cancelled. A cut archive gives the members before its end, and a finding.
pub(crate) fn unpack(path: &Path, container: Container, progress: &Progress) -> Result<UnpackedArchive, ImportError> {
    let io = |e| ImportError::io(path, e);
    let folder = tempfile::Builder::new().prefix("kinescope-").tempdir().map_err(io)?;
    let file = File::open(path).map_err(io)?;
    progress.set_total(file.metadata().map_err(io)?.len().max(1));
    let mut work = Unpacking {
        path,
        folder: folder.path(),
        progress,
        members: 0,
        refused: Names::default(),
        cut: Names::default(),
        beyond: 0,
    };
    let damage = match container {
        Container::Zip => work.unpack_zip(file)?,
        _ => work.unpack_tar(file)?,
    };
    let mut findings = Vec::new();
    if let Some(damage) = damage {
        let message = format!("the archive is read as far as it goes: {damage}");
        findings.push(Finding::new(FindingKind::TruncatedSection, "archive", message));
    }
    let cut = "members end early or are damaged, and are read as far as they go";
    work.cut.report(FindingKind::TruncatedSection, cut, &mut findings);
    let refused =
        "members are links, devices or sparse files, or their names lead out of the archive; they are not used";
    work.refused.report(FindingKind::NotUsed, refused, &mut findings);
    if work.beyond > 0 {
        let message = format!(
            "{} members are not used: there are more than {MAX_MEMBERS}",
            work.beyond
        );
        findings.push(Finding::new(FindingKind::NotUsed, "archive", message));
    }
    Ok(UnpackedArchive { folder, findings })
}

struct Unpacking<'a> {
    path: &'a Path,
    folder: &'a Path,
    progress: &'a Progress,
    members: usize,
    refused: Names,
    cut: Names,
    beyond: u64,
}

impl Unpacking<'_> {
    fn unpack_tar(&mut self, file: File) -> Result<Option<String>, ImportError> {
        let read = Arc::new(AtomicU64::new(0));
        let mut from = unpacked(file, &read, self.progress);
        let path = self.path.to_owned();
        let mut reported = 0;
        let end = tar::read_members(
            &mut from,
            is_damage,
            |member, content| {
                let now = read.load(Ordering::Relaxed);
                self.progress.advance(now.saturating_sub(reported))?;
                reported = now;
                if !member.is_file {
                    if !member.name.ends_with('/') {
                        self.refused.add(&*member.name);
                    }
                    return Ok(());
                }
                match &member.path {
                    Some(to) if self.has_room() => self.write(&member.name, to, content, Some(member.bytes)),
                    Some(_) => Ok(()),
                    None => {
                        self.refused.add(&*member.name);
                        Ok(())
                    }
                }
            },
            |e| ImportError::io(&path, e),
        )?;
        Ok(match end {
            tar::End::Whole => None,
            tar::End::Cut(why) => Some(why),
        })
    }

    fn unpack_zip(&mut self, file: File) -> Result<Option<String>, ImportError> {
        let io = |e| ImportError::io(self.path, e);
        let directory = zip::read_directory(&file, MAX_MEMBERS).map_err(io)?;
        let file = Arc::new(file);
        // All members together count against the limit.
        let left = Progress::new();
        let mut room = self.progress.unpack_limit();
        for member in directory.members.iter().filter(|m| !m.is_folder()) {
            let Some(to) = &member.path else {
                self.refused.add(&*member.name);
                continue;
            };
            if !self.has_room() {
                continue;
            }
            let content = match member.open(&file) {
                Ok(content) => content,
                Err(e) if is_damage(&e) => {
                    self.refused.add(format!("{} ({e})", member.name));
                    continue;
                }
                Err(e) => return Err(ImportError::io(self.path, e)),
            };
            left.limit_unpacked(room.max(1));
            let mut limited = LimitedReader::new(content, &left);
            let written = self.write(&member.name, to, &mut limited, None);
            written.map_err(|e| match e {
                ImportError::OverLimit { path, what, .. } => ImportError::OverLimit {
                    path,
                    what,
                    limit: self.progress.unpack_limit(),
                },
                e => e,
            })?;
            let bytes = self.folder.join(to).metadata().map_or(0, |m| m.len());
            room = room.saturating_sub(bytes);
        }
        Ok(directory.damage)
    }

    fn has_room(&mut self) -> bool {
        let fits = self.members < MAX_MEMBERS;
        self.members += usize::from(fits);
        self.beyond += u64::from(!fits);
        fits
    }

    /// Writes a member. If the content ends early, what is there is written.
    fn write(&mut self, name: &str, to: &Path, content: &mut dyn Read, bytes: Option<u64>) -> Result<(), ImportError> {
        let to = self.folder.join(to);
        let created = to.parent().map_or(Ok(()), std::fs::create_dir_all);
        let Ok(file) = created.and_then(|()| File::create(&to)) else {
            // A name that is a file here and a folder there.
            self.refused.add(name);
            return Ok(());
        };
        let mut file = BufWriter::new(file);
        let mut piece = vec![0; PIECE_BYTES];
        let mut written = 0u64;
        loop {
            let read = match content.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if is_damage(&e) && !is_over_limit(&e) => {
                    self.cut.add(name);
                    break;
                }
                Err(e) => return Err(ImportError::io(self.path, e)),
            };
            let part = piece.get(..read).unwrap_or_default();
            file.write_all(part).map_err(|e| ImportError::io(&to, e))?;
            written += read as u64;
            self.progress.check()?;
        }
        file.flush().map_err(|e| ImportError::io(&to, e))?;
        if bytes.is_some_and(|bytes| written < bytes) && !self.cut.first.iter().any(|n| n == name) {
            self.cut.add(name);
        }
        Ok(())
    }
}

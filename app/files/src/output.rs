//! Files that a person names to be written: that none is something else that was named, what may be one, and how it is
//! written.
//!
//! A regular file is replaced as a whole or not at all, and a link is followed to the file that it names. Into a
//! device, a pipe, or a file that this program has open already (`/dev/stdout`) bytes are written where it stands:
//! nothing takes its place.

use crate::pipe_writer::PipeWriter;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use trace_core::unfinished_files;

/// What the name of a file that is being written begins and ends with.
const UNFINISHED: (&str, &str) = (".kinescope-", ".tmp");

/// Links that are followed one after another, as many as Linux follows.
const MAX_LINKS: usize = 40;

/// Why something cannot be written where a person wants it.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The same file was named twice, and one of the two is to be written.
    #[error("{}: {what} names the same file as {other}, {}; give it a file of its own", path.display(), other_path.display())]
    Taken {
        /// The file to write.
        path: PathBuf,
        /// What it is to hold, as the person asked for it: `-o`.
        what: String,
        /// What the other one is: `the recording`.
        other: String,
        /// The other one's path, as it was given.
        other_path: PathBuf,
    },
    /// It is nothing that bytes can be written to.
    #[error("{}: {what}", path.display())]
    Kind {
        /// The file to write.
        path: PathBuf,
        /// What it is, and what was expected.
        what: &'static str,
    },
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file to write, as the person named it.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A file that a person named, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// What it is, in words that a sentence can go on from: `the recording`, `--input weights`.
    pub role: String,
    /// The path as it was given.
    pub path: PathBuf,
}

impl NamedFile {
    /// A file under what it is for.
    #[must_use]
    pub fn new(what: impl Into<String>, path: &Path) -> Self {
        Self {
            role: what.into(),
            path: path.to_owned(),
        }
    }

    /// A recording that is read, the parts that it lies in, and what a person keeps beside it.
    #[must_use]
    pub fn recording(path: &Path) -> Vec<Self> {
        let mut all = vec![Self::new("the recording", path)];
        let part = |p: PathBuf| Self::new("a part of the recording", &p);
        all.extend(trace_core::import::parts(path).into_iter().map(part));
        all.push(Self::new("the edits of the recording", &crate::journal::path_for(path)));
        all
    }
}

/// Where the bytes of an output go.
#[derive(Debug, PartialEq, Eq)]
enum Destination {
    /// To a regular file of this path, which is there or will be; no link.
    File(PathBuf),
    /// To whatever stands there, which stays.
    Stream,
}

/// What tells one file from another.
#[derive(Debug, PartialEq, Eq)]
enum Identity {
    /// Device and inode of one that is there.
    Existing(u64, u64),
    /// The path of one that is not there yet, its folder without links.
    New(PathBuf),
}

/// Follows links to what a path names: where that is, and what is known of it when it is there.
fn follow(path: &Path) -> io::Result<(PathBuf, Option<Metadata>)> {
    let mut at = path.to_owned();
    for _ in 0..MAX_LINKS {
        let folder = match at.parent() {
            Some(p) if !p.as_os_str().is_empty() => p.canonicalize()?,
            Some(_) => Path::new(".").canonicalize()?,
            // The root itself.
            None => return Ok((at.clone(), Some(fs::metadata(&at)?))),
        };
        let Some(name) = at.file_name() else {
            // `..` at the end: a folder.
            let at = at.canonicalize()?;
            let known = fs::metadata(&at)?;
            return Ok((at, Some(known)));
        };
        at = folder.join(name);
        let known = match fs::symlink_metadata(&at) {
            Ok(known) => known,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((at, None)),
            Err(e) => return Err(e),
        };
        // What this process has open: the link is not a name but the open file.
        if !known.is_symlink() || is_open_file(&at) {
            let known = fs::metadata(&at)?;
            return Ok((at, Some(known)));
        }
        at = folder.join(fs::read_link(&at)?);
    }
    Err(io::Error::other("too many links follow one another"))
}

/// Whether a path is one of the links of `/proc/PID/fd`.
fn is_open_file(at: &Path) -> bool {
    at.starts_with("/proc") && at.parent().and_then(Path::file_name).is_some_and(|n| n == "fd")
}

fn identity(path: &Path) -> Option<Identity> {
    let (at, known) = follow(path).ok()?;
    Some(match known {
        Some(known) => Identity::Existing(known.dev(), known.ino()),
        None => Identity::New(at),
    })
}

/// Whether two paths name the same file, or would when it is there.
#[must_use]
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    identity(a).is_some_and(|a| Some(a) == identity(b))
}

/// Whether nothing there can be lost by writing: a terminal, `/dev/null`.
fn holds_nothing(path: &Path) -> bool {
    follow(path).is_ok_and(|(_, known)| known.is_some_and(|k| k.file_type().is_char_device()))
}

/// Refuses files to write that are one of those that are read, or one another, under whatever name.
///
/// # Errors
/// [`OutputError::Taken`], with both named.
pub fn check_distinct(read: &[NamedFile], written: &[NamedFile]) -> Result<(), OutputError> {
    for (n, one) in written.iter().enumerate() {
        let mut others = read.iter().chain(written.get(..n).unwrap_or_default());
        let taken = others.find(|other| is_same_file(&one.path, &other.path));
        if let Some(other) = taken.filter(|_| !holds_nothing(&one.path)) {
            return Err(OutputError::Taken {
                path: one.path.clone(),
                what: one.role.clone(),
                other: other.role.clone(),
                other_path: other.path.clone(),
            });
        }
    }
    Ok(())
}

fn place(path: &Path) -> Result<Destination, OutputError> {
    let io = |source| OutputError::Io {
        path: path.to_owned(),
        source,
    };
    let kind = |what| OutputError::Kind {
        path: path.to_owned(),
        what,
    };
    if path.file_name().is_none() && !path.is_dir() {
        return Err(kind("is not the name of a file"));
    }
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty());
    if folder.is_some_and(|f| !f.is_dir()) {
        return Err(kind("its folder does not exist"));
    }
    let (at, known) = follow(path).map_err(io)?;
    let Some(known) = known else {
        return Ok(Destination::File(at));
    };
    let t = known.file_type();
    if t.is_dir() {
        Err(kind("is a folder (expected the name of a file)"))
    } else if t.is_block_device() {
        Err(kind("is a disk (expected the name of a file)"))
    } else if t.is_socket() {
        Err(kind("is a socket (expected the name of a file)"))
    } else if t.is_fifo() || t.is_char_device() || is_open_file(&at) {
        Ok(Destination::Stream)
    } else if known.permissions().readonly() {
        Err(kind("may not be written (it is read-only)"))
    } else {
        Ok(Destination::File(at))
    }
}

/// Whether a file could be written, asked before the work whose result it is to hold: that it is nothing that must
/// stay, and that its folder takes new files. Nothing is left behind.
///
/// # Errors
/// When it could not be written.
pub fn check_writable(path: &Path) -> Result<(), OutputError> {
    match place(path)? {
        Destination::Stream => Ok(()),
        Destination::File(at) => {
            let io = |source| OutputError::Io {
                path: path.to_owned(),
                source,
            };
            if let Some(folder) = at.parent() {
                unfinished_files::remove(folder, writer_of);
            }
            let (beside, file) = create_temp_file(&at).map_err(io)?;
            drop(file);
            fs::remove_file(beside).map_err(io)
        }
    }
}

/// As [`ready`], for a format that is not written from its first byte to its last: gives the path of the regular file
/// that is to be replaced or made, links followed.
///
/// # Errors
/// As [`ready`], and when it is a device or a pipe.
pub fn check_writable_whole(path: &Path) -> Result<PathBuf, OutputError> {
    check_writable(path)?;
    match place(path)? {
        Destination::File(at) => Ok(at),
        Destination::Stream => Err(OutputError::Kind {
            path: path.to_owned(),
            what: "is a pipe or a device, and a .kine is not written from its first byte to its last (expected the \
                   name of a file)",
        }),
    }
}

/// Returns the process that writes a file of this name, where it is one that [`beside`] makes.
fn writer_of(name: &str) -> Option<u32> {
    unfinished_files::parse_process_id(name.strip_prefix(UNFINISHED.0)?.strip_suffix(UNFINISHED.1)?)
}

/// A new file in the folder of another, locked, so that it can be renamed. Its name does not grow with the other's.
fn create_temp_file(at: &Path) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let (begin, end) = UNFINISHED;
    let beside = at.with_file_name(format!("{begin}{}-{count}{end}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
    // Where the file system has no locks, the number of this process has to do.
    let _ = file.try_lock();
    Ok((beside, file))
}

/// Writes a file. What was there before stays until the new bytes are safe.
///
/// # Errors
/// When it cannot be written; a regular file is then as it was.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    write_with(path, |to| {
        to.write_all(bytes).map_err(|source| OutputError::Io {
            path: path.to_owned(),
            source,
        })
    })
}

/// As [`write`], with what `fill` writes, from the first byte to the last.
///
/// # Errors
/// As [`write`], and what `fill` says.
pub fn write_with<E: From<OutputError>>(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let io = |source| OutputError::Io {
        path: path.to_owned(),
        source,
    };
    let at = match place(path)? {
        Destination::File(at) => at,
        Destination::Stream => {
            // A reader that does not read keeps nobody from ending this program.
            let mut to = BufWriter::new(open_through(path).map_err(io)?);
            fill(&mut to)?;
            return Ok(to.flush().map_err(io)?);
        }
    };
    let (beside, file) = create_temp_file(&at).map_err(io)?;
    let written = || -> Result<(), E> {
        let mut to = BufWriter::new(file);
        fill(&mut to)?;
        let file = to.into_inner().map_err(|e| io(e.into_error()))?;
        // Who may read the file stays as it was.
        if let Ok(before) = fs::metadata(&at) {
            file.set_permissions(before.permissions()).map_err(io)?;
        }
        file.sync_all().map_err(io)?;
        Ok(fs::rename(&beside, &at).map_err(io)?)
    }();
    if written.is_err() {
        // The failure to tell is the first one.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Opens what stands there. Standard output and error are the open files themselves: opened anew, a regular file behind
/// them would be written from its begin.
fn open_through(path: &Path) -> io::Result<PipeWriter> {
    let (at, _) = follow(path)?;
    let own = |fd: &str| is_open_file(&at) && at.file_name().is_some_and(|n| n == fd);
    if own("1") {
        return Ok(PipeWriter::from_file(io::stdout().as_fd().try_clone_to_owned()?.into()));
    }
    if own("2") {
        return Ok(PipeWriter::from_file(io::stderr().as_fd().try_clone_to_owned()?.into()));
    }
    PipeWriter::open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_the_same_under_every_name_and_also_when_it_is_not_there_yet() {
        let dir = tempfile::tempdir().unwrap();
        let at = |n: &str| dir.path().join(n);
        fs::write(at("a"), "a").unwrap();
        fs::hard_link(at("a"), at("hard")).unwrap();
        symlink("a", at("soft")).unwrap();
        symlink("new", at("dangling")).unwrap();
        symlink("round", at("round")).unwrap();
        fs::create_dir(at("sub")).unwrap();
        for other in ["a", "hard", "soft", "sub/../a", "./a"] {
            assert!(is_same_file(&at("a"), &at(other)), "{other}");
        }
        assert!(is_same_file(&at("new"), &at("dangling")) && is_same_file(&at("new"), &at("sub/../new")));
        for (a, b) in [("a", "new"), ("new", "newer"), ("round", "round"), ("none/x", "none/x")] {
            assert!(!is_same_file(&at(a), &at(b)), "{a} {b}");
        }
    }

    #[test]
    fn outputs_are_told_from_what_is_read_and_from_one_another() {
        let dir = tempfile::tempdir().unwrap();
        let (x, y) = (dir.path().join("x"), dir.path().join("y"));
        fs::write(&x, "x").unwrap();
        let read = [NamedFile::new("the recording", &x)];
        let out = |p: &Path| NamedFile::new("-o", p);
        assert!(check_distinct(&read, &[out(&y), NamedFile::new("--output a", &dir.path().join("z"))]).is_ok());
        let report = check_distinct(&read, &[out(&y), out(&x)]).unwrap_err().to_string();
        let x = x.display();
        assert_eq!(
            report,
            format!("{x}: -o names the same file as the recording, {x}; give it a file of its own")
        );
        let twice = check_distinct(&read, &[NamedFile::new("--output a", &y), out(&y)])
            .unwrap_err()
            .to_string();
        assert!(twice.contains("-o names the same file as --output a"), "{twice}");
        let null = Path::new("/dev/null");
        assert!(check_distinct(&[], &[out(null), out(null)]).is_ok(), "holds nothing");
    }

    #[test]
    fn a_link_is_followed_and_rights_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "before").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        symlink("file", &link).unwrap();
        write(&link, b"after").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"after");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(check_writable_whole(&link).unwrap(), file.canonicalize().unwrap());
        assert_eq!(names(dir.path()), ["file", "link"]);
    }

    #[test]
    fn what_fails_leaves_the_file_as_it_was_and_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "before").unwrap();
        let failed = write_with(&file, |to| {
            to.write_all(b"half").unwrap();
            Err(OutputError::Kind {
                path: "x".into(),
                what: "no more",
            })
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&file).unwrap(), b"before");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
        for e in [check_writable(&file), write(&file, b"after")] {
            assert!(
                e.unwrap_err()
                    .to_string()
                    .ends_with("file: may not be written (it is read-only)")
            );
        }
        assert!(
            check_writable(dir.path())
                .unwrap_err()
                .to_string()
                .contains("is a folder")
        );
        assert!(
            check_writable(&dir.path().join("no/x"))
                .unwrap_err()
                .to_string()
                .contains("its folder does not exist")
        );
        // What a program left that was killed goes with the next one that writes there.
        let gone = {
            let mut child = std::process::Command::new("true").spawn().unwrap();
            child.wait().unwrap();
            child.id()
        };
        for name in [format!(".kinescope-{gone}-3.tmp"), format!(".kinescope-{gone}.tmp")] {
            fs::write(dir.path().join(name), "half").unwrap();
        }
        check_writable(&dir.path().join("new")).unwrap();
        // A recorder's is another thing: it may hold a whole recording.
        let recorders = format!(".kinescope-{gone}.tmp");
        assert_eq!(names(dir.path()), [recorders.as_str(), "file"]);
        fs::remove_file(dir.path().join(recorders)).unwrap();
        assert!(
            check_writable(Path::new(""))
                .unwrap_err()
                .to_string()
                .contains("not the name")
        );
        check_writable(&dir.path().join("new")).unwrap();
        assert_eq!(names(dir.path()), ["file"]);
    }
}

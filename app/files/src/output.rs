//! Output files that the user names: the check that they are distinct and writable, and the writing itself.
//!
//! A regular file is replaced completely or not at all. A link is followed to its target. A device, a pipe, or a file
//! that this program already has open (`/dev/stdout`) is written in place and never replaced.

use crate::pipe_writer::PipeWriter;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use trace_core::unfinished_files;

/// Prefix and suffix of the name of a temporary file.
const UNFINISHED: (&str, &str) = (".kinescope-", ".tmp");

/// Maximum number of links followed one after another, the same as in Linux.
const MAX_LINKS: usize = 40;

/// Why an output cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The same file was named twice, and one of the two is an output.
    #[error("{}: {what} names the same file as {other}, {}; give each its own file", path.display(), other_path.display())]
    Taken {
        /// The file to write.
        path: PathBuf,
        /// Its role, as the user wrote it: `-o`.
        what: String,
        /// Role of the other file: `the recording`.
        other: String,
        /// Path of the other file, as given.
        other_path: PathBuf,
    },
    /// The path is not something that bytes can be written to.
    #[error("{}: {what}", path.display())]
    Kind {
        /// The file to write.
        path: PathBuf,
        /// What the path is, and what was expected.
        what: &'static str,
    },
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file to write, as the user named it.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
}

/// A file that the user named, with its role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Description of the role that fits into a sentence: `the recording`, `--input weights`.
    pub role: String,
    /// The path as given.
    pub path: PathBuf,
}

impl NamedFile {
    /// Creates a named file with this role.
    #[must_use]
    pub fn new(what: impl Into<String>, path: &Path) -> Self {
        Self {
            role: what.into(),
            path: path.to_owned(),
        }
    }

    /// Returns a recording that is read, its parts, and the files that the user keeps next to it.
    #[must_use]
    pub fn recording(path: &Path) -> Vec<Self> {
        let mut all = vec![Self::new("the recording", path)];
        let part = |p: PathBuf| Self::new("a part of the recording", &p);
        all.extend(trace_import::parts(path).into_iter().map(part));
        all.push(Self::new(
            "the edits of the recording",
            &crate::sibling_paths::path_for(path),
        ));
        all
    }
}

/// The destination of the bytes of an output.
#[derive(Debug, PartialEq, Eq)]
enum Destination {
    /// A regular file at this path, existing or new, not a link.
    File(PathBuf),
    /// An existing pipe, device or open file, which stays in place.
    Stream,
}

/// The identity of a file.
#[derive(Debug, PartialEq, Eq)]
enum Identity {
    /// Device and inode of an existing file.
    Existing(u64, u64),
    /// Path of a new file, with all links in its folder resolved.
    New(PathBuf),
}

/// Follows links to the target of a path. Returns the target path, and its metadata if it exists.
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
            // `..` at the end names a folder.
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
        // The link stands for a file that this process has open, not for a name.
        if !known.is_symlink() || is_open_file(&at) {
            let known = fs::metadata(&at)?;
            return Ok((at, Some(known)));
        }
        at = folder.join(fs::read_link(&at)?);
    }
    Err(io::Error::other("too many symbolic links follow one another"))
}

/// Whether a path is a link in `/proc/PID/fd`.
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

/// Whether two paths name the same file, existing or new.
#[must_use]
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    identity(a).is_some_and(|a| Some(a) == identity(b))
}

/// Whether writing to the path cannot lose data: a terminal, `/dev/null`.
fn holds_nothing(path: &Path) -> bool {
    follow(path).is_ok_and(|(_, known)| known.is_some_and(|k| k.file_type().is_char_device()))
}

/// Rejects outputs that are the same file as an input or another output, under any name.
///
/// # Errors
/// [`OutputError::Taken`] with both names.
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
        return Err(kind("is not a file name"));
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
        Err(kind("is a folder (expected a file name)"))
    } else if t.is_block_device() {
        Err(kind("is a disk (expected a file name)"))
    } else if t.is_socket() {
        Err(kind("is a socket (expected a file name)"))
    } else if t.is_fifo() || t.is_char_device() || is_open_file(&at) {
        Ok(Destination::Stream)
    } else if known.permissions().readonly() {
        Err(kind("cannot be written (it is read-only)"))
    } else {
        Ok(Destination::File(at))
    }
}

/// Checks that a file can be written, before the work that produces its contents starts. The path must not be a folder,
/// disk or socket, and its folder must accept new files. Leaves nothing behind.
///
/// # Errors
/// Returns an error if the file cannot be written.
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
            let (temporary, file) = create_temp_file(&at).map_err(io)?;
            drop(file);
            fs::remove_file(temporary).map_err(io)
        }
    }
}

/// Checks the path like [`check_writable`], for a format that is not written sequentially. Returns the path of the
/// regular file to replace or create, with links followed.
///
/// # Errors
/// The same as [`check_writable`]. Also returns an error if the path is a device or a pipe.
pub fn check_writable_whole(path: &Path) -> Result<PathBuf, OutputError> {
    check_writable(path)?;
    match place(path)? {
        Destination::File(at) => Ok(at),
        Destination::Stream => Err(OutputError::Kind {
            path: path.to_owned(),
            what: "is a pipe or a device, but a .kine file is not written sequentially (expected a file name)",
        }),
    }
}

/// Returns the process that writes a temporary file of this name, if it is a name of [`create_temp_file`].
fn writer_of(name: &str) -> Option<u32> {
    unfinished_files::parse_process_id(name.strip_prefix(UNFINISHED.0)?.strip_suffix(UNFINISHED.1)?)
}

/// Creates a locked temporary file in the folder of another file, so that it can be renamed. The length of its name
/// does not depend on the other name.
fn create_temp_file(at: &Path) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let (begin, end) = UNFINISHED;
    let temporary = at.with_file_name(format!("{begin}{}-{count}{end}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    // On file systems without locks, the process id in the name must suffice.
    let _ = file.try_lock();
    Ok((temporary, file))
}

/// Writes a file. The previous file stays until the new bytes are durable.
///
/// # Errors
/// Returns an error if the file cannot be written; a regular file is then unchanged.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    write_with(path, |to| {
        to.write_all(bytes).map_err(|source| OutputError::Io {
            path: path.to_owned(),
            source,
        })
    })
}

/// Writes a file like [`write`], with the bytes that `fill` writes sequentially.
///
/// # Errors
/// The same as [`write`], and the errors of `fill`.
pub fn write_with<E: From<OutputError>>(
    path: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), E>,
) -> Result<(), E> {
    let io = |source| OutputError::Io {
        path: path.to_owned(),
        source,
    };
    let at = match place(path)? {
        Destination::File(at) => at,
        Destination::Stream => {
            // A reader that does not read must not keep this program from ending.
            let mut to = BufWriter::new(open_through(path).map_err(io)?);
            fill(&mut to)?;
            return Ok(to.flush().map_err(io)?);
        }
    };
    let (temporary, file) = create_temp_file(&at).map_err(io)?;
    let written = || -> Result<(), E> {
        let mut to = BufWriter::new(file);
        fill(&mut to)?;
        let file = to.into_inner().map_err(|e| io(e.into_error()))?;
        // The permissions of the file stay the same.
        if let Ok(before) = fs::metadata(&at) {
            file.set_permissions(before.permissions()).map_err(io)?;
        }
        file.sync_all().map_err(io)?;
        Ok(fs::rename(&temporary, &at).map_err(io)?)
    }();
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Opens an existing device, pipe or open file. Standard output and error use the open files themselves: reopening them
/// would overwrite a redirected regular file from its start.
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
    fn output_identity_ignores_links_and_missing_files() {
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
    fn output_paths_must_differ_from_inputs_and_each_other() {
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
            format!("{x}: -o names the same file as the recording, {x}; give each its own file")
        );
        let twice = check_distinct(&read, &[NamedFile::new("--output a", &y), out(&y)])
            .unwrap_err()
            .to_string();
        assert!(twice.contains("-o names the same file as --output a"), "{twice}");
        let null = Path::new("/dev/null");
        assert!(
            check_distinct(&[], &[out(null), out(null)]).is_ok(),
            "/dev/null holds nothing"
        );
    }

    #[test]
    fn write_follows_symlink_and_keeps_permissions() {
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
    fn failed_writes_leave_the_old_file_and_no_temporary() {
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
                    .ends_with("file: cannot be written (it is read-only)")
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
        // The next program that writes there removes the temporary file of a killed program.
        let gone = {
            let mut child = std::process::Command::new("true").spawn().unwrap();
            child.wait().unwrap();
            child.id()
        };
        for name in [format!(".kinescope-{gone}-3.tmp"), format!(".kinescope-{gone}.tmp")] {
            fs::write(dir.path().join(name), "half").unwrap();
        }
        check_writable(&dir.path().join("new")).unwrap();
        // The temporary file of a recorder stays: it may hold a complete recording.
        let recorders = format!(".kinescope-{gone}.tmp");
        assert_eq!(names(dir.path()), [recorders.as_str(), "file"]);
        fs::remove_file(dir.path().join(recorders)).unwrap();
        assert!(
            check_writable(Path::new(""))
                .unwrap_err()
                .to_string()
                .contains("not a file name")
        );
        check_writable(&dir.path().join("new")).unwrap();
        assert_eq!(names(dir.path()), ["file"]);
    }
}

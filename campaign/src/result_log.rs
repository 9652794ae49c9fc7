//! The log of results: a file with a line for each result, which other processes follow while one has the queue open.
//!
//! The first line has the format's version and the id of the log. Each later line is an entry as JSON. A process that
//! opens the queue to run it writes a new log with a new id, and removes it at its end.

use crate::run::Run;
use crate::run_result::RunResult;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// Version of the format.
const VERSION: u32 = 1;
/// Maximum size of the first line, bytes.
const MAX_HEADER_BYTES: u64 = 256;
/// Maximum size of a line, bytes: twice that of a result in the queue, for the names of its work.
const MAX_LINE_BYTES: usize = 2 << 20;
/// Number of bytes that are read at once.
const CHUNK_BYTES: u64 = 4 << 20;

/// The first line.
#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    id: String,
}

/// A result, with what identifies its cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogEntry<'a> {
    /// Kind of work.
    pub kind: Cow<'a, str>,
    /// Name of the recording, pipeline or program.
    pub recording: Cow<'a, str>,
    /// Path of it.
    pub path: Cow<'a, Path>,
    /// Digest of it.
    pub digest: Cow<'a, str>,
    /// Options of the work, in words.
    pub options: Cow<'a, str>,
    /// Digest of the contents of all files of the work. Earlier versions do not write it.
    #[serde(default)]
    pub content_digest: Cow<'a, str>,
    /// Target of the description.
    pub target: Cow<'a, str>,
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// The result.
    pub result: Cow<'a, RunResult>,
}

impl<'a> LogEntry<'a> {
    /// Returns the entry of a result.
    pub fn new(run: &'a Run, result: &'a RunResult) -> Self {
        let recording = run.work.recording();
        Self {
            kind: run.work.kind().into(),
            recording: recording.name.as_str().into(),
            path: recording.path.as_path().into(),
            digest: recording.digest.as_str().into(),
            options: run.work.describe_options().into(),
            content_digest: run.work.content_digest().into(),
            target: run.target.as_str().into(),
            repeat: run.repeat,
            result: Cow::Borrowed(result),
        }
    }

    /// Parses a line without its end. The limit holds before anything is allocated.
    pub fn parse(line: &[u8]) -> Result<LogEntry<'static>, String> {
        if line.len() > MAX_LINE_BYTES {
            return Err(format!("{} bytes (at most {MAX_LINE_BYTES})", line.len()));
        }
        serde_json::from_slice(line).map_err(|e| e.to_string())
    }

    /// Returns the line with its end. Details that make it too long are left out.
    fn line(&self) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        if line.len() > MAX_LINE_BYTES {
            let mut short = self.clone();
            short.result.to_mut().details = None;
            line = serde_json::to_vec(&short)?;
        }
        line.push(b'\n');
        Ok(line)
    }
}

/// A log that is written.
#[derive(Debug)]
pub(crate) struct ResultLog {
    path: PathBuf,
    file: File,
}

impl ResultLog {
    /// Writes a new log with the entries that `fill` passes on. Readers see the old log or the new one.
    ///
    /// # Errors
    /// If `fill` fails, or the file cannot be written.
    pub fn create<E: From<io::Error>>(
        path: &Path,
        fill: impl FnOnce(&mut dyn FnMut(&LogEntry<'_>) -> io::Result<()>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let new = path.with_extension("log.new");
        let header = Header {
            version: VERSION,
            id: new_id(path),
        };
        let mut to = BufWriter::new(File::create(&new)?);
        let filled = (|| {
            serde_json::to_writer(&mut to, &header).map_err(io::Error::from)?;
            to.write_all(b"\n")?;
            fill(&mut |entry| to.write_all(&entry.line()?))?;
            let file = to.into_inner().map_err(io::IntoInnerError::into_error)?;
            fs::rename(&new, path)?;
            Ok(file)
        })();
        match filled {
            Ok(file) => Ok(Self {
                path: path.to_owned(),
                file,
            }),
            Err(e) => {
                let _ = fs::remove_file(&new);
                Err(e)
            }
        }
    }

    /// Appends an entry in one write.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn append(&mut self, entry: &LogEntry<'_>) -> io::Result<()> {
        self.file.write_all(&entry.line()?)
    }
}

impl Drop for ResultLog {
    /// The queue has every result, and is free now.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns an id that no other log has: it depends on its path, this process and the time.
pub(crate) fn new_id(path: &Path) -> String {
    let mut hasher = blake3::Hasher::new();
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    hasher.update(path.as_os_str().as_encoded_bytes());
    hasher.update(&std::process::id().to_le_bytes());
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    hasher.update(&since.as_nanos().to_le_bytes());
    hasher.finalize().to_hex().chars().take(32).collect()
}

/// What [`LogReader::read`] read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LogPart {
    /// There is no log.
    None,
    /// Entries that follow those of the last call; none if nothing was appended.
    Appended(Vec<LogEntry<'static>>),
    /// The first entries of another log than before.
    Restarted(Vec<LogEntry<'static>>),
}

/// A reader of a log. It reads what was appended since its last call.
#[derive(Debug, Default)]
pub(crate) struct LogReader {
    /// Id of the log that was read last.
    id: String,
    /// Position of the next line.
    position: u64,
}

impl LogReader {
    /// Reads the next lines, about 4 MiB at most. A line without its end is read when it is complete.
    ///
    /// # Errors
    /// If the file cannot be read, has another version, or a line is damaged. The message names the position.
    pub fn read(&mut self, path: &Path) -> Result<LogPart, String> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(LogPart::None),
            Err(e) => return Err(e.to_string()),
        };
        let mut from = BufReader::new(file);
        let mut first = Vec::new();
        let read = from.by_ref().take(MAX_HEADER_BYTES).read_until(b'\n', &mut first);
        read.map_err(|e| e.to_string())?;
        let header: Header = serde_json::from_slice(&first).map_err(|e| format!("its first line: {e}"))?;
        if header.version != VERSION {
            return Err(format!(
                "version {} (this program reads version {VERSION})",
                header.version
            ));
        }
        let is_new = header.id != self.id;
        if is_new {
            self.id = header.id;
            self.position = first.len() as u64;
        }
        let entries = self.read_entries(from.into_inner())?;
        Ok(match is_new {
            true => LogPart::Restarted(entries),
            false => LogPart::Appended(entries),
        })
    }

    fn read_entries(&mut self, mut file: File) -> Result<Vec<LogEntry<'static>>, String> {
        let text = |e: io::Error| e.to_string();
        file.seek(SeekFrom::Start(self.position)).map_err(text)?;
        let mut bytes = Vec::new();
        file.take(CHUNK_BYTES).read_to_end(&mut bytes).map_err(text)?;
        let mut entries = Vec::new();
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            let Some(text) = line.strip_suffix(b"\n") else {
                if line.len() > MAX_LINE_BYTES {
                    return Err(format!("a line at byte {} is too long", self.position));
                }
                break;
            };
            let entry = LogEntry::parse(text).map_err(|e| format!("the line at byte {}: {e}", self.position))?;
            self.position += line.len() as u64;
            entries.push(entry);
        }
        Ok(entries)
    }
}

//! Copy of a trace into a file while the command runs: each step reads what the kernel has, then waits. Only one chunk
//! is in memory.

use crate::error::RecordError;
use crate::kernel::Kernel;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Default maximum size of the tracer's buffers, bytes; a quarter of the free memory if that is less.
pub(crate) const MAX_BUFFER_BYTES: u64 = 256 << 20;
/// Size of one read, bytes. The kernel returns whole lines, at most a page of them.
const PIECE: usize = 1 << 16;
/// Time between two polls of an empty trace.
const TICK: Duration = Duration::from_millis(5);
/// Minimum time to read the rest of a trace.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);
/// Maximum bytes of text for one byte in the kernel's buffers: an interrupt's line has about 110 for 20.
const MAX_TEXT_PER_BYTE: u64 = 8;
/// Maximum time without data while the end mark is awaited.
const QUIET_LIMIT: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 2000 });

/// Mark that is written into a trace at its end; later lines are left out.
pub(crate) const END_MARK: &str = "kinescope: end";

/// State that the threads share.
#[derive(Default)]
struct Shared {
    ending: AtomicBool,
    cut: Mutex<Option<String>>,
}

/// A trace that a thread reads.
pub(crate) struct TraceReader {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl TraceReader {
    /// Reads `trace` into the file `log` from now on, at most `limit` bytes. The kernel holds up to `buffered` bytes of
    /// it.
    ///
    /// # Errors
    /// Returns an error if the file or the thread cannot be created.
    pub(crate) fn start(trace: File, log: &Path, limit: u64, buffered: u64) -> Result<Self, RecordError> {
        let failed = |e| RecordError::file(log, e);
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).open(log).map_err(failed)?;
        let shared = Arc::new(Shared::default());
        let (state, path) = (Arc::clone(&shared), log.to_owned());
        let work = move || {
            let mut rest = RestOfTrace::new(buffered);
            if let Err(why) = copy_trace(trace, file, &path, limit, &state.ending, &mut rest) {
                *state.cut.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            }
        };
        let thread = std::thread::Builder::new().name("kinescope-trace".into());
        let thread = thread.spawn(work).map_err(failed)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Returns why reading has stopped, or `None` while it goes on.
    pub(crate) fn stop_reason(&self) -> Option<String> {
        self.shared.cut.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes the reader look for the end mark, which the caller writes next: it may be read at once.
    pub(crate) fn expect_end(&self) {
        self.shared.ending.store(true, Ordering::SeqCst);
    }

    /// Reads up to the end mark and closes the trace. Returns why the trace ends earlier, if it does.
    pub(crate) fn finish(mut self) -> Option<String> {
        self.stop();
        self.stop_reason()
    }

    fn stop(&mut self) {
        self.expect_end();
        if let Some(thread) = self.thread.take() {
            // The thread's result is in the shared state.
            let _ = thread.join();
        }
    }
}

impl Drop for TraceReader {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the position of the end mark in a chunk: the end of its line.
fn end_of_mark(piece: &[u8]) -> Option<usize> {
    let at = memchr::memmem::find(piece, END_MARK.as_bytes())?;
    let rest = piece.get(at..)?;
    Some(at + memchr::memchr(b'\n', rest).map_or(rest.len(), |n| n + 1))
}

/// Read of what was traced before the end. It takes its time on a slow machine, but ends if the device's interrupts or
/// accesses go on and the end mark is lost.
struct RestOfTrace {
    began: Option<Instant>,
    last_data: Instant,
    /// Minimum time to read, then the rest decides.
    time: Duration,
    /// Whether the trace was empty since the end: all data that was traced before has been read.
    was_empty: bool,
    /// Maximum bytes that were traced before the end.
    bytes: u64,
    read: u64,
}

impl RestOfTrace {
    /// Creates the state for a trace of which the kernel holds up to `buffered` bytes.
    fn new(buffered: u64) -> Self {
        Self {
            began: None,
            last_data: Instant::now(),
            time: DRAIN_LIMIT,
            was_empty: false,
            bytes: buffered.saturating_mul(MAX_TEXT_PER_BYTE),
            read: 0,
        }
    }

    /// Starts the clock, the first time only.
    fn begin(&mut self) {
        if self.began.is_none() {
            self.began = Some(Instant::now());
            self.last_data = Instant::now();
        }
    }

    /// Notes that the trace is empty now.
    fn note_empty(&mut self) {
        self.was_empty |= self.began.is_some();
    }

    /// Counts data.
    fn count(&mut self, bytes: usize) {
        if self.began.is_some() {
            self.last_data = Instant::now();
            self.read = self.read.saturating_add(bytes as u64);
        }
    }

    /// Returns true if no more data is expected.
    fn is_quiet(&self) -> bool {
        self.began.is_some() && self.last_data.elapsed() > QUIET_LIMIT
    }

    /// Returns true if all data read by now was traced after the end.
    fn is_over(&self) -> bool {
        (self.was_empty || self.read > self.bytes) && self.began.is_some_and(|began| began.elapsed() > self.time)
    }
}

/// Copies a trace up to its end mark. The error is why nothing more was kept.
fn copy_trace(
    mut trace: impl Read,
    mut file: File,
    path: &Path,
    limit: u64,
    ending: &AtomicBool,
    rest: &mut RestOfTrace,
) -> Result<(), String> {
    let mut piece = vec![0; PIECE];
    let mut bytes = 0u64;
    loop {
        // The end flag is read before the trace: the next read then sees everything that was traced until then.
        let over = ending.load(Ordering::SeqCst);
        if over {
            rest.begin();
        }
        let read = match trace.read(&mut piece) {
            Ok(n) => n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(e) => return Err(format!("the trace could not be read further: {e}")),
        };
        if read == 0 {
            rest.note_empty();
            if rest.is_quiet() {
                return Ok(());
            }
            std::thread::sleep(TICK);
            continue;
        }
        let mut part = piece.get(..read).unwrap_or_default();
        let mark = if over { end_of_mark(part) } else { None };
        if let Some(end) = mark {
            part = part.get(..end).unwrap_or(part);
        }
        if bytes.saturating_add(part.len() as u64) > limit {
            return Err(format!("the log reached its limit of {limit} bytes (--limit)"));
        }
        if let Err(e) = file.write_all(part) {
            // The next reader expects whole lines.
            let _ = file.set_len(bytes);
            return Err(format!("{} could not be written further: {e}", path.display()));
        }
        bytes += part.len() as u64;
        if mark.is_some() {
            return Ok(());
        }
        rest.count(read);
        if rest.is_over() {
            return Err("the end mark is missing, and the device is still traced".into());
        }
    }
}

/// Truncates a log after its last whole line, and appends the rest of its trace: for the log of a killed recorder.
pub(crate) fn resume_log(kernel: &dyn Kernel, trace: &str, log: &Path, limit: u64) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(log)?;
    let mut bytes = count_whole_line_bytes(&mut file)?;
    file.set_len(bytes)?;
    file.seek(io::SeekFrom::End(0))?;
    let Ok(mut trace) = kernel.open_trace(trace) else {
        return Ok(());
    };
    let mut rest = RestOfTrace::new(MAX_BUFFER_BYTES);
    rest.begin();
    let mut piece = vec![0; PIECE];
    while !rest.is_over() {
        let read = match trace.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(e) => return Err(e),
        };
        rest.count(read);
        for line in piece.get(..read).unwrap_or_default().split_inclusive(|b| *b == b'\n') {
            // A trace that is opened again repeats its header.
            if line.starts_with(b"VERSION ") || line.starts_with(b"PCIDEV ") {
                continue;
            }
            bytes = bytes.saturating_add(line.len() as u64);
            if bytes > limit {
                return Ok(());
            }
            file.write_all(line)?;
        }
    }
    Ok(())
}

/// Returns the size of a file's whole lines in bytes.
fn count_whole_line_bytes(file: &mut File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let tail = length.min(PIECE as u64);
    file.seek(io::SeekFrom::Start(length - tail))?;
    let mut end = Vec::new();
    file.take(tail).read_to_end(&mut end)?;
    let cut = end.iter().rev().position(|b| *b == b'\n');
    Ok(cut.map_or(length - tail, |more| length - more as u64))
}

/// Returns the path of a log file in a recording's folder.
pub(crate) fn log_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_kernel::FakeKernel;

    /// A reader that returns its pieces one by one, and `WouldBlock` after them and, if `waits`, before each of them.
    struct Pieces {
        pieces: Vec<&'static [u8]>,
        waits: bool,
        has_waited: bool,
    }

    impl Read for Pieces {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.has_waited = !self.has_waited;
            if self.pieces.is_empty() || self.waits && self.has_waited {
                return Err(ErrorKind::WouldBlock.into());
            }
            let piece = self.pieces.remove(0);
            out[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    fn copy_pieces(pieces: &[&'static [u8]], limit: u64) -> (Result<(), String>, Vec<u8>) {
        copy_rest(pieces, limit, &mut RestOfTrace::new(1 << 20), true)
    }

    fn copy_rest(
        pieces: &[&'static [u8]],
        limit: u64,
        rest: &mut RestOfTrace,
        waits: bool,
    ) -> (Result<(), String>, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.txt");
        let file = File::create(&path).unwrap();
        let ending = AtomicBool::new(true);
        let pieces = Pieces {
            pieces: pieces.to_vec(),
            waits,
            has_waited: false,
        };
        let ended = copy_trace(pieces, file, &path, limit, &ending, rest);
        (ended, std::fs::read(path).unwrap())
    }

    #[test]
    fn a_trace_is_read_to_the_mark_of_its_end() {
        let (ended, log) = copy_pieces(&[b"W 1\nW 2\n", b"MARK kinescope: end (0)\nW 3\n", b"W 4\n"], 1 << 20);
        assert_eq!(
            (ended, log.as_slice()),
            (Ok(()), &b"W 1\nW 2\nMARK kinescope: end (0)\n"[..])
        );
        let (ended, log) = copy_pieces(&[b"W 1\n", b"W 2\n"], 6);
        assert_eq!(log, b"W 1\n");
        assert!(ended.unwrap_err().contains("limit of 6 bytes"));
        // A trace without the end mark ends when no more data arrives.
        assert_eq!(copy_pieces(&[b"W 1\n"], 100).0, Ok(()));
    }

    #[test]
    fn rest_of_a_trace_is_read_on_a_slow_machine() {
        // The time is over from the start.
        let rest = |bytes| RestOfTrace {
            time: Duration::ZERO,
            bytes,
            ..RestOfTrace::new(0)
        };
        let pieces = [&b"W 1\n"[..], b"W 2\n", b"W 3\n", b"MARK kinescope: end\n"];
        let (ended, log) = copy_rest(&pieces, 100, &mut rest(12), false);
        assert_eq!((ended, log), (Ok(()), pieces.concat()));
        // More data than the kernel held at the end: the mark is lost.
        let (ended, log) = copy_rest(&pieces, 100, &mut rest(7), false);
        assert!(ended.unwrap_err().contains("end mark is missing"));
        assert_eq!(log, b"W 1\nW 2\n");
    }

    /// Regression: a device that is traced for ever kept the reader for ever if the mark was lost.
    #[test]
    fn a_trace_that_was_empty_after_the_end_does_not_wait_for_ever_for_its_mark() {
        let mut rest = RestOfTrace {
            time: Duration::ZERO,
            ..RestOfTrace::new(1 << 20)
        };
        let (ended, log) = copy_rest(&[b"W 1\n", b"W 2\n"], 100, &mut rest, true);
        assert!(ended.unwrap_err().contains("end mark is missing"));
        assert_eq!(log, b"W 1\n");
    }

    #[test]
    fn resumed_log_continues_after_its_last_complete_line() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log.txt");
        std::fs::write(&log, "VERSION 1\nW 1\nW 2").unwrap();
        let mut kernel = FakeKernel::default();
        kernel.put("/t", "VERSION 1\nPCIDEV 0\nW 3\n");
        resume_log(&kernel, "/t", &log, 1 << 20).unwrap();
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "VERSION 1\nW 1\nW 3\n");
        // A missing trace leaves the log unchanged.
        resume_log(&kernel, "/gone", &log, 1 << 20).unwrap();
        resume_log(&kernel, "/gone", &dir.path().join("new.txt"), 1 << 20).unwrap();
        assert_eq!(std::fs::read(dir.path().join("new.txt")).unwrap(), b"");
    }
}

//! Writes to pipes and devices that may block on their readers. A wait ends when the program is asked to stop.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// Interval at which a wait checks for a stop request.
const TICK: Duration = Duration::from_millis(20);
/// Number of bytes that a ready pipe accepts without blocking (`PIPE_BUF`).
const PIECE: usize = 4096;

static ASKED: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the check for a stop request, which ends waits for readers. Without it, waits have no end. Only the first call
/// has an effect.
pub fn set_stop_check(asked: fn() -> bool) {
    // A second caller has the same signals.
    let _ = ASKED.set(asked);
}

/// The error that the program was asked to stop while it waited for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program was stopped before the output was read")]
pub struct StoppedError;

fn go_on(asked: fn() -> bool) -> io::Result<()> {
    match asked() {
        true => Err(io::Error::other(StoppedError)),
        false => Ok(()),
    }
}

/// Returns standard output. If it is a pipe or a device, a wait for its reader ends when the program is asked to stop.
#[must_use]
pub fn standard_output() -> Box<dyn Write> {
    let own = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    match own {
        // A regular file does not block.
        Ok(file) if file.metadata().is_ok_and(|m| !m.is_file()) => Box::new(PipeWriter::from_file(file)),
        _ => Box::new(io::stdout()),
    }
}

/// A pipe, terminal or other device that is written to.
#[derive(Debug)]
pub struct PipeWriter {
    file: File,
    asked: fn() -> bool,
}

impl PipeWriter {
    /// Opens a path for writing. Waits for a reader if the path is a pipe without one.
    ///
    /// # Errors
    /// Returns an error if the system call fails, or if the program is asked to stop before there is a reader.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_while(path, ASKED.get().copied().unwrap_or(|| false))
    }

    fn open_while(path: &Path, asked: fn() -> bool) -> io::Result<Self> {
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
        loop {
            // Without a reader this fails immediately.
            match OpenOptions::new().append(true).custom_flags(flags).open(path) {
                Err(e) if e.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                    go_on(asked)?;
                    thread::sleep(TICK);
                }
                opened => return Ok(Self { file: opened?, asked }),
            }
        }
    }

    /// Writes to an open file.
    #[must_use]
    pub fn from_file(file: File) -> Self {
        Self {
            file,
            asked: ASKED.get().copied().unwrap_or(|| false),
        }
    }

    /// Waits until the file is writable.
    fn wait(&self) -> io::Result<()> {
        let tick = Timespec {
            tv_sec: 0,
            tv_nsec: TICK.subsec_nanos().into(),
        };
        loop {
            let mut ends = [PollFd::new(&self.file, PollFlags::OUT)];
            match poll(&mut ends, Some(&tick)) {
                // This is also the result if the reader is gone. The write then returns the error.
                Ok(1..) => return Ok(()),
                Ok(0) | Err(Errno::INTR) => go_on(self.asked)?,
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = bytes.get(..PIECE).unwrap_or(bytes);
        loop {
            self.wait()?;
            match self.file.write(piece) {
                // Another program wrote to the same pipe in between.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => go_on(self.asked)?,
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    /// Time after which a test counts as hung.
    const HANG_LIMIT: Duration = Duration::from_secs(60);
    /// Number of the check that requests a stop, so that the writer waits for several checks first.
    const STOPPING_CHECK: u32 = 4;

    fn fifo(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("pipe");
        let status = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(status.success());
        path
    }

    fn is_stopped(e: &io::Error) -> bool {
        e.get_ref().is_some_and(|e| e.is::<StoppedError>())
    }

    /// Counts a check for a stop request. Returns whether this check is the last one of a test.
    fn stops(checks: &AtomicU32) -> bool {
        checks.fetch_add(1, Ordering::SeqCst) + 1 >= STOPPING_CHECK
    }

    /// Waits until the writer checks again for a stop request, which shows that it waits for its reader.
    fn wait_for_a_check(checks: &AtomicU32) {
        let (before, since) = (checks.load(Ordering::SeqCst), Instant::now());
        while checks.load(Ordering::SeqCst) == before {
            assert!(since.elapsed() < HANG_LIMIT, "the writer does not wait");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn stop_request_ends_the_wait_for_a_pipe_reader() {
        static CHECKS: AtomicU32 = AtomicU32::new(0);
        let dir = tempfile::tempdir().unwrap();
        let path = fifo(dir.path());
        let e = PipeWriter::open_while(&path, || stops(&CHECKS)).unwrap_err();
        assert!(is_stopped(&e), "{e}");
        assert_eq!(
            CHECKS.load(Ordering::SeqCst),
            STOPPING_CHECK,
            "the writer ends at the first stop request"
        );
    }

    #[test]
    fn stop_request_ends_a_write_to_an_idle_reader() {
        static CHECKS: AtomicU32 = AtomicU32::new(0);
        let dir = tempfile::tempdir().unwrap();
        let path = fifo(dir.path());
        // The file is opened for reading and writing, so that neither open blocks.
        let _reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut writer = PipeWriter::open_while(&path, || stops(&CHECKS)).unwrap();
        let e = writer.write_all(&vec![7; 1 << 20]).unwrap_err();
        assert!(is_stopped(&e), "{e}");
        assert_eq!(
            CHECKS.load(Ordering::SeqCst),
            STOPPING_CHECK,
            "the writer ends at the first stop request"
        );
    }

    #[test]
    fn late_and_slow_pipe_reader_gets_every_byte() {
        static CHECKS: AtomicU32 = AtomicU32::new(0);
        let dir = tempfile::tempdir().unwrap();
        let path = fifo(dir.path());
        let from = path.clone();
        let reader = thread::spawn(move || {
            // The reader is late: the writer already waits for it.
            wait_for_a_check(&CHECKS);
            let mut file = File::open(from).unwrap();
            let mut all = Vec::new();
            let mut part = [0; 10_000];
            // The reader is slow: the pipe is full and the writer waits for room. No pipe has room for all bytes.
            for _ in 0..3 {
                wait_for_a_check(&CHECKS);
                let n = file.read(&mut part).unwrap();
                all.extend_from_slice(&part[..n]);
            }
            while let n @ 1.. = file.read(&mut part).unwrap() {
                all.extend_from_slice(&part[..n]);
            }
            all
        });
        let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        let never = || {
            CHECKS.fetch_add(1, Ordering::SeqCst);
            false
        };
        let mut writer = PipeWriter::open_while(&path, never).unwrap();
        writer.write_all(&bytes).unwrap();
        drop(writer);
        assert!(reader.join().unwrap() == bytes);
    }
}

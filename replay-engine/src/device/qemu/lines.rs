//! Lines from a socket, complete and of bounded length, with a timeout; and bytes to it.

use super::error::QemuError;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Maximum time for an answer of QEMU.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Bytes per read call.
const CHUNK: usize = 64 << 10;

/// The result of waiting for a line.
pub(super) enum LineResult {
    /// A line was received; [`Lines::line`] returns it.
    Line,
    /// The time is over.
    Nothing,
    /// The other end closed the socket.
    Closed,
}

/// A line-based socket.
pub(super) struct Lines {
    stream: UnixStream,
    /// The bytes up to `filled` were read; the rest is free.
    buffer: Vec<u8>,
    filled: usize,
    /// Start of the part that was not taken yet.
    from: usize,
    /// End of the part that was searched for a line end.
    searched: usize,
    /// The line that was taken last.
    line: Range<usize>,
    longest: usize,
    /// The current timeout of the socket.
    limit: Duration,
    /// Maximum wait for an answer.
    pub answer_limit: Duration,
}

impl Lines {
    /// Takes over a socket. A line of more than `longest` bytes is an error.
    pub fn new(stream: UnixStream, longest: usize) -> Result<Self, QemuError> {
        let limited = stream.set_write_timeout(Some(ANSWER_LIMIT));
        limited.map_err(|source| QemuError::System {
            doing: "the socket to QEMU could not be set up",
            source,
        })?;
        Ok(Self {
            stream,
            buffer: vec![0; CHUNK],
            filled: 0,
            from: 0,
            searched: 0,
            line: 0..0,
            longest,
            limit: Duration::ZERO,
            answer_limit: ANSWER_LIMIT,
        })
    }

    /// Returns the line that was taken last, without its line end.
    pub fn line(&self) -> &[u8] {
        self.buffer.get(self.line.clone()).unwrap_or_default()
    }

    /// Sends bytes. Waits at most [`ANSWER_LIMIT`] for the other end to accept any of them.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), QemuError> {
        self.stream.write_all(bytes).map_err(|source| match source.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => QemuError::closed(),
            ErrorKind::WouldBlock | ErrorKind::TimedOut => QemuError::Silent { limit: ANSWER_LIMIT },
            _ => QemuError::System {
                doing: "QEMU could not be instructed",
                source,
            },
        })
    }

    /// Takes the next line, which must arrive.
    pub fn answer(&mut self) -> Result<(), QemuError> {
        match self.next(self.answer_limit)? {
            LineResult::Line => Ok(()),
            LineResult::Nothing => Err(QemuError::Silent {
                limit: self.answer_limit,
            }),
            LineResult::Closed => Err(QemuError::closed()),
        }
    }

    /// Takes the next line. Waits at most `limit` for it; a limit of 0 does not wait.
    pub fn next(&mut self, limit: Duration) -> Result<LineResult, QemuError> {
        let mut started = None;
        loop {
            if let Some(end) = self.end() {
                self.line = self.from..end;
                self.from = end.saturating_add(1);
                self.searched = self.from;
                return Ok(LineResult::Line);
            }
            // The clock is read only if the first bytes were not enough.
            let left = limit.saturating_sub(started.map_or(Duration::ZERO, |s: Instant| s.elapsed()));
            if started.is_some() && left.is_zero() {
                return Ok(LineResult::Nothing);
            }
            match self.fill(left) {
                Ok(Some(0)) => return Ok(LineResult::Closed),
                Ok(Some(_)) => started = started.or_else(|| Some(Instant::now())),
                Ok(None) => return Ok(LineResult::Nothing),
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(LineResult::Closed),
                Err(source) => {
                    return Err(QemuError::System {
                        doing: "QEMU's answer could not be read",
                        source,
                    });
                }
            }
        }
    }

    /// Returns the end of the next line.
    fn end(&mut self) -> Option<usize> {
        let rest = self.buffer.get(self.searched..self.filled)?;
        let at = rest.iter().position(|b| *b == b'\n');
        if at.is_none() {
            self.searched = self.filled;
        }
        self.searched.checked_add(at?)
    }

    /// Makes room after the bytes that were read and not taken.
    fn make_room(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.from..self.filled, 0);
        self.filled = self.filled.saturating_sub(self.from);
        self.searched = self.searched.saturating_sub(self.from);
        (self.from, self.line) = (0, 0..0);
        if self.filled > self.longest {
            return Err(io::Error::new(ErrorKind::InvalidData, "a line without an end"));
        }
        if self.buffer.len().saturating_sub(self.filled) < CHUNK / 2 {
            self.buffer.resize(self.filled.saturating_add(CHUNK), 0);
        }
        Ok(())
    }

    /// Reads the available bytes. Returns `None` if none arrived in time.
    fn fill(&mut self, limit: Duration) -> io::Result<Option<usize>> {
        self.make_room()?;
        // A socket timeout cannot be 0, but the socket can be set to non-blocking.
        let wait = !limit.is_zero();
        if !wait {
            self.stream.set_nonblocking(true)?;
        } else if self.limit != limit {
            self.stream.set_read_timeout(Some(limit))?;
            self.limit = limit;
        }
        let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
        let got = loop {
            match self.stream.read(room) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                got => break got,
            }
        };
        if !wait {
            self.stream.set_nonblocking(false)?;
        }
        match got {
            Ok(n) => {
                self.filled = self.filled.saturating_add(n);
                Ok(Some(n))
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Shutdown;

    const SOON: Duration = Duration::from_secs(5);

    fn next(lines: &mut Lines, limit: Duration) -> Option<String> {
        match lines.next(limit).unwrap() {
            LineResult::Line => Some(String::from_utf8(lines.line().to_vec()).unwrap()),
            LineResult::Nothing => None,
            LineResult::Closed => Some("(closed)".to_owned()),
        }
    }

    #[test]
    fn lines_are_reassembled_from_any_chunks() {
        let (here, mut peer) = UnixStream::pair().unwrap();
        let mut lines = Lines::new(here, 1 << 20).unwrap();
        assert_eq!(next(&mut lines, Duration::ZERO), None);
        peer.write_all(b"one\n\ntw").unwrap();
        assert_eq!(next(&mut lines, SOON).as_deref(), Some("one"));
        assert_eq!(next(&mut lines, SOON).as_deref(), Some(""));
        assert_eq!(next(&mut lines, Duration::ZERO), None);
        assert_eq!(next(&mut lines, Duration::from_millis(1)), None);
        let long = "x".repeat(200_000);
        let text = format!("o\n{long}\nend");
        let sender = std::thread::spawn(move || {
            peer.write_all(text.as_bytes()).unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
            peer
        });
        assert_eq!(next(&mut lines, SOON).as_deref(), Some("two"));
        assert_eq!(next(&mut lines, SOON).as_deref(), Some(long.as_str()));
        assert_eq!(next(&mut lines, SOON).as_deref(), Some("(closed)"));
        drop(sender.join().unwrap());
    }

    #[test]
    fn overlong_unterminated_line_is_an_error() {
        let (here, mut peer) = UnixStream::pair().unwrap();
        let mut lines = Lines::new(here, 100).unwrap();
        peer.write_all(&[b'x'; 101]).unwrap();
        assert!(matches!(lines.next(SOON), Err(QemuError::System { .. })));
    }
}

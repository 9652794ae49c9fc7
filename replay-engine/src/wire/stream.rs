//! A byte stream to the other end: TCP or a unix socket, with deadlines.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A connected socket.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// A unix socket, by path or from a pair.
    Unix(UnixStream),
}

macro_rules! either {
    ($self:expr, $s:ident => $e:expr) => {
        match $self {
            Stream::Tcp($s) => $e,
            Stream::Unix($s) => $e,
        }
    };
}

impl Stream {
    /// Another handle on the same socket.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(s) => Self::Tcp(s.try_clone()?),
            Self::Unix(s) => Self::Unix(s.try_clone()?),
        })
    }

    /// Limits each later read and write; small packets go out at once.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn set_limits(&self, read: Duration, write: Duration) -> io::Result<()> {
        if let Self::Tcp(s) = self {
            s.set_nodelay(true)?;
        }
        either!(self, s => {
            s.set_nonblocking(false)?;
            s.set_read_timeout(Some(read))?;
            s.set_write_timeout(Some(write))
        })
    }

    /// Ends both directions: a read or write in another thread returns.
    pub fn close(&self) {
        // A socket that is closed already is what was wanted.
        let _ = either!(self, s => s.shutdown(Shutdown::Both));
    }

    /// Ends the direction from the other end: reads return what has arrived and then the end, and this end can still
    /// write.
    pub fn close_reading(&self) {
        // A socket that is closed already is what was wanted.
        let _ = either!(self, s => s.shutdown(Shutdown::Read));
    }

    /// Writes a few bytes to a socket that nothing was written to before, without ever waiting for the other end.
    pub fn send_at_once(&mut self, bytes: &[u8]) {
        let ready = either!(&*self, s => s.set_nonblocking(true));
        // The other end may be gone: then nobody has to know.
        let _ = ready.and_then(|()| self.write_all(bytes));
    }

    /// The other end, for a person.
    #[must_use]
    pub fn peer(&self) -> String {
        match self {
            Self::Tcp(s) => s
                .peer_addr()
                .map_or_else(|_| "unknown address".to_owned(), |a| a.to_string()),
            Self::Unix(_) => "unix socket".to_owned(),
        }
    }

    /// Reads all of `out`, no later than `by`.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] at the deadline, [`io::ErrorKind::UnexpectedEof`] when the other end closes.
    pub fn read_exact_by(&mut self, out: &mut [u8], by: Instant) -> io::Result<()> {
        let mut rest = out;
        while !rest.is_empty() {
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            either!(&*self, s => s.set_read_timeout(Some(left)))?;
            match self.read(rest) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => rest = rest.get_mut(n..).unwrap_or_default(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(io::ErrorKind::TimedOut.into()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        either!(self, s => s.read(out))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        either!(self, s => s.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        either!(self, s => s.flush())
    }
}

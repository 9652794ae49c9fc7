//! A byte stream to the other end: TCP or a Unix socket, with deadlines.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Maximum time of one write on the connection of a live program: its other end may wait for a kernel that is running.
/// That it is alive, heartbeats show.
pub const LIVE_WRITE_LIMIT: Duration = Duration::from_hours(24);

/// A connected socket.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket, by path or from a pair.
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
    /// Returns another handle to the same socket.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(s) => Self::Tcp(s.try_clone()?),
            Self::Unix(s) => Self::Unix(s.try_clone()?),
        })
    }

    /// Sets timeouts for later reads and writes. Small packets are sent at once.
    ///
    /// # Errors
    /// If the operating system refuses.
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

    /// Sets the timeout of later writes, for every handle to the socket.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn set_write_limit(&self, limit: Duration) -> io::Result<()> {
        either!(self, s => s.set_write_timeout(Some(limit)))
    }

    /// Shuts down both directions: a read or write in another thread returns.
    pub fn close(&self) {
        // The socket may be closed already.
        let _ = either!(self, s => s.shutdown(Shutdown::Both));
    }

    /// Sets the timeout of the next read to the time until `by`.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] after `by`, or the error of the operating system.
    pub(super) fn set_read_deadline(&self, by: Instant) -> io::Result<()> {
        let left = by.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        either!(self, s => s.set_read_timeout(Some(left)))
    }

    /// Returns whether the other end has closed the connection, or this end has. Unread data does not delay that.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(self, PollFlags::RDHUP)];
        let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A failed look says nothing: the next one or a read finds the end.
        matches!(poll(&mut fds, Some(&at_once)), Ok(1..)) && fds.iter().any(|fd| fd.revents().intersects(ended))
    }

    /// Looks for data until there is some, at most for `limit`: a sleeping thread takes much longer to wake up than the
    /// other end takes to answer.
    pub(super) fn spin_for_data(&self, limit: Duration) {
        let begun = Instant::now();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let mut fds = [PollFd::new(self, PollFlags::IN)];
            // The next read finds what a failed look does not.
            if !matches!(poll(&mut fds, Some(&at_once)), Ok(0)) || begun.elapsed() >= limit {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Shuts down the receiving direction: reads return the received data and then the end. This end can still write.
    pub fn close_reading(&self) {
        // The socket may be closed already.
        let _ = either!(self, s => s.shutdown(Shutdown::Read));
    }

    /// Writes a few bytes to a new socket, without ever waiting for the other end.
    pub fn send_at_once(&mut self, bytes: &[u8]) {
        let ready = either!(&*self, s => s.set_nonblocking(true));
        // The other end may be gone; then the bytes are not needed.
        let _ = ready.and_then(|()| self.write_all(bytes));
    }

    /// Writes all of `slices`, one after the other.
    ///
    /// # Errors
    /// [`io::ErrorKind::WriteZero`] if the socket takes nothing, or the error of the operating system.
    pub fn write_all_vectored(&mut self, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut rest = slices;
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match self.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => IoSlice::advance_slices(&mut rest, n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Returns the address of the other end, for the user.
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
    /// [`io::ErrorKind::TimedOut`] at the deadline, [`io::ErrorKind::UnexpectedEof`] if the other end closes.
    pub fn read_exact_by(&mut self, out: &mut [u8], by: Instant) -> io::Result<()> {
        let mut rest = out;
        while !rest.is_empty() {
            self.set_read_deadline(by)?;
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

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        either!(self, s => s.as_fd())
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

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        either!(self, s => s.write_vectored(slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        either!(self, s => s.flush())
    }
}

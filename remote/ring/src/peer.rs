//! The process at the other end, and whether it still exists.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::fd::AsFd;

/// Maximum size of the reason of an end, bytes.
const MAX_REASON_BYTES: usize = 512;

/// The process at the other end of a region.
pub trait Peer: Sync {
    /// Returns whether the peer can still read and write. A wait asks every 100 ms.
    fn is_alive(&self) -> bool;
}

/// A peer that holds the other end of a connected Unix socket.
///
/// It is alive until the socket reports the end of the connection. A peer that shares its end with a child process,
/// which a `fork` without `exec` does, counts as alive until the child has ended too.
#[derive(Debug)]
pub struct SocketPeer<S>(S);

impl<S: AsFd> SocketPeer<S> {
    /// Returns the peer at the other end of `socket`: an owned or borrowed socket that stays open.
    pub fn new(socket: S) -> Self {
        Self(socket)
    }

    /// Returns the socket.
    pub fn socket(&self) -> &S {
        &self.0
    }
}

impl<S: AsFd> SocketPeer<S> {
    /// Sends the peer the reason of an end that follows. It is lost if the peer is gone or its socket is full.
    pub fn send_reason(&self, reason: &str) {
        let end = reason.floor_char_boundary(MAX_REASON_BYTES);
        let bytes = reason.get(..end).unwrap_or_default().as_bytes();
        // The end itself follows, with or without its reason.
        let _ = send(&self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Returns the reason that the peer sent before it ended, if it did.
    pub fn take_reason(&self) -> Option<String> {
        let mut bytes = [0u8; MAX_REASON_BYTES];
        let (_, count) = retry_on_intr(|| recv(&self.0, &mut bytes, RecvFlags::DONTWAIT)).ok()?;
        let text = String::from_utf8_lossy(bytes.get(..count)?);
        let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        Some(printable.collect::<String>()).filter(|text| !text.trim().is_empty())
    }
}

impl<S: AsFd + Sync> Peer for SocketPeer<S> {
    fn is_alive(&self) -> bool {
        let mut sockets = [PollFd::new(&self.0, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if retry_on_intr(|| poll(&mut sockets, Some(&now))).is_err() {
            return false;
        }
        let events = sockets[0].revents();
        if events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return false;
        }
        if !events.contains(PollFlags::IN) {
            return true;
        }
        // A peer that only shut down its writing is readable without bytes.
        let mut byte = [0u8; 1];
        match retry_on_intr(|| recv(&self.0, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT)) {
            Ok((_, bytes)) => bytes > 0,
            Err(error) => error == Errno::AGAIN,
        }
    }
}

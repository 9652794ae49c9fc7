//! The process at the other end, and whether it still exists.

use crate::message_ring::RingWaker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, recv};
use std::os::fd::AsFd;
use std::time::Duration;

/// Pauses before each wake-up after the end of a peer: a reader that was about to sleep needs a later one.
const AFTER_END: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(2),
    Duration::from_millis(8),
    Duration::from_millis(40),
];

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
    /// Waits until the socket reports the end of the connection, by the peer or by this process. Then it wakes the
    /// readers, so that they notice.
    pub fn wake_at_end(&self, readers: &[RingWaker]) {
        let mut sockets = [PollFd::new(&self.0, PollFlags::RDHUP)];
        // Without an answer, the checks of each wait remain.
        let _ = retry_on_intr(|| poll(&mut sockets, None));
        for pause in AFTER_END {
            std::thread::sleep(pause);
            readers.iter().for_each(RingWaker::wake_reader);
        }
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

//! Wake-ups of readers whose peer has ended.

use crate::layout::ControlWord;
use crate::parking::wake_if_parked;
use crate::region::Region;
use crate::ring_name::RingName;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Pauses before each wake-up after the end of a peer: a reader that was about to sleep needs a later one.
const AFTER_END: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(2),
    Duration::from_millis(8),
    Duration::from_millis(40),
];

/// Wakes the reader of a ring, so that it looks whether its peer is alive. The 100 ms of a sleep would delay the end of
/// every program.
#[derive(Clone, Debug)]
pub struct RingWaker {
    region: Arc<Region>,
    ring: RingName,
}

impl RingWaker {
    pub(crate) const fn new(region: Arc<Region>, ring: RingName) -> Self {
        Self { region, ring }
    }

    fn wake_reader(&self) {
        wake_if_parked(self.region.control_word(self.ring, ControlWord::ReaderParked));
    }
}

/// Waits until a socket reports the end of its connection, by the peer or by this process. Then it wakes the readers, so
/// that they notice.
pub fn wake_readers_at_end(socket: impl AsFd, readers: &[RingWaker]) {
    let mut sockets = [PollFd::new(&socket, PollFlags::RDHUP)];
    // Without an answer, the checks of each wait remain.
    let _ = retry_on_intr(|| poll(&mut sockets, None));
    for pause in AFTER_END {
        std::thread::sleep(pause);
        readers.iter().for_each(RingWaker::wake_reader);
    }
}

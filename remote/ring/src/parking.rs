//! Waiting for the peer: spin, then sleep on a word of the region until the peer wakes this side.
//!
//! No wake-up is lost. The side that waits stores 1 in its parked word, and then loads the peer's position. The other
//! side stores its position, and then loads the parked word. All four accesses are `SeqCst`, so that they have one
//! total order, in which the later of the two stores is seen by the load that follows the other store. Either the side
//! that waits sees the new position, or the other side sees the 1 and wakes it. Before it wakes, it stores 0: the
//! kernel compares the word with 1 and begins the sleep in one step, so that a wake-up between the load and the sleep
//! is not lost either.

use crate::error::RingError;
use crate::peer::Peer;
use crate::ring_name::RingName;
use rustix::io::Errno;
use rustix::thread::futex;
use std::hint::spin_loop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Maximum duration of one sleep. After it, a peer that has ended is noticed; a hostile peer that does not wake this
/// side delays it by this at most.
const MAX_SLEEP: Duration = Duration::from_millis(100);
/// Duration of spinning, if another processor can run the peer meanwhile: about the cost of a sleep.
const SHORT_SPIN: Duration = Duration::from_micros(20);
/// Duration of spinning on a machine with processors to spare: what a peer takes that waits for another machine.
const LONG_SPIN: Duration = Duration::from_micros(100);
/// Minimum number of processors for the longer one: a relay and its two ends have up to six threads that wait.
const MIN_LONG_SPIN_PROCESSORS: usize = 8;
/// Number of checks between two readings of the clock.
const CHECKS_PER_CLOCK_READING: u32 = 32;

/// What one wait is for, and how long it may last.
pub(crate) struct WaitRequest<'a> {
    pub(crate) ring: RingName,
    /// What the peer has to provide, for the error message.
    pub(crate) awaited: &'static str,
    /// This side's parked word.
    pub(crate) parked: &'a AtomicU32,
    pub(crate) spin: Duration,
    /// End of the wait; `None`: it has no end.
    pub(crate) deadline: Option<Instant>,
    pub(crate) peer: &'a dyn Peer,
}

impl WaitRequest<'_> {
    /// Waits until `is_ready` returns `true`. Returns `false` if the deadline comes first.
    ///
    /// `is_ready` loads the peer's position with `SeqCst`.
    ///
    /// # Errors
    /// [`RingError::PeerGone`] if the peer has ended, the error of `is_ready`, or an error of the operating system.
    pub(crate) fn wait(&self, mut is_ready: impl FnMut() -> Result<bool, RingError>) -> Result<bool, RingError> {
        if self.spin(&mut is_ready)? {
            return Ok(true);
        }
        let result = self.park(&mut is_ready);
        // A 1 that stays would only cost the peer a system call for each message.
        self.parked.store(0, Ordering::Relaxed);
        result
    }

    fn spin(&self, is_ready: &mut dyn FnMut() -> Result<bool, RingError>) -> Result<bool, RingError> {
        if self.spin.is_zero() {
            return Ok(false);
        }
        let start = Instant::now();
        loop {
            for _ in 0..CHECKS_PER_CLOCK_READING {
                if is_ready()? {
                    return Ok(true);
                }
                spin_loop();
            }
            let now = Instant::now();
            if now.duration_since(start) >= self.spin || self.deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(false);
            }
        }
    }

    fn park(&self, is_ready: &mut dyn FnMut() -> Result<bool, RingError>) -> Result<bool, RingError> {
        loop {
            self.parked.store(1, Ordering::SeqCst);
            if is_ready()? {
                return Ok(true);
            }
            let mut sleep = MAX_SLEEP;
            if let Some(deadline) = self.deadline {
                sleep = sleep.min(deadline.saturating_duration_since(Instant::now()));
                if sleep.is_zero() {
                    return Ok(false);
                }
            }
            let timeout = futex::Timespec {
                tv_sec: 0,
                tv_nsec: sleep.subsec_nanos().into(),
            };
            // The word is shared with another process, so that the wait must not be `PRIVATE`.
            match futex::wait(self.parked, futex::Flags::empty(), 1, Some(&timeout)) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
                Err(error) => return Err(RingError::at("waiting for the peer")(error)),
            }
            if is_ready()? {
                return Ok(true);
            }
            if !self.peer.is_alive() {
                // The peer may have published before it ended, but after the check above.
                return match is_ready()? {
                    true => Ok(true),
                    false => Err(RingError::PeerGone {
                        ring: self.ring,
                        awaited: self.awaited,
                    }),
                };
            }
        }
    }
}

/// Wakes the peer if it is parked. The caller has stored its position with `SeqCst` before.
#[inline]
pub(crate) fn wake_if_parked(parked: &AtomicU32) {
    if parked.load(Ordering::SeqCst) != 0 {
        wake(parked);
    }
}

#[cold]
fn wake(parked: &AtomicU32) {
    parked.store(0, Ordering::SeqCst);
    // A peer that is not woken continues after `MAX_SLEEP`.
    let _ = futex::wake(parked, futex::Flags::empty(), 1);
}

/// Returns the number of processors that this process can use. The system is asked once: that takes longer than a message.
fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get))
}

/// Returns whether threads that wait can spin for long without taking processors from others.
#[must_use]
pub fn has_spare_processors() -> bool {
    processors() >= MIN_LONG_SPIN_PROCESSORS
}

/// Returns the default duration of spinning, by the number of processors that this process can use: 0 for one.
pub(crate) fn default_spin() -> Duration {
    match processors() {
        1 => Duration::ZERO,
        MIN_LONG_SPIN_PROCESSORS.. => LONG_SPIN,
        _ => SHORT_SPIN,
    }
}

//! Answers to heartbeats from a thread of their own: the reading thread may have to wait for whoever takes its frames,
//! and a long write may keep the connection busy.

use super::error::WireError;
use super::frame::Topic;
use super::sender::Sender;
use super::times::HEARTBEAT;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Payload of an answer.
pub const ANSWER: u8 = 1;

/// What the reading thread tells the answering one.
#[derive(Debug, Default)]
struct State {
    /// The other end asked, and has no answer yet.
    is_due: bool,
    /// The reading thread passes a frame on, and reads nothing meanwhile.
    is_passing: bool,
    is_over: bool,
}

/// The answers of a connection. Dropping it ends their thread.
#[derive(Debug)]
pub struct HeartbeatAnswers {
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl HeartbeatAnswers {
    /// Starts the thread. While a frame is passed on, it also answers without a question, at the interval of heartbeats.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub fn start(sender: Sender) -> Result<Self, WireError> {
        Self::start_with(HEARTBEAT, move || {
            let sent = sender.send_bytes(Topic::Heartbeat, &[ANSWER]);
            // A failed answer shows as the end of the connection at the next read.
            if sent.is_err() {
                sender.close();
            }
            sent.is_ok()
        })
    }

    fn start_with(interval: Duration, mut answer: impl FnMut() -> bool + Send + 'static) -> Result<Self, WireError> {
        let shared: Arc<(Mutex<State>, Condvar)> = Arc::default();
        let of = Arc::clone(&shared);
        let work = move || {
            let (state, change) = &*of;
            loop {
                let waited = change.wait_timeout_while(lock(state), interval, |s| !s.is_due && !s.is_over);
                let mut now = waited.unwrap_or_else(PoisonError::into_inner).0;
                if now.is_over {
                    return;
                }
                if std::mem::take(&mut now.is_due) || now.is_passing {
                    drop(now);
                    if !answer() {
                        return;
                    }
                }
            }
        };
        thread::Builder::new().name("kinescope-alive".into()).spawn(work)?;
        Ok(Self { shared })
    }

    /// Answers the other end soon.
    pub fn answer(&self) {
        lock(&self.shared.0).is_due = true;
        self.shared.1.notify_all();
    }

    /// Runs `pass`, which may wait as long as it has to: the other end hears of this one meanwhile.
    pub fn while_passing<T>(&self, pass: impl FnOnce() -> T) -> T {
        lock(&self.shared.0).is_passing = true;
        let passed = pass();
        lock(&self.shared.0).is_passing = false;
        passed
    }
}

impl Drop for HeartbeatAnswers {
    fn drop(&mut self) {
        lock(&self.shared.0).is_over = true;
        self.shared.1.notify_all();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{RecvTimeoutError, channel};

    #[test]
    fn waits_are_answered_without_a_question() {
        let (interval, long) = (Duration::from_millis(5), Duration::from_secs(20));
        let (to, answers) = channel();
        let alive = HeartbeatAnswers::start_with(interval, move || to.send(()).is_ok()).unwrap();
        assert_eq!(answers.recv_timeout(interval * 10), Err(RecvTimeoutError::Timeout));
        alive.answer();
        answers.recv_timeout(long).unwrap();
        assert_eq!(answers.recv_timeout(interval * 10), Err(RecvTimeoutError::Timeout));
        alive.while_passing(|| (0..3).for_each(|_| answers.recv_timeout(long).unwrap()));
        drop(alive);
        // The thread ends, and with it the other end of the queue.
        while answers.recv_timeout(long).is_ok() {}
        assert_eq!(answers.recv_timeout(long), Err(RecvTimeoutError::Disconnected));
    }
}

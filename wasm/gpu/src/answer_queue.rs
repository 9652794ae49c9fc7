//! The answers of a worker that wait to be written: the thread that drives the device never waits for its parent.

use crate::protocol::{Answer, ProtocolError};
use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of bytes of outputs that wait. The device waits only above it.
const MAX_WAITING_BYTES: usize = 512 << 20;
/// Number of waiting answers that wakes the writer. To wake it for each would cost more than all else that the device's
/// thread does for a result.
const WAKING_ANSWERS: usize = 1024;
/// Interval at which the writer looks for fewer answers.
const TICK: Duration = Duration::from_millis(5);
/// Bytes that the writer writes before it makes room for more.
const RELEASED_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
struct State {
    answers: VecDeque<Answer>,
    bytes: usize,
    closed: bool,
    /// The parent does not read any more.
    broken: bool,
}

/// A queue of answers with one writer.
#[derive(Debug, Default)]
pub(crate) struct AnswerQueue {
    state: Mutex<State>,
    changed: Condvar,
}

impl AnswerQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, TICK);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Makes room for more answers after `bytes` bytes were written.
    fn release(&self, bytes: usize) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        self.changed.notify_all();
    }

    /// Adds an answer. Waits while the outputs of waiting answers exceed their maximum.
    ///
    /// # Errors
    /// A message, when the writer has failed.
    pub fn push(&self, answer: Answer) -> Result<(), String> {
        let mut state = self.lock();
        while state.bytes > MAX_WAITING_BYTES && !state.broken {
            state = self.wait(state);
        }
        if state.broken {
            return Err("the parent process does not read results".into());
        }
        state.bytes = state.bytes.saturating_add(answer.content_bytes());
        state.answers.push_back(answer);
        if state.answers.len().is_multiple_of(WAKING_ANSWERS) {
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Ends the writer after the last answer.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Writes answers until the queue is closed and empty. The stream is flushed when no answer waits.
    ///
    /// # Errors
    /// When an answer cannot be written.
    pub fn write_all(&self, to: &mut dyn Write) -> Result<(), ProtocolError> {
        loop {
            let mut state = self.lock();
            while state.answers.is_empty() && !state.closed {
                state = self.wait(state);
            }
            if state.answers.is_empty() {
                return Ok(());
            }
            let answers = std::mem::take(&mut state.answers);
            drop(state);
            let mut result = Ok(());
            let mut written = 0;
            for answer in answers {
                result = answer.write(to);
                if result.is_err() {
                    break;
                }
                written += answer.content_bytes();
                if written >= RELEASED_BYTES {
                    self.release(std::mem::take(&mut written));
                }
            }
            self.release(written);
            let result = result.and_then(|()| Ok(to.flush()?));
            if result.is_err() {
                let mut state = self.lock();
                state.broken = true;
                self.changed.notify_all();
                return result;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Fails after some bytes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or_else(|| std::io::Error::other("full"))?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn answers_are_written_in_their_order() {
        let queue = AnswerQueue::default();
        let mut bytes = Vec::new();
        thread::scope(|scope| {
            let writer = scope.spawn(|| queue.write_all(&mut bytes));
            for copies in 0..1000 {
                queue.push(Answer::Started(copies)).unwrap();
            }
            queue.close();
            writer.join().unwrap().unwrap();
        });
        let mut from = bytes.as_slice();
        for copies in 0..1000 {
            assert_eq!(Answer::read(&mut from).unwrap(), Some(Answer::Started(copies)));
        }
        assert_eq!(Answer::read(&mut from).unwrap(), None);
    }

    #[test]
    fn a_stream_that_fails_ends_the_pushes() {
        let queue = AnswerQueue::default();
        thread::scope(|scope| {
            let writer = scope.spawn(|| queue.write_all(&mut Full(40)));
            while queue.push(Answer::Alive).is_ok() {}
            assert!(writer.join().unwrap().is_err());
        });
    }
}

//! Runs that the broker delivered to a target of this worker, in their order, until the target takes them.

use crate::held_list::HeldList;
use crate::held_message::HeldMessage;
use async_nats::jetstream::Message;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The runs that were delivered to a target and wait for it.
pub struct Arrivals {
    messages: Mutex<VecDeque<HeldMessage>>,
    arrived: Notify,
    /// The messages that the worker has.
    held: Arc<HeldList>,
    /// Duration of a lease.
    lease: Duration,
}

impl Arrivals {
    /// Creates an empty queue, whose messages are extended for the duration of a lease.
    #[must_use]
    pub fn new(held: Arc<HeldList>, lease: Duration) -> Self {
        Self {
            messages: Mutex::default(),
            arrived: Notify::new(),
            held,
            lease,
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<HeldMessage>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the duration of a lease.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Takes a message from the broker. Returns `None` if this worker has it already.
    pub fn hold(&self, message: Message) -> Option<HeldMessage> {
        HeldMessage::new(message, Arc::clone(&self.held), self.lease)
    }

    /// Adds a message that the broker delivered, unless this worker has it.
    pub fn add(&self, message: Message) {
        if let Some(message) = self.hold(message) {
            self.lock().push_back(message);
            self.arrived.notify_one();
        }
    }

    /// Takes the first run.
    pub fn pop(&self) -> Option<HeldMessage> {
        self.lock().pop_front()
    }

    /// Returns the number of runs that wait.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether no run waits.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Waits until a run is there.
    pub async fn wait(&self) {
        while self.is_empty() {
            self.arrived.notified().await;
        }
    }
}

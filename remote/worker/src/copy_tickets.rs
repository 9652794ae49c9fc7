//! Tickets of ranges of the staging area, and when they are free again.
#![allow(unsafe_code, reason = "calls of the driver on its own events")]

use crate::lock;
use cuda_driver::{CuEvent, Driver, INVALID_CONTEXT, NOT_READY};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Mutex;

/// Results of calls that a capture forbids.
const CAPTURE_ERRORS: std::ops::RangeInclusive<u32> = 900..=908;

/// A copy that reads a staging range until its event is complete.
struct PendingCopy {
    ticket: u64,
    event: usize,
}

#[derive(Default)]
struct Tickets {
    /// Copies in the order of their calls.
    pending: VecDeque<PendingCopy>,
    /// Tickets that are done, above `released`.
    done: BTreeSet<u64>,
    /// All lower tickets are done.
    released: u64,
}

/// Copies that read the staging area.
#[derive(Default)]
pub struct CopyTickets {
    tickets: Mutex<Tickets>,
}

impl Tickets {
    fn finish(&mut self, ticket: u64) {
        if ticket < self.released {
            return;
        }
        self.done.insert(ticket);
        while self.done.remove(&self.released) {
            self.released += 1;
        }
    }

    /// Takes out copies that are complete, up to the first one that is not.
    fn poll(&mut self, driver: &Driver) {
        while let Some(copy) = self.pending.front() {
            let event: CuEvent = std::ptr::with_exposed_provenance_mut(copy.event);
            // SAFETY: the event is one of this module.
            let state = unsafe { driver.cuEventQuery(event) };
            let result = state.map_or_else(|e| e.result().unwrap_or(0), |()| 0);
            // A capture can forbid the question, and a thread without a context cannot ask.
            if matches!(result, NOT_READY | INVALID_CONTEXT) || CAPTURE_ERRORS.contains(&result) {
                return;
            }
            // Complete, or the context has an error: nothing reads the range any more.
            // SAFETY: as above; nothing uses the event after this.
            let _ = unsafe { driver.cuEventDestroy_v2(event) };
            let ticket = copy.ticket;
            self.pending.pop_front();
            self.finish(ticket);
        }
    }
}

impl CopyTickets {
    /// Returns the ticket below which all ranges are free.
    pub fn released(&self, driver: &Driver) -> u64 {
        let mut tickets = lock(&self.tickets);
        tickets.poll(driver);
        tickets.released
    }

    /// Notes a copy that reads a range until its event is complete.
    pub fn add(&self, ticket: u64, event: CuEvent) {
        lock(&self.tickets).pending.push_back(PendingCopy {
            ticket,
            event: event.expose_provenance(),
        });
    }

    /// Waits for all copies: their events end with their context.
    pub fn settle(&self, driver: &Driver) {
        let mut tickets = lock(&self.tickets);
        while let Some(copy) = tickets.pending.pop_front() {
            let event: CuEvent = std::ptr::with_exposed_provenance_mut(copy.event);
            // SAFETY: the event is one of this module, and nothing uses it after this. Failures do not matter: a context
            // with an error copies nothing.
            let _ = unsafe {
                let waited = driver.cuEventSynchronize(event);
                (waited, driver.cuEventDestroy_v2(event))
            };
            tickets.finish(copy.ticket);
        }
    }

    /// Notes that nothing reads a range any more.
    pub fn finish(&self, ticket: u64) {
        lock(&self.tickets).finish(ticket);
    }

    /// Frees a range that no copy uses. A range of a copy in progress stays.
    pub fn finish_unused(&self, ticket: u64) {
        let mut tickets = lock(&self.tickets);
        if !tickets.pending.iter().any(|copy| copy.ticket == ticket) {
            tickets.finish(ticket);
        }
    }

    /// Returns whether the range with a ticket is free.
    pub fn is_free(&self, driver: &Driver, ticket: u64) -> bool {
        self.released(driver) > ticket
    }
}

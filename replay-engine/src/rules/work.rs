//! The work of one verification, counted in steps, with a limit and cancellation.

use super::reason::Reason;
use std::cell::Cell;
use trace_core::progress::Progress;

/// Maximum number of steps of one verification. A step is a page-table entry, a page or block that an entry maps, or an
/// action; a job header costs [`HEADER`] steps, a page image [`IMAGE`], a page of an output [`OUTPUT_PAGE`]. The
/// published recordings need fewer than a million steps.
pub const MAX_STEPS: u64 = 1 << 31;

/// Steps for a page table.
pub(crate) const TABLE: u64 = 512;
/// Steps for a job header.
pub(crate) const HEADER: u64 = 32;
/// Steps for a page image, whose digest is computed.
pub(crate) const IMAGE: u64 = 64;
/// Steps for a page of an output.
pub(crate) const OUTPUT_PAGE: u64 = 4;

/// Number of steps between two checks of the progress.
const LOOK_EVERY: u64 = 4096;

/// Counts the steps of one verification.
#[derive(Debug)]
pub struct Work<'a> {
    limit: u64,
    done: Cell<u64>,
    look_at: Cell<u64>,
    progress: &'a Progress,
}

impl<'a> Work<'a> {
    /// Creates a limit of `limit` steps, which is cancelled with `progress`. Nothing else of the progress is used.
    #[must_use]
    pub fn new(limit: u64, progress: &'a Progress) -> Self {
        Self {
            limit,
            done: Cell::new(0),
            look_at: Cell::new(0),
            progress,
        }
    }

    /// Returns the number of steps so far.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.get()
    }

    /// Consumes steps. Returns an error if the limit is exceeded, or the verification was cancelled.
    pub(crate) fn spend(&self, steps: u64) -> Result<(), Reason> {
        let done = self.done.get().saturating_add(steps);
        self.done.set(done);
        if done > self.limit {
            return Err(Reason::Budget {
                what: "steps of the check".to_owned(),
                needed: done,
                budget: self.limit,
            });
        }
        if done >= self.look_at.get() {
            self.look_at.set(done.saturating_add(LOOK_EVERY));
            if self.progress.check().is_err() {
                return Err(Reason::GivenUp);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_at_its_limit_or_when_it_is_cancelled() {
        let progress = Progress::new();
        let work = Work::new(10_000, &progress);
        assert_eq!(work.spend(9_999), Ok(()));
        assert_eq!(work.spend(1), Ok(()));
        let over = Reason::Budget {
            what: "steps of the check".to_owned(),
            needed: 10_001,
            budget: 10_000,
        };
        assert_eq!(work.spend(1), Err(over));
        let work = Work::new(u64::MAX, &progress);
        assert_eq!(work.spend(5), Ok(()));
        progress.cancel();
        assert_eq!((0..).find(|_| work.spend(1).is_err()), Some(LOOK_EVERY - 1));
        assert_eq!(work.spend(LOOK_EVERY), Err(Reason::GivenUp));
    }
}

//! Reasons for a workgroup to stop early, and budgets of execution.

use crate::fault::Fault;
use trace_core::GpuVa;
use trace_core::progress::Progress;

/// Reason why a workgroup stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The workgroup caused an exception of the hardware.
    Fault(Fault),
    /// The workgroup reached an operation that this model does not implement.
    Unimplemented {
        /// Address of the clause.
        pc: GpuVa,
        /// Name of the operation, or its bits if it has no name.
        name: Box<str>,
    },
    /// The workgroup or its job exceeded its budget of clauses, or its shader has more clauses than may be read.
    Budget,
    /// The work was cancelled.
    Cancelled,
    /// The workgroup ran speculatively and needs more than speculative work may use. It runs again in order. An
    /// executor returns this like every other stop.
    Retry,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Statistics of workgroups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    /// Executed clauses, counted once for each wave of 32 threads.
    pub clauses: u64,
    /// Executed operations, counted once for each active lane.
    pub lane_ops: u64,
    /// Clauses of shaders that were read before their first thread.
    pub read: u64,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.clauses = self.clauses.saturating_add(other.clauses);
        self.lane_ops = self.lane_ops.saturating_add(other.lane_ops);
        self.read = self.read.saturating_add(other.read);
    }
}

/// Number of clauses between two checks for cancellation.
const SLICE: u64 = 1 << 16;

/// Counter of the clauses of a shader that are read.
#[derive(Debug)]
pub(crate) struct ReadMeter<'a> {
    left: u64,
    /// Number of clauses read.
    pub read: u64,
    progress: Option<&'a Progress>,
}

/// Number of clauses that are read between two checks for cancellation. Reading a clause takes some hundred times the
/// work of executing one.
const READ_SLICE: u64 = 1 << 10;

impl<'a> ReadMeter<'a> {
    /// Creates a meter that permits `left` clauses.
    pub(crate) fn new(left: u64, progress: Option<&'a Progress>) -> Self {
        Self {
            left,
            read: 0,
            progress,
        }
    }

    /// Pays for one clause.
    pub(crate) fn clause(&mut self) -> Result<(), Stop> {
        if self.read.is_multiple_of(READ_SLICE) && self.progress.is_some_and(|p| p.check().is_err()) {
            return Err(Stop::Cancelled);
        }
        if self.read == self.left {
            return Err(Stop::Budget);
        }
        self.read += 1;
        Ok(())
    }
}

/// Number of clauses that one wave may still execute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fuel(u64);

/// Counter of executed clauses, which stops execution when the budget is exhausted or the work is cancelled.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    wave: u64,
    /// Remaining clauses of the current slice.
    slice: u64,
    /// Remaining clauses after the current slice.
    reserve: u64,
    /// Initial number of clauses.
    granted: u64,
    /// Whether the work is speculative: an in-order run may have a larger budget.
    ahead: bool,
    progress: Option<&'a Progress>,
    /// Operations, counted once for each active lane. The executor increments it.
    pub lane_ops: u64,
}

impl<'a> Meter<'a> {
    /// Creates a meter with this many clauses. With `ahead`, an exhausted meter only means that the work must run
    /// in order.
    pub(crate) fn new(wave: u64, clauses: u64, ahead: bool, progress: Option<&'a Progress>) -> Self {
        Self {
            wave,
            slice: 0,
            reserve: clauses,
            granted: clauses,
            ahead,
            progress,
            lane_ops: 0,
        }
    }

    /// Returns the initial fuel of a wave.
    pub(crate) fn fuel(&self) -> Fuel {
        Fuel(self.wave)
    }

    /// Pays for one clause of a wave.
    #[inline(always)]
    pub(crate) fn clause(&mut self, fuel: &mut Fuel) -> Result<(), Stop> {
        if self.slice == 0 || fuel.0 == 0 {
            self.refill(fuel)?;
        }
        self.slice -= 1;
        fuel.0 -= 1;
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self, fuel: &Fuel) -> Result<(), Stop> {
        if self.progress.is_some_and(|p| p.check().is_err()) {
            return Err(Stop::Cancelled);
        }
        if fuel.0 == 0 {
            // Speculative work may have looped over words that are written before its in-order run.
            return Err(if self.ahead { Stop::Retry } else { Stop::Budget });
        }
        if self.reserve == 0 {
            return Err(if self.ahead { Stop::Retry } else { Stop::Budget });
        }
        self.slice = self.reserve.min(SLICE);
        self.reserve -= self.slice;
        Ok(())
    }

    /// Returns the statistics so far.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            clauses: self.granted - self.reserve - self.slice,
            lane_ops: self.lane_ops,
            read: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meter_stops_at_the_exact_clause() {
        for (clauses, wave, done) in [(200_000, u64::MAX, 200_000), (u64::MAX, 70_001, 70_001), (0, 5, 0)] {
            for speculative in [false, true] {
                let mut m = Meter::new(wave, clauses, speculative, None);
                let mut fuel = m.fuel();
                let mut n = 0;
                let stop = loop {
                    match m.clause(&mut fuel) {
                        Ok(()) => n += 1,
                        Err(stop) => break stop,
                    }
                };
                assert_eq!((n, m.stats().clauses), (done, done));
                assert_eq!(stop, if speculative { Stop::Retry } else { Stop::Budget });
            }
        }
    }

    #[test]
    fn a_cancelled_meter_ends_within_a_slice() {
        let progress = Progress::new();
        let mut m = Meter::new(u64::MAX, u64::MAX, false, Some(&progress));
        let mut fuel = m.fuel();
        assert_eq!(m.clause(&mut fuel), Ok(()));
        progress.cancel();
        let more = (0..SLICE).find_map(|_| m.clause(&mut fuel).err());
        assert_eq!(more, Some(Stop::Cancelled));
    }

    #[test]
    fn shader_decoding_stops_at_its_clause_limit_or_on_cancel() {
        let mut r = ReadMeter::new(5000, None);
        assert_eq!((0..9000).filter(|_| r.clause().is_ok()).count(), 5000);
        assert_eq!((r.clause(), r.read), (Err(Stop::Budget), 5000));
        let progress = Progress::new();
        let mut r = ReadMeter::new(u64::MAX, Some(&progress));
        assert_eq!(r.clause(), Ok(()));
        progress.cancel();
        assert_eq!((0..READ_SLICE).find_map(|_| r.clause().err()), Some(Stop::Cancelled));
    }
}

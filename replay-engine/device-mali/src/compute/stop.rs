//! Why a workgroup stops before its end, and what it may spend until then.

use crate::fault::Fault;
use trace_core::progress::Progress;

/// Why a workgroup stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It did what the hardware answers with an exception.
    Fault(Fault),
    /// It came to an operation that this model does not implement.
    Unimplemented {
        /// Address of the clause.
        pc: u64,
        /// The operation, or its bits where it has no name.
        name: Box<str>,
    },
    /// It, or its job, executed more clauses than it may, or its shader has more than may be read.
    Budget,
    /// Nobody wants the result any more.
    Cancelled,
    /// It ran ahead of its turn and needs more than such work is given: it runs again when its turn comes. An executor
    /// hands this on as it hands on every other stop.
    Retry,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// What workgroups did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    /// Clauses, one for each wave of 32 threads that executed it.
    pub clauses: u64,
    /// Operations, one for each active lane.
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

/// What a job may execute, and what of a chain may be read. The numbers are clauses and never times, so that a job ends at the same one every time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Clauses of one wave. A wave is 32 threads of a workgroup, whatever the width of a warp of the GPU: a clause that
    /// several of its threads execute together counts once.
    pub wave: u64,
    /// Clauses of all waves of a job.
    pub job: u64,
    /// Clauses of the shaders of a chain. They are read and translated for each job anew, before its first thread.
    pub read: u64,
}

/// Clauses between two looks at whether the work was cancelled.
const SLICE: u64 = 1 << 16;

/// Counts the clauses of a shader that are read.
#[derive(Debug)]
pub(crate) struct ReadMeter<'a> {
    left: u64,
    /// Clauses that were read.
    pub read: u64,
    progress: Option<&'a Progress>,
}

/// Clauses that are read between two looks at whether the work was cancelled: each is some hundred times the work of
/// one that is executed.
const READ_SLICE: u64 = 1 << 10;

impl<'a> ReadMeter<'a> {
    /// So many clauses may be read.
    pub(crate) fn new(left: u64, progress: Option<&'a Progress>) -> Self {
        Self {
            left,
            read: 0,
            progress,
        }
    }

    /// Pays for a clause.
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

/// Clauses that one wave may still execute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fuel(u64);

/// Counts what is executed, and ends it when the budget is spent or nobody wants the result.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    wave: u64,
    /// Left of the slice under way.
    slice: u64,
    /// Left beyond that.
    reserve: u64,
    /// All that there was.
    granted: u64,
    /// Whether more may be had by running in turn.
    ahead: bool,
    progress: Option<&'a Progress>,
    /// Operations, one for each active lane; the executor adds to it.
    pub lane_ops: u64,
}

impl<'a> Meter<'a> {
    /// A meter with this many clauses to spend. `ahead`: running out of them says only that the work must run in turn.
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

    /// What a wave starts with.
    pub(crate) fn fuel(&self) -> Fuel {
        Fuel(self.wave)
    }

    /// Pays for a clause of a wave.
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
            // What ran ahead may have looped over words that its turn will find written.
            return Err(if self.ahead { Stop::Retry } else { Stop::Budget });
        }
        if self.reserve == 0 {
            return Err(if self.ahead { Stop::Retry } else { Stop::Budget });
        }
        self.slice = self.reserve.min(SLICE);
        self.reserve -= self.slice;
        Ok(())
    }

    /// What was executed so far.
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
    fn a_meter_ends_at_the_very_clause() {
        for (clauses, wave, done) in [(200_000, u64::MAX, 200_000), (u64::MAX, 70_001, 70_001), (0, 5, 0)] {
            for ahead in [false, true] {
                let mut m = Meter::new(wave, clauses, ahead, None);
                let mut fuel = m.fuel();
                let mut n = 0;
                let stop = loop {
                    match m.clause(&mut fuel) {
                        Ok(()) => n += 1,
                        Err(stop) => break stop,
                    }
                };
                assert_eq!((n, m.stats().clauses), (done, done));
                assert_eq!(stop, if ahead { Stop::Retry } else { Stop::Budget });
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
    fn reading_ends_at_the_very_clause_and_soon_when_nobody_wants_it() {
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

//! Measurement of the time of a repeated operation.

use std::time::{Duration, Instant};

/// Minimum duration of a round for a precise measurement.
const ROUND: Duration = Duration::from_millis(20);

/// A measured time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Nanoseconds per operation, in the fastest round.
    pub ns: f64,
    /// Number of measured rounds.
    pub rounds: u32,
    /// Number of operations per round.
    pub count: u32,
}

/// Measures `many(count)`, which runs an operation `count` times and waits for it. The measurement takes about
/// `seconds`, and has at least three rounds. A round takes at least 20 ms, or has 65536 operations.
///
/// # Errors
/// Returns the first error of `many`.
pub fn measure<E>(seconds: f64, mut many: impl FnMut(u32) -> Result<(), E>) -> Result<Measurement, E> {
    let (begin, total) = (Instant::now(), Duration::from_secs_f64(seconds.clamp(0.0, 600.0)));
    let mut best = Measurement {
        ns: f64::INFINITY,
        rounds: 0,
        count: 1,
    };
    while best.rounds < 3 || begin.elapsed() < total {
        let round = Instant::now();
        many(best.count)?;
        let took = round.elapsed();
        if took < ROUND && best.count < 1 << 16 {
            best.count *= 2;
            continue;
        }
        best.rounds += 1;
        best.ns = best.ns.min(took.as_nanos() as f64 / f64::from(best.count));
    }
    Ok(best)
}

//! The time of something that is done again and again.

use std::time::{Duration, Instant};

/// Shortest round that a clock is trusted with.
const ROUND: Duration = Duration::from_millis(20);

/// A measured time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Nanoseconds of one, in the quickest round.
    pub ns: f64,
    /// Rounds that were measured.
    pub rounds: u32,
    /// How often it was done in a round.
    pub count: u32,
}

/// Measures rounds of `many(count)`, which does something `count` times and waits for it, for about `seconds` and for
/// three rounds at least. A round is as many as take 20 ms.
///
/// # Errors
/// The first that `many` gives.
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

//! `replay --guard`: prints the summary of guarded replays.

use crate::cli::failure::complain;
use crate::cli::{Exit, Failure, Out};
use kinescope_session::replay::guard::GuardedSummary;

/// Prints the summary of guarded replays.
pub(super) fn print(all: &GuardedSummary, out: &mut Out) -> Result<Exit, Failure> {
    let exit = Exit::differs_if(all.past.is_some() || all.failure.is_some());
    if out.is_json() {
        out.value(all)?;
        return Ok(exit);
    }
    out.line(all.describe())?;
    for line in all.describe_unguarded() {
        out.line(line)?;
    }
    for limit in all.describe_limits() {
        complain(limit);
    }
    if let Some(past) = &all.past {
        out.line(past.describe())?;
    }
    Ok(exit)
}

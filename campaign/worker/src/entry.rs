//! All that this crate reads of others, for fuzzing: entries of the broker, and the list of an earlier process.

use crate::attempts::Attempts;
use crate::held_list::{self, is_subject};
use crate::worker_list::WorkerReport;

/// Maximum size of an entry that is written and read again, bytes.
const MAX_REPEATED_BYTES: usize = 32 << 10;
/// First line of a list of held messages.
const HEAD: &str = "broker \"nats://broker\"\n";

/// Parses a list of held messages, a worker's report and the attempts of a run. Returns whether the bytes are one of them.
///
/// # Panics
/// If a parsed entry breaks its limits.
#[must_use]
pub fn parse_entry(bytes: &[u8]) -> bool {
    let held = held_list::parse(HEAD, &String::from_utf8_lossy(bytes));
    assert!(held.iter().all(|subject| is_subject(subject)));
    let report = WorkerReport::parse(bytes);
    let attempts = Attempts::parse(bytes);
    // An entry that was read can be written and read again, unless it is near the limit of its size.
    assert!(bytes.len() > MAX_REPEATED_BYTES || Attempts::parse(&attempts.encode()) == attempts);
    !held.is_empty() || report.is_some() || attempts.holder.is_some()
}

//! Rate-limited log lines about unknown clients: the first at once, then one count per second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval between two lines about the same topic.
const PAUSE: Duration = Duration::from_secs(1);

/// The topic of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogTopic {
    /// A connection for which there was no room.
    Dropped,
    /// A connection that the system did not accept, or that got no thread.
    NotTaken,
    /// A connection that ended before its client was known.
    Ended,
    /// A key that is not paired, or has reached its share.
    Refused,
}

const MATTERS: [LogTopic; 4] = [
    LogTopic::Dropped,
    LogTopic::NotTaken,
    LogTopic::Ended,
    LogTopic::Refused,
];

impl LogTopic {
    /// Returns the description for several connections.
    fn plural(self) -> &'static str {
        match self {
            Self::Dropped => "connections were dropped",
            Self::NotTaken => "connections could not be accepted",
            Self::Ended => "connections of unknown clients ended",
            Self::Refused => "connections were refused",
        }
    }
}

/// The pending log message of one topic.
#[derive(Debug, Default)]
struct LogCount {
    /// Time of the last line, or `None` if the next one is written at once.
    since: Option<Instant>,
    /// Number of events since then, and the reason of the last one.
    more: u64,
    latest: String,
}

/// The log lines of a server about unknown clients.
#[derive(Debug, Default)]
pub(super) struct UnknownClientLog(Mutex<[LogCount; MATTERS.len()]>);

impl UnknownClientLog {
    fn with<T>(&self, matter: LogTopic, work: impl FnOnce(&mut LogCount) -> T) -> Option<T> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = MATTERS.iter().position(|m| *m == matter)?;
        counts.get_mut(at).map(work)
    }

    /// Returns the line to write now for an event, or counts the event.
    fn line(&self, matter: LogTopic, line: &str, now: Instant) -> Option<String> {
        self.with(matter, |count| {
            if count.since.is_none() {
                count.since = Some(now);
                return Some(line.to_owned());
            }
            count.more += 1;
            line.clone_into(&mut count.latest);
            None
        })?
    }

    /// Returns the line to write now for the counted events.
    fn summary(&self, matter: LogTopic, now: Instant) -> Option<String> {
        self.with(matter, |count| {
            if now.saturating_duration_since(count.since?) < PAUSE {
                return None;
            }
            if count.more == 0 {
                count.since = None;
                return None;
            }
            count.since = Some(now);
            let (more, latest) = (std::mem::take(&mut count.more), std::mem::take(&mut count.latest));
            Some(format!("{more} more {} (the latest: {latest})", matter.plural()))
        })?
    }

    /// Logs an event.
    pub fn note(&self, matter: LogTopic, line: &str) {
        if let Some(line) = self.line(matter, line, Instant::now()) {
            tracing::warn!("{line}");
        }
    }

    /// Writes due summaries. Called several times a second.
    pub fn settle(&self) {
        for matter in MATTERS {
            if let Some(line) = self.summary(matter, Instant::now()) {
                tracing::warn!("{line}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_messages_fold_into_one_count_per_second() {
        let (log, begin) = (UnknownClientLog::default(), Instant::now());
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let matter = LogTopic::Dropped;
        assert_eq!(log.line(matter, "a", at(0)).as_deref(), Some("a"));
        for n in 1..900 {
            assert_eq!(log.line(matter, "b", at(n)), None);
            assert_eq!(log.summary(matter, at(n)), None);
        }
        let line = log.summary(matter, at(1000)).unwrap();
        assert_eq!(line, "899 more connections were dropped (the latest: b)");
        // Another topic is logged independently.
        assert_eq!(log.line(LogTopic::Ended, "c", at(1000)).as_deref(), Some("c"));
        // A message after a quiet second is logged at once.
        assert_eq!(log.summary(matter, at(2000)), None);
        assert_eq!(log.line(matter, "d", at(2001)).as_deref(), Some("d"));
    }
}

//! The program log of actions and errors, for the Log panel and the crash report.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Instant;

/// Severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// An action was done.
    Info,
    /// An unusual condition.
    Warning,
    /// An action failed.
    Error,
}

/// A line of the log.
#[derive(Clone, Debug)]
pub struct Line {
    /// Seconds since the program started, as text.
    pub time: String,
    /// Severity.
    pub level: Level,
    /// Message.
    pub text: String,
}

/// Maximum number of lines kept.
const MAX_LINES: usize = 2_000;

#[derive(Default)]
struct Store {
    lines: VecDeque<Line>,
    added: u64,
}

fn store() -> MutexGuard<'static, Store> {
    static LINES: OnceLock<Mutex<Store>> = OnceLock::new();
    LINES
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// Adds a line.
pub fn push(level: Level, text: impl Into<String>) {
    let text = text.into();
    match level {
        Level::Info => tracing::info!("{text}"),
        Level::Warning => tracing::warn!("{text}"),
        Level::Error => tracing::error!("{text}"),
    }
    let time = format!("{:9.3} s", start().elapsed().as_secs_f64());
    let mut store = store();
    if store.lines.len() >= MAX_LINES {
        store.lines.pop_front();
    }
    store.lines.push_back(Line { time, level, text });
    store.added += 1;
}

/// Returns the number of lines that were ever added.
#[must_use]
pub fn total_lines() -> u64 {
    store().added
}

/// Calls `at` with the stored lines, oldest first, without copying them.
pub fn with_lines<T>(at: impl FnOnce(&VecDeque<Line>) -> T) -> T {
    at(&store().lines)
}

/// Returns the log as text, one entry per line.
#[must_use]
pub fn text() -> String {
    store()
        .lines
        .iter()
        .map(|l| format!("{} {:?} {}\n", l.time, l.level, l.text))
        .collect()
}

//! The report: areas with their checks, as text and as JSON.

use serde::Serialize;
use std::fmt;

/// State of a check. Only the command line checks the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It works.
    Ok,
    /// It works with a limit, or an optional part is absent.
    Note,
    /// The area does not work without it.
    Missing,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` keeps the width of the caller's format string.
        f.pad(match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Missing => "missing",
        })
    }
}

/// Result of one check. Only the command line checks the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Name of the check; for a device node its path.
    pub check: String,
    /// `ok`, `note` (it works with a limit, or an optional part is absent) or `missing` (the area does not work without
    /// it).
    pub state: State,
    /// What was found, in words.
    pub found: String,
    /// How to mend it, in words; `None` if there is nothing to do.
    pub mend: Option<String>,
}

impl Check {
    /// Returns a check of something that works.
    pub fn ok(check: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(check.into(), State::Ok, found.into())
    }

    /// Returns a check of something that is limited or optional.
    pub fn note(check: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(check.into(), State::Note, found.into())
    }

    /// Returns a check of something that the area needs and that is absent or broken.
    pub fn missing(check: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(check.into(), State::Missing, found.into())
    }

    fn new(check: String, state: State, found: String) -> Self {
        Self {
            check: to_one_line(&check),
            state,
            found: to_one_line(&found),
            mend: None,
        }
    }

    /// Adds how to mend it.
    #[must_use]
    pub fn with_mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(to_one_line(&mend.into()));
        self
    }
}

/// Replaces control characters, which errors of libraries and variables of the environment may contain.
fn to_one_line(text: &str) -> String {
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    visible.collect::<String>().trim().to_owned()
}

/// Returns the command that installs packages.
pub fn describe_install(packages: &str) -> String {
    format!("on Debian and Ubuntu, run `sudo apt-get install {packages}`")
}

/// A group of checks that serve one purpose. Only the command line checks the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Area {
    /// Name of the area.
    pub area: &'static str,
    /// What the area is for.
    pub purpose: &'static str,
    /// Whether no check of the area is `missing`.
    pub ready: bool,
    /// The checks.
    pub checks: Vec<Check>,
}

impl Area {
    /// Returns an area with its checks.
    pub fn new(area: &'static str, purpose: &'static str, checks: Vec<Check>) -> Self {
        Self {
            area,
            purpose,
            ready: checks.iter().all(|c| c.state != State::Missing),
            checks,
        }
    }
}

/// The result of all checks. Only the command line checks the machine.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether the program can replay in a simulator, and draw off-screen or in a window; the exit code is 1 if not.
    pub basis: bool,
    /// Number of areas that are ready.
    pub areas_ready: usize,
    /// All areas.
    pub areas: Vec<Area>,
}

impl Report {
    /// Returns the report on these areas.
    pub fn new(basis: bool, areas: Vec<Area>) -> Self {
        Self {
            basis,
            areas_ready: areas.iter().filter(|a| a.ready).count(),
            areas,
        }
    }

    /// Returns the report as lines of text. All areas have the same columns.
    pub fn lines(&self) -> Vec<String> {
        let checks = self.areas.iter().flat_map(|a| &a.checks);
        let width = checks.map(|c| c.check.chars().count()).max().unwrap_or(0);
        let mut lines = Vec::new();
        for area in &self.areas {
            lines.push(format!("{}: {}", area.area, area.purpose));
            for c in &area.checks {
                lines.push(format!("  {:<7}  {:<width$}  {}", c.state, c.check, c.found));
                let mend = c.mend.iter().map(|m| format!("  {:<7}  {:<width$}  mend: {m}", "", ""));
                lines.extend(mend);
            }
            lines.push(String::new());
        }
        if !self.basis {
            lines.push(
                "The basis is broken: Kinescope needs a simulator, and a way to draw off-screen or in a window."
                    .to_owned(),
            );
        }
        lines.push(format!("{} of {} areas ready", self.areas_ready, self.areas.len()));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_the_last_line_counts_areas() {
        let first = vec![
            Check::ok("a", "fine"),
            Check::note("longer", "one\ntwo").with_mend("do it"),
        ];
        let second = vec![Check::missing("b", "absent")];
        let areas = vec![Area::new("first", "to test", first), Area::new("second", "too", second)];
        let lines = Report::new(false, areas).lines();
        assert_eq!(
            lines,
            [
                "first: to test",
                "  ok       a       fine",
                "  note     longer  one two",
                "                   mend: do it",
                "",
                "second: too",
                "  missing  b       absent",
                "",
                "The basis is broken: Kinescope needs a simulator, and a way to draw off-screen or in a window.",
                "1 of 2 areas ready",
            ]
        );
    }

    #[test]
    fn a_note_leaves_an_area_ready() {
        let note = vec![Check::note("a", "b")];
        assert!(Area::new("x", "y", note).ready);
        assert!(!Area::new("x", "y", vec![Check::missing("a", "b")]).ready);
    }
}

//! The options of a tuning as the user gives them, and the request that they make for a launch of a recording.

use super::launches::{FindError, Launch, Launches};
use super::limit_tuning;
use super::tolerance::{ScopedRule, build_rules};
use replay_cuda::tune::{RecordedLaunch, Space, TuneError};
use replay_engine::tune::{Axes, ReplacementCode, Search, TuneRequest};
use std::time::Duration;
use trace_core::recording::Recording;

/// The options of a tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct TuneOptions {
    /// The launch: its event, or its kernel's name, with `:N` for launch number N of it; `None` for the only launch.
    pub launch: Option<String>,
    /// Values to try. Without any, and without other code, the launch decides.
    pub axes: Axes,
    /// Code to try instead of the recorded code.
    pub modules: Vec<ReplacementCode>,
    /// The search method.
    pub search: Search,
    /// Number of timed launches of each point.
    pub repeats: u32,
    /// Number of untimed launches of each point before those.
    pub warm_ups: u32,
    /// Tolerances of memory.
    pub tolerance: Vec<ScopedRule>,
    /// Time limit of one launch.
    pub launch_limit: Duration,
    /// Time limit of the whole tuning.
    pub time_limit: Duration,
}

/// Why options make no request for a recording.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The launch is not found.
    #[error(transparent)]
    Launch(#[from] FindError),
    /// A tolerance does not fit the launch.
    #[error("{0}")]
    Tolerance(String),
    /// The values cannot be tried.
    #[error(transparent)]
    Space(#[from] TuneError),
}

impl TuneOptions {
    /// Builds the request for a recording, and checks it.
    ///
    /// # Errors
    /// If the launch is not found, a tolerance does not fit it, or the values cannot be tried.
    pub fn request(&self, recording: &Recording, launches: &Launches) -> Result<TuneRequest, OptionsError> {
        let launch = launches.find(self.launch.as_deref())?;
        let (rule, areas) =
            build_rules(recording, launches, launch, &self.tolerance).map_err(OptionsError::Tolerance)?;
        let tune = TuneRequest {
            event: launch.event,
            axes: self.axes_for(launches, launch),
            modules: self.modules.clone(),
            search: self.search,
            repeats: self.repeats,
            warm_ups: self.warm_ups,
            areas,
            rule,
            limits: limit_tuning(self.launch_limit, self.time_limit),
            ..TuneRequest::default()
        };
        // Impossible requests are rejected before a target is opened.
        Space::new(&tune, &RecordedLaunch::from(&launch.row))?;
        Ok(tune)
    }

    fn axes_for(&self, launches: &Launches, launch: &Launch) -> Axes {
        if !self.axes.is_empty() || !self.modules.is_empty() {
            return self.axes.clone();
        }
        Axes {
            cover: self.axes.cover,
            ..launches.default_axes(launch)
        }
    }
}

/// Parses a search strategy: `grid`, `random:N`, `halving` or `halving:N`. Random numbers begin with `seed`; successive
/// halving keeps one point in `factor`.
///
/// # Errors
/// A description of the error if the text is no strategy.
pub fn parse_search(text: &str, seed: u64, factor: u32) -> Result<Search, String> {
    let bad = || format!("'{text}' is not a search strategy (expected grid, random:N, halving or halving:N)");
    let (name, points) = match text.split_once(':') {
        Some((name, n)) => (name, Some(n.parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(bad)?)),
        None => (text, None),
    };
    match (name, points) {
        ("grid", None) => Ok(Search::Grid),
        ("random", Some(points)) => Ok(Search::Random { points, seed }),
        ("halving", points) => Ok(Search::Halving {
            points: points.unwrap_or(0),
            seed,
            factor,
        }),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_read() {
        let search = |text: &str| parse_search(text, 7, 3);
        assert_eq!(search("grid"), Ok(Search::Grid));
        assert_eq!(search("random:30"), Ok(Search::Random { points: 30, seed: 7 }));
        let halving = |points| Search::Halving {
            points,
            seed: 7,
            factor: 3,
        };
        assert_eq!(search("halving"), Ok(halving(0)));
        assert_eq!(search("halving:9"), Ok(halving(9)));
        for bad in ["grid:3", "random", "random:0", "random:x", "walk"] {
            assert!(search(bad).is_err(), "{bad}");
        }
    }
}

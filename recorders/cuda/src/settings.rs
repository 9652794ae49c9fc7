//! Settings from the environment: which part of a program is recorded.

use crate::message::say;
use cuda_code::names::Patterns;
use cuda_session::Pick;
use std::path::PathBuf;

/// File of the recording. Without it nothing is recorded, and calls only pass through.
const RECORD_TO: &str = "KINESCOPE_RECORD_TO";
/// Approximate file size at which the recording ends while the program continues, bytes; 0 for no limit.
const RECORD_LIMIT: &str = "KINESCOPE_RECORD_LIMIT";
/// `whole`, `first:N` for the first N launches, or `marks` for the range between two marks.
const RANGE: &str = "KINESCOPE_CUDA_RANGE";
/// Patterns of names: launches of these functions are recorded one by one, with memory before and after, and nothing
/// else.
const KERNELS: &str = "KINESCOPE_CUDA_KERNELS";
/// Selected launches of each such function: `first`, `largest`, `every:N` or `all`.
const PICK: &str = "KINESCOPE_CUDA_PICK";
/// Maximum number of launches of each such function; 0 for any number.
const LIMIT_VARIABLE: &str = "KINESCOPE_CUDA_MOST";
/// `no`: the driver serves all allocations, and their addresses are recorded as they are.
const WINDOW: &str = "KINESCOPE_CUDA_WINDOW";
/// `no`: memory is copied to the host to find changes; `check`: both ways, which must agree.
const HASH: &str = "KINESCOPE_CUDA_HASH";
/// `yes`: prints the cost of memory snapshots at the end.
const STATS: &str = "KINESCOPE_CUDA_STATS";

/// The recorded part of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordedRange {
    /// The whole program.
    Whole,
    /// Up to and including this many launches.
    First(u64),
    /// The range between the program's marks.
    Marks,
}

/// Selection of launches that are recorded one by one.
#[derive(Debug)]
pub(crate) struct LaunchSelection {
    /// Names of functions.
    pub patterns: Patterns,
    /// The original text of the patterns.
    pub text: String,
    /// Selected launches of each function.
    pub pick: Pick,
    /// Maximum number of launches of each function.
    pub max_launches: Option<u64>,
}

/// Processor that checks memory for changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hashing {
    /// The device, if it is faster.
    Device,
    /// The host.
    Host,
    /// Both, and differences are reported.
    Check,
}

/// Settings from the environment.
#[derive(Debug)]
pub(crate) struct Settings {
    pub to: PathBuf,
    pub limit: Option<u64>,
    pub range: RecordedRange,
    pub kernels: Option<LaunchSelection>,
    pub window: bool,
    pub hashing: Hashing,
    pub stats: bool,
}

impl RecordedRange {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "whole" => Some(Self::Whole),
            "marks" => Some(Self::Marks),
            _ => text.strip_prefix("first:")?.parse().ok().map(Self::First),
        }
    }
}

impl Settings {
    /// Reads the settings. Returns `None` if nothing is recorded, with a message if a recording was requested.
    pub fn from_environment() -> Option<Self> {
        let to = std::env::var_os(RECORD_TO)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)?;
        let text = |name: &str| std::env::var(name).unwrap_or_default();
        let range = RecordedRange::parse(&text(RANGE)).unwrap_or_else(|| {
            say(format_args!(
                "{RANGE} is '{}' (expected whole, first:N or marks): the whole program is recorded",
                text(RANGE)
            ));
            RecordedRange::Whole
        });
        let kernels = match text(KERNELS) {
            none if none.is_empty() => None,
            patterns => match LaunchSelection::parse(patterns, &text(PICK), &text(LIMIT_VARIABLE)) {
                Ok(wanted) => Some(wanted),
                Err(why) => {
                    say(format_args!("nothing is recorded: {why}"));
                    return None;
                }
            },
        };
        Some(Self {
            to,
            limit: text(RECORD_LIMIT).parse().ok().filter(|n| *n > 0),
            range,
            kernels,
            window: text(WINDOW) != "no",
            hashing: match &*text(HASH) {
                "no" => Hashing::Host,
                "check" => Hashing::Check,
                _ => Hashing::Device,
            },
            stats: text(STATS) == "yes",
        })
    }

    /// Describes what is recorded, in the recording's wording.
    pub fn describe(&self) -> String {
        let range = match self.range {
            RecordedRange::Whole => "whole".to_owned(),
            RecordedRange::First(n) => format!("first {n} launches"),
            RecordedRange::Marks => "between marks".to_owned(),
        };
        let Some(wanted) = &self.kernels else { return range };
        let mut words = format!("{} of functions named {}", wanted.pick, wanted.text);
        if let Some(max) = wanted.max_launches {
            words.push_str(&format!(", at most {max} of each"));
        }
        if self.range != RecordedRange::Whole {
            words.push_str(&format!(", {range}"));
        }
        words
    }
}

impl LaunchSelection {
    fn parse(text: String, pick: &str, max: &str) -> Result<Self, String> {
        let patterns = Patterns::parse(&text).map_err(|e| format!("{KERNELS}: {e}"))?;
        let pick = match pick {
            "" => Some(Pick::First),
            pick => Pick::parse(pick),
        };
        let max = match max {
            "" => Some(0),
            max => max.parse::<u64>().ok(),
        };
        Ok(Self {
            patterns,
            text,
            pick: pick.ok_or_else(|| format!("{PICK} is not valid (expected first, largest, every:N or all)"))?,
            max_launches: Some(max.ok_or_else(|| format!("{LIMIT_VARIABLE} is not a number"))?).filter(|n| *n > 0),
        })
    }
}

//! The arguments of `tune` and their conversion to a request.

use crate::cli::Failure;
use crate::cli::failure::complain;
use clap::Args;
use kinescope_session::tuning::form::{DEFAULT_FACTOR, FACTORS};
use kinescope_session::tuning::launches::Launches;
use kinescope_session::tuning::options::{OptionsError, TuneOptions, parse_search};
use kinescope_session::tuning::tolerance::{ScopedRule, parse_scoped_rule};
use kinescope_session::tuning::{LAUNCH_LIMIT, TIME_LIMIT, code, lists};
use replay_engine::tune::{Axes, Bounds, Cache, ReplacementCode, Search, TuneRequest};
use std::path::{Path, PathBuf};
use std::time::Duration;
use trace_core::recording::Recording;

/// The list of values of one option.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Values {
    list: Vec<u32>,
    /// The typed part that excludes an end that would be a value, and that end.
    leaves_out: Option<(String, u32)>,
}

fn values(text: &str) -> Result<Values, String> {
    let list = lists::parse_list(text)?;
    if list.is_empty() {
        return Err("a list of values is empty (expected numbers, with commas between them)".to_owned());
    }
    let leaves_out = lists::find_omitted_end(text).map(|(item, end)| (item.to_owned(), end));
    Ok(Values { list, leaves_out })
}

/// The options of `tune`.
#[derive(Args, Clone, Debug, Default)]
pub struct TuneArguments {
    /// Launch to measure: its event, or its kernel's name (or a part of it), with :N for launch number N of it, from 0
    #[arg(long, value_name = "EVENT|KERNEL[:N]")]
    launch: Option<String>,
    /// Threads per block along x: 32,64,128 or 32..=1024 (doubling) or 64..=256+64 (steps); 32..1024 excludes 1024
    #[arg(long, value_name = "VALUES", value_parser = values)]
    block: Option<Values>,
    /// Threads per block along y
    #[arg(long, value_name = "VALUES", value_parser = values)]
    block_y: Option<Values>,
    /// Threads per block along z
    #[arg(long, value_name = "VALUES", value_parser = values)]
    block_z: Option<Values>,
    /// Blocks along x; by default the grid follows the block, so that all recorded threads are covered
    #[arg(long, value_name = "VALUES", value_parser = values)]
    grid: Option<Values>,
    /// Blocks along y
    #[arg(long, value_name = "VALUES", value_parser = values)]
    grid_y: Option<Values>,
    /// Blocks along z
    #[arg(long, value_name = "VALUES", value_parser = values)]
    grid_z: Option<Values>,
    /// Keep the recorded grid where no values are given
    #[arg(long)]
    keep_grid: bool,
    /// Bytes of shared memory in addition to the kernel's own
    #[arg(long, value_name = "VALUES", value_parser = values)]
    shared: Option<Values>,
    /// Split of cache and shared memory: none, shared, l1, equal
    #[arg(long, value_name = "PREFERENCES", value_delimiter = ',', value_parser = cache)]
    cache: Vec<Cache>,
    /// Maximum number of registers per thread, if there is PTX; 0 leaves it unchanged
    #[arg(long, value_name = "VALUES", value_parser = values)]
    max_registers: Option<Values>,
    /// Launch bounds, if there is PTX: maximum threads per block (0: those of the block), minimum blocks per
    /// multiprocessor; may be given more than once
    #[arg(long, value_name = "MAX[,MIN]", value_parser = bounds)]
    launch_bounds: Vec<Bounds>,
    /// Code to replace the recorded code: .ptx, .cubin, .fatbin or .cu; may be given more than once
    #[arg(long, value_name = "FILE")]
    module: Vec<PathBuf>,
    /// Function in the module, mangled, or for CUDA C++ an expression like 'scale<float, 4>' [default: the recorded name]
    #[arg(long, value_name = "NAME", requires = "module")]
    function: Option<String>,
    /// Option for the CUDA C++ compiler; may be given more than once
    #[arg(long, value_name = "OPTION", requires = "module", allow_hyphen_values = true)]
    module_option: Vec<String>,
    /// Search strategy: grid (all points), random:N, halving or halving:N (of N random ones)
    #[arg(long, value_name = "SEARCH", default_value = "grid", value_parser = search)]
    search: Option<Search>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// For successive halving: keep one point in this many
    #[arg(long, value_name = "N", default_value_t = DEFAULT_FACTOR, value_parser = clap::value_parser!(u32).range(i64::from(*FACTORS.start())..=i64::from(*FACTORS.end())))]
    factor: u32,
    /// Number of timed launches of each point
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// Number of untimed launches of each point before those
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1000))]
    warm_up: u32,
    /// Tolerance of memory: f32:1e-5 (absolute and relative), f32:1e-6,1e-4, f16:2ulp; for one buffer only argN=RULE,
    /// 0xADDRESS=RULE, 0xFIRST..0xEND=RULE or 0xFIRST..=0xLAST=RULE; may be given more than once [default: bit-exact]
    #[arg(long = "tolerance", alias = "near", value_name = "[WHERE=]RULE", value_parser = parse_scoped_rule)]
    near: Vec<ScopedRule>,
    /// Time limit of one launch in seconds, after which its point is dropped
    #[arg(long, value_name = "SECONDS", default_value_t = LAUNCH_LIMIT.as_secs_f64(), value_parser = seconds)]
    launch_limit: f64,
    /// Time limit of the whole run in seconds; results until then are reported
    #[arg(long, value_name = "SECONDS", default_value_t = TIME_LIMIT.as_secs_f64(), value_parser = seconds)]
    time_limit: f64,
}

fn cache(text: &str) -> Result<Cache, String> {
    Cache::from_name(text)
        .ok_or_else(|| format!("'{text}' is not a cache preference (expected none, shared, l1 or equal)"))
}

fn bounds(text: &str) -> Result<Bounds, String> {
    lists::parse_launch_bounds(text)
        .ok_or_else(|| format!("'{text}' are not launch bounds (expected MAX or MAX,MIN, for example 256,4)"))
}

/// Parses the search strategy; seed and factor are filled in later.
fn search(text: &str) -> Result<Search, String> {
    parse_search(text, 0, 0)
}

fn seconds(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|v| *v > 0.0 && *v <= 1e6);
    value.ok_or_else(|| format!("'{text}' is not a time (expected seconds, more than 0)"))
}

impl TuneArguments {
    /// Returns the code files.
    pub fn modules(&self) -> &[PathBuf] {
        &self.module
    }

    /// Warns once on standard error that an end was excluded: lists included it in earlier versions.
    fn warn_about_excluded_end(&self) {
        let lists = [
            &self.block,
            &self.block_y,
            &self.block_z,
            &self.grid,
            &self.grid_y,
            &self.grid_z,
            &self.shared,
            &self.max_registers,
        ];
        let mut all = lists.into_iter().flatten().filter_map(|v| v.leaves_out.as_ref());
        if let Some((text, end)) = all.next() {
            let with = text.replacen("..", "..=", 1);
            complain(format_args!("{text} excludes {end}; {with} includes it"));
        }
    }

    /// Builds the request and checks it against the recording.
    pub fn tune(&self, file: &Path, recording: &Recording, launches: &Launches) -> Result<TuneRequest, Failure> {
        self.warn_about_excluded_end();
        self.options()?.request(recording, launches).map_err(|e| match e {
            OptionsError::Launch(e) => Failure::file(file, format!("{e} (--launch)")),
            OptionsError::Tolerance(e) => Failure::usage(format!("--tolerance: {e}")),
            OptionsError::Space(e) => Failure::usage(e.to_string()),
        })
    }

    fn options(&self) -> Result<TuneOptions, Failure> {
        Ok(TuneOptions {
            launch: self.launch.clone(),
            axes: self.axes(),
            modules: self.load_replaced_code()?,
            search: match self.search.unwrap_or_default() {
                Search::Grid => Search::Grid,
                Search::Random { points, .. } => Search::Random {
                    points,
                    seed: self.seed,
                },
                Search::Halving { points, .. } => Search::Halving {
                    points,
                    seed: self.seed,
                    factor: self.factor,
                },
            },
            repeats: self.repeat,
            warm_ups: self.warm_up,
            tolerance: self.near.clone(),
            launch_limit: Duration::from_secs_f64(self.launch_limit),
            time_limit: Duration::from_secs_f64(self.time_limit),
        })
    }

    fn axes(&self) -> Axes {
        let list = |v: &Option<Values>| v.as_ref().map_or_else(Vec::new, |v| v.list.clone());
        Axes {
            block: [list(&self.block), list(&self.block_y), list(&self.block_z)],
            grid: [list(&self.grid), list(&self.grid_y), list(&self.grid_z)],
            cover: !self.keep_grid,
            shared: list(&self.shared),
            cache: self.cache.clone(),
            max_registers: list(&self.max_registers),
            bounds: self.launch_bounds.clone(),
        }
    }

    fn load_replaced_code(&self) -> Result<Vec<ReplacementCode>, Failure> {
        let read = |path: &PathBuf| {
            let code = code::read(path).map_err(|e| Failure::usage(e.to_string()))?;
            Ok(ReplacementCode {
                function: self.function.clone().unwrap_or_default(),
                options: self.module_option.clone(),
                ..code
            })
        };
        self.module.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_bounds_and_times_are_read() {
        assert_eq!(search("grid"), Ok(Search::Grid));
        assert_eq!(search("random:30"), Ok(Search::Random { points: 30, seed: 0 }));
        assert!(matches!(search("halving"), Ok(Search::Halving { points: 0, .. })));
        assert!(matches!(search("halving:9"), Ok(Search::Halving { points: 9, .. })));
        for bad in ["grid:3", "random", "random:0", "random:x", "walk"] {
            assert!(search(bad).is_err(), "{bad}");
        }
        let b = |max_threads, min_blocks| Bounds {
            max_threads,
            min_blocks,
        };
        assert_eq!((bounds("256"), bounds("0, 4")), (Ok(b(256, 0)), Ok(b(0, 4))));
        assert!(bounds("a,b").is_err() && cache("l3").is_err());
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert!(seconds("0").is_err() && seconds("nan").is_err());
        assert!(values("").is_err());
    }
}

//! The fields of the Tune panel and their conversion to a request.

use super::launches::{Launch, Launches};
use super::lists;
use super::tolerance::{build_rules, parse_scoped_rule};
use super::{LAUNCH_LIMIT, TIME_LIMIT, limit_tuning};
use replay_cuda::tune::{RecordedLaunch, Space};
use replay_engine::tune::{Axes, Bounds, Cache, ReplacementCode, Search, TuneRequest};
use std::ops::RangeInclusive;
use std::time::Duration;
use trace_core::recording::Recording;

/// Default number of points of which successive halving keeps one.
pub const DEFAULT_FACTOR: u32 = 3;
/// Allowed numbers of points of which successive halving keeps one.
pub const FACTORS: RangeInclusive<u32> = 2..=100;

/// A text field of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// Threads per block along x, y, z.
    Block(usize),
    /// Blocks along x, y, z.
    Grid(usize),
    /// Shared memory.
    Shared,
    /// Maximum number of registers.
    Registers,
    /// Launch bounds.
    Bounds,
    /// Tolerance for outputs.
    Tolerance,
    /// Number of sampled points.
    Points,
}

impl Field {
    /// Returns the display name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Block(0) => "block x",
            Self::Block(1) => "block y",
            Self::Block(_) => "block z",
            Self::Grid(0) => "grid x",
            Self::Grid(1) => "grid y",
            Self::Grid(_) => "grid z",
            Self::Shared => "shared",
            Self::Registers => "registers",
            Self::Bounds => "bounds",
            Self::Tolerance => "tolerance",
            Self::Points => "points",
        }
    }

    /// Returns a hint about valid text.
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            Self::Block(_) => "threads per block: 32, 64, 128, or 32..=1024 for doubling, 64..=256+64 for steps",
            Self::Grid(_) => "blocks, in the same form; without values the grid follows the block or stays unchanged",
            Self::Shared => "bytes of dynamic shared memory",
            Self::Registers => "maximum registers per thread, if the recording holds PTX; 0 changes nothing",
            Self::Bounds => {
                "launch bounds, if the recording holds PTX: 256 or 256,4 (threads, blocks per multiprocessor), \
                 separated by ;"
            }
            Self::Tolerance => {
                "tolerance of the memory comparison: f32:1e-5, f16:2ulp, arg1=f32:1e-3, separated by ;. Empty: exact"
            }
            Self::Points => "number of random points; empty for successive halving: all",
        }
    }
}

/// A kind of search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchKind {
    /// Every point.
    #[default]
    Grid,
    /// Some points, at random.
    Random,
    /// Successive halving.
    Halving,
}

impl SearchKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Grid, Self::Random, Self::Halving];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Grid => "every point",
            Self::Random => "random",
            Self::Halving => "halving",
        }
    }

    /// Describes the search.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Grid => "every point with all repeats",
            Self::Random => "a given number of random points",
            Self::Halving => "all points once, the best part of them more often, until few are left with all repeats",
        }
    }
}

/// The contents of the Tune panel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// Threads per block, by dimension.
    pub block: [String; 3],
    /// Blocks, by dimension.
    pub grid: [String; 3],
    /// Whether a grid without values follows the block.
    pub cover: bool,
    /// Shared memory.
    pub shared: String,
    /// Cache shares to try, in the order of [`Cache::ALL`].
    pub cache: [bool; 4],
    /// Maximum number of registers.
    pub registers: String,
    /// Launch bounds.
    pub bounds: String,
    /// Tolerance for outputs.
    pub tolerance: String,
    /// The search.
    pub kind: SearchKind,
    /// Number of sampled points.
    pub points: String,
    /// Seed of random numbers.
    pub seed: u64,
    /// Successive halving keeps one point in this many.
    pub factor: u32,
    /// Timed launches of each point.
    pub repeats: u32,
    /// Number of warm-up launches before them.
    pub warm_ups: u32,
    /// Time limit of one launch, milliseconds.
    pub launch_limit_ms: u32,
    /// Time limit of the whole run, seconds.
    pub time_limit_s: u32,
    /// Replacement code.
    pub modules: Vec<ReplacementCode>,
}

impl Default for Form {
    fn default() -> Self {
        Self {
            block: Default::default(),
            grid: Default::default(),
            cover: true,
            shared: String::new(),
            cache: [false; 4],
            registers: String::new(),
            bounds: String::new(),
            tolerance: String::new(),
            kind: SearchKind::Grid,
            points: String::new(),
            seed: 1,
            factor: DEFAULT_FACTOR,
            repeats: 5,
            warm_ups: 1,
            launch_limit_ms: LAUNCH_LIMIT.as_millis() as u32,
            time_limit_s: TIME_LIMIT.as_secs() as u32,
            modules: Vec::new(),
        }
    }
}

/// The result of parsing the form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedForm {
    /// The request, if every field is valid.
    pub tune: Option<TuneRequest>,
    /// Error messages by field.
    pub field_errors: Vec<(Field, String)>,
    /// Error message of the form as a whole.
    pub error: Option<String>,
    /// Number of points to try.
    pub points: u64,
    /// Number of combinations that no device can launch.
    pub left_out: u64,
}

impl Form {
    /// Returns the initial fields for a launch.
    #[must_use]
    pub fn for_launch(axes: &Axes) -> Self {
        Self {
            block: axes.block.clone().map(|v| lists::format_list(&v)),
            grid: axes.grid.clone().map(|v| lists::format_list(&v)),
            cover: axes.cover,
            ..Self::default()
        }
    }

    /// Returns the text of a field.
    pub fn text(&mut self, field: Field) -> &mut String {
        match field {
            Field::Block(0) => &mut self.block[0],
            Field::Block(1) => &mut self.block[1],
            Field::Block(_) => &mut self.block[2],
            Field::Grid(0) => &mut self.grid[0],
            Field::Grid(1) => &mut self.grid[1],
            Field::Grid(_) => &mut self.grid[2],
            Field::Shared => &mut self.shared,
            Field::Registers => &mut self.registers,
            Field::Bounds => &mut self.bounds,
            Field::Tolerance => &mut self.tolerance,
            Field::Points => &mut self.points,
        }
    }

    /// Parses the fields for a launch.
    #[must_use]
    pub fn parse(&self, recording: &Recording, launches: &Launches, launch: &Launch) -> ParsedForm {
        let mut asked = ParsedForm::default();
        let mut list = |field: Field, text: &str| {
            lists::parse_list(text).unwrap_or_else(|why| {
                asked.field_errors.push((field, why));
                Vec::new()
            })
        };
        let mut axes = Axes {
            block: [0, 1, 2].map(|d| list(Field::Block(d), &self.block[d])),
            grid: [0, 1, 2].map(|d| list(Field::Grid(d), &self.grid[d])),
            cover: self.cover,
            shared: list(Field::Shared, &self.shared),
            max_registers: list(Field::Registers, &self.registers),
            ..Axes::default()
        };
        axes.cache = Cache::ALL
            .into_iter()
            .zip(self.cache)
            .filter_map(|(c, wanted)| wanted.then_some(c))
            .collect();
        match bounds(&self.bounds) {
            Ok(b) => axes.bounds = b,
            Err(why) => asked.field_errors.push((Field::Bounds, why)),
        }
        let all = self
            .tolerance
            .split(';')
            .map(str::trim)
            .filter(|t| !t.is_empty())
            .map(parse_scoped_rule);
        let read = all.collect::<Result<Vec<_>, _>>();
        let rules = read.and_then(|all| build_rules(recording, launches, launch, &all));
        let (rule, areas) = rules.unwrap_or_else(|why| {
            asked.field_errors.push((Field::Tolerance, why));
            Default::default()
        });
        let points = match (self.kind, self.points.trim()) {
            (SearchKind::Grid, _) | (SearchKind::Halving, "") => Some(0),
            (_, text) => text.parse::<u32>().ok().filter(|n| *n > 0),
        };
        if points.is_none() {
            let why = "the number of points is missing (expected 1 or more)";
            asked.field_errors.push((Field::Points, why.to_owned()));
        }
        let (points, seed) = (points.unwrap_or(0), self.seed);
        let tune = TuneRequest {
            event: launch.event,
            axes,
            modules: self.modules.iter().map(replaced).collect(),
            search: match self.kind {
                SearchKind::Grid => Search::Grid,
                SearchKind::Random => Search::Random { points, seed },
                SearchKind::Halving => Search::Halving {
                    points,
                    seed,
                    factor: self.factor,
                },
            },
            repeats: self.repeats.max(1),
            warm_ups: self.warm_ups,
            areas,
            rule,
            limits: limit_tuning(
                Duration::from_millis(u64::from(self.launch_limit_ms)),
                Duration::from_secs(u64::from(self.time_limit_s)),
            ),
            ..TuneRequest::default()
        };
        match Space::new(&tune, &RecordedLaunch::from(&launch.row)) {
            Ok(space) => {
                let all = space.points.len() as u64;
                asked.points = match points {
                    0 => all,
                    n => all.min(u64::from(n)),
                };
                asked.left_out = space.left_out;
                if asked.field_errors.is_empty() {
                    asked.tune = Some(tune);
                }
            }
            Err(e) => asked.error = Some(e.to_string()),
        }
        asked
    }
}

/// Returns the code with its options split. In the field they are one text.
fn replaced(code: &ReplacementCode) -> ReplacementCode {
    let text = code.options.join(" ");
    ReplacementCode {
        options: text.split_whitespace().map(str::to_owned).collect(),
        ..code.clone()
    }
}

/// Parses launch bounds, separated by semicolons.
fn bounds(text: &str) -> Result<Vec<Bounds>, String> {
    let one = |item: &str| {
        lists::parse_launch_bounds(item)
            .ok_or_else(|| format!("'{item}' is not a launch bound (expected 256 or 256,4)"))
    };
    text.split(';')
        .map(str::trim)
        .filter(|t| !t.is_empty())
        .map(one)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::recording::LaunchRow;

    fn launch() -> Launch {
        Launch {
            event: 7,
            row: LaunchRow {
                grid: [100, 1, 1],
                block: [256, 1, 1],
                ..LaunchRow::default()
            },
        }
    }

    fn parse(form: &Form) -> ParsedForm {
        form.parse(&Recording::default(), &Launches::default(), &launch())
    }

    #[test]
    fn form_fields_become_a_tune_request() {
        let mut form = Form::for_launch(&RecordedLaunch::from(&launch().row).default_axes(1024));
        assert_eq!(form.block[0], "32, 64, 128, 256, 512, 1024");
        let first = parse(&form);
        assert_eq!((first.points, first.field_errors.len()), (6, 0));
        let tune = first.tune.unwrap();
        assert!(tune.event == 7 && tune.axes.cover && tune.repeats == 5);
        form.grid[0] = "80..320".into();
        form.cache = [true, false, true, false];
        form.bounds = "0,2; 256".into();
        form.tolerance = "f32:1e-5; 0x10..0x20=exact".into();
        (form.kind, form.points) = (SearchKind::Halving, "20".into());
        let all = parse(&form);
        assert_eq!((all.points, all.field_errors.clone()), (20, vec![]));
        let tune = all.tune.unwrap();
        assert_eq!(
            (tune.axes.cache.len(), tune.axes.bounds.len(), tune.areas.len()),
            (2, 2, 1)
        );
        assert!(matches!(tune.search, Search::Halving { points: 20, .. }));
    }

    #[test]
    fn tune_form_shows_an_error_per_field() {
        let mut form = Form::default();
        for (field, text) in [
            (Field::Block(1), "x"),
            (Field::Grid(2), "1.."),
            (Field::Shared, "?"),
            (Field::Registers, "-1"),
            (Field::Bounds, "a"),
            (Field::Tolerance, "f32"),
        ] {
            *form.text(field) = text.into();
        }
        form.kind = SearchKind::Random;
        let a = parse(&form);
        let fields: Vec<Field> = a.field_errors.iter().map(|(f, _)| *f).collect();
        assert_eq!(
            fields,
            [
                Field::Block(1),
                Field::Grid(2),
                Field::Shared,
                Field::Registers,
                Field::Bounds,
                Field::Tolerance,
                Field::Points
            ]
        );
        assert_eq!(a.tune, None);
        let mut form = Form::default();
        form.block[0] = "2048".into();
        let a = parse(&form);
        assert!(a.error.unwrap().contains("1 to 1024") && a.tune.is_none());
        form.tolerance = "arg0=f32:1".into();
        assert_eq!(parse(&form).field_errors.len(), 1, "the launch has no such parameter");
    }
}

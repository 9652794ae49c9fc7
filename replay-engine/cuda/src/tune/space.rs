//! The points that the value lists give.

use super::error::TuneError;
use replay_engine::tune::{Axes, Bounds, Cache, Point, TuneRequest};
use trace_core::recording::LaunchRow;

/// Maximum number of points.
pub const MAX_POINTS: u64 = 1 << 18;
/// Maximum number of threads per block, in total and per dimension, on every device so far.
const MAX_THREADS: u64 = 1024;
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Maximum number of blocks per dimension.
const MAX_GRID: [u32; 3] = [0x7fff_ffff, 65_535, 65_535];
/// Maximum number of registers per thread.
const MAX_REGISTERS: u32 = 255;

/// The recorded launch, as far as points depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedLaunch {
    /// Grid dimensions, blocks.
    pub grid: [u32; 3],
    /// Block dimensions, threads.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes.
    pub shared: u32,
}

impl From<&LaunchRow> for RecordedLaunch {
    fn from(row: &LaunchRow) -> Self {
        Self {
            grid: row.grid,
            block: row.block,
            shared: row.shared,
        }
    }
}

impl RecordedLaunch {
    /// Returns the launch as a point.
    #[must_use]
    pub fn point(&self) -> Point {
        Point {
            grid: self.grid,
            block: self.block,
            shared: self.shared,
            ..Point::default()
        }
    }

    /// Returns the values to try if the user gives none: powers of two in x from 32 threads per block to the function's
    /// maximum, and a grid that covers the recorded threads.
    #[must_use]
    pub fn default_axes(&self, most_threads: u32) -> Axes {
        let beside = u64::from(self.block[1].max(1)) * u64::from(self.block[2].max(1));
        let max = match most_threads {
            0 => MAX_THREADS,
            n => u64::from(n).min(MAX_THREADS),
        };
        let of = |threads: &u32| {
            let n = u64::from(*threads) * beside;
            n <= max && (n >= 32 || *threads == self.block[0])
        };
        let mut x: Vec<u32> = (0..=10).map(|n| 1 << n).filter(of).collect();
        if !x.contains(&self.block[0]) {
            x.push(self.block[0]);
            x.sort_unstable();
        }
        Axes {
            block: [x, Vec::new(), Vec::new()],
            cover: true,
            ..Axes::default()
        }
    }
}

/// The points of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// The points, in list order: the grid changes fastest, then the block, then the compiled parameters.
    pub points: Vec<Point>,
    /// Number of combinations of the lists that no device can launch.
    pub left_out: u64,
}

impl Space {
    /// Returns the points that the lists of a request give for a recorded launch.
    ///
    /// # Errors
    /// If a value is not possible, there are more than [`MAX_POINTS`], or none.
    pub fn new(tune: &TuneRequest, recorded: &RecordedLaunch) -> Result<Self, TuneError> {
        let axes = &tune.axes;
        check(axes)?;
        let listed = |values: &[u32], else_: u32| distinct(values).unwrap_or_else(|| vec![else_]);
        let block: Vec<Vec<u32>> = (0..3).map(|d| listed(&axes.block[d], recorded.block[d])).collect();
        // An empty list: the grid follows.
        let grid: Vec<Option<Vec<u32>>> = (0..3).map(|d| distinct(&axes.grid[d])).collect();
        let shared = listed(&axes.shared, recorded.shared);
        let modules: Vec<u32> = match tune.modules.len() {
            0 => vec![0],
            n => (1..=u32::try_from(n).unwrap_or(u32::MAX)).collect(),
        };
        let cache: Vec<Option<Cache>> = optional(&axes.cache, |c| Some(*c));
        let registers: Vec<Option<u32>> = optional(&axes.max_registers, |n| (*n > 0).then_some(*n));
        let bounds: Vec<Option<Bounds>> = optional(&axes.bounds, |b| Some(*b));
        let lengths = block
            .iter()
            .map(Vec::len)
            .chain(grid.iter().map(|g| g.as_ref().map_or(1, Vec::len)))
            .chain([shared.len(), modules.len(), cache.len(), registers.len(), bounds.len()]);
        let count = lengths.fold(1u64, |n, l| n.saturating_mul(l as u64));
        if count > MAX_POINTS {
            return Err(TuneError::TooMany {
                points: count,
                max: MAX_POINTS,
            });
        }
        let mut space = Self::default();
        let mut odometer = Odometer::new(count);
        while let Some(mut at) = odometer.next() {
            let mut point = Point::default();
            let one_grid = [0, 1, 2].map(|d| grid[d].as_deref().map(|g| at.pick(g)));
            point.block = [0, 1, 2].map(|d| at.pick(&block[d]));
            point.shared = at.pick(&shared);
            point.cache = at.pick(&cache);
            point.max_registers = at.pick(&registers);
            point.bounds = at.pick(&bounds);
            point.module = at.pick(&modules);
            point.grid = [0, 1, 2].map(|d| match one_grid[d] {
                Some(n) => n,
                None if axes.cover => covering(recorded.grid[d], recorded.block[d], point.block[d]),
                None => recorded.grid[d],
            });
            if launches(&point) {
                space.points.push(point);
            } else {
                space.left_out += 1;
            }
        }
        if space.points.is_empty() {
            return Err(TuneError::None);
        }
        Ok(space)
    }
}

/// Returns the values without duplicates, or `None` if there are none.
fn distinct<T: Copy + PartialEq>(values: &[T]) -> Option<Vec<T>> {
    let mut out: Vec<T> = Vec::new();
    for value in values {
        if !out.contains(value) {
            out.push(*value);
        }
    }
    (!out.is_empty()).then_some(out)
}

fn optional<T: Copy + PartialEq, U>(values: &[T], of: impl Fn(&T) -> Option<U>) -> Vec<Option<U>> {
    match distinct(values) {
        Some(values) => values.iter().map(of).collect(),
        None => vec![None],
    }
}

/// Returns the smallest number of blocks with at least the recorded number of threads.
fn covering(grid: u32, recorded: u32, block: u32) -> u32 {
    let threads = u64::from(grid) * u64::from(recorded);
    let blocks = threads.div_ceil(u64::from(block.max(1)));
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

/// Returns whether any device can launch it.
fn launches(p: &Point) -> bool {
    let within = |d: &[u32; 3], max: &[u32; 3]| d.iter().zip(max).all(|(n, max)| (1..=*max).contains(n));
    within(&p.block, &MAX_BLOCK) && within(&p.grid, &MAX_GRID) && p.threads() <= MAX_THREADS
}

/// Rejects values that no compiler accepts, and lists that are longer than all points.
fn check(axes: &Axes) -> Result<(), TuneError> {
    let lists = [
        axes.shared.len(),
        axes.cache.len(),
        axes.max_registers.len(),
        axes.bounds.len(),
    ];
    let lists = axes.block.iter().chain(&axes.grid).map(Vec::len).chain(lists);
    if let Some(long) = lists.map(|l| l as u64).find(|l| *l > MAX_POINTS) {
        return Err(TuneError::TooMany {
            points: long,
            max: MAX_POINTS,
        });
    }
    if let Some(n) = axes.max_registers.iter().find(|n| **n > MAX_REGISTERS) {
        return Err(TuneError::Value {
            what: "a limit of registers of",
            value: u64::from(*n),
            why: "a thread has 1 to 255, and 0 keeps the value of the code",
        });
    }
    if let Some(b) = axes.bounds.iter().find(|b| u64::from(b.max_threads) > MAX_THREADS) {
        return Err(TuneError::Value {
            what: "a launch bound of",
            value: u64::from(b.max_threads),
            why: "a block has at most 1024 threads, and 0 means the threads of the block",
        });
    }
    Ok(())
}

/// Counts through all combinations of lists.
struct Odometer {
    next: u64,
    count: u64,
}

impl Odometer {
    fn new(count: u64) -> Self {
        Self { next: 0, count }
    }

    fn next(&mut self) -> Option<Digits> {
        let at = self.next;
        self.next += 1;
        (at < self.count).then_some(Digits(at))
    }
}

/// The rest of a combination's number: each list takes its digit.
struct Digits(u64);

impl Digits {
    fn pick<T: Copy + Default>(&mut self, list: &[T]) -> T {
        let length = (list.len() as u64).max(1);
        let digit = self.0 % length;
        self.0 /= length;
        usize::try_from(digit)
            .ok()
            .and_then(|d| list.get(d).copied())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: RecordedLaunch = RecordedLaunch {
        grid: [1000, 2, 1],
        block: [256, 1, 1],
        shared: 64,
    };

    fn new_space(axes: Axes) -> Result<Space, TuneError> {
        let tune = TuneRequest {
            axes,
            ..TuneRequest::default()
        };
        Space::new(&tune, &RECORDED)
    }

    #[test]
    fn axes_without_lists_have_only_the_recorded_point() {
        let space = new_space(Axes::default()).unwrap();
        assert_eq!(space.points, [RECORDED.point()]);
    }

    #[test]
    fn grid_follows_the_block_without_its_own_list() {
        let block = [vec![128, 768, 256, 128], vec![], vec![]];
        let axes = |grid, cover| Axes {
            block: block.clone(),
            grid: [grid, vec![], vec![]],
            cover,
            ..Axes::default()
        };
        let dims = |space: &Space| -> Vec<[u32; 2]> { space.points.iter().map(|p| [p.grid[0], p.block[0]]).collect() };
        let space = new_space(axes(vec![], true)).unwrap();
        assert_eq!(dims(&space), [[2000, 128], [334, 768], [1000, 256]]);
        assert!(space.points.iter().all(|p| p.grid[1] == 2 && p.shared == 64));
        assert_eq!(dims(&new_space(axes(vec![], false)).unwrap())[1], [1000, 768]);
        let space = new_space(axes(vec![80, 160], true)).unwrap();
        assert_eq!(
            dims(&space),
            [[80, 128], [160, 128], [80, 768], [160, 768], [80, 256], [160, 256]]
        );
    }

    #[test]
    fn impossible_points_are_counted_and_omitted() {
        let axes = Axes {
            block: [vec![64, 1024], vec![1, 2], vec![]],
            ..Axes::default()
        };
        let space = new_space(axes).unwrap();
        assert_eq!((space.points.len(), space.left_out), (3, 1));
        let none = Axes {
            block: [vec![0, 2048], vec![], vec![]],
            ..Axes::default()
        };
        assert_eq!(new_space(none), Err(TuneError::None));
    }

    #[test]
    fn tuning_space_multiplies_all_axes() {
        let axes = Axes {
            shared: vec![0, 64],
            cache: vec![Cache::L1, Cache::Shared],
            max_registers: vec![0, 32, 64],
            bounds: vec![
                Bounds::default(),
                Bounds {
                    max_threads: 256,
                    min_blocks: 4,
                },
            ],
            ..Axes::default()
        };
        let tune = TuneRequest {
            axes,
            modules: vec![Default::default(); 2],
            ..TuneRequest::default()
        };
        let space = Space::new(&tune, &RECORDED).unwrap();
        assert_eq!(space.points.len(), 2 * 2 * 3 * 2 * 2);
        let mut distinct = space.points.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), space.points.len());
        assert_eq!(space.points.iter().filter(|p| p.max_registers.is_none()).count(), 16);
        assert!(space.points.iter().all(|p| p.module == 1 || p.module == 2));
    }

    #[test]
    fn too_many_points_and_impossible_values_are_refused() {
        let many: Vec<u32> = (1..=1024).collect();
        let axes = Axes {
            block: [many.clone(), many.clone(), vec![]],
            ..Axes::default()
        };
        assert!(matches!(
            new_space(axes),
            Err(TuneError::TooMany { points: 1_048_576, .. })
        ));
        let axes = Axes {
            block: [many.clone(), many.clone(), many.clone()],
            grid: [many.clone(), many.clone(), many.clone()],
            shared: many.clone(),
            ..Axes::default()
        };
        assert!(matches!(
            new_space(axes),
            Err(TuneError::TooMany { points: u64::MAX, .. })
        ));
        let axes = Axes {
            max_registers: vec![32, 256],
            ..Axes::default()
        };
        let e = new_space(axes).unwrap_err();
        assert!(e.to_string().contains("registers of 256"), "{e}");
        let axes = Axes {
            bounds: vec![Bounds {
                max_threads: 1025,
                min_blocks: 0,
            }],
            ..Axes::default()
        };
        assert!(matches!(new_space(axes), Err(TuneError::Value { value: 1025, .. })));
    }

    #[test]
    fn default_axes_respect_block_shape_and_function_limit() {
        let block = |recorded: [u32; 3], max| {
            let r = RecordedLaunch {
                block: recorded,
                ..RECORDED
            };
            r.default_axes(max).block[0].clone()
        };
        assert_eq!(block([256, 1, 1], 1024), [32, 64, 128, 256, 512, 1024]);
        assert_eq!(block([100, 1, 1], 256), [32, 64, 100, 128, 256]);
        assert_eq!(block([16, 16, 1], 0), [2, 4, 8, 16, 32, 64]);
        assert_eq!(block([1, 1, 1], 0)[..2], [1, 32]);
    }
}

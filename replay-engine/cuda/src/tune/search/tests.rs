//! Tests of searches on an artificial device: a known surface with noise, and points that are wrong, refused or fatal.

use super::*;
use crate::tune::run_with_resume;
use replay_engine::tune::{Axes, Limits, OutputMismatch, ReplacementCode};

const RECORDED: RecordedLaunch = RecordedLaunch {
    grid: [1000, 1, 1],
    block: [256, 1, 1],
    shared: 0,
};

/// The behavior of a point on the artificial device.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Right,
    Wrong,
    Refused,
    Fatal,
}

struct Artificial<F> {
    kind: F,
    noise: u64,
    random: Random,
    now: u64,
    measured: Vec<(Point, u32)>,
    cancel_at: Option<(usize, Progress)>,
}

impl<F: Fn(&Point) -> Kind> Artificial<F> {
    fn new(noise: u64, seed: u64, kind: F) -> Self {
        Self {
            kind,
            noise,
            random: Random::new(seed),
            now: 0,
            measured: Vec::new(),
            cancel_at: None,
        }
    }

    fn launches(&self) -> u64 {
        self.measured.iter().map(|(_, n)| u64::from(*n)).sum()
    }
}

/// Returns the surface: a valley at blocks of 128 threads and grids of 320.
fn time(p: &Point) -> u64 {
    let block = f64::from(p.block[0]).log2() - 7.0;
    let grid = f64::from(p.grid[0]).log2() - 320f64.log2();
    (10_000.0 * (1.0 + 0.3 * block * block + 0.2 * grid * grid)) as u64
}

impl<F: Fn(&Point) -> Kind> Evaluator for Artificial<F> {
    fn measure(&mut self, point: &Point, repeats: u32) -> Result<Measurement, Stop> {
        if let Some((at, progress)) = &self.cancel_at
            && self.measured.len() >= *at
        {
            progress.cancel();
            return Err(Stop::Cancelled);
        }
        self.measured.push((*point, repeats));
        let mut times: Vec<u64> = (0..repeats)
            .map(|_| time(point) + self.random.next() % (self.noise + 1))
            .collect();
        self.now += times.iter().sum::<u64>();
        let rejected = match (self.kind)(point) {
            Kind::Right => None,
            Kind::Wrong => {
                // Wrong points are the fastest.
                times.fill(1);
                Some(RejectReason::Wrong(OutputMismatch {
                    at: 0x1000,
                    count: 1,
                    ..OutputMismatch::default()
                }))
            }
            Kind::Refused => Some(RejectReason::Refused {
                why: "CUDA_ERROR_INVALID_VALUE".into(),
            }),
            Kind::Fatal => {
                return Err(Stop::Broken {
                    rejected: RejectReason::Failed {
                        why: "CUDA_ERROR_ILLEGAL_ADDRESS".into(),
                    },
                });
            }
        };
        Ok(Measurement {
            times,
            rejected,
            resources: None,
        })
    }

    fn elapsed(&self) -> u64 {
        self.now
    }
}

const BLOCKS: [u32; 6] = [32, 64, 128, 256, 512, 1024];
const GRIDS: [u32; 5] = [80, 160, 320, 640, 1280];

fn request(search: Search) -> TuneRequest {
    TuneRequest {
        axes: Axes {
            block: [BLOCKS.to_vec(), vec![], vec![]],
            grid: [GRIDS.to_vec(), vec![], vec![]],
            ..Axes::default()
        },
        search,
        ..TuneRequest::default()
    }
}

fn halving(points: u32, seed: u64) -> Search {
    Search::Halving {
        points,
        seed,
        factor: 3,
    }
}

fn run<F: Fn(&Point) -> Kind>(request: &TuneRequest, device: &mut Artificial<F>) -> TuneReport {
    tune(request, &RECORDED, device, &Progress::new()).unwrap()
}

fn right(_: &Point) -> Kind {
    Kind::Right
}

#[test]
fn a_grid_tries_every_point_and_finds_the_best() {
    let mut device = Artificial::new(0, 1, right);
    let tuned = run(&request(Search::Grid), &mut device);
    assert_eq!(
        (tuned.points.len(), tuned.space, tuned.ended.clone()),
        (30, 30, TuneEnd::Done)
    );
    assert_eq!(device.launches(), 32 * 5, "the recorded launch runs before and after");
    let best = tuned.best().unwrap();
    assert_eq!((best.point.block[0], best.point.grid[0]), (128, 320));
    let expected = time(&RECORDED.point()) as f64 / 10_000.0;
    assert!((tuned.speed_up(&best.measured).unwrap() - expected).abs() < 1e-9);
    assert_eq!(tuned.drift(), Some(0.0));
    assert!(!tuned.is_unclear());
    let ranked = tuned.rank_points();
    let medians: Vec<u64> = ranked.iter().map(|n| time(&tuned.points[*n as usize].point)).collect();
    assert!(medians.is_sorted() && ranked[0] == tuned.best.unwrap());
}

#[test]
fn wrong_points_are_rejected_and_never_win() {
    let kind = |p: &Point| match p.block[0] {
        512 => Kind::Wrong,
        1024 => Kind::Refused,
        _ => Kind::Right,
    };
    for search in [Search::Grid, Search::Random { points: 30, seed: 3 }, halving(0, 3)] {
        let tuned = run(&request(search), &mut Artificial::new(100, 9, kind));
        let mut rejected: Vec<(u32, &str)> = tuned
            .rejected()
            .map(|t| (t.point.block[0], t.measured.rejected.as_ref().unwrap().label()))
            .collect();
        rejected.sort_unstable();
        let expected: Vec<(u32, &str)> = [[(512, "wrong"); 5], [(1024, "refused"); 5]].concat();
        assert_eq!(rejected, expected, "{search:?}");
        let best = tuned.best().unwrap();
        assert_eq!(best.point.block[0], 128, "{search:?}");
        assert_eq!(best.measured.times.len(), 5);
        let last = *tuned.rank_points().last().unwrap();
        assert!(tuned.points[last as usize].measured.spread().is_none());
    }
}

#[test]
fn no_point_is_best_if_all_are_wrong() {
    let kind = |p: &Point| {
        if *p == RECORDED.point() {
            Kind::Right
        } else {
            Kind::Wrong
        }
    };
    for search in [Search::Grid, halving(0, 1)] {
        let tuned = run(&request(search), &mut Artificial::new(0, 1, kind));
        assert_eq!((tuned.best(), tuned.rejected().count()), (None, 30));
    }
}

#[test]
fn wrong_baseline_launch_ends_the_tuning() {
    let mut device = Artificial::new(0, 1, |_| Kind::Wrong);
    let tuned = run(&request(Search::Grid), &mut device);
    assert_eq!((tuned.points.len(), device.measured.len()), (0, 1));
    assert!(matches!(tuned.baseline.rejected, Some(RejectReason::Wrong(_))));
}

#[test]
fn the_recorded_point_is_measured_once() {
    let mut with = request(Search::Grid);
    with.axes.grid[0] = vec![1000];
    let mut device = Artificial::new(50, 1, right);
    let tuned = run(&with, &mut device);
    let same: Vec<&PointResult> = tuned.points.iter().filter(|t| t.point == RECORDED.point()).collect();
    assert_eq!(same.len(), 1);
    assert_eq!(same[0].measured, tuned.baseline);
    assert_eq!(device.launches(), 5 * (5 + 2));
    // The same dimensions with other code are a different point.
    with.modules = vec![ReplacementCode::default()];
    let mut device = Artificial::new(50, 1, right);
    run(&with, &mut device);
    assert_eq!(device.launches(), 5 * (6 + 2));
}

#[test]
fn halving_finds_the_best_noisy_point_with_fewer_launches() {
    let mut found = 0;
    for seed in 0..40 {
        let mut device = Artificial::new(1500, seed, right);
        let tuned = run(&request(halving(0, seed)), &mut device);
        // Repeats are cumulative: 30 points once, 10 of them once, 4 twice and 2 five times. The recorded launch runs
        // before and after.
        assert_eq!(device.launches(), 30 + 4 + 2 * 3 + 2 * 5, "seed {seed}");
        let best = tuned.best().unwrap();
        assert_eq!(best.measured.times.len(), 5);
        // The neighbours are 20 % slower, and the noise is 15 % of the time.
        found += u32::from((best.point.block[0], best.point.grid[0]) == (128, 320));
    }
    assert!(found >= 38, "found in {found} of 40");
}

#[test]
fn rounds_end_with_few_points_and_all_repeats() {
    assert_eq!(rounds(30, 3, 5), [(30, 1), (10, 1), (4, 2), (2, 5)]);
    assert_eq!(rounds(8, 2, 8), [(8, 2), (4, 4), (2, 8)]);
    assert_eq!(rounds(2, 3, 5), [(2, 5)]);
    assert_eq!(rounds(0, 3, 5), [(0, 5)]);
    assert_eq!(
        rounds(9, 0, 1),
        [(9, 1), (5, 1), (3, 1), (2, 1)],
        "a factor is at least 2"
    );
    assert_eq!(work(&rounds(30, 3, 5), 5), 10 + 30 + 4 + 6);
}

#[test]
fn random_search_points_depend_on_the_seed() {
    let drawn = |seed| {
        let mut device = Artificial::new(0, 1, right);
        let tuned = run(&request(Search::Random { points: 12, seed }), &mut device);
        assert_eq!(tuned.points.len(), 12);
        tuned.points
    };
    assert_eq!(drawn(5), drawn(5));
    assert_ne!(drawn(5), drawn(6));
    let mut all = Artificial::new(0, 1, right);
    assert_eq!(
        run(&request(Search::Random { points: 500, seed: 1 }), &mut all)
            .points
            .len(),
        30
    );
    let mut part = Artificial::new(0, 1, right);
    assert_eq!(run(&request(halving(9, 1)), &mut part).points.len(), 9);
}

#[test]
fn total_time_limit_is_respected() {
    let mut with = request(Search::Grid);
    with.limits = Limits {
        total_ns: 1_000_000,
        ..Limits::default()
    };
    let mut device = Artificial::new(0, 1, right);
    let tuned = run(&with, &mut device);
    assert_eq!(tuned.ended, TuneEnd::TimeOver);
    assert!((2..30).contains(&tuned.points.len()), "{}", tuned.points.len());
    assert!(tuned.points.iter().all(|t| t.measured.times.len() == 5));
    // The last started point may exceed the limit.
    assert!(device.now < 1_000_000 + 5 * 60_000, "{}", device.now);
    assert!(tuned.best().is_some());
}

#[test]
fn cancelled_search_keeps_its_results() {
    let progress = Progress::new();
    let mut device = Artificial::new(0, 1, right);
    device.cancel_at = Some((4, progress.clone()));
    let tuned = tune(&request(Search::Grid), &RECORDED, &mut device, &progress).unwrap();
    assert_eq!((tuned.ended.clone(), tuned.points.len()), (TuneEnd::Cancelled, 3));
    assert!(tuned.best().is_some());
}

#[test]
fn crashing_point_is_rejected_and_the_next_process_resumes() {
    let kind = |p: &Point| match (p.block[0], p.grid[0]) {
        (64, 160) | (1024, 1280) => Kind::Fatal,
        _ => Kind::Right,
    };
    for search in [Search::Grid, halving(0, 4)] {
        let (mut processes, mut launches) = (0, 0);
        let mut random = 7;
        let tuned = run_with_resume(&request(search), |request| {
            processes += 1;
            random += 1;
            let mut device = Artificial::new(100, random, kind);
            let mut tuned = run(request, &mut device);
            launches += device.launches();
            tuned.phases.total_ns = 1000;
            tuned.launches = device.launches();
            Ok::<_, String>(tuned)
        })
        .unwrap();
        assert_eq!((processes, tuned.processes, tuned.ended.clone()), (3, 3, TuneEnd::Done));
        assert_eq!(tuned.points.len(), 30);
        assert_eq!((tuned.phases.total_ns, tuned.launches), (3000, launches));
        let words: Vec<&str> = tuned
            .rejected()
            .map(|t| t.measured.rejected.as_ref().unwrap().label())
            .collect();
        assert_eq!(words, ["failed", "failed"]);
        assert_eq!(tuned.best().unwrap().point.block[0], 128);
        if search == Search::Grid {
            // Each point runs once, and the recorded one runs first and last. A fatal point costs one more run.
            assert_eq!(launches, 5 * (30 + 2));
        }
    }
}

#[test]
fn process_restarts_are_limited() {
    let mut processes = 0;
    let tuned = run_with_resume(&request(Search::Grid), |request| {
        processes += 1;
        if processes == 3 {
            return Err("it is gone");
        }
        // The point that crashed the last process is known and must not run again.
        assert!(request.known.iter().all(|t| t.point.block[0] != 9999));
        let kind = |p: &Point| if p.grid[0] == 160 { Kind::Fatal } else { Kind::Right };
        Ok(run(request, &mut Artificial::new(0, 1, kind)))
    })
    .unwrap();
    assert_eq!(processes, 3);
    assert_eq!(
        tuned.ended,
        TuneEnd::Broken {
            why: "it is gone".into()
        }
    );
    assert_eq!(tuned.rejected().count(), 2);
    // A crash at the recorded launch is reported once.
    let mut processes = 0;
    let tuned = run_with_resume(&request(Search::Grid), |request| {
        processes += 1;
        Ok::<_, String>(run(request, &mut Artificial::new(0, 1, |_| Kind::Fatal)))
    })
    .unwrap();
    assert_eq!((processes, tuned.points.len()), (1, 0));
    assert!(matches!(tuned.baseline.rejected, Some(RejectReason::Failed { .. })));
    let failed = run_with_resume(&request(Search::Grid), |_| Err::<TuneReport, _>("no device"));
    assert_eq!(failed.unwrap_err(), "no device");
}

#[test]
fn tune_requests_and_reports_round_trip() {
    let mut with = request(halving(7, 9));
    with.modules = vec![ReplacementCode {
        name: "fast.cu".into(),
        bytes: b"code".to_vec(),
        ..ReplacementCode::default()
    }];
    let kind = |p: &Point| if p.block[0] == 64 { Kind::Wrong } else { Kind::Right };
    let tuned = run(&with, &mut Artificial::new(10, 1, kind));
    with.known = tuned.points.clone();
    let record = trace_core::encode::to_bytes(&with).unwrap();
    assert_eq!(trace_core::encode::from_bytes::<TuneRequest>(&record).unwrap(), with);
    let record = trace_core::encode::to_bytes(&tuned).unwrap();
    assert_eq!(trace_core::encode::from_bytes::<TuneReport>(&record).unwrap(), tuned);
    let text = serde_json::to_string(&tuned).unwrap();
    assert_eq!(serde_json::from_str::<TuneReport>(&text).unwrap(), tuned);
    let text = serde_json::to_string(&with).unwrap();
    assert_eq!(serde_json::from_str::<TuneRequest>(&text).unwrap(), with);
    assert_eq!(
        serde_json::from_str::<TuneRequest>("{}").unwrap(),
        TuneRequest::default()
    );
}

#[test]
fn random_points_are_unique_and_follow_the_seed() {
    let draw = |seed, wanted| Random::new(seed).draw(100, wanted);
    let mut all = draw(1, 1000);
    assert_ne!(all, (0..100).collect::<Vec<_>>());
    assert_eq!(draw(1, 30), all[..30], "a small draw is the start of a large one");
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
    assert_ne!(draw(1, 30), draw(2, 30));
    assert!(draw(1, 0).is_empty());
    assert!(Random::new(0).draw(0, 5).is_empty());
    // Published values of the generator for the seed 0.
    assert_eq!(Random::new(0).next(), 0xe220_a839_7b1d_cdaf);
}

//! Tests of the Tune panel: messages without anything to tune, the fields, and the results as map and table.

use crate::common::{Window, sample};
use egui_kittest::kittest::Queryable as _;
use kinescope::panels::runs::tune::Sort;
use kinescope::theme::ThemeChoice;
use kinescope_session::tuning::form::SearchKind;
use replay_engine::tune::{
    Health, Measurement, OutputMismatch, Point, PointResult, RejectReason, Resources, Search, TuneEnd, TuneReport,
};
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::recording::{
    AllocationKind, AllocationRow, Api, ApiTraceMetadata, CallFunction, CallStream, EventsBuilder, LaunchRow, TraceKind,
};
use trace_core::{GpuVa, Recording};

/// Returns a recording of three launches of two kernels.
pub fn recording() -> Recording {
    let mut b = EventsBuilder::new();
    b.allocation(
        0,
        1,
        AllocationRow {
            at: GpuVa::new(0x1539_4000_0000),
            bytes: 4096,
            kind: AllocationKind::Take as u32,
            ..Default::default()
        },
    );
    let arguments_at = b.call_bytes(&0x1539_4000_0000u64.to_le_bytes());
    for (time, function) in [(1000, 0), (2000, 1), (3000, 1)] {
        b.launch(
            time,
            1,
            LaunchRow {
                arguments_at,
                arguments: 8,
                function,
                grid: [320, 1, 1],
                block: [256, 1, 1],
                ..Default::default()
            },
        );
    }
    let function = |name: &str| CallFunction {
        name: name.into(),
        parameters: vec![[0, 8]],
        most_threads: 1024,
        ..Default::default()
    };
    let metadata = ApiTraceMetadata {
        api: Api::Cuda,
        functions: vec![function("fill"), function("scale_stride")],
        streams: vec![CallStream {
            name: "default stream".into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let mut r = Recording {
        events: b.finish(),
        ..Default::default()
    };
    r.metadata.kind = TraceKind::Api(metadata);
    r
}

fn point(block: u32, grid: u32) -> Point {
    Point {
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        ..Point::default()
    }
}

fn measured(ns: u64) -> Measurement {
    Measurement {
        times: (0..5).map(|n| ns + n * ns / 50).collect(),
        resources: Some(Resources {
            registers: 24,
            blocks: 8,
            occupancy: 0.75,
            ..Resources::default()
        }),
        rejected: None,
    }
}

/// Returns a report of six blocks and five grids. Blocks of 1024 threads are refused, and blocks of 512 give wrong
/// results.
pub fn tuned() -> TuneReport {
    let mut points = Vec::new();
    for block in [32, 64, 128, 256, 512, 1024] {
        for grid in [80, 160, 320, 640, 1280] {
            let distance = |a: u32, b: f64| (f64::from(a).log2() - b.log2()).powi(2);
            let ns = 20_000.0 * (1.0 + 0.25 * distance(block, 128.0) + 0.2 * distance(grid, 640.0));
            let measured = match block {
                512 => Measurement::from_rejection(RejectReason::Wrong(OutputMismatch {
                    at: 0x1539_4000_0040,
                    count: 1024,
                    wanted: "0000803f".into(),
                    got: "00000000".into(),
                    ..OutputMismatch::default()
                })),
                1024 => Measurement::from_rejection(RejectReason::Refused {
                    why: "cuLaunchKernelEx: CUDA_ERROR_INVALID_VALUE (1)".into(),
                }),
                _ => measured(ns as u64),
            };
            points.push(PointResult {
                point: point(block, grid),
                measured,
            });
        }
    }
    let best = points.iter().position(|t| t.point == point(128, 640));
    let health = |celsius, mhz| Health {
        celsius: Some(celsius),
        clock_mhz: Some(mhz),
        watts: Some(310),
        ..Health::default()
    };
    let mut t = TuneReport {
        device: "NVIDIA H100 80GB HBM3".into(),
        function: "scale_stride".into(),
        event: 2,
        recorded: point(256, 320),
        baseline: measured(29_000),
        baseline_again: Some(measured(29_100)),
        points,
        best: best.map(|n| n as u32),
        space: 30,
        launches: 168,
        memory: 64 << 20,
        restored_pages: 4000,
        processes: 1,
        before: health(41, 1980),
        after: health(44, 1965),
        ..TuneReport::default()
    };
    (t.phases.ready_ns, t.phases.total_ns) = (900_000_000, 1_400_000_000);
    t
}

/// Opens the Tune panel in a window that is tall enough for all fields.
fn window() -> Window {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("launches.kine");
    trace_core::container::write(&recording(), &file, &Progress::new()).unwrap();
    let mut w = Window::open_file_sized(&file, ThemeChoice::Dark, [1280.0, 1600.0], 1.0);
    w.run("show-tune");
    w.settle();
    w
}

#[test]
fn recording_without_cuda_calls_shows_a_message() {
    let mut w = Window::open_file(&sample(), ThemeChoice::Dark, 1.0);
    w.run("show-tune");
    w.settle();
    assert!(w.has_part("This recording holds no CUDA calls"));
    let mut without_launches = Recording::default();
    without_launches.metadata.kind = recording().metadata.kind;
    let mut w = Window::from_recording(without_launches);
    w.run("show-tune");
    w.settle();
    assert!(w.has_part("This recording holds no launch that succeeded"));
}

#[test]
fn current_launch_is_the_default_until_one_is_chosen() {
    let mut w = window();
    let current_launch = |w: &mut Window| {
        let current_event = w.doc().current_event();
        w.views().tune.current_launch(current_event).map(|l| l.event)
    };
    w.doc().go(0);
    w.settle();
    assert_eq!(
        current_launch(&mut w),
        Some(1),
        "before the first launch, the first one is the default"
    );
    assert!(w.has("launch of fill"));
    w.doc().go(3);
    w.settle();
    assert_eq!(current_launch(&mut w), Some(3));
    assert!(w.has("launch of scale_stride"));
    w.click("Previous launch of the kernel");
    assert_eq!(current_launch(&mut w), Some(2));
    w.doc().go(1);
    w.settle();
    assert_eq!(current_launch(&mut w), Some(2), "a chosen launch stays");
    // The kernel has no earlier launch.
    w.click("Previous launch of the kernel");
    assert_eq!(current_launch(&mut w), Some(2));
    w.click("keep this launch");
    assert_eq!(current_launch(&mut w), Some(1));
}

#[test]
fn tune_fields_show_point_counts_and_errors() {
    let mut w = window();
    assert_eq!(w.views().tune.form.block[0], "32, 64, 128, 256, 512, 1024");
    assert!(w.has_part("6 points, 36 launches"));
    w.views().tune.form.grid[0] = "80..=1280".into();
    w.settle();
    assert!(w.has_part("30 points, 180 launches"));
    w.views().tune.form.tolerance = "f32".into();
    w.settle();
    assert!(w.has_part("▲ 'f32' is not a rule") && w.has_part("▲ a field is invalid"));
    w.views().tune.form.tolerance = "arg0=f32:1e-5".into();
    w.settle();
    assert!(!w.has_part("▲"), "a pointer parameter has a buffer");
    w.click("search halving");
    assert_eq!(w.views().tune.form.kind, SearchKind::Halving);
    assert!(w.has_part("30 points, at most 180 launches"));
    w.click("cache l1");
    w.click("cache equal");
    assert!(w.has_part("60 points"));
    w.views().tune.form.block[0] = "1..1024+1".into();
    w.views().tune.form.grid[0] = "1..1024+1".into();
    w.settle();
    assert!(w.has_part("▲ the lists of values make"));
    w.views().tune.target = "software:mali-g71".into();
    w.settle();
    assert!(w.has_part("▲ this target has no CUDA device"));
}

#[test]
fn limits_seed_and_factor_reach_the_request() {
    let mut w = window();
    w.click("search halving");
    for (field, value) in [
        ("time limit of a launch", "250"),
        ("time limit of the tuning", "30"),
        ("seed", "7"),
        ("halving factor", "4"),
    ] {
        w.enter(field, value);
    }
    let (event, recording) = (w.doc().current_event(), w.doc().recording.clone());
    let view = &mut w.views().tune;
    let launch = view.current_launch(event).unwrap();
    let launches = view.launches().unwrap().clone();
    let request = view
        .form
        .parse(&recording, &launches, &launch)
        .tune
        .expect("every field is valid");
    assert_eq!(
        (request.limits.launch_ns, request.limits.total_ns),
        (250_000_000, 30_000_000_000)
    );
    assert!(request.limits.stuck_ns >= request.limits.launch_ns);
    assert!(matches!(request.search, Search::Halving { seed: 7, factor: 4, .. }));
}

#[test]
fn missing_tuning_device_is_reported_and_old_results_stay() {
    let mut w = window();
    assert!(w.has_part("Nothing was tried yet"));
    // No machine has this many devices.
    w.views().tune.target = "cuda:4000".into();
    w.settle();
    w.click("Run the tuning");
    assert!(w.doc().tuning.running().is_none());
    assert!(w.has_part("The tuning failed: "));
    w.doc().tuning.end("cuda:0", Ok(tuned()));
    w.settle();
    assert!(w.has_part("1.45 times as fast as recorded"));
    w.click("Run the tuning");
    assert!(w.has_part("this result is older"));
    assert!(w.has_part("1.45 times as fast as recorded"));
}

#[test]
fn map_and_table_show_each_point_and_share_the_selection() {
    let mut w = window();
    w.doc().tuning.end("cuda:0", Ok(tuned()));
    w.settle();
    assert!(w.has_part("30 of 30 points tried, 10 rejected"));
    assert!(w.has("recorded launch"));
    assert!(w.has("cell grid 640, block 128") && w.has("cell grid 80, block 1024"));
    let selected = |w: &mut Window| w.views().tune.point.map(|n| tuned().points[n as usize].point);
    assert_eq!(
        selected(&mut w),
        Some(point(128, 640)),
        "the best point is selected first"
    );
    w.click("cell grid 80, block 1024");
    assert_eq!(selected(&mut w), Some(point(1024, 80)));
    assert!(w.has("point grid 80, block 1024"), "the table scrolls to the point");
    w.click("Sort by block");
    assert_eq!(w.views().tune.sort, (Sort::Block, false));
    w.click("Sort by block");
    assert_eq!(w.views().tune.sort, (Sort::Block, true));
}

#[test]
fn tune_panel_reports_doubtful_results() {
    let mut w = window();
    let mut t = tuned();
    t.baseline_again = Some(measured(40_000));
    t.ended = TuneEnd::TimeOver;
    w.doc().tuning.end("cuda:0", Ok(t));
    w.settle();
    assert!(w.has_part("clocks or temperature changed") && w.has_part("the time limit was reached"));
    let mut t = tuned();
    t.baseline = t.points[25].measured.clone();
    (t.best, t.points) = (None, Vec::new());
    w.doc().tuning.end("cuda:0", Ok(t));
    w.settle();
    assert!(w.has_part("▲ The recorded launch itself was rejected"));
    let mut t = tuned();
    t.best = None;
    w.doc().tuning.end("cuda:0", Ok(t));
    w.settle();
    assert!(w.has_part("▲ No tried point is correct"));
}

#[test]
fn the_table_is_saved_with_our_columns_and_with_record_replay_s() {
    let mut w = window();
    w.doc().tuning.end("cuda:0", Ok(tuned()));
    w.settle();
    for (item, name, begins) in [
        ("CSV", "a.csv", &b"role,verdict,code"[..]),
        ("CSV as RecordReplay", "b.csv", b"Kernel-Name,GridDim-X"),
        ("Parquet", "c.parquet", b"PAR1"),
    ] {
        let to = w.folder.path().join(name);
        w.will_choose(&to);
        w.click("Export…");
        w.click(item);
        let written = std::fs::read(&to).unwrap();
        assert!(written.starts_with(begins), "{name}");
    }
}

#[test]
fn replacement_code_is_added_and_removed() {
    let mut w = window();
    let code = w.folder.path().join("fast.ptx");
    std::fs::write(&code, ".version 7.0").unwrap();
    w.will_choose(&code);
    w.click("Other code…");
    assert_eq!(w.views().tune.form.modules.len(), 1);
    assert!(w.has_part("fast.ptx · PTX"));
    assert!(w.has("function of fast.ptx") && !w.has("options of fast.ptx"));
    let source = w.folder.path().join("fast.cu");
    std::fs::write(&source, "__global__ void add() {}").unwrap();
    w.will_choose(&source);
    w.click("Other code…");
    w.harness.get_by_label("function of fast.cu").focus();
    w.settle();
    w.type_text("add4");
    w.harness.get_by_label("options of fast.cu").focus();
    w.settle();
    w.type_text("-dlto");
    let module = w.views().tune.form.modules[1].clone();
    assert_eq!((module.function.as_str(), module.options.len()), ("add4", 1));
    w.click("Remove fast.cu");
    w.click("Remove fast.ptx");
    assert!(w.views().tune.form.modules.is_empty());
}

/// Tests that a frame draws only the visible points, even with the maximum number of points.
#[test]
fn tuning_frame_draws_only_visible_points() {
    let count_labels = |points: u32| {
        let mut w = window();
        let points = (0..points).map(|n| PointResult {
            point: point(1 + n % 512, 1 + n / 512),
            measured: measured(10_000 + u64::from(n)),
        });
        let t = TuneReport {
            points: points.collect(),
            best: Some(0),
            ..tuned()
        };
        w.doc().tuning.end("cuda:0", Ok(t));
        w.settle();
        let cells = w.harness.query_all_by_label_contains("cell grid").count();
        let rows = w.harness.query_all_by_label_contains("point grid").count();
        let shown = w.views().tune.clone();
        assert!(Arc::ptr_eq(
            &shown.launches().unwrap().clone(),
            shown.launches().unwrap()
        ));
        (cells, rows)
    };
    let (cells, rows) = count_labels(1 << 16);
    assert!((20..1500).contains(&cells), "{cells} cells");
    assert!((3..60).contains(&rows), "{rows} rows");
    // With fewer points the map is lower, so the table has more room.
    let fewer = count_labels(1 << 13).1;
    assert!(
        (rows..60).contains(&fewer),
        "{fewer} rows with fewer points, {rows} with more"
    );
}

/// Renders pictures for a person into the folder that `KINESCOPE_PICTURES` names.
#[test]
fn pictures() {
    let Some(folder) = std::env::var_os("KINESCOPE_PICTURES") else {
        println!("skipped: KINESCOPE_PICTURES names no folder");
        return;
    };
    for theme in [ThemeChoice::Dark, ThemeChoice::Light, ThemeChoice::Contrast] {
        let mut w = Window::from_recording_themed(recording(), theme);
        w.run("show-tune");
        w.settle();
        let take = |w: &mut Window, name: &str| {
            w.settle();
            let image = w.harness.render().unwrap();
            let path = std::path::Path::new(&folder).join(format!("tune-{name}-{}.png", theme.name()));
            image.save(path).unwrap();
        };
        take(&mut w, "empty");
        w.views().tune.form.grid[0] = "80..=1280".into();
        w.doc().tuning.end("cuda:0", Ok(tuned()));
        take(&mut w, "done");
        w.app().floating.clear();
        w.views().tune.form.tolerance = "f32".into();
        w.views().tune.form.kind = SearchKind::Halving;
        take(&mut w, "wrong");
    }
}

//! Tuning of a recorded launch on the stand-in: correct, wrong and refused points, and points that break a worker
//! process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test panics when it fails"
)]

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use whole_program_tests::cuda::{CudaStandIn, RecordedProgram, run_to_end};
use whole_program_tests::{ProgramOutput, program, root};

/// Runs `kinescope tune` on the stand-in.
fn tune(cuda: &CudaStandIn, file: &Path, arguments: &[&str], set: &[(&str, &str)]) -> ProgramOutput {
    let mut command = Command::new(program("kinescope"));
    let _ = program("kinescope-agent");
    command.arg("tune").arg(file).args(["--on", "cuda:0"]).args(arguments);
    command
        .env("KINESCOPE_KEYS", cuda.file("keys"))
        .envs(set.iter().copied());
    run_to_end(cuda.set_environment(&mut command))
}

fn json(cuda: &CudaStandIn, file: &Path, arguments: &[&str], set: &[(&str, &str)], code: i32) -> Value {
    let all: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
    let ended = tune(cuda, file, &all, set);
    assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
    ended.json()
}

fn record(cuda: &CudaStandIn, arguments: &[&str]) -> RecordedProgram {
    let recorded = cuda.record(arguments[0], &[], arguments, &[]);
    assert_eq!(recorded.ended.code, Some(0), "{:?}", recorded.ended);
    recorded
}

/// Returns block, grid and verdict of each point.
fn verdicts(tuned: &Value) -> Vec<(u64, u64, String)> {
    let first = |p: &Value, key: &str| p[key][0].as_u64().unwrap();
    let points = tuned["points"].as_array().unwrap().iter();
    points
        .map(|p| {
            (
                first(p, "block"),
                first(p, "grid"),
                p["verdict"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

#[test]
fn grid_stride_kernel_is_right_at_every_point() {
    let cuda = CudaStandIn::default();
    let stride = record(&cuda, &["stride"]);
    let axes = ["--block", "32..=1024", "--grid", "1,2,4,8,16", "--repeat", "3"];
    let tuned = json(&cuda, &stride.path, &axes, &[], 0);
    let all = verdicts(&tuned);
    assert_eq!(all.len(), 30);
    assert!(all.iter().all(|(_, _, verdict)| verdict == "right"), "{all:?}");
    assert_eq!(
        tuned["reference"], "recorded",
        "the program copied the output back right after the launch"
    );
    assert_eq!((&tuned["kernel"], &tuned["ended"]), (&"stride".into(), &"done".into()));
    assert_eq!(tuned["baseline"]["block"][0], 64);
    // The reference is one launch, and each point has a warm-up and three runs. The recorded point is measured before
    // and after the others, and not among them.
    assert_eq!(tuned["launches"], 1 + 4 * (29 + 2));
    assert!(tuned["restored_pages"].as_u64().unwrap() > 30);
}

#[test]
fn every_search_finds_the_faster_thread_count() {
    let cuda = CudaStandIn::default();
    let stride = record(&cuda, &["stride"]);
    let pace = [("STAND_IN_PACE", "1")];
    let mut launches = Vec::new();
    for search in ["grid", "halving"] {
        let axes = [
            "--block",
            "64,256,1024",
            "--grid",
            "2,16",
            "--repeat",
            "3",
            "--search",
            search,
        ];
        let tuned = json(&cuda, &stride.path, &axes, &pace, 0);
        let best = &tuned["points"][tuned["best"].as_u64().unwrap() as usize];
        assert_eq!(
            (&best["block"][0], &best["grid"][0]),
            (&1024.into(), &16.into()),
            "{search}: {best}"
        );
        assert!(tuned["speed_up"].as_f64().unwrap() > 2.0, "{}", tuned["speed_up"]);
        launches.push(tuned["launches"].as_u64().unwrap());
    }
    assert!(launches[1] < launches[0], "{launches:?}");
}

#[test]
fn tuning_rejects_exactly_the_wrong_blocks() {
    let cuda = CudaStandIn::default();
    let wrong = record(&cuda, &["wrong_for_some"]);
    let blocks = "1,16,32,48,64,96,128,200,256,320,512,1024";
    let tuned = json(
        &cuda,
        &wrong.path,
        &["--launch", "tile_sums", "--block", blocks, "--grid", "8,16"],
        &[],
        0,
    );
    for (block, grid, verdict) in verdicts(&tuned) {
        let right = block.is_power_of_two() && block <= 256;
        assert_eq!(
            verdict,
            if right { "right" } else { "wrong" },
            "block {block}, grid {grid}"
        );
    }
    assert_eq!(verdicts(&tuned).len(), 24);
    let wrong_point = tuned["points"]
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["verdict"] == "wrong")
        .unwrap();
    assert!(
        wrong_point["wrong"]["at"].as_str().unwrap().starts_with("0x"),
        "{wrong_point}"
    );
    assert!(wrong_point["median_ns"].is_null() && wrong_point["speed_up"].is_null());
    let best = &tuned["points"][tuned["best"].as_u64().unwrap() as usize];
    assert_eq!(best["verdict"], "right");
}

#[test]
fn tuning_compiles_bounds_and_accepts_other_code() {
    let cuda = CudaStandIn::default();
    let stride = record(&cuda, &["stride"]);
    let bounds = [
        "--block",
        "64,128,256",
        "--launch-bounds",
        "128",
        "--launch-bounds",
        "0,2",
        "--repeat",
        "1",
    ];
    let tuned = json(&cuda, &stride.path, &bounds, &[], 0);
    for p in tuned["points"].as_array().unwrap() {
        let refused = p["block"][0] == 256 && p["launch_bounds"][0] == 128;
        assert_eq!(p["verdict"], if refused { "refused" } else { "right" }, "{p}");
    }
    let registers = ["--block", "64", "--max-registers", "0,16", "--repeat", "1"];
    let tuned = json(&cuda, &stride.path, &registers, &[], 0);
    let points = tuned["points"].as_array().unwrap();
    let registers_of = |n: usize| points[n]["resources"]["registers"].as_u64().unwrap();
    assert!(registers_of(1) <= 16 && registers_of(0) > registers_of(1), "{points:?}");
    // Other code with the same text is correct. Code without the kernel and code that needs a missing compiler are not.
    let text = root().join("tests/cuda/clients/ptx/stride.ptx");
    let other = cuda.file("other.ptx");
    std::fs::write(
        &other,
        std::fs::read_to_string(&text).unwrap().replace("stride(", "stridden("),
    )
    .unwrap();
    let source = cuda.file("stride.cu");
    std::fs::write(&source, "extern \"C\" __global__ void stride() {}").unwrap();
    let [text, other, source] = [&text, &other, &source].map(|p| p.to_str().unwrap());
    let nowhere = [("KINESCOPE_NVRTC_LIBRARY", "/nowhere/libnvrtc.so")];
    let modules = [
        "--module", text, "--module", other, "--module", source, "--block", "64", "--repeat", "1",
    ];
    let tuned = json(&cuda, &stride.path, &modules, &nowhere, 0);
    let entries: Vec<(&str, &str)> = tuned["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (p["code"].as_str().unwrap(), p["verdict"].as_str().unwrap()))
        .collect();
    let expected = [
        ("stride.ptx", "right"),
        ("other.ptx", "no code"),
        ("stride.cu", "no code"),
    ];
    assert_eq!(entries, expected);
    let why = tuned["points"][2]["why"].as_str().unwrap();
    assert!(why.contains("KINESCOPE_NVRTC_LIBRARY"), "{why}");
}

#[test]
fn tuning_continues_in_a_new_process_after_a_device_error() {
    let cuda = CudaStandIn::default();
    let stride = record(&cuda, &["stride"]);
    // In every process, the device fails at the ninth launch. The first process has made five launches when it tries
    // the fourth point. The second process knows four points and the recorded launch, and ends before its ninth launch.
    let fails = [("STAND_IN_FAIL", "cuLaunchKernelEx:9=700")];
    let tuned = json(
        &cuda,
        &stride.path,
        &["--block", "32..=1024", "--repeat", "1"],
        &fails,
        0,
    );
    let all = verdicts(&tuned);
    let failed: Vec<u64> = all.iter().filter(|(_, _, v)| v == "failed").map(|(b, ..)| *b).collect();
    assert_eq!((all.len(), failed), (6, vec![256]), "{all:?}");
    assert_eq!(all.iter().filter(|(_, _, v)| v == "right").count(), 5);
    assert_eq!((&tuned["processes"], &tuned["ended"]), (&2.into(), &"done".into()));
}

#[test]
fn tune_tables_are_written_and_invalid_ones_refused() {
    let cuda = CudaStandIn::default();
    let stride = record(&cuda, &["stride"]);
    let [csv, record_replay, parquet] = ["a.csv", "b.csv", "c.parquet"].map(|n| cuda.file(n));
    let files = [
        "--csv",
        csv.to_str().unwrap(),
        "--csv-recordreplay",
        record_replay.to_str().unwrap(),
        "--parquet",
        parquet.to_str().unwrap(),
    ];
    let text = tune(&cuda, &stride.path, &files, &[]);
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(
        text.out.contains("6 points of 6 tried, all correct; compared with"),
        "{}",
        text.out
    );
    let lines = std::fs::read_to_string(&record_replay).unwrap();
    let head =
        "Kernel-Name,GridDim-X,BlockDim-X,MaxThreads,MinBlock,Duration (ms),Duration (stdev),Verify (0 means correct)";
    assert_eq!(lines.lines().next(), Some(head));
    assert_eq!(lines.lines().count(), 8, "the recorded launch and six points");
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 8);
    assert!(std::fs::read(&parquet).unwrap().starts_with(b"PAR1"));
    for (arguments, needle) in [
        (&["--launch", "other"][..], "no launched kernel has the name 'other'"),
        (&["--launch", "0"], "event 0 is not a successful kernel launch"),
        (&["--block", "2048"], "1 to 1024 threads"),
        (
            &["--tolerance", "arg9=f32:1"],
            "parameter 9 of the launch is not a pointer",
        ),
        (&["--module", "/nowhere/x.ptx"], "/nowhere/x.ptx"),
    ] {
        tune(&cuda, &stride.path, arguments, &[]).assert_refused(needle);
    }
    let sample = root().join("sample-traces/vecadd.kine");
    tune(&cuda, &sample, &[], &[]).assert_refused("not an API trace of CUDA");
    let mut nowhere = Command::new(program("kinescope"));
    nowhere.arg("tune").arg(&stride.path).args(["--on", "cuda:7"]);
    run_to_end(cuda.set_environment(&mut nowhere)).assert_refused("no CUDA device 7");
}

/// The object has exactly these keys, because scripts rely on them. `docs/json.md` lists all keys.
#[test]
fn the_json_has_the_documented_keys() {
    let cuda = CudaStandIn::default();
    let wrong = record(&cuda, &["wrong_for_some"]);
    let tuned = json(&cuda, &wrong.path, &["--block", "32,48"], &[], 0);
    let page = std::fs::read_to_string(root().join("docs/json.md")).unwrap();
    let keys = |v: &Value| -> Vec<String> { v.as_object().unwrap().keys().cloned().collect() };
    let point = &tuned["points"][1];
    for object in [
        &tuned,
        point,
        &point["wrong"],
        &point["resources"],
        &tuned["phases"],
        &tuned["before"],
    ] {
        for key in keys(object) {
            assert!(
                page.contains(&format!("`{key}`")) || page.contains(&format!("`{key}[]`")),
                "{key}"
            );
        }
    }
    let mut top = keys(&tuned);
    top.sort_unstable();
    assert_eq!(
        top.join(" "),
        "after baseline baseline_again_ns before best board device drift ended event kernel launches left_out load \
         memory_bytes phases points processes reference restored_pages space speed_up why within_spread"
    );
}

#[test]
fn endless_tuning_launch_is_abandoned_without_leftovers() {
    let cuda = CudaStandIn::default();
    let faulty = record(&cuda, &["faulty"]);
    let order = cuda.file("order.bin");
    // The first word of the input selects a kernel that never ends.
    std::fs::write(&order, [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let input_option = format!("in0={}", order.display());
    let tuned = json(
        &cuda,
        &faulty.path,
        &["--block", "32,64", "--input", &input_option],
        &[],
        1,
    );
    assert_eq!(tuned["baseline"]["verdict"], "stuck", "{tuned}");
    assert!(tuned["best"].is_null(), "{tuned}");
    let since = std::time::Instant::now();
    let has_ended = || cuda.list_replay_processes().is_empty();
    while !has_ended() {
        assert!(
            since.elapsed() < whole_program_tests::cuda::LIMIT,
            "{:?}",
            cuda.list_replay_processes()
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

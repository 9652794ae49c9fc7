//! Runs on simulators: order, targets, verdicts, cancellation, errors.

use crate::support::{SIMULATOR, TestFolder, floats, run_on};
use kinescope_files::output::OutputError;
use kinescope_pipeline::{
    NamedTarget, NoOutcomes, OutcomeSink, Pipeline, PipelineError, RunError, RunEvent, RunRequest, RunVerdict,
    TargetError, run,
};
use kinescope_session::targets::Targets;
use replay_engine::client::{ClientError, Stage};
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

/// Two additions on different GPUs, and a module that adds their sums.
const TWO_TARGETS: &str = r#"version = 1
[inputs.x]
type = "f32"
shape = [1024]
[stages.left]
recording = "SAMPLES/vecadd.kine"
inputs = { a = "inputs.x", b = "inputs.x" }
outputs = ["c"]
target = "first"
[stages.right]
recording = "SAMPLES/vecadd-g52.kine"
inputs = { a = "inputs.x", b = "inputs.x" }
outputs = ["c"]
[stages.sum]
module = "m.wat"
function = "sum"
inputs.a = { from = "left.c", type = "f32", shape = [1024] }
inputs.b = { from = "right.c", type = "f32", shape = [1024] }
outputs.sum = { type = "f32", shape = [1024] }
[outputs]
sum = "sum.sum"
"#;
const SUM: &str = r#"(func (export "sum") (param $a i32) (param $bytes i32) (param $b i32) (param i32)
    (param $sum i32) (param i32) (local $i i32)
    (loop $each
      (f32.store (i32.add (local.get $sum) (local.get $i))
        (f32.add (f32.load (i32.add (local.get $a) (local.get $i))) (f32.load (i32.add (local.get $b) (local.get $i)))))
      (local.set $i (i32.add (local.get $i) (i32.const 4)))
      (br_if $each (i32.lt_u (local.get $i) (local.get $bytes)))))"#;

fn request<'a>(targets: &'a Targets, on: &str) -> RunRequest<'a> {
    RunRequest::new(targets, NamedTarget::parse_list(on).unwrap())
}

/// Outcomes by stage and round.
#[derive(Default)]
struct Kept(Vec<(String, Option<u32>, Vec<u8>)>);

impl OutcomeSink for Kept {
    fn store(&mut self, stage: &str, round: Option<u32>, recording: &[u8]) -> Result<Option<String>, OutputError> {
        self.0.push((stage.to_owned(), round, recording.to_vec()));
        Ok(Some(format!("{stage}.kine")))
    }
}

/// Two additions on one GPU whose plans reset it themselves.
const ONE_TARGET: &str = r#"version = 1
[inputs.x]
type = "f32"
shape = [1024]
[stages.once]
recording = "SAMPLES/vecadd-g52.kine"
inputs = { a = "inputs.x", b = "inputs.x" }
outputs = ["c"]
[stages.twice]
recording = "SAMPLES/vecadd-g52.kine"
inputs = { a = "once.c", b = "inputs.x" }
outputs = ["c"]
[outputs]
sum = "twice.c"
"#;

#[test]
fn a_reset_is_left_out_where_the_plan_does_not_depend_on_it() {
    let folder = TestFolder::new(ONE_TARGET, "");
    let pipeline = folder.open();
    let input = folder.path().with_file_name("x.bin");
    let x: Vec<f32> = (0..1024u16).map(|n| f32::from(n) / 8.0).collect();
    std::fs::write(&input, x.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>()).unwrap();
    let targets = Targets::new(None);
    let run_with = |keeps_resets| {
        let mut request = request(&targets, "software:mali-g52");
        request.inputs.insert("x".to_owned(), input.clone());
        request.keeps_resets = keeps_resets;
        let mut kept = Kept::default();
        let result = run(&pipeline, &request, &mut kept, &mut |_| {}, &Progress::new()).unwrap();
        assert_eq!(
            (result.report.verdict, &result.report.failure),
            (RunVerdict::Match, &None)
        );
        (result, kept)
    };
    let (without, outcomes) = run_with(false);
    let (with, expected) = run_with(true);
    let resets = |result: &kinescope_pipeline::RunResult| {
        let stages = result.report.stages.iter().map(|s| s.reset);
        (stages.collect::<Vec<_>>(), result.report.resets)
    };
    assert_eq!(resets(&without), (vec![None, Some(false)], 0), "{:?}", without.report);
    assert_eq!(resets(&with), (vec![None, Some(true)], 1));
    // The outputs are the same bit for bit, and the outcomes do not differ.
    let sums: Vec<f32> = x.iter().map(|v| 3.0 * v).collect();
    assert_eq!(floats(&without.outputs[0]), sums);
    assert_eq!(without.outputs, with.outputs);
    for (outcome, expected) in outcomes.0.iter().zip(&expected.0) {
        let [a, b] = [outcome, expected].map(|o| trace_core::container::from_bytes(o.2.clone()).unwrap());
        let difference = trace_core::diff::diff(&a, &b);
        assert!(difference.is_empty(), "{}: {difference:#?}", outcome.0);
    }
}

#[test]
fn two_targets_run_at_once_and_outcomes_are_recordings() {
    let folder = TestFolder::new(TWO_TARGETS, SUM);
    let pipeline = folder.open();
    let input = folder.path().with_file_name("x.bin");
    let x: Vec<f32> = (0..1024u16).map(|n| f32::from(n) / 8.0).collect();
    std::fs::write(&input, x.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>()).unwrap();
    let targets = Targets::new(None);
    let mut request = request(&targets, "first=software:mali-g71,software:mali-g52");
    request.inputs.insert("x".to_owned(), input);
    let (mut kept, mut events) = (Kept::default(), Vec::new());
    let result = run(
        &pipeline,
        &request,
        &mut kept,
        &mut |event| match event {
            RunEvent::Started { stage, .. } => events.push((stage, true)),
            RunEvent::Ended { stage, outputs, .. } => {
                assert_eq!(outputs.len(), 1);
                events.push((stage, false));
            }
        },
        &Progress::new(),
    );
    let result = result.unwrap();
    assert_eq!(
        (result.report.verdict, &result.report.failure),
        (RunVerdict::Match, &None)
    );
    let expected: Vec<f32> = x.iter().map(|v| 4.0 * v).collect();
    assert_eq!(floats(&result.outputs[0]), expected);
    // Both replays start before one of them ends.
    assert_eq!(events[..2], [(0, true), (1, true)]);
    assert_eq!(events[4..], [(2, true), (2, false)]);
    let target = |stage: &str| {
        let report = result.report.stages.iter().find(|s| s.stage == stage).unwrap();
        report.target.clone()
    };
    assert_eq!(target("left").as_deref(), Some("software:mali-g71"));
    assert_eq!(target("right").as_deref(), Some("software:mali-g52"));
    assert_eq!(target("sum"), None);
    assert_eq!(kept.0.len(), 2);
    for (stage, round, bytes) in &kept.0 {
        let file = folder.path().with_file_name(format!("{stage}.kine"));
        std::fs::write(&file, bytes).unwrap();
        let outcome = trace_core::container::open(&file).unwrap();
        assert!(round.is_none() && outcome.events.len() > 50);
    }
}

#[test]
fn stage_whose_tensor_does_not_fit_is_refused_before_any_lease() {
    let text = TWO_TARGETS.replace(
        "from = \"right.c\", type = \"f32\"",
        "from = \"right.c\", type = \"u8\"",
    );
    let folder = TestFolder::new(&text, SUM);
    let error = Pipeline::open(&folder.path(), &Progress::new()).unwrap_err();
    assert!(matches!(error, PipelineError::Defects { .. }));
    assert!(
        error
            .to_string()
            .ends_with("line 18: input 'b' of stage 'sum' takes 1024 u8, 'right.c' gives 1024 f32"),
        "{error}"
    );
}

#[test]
fn targets_and_inputs_are_checked_before_any_lease() {
    let folder = TestFolder::new(TWO_TARGETS, SUM);
    let pipeline = folder.open();
    let targets = Targets::new(None);
    // A held target shows that none is opened: opening it would fail with another error.
    let _held = targets.open(SIMULATOR).unwrap();
    let refused = |on: &str| run_on(&pipeline, &targets, on).unwrap_err().to_string();
    assert!(refused("").contains("stage 'left' replays a recording, and no target is given; software:mali-g71"));
    assert_eq!(
        refused("software:mali-g71,software:mali-g52"),
        "line 5: stage 'left' runs on target 'first'; give it as --on first=TARGET"
    );
    assert!(
        refused("first=software:mali-g71,software:mali-g52")
            .contains("input 'x': the pipeline file has no content for it")
    );
    assert!(
        refused("first=software:mali-g71").starts_with("line 10: no target fits stage 'right', which was recorded on")
    );
    assert!(refused("first=qemu:edu").starts_with("line 5: no target fits stage 'left', which was recorded on"));
    assert!(refused("software:mali-g71,software:mali-g71").contains("is given twice"));
    let mut wrong = request(&targets, "first=software:mali-g71,software:mali-g52");
    wrong.inputs.insert("y".to_owned(), folder.path());
    let error = run(&pipeline, &wrong, &mut NoOutcomes, &mut |_| {}, &Progress::new()).unwrap_err();
    assert_eq!(error.to_string(), "input 'y': the pipeline has no input of this name");
    let mut wrong = request(&targets, "first=software:mali-g71,software:mali-g52");
    wrong.inputs.insert("x".to_owned(), folder.path());
    let error = run(&pipeline, &wrong, &mut NoOutcomes, &mut |_| {}, &Progress::new()).unwrap_err();
    assert!(
        matches!(error, RunError::Input(_)) && error.to_string().contains("takes exactly 4096 bytes"),
        "{error}"
    );
}

/// One replay with recorded inputs, then a module with this function.
fn replay_then(function: &str, limits: &str) -> TestFolder {
    let text = format!(
        r#"version = 1
[stages.add]
recording = "SAMPLES/vecadd.kine"
outputs = ["c"]
[stages.after]
module = "m.wat"
function = "after"
inputs.c = {{ from = "add.c", type = "f32", shape = [1024] }}
outputs.o = {{ type = "u8", shape = [1] }}
limits = {{ {limits} }}
[outputs]
o = "after.o"
"#
    );
    let module = format!(r#"(func (export "after") (param i32 i32 i32 i32) {function})"#);
    TestFolder::new(&text, &module)
}

#[test]
fn failed_module_ends_the_run_and_frees_the_target() {
    for (function, limits, expected) in [
        (
            "(loop $l (br $l))",
            "fuel = 100000",
            "stage 'after': the module used up its fuel of 100000",
        ),
        (
            "(loop $l (br $l))",
            "fuel = 1000000000000, time_ms = 50",
            "stage 'after': the module ran longer than its limit of 50 ms",
        ),
        (
            "(unreachable)",
            "",
            "stage 'after': the module trapped in 'after': it reached an `unreachable` instruction",
        ),
        (
            "(drop (memory.grow (i32.const 100)))",
            "memory = 131072",
            "stage 'after': the module asked for more than 131072 bytes of memory",
        ),
        (
            "(result i32) (i32.const 3)",
            "",
            "stage 'after': the function 'after' of the module reports error 3",
        ),
    ] {
        let targets = Targets::new(None);
        let result = run_on(&replay_then(function, limits).open(), &targets, SIMULATOR).unwrap();
        let failure = result.report.failure.clone().unwrap();
        assert!(failure.starts_with(expected), "{failure}");
        assert_eq!(result.report.verdict, RunVerdict::Failed);
        assert!(result.outputs.is_empty() && !result.is_unstarted);
        assert_eq!(result.report.stages.len(), 2);
        targets.open(SIMULATOR).unwrap();
    }
}

#[test]
fn cancelled_run_ends_soon_and_frees_the_target() {
    let folder = replay_then("(loop $l (br $l))", "fuel = 1000000000000, time_ms = 600000");
    let pipeline = folder.open();
    let (targets, progress) = (Targets::new(None), Progress::new());
    let observer = progress.clone();
    let start = Instant::now();
    let mut observe = |event: RunEvent| {
        if matches!(event, RunEvent::Started { stage: 1, .. }) {
            observer.cancel();
        }
    };
    let ended = run(
        &pipeline,
        &request(&targets, SIMULATOR),
        &mut NoOutcomes,
        &mut observe,
        &progress,
    );
    assert!(matches!(ended, Err(RunError::Cancelled)));
    assert!(start.elapsed() < Duration::from_secs(60));
    // The lease is free again.
    targets.open(SIMULATOR).unwrap();
    // A run that is cancelled before its first stage, and one whose replay runs.
    for at_start in [true, false] {
        let progress = Progress::new();
        if at_start {
            progress.cancel();
        }
        let observer = progress.clone();
        let mut observe = |_| observer.cancel();
        let ended = run(
            &pipeline,
            &request(&targets, SIMULATOR),
            &mut NoOutcomes,
            &mut observe,
            &progress,
        );
        assert!(matches!(ended, Err(RunError::Cancelled)));
        targets.open(SIMULATOR).unwrap();
    }
}

#[test]
fn target_that_is_held_is_an_unstarted_stage() {
    let folder = replay_then("", "");
    let targets = Targets::new(None);
    let held = targets.open(SIMULATOR).unwrap();
    let result = run_on(&folder.open(), &targets, SIMULATOR).unwrap();
    assert!(result.is_unstarted && result.report.verdict == RunVerdict::Failed);
    assert!(result.report.failure.unwrap().starts_with("stage 'add': "));
    let busy = |e: &Option<TargetError>| {
        let error = e.as_ref().unwrap();
        assert!(error.is_unstarted(), "{error:?}");
        assert!(
            matches!(
                error,
                TargetError::Open {
                    error: ClientError::Busy { .. },
                    ..
                }
            ),
            "{error:?}"
        );
    };
    busy(&result.target_error);
    assert!(!result.has_executed);
    drop(held);
    let result = run_on(&folder.open(), &targets, SIMULATOR).unwrap();
    assert_eq!(result.report.verdict, RunVerdict::Match);
    assert!(result.has_executed && result.target_error.is_none());
    // A stage on another target executed before.
    let chain = ONE_TARGET.replacen("vecadd-g52", "vecadd", 1);
    let folder = TestFolder::new(&chain, "");
    let input = folder.path().with_file_name("x.bin");
    std::fs::write(&input, [0; 4096]).unwrap();
    let held = targets.open("software:mali-g52").unwrap();
    let mut request = request(&targets, "software:mali-g71,software:mali-g52");
    request.inputs.insert("x".to_owned(), input);
    let pipeline = folder.open();
    let result = run(&pipeline, &request, &mut NoOutcomes, &mut |_| {}, &Progress::new()).unwrap();
    drop(held);
    busy(&result.target_error);
    assert!(result.has_executed && result.is_unstarted, "{:?}", result.report);
}

#[test]
fn error_of_a_target_says_whether_its_replay_started() {
    let lost = |stage| {
        TargetError::Replay(ClientError::Lost {
            stage,
            reason: String::new(),
        })
    };
    assert!(lost(Stage::Upload).is_unstarted());
    assert!(!lost(Stage::Run).is_unstarted() && !lost(Stage::Download).is_unstarted());
    assert!(!TargetError::Replay(ClientError::Device("it hung".to_owned())).is_unstarted());
}

#[test]
fn outcome_that_cannot_be_stored_ends_the_run() {
    struct Full;
    impl OutcomeSink for Full {
        fn store(&mut self, _: &str, _: Option<u32>, _: &[u8]) -> Result<Option<String>, OutputError> {
            kinescope_files::output::write("/no such folder/x.kine".as_ref(), &[]).map(|()| None)
        }
    }
    let targets = Targets::new(None);
    let pipeline = replay_then("", "").open();
    let ended = run(
        &pipeline,
        &request(&targets, SIMULATOR),
        &mut Full,
        &mut |_| {},
        &Progress::new(),
    );
    assert!(matches!(ended, Err(RunError::Output(_))));
    targets.open(SIMULATOR).unwrap();
}

//! Campaigns whose connection to an agent is cut at every stage of a run: the run is repeated and has the usual result.

use crate::farm::Farm;
use crate::lossy_agent::LossyAgent;
use kinescope_campaign::{
    Campaign, CampaignFolder, CampaignOptions, Matrix, RunDetails, RunQueue as _, RunResult, RunVerdict, run_campaign,
};
use kinescope_session::targets::Targets;
use std::path::Path;
use std::time::Duration;
use trace_core::progress::Progress;

/// No cut at all.
const NEVER: u64 = u64::MAX;

/// Two additions on one GPU, one after the other.
const TWO_ADDITIONS: &str = r#"version = 1
[inputs.x]
type = "f32"
shape = [1024]
file = "x.bin"
[stages.once]
recording = "vecadd.kine"
inputs = { a = "inputs.x", b = "inputs.x" }
outputs = ["c"]
[stages.twice]
recording = "vecadd.kine"
inputs = { a = "once.c", b = "inputs.x" }
outputs = ["c"]
[outputs]
sum = "twice.c"
"#;

/// Runs a campaign of one target, an agent whose connections are cut once. Returns its only result, and the number of
/// bytes that went through its connections.
fn run_with_cut(folder: &Path, table: &str, cut_at: u64) -> (RunResult, u64) {
    let keys = folder.join("keys");
    let agent = LossyAgent::start(folder, cut_at);
    let target = agent.target();
    let text = format!("version = 1\ntargets = [{target:?}]\n{table}");
    let campaign = Campaign::parse(&text, folder).unwrap();
    let matrix = Matrix::expand(&campaign, &Progress::new()).unwrap();
    let out = CampaignFolder::create(&folder.join(format!("out-{cut_at}")), "cut").unwrap();
    let queue = out.open_queue().unwrap();
    queue.add(&mut matrix.runs()).unwrap();
    let options = CampaignOptions {
        worker: "tester".into(),
        max_workers: 0,
        target_wait: Duration::from_secs(60),
        outcomes: out.outcomes_path(),
        targets: Targets::new(Some(keys)),
    };
    let end = run_campaign(&queue, &[target], &options, &Progress::new(), &|_| {}).unwrap();
    assert_eq!((end.done, end.given_up.len()), (1, 0), "cut at byte {cut_at}: {end:?}");
    let (_, _, result) = Farm::results(&queue).remove(0);
    assert_eq!(
        result.attempt > 1,
        !result.earlier_attempts.is_empty(),
        "cut at byte {cut_at}: {result:?}"
    );
    (result, agent.bytes())
}

/// Runs a campaign again with cuts at `count` places, and asserts that each has the same result as without a cut.
fn check_cuts(folder: &Path, table: &str, count: u64) -> RunResult {
    let (whole, bytes) = run_with_cut(folder, table, NEVER);
    let mut repeated = 0;
    for number in 1..=count {
        let cut_at = bytes * number / (count + 1);
        let (result, _) = run_with_cut(folder, table, cut_at);
        let compared = |r: &RunResult| (r.verdict, r.failure.clone(), r.fingerprint.clone(), r.details.clone());
        assert_eq!(compared(&result), compared(&whole), "cut at byte {cut_at} of {bytes}");
        repeated += u32::from(result.is_repeated());
    }
    assert!(repeated > 0, "no cut met a run");
    whole
}

#[test]
fn a_pipeline_whose_connection_is_cut_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(crate::farm::sample("vecadd.kine"), folder.path().join("vecadd.kine")).unwrap();
    std::fs::write(folder.path().join("x.bin"), [0; 4096]).unwrap();
    std::fs::write(folder.path().join("add.kpipe"), TWO_ADDITIONS).unwrap();
    let whole = check_cuts(folder.path(), "[[pipelines]]\npath = \"add.kpipe\"\n", 12);
    assert_eq!(whole.verdict, RunVerdict::Match, "{whole:?}");
}

#[test]
fn seeds_whose_connection_is_cut_are_repeated() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(crate::farm::sample("vecadd.kine"), folder.path().join("vecadd.kine")).unwrap();
    let table = "[[fuzz]]\npath = \"vecadd.kine\"\ninputs = [\"a\"]\nseeds = \"0..3\"\n";
    let whole = check_cuts(folder.path(), table, 4);
    assert_eq!(whole.verdict, RunVerdict::Match, "{whole:?}");
}

#[test]
fn a_bisection_whose_connection_is_cut_still_finds_the_shortest_part() {
    let folder = tempfile::tempdir().unwrap();
    crate::kinds::write_diverging(folder.path());
    let table = "[[bisect]]\npath = \"diverging.kine\"\njobs-only = true\n";
    let whole = check_cuts(folder.path(), table, 3);
    assert_eq!(whole.verdict, RunVerdict::Diverged, "{whole:?}");
    let Some(RunDetails::Bisect(details)) = &whole.details else {
        panic!("{whole:?}")
    };
    assert_eq!(details.jobs_kept.as_deref(), Some("0 to 2"));
}

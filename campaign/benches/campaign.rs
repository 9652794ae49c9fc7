//! What the queue of a campaign costs: the time of a whole campaign, beside the time that its slowest target was busy.
//!
//! `cargo bench -p kinescope-campaign --bench campaign`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark"
)]

use kinescope_campaign::{
    Campaign, CampaignFolder, CampaignOptions, Matrix, RunQueue as _, RunSource as _, run_campaign,
};
use kinescope_session::targets::Targets;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

const TARGETS: [&str; 2] = ["software:mali-g71", "software:mali-g52"];
const REPEATS: u32 = 500;
/// Number of runs that are only queued.
const QUEUED: u32 = 10_000;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sample-traces");
    for (n, name) in ["vecadd.kine", "digits.kine"].into_iter().enumerate() {
        run(&folder.path().join(n.to_string()), &samples.join(name));
    }
    queue(&folder.path().join("queue"), &samples.join("vecadd.kine"));
}

fn open(path: &Path, recording: &Path, targets: &str, repeats: u32) -> (Campaign, Matrix, CampaignFolder) {
    let text = format!(
        "version = 1\nname = \"bench\"\nrepeats = {repeats}\n[[recordings]]\npath = {:?}\ntargets = [{targets}]\n",
        recording.display().to_string()
    );
    let campaign = Campaign::parse(&text, Path::new("/")).unwrap();
    let matrix = Matrix::expand(&campaign, &Progress::new()).unwrap();
    let folder = CampaignFolder::create(path, &campaign.name).unwrap();
    (campaign, matrix, folder)
}

/// Runs a sample on the simulator that fits it.
fn run(path: &Path, recording: &Path) {
    let (_, matrix, folder) = open(path, recording, "\"software:mali-g71\"", REPEATS);
    let queue = folder.open_queue().unwrap();
    queue.add(&mut matrix.runs()).unwrap();
    let options = CampaignOptions {
        worker: "bench".to_owned(),
        max_workers: 0,
        target_wait: Duration::ZERO,
        outcomes: folder.outcomes_path(),
        targets: Targets::new(None),
    };
    let begun = Instant::now();
    let targets = [TARGETS[0].to_owned()];
    let run = || run_campaign(&queue, &targets, &options, &Progress::new(), &|_| {});
    let end = queue.lease_ahead_during(run).unwrap().unwrap();
    let took = begun.elapsed();
    let (mut busy, mut plans): (BTreeMap<String, u64>, u64) = (BTreeMap::new(), 0);
    queue
        .results(&mut |_, result| {
            plans += result.compile_ns + result.upload_ns + result.run_ns;
            *busy.entry(result.on_target).or_default() += result.ended_ms - result.started_ms;
            true
        })
        .unwrap();
    let slowest = Duration::from_millis(busy.values().copied().max().unwrap_or(0));
    println!(
        "{}: {} runs in {took:.2?}, the slowest target was busy for {slowest:.2?} (plans and runs {:.2?}), ratio {:.2}",
        recording.file_name().unwrap_or_default().display(),
        end.done,
        Duration::from_nanos(plans),
        took.as_secs_f64() / slowest.as_secs_f64().max(1e-9)
    );
}

/// Queues runs, and takes and returns one of them.
fn queue(path: &Path, recording: &Path) {
    let names = TARGETS.map(|t| format!("\"{t}\"")).join(", ");
    let (_, matrix, folder) = open(path, recording, &names, QUEUED);
    let queue = folder.open_queue().unwrap();
    let begun = Instant::now();
    let added = queue.add(&mut matrix.runs()).unwrap();
    println!("{added} runs queued in {:.2?}", begun.elapsed());
    let begun = Instant::now();
    const TIMES: u32 = 200;
    for _ in 0..TIMES {
        let leased = queue
            .take(TARGETS[0], "bench", Duration::from_secs(60))
            .unwrap()
            .unwrap();
        queue.release(&leased, None).unwrap();
    }
    println!("taken and returned in {:.2?} each", begun.elapsed() / TIMES);
}

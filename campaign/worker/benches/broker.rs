//! What a broker costs a campaign: the time of a whole campaign, beside the time that its slowest target was busy, and
//! what the broker stores for it.
//!
//! `cargo bench -p kinescope-worker --bench broker`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark"
)]

use clap::Parser as _;
use kinescope_campaign::{Campaign, CampaignFolder, CampaignOptions, Matrix, RunQueue as _, run_campaign};
use kinescope_session::targets::Targets;
use kinescope_worker::cli::{Cli, Command};
use kinescope_worker::submit::submit;
use kinescope_worker::worker;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use trace_core::progress::Progress;
use whole_program_tests::broker::{NatsServer, find_nats_server};

const REPEATS: u32 = 500;
/// Number of runs that are only queued.
const QUEUED: u32 = 10_000;

fn main() {
    let Some(nats) = find_nats_server() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(&nats, folder.path(), &[]);
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample-traces");
    for name in ["vecadd", "digits"] {
        let recording = samples.join(format!("{name}.kine"));
        run_embedded(&folder.path().join(format!("{name}-here")), &recording);
        run(&folder.path().join(name), &recording, &server);
    }
    queue(&folder.path().join("queue"), &samples.join("vecadd.kine"), &server);
}

fn write_description(folder: &Path, recording: &Path, target: &str, repeats: u32) {
    std::fs::create_dir_all(folder).unwrap();
    let text = format!(
        "version = 1\nname = \"bench\"\nrepeats = {repeats}\ntargets = [\"{target}\"]\n[[recordings]]\npath = {:?}\n",
        recording.display().to_string()
    );
    std::fs::write(folder.join("c.toml"), text).unwrap();
}

fn submit_in(folder: &Path, server: &NatsServer, stop: &Progress) -> u64 {
    let path = |name: &str| folder.join(name).display().to_string();
    let cli = Cli::parse_from([
        "kinescope-worker",
        "submit",
        &path("c.toml"),
        "-o",
        &path("out"),
        "--queue",
        &server.address(),
    ]);
    let Command::Submit(options) = cli.command else {
        return 0;
    };
    submit(&options, stop).unwrap().done
}

/// Runs a sample with a worker in this process.
fn run(folder: &Path, recording: &Path, server: &NatsServer) {
    let target = "software:mali-g71";
    write_description(folder, recording, target, REPEATS);
    let cache = folder.join("cache").display().to_string();
    let address = server.address();
    let cli = Cli::parse_from([
        "kinescope-worker",
        "serve",
        "--queue",
        &address,
        "--on",
        target,
        "--cache",
        &cache,
    ]);
    let Command::Serve(worker_options) = cli.command else {
        return;
    };
    let stop = Progress::new();
    let (took, done) = std::thread::scope(|scope| {
        let worker = scope.spawn(|| worker::serve(&worker_options, &stop).unwrap());
        // The worker is ready, as it is at night.
        std::thread::sleep(Duration::from_secs(1));
        let begun = Instant::now();
        let done = submit_in(folder, server, &Progress::new());
        let took = begun.elapsed();
        stop.cancel();
        worker.join().unwrap();
        (took, done)
    });
    print_ratio(folder, "over a broker", recording, took, done);
}

/// Runs the same campaign with the queue in its folder.
fn run_embedded(folder: &Path, recording: &Path) {
    let target = "software:mali-g71".to_owned();
    write_description(folder, recording, &target, REPEATS);
    let campaign = Campaign::read(&folder.join("c.toml")).unwrap();
    let matrix = Matrix::expand(&campaign, &Progress::new()).unwrap();
    let begun = Instant::now();
    let out = CampaignFolder::create(&folder.join("out"), &campaign.name).unwrap();
    let queue = out.open_queue().unwrap();
    queue.add(&mut matrix.runs()).unwrap();
    let options = CampaignOptions {
        worker: "bench".to_owned(),
        max_workers: 0,
        target_wait: Duration::ZERO,
        outcomes: out.outcomes_path(),
        targets: Targets::new(None),
    };
    let run = || run_campaign(&queue, &[target], &options, &Progress::new(), &|_| {});
    let end = queue.lease_ahead_during(run).unwrap().unwrap();
    let took = begun.elapsed();
    drop(queue);
    print_ratio(folder, "with the queue in a folder", recording, took, end.done);
}

/// Prints the time of a campaign beside that of its slowest target.
fn print_ratio(folder: &Path, how: &str, recording: &Path, took: Duration, done: u64) {
    let (mut busy, mut plans): (BTreeMap<String, u64>, u64) = (BTreeMap::new(), 0);
    let queue = CampaignFolder::open(&folder.join("out")).unwrap().open_queue().unwrap();
    queue
        .results(&mut |_, result| {
            plans += result.compile_ns + result.upload_ns + result.run_ns;
            *busy.entry(result.on_target).or_default() += result.ended_ms - result.started_ms;
            true
        })
        .unwrap();
    let slowest = Duration::from_millis(busy.values().copied().max().unwrap_or(0));
    println!(
        "{} {how}: {done} runs in {took:.2?}, the slowest target was busy for {slowest:.2?} (plans and runs \
         {:.2?}), ratio {:.2}",
        recording.file_name().unwrap_or_default().display(),
        Duration::from_nanos(plans),
        took.as_secs_f64() / slowest.as_secs_f64().max(1e-9)
    );
}

/// Returns the size of the files of a folder, bytes.
fn count_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|e| match e.metadata() {
        Ok(meta) if meta.is_dir() => count_bytes(&e.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Queues runs that nobody takes, until all are at the broker.
fn queue(folder: &Path, recording: &Path, server: &NatsServer) {
    write_description(folder, recording, "agent:none/mali-g71", QUEUED);
    let before = count_bytes(server.folder());
    let begun = Instant::now();
    let stop = Progress::new();
    std::thread::scope(|scope| {
        let client = scope.spawn(|| submit_in(folder, server, &stop));
        let published = || {
            let status = CampaignFolder::open(&folder.join("out")).and_then(|f| f.stored_status());
            // The first status is written before the runs are published, the second one after that.
            status.is_ok_and(|s| s.running && s.counts.queued == u64::from(QUEUED))
                && count_bytes(server.folder()).saturating_sub(before) > 0
        };
        while !published() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut size = 0;
        // Publishing has ended when the size stays.
        while size != count_bytes(server.folder()) {
            size = count_bytes(server.folder());
            std::thread::sleep(Duration::from_millis(500));
        }
        let took = begun.elapsed().saturating_sub(Duration::from_millis(500));
        let bytes = size.saturating_sub(before) / u64::from(QUEUED);
        println!("{QUEUED} runs queued in {took:.2?}, {bytes} bytes each on the broker");
        stop.cancel();
        client.join().unwrap();
    });
}

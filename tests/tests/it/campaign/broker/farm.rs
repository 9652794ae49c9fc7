//! Campaigns of many runs over a broker: parts that are killed at random, and the memory that a long queue needs.

use super::{LIMIT, TestBroker, start_run};
use crate::campaign::{check_results, print_ratio, random, start_agents, write_campaign, write_sample_campaign};
use kinescope_campaign::{CampaignFolder, RunQueue as _, RunVerdict};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use whole_program_tests::broker::{BrokerWorker, NatsServer, find_nats_server, peak_memory_kib};
use whole_program_tests::farm::FarmAgent;
use whole_program_tests::program;

/// Waits until the status file of a campaign shows this number of results.
fn wait_for_results(folder: &Path, count: u64) {
    let begun = Instant::now();
    loop {
        let status = CampaignFolder::open(&folder.join("out")).and_then(|f| f.stored_status());
        if status.is_ok_and(|s| s.counts.done >= count) {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "there are no {count} results");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "make test-full: minutes of two processors"]
fn thousand_runs_over_a_broker_whose_parts_are_killed() {
    let Some(nats) = find_nats_server() else { return };
    let folder = tempfile::tempdir().unwrap();
    run_on_farm(&nats, folder.path(), 8, 125, true);
}

/// Measures what the broker costs when nothing is killed.
#[test]
#[ignore = "make test-full: minutes of two processors"]
fn thousand_runs_over_a_broker() {
    let Some(nats) = find_nats_server() else { return };
    let folder = tempfile::tempdir().unwrap();
    run_on_farm(&nats, folder.path(), 8, 125, false);
}

/// Runs a campaign over a broker, with a worker for every two agents. With `kills_parts`, agents, workers, the server and the
/// client are killed at random moments.
fn run_on_farm(nats: &Path, folder: &Path, agents: usize, repeats: u32, kills_parts: bool) {
    let keys = folder.join("keys");
    let mut farm: Vec<FarmAgent> = start_agents(folder, &keys, agents);
    let targets: Vec<String> = farm.iter().map(|a| a.target.clone()).collect();
    let mut server = NatsServer::start(nats, folder, &[]);
    let address = server.address();
    let mut workers: Vec<BrokerWorker> = targets
        .chunks(2)
        .enumerate()
        .map(|(n, targets)| {
            let mut options = vec!["--queue", address.as_str(), "--lease", "2"];
            targets.iter().for_each(|t| options.extend(["--on", t.as_str()]));
            BrokerWorker::start(folder, &keys, &format!("worker{n}"), &options)
        })
        .collect();
    // A network, as a farm replays it.
    write_sample_campaign(folder, "digits.kine", &targets, repeats);
    let mut seed = u64::from(std::process::id());
    let mut kills = [0; 4];
    let begun = Instant::now();
    let mut child = start_run(folder, &keys, &server, &[]);
    let pause = |seed: &mut u64| Duration::from_millis(500 + random(seed, 1500));
    let mut next_kill = begun + pause(&mut seed);
    let code = loop {
        assert!(begun.elapsed() < LIMIT, "the campaign does not end");
        // The end is noticed at once: its time is measured.
        std::thread::sleep(Duration::from_millis(10));
        workers.iter_mut().for_each(BrokerWorker::assert_running);
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if !kills_parts || Instant::now() < next_kill {
            continue;
        }
        let kind = [0, 0, 0, 1, 1, 1, 2, 3][random(&mut seed, 8) as usize];
        kills[kind] += 1;
        match kind {
            0 => {
                let at = random(&mut seed, farm.len() as u64) as usize;
                farm[at].restart();
            }
            1 => {
                let at = random(&mut seed, workers.len() as u64) as usize;
                workers[at].restart();
            }
            2 => server.restart(),
            _ => {
                child.kill().unwrap();
                child.wait().unwrap();
                child = start_run(folder, &keys, &server, &[]);
            }
        }
        next_kill = Instant::now() + pause(&mut seed);
    };
    let log = std::fs::read_to_string(folder.join("client.log")).unwrap();
    assert_eq!(code, Some(0), "{log}");
    let took = begun.elapsed();
    let results = check_results(folder, u64::from(repeats) * agents as u64);
    let repeated = results.iter().filter(|r| r.is_repeated()).count();
    println!(
        "{} runs; killed: {} agents, {} workers, {} servers, {} clients; {repeated} runs repeated",
        results.len(),
        kills[0],
        kills[1],
        kills[2],
        kills[3]
    );
    print_ratio(&results, took);
}

#[test]
#[ignore = "make test-full: a minute of two processors"]
fn a_hundred_thousand_queued_runs_need_little_memory() {
    /// Maximum resident memory of the client and of a worker, KiB.
    const MAX_KIB: u64 = 96 << 10;
    let Some(TestBroker { folder, keys, server }) = TestBroker::start() else {
        return;
    };
    let folder = folder.path();
    // Ten agents that nobody serves, and a target with a worker.
    let mut targets: Vec<String> = (0..9).map(|n| format!("agent:none{n}/mali-g71")).collect();
    targets.push("software:mali-g71".to_owned());
    write_campaign(folder, &targets, 10_000);
    let address = server.address();
    let options = ["--queue", &address, "--on", "software:mali-g71"];
    let worker = BrokerWorker::start(folder, &keys, "worker", &options);
    worker.wait_for_log("ready");
    let log = std::fs::File::create(folder.join("client.log")).unwrap();
    let begun = Instant::now();
    let mut client = Command::new(program("kinescope-worker"))
        .arg("submit")
        .arg(folder.join("c.toml"))
        .arg("-o")
        .arg(folder.join("out"))
        .args(["--queue", &address])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    while !std::fs::read_to_string(folder.join("client.log"))
        .unwrap()
        .contains("queued runs=100000")
    {
        assert!(begun.elapsed() < LIMIT && client.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(50));
    }
    let queued = begun.elapsed();
    wait_for_results(folder, 300);
    let memory = [client.id(), worker.id()].map(|id| peak_memory_kib(id).unwrap());
    client.kill().unwrap();
    client.wait().unwrap();
    println!(
        "100000 runs queued in {queued:.1?}; client {} KiB, worker {} KiB",
        memory[0], memory[1]
    );
    assert!(memory.iter().all(|kib| *kib < MAX_KIB), "{memory:?}");
    let queue = CampaignFolder::open(&folder.join("out")).unwrap().open_queue().unwrap();
    let mut verdicts = BTreeMap::<RunVerdict, u64>::new();
    queue
        .results(&mut |_, result| {
            *verdicts.entry(result.verdict).or_default() += 1;
            true
        })
        .unwrap();
    assert_eq!(verdicts.keys().copied().collect::<Vec<_>>(), [RunVerdict::Match]);
}

//! Campaigns with the real programs: the tutorial, agents and processes that are killed, a broker and its workers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

mod broker;

use kinescope_campaign::{CampaignFolder, RunQueue as _, RunResult, RunVerdict};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use whole_program_tests::farm::FarmAgent;
use whole_program_tests::simulator_agent::SimulatorAgent;
use whole_program_tests::{code_blocks, kinescope, program, root};

/// Returns the next number of a generator: tests kill at other moments each time.
fn random(seed: &mut u64, below: u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

/// Writes a campaign of the shortest sample on these targets.
fn write_campaign(folder: &Path, targets: &[String], repeats: u32) {
    write_sample_campaign(folder, "vecadd.kine", targets, repeats);
}

/// Writes a campaign of a sample on these targets.
fn write_sample_campaign(folder: &Path, sample: &str, targets: &[String], repeats: u32) {
    std::fs::copy(root().join("sample-traces").join(sample), folder.join(sample)).unwrap();
    write_description(
        folder,
        targets,
        repeats,
        &format!("[[recordings]]\npath = \"{sample}\"\n"),
    );
}

/// Writes the description of a campaign of one table on these targets.
fn write_description(folder: &Path, targets: &[String], repeats: u32, table: &str) {
    let text =
        format!("version = 1\nname = \"farm\"\nrepeats = {repeats}\ntarget-wait = 120\ntargets = {targets:?}\n{table}");
    std::fs::write(folder.join("c.toml"), text).unwrap();
}

/// Starts agents with one simulated G71 each.
fn start_agents(folder: &Path, keys: &Path, count: usize) -> Vec<FarmAgent> {
    let start = |n| FarmAgent::start(folder, keys, &format!("farm{n}"), "software:mali-g71");
    (0..count).map(start).collect()
}

/// Starts `campaign run` on a folder.
fn start_run(folder: &Path, keys: &Path, options: &[&str]) -> Child {
    let mut command = Command::new(program("kinescope"));
    command
        .args(["campaign", "run"])
        .arg(folder.join("c.toml"))
        .arg("-o")
        .arg(folder.join("out"))
        .args(options)
        .env("KINESCOPE_KEYS", keys)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Returns all results, and asserts that each run has one and that each repeat is marked.
fn check_results(folder: &Path, expected: u64) -> Vec<RunResult> {
    let queue = CampaignFolder::open(&folder.join("out")).unwrap().open_queue().unwrap();
    let counts = queue.counts().unwrap();
    assert_eq!((counts.done, counts.queued, counts.leased), (expected, 0, 0));
    let mut results = BTreeMap::new();
    queue
        .results(&mut |run, result| {
            assert!(results.insert(run.id, result).is_none());
            true
        })
        .unwrap();
    assert_eq!(results.len() as u64, expected);
    for result in results.values() {
        assert_eq!(result.verdict, RunVerdict::Match, "{result:?}");
        assert_eq!(result.attempt > 1, !result.earlier_attempts.is_empty(), "{result:?}");
    }
    results.into_values().collect()
}

/// Prints the time of a campaign in relation to the ideal, the time that its slowest target was busy, and where the rest of
/// that target's time went.
fn print_ratio(results: &[RunResult], took: Duration) {
    let mut targets: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for result in results {
        let runs = targets.entry(&result.on_target).or_default();
        runs.push((result.started_ms, result.ended_ms.max(result.started_ms)));
    }
    let count_busy = |runs: &[(u64, u64)]| runs.iter().map(|(start, end)| end - start).sum::<u64>();
    let Some(mut runs) = targets.into_values().max_by_key(|runs| count_busy(runs)) else {
        return;
    };
    runs.sort_unstable();
    let busy = count_busy(&runs);
    let pauses: Vec<u64> = runs
        .windows(2)
        .map(|pair| pair[1].0.saturating_sub(pair[0].1))
        .collect();
    let span = runs.last().map_or(0, |run| run.1) - runs.first().map_or(0, |run| run.0);
    let total = u64::try_from(took.as_millis()).unwrap();
    println!(
        "{total} ms; the slowest target was busy for {busy} ms with {} runs; ratio {:.2}; between two of its runs {} ms, \
         {} ms of it in pauses above 50 ms; before the first one and after the last one {} ms",
        runs.len(),
        total as f64 / busy.max(1) as f64,
        pauses.iter().sum::<u64>(),
        pauses.iter().filter(|ms| **ms > 50).sum::<u64>(),
        total.saturating_sub(span)
    );
}

#[test]
fn the_tutorial_does_what_it_says() {
    let page = std::fs::read_to_string(root().join("docs/tutorials/a-nightly-campaign.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::create_dir_all(folder.path().join("target/farm")).unwrap();
    std::os::unix::fs::symlink(root().join("sample-traces"), folder.path().join("sample-traces")).unwrap();
    // The tutorial's agent, with all simulators; the farm's has one.
    let _agent = FarmAgent::start_with_all(folder.path(), &keys, "farm");
    let description = code_blocks(&page, "toml")[0];
    std::fs::write(folder.path().join("target/farm/nightly.toml"), description).unwrap();
    let (mut outputs, mut commands) = (String::new(), 0);
    for line in code_blocks(&page, "sh").iter().flat_map(|b| b.lines()) {
        let Some(arguments) = line.strip_prefix("kinescope campaign ") else {
            continue;
        };
        let ended = Command::new(program("kinescope"))
            .arg("campaign")
            .args(arguments.split(' '))
            .current_dir(folder.path())
            .env("KINESCOPE_KEYS", &keys)
            .output()
            .unwrap();
        outputs += &String::from_utf8_lossy(&ended.stdout);
        // Refused runs are no success.
        let code = i32::from(arguments.starts_with("run "));
        assert_eq!(
            ended.status.code(),
            Some(code),
            "{line}: {}",
            String::from_utf8_lossy(&ended.stderr)
        );
        commands += 1;
    }
    assert_eq!(commands, 6);
    for line in code_blocks(&page, "text").iter().flat_map(|b| b.lines()) {
        // Times differ, and a cell may be slower.
        let line = line.split(" in 1.2 s").next().unwrap();
        let line = if line.ends_with("the same") { "the same" } else { line };
        assert!(outputs.contains(line), "{line}: {outputs}");
    }
    let report = std::fs::read_to_string(folder.path().join("target/farm/monday.html")).unwrap();
    assert!(report.contains("Campaign nightly") && report.contains("agent:farm/mali-g52"));
}

#[test]
fn agents_and_the_program_are_killed_and_every_run_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    run_with_kills(
        folder.path(),
        "vecadd.kine",
        3,
        20,
        Duration::from_millis(200)..Duration::from_millis(700),
    );
}

#[test]
#[ignore = "make test-full: a minute of two processors"]
fn thousand_runs_on_eight_agents_that_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    // The same as over a broker.
    run_with_kills(
        folder.path(),
        "digits.kine",
        8,
        125,
        Duration::from_millis(500)..Duration::from_secs(2),
    );
}

/// Runs a campaign in a folder whose agents and whose process are killed at random moments, after pauses in this range.
fn run_with_kills(folder: &Path, sample: &str, agents: usize, repeats: u32, pauses: Range<Duration>) {
    let keys = folder.join("keys");
    let mut farm = start_agents(folder, &keys, agents);
    let targets: Vec<String> = farm.iter().map(|a| a.target.clone()).collect();
    write_sample_campaign(folder, sample, &targets, repeats);
    let mut seed = u64::from(std::process::id());
    let (mut kills, begun) = (0, Instant::now());
    let mut child = start_run(folder, &keys, &[]);
    let width = u64::try_from((pauses.end - pauses.start).as_millis()).unwrap();
    let pause = |seed: &mut u64| pauses.start + Duration::from_millis(random(seed, width));
    let mut next_kill = begun + pause(&mut seed);
    let code = loop {
        assert!(begun.elapsed() < Duration::from_secs(500), "the campaign does not end");
        // The end is noticed at once: its time is measured.
        std::thread::sleep(Duration::from_millis(10));
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if Instant::now() < next_kill {
            continue;
        }
        kills += 1;
        match random(&mut seed, 4) {
            0 => {
                child.kill().unwrap();
                child.wait().unwrap();
                child = start_run(folder, &keys, &[]);
            }
            _ => {
                let at = random(&mut seed, farm.len() as u64) as usize;
                farm[at].restart();
            }
        }
        next_kill = Instant::now() + pause(&mut seed);
    };
    let took = begun.elapsed();
    assert_eq!(code, Some(0));
    let results = check_results(folder, u64::from(repeats) * agents as u64);
    let repeated = results.iter().filter(|r| r.is_repeated()).count();
    println!("{} runs; {kills} kills; {repeated} runs repeated", results.len());
    print_ratio(&results, took);
}

#[test]
fn agents_are_killed_while_pipelines_run_and_every_run_matches() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, keys) = (folder.path(), folder.path().join("keys"));
    let mut farm = start_agents(folder, &keys, 3);
    let targets: Vec<String> = farm.iter().map(|a| a.target.clone()).collect();
    let kmeans = root().join("sample-pipelines/kmeans/kmeans.kpipe");
    let table = format!("[[pipelines]]\npath = {:?}\n", kmeans.display().to_string());
    write_description(folder, &targets, 10, &table);
    let mut seed = u64::from(std::process::id());
    let (mut kills, begun) = (0, Instant::now());
    let mut child = start_run(folder, &keys, &[]);
    let mut next_kill = begun + Duration::from_millis(300);
    let code = loop {
        assert!(begun.elapsed() < Duration::from_secs(300), "the campaign does not end");
        std::thread::sleep(Duration::from_millis(10));
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        // Each agent dies three times, so that no run can lose all of its attempts.
        if kills < 9 && Instant::now() >= next_kill {
            farm[kills % 3].restart();
            kills += 1;
            next_kill = Instant::now() + Duration::from_millis(100 + random(&mut seed, 200));
        }
    };
    let took = begun.elapsed();
    // Before the exit code: it says which run has another verdict.
    let results = check_results(folder, 30);
    assert_eq!(code, Some(0));
    let repeated = results.iter().filter(|r| r.is_repeated()).count();
    println!(
        "30 pipelines; {kills} kills; {repeated} runs repeated; {} ms",
        took.as_millis()
    );
    assert!(kills > 0, "no agent was killed");
}

/// A process that was killed while it created the queue left a file that no other process could open.
#[test]
fn a_campaign_goes_on_after_a_kill_at_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    write_campaign(folder.path(), &["software:mali-g71".to_owned()], 1);
    let out = folder.path().join("out");
    for kill in 0..12 {
        let mut child = start_run(folder.path(), &keys, &[]);
        let begun = Instant::now();
        let is_there = || out.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        while !is_there() && child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the folder does not appear");
        }
        // Moments from the first file on.
        std::thread::sleep(Duration::from_micros(kill * 700));
        child.kill().unwrap();
        child.wait().unwrap();
        let description = folder.path().join("c.toml");
        let arguments = ["campaign", "run"].map(std::ffi::OsStr::new);
        let arguments = [
            arguments[0],
            arguments[1],
            description.as_os_str(),
            "-o".as_ref(),
            out.as_os_str(),
        ];
        let ended = kinescope(&keys, arguments);
        assert_eq!(ended.code, Some(0), "kill {kill}: {ended:?}");
        std::fs::remove_dir_all(&out).unwrap();
    }
}

/// The old divergence stayed in the cell, the exit code stayed 1, and repeats seemed to differ.
#[test]
fn a_recording_that_changes_between_two_calls_replaces_its_results() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::copy(root().join("sample-traces/vecadd.kine"), at("vecadd.kine")).unwrap();
    let diverging = whole_program_tests::copy_diverging(folder.path(), "vecadd.kine");
    let text = "version = 1\ntargets = [\"software:mali-g71\"]\nrepeats = 2\n[[recordings]]\npath = \"x.kine\"\n";
    std::fs::write(at("c.toml"), text).unwrap();
    let run = |recording: &Path| {
        std::fs::copy(recording, at("x.kine")).unwrap();
        let ended = kinescope(
            folder.path(),
            ["campaign", "run", &at("c.toml"), "-o", &at("out"), "--json"],
        );
        (ended.code, ended.json())
    };
    let (code, report) = run(&diverging);
    assert_eq!(
        (code, &report["diverged"], &report["superseded"]),
        (Some(1), &2.into(), &0.into())
    );
    let (code, report) = run(Path::new(&at("vecadd.kine")));
    assert_eq!(
        (code, &report["matched"], &report["superseded"]),
        (Some(0), &2.into(), &2.into())
    );
    assert_eq!((&report["diverged"], &report["done"]), (&2.into(), &4.into()));
    let ended = kinescope(folder.path(), ["campaign", "run", &at("c.toml"), "-o", &at("out")]);
    assert!(
        ended.out.contains("2 results of earlier contents of the files"),
        "{ended:?}"
    );
}

/// The table of results alone said so.
#[test]
fn an_outcome_that_cannot_be_kept_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let sample = root().join("sample-traces/vecadd.kine");
    let text = format!(
        "version = 1\nrepeats = 3\nkeep-outcomes = \"all\"\ntargets = [\"software:mali-g71\"]\n[[recordings]]\npath = {sample:?}\n"
    );
    std::fs::write(at("c.toml"), text).unwrap();
    // A file is where the folder of outcomes would be.
    std::fs::create_dir(at("out")).unwrap();
    std::fs::write(at("out/outcomes"), "").unwrap();
    let ended = kinescope(folder.path(), ["campaign", "run", &at("c.toml"), "-o", &at("out")]);
    assert!(ended.code == Some(0) && ended.out.contains("3 match"), "{ended:?}");
    assert_eq!(ended.err.matches("the outcome was not kept").count(), 1, "{ended:?}");
}

/// The program said that the same command goes on with such runs, and it did not.
#[test]
fn runs_of_a_target_that_the_description_lost_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let sample = root().join("sample-traces/vecadd.kine");
    let run = |targets: &str| {
        let text = format!("version = 1\ntarget-wait = 0\ntargets = [{targets}]\n[[recordings]]\npath = {sample:?}\n");
        std::fs::write(at("c.toml"), text).unwrap();
        let ended = kinescope(folder.path(), ["campaign", "run", &at("c.toml"), "-o", &at("out")]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        ended.out
    };
    let out = run("\"software:mali-g71\", \"agent:away/mali-g71\"");
    assert!(out.contains("1 run waits; the same command goes on"), "{out}");
    let out = run("\"software:mali-g71\"");
    let named = "agent:away/mali-g71 is not used: the description does not name it; its queued run waits";
    assert!(out.contains(named) && !out.contains("the same command"), "{out}");
}

#[test]
fn bad_folders_and_descriptions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let run = |arguments: &[&str]| kinescope(folder.path(), arguments);
    run(&["campaign", "status", &at("none")]).assert_refused("no campaign is here");
    std::fs::write(
        at("c.toml"),
        "version = 1\n[[recordings]]\npath = \"x.kine\"\ntargets = [\"cuda:0\"]\n",
    )
    .unwrap();
    run(&["campaign", "run", &at("c.toml"), "-o", &at("out")]).assert_refused("line 2: no recording matches");
    std::fs::write(at("c.toml"), "version = 1\nrepeats = 0\n").unwrap();
    run(&["campaign", "check", &at("c.toml")]).assert_refused("c.toml: line");
}

#[test]
fn runs_that_a_description_lists_again_run_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["a.kine", "b.kine"] {
        std::fs::copy(root().join("sample-traces/vecadd.kine"), at(name)).unwrap();
    }
    let text = "version = 1\ntargets = [\"software:mali-g71\"]\nrepeats = 2\n[[recordings]]\npath = \"*.kine\"\n\
                [[recordings]]\npath = \"a.kine\"\nrepeats = 3\n";
    std::fs::write(at("c.toml"), text).unwrap();
    let check = kinescope(folder.path(), ["campaign", "check", &at("c.toml")]);
    assert_eq!(check.code, Some(0), "{check:?}");
    assert!(
        check.out.contains("c: 1 recording, 1 target, 3 runs")
            && check.out.contains("4 duplicate runs in the description, not counted"),
        "{check:?}"
    );
    let ended = kinescope(
        folder.path(),
        ["campaign", "run", &at("c.toml"), "-o", &at("out"), "--json"],
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = ended.json();
    assert_eq!(
        (report["runs"].as_u64(), report["matched"].as_u64()),
        (Some(3), Some(3))
    );
}

/// A campaign whose description became shorter ran what was removed, without a word.
#[test]
fn queued_runs_that_the_description_does_not_list_are_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let sample = root().join("sample-traces/vecadd.kine");
    let run = |targets: &str, repeats: u32| {
        let text = format!(
            "version = 1\ntarget-wait = 0\nrepeats = {repeats}\ntargets = [{targets}]\n[[recordings]]\npath = {sample:?}\n"
        );
        std::fs::write(at("c.toml"), text).unwrap();
        kinescope(folder.path(), ["campaign", "run", &at("c.toml"), "-o", &at("out")])
    };
    let away = "\"agent://127.0.0.1:1/mali\"";
    let first = run(&format!("\"software:mali-g71\", {away}"), 3);
    assert_eq!(first.code, Some(1), "{first:?}");
    assert!(!first.err.contains("does not list"), "{first:?}");
    // Two repeats less on the target that is away.
    let second = run(away, 1);
    assert!(
        second
            .err
            .contains("2 queued runs of an earlier call that the description does not list"),
        "{second:?}"
    );
}

#[test]
fn an_urgent_replay_gets_the_device_between_two_runs() {
    let folder = tempfile::tempdir().unwrap();
    let agent = SimulatorAgent::start(folder.path(), "mali-g71");
    let description = folder.path().join("c.toml");
    let recording = root().join("sample-traces/vecadd.kine");
    let text = format!(
        "version = 1\ntargets = [\"agent:lab/mali-g71\"]\nrepeats = 150\n[[recordings]]\npath = \"{}\"\n",
        recording.display()
    );
    std::fs::write(&description, text).unwrap();
    let start = || {
        let mut command = Command::new(program("kinescope"));
        command.env("KINESCOPE_KEYS", &agent.client).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let mut campaign = start()
        .args(["campaign", "run"])
        .arg(&description)
        .arg("-o")
        .arg(folder.path().join("out"))
        .spawn()
        .unwrap();
    let mut preempted = 0;
    while campaign.try_wait().unwrap().is_none() {
        let urgent = start()
            .arg("replay")
            .arg(&recording)
            .args(["--on", "agent:lab/mali-g71", "--preempt", "--json"])
            .output()
            .unwrap();
        assert_eq!(urgent.status.code(), Some(0), "{urgent:?}");
        let report: serde_json::Value = serde_json::from_slice(&urgent.stdout).unwrap();
        preempted += u32::from(report["preempted"]["waited_ns"].is_u64());
    }
    let ended = campaign.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.code() == Some(0) && printed.contains("150 match"),
        "{ended:?}"
    );
    assert!(!printed.contains("repeated"), "{printed}");
    assert!(preempted > 0, "no run was preempted");
}

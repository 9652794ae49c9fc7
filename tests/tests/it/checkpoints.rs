//! Replays with checkpoints: programs and agents are killed at random moments, and the same command goes on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics when it fails, and says what it did"
)]

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use whole_program_tests::simulator_agent::SimulatorAgent;
use whole_program_tests::{program, root};

/// Random numbers that are the same in every run of the test.
struct Moments(u64);

impl Moments {
    /// Returns a time of less than `below_ms`.
    fn next(&mut self, below_ms: u64) -> Duration {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Duration::from_micros((self.0 >> 33) % (below_ms * 1000))
    }
}

fn replay(on: &str, checkpoints: &Path, keys: &Path) -> Command {
    let mut command = Command::new(program("kinescope"));
    command
        .arg("replay")
        .arg(root().join("sample-traces/digits.kine"))
        .args(["--on", on, "--checkpoint-every", "1", "--json", "--checkpoints"])
        .arg(checkpoints)
        .env("KINESCOPE_KEYS", keys)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// What must be the same in every run: everything but times and transfers.
fn results(report: &[u8]) -> Value {
    let mut report: Value = serde_json::from_slice(report).unwrap();
    let keys = report.as_object_mut().unwrap();
    for varies in ["timing", "pushed_bytes", "board"] {
        keys.remove(varies).unwrap();
    }
    report
}

/// Waits until a program ends, at most for a time. Returns whether it has ended.
fn ends_within(child: &mut Child, time: Duration) -> bool {
    let start = Instant::now();
    loop {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        if start.elapsed() >= time {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_run_killed_at_fifty_moments_goes_on_with_the_same_result() {
    let kills = 50;
    let folder = TempDir::new().unwrap();
    let (checkpoints, keys) = (folder.path().join("checkpoints"), folder.path().join("keys"));
    let command = || replay("software:mali-g71", &checkpoints, &keys);
    let begin = Instant::now();
    let undisturbed = command().output().unwrap();
    let long_ms = u64::try_from(begin.elapsed().as_millis()).unwrap() + 1;
    assert_eq!(undisturbed.status.code(), Some(0), "{undisturbed:?}");
    let right = results(&undisturbed.stdout);
    assert_eq!(right["outcome"], "match");
    assert_eq!(right["job_outcomes"].as_array().unwrap().len(), 4);
    let (mut moments, mut killed, mut resumed, mut complete) = (Moments(7), 0, 0, 0);
    while killed < kills {
        let had_checkpoint = checkpoints.join("kinescope-checkpoint").exists();
        let mut child = command().spawn().unwrap();
        if ends_within(&mut child, moments.next(long_ms)) {
            let ended = child.wait_with_output().unwrap();
            assert_eq!(ended.status.code(), Some(0), "{ended:?}");
            assert_eq!(results(&ended.stdout), right);
            resumed += usize::from(had_checkpoint);
            complete += 1;
        } else {
            child.kill().unwrap();
            child.wait().unwrap();
            killed += 1;
        }
    }
    let last = command().output().unwrap();
    assert_eq!(results(&last.stdout), right);
    println!("{kills} kills, {complete} complete runs, {resumed} of them from a checkpoint");
}

#[test]
fn a_run_goes_on_after_its_agent_was_killed() {
    let folder = TempDir::new().unwrap();
    let checkpoints = folder.path().join("checkpoints");
    let mut agent = SimulatorAgent::start(folder.path(), "mali-g71");
    let keys = agent.client.clone();
    let command = || replay("agent:lab/mali-g71", &checkpoints, &keys);
    let begin = Instant::now();
    let undisturbed = command().output().unwrap();
    let long_ms = u64::try_from(begin.elapsed().as_millis()).unwrap() + 1;
    assert_eq!(undisturbed.status.code(), Some(0), "{undisturbed:?}");
    let right = results(&undisturbed.stdout);
    let (mut moments, mut disturbed) = (Moments(3), 0);
    while disturbed < 6 {
        let child = command().spawn().unwrap();
        std::thread::sleep(moments.next(long_ms));
        agent.kill_and_restart();
        let ended = child.wait_with_output().unwrap();
        match ended.status.code() {
            Some(0) => assert_eq!(results(&ended.stdout), right),
            // Lost during a run, or before one: both leave the checkpoint.
            Some(1 | 2) => disturbed += 1,
            _ => panic!("{ended:?}"),
        }
    }
    let last = command().output().unwrap();
    assert_eq!(results(&last.stdout), right);
}

#[test]
fn a_run_goes_on_after_an_urgent_replay_took_its_device() {
    let folder = TempDir::new().unwrap();
    let agent = SimulatorAgent::start(folder.path(), "mali-g71");
    let keys = agent.client.clone();
    let command = |checkpoints: &str| replay("agent:lab/mali-g71", &folder.path().join(checkpoints), &keys);
    let undisturbed = command("undisturbed").output().unwrap();
    assert_eq!(undisturbed.status.code(), Some(0), "{undisturbed:?}");
    let right = results(&undisturbed.stdout);
    let urgent = |preempt: bool| {
        let mut command = Command::new(program("kinescope"));
        command
            .arg("replay")
            .arg(root().join("sample-traces/vecadd.kine"))
            .args(["--on", "agent:lab/mali-g71", "--json"])
            .args(preempt.then_some("--preempt"))
            .env("KINESCOPE_KEYS", &keys)
            .output()
            .unwrap()
    };
    let (mut preempted, mut moments) = (0, Moments(5));
    for n in 0..100 {
        let mut long = command(&format!("checkpoints-{n}")).spawn().unwrap();
        std::thread::sleep(moments.next(120));
        let got = urgent(true);
        // The device was free, or the run yielded: an urgent replay always has it.
        assert_eq!(got.status.code(), Some(0), "{got:?}");
        let report: Value = serde_json::from_slice(&got.stdout).unwrap();
        assert_eq!(report["outcome"], "match");
        let was_running = report["preempted"]["waited_ns"].is_u64();
        ends_within(&mut long, Duration::from_secs(60));
        let ended = long.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        let mut got = results(&ended.stdout);
        let preemptions = got.as_object_mut().unwrap().remove("preemptions");
        assert_eq!(got, right);
        if was_running {
            assert_eq!(preemptions, Some(Value::from(1)));
            assert!(report["preempted"]["holder"].is_string(), "{report}");
            preempted += 1;
        }
        if preempted == 3 {
            return;
        }
    }
    panic!("{preempted} preemptions in 100 runs");
}

#[test]
fn the_priority_of_a_preempting_replay_is_at_least_one() {
    let folder = TempDir::new().unwrap();
    let agent = SimulatorAgent::start(folder.path(), "mali-g71");
    let refused = Command::new(program("kinescope"))
        .arg("replay")
        .arg(root().join("sample-traces/vecadd.kine"))
        .args(["--on", "agent:lab/mali-g71", "--preempt=0"])
        .env("KINESCOPE_KEYS", &agent.client)
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("1..=255"),
        "{refused:?}"
    );
}

/// A stop between two parts, or while the plan is sent, was an error of the target with exit code 2.
#[test]
fn a_replay_that_the_user_stops_has_the_exit_code_of_the_signal() {
    let folder = TempDir::new().unwrap();
    let agent = SimulatorAgent::start(folder.path(), "mali-g71");
    let (checkpoints, mut moments) = (folder.path().join("checkpoints"), Moments(7));
    let command = || replay("agent:lab/mali-g71", &checkpoints, &agent.client);
    let begin = Instant::now();
    assert_eq!(command().output().unwrap().status.code(), Some(0));
    let long_ms = u64::try_from(begin.elapsed().as_millis()).unwrap() + 1;
    let mut stopped = 0;
    for _ in 0..30 {
        std::fs::remove_dir_all(&checkpoints).unwrap();
        let child = command().stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(moments.next(long_ms));
        let id = child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -INT $0", &id]).status().unwrap();
        assert!(sent.success());
        let ended = child.wait_with_output().unwrap();
        // Without a code, the signal came before the program handles it; with 0, after the end of the replay.
        match ended.status.code() {
            Some(130) => stopped += 1,
            // The agent has not freed the device of the one before.
            Some(2) if String::from_utf8_lossy(&ended.stderr).contains("in use") => {}
            code => assert!(matches!(code, None | Some(0)), "{ended:?}"),
        }
        std::fs::create_dir_all(&checkpoints).unwrap();
    }
    assert!(stopped > 0, "no replay was stopped in its midst");
}

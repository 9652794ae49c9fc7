//! Replays through `kinescope-agent` in another process: pairing, TCP and unix socket, uploads by digest.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

use serde_json::json;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use whole_program_tests::{
    HANG_LIMIT, ProgramOutput, PromptingProgram, kinescope, program, recordings, root, wait_for_run,
};

/// An agent that serves the simulator over TCP and a unix socket, and lets one client pair.
struct Agent {
    child: Child,
    lines: Receiver<String>,
    address: String,
    socket: PathBuf,
    folder: TempDir,
}

impl Agent {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("agent.sock");
        let mut child = Command::new(program("kinescope-agent"))
            .arg("--keys")
            .arg(folder.path().join("agent-keys"))
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--pair",
                "--device",
                "software:mali-g71",
                "--unix",
            ])
            .arg(&socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The user at the agent confirms the first code.
        let mut user = child.stdin.take().unwrap();
        let (send, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if line.starts_with("pairing code: ") {
                    // The agent may have ended already.
                    let _ = user.write_all(b"y\n");
                }
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let mut agent = Self {
            child,
            lines,
            address: String::new(),
            socket,
            folder,
        };
        agent.address = agent.wait_for("listening on 127.0.0.1:").replace("listening on ", "");
        agent.wait_for("pairing is open");
        agent
    }

    fn wait_for(&self, start: &str) -> String {
        loop {
            let line = self
                .lines
                .recv_timeout(HANG_LIMIT)
                .expect("the agent prints no more lines");
            if line.starts_with(start) {
                return line;
            }
        }
    }

    fn keys(&self) -> PathBuf {
        self.folder.path().join("client-keys")
    }

    fn run(&self, arguments: &[&str]) -> ProgramOutput {
        kinescope(&self.keys(), arguments)
    }

    fn pair(&self) {
        let client = PromptingProgram::start(
            Command::new(program("kinescope"))
                .args(["pair", &self.address, "lab"])
                .env("KINESCOPE_KEYS", self.keys()),
        );
        let ended = client.answer("y");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        // Both ends showed the same nine digits.
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        let shown = self.wait_for("pairing code: ");
        assert_eq!(digits(&shown).len(), 9, "{shown}");
        assert!(
            digits(&ended.err).starts_with(&digits(&shown)),
            "{shown} / {}",
            ended.err
        );
    }

    fn replay(&self, source: &Path, target: &str, extra: &[&str]) -> serde_json::Value {
        let mut arguments = vec!["replay", source.to_str().unwrap(), "--on", target, "--json"];
        arguments.extend(extra);
        let ended = self.run(&arguments);
        assert_eq!(ended.code, Some(0), "{target}: {} {}", ended.err, ended.out);
        let json = ended.json();
        assert_eq!(json["outcome"], "match", "{target}");
        json
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The child may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_client_pairs_once_and_replays_by_name_by_address_and_by_socket() {
    let agent = Agent::start();
    let sample = root().join("sample-traces/write-value.kine");
    let by_address = format!("agent://{}/mali-g71", agent.address);
    let stranger = agent.run(&["replay", sample.to_str().unwrap(), "--on", &by_address]);
    stranger.assert_refused("not paired");

    agent.pair();
    let local = agent.replay(&sample, "software:mali-g71", &[]);
    for target in [
        by_address.clone(),
        "agent:lab/mali-g71".into(),
        format!("agent://{}/mali-g71", agent.socket.display()),
    ] {
        let outcome = agent.replay(&sample, &target, &[]);
        for key in [
            "fingerprint",
            "reads_matched",
            "outputs",
            "rewrites",
            "interrupts",
            "jobs",
        ] {
            assert_eq!(outcome[key], local[key], "{target}: {key}");
        }
        assert_eq!(outcome["board"], target, "the outcome names the requested target");
    }
    let targets = agent.run(&["boards", "--json"]).json();
    let names: Vec<&str> = targets
        .as_array()
        .unwrap()
        .iter()
        .map(|b| b["board"].as_str().unwrap())
        .collect();
    let mut expected = ["g71", "g52", "g72", "g51", "g76", "g31"]
        .map(|m| format!("software:mali-{m}"))
        .to_vec();
    expected.push("agent:lab/mali-g71".to_owned());
    assert_eq!(names, expected);

    let agents = agent.run(&["agents", "--json"]).json();
    assert_eq!(
        (&agents[0]["name"], &agents[0]["address"]),
        (&json!("lab"), &json!(agent.address))
    );
    // `--forget` refuses an unknown name, and reports the agent that it forgets.
    let key = agents[0]["fingerprint"].as_str().unwrap();
    agent.run(&["boards", "--forget", "nobody"]).assert_refused("nobody");
    let forgotten = agent.run(&["boards", "--forget", "lab"]);
    assert_eq!(
        (forgotten.code, forgotten.out),
        (Some(0), format!("forgot lab at {}, key {key}\n", agent.address))
    );
    assert_eq!(agent.run(&["agents", "--json"]).json(), json!([]));
    agent.run(&["agents", "--forget", "lab"]).assert_refused("lab");
    agent
        .run(&["replay", sample.to_str().unwrap(), "--on", "agent:lab/mali-g71"])
        .assert_refused("lab");
}

/// Maximum size of an edit on the wire in bytes, without its changed pages and their digests.
const EDIT_OVERHEAD: u64 = 2048;
/// Size of the entry for a page in a plan, in bytes: frame, digest and role.
const PAGE_ENTRY: u64 = 44;

#[test]
fn a_second_replay_after_an_edit_sends_only_what_changed() {
    let Some(all) = recordings() else { return };
    let agent = Agent::start();
    agent.pair();
    let target = "agent:lab/mali-g71";
    let pushed = |outcome: serde_json::Value| outcome["pushed_bytes"].as_u64().unwrap();
    for network in ["mnist", "alexnet"] {
        let source = all.join("gpureplay").join(network);
        let info = agent.run(&["info", source.to_str().unwrap(), "--json"]).json();
        let buffers = info["buffers"].as_array().unwrap();
        let input = buffers.iter().find(|b| b["name"] == "input").unwrap();
        let bytes = input["bytes"].as_u64().unwrap();
        let va = u64::from_str_radix(input["va"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
        let pages = (va + bytes).div_ceil(4096) - va / 4096;
        let first = pushed(agent.replay(&source, target, &[]));
        let again = pushed(agent.replay(&source, target, &[]));
        let file = agent.folder.path().join("input.bin");
        // Each network gets different noise, so that the agent has none of the pages.
        let mut noise = vec![0; usize::try_from(bytes).unwrap()];
        blake3::Hasher::new()
            .update(network.as_bytes())
            .finalize_xof()
            .fill(&mut noise);
        std::fs::write(&file, &noise).unwrap();
        let input = format!("input={}", file.display());
        let edited = pushed(agent.replay(&source, target, &["--input", &input]));
        // One changed byte changes one page.
        noise[100] ^= 0xff;
        std::fs::write(&file, &noise).unwrap();
        let byte = pushed(agent.replay(&source, target, &["--input", &input]));
        println!(
            "{network}: first {first}, the same again {again}, an input of {pages} pages {edited}, one byte of it {byte}"
        );
        assert!(again < 512, "{again} of {first}");
        assert!(
            edited > pages * 4096 && edited <= pages * (4096 + PAGE_ENTRY) + EDIT_OVERHEAD,
            "{edited} for {pages} pages"
        );
        assert!((4096..=4096 + EDIT_OVERHEAD).contains(&byte), "{byte} for a byte");
    }
}

#[test]
fn edited_input_gives_its_output_locally_and_by_agent() {
    let agent = Agent::start();
    agent.pair();
    let source = root().join("sample-traces/vecadd.kine");
    // The numbers have many magnitudes, so that sums are rounded.
    let numbers = |seed: u32| -> Vec<f32> {
        (0..1024u32)
            .map(|n| {
                let bits = n.wrapping_add(seed).wrapping_mul(0x9e37_79b9);
                ((bits >> 8) as f32 / 65536.0 - 128.0) * f32::powi(2.0, (bits & 15) as i32 - 8)
            })
            .collect()
    };
    let bytes = |v: &[f32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let (a, b) = (numbers(1), numbers(77));
    let sum: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    let file = |name: &str| agent.folder.path().join(name);
    std::fs::write(file("a.bin"), bytes(&a)).unwrap();
    std::fs::write(file("b.bin"), bytes(&b)).unwrap();
    for (n, target) in ["software:mali-g71", "agent:lab/mali-g71"].into_iter().enumerate() {
        let out = file(&format!("c{n}.bin"));
        let buffer = |name: &str, path: &Path| format!("{name}={}", path.display());
        let extra = [
            "--input".to_owned(),
            buffer("a", &file("a.bin")),
            "--input".to_owned(),
            buffer("b", &file("b.bin")),
            "--output".to_owned(),
            buffer("c", &out),
        ];
        let json = agent.replay(&source, target, &extra.each_ref().map(String::as_str));
        assert_eq!(json["computed"], true, "{target}");
        assert_eq!(std::fs::read(&out).unwrap(), bytes(&sum), "{target}");
    }
}

#[test]
fn submission_runs_on_an_agent_and_a_wrong_gpu_is_refused() {
    let agent = Agent::start();
    agent.pair();
    let chains = |name: &str| root().join("tests/folders").join(name);
    let out = agent.folder.path().join("o.bin");
    let output = format!("o={}", out.display());
    let json = agent.replay(&chains("twopass"), "agent:lab/mali-g71", &["--output", &output]);
    assert_eq!(json["computed"], true);
    let expected = std::fs::read(chains("twopass").join("o.expected.bin")).unwrap();
    assert_eq!(std::fs::read(&out).unwrap(), expected);
    let other = chains("vecadd-g52");
    let refused = agent.run(&["replay", other.to_str().unwrap(), "--on", "agent:lab/mali-g71"]);
    refused.assert_refused(
        "the recording was made on a Mali-G52 (0x72120000), agent:lab/mali-g71 is a Mali-G71 (0x60a00002), and the first runs shaders and descriptors of \
             Bifrost's second generation (architecture 7), the second those of \
             Bifrost's first generation (architecture 6): \
         software:mali-g52 would fit",
    );
}

#[test]
fn hundred_agent_runs_are_bit_identical() {
    let Some(all) = recordings() else { return };
    let agent = Agent::start();
    agent.pair();
    for network in ["mnist", "alexnet"] {
        let source = all.join("gpureplay").join(network);
        let local = agent.replay(&source, "software:mali-g71", &[]);
        // The agent compares the fingerprints of all runs. A different fingerprint fails the outcome.
        let remote = agent.replay(&source, "agent:lab/mali-g71", &["--repeat", "100"]);
        assert_eq!(remote["fingerprint"], local["fingerprint"], "{network}");
        let runs = &remote["timing"]["runs"];
        let figure = |key: &str| runs[key].as_u64().unwrap_or_else(|| panic!("{key}: {runs}"));
        assert_eq!(figure("count"), 100);
        let rising = ["min_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns"].map(figure);
        assert!(rising.is_sorted() && rising[0] > 0, "{network}: {runs}");
        assert_eq!(remote["timing"]["run_ns"], figure("p50_ns"));
    }
}

/// Returns the state of the agent's target and its reason, as `boards --json` lists them.
fn read_state(agent: &Agent) -> (String, String) {
    let targets = agent.run(&["boards", "--json"]).json();
    let target = targets
        .as_array()
        .unwrap()
        .iter()
        .find(|b| !b["board"].as_str().unwrap().starts_with("software:"));
    let target = target.unwrap_or_else(|| panic!("{targets}"));
    let text = |key: &str| target[key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("reason"))
}

/// Waits for a state of the agent's target. Returns its reason.
fn wait_for_state(agent: &Agent, expected: &str) -> String {
    let by = Instant::now() + HANG_LIMIT;
    loop {
        let (state, reason) = read_state(agent);
        if state == expected {
            return reason;
        }
        assert!(Instant::now() < by, "{state}, not {expected}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for a process to end. Panics if it does not end in time.
fn wait_for_end(mut child: Child) -> ProgramOutput {
    let by = Instant::now() + HANG_LIMIT;
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < by, "the process does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap().into()
}

/// Starts a client that uses the target for ten thousand runs.
fn start_long_replay(agent: &Agent) -> Child {
    Command::new(program("kinescope"))
        .args(["replay", "--on", "agent:lab/mali-g71", "--repeat", "10000", "--json"])
        .arg(root().join("sample-traces/twopass.kine"))
        .env("KINESCOPE_KEYS", agent.keys())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn interrupted_client_frees_the_device_for_the_next() {
    let agent = Agent::start();
    agent.pair();
    let sample = root().join("sample-traces/write-value.kine");
    let mut first = start_long_replay(&agent);
    wait_for_state(&agent, "busy");
    let second = agent.run(&["replay", sample.to_str().unwrap(), "--on", "agent:lab/mali-g71"]);
    second.assert_refused("in use by");
    // The first client is interrupted, as with Ctrl-C. The agent cancels its run, then resets and frees the device.
    let id = first.id().to_string();
    assert!(
        Command::new("sh")
            .args(["-c", "kill -INT $0", &id])
            .status()
            .unwrap()
            .success()
    );
    assert!(!first.wait().unwrap().success());
    wait_for_state(&agent, "free");
    agent.replay(&sample, "agent:lab/mali-g71", &[]);
}

#[test]
fn agent_killed_during_a_run_gives_a_failed_outcome() {
    let mut agent = Agent::start();
    agent.pair();
    let client = start_long_replay(&agent);
    wait_for_run(agent.child.id());
    agent.child.kill().unwrap();
    let ended = wait_for_end(client);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let outcome = ended.json();
    assert_eq!(outcome["outcome"], "failed");
    let why = outcome["failure"].as_str().unwrap();
    assert!(
        why.contains("connection to the agent was lost") && why.contains("kinescope-agent"),
        "{why}"
    );
    // The agent has ended: the target is offline, and a replay cannot start.
    let reason = wait_for_state(&agent, "away");
    assert!(reason.contains("no agent answers"), "{reason}");
    let sample = root().join("sample-traces/write-value.kine");
    agent
        .run(&["replay", sample.to_str().unwrap(), "--on", "agent:lab/mali-g71"])
        .assert_refused("Check that kinescope-agent runs there");
}

#[test]
fn agent_version_mismatch_says_which_end_to_update() {
    let keys = TempDir::new().unwrap();
    let sample = root().join("sample-traces/write-value.kine");
    for (lowest, highest, update) in [(1000u16, 1001u16, "update the client"), (0, 0, "update the agent")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = format!("agent://{}/mali-g71", listener.local_addr().unwrap());
        // Every version of an agent begins with this preamble: docs/agent-protocol.md, "Preamble".
        let agent = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut theirs = [0u8; 64];
            stream.read_exact(&mut theirs).unwrap();
            assert_eq!(&theirs[..8], b"KINEWIRE");
            let mut ours = [0u8; 64];
            ours[..8].copy_from_slice(b"KINEWIRE");
            ours[8..10].copy_from_slice(&lowest.to_le_bytes());
            ours[10..12].copy_from_slice(&highest.to_le_bytes());
            ours[12] = 17;
            ours[16..29].copy_from_slice(b"other program");
            stream.write_all(&ours).unwrap();
        });
        let ended = kinescope(keys.path(), ["replay", sample.to_str().unwrap(), "--on", &target]);
        agent.join().unwrap();
        ended.assert_refused(update);
        assert!(
            ended.err.contains("other program") && ended.err.contains("no common protocol version"),
            "{}",
            ended.err
        );
    }
}

#[test]
fn missing_agent_is_refused_with_its_address() {
    let keys = TempDir::new().unwrap();
    let sample = root().join("sample-traces/write-value.kine");
    let ended = kinescope(
        keys.path(),
        [
            "replay",
            sample.to_str().unwrap(),
            "--on",
            "agent://127.0.0.1:1/mali-g71",
        ],
    );
    ended.assert_refused("127.0.0.1:1");
}

//! Replays through `kinescope-agent` in another process: pairing, TCP and unix socket, uploads by digest.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail and tell in these ways"
)]

use serde_json::json;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;
use whole_program_tests::{Ended, kinescope, program, recordings, root};

/// An agent that serves the software board over TCP and a unix socket, and lets one client pair.
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
        // The person at the board says yes to the first code.
        child.stdin.as_mut().unwrap().write_all(b"y\n").unwrap();
        let (send, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
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
                .recv_timeout(Duration::from_secs(20))
                .expect("the agent says nothing more");
            if line.starts_with(start) {
                return line;
            }
        }
    }

    fn keys(&self) -> PathBuf {
        self.folder.path().join("client-keys")
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        kinescope(&self.keys(), arguments)
    }

    fn pair(&self) {
        let mut child = Command::new(program("kinescope"))
            .args(["pair", &self.address, "lab"])
            .env("KINESCOPE_KEYS", self.keys())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.as_mut().unwrap().write_all(b"y\n").unwrap();
        let ended = Ended::from(child.wait_with_output().unwrap());
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

    fn replay(&self, source: &Path, board: &str, extra: &[&str]) -> serde_json::Value {
        let mut arguments = vec!["replay", source.to_str().unwrap(), "--on", board, "--json"];
        arguments.extend(extra);
        let ended = self.run(&arguments);
        assert_eq!(ended.code, Some(0), "{board}: {} {}", ended.err, ended.out);
        let json = ended.json();
        assert_eq!(json["outcome"], "match", "{board}");
        json
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It is this test's own child; it may be gone already.
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
    for board in [
        by_address.clone(),
        "agent:lab/mali-g71".into(),
        format!("agent://{}/mali-g71", agent.socket.display()),
    ] {
        let outcome = agent.replay(&sample, &board, &[]);
        for key in [
            "fingerprint",
            "reads_matched",
            "outputs",
            "rewrites",
            "interrupts",
            "jobs",
        ] {
            assert_eq!(outcome[key], local[key], "{board}: {key}");
        }
    }
    let boards = agent.run(&["boards", "--json"]).json();
    let names: Vec<&str> = boards
        .as_array()
        .unwrap()
        .iter()
        .map(|b| b["board"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["software:mali-g71", "agent:lab/mali-g71"]);

    let agents = agent.run(&["agents", "--json"]).json();
    assert_eq!(
        (&agents[0]["name"], &agents[0]["address"]),
        (&json!("lab"), &json!(agent.address))
    );
    assert_eq!(agent.run(&["agents", "--forget", "lab"]).code, Some(0));
    agent
        .run(&["replay", sample.to_str().unwrap(), "--on", "agent:lab/mali-g71"])
        .assert_refused("lab");
}

#[test]
fn a_second_replay_after_an_edit_sends_only_what_changed() {
    let Some(mnist) = recordings().map(|r| r.join("gpureplay/mnist")) else {
        return;
    };
    let agent = Agent::start();
    agent.pair();
    let board = "agent:lab/mali-g71";
    let pushed = |outcome: serde_json::Value| outcome["pushed_bytes"].as_u64().unwrap();
    let first = agent.replay(&mnist, board, &[]);
    assert_eq!((&first["reads_compared"], &first["jobs"]), (&json!(2580), &json!(23)));
    let first = pushed(first);
    let again = pushed(agent.replay(&mnist, board, &[]));
    let input = agent.folder.path().join("input.bin");
    std::fs::write(&input, (0..6272).map(|i| (i * 31) as u8).collect::<Vec<_>>()).unwrap();
    let edited = pushed(agent.replay(&mnist, board, &["--input", &format!("input={}", input.display())]));
    // The agent has the plan and its pages: the same again is a few messages. An edited input is another plan and
    // the three pages at most that 6272 bytes lie in.
    assert!(again < 1024, "{again} of {first}");
    assert!(
        edited > again && edited < 40_000,
        "{edited} after {again}, first {first}"
    );
    println!("pushed: first {first}, the same again {again}, one input edited {edited} bytes");
}

#[test]
fn an_agent_that_is_not_there_is_told_from_one_that_is() {
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

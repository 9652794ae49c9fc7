//! Runs the agent as a process and prepares key stores for both ends.
#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use replay_engine::wire::KeyStore;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time after which a test counts as hung.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A running agent; it is killed when the test ends.
pub struct Agent {
    pub child: Child,
    lines: Receiver<String>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Agent {
    pub fn start(keys: &Path, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kinescope-agent"))
            .args(args)
            .arg("--keys")
            .arg(keys)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for the next line that contains `start` and returns the text after it.
    pub fn line(&self, start: &str) -> String {
        let by = Instant::now() + LIMIT;
        loop {
            let remaining = by.saturating_duration_since(Instant::now());
            let line = self
                .lines
                .recv_timeout(remaining)
                .unwrap_or_else(|_| panic!("no line with `{start}`"));
            if let Some((_, rest)) = line.split_once(start) {
                return rest.to_owned();
            }
        }
    }

    pub fn type_in(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    pub fn wait(&mut self) -> Option<i32> {
        let by = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < by, "the agent does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns the folder and the client's key store. Agent and client already trust each other.
pub fn paired() -> (TempDir, KeyStore) {
    let folder = tempfile::tempdir().unwrap();
    let client = KeyStore::open(&folder.path().join("client")).unwrap();
    let agent_keys = KeyStore::open(&folder.path().join("agent")).unwrap();
    agent_keys.pin("bench", client.key_pair().public(), "").unwrap();
    client.pin("board", agent_keys.key_pair().public(), "").unwrap();
    (folder, client)
}

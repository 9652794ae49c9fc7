//! A farm of agents with simulators, in processes of their own that a test may kill and start again.
#![allow(clippy::unwrap_used, clippy::expect_used)] // An error here fails the test.

use crate::{kinescope, program};
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An agent that owns one simulator, ended on drop.
#[derive(Debug)]
pub struct FarmAgent {
    child: Child,
    folder: PathBuf,
    device: String,
    /// Its name as a target: `agent:NAME/DEVICE`.
    pub target: String,
}

impl FarmAgent {
    /// Starts an agent that owns all simulators, and pairs with it as [`Self::start`] does.
    #[must_use]
    pub fn start_with_all(folder: &Path, keys: &Path, name: &str) -> Self {
        Self::start(folder, keys, name, "")
    }

    /// Starts an agent in a folder of its own, and pairs the client with the keys in `keys` with it under `name`.
    #[must_use]
    pub fn start(folder: &Path, keys: &Path, name: &str, device: &str) -> Self {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let client = kinescope(keys, ["agents", "--own-key", "--json"]).json()["key"].clone();
        let client = client.as_str().unwrap().to_owned();
        let child = spawn(&folder, device, &["--pair", "--accept", &client]);
        let mut agent = Self {
            child,
            device: device.to_owned(),
            target: format!("agent:{name}/{}", device.trim_start_matches("software:")),
            folder,
        };
        let own = Command::new(program("kinescope-agent"))
            .arg("--keys")
            .arg(agent.folder.join("keys"))
            .args(["keys", "list"])
            .output()
            .unwrap();
        let own = String::from_utf8(own.stdout).unwrap();
        let key = own.lines().next().unwrap().split('\t').nth(2).unwrap().to_owned();
        let address = format!("agent://{}", agent.socket().display());
        let paired = kinescope(keys, ["pair", &address, name, "--accept", &key]);
        assert_eq!(paired.code, Some(0), "{paired:?}");
        // From now on it serves as after any start.
        agent.restart();
        agent
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("agent.sock")
    }

    /// Returns its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the agent, as a power failure would.
    pub fn kill(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Kills the agent, and starts it again.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.folder, &self.device, &[]);
    }
}

impl Drop for FarmAgent {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts an agent, and waits until it listens.
fn spawn(folder: &Path, device: &str, options: &[&str]) -> Child {
    let socket = folder.join("agent.sock");
    // A killed agent leaves its socket.
    let _ = std::fs::remove_file(&socket);
    let child = Command::new(program("kinescope-agent"))
        .arg("--keys")
        .arg(folder.join("keys"))
        .args(["serve", "--unix"])
        .arg(&socket)
        .args(
            (!device.is_empty())
                .then_some(["--device", device])
                .into_iter()
                .flatten(),
        )
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("agent.log")).unwrap())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while UnixStream::connect(&socket).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the agent does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

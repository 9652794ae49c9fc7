//! An agent that serves a Mali simulator over TCP to a paired client, and can be killed and started again.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test panics when it fails")]

use crate::{kinescope, program};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// An agent that serves a simulator, and a paired client, which knows it as `lab`.
pub struct SimulatorAgent {
    child: Child,
    /// Folder of the client's keys.
    pub client: PathBuf,
    /// Folder of the agent's keys.
    keys: PathBuf,
    /// Name of the device, such as `software:mali-g71`.
    device: String,
    /// Where it listens, with its port.
    address: String,
}

impl SimulatorAgent {
    /// Starts an agent, and pairs a client with it.
    ///
    /// # Panics
    /// If the agent does not start, or the two do not pair.
    #[must_use]
    pub fn start(folder: &Path, model: &str) -> Self {
        let (keys, client) = (folder.join("agent"), folder.join("client"));
        let client_key = kinescope(&client, ["agents", "--own-key", "--json"]).json();
        let fingerprint = client_key["fingerprint"].as_str().unwrap();
        let device = format!("software:{model}");
        let pairing = ["--pair", "--accept", fingerprint];
        let (child, address) = serve(&keys, &device, "127.0.0.1:0", &pairing);
        let listed = Command::new(program("kinescope-agent"))
            .arg("--keys")
            .arg(&keys)
            .args(["keys", "list"])
            .output()
            .unwrap();
        let agent_key = String::from_utf8(listed.stdout).unwrap();
        let agent_key = agent_key.split('\t').nth(1).unwrap();
        let paired = kinescope(&client, ["pair", &address, "lab", "--accept", agent_key]);
        assert_eq!(paired.code, Some(0), "{paired:?}");
        Self {
            child,
            client,
            keys,
            device,
            address,
        }
    }

    /// Kills the agent, and starts another one at its place.
    ///
    /// # Panics
    /// If it does not start.
    pub fn kill_and_restart(&mut self) {
        self.end();
        let (child, address) = serve(&self.keys, &self.device, &self.address, &[]);
        assert_eq!(address, self.address);
        self.child = child;
    }

    fn end(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for SimulatorAgent {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts an agent, and returns it with the address that it listens at.
fn serve(keys: &Path, device: &str, listen: &str, pairing: &[&str]) -> (Child, String) {
    let mut child = Command::new(program("kinescope-agent"))
        .arg("--keys")
        .arg(keys)
        .args(["serve", "--listen", listen, "--device", device])
        .args(pairing)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let address = lines
        .find_map(|l| l.strip_prefix("listening on ").map(str::to_owned))
        .unwrap();
    std::thread::spawn(move || lines.count());
    let address = address.split_whitespace().next().unwrap().to_owned();
    (child, address)
}

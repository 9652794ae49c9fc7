//! An agent in a separate process. Its CUDA device is the stand-in.
#![allow(clippy::unwrap_used, clippy::expect_used)] // An error here fails the test.

use crate::cuda::CudaStandIn;
use crate::{PromptingProgram, program};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Name of the file with the agent's log.
const LOG: &str = "agent.log";

/// An agent on the stand-in, ended on drop.
#[derive(Debug)]
pub struct Agent {
    /// Its process.
    pub child: Child,
    /// The socket that it listens on in addition to its port.
    pub socket: PathBuf,
    /// Its address for TCP: `HOST:PORT`.
    pub address: String,
    log: PathBuf,
}

impl Agent {
    /// Starts the agent and pairs with it under the name `lab`.
    #[must_use]
    pub fn start(cuda: &CudaStandIn) -> Self {
        Self::spawn(cuda, &program("kinescope-agent"), "0")
    }

    /// Starts the agent on a slow device.
    #[must_use]
    pub fn start_slow(cuda: &CudaStandIn) -> Self {
        Self::spawn(cuda, &program("kinescope-agent"), "4000")
    }

    /// Starts this program as the agent, on a device that takes this many microseconds for each piece of work.
    #[must_use]
    pub fn spawn(cuda: &CudaStandIn, agent: &Path, slow: &str) -> Self {
        Self::spawn_with(cuda, agent, &[("STAND_IN_SLOW", slow)], &[])
    }

    /// Starts the agent with more options of `serve`, on a device with 4 GiB of memory.
    #[must_use]
    pub fn start_with(cuda: &CudaStandIn, options: &[&str]) -> Self {
        Self::start_with_settings(cuda, &[("STAND_IN_MEMORY", "0x100000000")], options)
    }

    /// Starts the agent with more options of `serve`, on a device with these settings of the stand-in.
    #[must_use]
    pub fn start_with_settings(cuda: &CudaStandIn, set: &[(&str, &str)], options: &[&str]) -> Self {
        Self::spawn_with(cuda, &program("kinescope-agent"), set, options)
    }

    fn spawn_with(cuda: &CudaStandIn, agent: &Path, set: &[(&str, &str)], options: &[&str]) -> Self {
        let socket = cuda.file("agent.sock");
        let mut command = Command::new(agent);
        command.arg("--keys").arg(cuda.file("agent-keys"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--pair", "--unix"])
            .arg(&socket)
            .args(options)
            .env("XDG_CACHE_HOME", cuda.file("agent-cache"));
        let mut child = cuda
            .count_ticks(cuda.set_environment(&mut command))
            // Workers of live programs count the kernels that they start.
            .env("KINESCOPE_WORKER_WRITES", socket.with_file_name(""))
            .envs(set.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(cuda.file(LOG)).unwrap())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let address = lines.find_map(|l| l.strip_prefix("listening on ").map(str::to_owned));
        let address = address.expect("the agent prints its address");
        // The user at the agent confirms the displayed code.
        std::thread::spawn(move || {
            for line in lines {
                if line.starts_with("pairing code: ") && stdin.write_all(b"y\n").is_err() {
                    break;
                }
            }
        });
        let pair = PromptingProgram::start(
            Command::new(program("kinescope"))
                .args(["pair", &address, "lab"])
                .env("KINESCOPE_KEYS", cuda.file("keys")),
        );
        let paired = pair.answer("y");
        assert_eq!(paired.code, Some(0), "{paired:?}");
        let log = cuda.file(LOG);
        Self {
            child,
            socket,
            address,
            log,
        }
    }

    /// Returns the log until now.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

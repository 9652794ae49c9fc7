//! A broker (nats-server) and workers, in processes of their own that a test may kill and start again.
#![allow(clippy::unwrap_used, clippy::expect_used)] // An error here fails the test.

use crate::program;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time to start a program.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Returns the program `nats-server`, or prints that the test is skipped.
#[must_use]
pub fn find_nats_server() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&paths).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = folders.map(|f| f.join("nats-server")).find(|p| p.is_file());
    if found.is_none() {
        println!("skipped: nats-server is not installed");
    }
    found
}

/// A nats-server with JetStream, ended on drop.
#[derive(Debug)]
pub struct NatsServer {
    program: PathBuf,
    folder: PathBuf,
    options: Vec<String>,
    child: Child,
    port: u16,
}

impl NatsServer {
    /// Starts a server on a free port of this machine, whose data is in `folder`.
    #[must_use]
    pub fn start(program: &Path, folder: &Path, options: &[&str]) -> Self {
        let folder = folder.join("nats");
        std::fs::create_dir_all(&folder).unwrap();
        let options: Vec<String> = options.iter().map(|o| (*o).to_owned()).collect();
        let child = spawn_server(program, &folder, &options, "-1");
        let mut server = Self {
            program: program.to_owned(),
            port: 0,
            folder,
            options,
            child,
        };
        server.port = server.wait_for_port();
        server
    }

    /// Returns its address.
    #[must_use]
    pub fn address(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Returns the folder of its data.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn ports_path(&self) -> PathBuf {
        self.folder.join(format!("nats-server_{}.ports", self.child.id()))
    }

    /// Returns the number of messages that clients have sent. The server was started with `-m -1`.
    #[must_use]
    pub fn received_messages(&self) -> u64 {
        let ports: serde_json::Value = serde_json::from_slice(&std::fs::read(self.ports_path()).unwrap()).unwrap();
        let address = ports["monitoring"][0].as_str().unwrap().trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /varz HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let values: serde_json::Value = serde_json::from_str(body).unwrap();
        values["in_msgs"].as_u64().unwrap()
    }

    /// Reads the port from the file that the server writes.
    fn wait_for_port(&mut self) -> u16 {
        let file = self.ports_path();
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let ports: Option<serde_json::Value> = serde_json::from_str(&text).ok();
            let address = ports.and_then(|p| p["nats"][0].as_str().map(str::to_owned));
            if let Some(port) = address.and_then(|a| a.rsplit(':').next()?.parse().ok()) {
                return port;
            }
            let ended = self.child.try_wait().unwrap();
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(ended.is_none(), "nats-server ended ({ended:?}): {}", log());
            assert!(begun.elapsed() < START_LIMIT, "nats-server does not start: {}", log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills the server, as a power failure would.
    pub fn kill(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Kills the server, and starts it again with its data on the same port.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn_server(&self.program, &self.folder, &self.options, &self.port.to_string());
        assert_eq!(self.wait_for_port(), self.port);
    }

    /// Publishes a message with the protocol of NATS, as any program could.
    pub fn publish(&self, subject: &str, payload: &[u8]) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!("CONNECT {{\"verbose\":false}}\r\nPUB {subject} {}\r\n", payload.len());
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(payload).unwrap();
        stream.write_all(b"\r\nPING\r\n").unwrap();
        // It is there once the server has answered.
        let mut answer = Vec::new();
        let mut piece = [0; 1024];
        while !answer.windows(4).any(|w| w == b"PONG") {
            let n = stream.read(&mut piece).unwrap();
            assert!(n > 0, "the server closed the connection");
            answer.extend_from_slice(&piece[..n]);
        }
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn_server(program: &Path, folder: &Path, options: &[String], port: &str) -> Child {
    Command::new(program)
        .args(["-js", "-a", "127.0.0.1", "-p", port, "-sd"])
        .arg(folder)
        .arg("--ports_file_dir")
        .arg(folder)
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(
            File::options()
                .create(true)
                .append(true)
                .open(folder.join("log"))
                .unwrap(),
        )
        .spawn()
        .unwrap()
}

/// A worker, ended on drop.
#[derive(Debug)]
pub struct BrokerWorker {
    child: Child,
    folder: PathBuf,
    arguments: Vec<String>,
    keys: PathBuf,
    /// Maximum size of a file that it writes, blocks of 512 bytes; `None` for no limit.
    file_blocks: Option<u32>,
    /// Its name in results.
    pub name: String,
}

impl BrokerWorker {
    /// Starts a worker with its files in a folder of its own. `arguments` are those of `kinescope-worker`.
    #[must_use]
    pub fn start(folder: &Path, keys: &Path, name: &str, arguments: &[&str]) -> Self {
        Self::start_with_file_limit(folder, keys, name, arguments, None)
    }

    /// Starts a worker that can write no larger files than this, in blocks of 512 bytes: for it, the disk is full.
    #[must_use]
    pub fn start_with_file_limit(
        folder: &Path,
        keys: &Path,
        name: &str,
        arguments: &[&str],
        file_blocks: Option<u32>,
    ) -> Self {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
        arguments.extend(["--name", name, "--log", "json", "--cache"].map(str::to_owned));
        arguments.push(folder.join("cache").display().to_string());
        let child = spawn_worker(&folder, keys, &arguments, file_blocks);
        Self {
            child,
            folder,
            arguments,
            keys: keys.to_owned(),
            file_blocks,
            name: name.to_owned(),
        }
    }

    /// Returns its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the folder of its cached files.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }

    /// Returns its log: objects of JSON, each in a line.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Waits until its log has a text.
    ///
    /// # Panics
    /// If the text does not appear.
    pub fn wait_for_log(&self, text: &str) {
        self.wait_for_log_lines(text, 1);
    }

    /// Waits until its log has a text this number of times.
    ///
    /// # Panics
    /// If the text does not appear that often.
    pub fn wait_for_log_lines(&self, text: &str, count: usize) {
        let begun = Instant::now();
        while self.log().matches(text).count() < count {
            assert!(begun.elapsed() < START_LIMIT, "no `{text}`: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Fails the test if the worker ended by itself.
    ///
    /// # Panics
    /// If it did.
    pub fn assert_running(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(
            ended.is_none(),
            "worker {} ended ({ended:?}): {}",
            self.name,
            self.log()
        );
    }

    /// Kills the worker, as a power failure would.
    pub fn kill(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Kills the worker, and starts it again.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn_worker(&self.folder, &self.keys, &self.arguments, self.file_blocks);
    }
}

impl Drop for BrokerWorker {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn_worker(folder: &Path, keys: &Path, arguments: &[String], file_blocks: Option<u32>) -> Child {
    let log = File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"))
        .unwrap();
    let worker = program("kinescope-worker");
    let mut command = match file_blocks {
        None => Command::new(worker),
        Some(blocks) => {
            // A write beyond the limit is then an error, not a signal.
            let script = "trap '' XFSZ; ulimit -f \"$0\" && exec \"$@\"";
            let mut shell = Command::new("sh");
            shell.args(["-c", script, &blocks.to_string()]).arg(worker);
            shell
        }
    };
    command
        .args(arguments)
        .env("KINESCOPE_KEYS", keys)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Returns the largest resident memory of a process until now, KiB.
#[must_use]
pub fn peak_memory_kib(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

//! Helpers of whole-program tests: built programs, real recordings, samples.
#![forbid(unsafe_code)]
#![allow(
    clippy::panic,
    clippy::print_stdout,
    reason = "test helpers panic on failure and print why a test is skipped"
)]

pub mod board;
pub mod broker;
pub mod cuda;
pub mod cuda_agent;
pub mod emulated;
pub mod farm;
pub mod joined;
pub mod module_graph;
pub mod monitor;
pub mod simulator_agent;
pub mod virtio_gpu;
pub mod wasm_programs;

use serde_json::Value;
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use trace_core::recording::EventsBuilder;

/// Time after which a test counts as hung.
pub const HANG_LIMIT: Duration = Duration::from_secs(120);

/// Waits until an agent runs a plan: its process then has a thread for the run.
///
/// # Panics
/// Panics if no run begins.
pub fn wait_for_run(agent: u32) {
    let is_run = |task: std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim_end() == "kinescope-run")
    };
    let begun = Instant::now();
    loop {
        let tasks = std::fs::read_dir(format!("/proc/{agent}/task"));
        if tasks.into_iter().flatten().flatten().any(is_run) {
            return;
        }
        assert!(begun.elapsed() < HANG_LIMIT, "the agent runs no plan");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a process a signal, for example `KILL`. The shell does it: a bare system has no program `kill`.
///
/// # Panics
/// Panics if there is no such process.
pub fn send_signal(process: u32, signal: &str) {
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -{signal} {process}")])
        .status();
    assert!(sent.is_ok_and(|s| s.success()), "SIG{signal} reaches process {process}");
}

/// Returns the workspace's root.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default()
}

/// Returns a built program of the workspace. `KINESCOPE_BIN_DIR` is the folder of programs that are already built.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        if let Some(folder) = std::env::var_os("KINESCOPE_BIN_DIR") {
            return folder.into();
        }
        // This test is in target/PROFILE/deps.
        let exe = std::env::current_exe().unwrap_or_else(|e| panic!("the path of the test program is unknown: {e}"));
        exe.parent()
            .and_then(Path::parent)
            .map(Path::to_owned)
            .unwrap_or_default()
    });
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{}: not built; run `cargo build --workspace --exclude replay-bare`, then the test again",
        path.display()
    );
    path
}

/// Result of a program.
#[derive(Debug)]
pub struct ProgramOutput {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl From<Output> for ProgramOutput {
    fn from(o: Output) -> Self {
        Self {
            code: o.status.code(),
            out: String::from_utf8_lossy(&o.stdout).into_owned(),
            err: String::from_utf8_lossy(&o.stderr).into_owned(),
        }
    }
}

impl ProgramOutput {
    /// Parses its output as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("not JSON ({e}): {self:?}"))
    }

    /// Asserts that the program refused its work: exit code 2, nothing on stdout, a short message that contains
    /// `needle`, no panic.
    pub fn assert_refused(&self, needle: &str) {
        assert_eq!(self.code, Some(2), "{self:?}");
        assert!(self.out.is_empty(), "{self:?}");
        assert!(self.err.contains(needle), "expected '{needle}': {self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        assert!(
            self.err.trim_end().lines().count() <= 2,
            "more than one message: {self:?}"
        );
    }
}

/// A program that prompts the user on standard error. Input before its prompt is not an answer, so that a test has to
/// wait for the prompt.
#[derive(Debug)]
pub struct PromptingProgram {
    child: Child,
    /// Output up to and including the prompt.
    pub text: String,
}

impl PromptingProgram {
    /// Starts the program and waits until it prompts, or has ended.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let mut text = Vec::new();
        let mut byte = [0];
        if let Some(err) = &mut child.stderr {
            while !text.ends_with(b"[y/N] ") && err.read(&mut byte).is_ok_and(|n| n == 1) {
                text.extend(byte);
            }
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        Self { child, text }
    }

    /// Answers, and waits until the program has ended.
    #[must_use]
    pub fn answer(mut self, line: &str) -> ProgramOutput {
        if let Some(stdin) = &mut self.child.stdin {
            // The program can have ended: its result then shows why.
            let _ = writeln!(stdin, "{line}");
        }
        let ended = self.child.wait_with_output();
        let ended = ProgramOutput::from(ended.unwrap_or_else(|e| panic!("cannot wait for the program: {e}")));
        ProgramOutput {
            err: self.text + &ended.err,
            ..ended
        }
    }
}

/// Runs `kinescope` with keys in `keys`, so that a test does not change the user's files.
pub fn kinescope<S: AsRef<OsStr>>(keys: &Path, arguments: impl IntoIterator<Item = S>) -> ProgramOutput {
    let mut command = Command::new(program("kinescope"));
    command
        .args(arguments)
        .env("KINESCOPE_KEYS", keys)
        // Register maps of the user would change names.
        .env("KINESCOPE_MAPS", keys)
        .env("RUST_BACKTRACE", "0");
    command
        .output()
        .unwrap_or_else(|e| panic!("kinescope does not start: {e}"))
        .into()
}

/// Runs `kinescope` with a temporary key folder, for verbs that need no agent.
pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> ProgramOutput {
    let keys = tempfile::tempdir().unwrap_or_else(|e| panic!("no temporary folder: {e}"));
    kinescope(keys.path(), arguments)
}

/// Returns the folder of real recordings. Returns `None` if it is missing, and prints a line about it. Each test that
/// needs the folder calls this function once.
#[must_use]
pub fn recordings() -> Option<PathBuf> {
    let folder =
        std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(|| root().join("../shared/recordings"), Into::into);
    if folder.join("gpureplay/mnist/gr_io_history").exists() {
        return Some(folder);
    }
    println!("skipped: no recordings in {}", folder.display());
    None
}

/// Returns the folder of inputs from the field. Returns `None` if it is missing, and prints a line about it.
#[must_use]
pub fn field_cases() -> Option<PathBuf> {
    let folder = std::env::var_os("KINESCOPE_CASES").map_or_else(|| root().join("../shared/cases"), Into::into);
    if folder.join("README.md").exists() {
        return Some(folder);
    }
    println!("skipped: no inputs from the field in {}", folder.display());
    None
}

/// Returns the sample traces of the project, in order.
#[must_use]
pub fn samples() -> Vec<PathBuf> {
    let Ok(folder) = std::fs::read_dir(root().join("sample-traces")) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = folder.filter_map(|e| Some(e.ok()?.path())).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "kine"));
    files.sort();
    files
}

/// Copies a sample trace into `folder` with one changed bit in its first read. Its replay diverges only there. Returns
/// the path of the copy.
pub fn copy_diverging(folder: &Path, sample: &str) -> PathBuf {
    let source = root().join("sample-traces").join(sample);
    let mut recording = trace_core::container::open(&source).unwrap_or_else(|e| panic!("{}: {e}", source.display()));
    let mut events = EventsBuilder::new();
    let mut changed = false;
    for at in 0..recording.events.len() {
        let time = recording.events.time.get(at).unwrap_or(0);
        if let Some(mut access) = recording.events.access(at) {
            if !access.write && !changed {
                access.value ^= 1 << 19;
                changed = true;
            }
            events.access(time, 0, access);
        } else if let Some(interrupt) = recording.events.interrupt(at) {
            events.interrupt(time, interrupt);
        }
    }
    recording.events = events.finish();
    let path = folder.join("diverging.kine");
    let bytes = trace_core::container::to_bytes(&recording).unwrap_or_else(|e| panic!("{sample}: {e}"));
    std::fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    path
}

/// Copies a sample into a folder and adds the notes that a window saves when it closes. Returns the path of the copy.
#[must_use]
pub fn copy_with_notes(folder: &Path, sample: &str, notes: &[(u64, &str)]) -> PathBuf {
    let to = folder.join(sample);
    std::fs::copy(root().join("sample-traces").join(sample), &to).unwrap_or_else(|e| panic!("{sample}: {e}"));
    let opened = trace_core::container::open(&to);
    let r = opened.unwrap_or_else(|e| panic!("{sample}: {e}"));
    let header = serde_json::json!({"of": {
        "events": r.events.len(), "gpu": r.metadata.identity.gpu_id, "source": r.metadata.identity.source,
    }});
    let mut lines = vec![header.to_string()];
    for (event, text) in notes {
        let new = serde_json::json!({"text": text, "selection": {"job": 0}, "panels": ["timeline", "jobs"]});
        lines.push(serde_json::json!({"do": {"note": {"event": event, "old": null, "new": new}}}).to_string());
    }
    lines.push("\"closed\"\n".into());
    std::fs::write(to.with_extension("kine-edits"), lines.join("\n")).unwrap_or_else(|e| panic!("{e}"));
    to
}

/// Returns the texts of the code blocks of a page whose fence has this mark, such as `sh`.
#[must_use]
pub fn code_blocks<'a>(page: &'a str, mark: &str) -> Vec<&'a str> {
    let begin = format!("```{mark}\n");
    let parts = page.split(begin.as_str()).skip(1);
    parts.map(|part| part.split("```").next().unwrap_or_default()).collect()
}

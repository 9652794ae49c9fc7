//! CUDA without a GPU: the stand-in for the driver under the driver's library name, its client programs, their
//! recordings, and the process that replays them.

use crate::{ProgramOutput, program, run};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use trace_core::Recording;

/// Time after which a process counts as hung.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A folder with the stand-in in it, removed on drop.
#[derive(Debug)]
pub struct CudaStandIn {
    folder: TempDir,
}

/// A recording of one of the programs, and the program's own output.
#[derive(Debug)]
pub struct RecordedProgram {
    /// The recording.
    pub path: PathBuf,
    /// Result of `kinescope record`.
    pub ended: ProgramOutput,
    /// The bytes copied back from the device during the recording.
    pub out: Vec<u8>,
}

impl RecordedProgram {
    /// Opens the recording.
    #[must_use]
    pub fn open(&self) -> Recording {
        open(&self.path)
    }

    /// Returns the recording's findings about missing content: locations and messages.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let all = self.open().metadata.findings;
        all.iter().map(|f| format!("{}: {}", f.place, f.message)).collect()
    }
}

/// Opens a recording.
#[must_use]
pub fn open(path: &Path) -> Recording {
    trace_core::container::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

impl Default for CudaStandIn {
    fn default() -> Self {
        let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("no temporary folder: {e}"));
        let library = program("libcuda_stand_in.so");
        std::os::unix::fs::symlink(library, folder.path().join("libcuda.so.1")).unwrap_or_else(|e| panic!("{e}"));
        // The recorder's library must be in the folder of `kinescope`. `program` asserts that it is built.
        let _ = program("libkinescope_cuda.so");
        Self { folder }
    }
}

impl CudaStandIn {
    /// Returns the path of a file in the folder.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sets the environment in which programs find the stand-in.
    pub fn set_environment<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("LD_LIBRARY_PATH", self.folder.path())
            .env("KINESCOPE_CUDA_LIBRARY", self.file("libcuda.so.1"))
            .env("RUST_BACKTRACE", "0")
    }

    /// Makes the processes of a command count the kernels that they run, for [`Self::wait_for_ticks`].
    pub fn count_ticks<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("STAND_IN_TICKS", self.file("ticks"))
    }

    /// Returns the number of kernels that counting processes have started. A kernel that never ends counts repeatedly.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        std::fs::metadata(self.file("ticks")).map_or(0, |m| m.len())
    }

    /// Waits until counting processes have started this many kernels in all.
    ///
    /// # Panics
    /// Panics if they do not.
    pub fn wait_for_ticks(&self, count: u64) {
        let begun = Instant::now();
        while self.ticks() < count {
            assert!(begun.elapsed() < LIMIT, "{} of {count} kernels began", self.ticks());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the command for one of the programs.
    #[must_use]
    pub fn client_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("cuda-client"));
        self.set_environment(command.args(arguments));
        command
    }

    /// Runs one of the programs without a recorder. Returns its result, and the bytes copied back from the device.
    pub fn run_unrecorded(&self, arguments: &[&str]) -> (ProgramOutput, Vec<u8>) {
        let out = self.file("alone.bin");
        // A failed program writes no file. This function must not return the file of an earlier program.
        let _ = std::fs::remove_file(&out);
        let mut command = self.client_command(arguments);
        let ended = run_to_end(command.arg("--out").arg(&out));
        (ended, std::fs::read(&out).unwrap_or_default())
    }

    /// Returns the command `kinescope record --with cuda` for a program, with options before it.
    #[must_use]
    pub fn record_command(&self, to: &Path, options: &[&str], command: &[&OsStr]) -> Command {
        let mut recorder = Command::new(program("kinescope"));
        recorder.args(["record", "--with", "cuda"]).args(options);
        recorder.arg("-o").arg(to).arg("--").args(command);
        self.set_environment(recorder.env("KINESCOPE_KEYS", self.folder.path()));
        recorder
    }

    /// Records one of the programs. The environment variables are also set for the program.
    pub fn record(&self, name: &str, options: &[&str], arguments: &[&str], set: &[(&str, &str)]) -> RecordedProgram {
        let path = self.file(&format!("{name}.kine"));
        let out = self.file(&format!("{name}.bin"));
        let client = program("cuda-client");
        let mut command = vec![client.as_os_str()];
        command.extend(arguments.iter().map(OsStr::new));
        command.extend([OsStr::new("--out"), out.as_os_str()]);
        let mut recorder = self.record_command(&path, options, &command);
        let ended = run_to_end(recorder.envs(set.iter().copied()));
        RecordedProgram {
            path,
            ended,
            out: std::fs::read(&out).unwrap_or_default(),
        }
    }

    /// Records one of the programs and asserts that it succeeds with the same results as without a recorder. The
    /// recording must pass `verify`.
    pub fn record_checked(&self, name: &str, options: &[&str], arguments: &[&str]) -> RecordedProgram {
        let (alone, bytes) = self.run_unrecorded(arguments);
        assert_eq!(alone.code, Some(0), "{arguments:?}: {alone:?}");
        let recorded = self.record(name, options, arguments, &[]);
        assert_eq!(recorded.ended.code, Some(0), "{arguments:?}: {:?}", recorded.ended);
        assert_eq!(recorded.ended.out, alone.out, "a recorded program prints the same text");
        assert_eq!(
            recorded.out, bytes,
            "{arguments:?}: the results of the recorded program are the same"
        );
        let verified = run([OsStr::new("verify"), recorded.path.as_os_str()]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
        recorded
    }

    /// Replays a recording in a separate process, as the agent does. Returns the reply and the concatenated outputs.
    pub fn replay(&self, path: &Path, more: &Value, set: &[(&str, &str)]) -> (Value, Vec<u8>) {
        let folder = self.folder.path().join("outputs");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap_or_else(|e| panic!("{e}"));
        let mut request = json!({"file": path, "outputs": folder});
        if let (Some(all), Some(more)) = (request.as_object_mut(), more.as_object()) {
            all.extend(more.clone());
        }
        let mut player = self.replay_command();
        player.envs(set.iter().copied());
        let ended = send_request(&mut player, &request);
        let mut answers = ended.out.lines().map(serde_json::from_str::<Value>);
        let answer = answers.next_back().and_then(Result::ok);
        let answer = answer.unwrap_or_else(|| panic!("no answer: {ended:?}"));
        let outputs = answer["played"]["outputs"].as_array().map_or(0, Vec::len);
        let mut bytes = Vec::new();
        for n in 0..outputs {
            let path = folder.join(format!("{n}.bin"));
            bytes.extend(std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())));
        }
        (answer, bytes)
    }

    /// Returns the command of the process that replays recordings.
    #[must_use]
    pub fn replay_command(&self) -> Command {
        let mut player = Command::new(program("kinescope-agent"));
        self.set_environment(player.arg("play-calls"));
        player
    }

    /// Returns the ids of processes that currently replay on the stand-in of this folder.
    #[must_use]
    pub fn list_replay_processes(&self) -> Vec<u32> {
        self.list_processes("play-calls")
    }

    /// Returns the ids of processes on the stand-in of this folder whose program or one of its arguments ends with a word.
    #[must_use]
    pub fn list_processes(&self, word: &str) -> Vec<u32> {
        let library = format!("KINESCOPE_CUDA_LIBRARY={}", self.file("libcuda.so.1").display());
        let has = |file: PathBuf, fits: &dyn Fn(&[u8]) -> bool| {
            let bytes = std::fs::read(file).unwrap_or_default();
            bytes.split(|b| *b == 0).any(fits)
        };
        let plays = |e: &std::fs::DirEntry| {
            has(e.path().join("cmdline"), &|part| part.ends_with(word.as_bytes()))
                && has(e.path().join("environ"), &|part| part == library.as_bytes())
        };
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter(plays)
            .filter_map(|e| e.file_name().to_str()?.parse().ok())
            .collect()
    }

    /// Asserts that a command does the same as one of the programs by itself: exit code, output, errors, and the bytes
    /// copied back from the device. Returns its result.
    pub fn assert_same_run(&self, arguments: &[&str], command: &mut Command) -> ProgramOutput {
        let (direct, direct_bytes) = self.run_unrecorded(arguments);
        let out = self.file("other.bin");
        // A failed program writes no file.
        let _ = std::fs::remove_file(&out);
        let other = run_to_end(command.arg("--out").arg(&out));
        assert_eq!(other.code, direct.code, "{arguments:?}: {other:?}, not {direct:?}");
        assert_eq!(other.out, direct.out, "{arguments:?}: {other:?}");
        let other_bytes = std::fs::read(&out).unwrap_or_default();
        assert!(other_bytes == direct_bytes, "{arguments:?}: the bytes differ");
        assert_eq!(other.err, direct.err, "{arguments:?}");
        other
    }

    /// Replays a recording and asserts that it has outputs, and that they equal the recorded ones.
    pub fn assert_replays(&self, path: &Path) {
        let (answer, outputs) = self.replay(path, &Value::Null, &[]);
        let played = &answer["played"]["outputs"];
        let played = played.as_array().unwrap_or_else(|| panic!("{answer}"));
        assert!(
            played.iter().all(|output| output["differs_at"] == Value::Null),
            "{answer}"
        );
        assert!(!outputs.is_empty(), "{answer}");
    }

    /// Replays a recording and asserts that its outputs equal the recorded outputs and the program's results, bit for
    /// bit.
    pub fn replay_checked(&self, recorded: &RecordedProgram, more: &Value, set: &[(&str, &str)]) -> Value {
        let (answer, bytes) = self.replay(&recorded.path, more, set);
        let played = &answer["played"];
        let outputs = played["outputs"].as_array().unwrap_or_else(|| panic!("{answer}"));
        for output in outputs {
            assert_eq!(output["held"], true, "{output}");
            assert_eq!(output["differs_at"], Value::Null, "{output}");
        }
        assert_eq!(
            bytes, recorded.out,
            "{more} {set:?}: the outputs equal the program's results"
        );
        played.clone()
    }
}

/// Runs a command to its end, and kills it if it takes too long.
pub fn run_to_end(command: &mut Command) -> ProgramOutput {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let begun = Instant::now();
    // Separate threads read both streams, so that neither stream fills up while the other is read.
    let read = |from: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut all = Vec::new();
            if let Some(mut from) = from {
                let _ = from.read_to_end(&mut all);
            }
            all
        })
    };
    let out = read(child.stdout.take().map(|o| Box::new(o) as _));
    let err = read(child.stderr.take().map(|o| Box::new(o) as _));
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                panic!("{command:?} takes too long");
            }
        }
    };
    std::process::Output {
        status,
        stdout: out.join().unwrap_or_default(),
        stderr: err.join().unwrap_or_default(),
    }
    .into()
}

/// Sends a line of JSON to a process, and waits for its end.
fn send_request(command: &mut Command, request: &Value) -> ProgramOutput {
    let mut input = tempfile::tempfile().unwrap_or_else(|e| panic!("{e}"));
    let written = writeln!(input, "{request}").and_then(|()| std::io::Seek::rewind(&mut input));
    written.unwrap_or_else(|e| panic!("{e}"));
    let spawned = command
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output();
    spawned.unwrap_or_else(|e| panic!("{command:?}: {e}")).into()
}

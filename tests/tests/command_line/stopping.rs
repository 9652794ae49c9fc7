//! SIGINT and SIGTERM end the work. No partial file remains, and the exit code names the signal.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use whole_program_tests::{HANG_LIMIT, ProgramOutput, program, root};

fn start(folder: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(program("kinescope"));
    command
        .current_dir(folder)
        .args(arguments)
        .env("KINESCOPE_KEYS", folder.join("keys"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn send(signal: &str, to: &Child) {
    let line = format!("kill -{signal} {}", to.id());
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Writes a history of `lines` accesses. Reads of the GPU's id and of a status alternate.
fn write_history(folder: &Path, lines: u64) {
    fs::create_dir_all(folder).unwrap();
    let mut out = std::io::BufWriter::new(fs::File::create(folder.join("gr_io_history")).unwrap());
    for line in 0..lines {
        let rest = if line % 2 == 0 { "0x0,60a00002" } else { "0x34,0" };
        writeln!(out, "{},R,{rest}", 500 + line % 40).unwrap();
    }
    out.flush().unwrap();
}

#[test]
fn an_import_that_is_stopped_while_it_writes_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut lines = 200_000;
        let ended = loop {
            write_history(&dir.path().join("rec"), lines);
            fs::create_dir_all(dir.path().join("out")).unwrap();
            let mut child = start(dir.path(), &["import", "rec", "-o", "out/rec.kine"]);
            // The import writes while its unfinished file exists.
            while child.try_wait().unwrap().is_none()
                && !names(&dir.path().join("out"))
                    .iter()
                    .any(|n| n.starts_with("rec.kine."))
            {
                std::thread::yield_now();
            }
            if child.try_wait().unwrap().is_none() {
                send(signal, &child);
            }
            let ended = ProgramOutput::from(child.wait_with_output().unwrap());
            if ended.code != Some(0) {
                break ended;
            }
            // The import ended before the signal arrived. The next attempt imports more lines.
            fs::remove_file(dir.path().join("out/rec.kine")).unwrap();
            lines *= 2;
            assert!(lines < 50_000_000, "every import ended before the signal");
        };
        assert_eq!((ended.code, ended.err.as_str()), (Some(code), "kinescope: stopped\n"));
        assert!(ended.out.is_empty(), "{ended:?}");
        assert!(names(&dir.path().join("out")).is_empty());
    }
}

#[test]
fn a_replay_that_is_stopped_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let sample = root().join("sample-traces/vecadd.kine");
    fs::copy(sample, dir.path().join("x.kine")).unwrap();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let replay = [
        "replay",
        "x.kine",
        "--on",
        "software:mali-g71",
        "--input",
        "a=pipe",
        "--repeat",
        "10000",
        "-o",
        "outcome.kine",
        "--output",
        "c=c.bin",
    ];
    let child = start(dir.path(), &replay);
    // `open` returns when the replay reads its input. The signal arrives during the rest of the replay.
    fs::OpenOptions::new()
        .write(true)
        .open(&pipe)
        .unwrap()
        .write_all(&[0; 4096])
        .unwrap();
    send("INT", &child);
    let ended = ProgramOutput::from(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.out.is_empty(), "{ended:?}");
    let remaining: Vec<String> = names(dir.path()).into_iter().filter(|n| n != "keys").collect();
    assert_eq!(remaining, ["pipe", "x.kine"]);
}

/// Usage of a process so far: major faults, processor time, and voluntary waits of its threads.
#[derive(Clone, Copy, Default)]
struct Usage {
    work: [u64; 3],
    waits: u64,
}

impl Usage {
    /// Returns the usage of a process, or `None` if it has ended.
    fn read(id: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name is in parentheses and can hold anything. The state is the first field after it.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let waits = |task: fs::DirEntry| {
            let status = fs::read_to_string(task.path().join("status")).ok()?;
            let line = status
                .lines()
                .find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))?;
            line.trim().parse::<u64>().ok()
        };
        let tasks = fs::read_dir(format!("/proc/{id}/task")).ok()?;
        Some(Self {
            // Major faults, time in the program, time in the kernel.
            work: [field(9)?, field(11)?, field(12)?],
            waits: tasks.flatten().filter_map(waits).sum(),
        })
    }
}

/// Waits until a process does nothing but check repeatedly whether its reader exists. Such a process handles signals,
/// and its threads wait many times without processor time.
fn wait_until_blocked(verb: &str, child: &mut Child) {
    const WAITS: u64 = 25;
    /// SIGINT and SIGTERM.
    const HANDLED: u64 = 1 << 1 | 1 << 14;
    let handles_signals = |id: u32| {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|c| u64::from_str_radix(c.trim(), 16).ok());
        caught.is_some_and(|c| c & HANDLED == HANDLED)
    };
    let begin = Instant::now();
    let mut last = Usage::default();
    loop {
        assert!(
            child.try_wait().unwrap().is_none(),
            "{verb}: the process ended before it waited for its reader"
        );
        let now = Usage::read(child.id()).unwrap_or_default();
        if now.work != last.work || now.waits < last.waits || !handles_signals(child.id()) {
            last = now;
        } else if now.waits >= last.waits + WAITS {
            return;
        }
        if begin.elapsed() > HANG_LIMIT {
            child.kill().unwrap();
            panic!("{verb}: the process does not begin to wait");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the end of a process that got a signal.
fn wait_for_end(verb: &str, signal: &str, child: &mut Child) {
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > HANG_LIMIT {
            child.kill().unwrap();
            panic!("{verb}: one {signal} does not end the process");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn first_signal_ends_a_verb_blocked_on_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(root().join("sample-traces/vecadd.kine"), dir.path().join("x.kine")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(dir.path().join("pipe"))
            .status()
            .unwrap()
            .success()
    );
    for verb in [
        "replay x.kine --on software:mali-g71 -o pipe",
        "replay x.kine --on software:mali-g71 --output c=pipe",
        "plan x.kine --on software:mali-g71 -o pipe",
        "memory x.kine --buffer a -o pipe",
        "export x.kine --to vcd -o pipe",
        "diff x.kine x.kine --html pipe",
    ] {
        for (signal, code) in [("INT", 130), ("TERM", 143)] {
            let arguments: Vec<&str> = verb.split(' ').collect();
            let mut child = start(dir.path(), &arguments);
            wait_until_blocked(verb, &mut child);
            send(signal, &child);
            wait_for_end(verb, signal, &mut child);
            let ended = ProgramOutput::from(child.wait_with_output().unwrap());
            assert_eq!(ended.code, Some(code), "{verb}: {ended:?}");
        }
    }
    // `start` connects standard output to a pipe that nobody reads yet.
    write_history(&dir.path().join("rec"), 200_000);
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut child = start(dir.path(), &["events", "rec"]);
        wait_until_blocked("events", &mut child);
        send(signal, &child);
        wait_for_end("events", signal, &mut child);
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
    // A late reader receives the complete output.
    let mut child = start(dir.path(), &["memory", "x.kine", "--buffer", "a", "-o", "pipe"]);
    wait_until_blocked("memory", &mut child);
    let piped = fs::read(dir.path().join("pipe")).unwrap();
    assert_eq!(ProgramOutput::from(child.wait_with_output().unwrap()).code, Some(0));
    let to_file = start(dir.path(), &["memory", "x.kine", "--buffer", "a", "-o", "file"]);
    assert_eq!(ProgramOutput::from(to_file.wait_with_output().unwrap()).code, Some(0));
    assert!(!piped.is_empty() && piped == fs::read(dir.path().join("file")).unwrap());
}

#[test]
fn leftovers_of_a_killed_import_are_named_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    fs::create_dir_all(&out).unwrap();
    let mut lines = 200_000;
    let leftover = loop {
        write_history(&dir.path().join("rec"), lines);
        let mut child = start(dir.path(), &["import", "rec", "-o", "out/rec.kine"]);
        while child.try_wait().unwrap().is_none() && !names(&out).iter().any(|n| n.starts_with("rec.kine.")) {
            std::thread::sleep(Duration::from_millis(1));
        }
        send("KILL", &child);
        child.wait().unwrap();
        match names(&out).into_iter().find(|n| n.ends_with(".kine.tmp")) {
            Some(leftover) => break leftover,
            // The import ended before the signal. The next attempt imports more lines.
            None => lines *= 2,
        }
    };
    let info = start(&out, &["info", &leftover]);
    let info = ProgramOutput::from(info.wait_with_output().unwrap());
    info.assert_refused("unfinished file");
    assert!(info.err.contains("remove it"), "{}", info.err);
    let again = start(dir.path(), &["import", "rec", "-o", "out/rec.kine"]);
    assert_eq!(ProgramOutput::from(again.wait_with_output().unwrap()).code, Some(0));
    assert_eq!(names(&out), ["rec.kine"]);
}

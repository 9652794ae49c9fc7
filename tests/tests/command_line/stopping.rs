//! SIGINT and SIGTERM: work ends, nothing half done stays, and the exit code says so.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use whole_program_tests::{Ended, program, root};

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

/// A history of so many accesses: the GPU's id and a status, in turns.
fn history(folder: &Path, lines: u64) {
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
            history(&dir.path().join("rec"), lines);
            fs::create_dir_all(dir.path().join("out")).unwrap();
            let mut child = start(dir.path(), &["import", "rec", "-o", "out/rec.kine"]);
            // The unfinished file is there: the import writes.
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
            let ended = Ended::from(child.wait_with_output().unwrap());
            if ended.code != Some(0) {
                break ended;
            }
            // It was done before the signal came: more work next time.
            fs::remove_file(dir.path().join("out/rec.kine")).unwrap();
            lines *= 2;
            assert!(lines < 50_000_000, "an import is never met in its middle");
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
    // It is met where it reads its input, and does the rest with the signal on its way.
    fs::OpenOptions::new()
        .write(true)
        .open(&pipe)
        .unwrap()
        .write_all(&[0; 4096])
        .unwrap();
    send("INT", &child);
    let ended = Ended::from(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.out.is_empty(), "{ended:?}");
    let left: Vec<String> = names(dir.path()).into_iter().filter(|n| n != "keys").collect();
    assert_eq!(left, ["pipe", "x.kine"]);
}

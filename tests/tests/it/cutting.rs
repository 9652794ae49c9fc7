//! `trim` and `bisect`: parts of recordings replay, name their source, and show the same as the complete recording.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_core::recording::EventsBuilder;
use whole_program_tests::{HANG_LIMIT, ProgramOutput, program, recordings, root, run};

const ON: [&str; 2] = ["--on", "software:mali-g71"];

fn sample(name: &str) -> PathBuf {
    root().join("sample-traces").join(name)
}

fn run_on(line: &[&str], file: &Path, more: &[&str]) -> ProgramOutput {
    let file = file.to_str().unwrap();
    run(line.iter().copied().chain([file]).chain(more.iter().copied()))
}

fn open(path: &Path) -> Recording {
    trace_core::container::open(path).unwrap()
}

/// Writes a copy of `digits.kine` in which the handler of the third job reads another value. Its replay diverges there.
/// Returns its path.
fn copy_with_diverging_job(folder: &Path) -> PathBuf {
    let mut r = open(&sample("digits.kine"));
    let map = trace_core::registers::RegisterMap::for_recording(&r).unwrap();
    let timeline = trace_core::timeline::derive(&r, map, &Progress::new()).unwrap();
    let state = map.find_by_name("JOB_IRQ_JS_STATE").unwrap().offset;
    let done_at = timeline.jobs[2].done_event.unwrap() as usize;
    let read_at = (done_at..done_at + 8)
        .find(|e| r.events.access(*e).is_some_and(|a| !a.write && a.offset == state))
        .unwrap();
    let mut events = EventsBuilder::new();
    for at in 0..r.events.len() {
        let time = r.events.time.get(at).unwrap();
        if let Some(mut a) = r.events.access(at) {
            a.value ^= u64::from(at == read_at) << 3;
            events.access(time, 1, a);
        } else if let Some(i) = r.events.interrupt(at) {
            events.interrupt(time, i);
        } else if let Some(w) = r.events.host_write(at) {
            events.host_write(time, 1, w);
        } else {
            panic!("an event of another kind");
        }
    }
    r.events = events.finish();
    let path = folder.join("diverging.kine");
    trace_core::container::write(&r, &path, &Progress::new()).unwrap();
    path
}

#[test]
fn trimmed_recording_is_valid_replays_and_names_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let trimmed = folder.path().join("part.kine");
    let to = trimmed.to_str().unwrap();
    let cut = run_on(&["trim"], &sample("digits.kine"), &["--jobs", "1..=2", "-o", to]);
    assert_eq!(cut.code, Some(0), "{}", cut.err);
    assert!(cut.out.contains("jobs     3 of 4: 0 to 2"), "{}", cut.out);
    assert!(
        cut.out
            .contains("added    job 0: job 1 reads 2048 bytes of what it wrote"),
        "{}",
        cut.out
    );
    assert!(cut.out.contains("events   217 of 246"), "{}", cut.out);
    assert_eq!(run_on(&["verify"], &trimmed, &[]).code, Some(0));
    assert_eq!(run_on(&["check"], &trimmed, &[]).code, Some(0));
    let replay = run_on(&["replay"], &trimmed, &ON);
    assert_eq!(replay.code, Some(0), "{}", replay.out);
    assert!(replay.out.contains("3 of 3 done"), "{}", replay.out);
    let cuts = open(&trimmed).metadata.cuts;
    assert_eq!(
        (&cuts[0].source[..], cuts[0].events, cuts[0].jobs),
        ("digits.kine", 246, 4)
    );
    // A trim to all jobs gives the same recording.
    let all = folder.path().join("all.kine");
    let cut = run_on(
        &["trim"],
        &sample("digits.kine"),
        &["--jobs", "0..=3", "-o", all.to_str().unwrap()],
    );
    assert_eq!(cut.code, Some(0), "{}", cut.err);
    assert_eq!(
        run_on(&["diff"], &all, &[sample("digits.kine").to_str().unwrap()]).code,
        Some(0)
    );
}

#[test]
fn trimmed_last_job_has_the_outputs_of_the_full_replay() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["chain2.kine", "twopass.kine", "digits.kine"] {
        let complete = run_on(&["replay"], &sample(name), &[&ON[..], &["--json"]].concat()).json();
        let jobs = complete["jobs"].as_u64().unwrap();
        let last = (jobs - 1).to_string();
        for more in [
            &[][..],
            &["--without-producers"],
            &["--without-producers", "--accessed-memory"],
        ] {
            let trimmed = folder.path().join("part.kine");
            let arguments = [&["--jobs", &last, "-o", trimmed.to_str().unwrap()], more].concat();
            let cut = run_on(&["trim"], &sample(name), &arguments);
            assert_eq!(cut.code, Some(0), "{}", cut.err);
            let replay = run_on(&["replay"], &trimmed, &[&ON[..], &["--json"]].concat()).json();
            assert_eq!(replay["outcome"], "match", "{name} {more:?}");
            assert_eq!(replay["reads_compared"], replay["reads_matched"]);
            // If other jobs that write a buffer are omitted, its content is unknown.
            let expected = complete["outputs"].as_array().unwrap().last().unwrap();
            let same = replay["outputs"].as_array().unwrap().iter().any(|o| o == expected);
            assert!(
                same || more.is_empty() && jobs == 2 && name == "chain2.kine",
                "{name} {more:?} {expected}"
            );
        }
    }
}

/// `..` excludes the end. A message reports this once, because the end was included before.
#[test]
fn exclusive_range_reports_its_last_job() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("part.kine");
    let cut = |options: &[&str]| {
        let arguments = [options, &["--alone", "-o", to.to_str().unwrap(), "--json"]].concat();
        let cut = run_on(&["trim"], &sample("digits.kine"), &arguments);
        assert_eq!(cut.code, Some(0), "{cut:?}");
        (cut.json()["jobs_kept"].clone(), cut.err)
    };
    let message = "kinescope: 1..3 ends with job 2; 1..=3 includes its end\n";
    assert_eq!(
        cut(&["--jobs", "1..3"]),
        (serde_json::json!([1, 2]), message.to_owned())
    );
    assert_eq!(cut(&["--jobs", "1..=2"]), (serde_json::json!([1, 2]), String::new()));
    assert_eq!(
        cut(&["--jobs", "1..3", "--jobs", "0..1"]),
        (serde_json::json!([0, 1, 2]), message.to_owned()),
        "the message is printed once"
    );
    let empty = run_on(
        &["trim"],
        &sample("digits.kine"),
        &["--jobs", "2..2", "-o", to.to_str().unwrap()],
    );
    assert!(empty.err.contains("(2..=2 includes it)"), "{}", empty.err);
}

#[test]
fn trimmed_api_trace_lists_its_launches_as_the_whole_does() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, part) = (sample("cuda/net.kine"), folder.path().join("part.kine"));
    // Up to the first readback: four of eight launches.
    let to = part.to_str().unwrap();
    let trimmed = run_on(&["trim"], &whole, &["--events", "0..=25", "-o", to, "--json"]);
    assert_eq!(trimmed.code, Some(0), "{}", trimmed.err);
    assert_eq!(trimmed.json()["extras_out"], serde_json::json!([]));
    let launches = |file: &Path| run_on(&["launches"], file, &["--json"]).json();
    let (all, kept) = (launches(&whole), launches(&part));
    assert_eq!(kept.as_array().unwrap().len(), 4);
    assert_eq!(kept.as_array().unwrap()[..], all.as_array().unwrap()[..4]);
    // The code of the kernels is kept, and the file is sound.
    let kernels = |file: &Path| run_on(&["kernels"], file, &["--json"]).json();
    let code = |list: serde_json::Value| -> Vec<serde_json::Value> {
        let all = list.as_array().unwrap().iter();
        all.map(|k| serde_json::json!([k["kernel"], k["module_bytes"], k["held"]]))
            .collect()
    };
    assert_eq!(code(kernels(&part)), code(kernels(&whole)));
    let verified = run_on(&["verify"], &part, &[]);
    assert_eq!(verified.code, Some(0), "{}", verified.out);
}

#[test]
fn invalid_trims_are_refused_and_write_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("part.kine");
    let to = to.to_str().unwrap();
    let digits = sample("digits.kine");
    run_on(&["trim"], &digits, &["--jobs", "2..=4", "-o", to])
        .assert_refused("job 4 does not exist (the recording has 4 jobs");
    let empty = run_on(&["trim"], &digits, &["--jobs", "3..1", "-o", to]);
    assert!(
        empty.code == Some(2) && empty.err.contains("ends before it begins"),
        "{}",
        empty.err
    );
    run_on(&["trim"], &digits, &["--events", "0..=246", "-o", to])
        .assert_refused("event 246 does not exist (the recording has 246");
    let copy = folder.path().join("copy.kine");
    fs::copy(&digits, &copy).unwrap();
    run_on(&["trim"], &copy, &["--jobs", "0", "-o", copy.to_str().unwrap()]).assert_refused("the recording, ");
    assert_eq!(fs::read(&copy).unwrap(), fs::read(&digits).unwrap());
    if let Some(folder) = recordings() {
        let log = folder.join("mmiotrace/rwmmio-radeonfb-arm64.txt.gz");
        run_on(&["trim"], &log, &["--jobs", "0", "-o", to]).assert_refused("choose events instead (--events A..=B");
        run_on(&["bisect"], &log, &["--test", "true"]).assert_refused("has no jobs");
        let cut = run_on(&["trim"], &log, &["--events", "10..=99", "-o", to]);
        assert_eq!(cut.code, Some(0), "{}", cut.err);
        assert_eq!(open(Path::new(to)).events.len(), 90);
        fs::remove_file(to).unwrap();
    }
    assert!(!Path::new(to).exists());
    for (arguments, why) in [
        (&ON[..], "does not show a failure: its replay on the target matches"),
        (&["--test", "exit 1"], "the command exits with 1 for it"),
        (&["--test", "exit 125"], "is unknown: the command exits with 125"),
        (&["--test", "exit 3"], "exits with 3 (expected 0"),
    ] {
        let ended = run_on(&["bisect"], &digits, arguments);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains(why), "{ended:?}");
    }
}

#[test]
fn bisect_finds_the_diverging_job_and_its_dependencies() {
    let folder = tempfile::tempdir().unwrap();
    let bad = copy_with_diverging_job(folder.path());
    let part = folder.path().join("part.kine");
    let to = part.to_str().unwrap();
    let result = run_on(
        &["bisect"],
        &bad,
        &[&ON[..], &["--jobs-only", "-o", to, "--json"]].concat(),
    );
    assert_eq!(result.code, Some(0), "{}", result.err);
    let result = result.json();
    assert_eq!(result["jobs_kept"], serde_json::json!([0, 1, 2]));
    assert_eq!(run_on(&["replay"], &part, &ON).code, Some(1));
    // Without its producers, the result is one job with fewer events.
    let alone = run_on(
        &["bisect"],
        &bad,
        &[&ON[..], &["--without-producers", "-o", to, "--json"]].concat(),
    )
    .json();
    assert_eq!(alone["jobs_kept"], serde_json::json!([2]));
    assert_eq!(alone["ended"], serde_json::Value::Null);
    assert!(alone["events"].as_u64() < Some(100), "{}", alone["events"]);
    assert_eq!(open(&part).events.len() as u64, alone["events"].as_u64().unwrap());
    let replay = run_on(&["replay"], &part, &[&ON[..], &["--json"]].concat()).json();
    assert_eq!(replay["outcome"], "diverged");
    assert_eq!(replay["divergences"][0]["register"], "JOB_IRQ_JS_STATE");
}

#[test]
fn bisect_test_command_decides_failure() {
    let folder = tempfile::tempdir().unwrap();
    let bad = copy_with_diverging_job(folder.path());
    let script = folder.path().join("it fails.sh");
    // A user's script replays and searches the result for the failure.
    let text = "\"$PROGRAM\" replay \"$1\" --on software:mali-g71 | grep -q JOB_IRQ_JS_STATE || exit 1\n";
    fs::write(&script, text).unwrap();
    let part = folder.path().join("part.kine");
    let ended: ProgramOutput = Command::new(program("kinescope"))
        .args([
            "bisect",
            bad.to_str().unwrap(),
            "--test",
            "sh 'it fails.sh' {}",
            "--jobs-only",
        ])
        .args(ON)
        .args(["-o", part.to_str().unwrap()])
        .current_dir(folder.path())
        .env("PROGRAM", program("kinescope"))
        .env("KINESCOPE_KEYS", folder.path().join("keys"))
        .output()
        .unwrap()
        .into();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(
        ended.out.contains("3 of 4 jobs: 0 to 2; 217 of 246 events"),
        "{}",
        ended.out
    );
    assert!(ended.out.contains("the failure shows in"), "{}", ended.out);
    assert_eq!(open(&part).events.len(), 217);
    // The environment contains the path too.
    let by_name = run_on(
        &["bisect"],
        &bad,
        &[
            "--test",
            "test -s \"$KINESCOPE_CANDIDATE\"",
            "--jobs-only",
            "--alone",
            "--json",
        ],
    );
    assert_eq!(by_name.json()["jobs_kept"].as_array().unwrap().len(), 1);
    // Quotes of the user do not change the path.
    for command in ["test -s \"{}\"", "test -s '{}'"] {
        let quoted = run_on(
            &["bisect"],
            &bad,
            &["--test", command, "--jobs-only", "--alone", "--json"],
        );
        assert_eq!(quoted.json()["jobs_kept"].as_array().unwrap().len(), 1, "{command}");
    }
}

#[test]
fn a_search_that_is_stopped_leaves_the_best_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("part.kine");
    // The first three candidates are tested at once, and the fourth never ends. The search must also end what the shell
    // started. Otherwise the output of this test stays open.
    let command = "echo x >> seen; test $(wc -l < seen) -lt 4 || { sleep 3600; true; }";
    let child = Command::new(program("kinescope"))
        .args([
            "bisect",
            sample("digits.kine").to_str().unwrap(),
            "--alone",
            "--test",
            command,
        ])
        .args(["-o", part.to_str().unwrap()])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let seen = folder.path().join("seen");
    let begin = Instant::now();
    while fs::read(&seen).map_or(0, |s| s.len()) < 8 {
        assert!(begin.elapsed() < HANG_LIMIT, "no candidate is tested");
        std::thread::sleep(Duration::from_millis(20));
    }
    let line = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
    // The output ends, so the process that the shell started has ended too.
    let ended: ProgramOutput = child.wait_with_output().unwrap().into();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(
        ended.out.contains("the shortest when the search ended"),
        "{}",
        ended.out
    );
    assert!(open(&part).events.len() < 246);
}

#[test]
fn bisect_reports_its_result_if_the_file_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    fs::create_dir(&gone).unwrap();
    let command = format!("rm -rf {}; true", gone.display());
    let part = gone.join("part.kine");
    let ended = run_on(
        &["bisect"],
        &sample("digits.kine"),
        &[
            "--test",
            &command,
            "--jobs-only",
            "--alone",
            "-o",
            part.to_str().unwrap(),
        ],
    );
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.out.contains("the failure shows in"), "{}", ended.out);
    assert!(!ended.out.contains("written"), "{}", ended.out);
    assert!(ended.err.contains("part.kine"), "{}", ended.err);
}

//! Pipelines on the command line: exit codes, files of the folder, and outcomes that are recordings.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test panics when it fails"
)]

use kinescope_campaign::{CampaignFolder, RunQueue as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use whole_program_tests::{HANG_LIMIT, code_blocks, copy_diverging, kinescope, program, root, run, send_signal};

const ON: &str = "software:mali-g71";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn digits() -> PathBuf {
    root().join("sample-pipelines/digits/digits.kpipe")
}

/// Writes a pipeline of one replay of `recording`, and returns its path.
fn one_stage(folder: &Path, recording: &Path) -> PathBuf {
    let path = folder.join("p.kpipe");
    let pipeline = format!(
        "version = 1\n[stages.add]\nrecording = '{}'\noutputs = ['c']\n[outputs]\nc = {{ from = 'add.c', file = 'c.bin' }}\n",
        recording.display()
    );
    std::fs::write(&path, pipeline).unwrap();
    path
}

#[test]
fn digit_pipeline_writes_what_the_whole_recording_gives() {
    let folder = tempfile::tempdir().unwrap();
    let (to, whole) = (folder.path().join("out"), folder.path().join("whole.npy"));
    let image = root().join("sample-traces/digits/digit.npy");
    let ended = run(["pipeline", "run", text(&digits()), "--on", ON, "-o", text(&to)]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.starts_with("match: 6 stages\n"), "{}", ended.out);
    let sample = root().join("sample-traces/digits.kine");
    let (input, output) = (
        format!("image={}", image.display()),
        format!("logits={}", whole.display()),
    );
    let replayed = run([
        "replay",
        text(&sample),
        "--on",
        ON,
        "--input",
        &input,
        "--output",
        &output,
    ]);
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
    assert_eq!(
        std::fs::read(to.join("logits.npy")).unwrap(),
        std::fs::read(&whole).unwrap()
    );
    let digit = std::fs::read(to.join("digit.npy")).unwrap();
    assert_eq!(digit[digit.len() - 4..], 7i32.to_le_bytes());
    // Outcomes are recordings, and match the part that they replay.
    for layer in ["conv1", "pool", "conv2", "dense"] {
        let outcome = to.join(format!("{layer}.kine"));
        assert_eq!(run(["check", text(&outcome)]).code, Some(0), "{layer}");
    }
    let files = std::fs::read_dir(&to).unwrap().count();
    assert_eq!(files, 4 + 3 + 1, "outcomes, outputs, report");
    // The results of a run are not put next to what it reads.
    let own = digits().parent().unwrap().to_owned();
    let refused = run(["pipeline", "run", text(&digits()), "--on", ON, "-o", text(&own)]);
    refused.assert_refused("which outputs could replace");
}

#[test]
fn diverging_stage_ends_the_run_with_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let recording = copy_diverging(folder.path(), "vecadd.kine");
    let pipeline = one_stage(folder.path(), &recording);
    let to = folder.path().join("out");
    let ended = run([
        "pipeline",
        "run",
        text(&pipeline),
        "--on",
        ON,
        "-o",
        text(&to),
        "--json",
    ]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let report = ended.json();
    assert_eq!(
        (&report["verdict"], &report["stages"][0]["verdict"]),
        (&"diverged".into(), &"diverged".into())
    );
    let failure = report["failure"].as_str().unwrap();
    assert!(
        failure.starts_with("stage 'add': the replay diverged at event "),
        "{failure}"
    );
    assert!(to.join("add.kine").exists() && to.join("report.json").exists() && !to.join("c.bin").exists());
}

/// Two additions, the second of which names a buffer at an address that its recording does not map.
fn second_stage_unmapped(folder: &Path) -> PathBuf {
    let path = folder.join("p.kpipe");
    let sample = root().join("sample-traces/vecadd.kine");
    let pipeline = format!(
        "version = 1\n[stages.add]\nrecording = '{0}'\noutputs = ['c']\n[stages.again]\nrecording = '{0}'\n\
         inputs = {{ d = 'add.c' }}\noutputs = ['c']\n\
         buffers.d = {{ address = 0x7fff0000, type = 'f32', shape = [1024] }}\n[outputs]\nc = 'again.c'\n",
        sample.display()
    );
    std::fs::write(&path, pipeline).unwrap();
    path
}

#[test]
fn stage_that_cannot_start_after_another_is_a_failure_with_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let pipeline = second_stage_unmapped(folder.path());
    let to = folder.path().join("out");
    let ended = run(["pipeline", "run", text(&pipeline), "--on", ON, "-o", text(&to)]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.starts_with("failed: stage 'again': "), "{}", ended.out);
    assert!(
        ended.out.contains("\nadd ") && !ended.err.contains("again"),
        "{ended:?}"
    );
}

#[test]
fn run_that_cannot_start_prints_its_failure_once_with_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let pipeline = second_stage_unmapped(folder.path());
    // The first stage is the unmapped one.
    let changed = std::fs::read_to_string(&pipeline).unwrap();
    let changed = changed.replace("'add.c'", "'inputs.x'").replace(
        "version = 1\n",
        "version = 1\n[inputs.x]\ntype = 'f32'\nshape = [1024]\nfile = 'x.bin'\n",
    );
    let (start, end) = (
        changed.find("[stages.add]").unwrap(),
        changed.find("[stages.again]").unwrap(),
    );
    std::fs::write(&pipeline, format!("{}{}", &changed[..start], &changed[end..])).unwrap();
    std::fs::write(folder.path().join("x.bin"), [0; 4096]).unwrap();
    let to = folder.path().join("out");
    let ended = run(["pipeline", "run", text(&pipeline), "--on", ON, "-o", text(&to)]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(
        ended.err.contains("stage 'again': ") && ended.out.is_empty(),
        "{ended:?}"
    );
    let report = std::fs::read_to_string(to.join("report.json")).unwrap();
    assert!(report.contains("stage 'again': "), "{report}");
}

#[test]
fn target_of_a_campaigns_cell_may_be_the_one_of_a_label() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| text(&folder.path().join(name)).to_owned();
    let sample = root().join("sample-traces/vecadd.kine");
    let pipeline = format!(
        "version = 1\n[stages.add]\nrecording = '{0}'\noutputs = ['c']\n[stages.again]\nrecording = '{0}'\n\
         outputs = ['c']\ntarget = 'second'\n[outputs]\nc = 'add.c'\nd = 'again.c'\n",
        sample.display()
    );
    std::fs::write(at("p.kpipe"), pipeline).unwrap();
    let keys = folder.path().join("keys");
    let run_campaign = |label: &str, to: &str| {
        let text = format!(
            "version = 1\ntargets = ['{ON}']\n[[pipelines]]\npath = 'p.kpipe'\nlabels = {{ {label} = '{ON}' }}\n"
        );
        std::fs::write(at("c.toml"), text).unwrap();
        kinescope(&keys, ["campaign", "run", &at("c.toml"), "-o", &at(to), "--json"])
    };
    let ended = run_campaign("second", "out");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.json()["matched"], 1, "{ended:?}");
    // A misspelt label is no label without stages.
    let misspelt = run_campaign("secnd", "misspelt");
    assert_eq!(misspelt.code, Some(1), "{misspelt:?}");
    let queue = CampaignFolder::open(&folder.path().join("misspelt")).unwrap();
    let queue = queue.open_queue().unwrap();
    let mut failures = Vec::new();
    queue
        .results(&mut |_, result| {
            failures.extend(result.failure);
            true
        })
        .unwrap();
    let expected = format!("no stage has the label 'secnd' of secnd={ON} (labels of the pipeline: second)");
    assert_eq!(failures, [expected]);
}

/// Writes a pipeline of an addition, and of a module that runs until it is stopped.
fn endless(folder: &Path) -> PathBuf {
    let module = "(module (memory (export \"memory\") 1) (global $next (mut i32) (i32.const 1024))\n\
        (func (export \"allocate\") (param $bytes i32) (result i32) (local $at i32)\n\
        (local.set $at (global.get $next))\n\
        (global.set $next (i32.add (local.get $at) (local.get $bytes))) (local.get $at))\n\
        (func (export \"wait\") (param i32 i32 i32 i32) (loop $l (br $l))))";
    std::fs::write(folder.join("m.wat"), module).unwrap();
    let sample = root().join("sample-traces/vecadd.kine");
    let pipeline = format!(
        "version = 1\n[stages.add]\nrecording = '{}'\noutputs = ['c']\n[stages.wait]\nmodule = 'm.wat'\n\
         function = 'wait'\ninputs.c = {{ from = 'add.c', type = 'f32', shape = [1024] }}\n\
         outputs.o = {{ type = 'u8', shape = [1] }}\nlimits = {{ fuel = 1000000000000000, time_ms = 600000 }}\n\
         [outputs]\nc = {{ from = 'add.c', file = 'c.bin' }}\no = {{ from = 'wait.o', file = 'o.bin' }}\n",
        sample.display()
    );
    let path = folder.join("endless.kpipe");
    std::fs::write(&path, pipeline).unwrap();
    path
}

/// A program that is killed when a test ends early.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a run, and waits until its stage `add` has an outcome.
fn start_run(pipeline: &Path, to: &Path) -> Running {
    let child = Command::new(program("kinescope"))
        .args(["pipeline", "run", text(pipeline), "--on", ON, "-o", text(to)])
        .env("KINESCOPE_KEYS", to.with_file_name("keys"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Running(child);
    let begun = Instant::now();
    while !std::fs::metadata(to.join("add.kine")).is_ok_and(|file| file.len() > 3) {
        assert!(child.0.try_wait().unwrap().is_none() && begun.elapsed() < HANG_LIMIT);
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

#[test]
fn stopped_run_leaves_a_report_and_no_outputs_of_another_run() {
    let folder = tempfile::tempdir().unwrap();
    let pipeline = endless(folder.path());
    let to = folder.path().join("out");
    std::fs::create_dir(&to).unwrap();
    for name in ["add.kine", "c.bin", "o.bin", "report.json", "notes.txt"] {
        std::fs::write(to.join(name), "old").unwrap();
    }
    let mut running = start_run(&pipeline, &to);
    send_signal(running.0.id(), "INT");
    assert_eq!(running.0.wait().unwrap().code(), Some(130));
    let mut files: Vec<_> = std::fs::read_dir(&to)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    files.sort();
    assert_eq!(files, ["add.kine", "notes.txt", "report.json"]);
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(to.join("report.json")).unwrap()).unwrap();
    assert_eq!(
        (&report["verdict"], &report["failure"], &report["stages"][0]["stage"]),
        (&"failed".into(), &"the run was stopped".into(), &"add".into())
    );
}

#[test]
fn folder_of_a_run_is_for_one_process_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let pipeline = endless(folder.path());
    let short = one_stage(folder.path(), &root().join("sample-traces/vecadd.kine"));
    let to = folder.path().join("out");
    let running = start_run(&pipeline, &to);
    let arguments = ["pipeline", "run", text(&short), "--on", ON, "-o", text(&to)];
    run(arguments).assert_refused("another run writes to this folder");
    assert!(to.join("add.kine").exists());
    // A killed process leaves no lock.
    drop(running);
    let ended = run(arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn folder_in_the_way_of_an_output_is_refused_before_any_stage_runs() {
    let folder = tempfile::tempdir().unwrap();
    let pipeline = one_stage(folder.path(), &root().join("sample-traces/vecadd.kine"));
    let to = folder.path().join("out");
    std::fs::create_dir_all(to.join("c.bin")).unwrap();
    run(["pipeline", "run", text(&pipeline), "--on", ON, "-o", text(&to)]).assert_refused("c.bin: is a folder");
    assert!(!to.join("add.kine").exists());
}

#[test]
fn target_whose_agent_is_out_of_reach_is_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let pipeline = one_stage(folder.path(), &root().join("sample-traces/vecadd.kine"));
    let to = folder.path().join("out");
    let on = format!("agent:farm/mali-g71,{ON}");
    let ended = run(["pipeline", "run", text(&pipeline), "--on", &on, "-o", text(&to)]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let message = "kinescope: agent:farm/mali-g71 gets no stage, because its device is unknown: ";
    assert!(
        ended.err.starts_with(message) && ended.err.lines().count() == 1,
        "{ended:?}"
    );
}

#[test]
fn refused_pipelines_have_exit_code_2_and_leave_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let pipeline = one_stage(folder.path(), &root().join("sample-traces/vecadd.kine"));
    let to = folder.path().join("out");
    let refuse = |on: &str, needle: &str| {
        run(["pipeline", "run", text(&pipeline), "--on", on, "-o", text(&to)]).assert_refused(needle);
        assert!(!to.exists(), "{on}");
    };
    refuse("qemu:edu", "no target fits stage 'add'");
    refuse("software:mali-g71,software:mali-g71", "is given twice");
    let empty = run(["pipeline", "run", text(&pipeline), "--on", ",", "-o", text(&to)]);
    assert!(
        empty.code == Some(2) && empty.err.contains("',' is no list of targets"),
        "{empty:?}"
    );
    let none = run(["pipeline", "run", text(&pipeline), "-o", text(&to)]);
    none.assert_refused("no target is given; software:mali-g71");
    // A defect has its line, in a check and in a run.
    let changed = std::fs::read_to_string(&pipeline).unwrap().replace("add.c'", "add.d'");
    std::fs::write(&pipeline, changed).unwrap();
    refuse(
        ON,
        "p.kpipe, line 6: output 'c' uses 'add.d', and there is no output 'd' of stage 'add' (there are: c)",
    );
    let checked = run(["pipeline", "check", text(&pipeline)]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    assert!(
        checked.out.contains("p.kpipe, line 6: output 'c' uses 'add.d'"),
        "{}",
        checked.out
    );
    let good = run(["pipeline", "check", text(&digits())]);
    assert_eq!(good.code, Some(0), "{good:?}");
    assert!(
        good.out.contains("Output digit: argmax.digit to digit.npy"),
        "{}",
        good.out
    );
}

#[test]
fn the_tutorial_does_what_it_says() {
    let page = std::fs::read_to_string(root().join("docs/tutorials/a-network-in-three-recordings.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for shared in ["sample-traces", "sample-pipelines"] {
        std::os::unix::fs::symlink(root().join(shared), folder.path().join(shared)).unwrap();
    }
    let pipeline = folder.path().join("target/net/digits.kpipe");
    let mut printed = String::new();
    for line in code_blocks(&page, "sh").iter().flat_map(|b| b.lines()) {
        // The reader writes it after the first commands, which make its folder.
        if line.contains(" pipeline ") {
            std::fs::write(&pipeline, code_blocks(&page, "toml")[0]).unwrap();
        }
        let ended = Command::new("sh")
            .args(["-c", line])
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", program("kinescope").parent().unwrap().display()),
            )
            .env("KINESCOPE_KEYS", folder.path().join("keys"))
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(0), "{line}: {ended:?}");
        printed += &String::from_utf8_lossy(&ended.stdout);
    }
    for line in code_blocks(&page, "text").iter().flat_map(|b| b.lines()) {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    assert!(printed.lines().any(|line| line.trim() == "7"), "{printed}");
    let refused = page.split('`').find(|text| text.starts_with("line 31: ")).unwrap();
    let text = std::fs::read_to_string(&pipeline).unwrap();
    std::fs::write(&pipeline, text.replace("shape = [10] }", "shape = [12] }")).unwrap();
    let checked = run(["pipeline", "check", self::text(&pipeline)]);
    assert!(checked.code == Some(1) && checked.out.contains(refused), "{checked:?}");
}

//! The project's sample traces on the command line.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

#[path = "../command_line/asking.rs"]
mod asking;
#[path = "../command_line/doctor.rs"]
mod doctor;
#[path = "../command_line/driver_logs.rs"]
mod driver_logs;
#[path = "../command_line/filters.rs"]
mod filters;
#[path = "../command_line/outputs.rs"]
mod outputs;
#[path = "../command_line/programs.rs"]
mod programs;
#[path = "../command_line/spaces.rs"]
mod spaces;
#[path = "../command_line/stopping.rs"]
mod stopping;
#[path = "../command_line/tables.rs"]
mod tables;
#[path = "../command_line/typed.rs"]
mod typed;
#[path = "../command_line/waves.rs"]
mod waves;

use serde_json::json;
use trace_core::RegOffset;
use whole_program_tests::{root, run, samples};

#[test]
fn every_sample_is_sound_and_replays() {
    let samples = samples();
    assert!(samples.len() >= 10, "{samples:?}");
    for sample in samples {
        let run_verb = |verb: &str| run([verb.as_ref(), sample.as_os_str(), "--json".as_ref()]);
        assert_eq!(run_verb("check").code, Some(0), "{}", sample.display());
        assert_eq!(run_verb("verify").code, Some(0), "{}", sample.display());
        let info = run_verb("info").json();
        assert!(
            info["jobs"].as_u64().unwrap() > 0 && info["events"].as_u64().unwrap() > 50,
            "{info}"
        );
        // Each sample replays on the simulator of its GPU.
        let model = info["gpu"]["name"].as_str().unwrap().to_lowercase();
        let target = format!("software:{model}");
        let replay = run([
            "replay".as_ref(),
            sample.as_os_str(),
            "--on".as_ref(),
            target.as_ref(),
            "--json".as_ref(),
        ]);
        assert_eq!(replay.code, Some(0), "{}: {replay:?}", sample.display());
        let outcome = replay.json();
        assert_eq!(
            (&outcome["outcome"], &outcome["reads_compared"]),
            (&json!("match"), &outcome["reads_matched"])
        );
        assert_eq!((&outcome["jobs"], &outcome["board"]), (&info["jobs"], &json!(target)));
    }
}

#[test]
fn jobs_without_shaders_really_execute() {
    for name in ["write-value", "write-value-lpae"] {
        let sample = root().join(format!("sample-traces/{name}.kine"));
        let dir = tempfile::tempdir().unwrap();
        let (edit, result) = (dir.path().join("zero.bin"), dir.path().join("results.bin"));
        let info = run(["info".as_ref(), sample.as_os_str(), "--json".as_ref()]).json();
        let buffer = info["buffers"]
            .as_array()
            .unwrap()
            .iter()
            .find(|b| b["name"] == "results")
            .unwrap()
            .clone();
        // The jobs write their known values over any earlier content.
        std::fs::write(&edit, vec![0x5a; buffer["bytes"].as_u64().unwrap() as usize]).unwrap();
        let replay = |input: &[&str]| {
            let output = format!("results={}", result.display());
            let mut arguments = vec![
                "replay",
                sample.to_str().unwrap(),
                "--on",
                "software:mali-g71",
                "--json",
                "--output",
                &output,
            ];
            arguments.extend(input);
            let ended = run(arguments);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            assert_eq!(ended.json()["computed"], true, "no job needs a shader");
            std::fs::read(&result).unwrap()
        };
        let plain = replay(&[]);
        let edited = replay(&["--input", &format!("results={}", edit.display())]);
        assert!(plain.iter().any(|b| *b != 0));
        let untouched = edited.iter().filter(|b| **b == 0x5a).count();
        assert!(untouched < edited.len(), "the jobs wrote nothing");
        for (i, (a, b)) in plain.iter().zip(&edited).enumerate() {
            assert!(a == b || *b == 0x5a, "{name}: byte {i} is {a:#x} or {b:#x}");
        }
    }
}

#[test]
fn another_gpus_recording_is_refused_with_exit_code_two() {
    let sample = root().join("sample-traces/vecadd-g52.kine");
    for verb in ["plan", "replay"] {
        let ended = run([
            verb.as_ref(),
            sample.as_os_str(),
            "--on".as_ref(),
            "software:mali-g71".as_ref(),
            "--json".as_ref(),
        ]);
        ended.assert_refused(
            "the recording was made on a Mali-G52 (0x72120000), software:mali-g71 is a Mali-G71 (0x60a00002), and the first runs shaders and descriptors of \
             Bifrost's second generation (architecture 7), the second those of \
             Bifrost's first generation (architecture 6): \
             software:mali-g52 would fit",
        );
    }
}

#[test]
fn recording_replays_on_another_model_of_its_group() {
    let sample = root().join("sample-traces/vecadd.kine");
    let sample = sample.to_str().unwrap();
    let on = ["--on", "software:mali-g72"];
    let own = run(["replay", sample, "--on", "software:mali-g71", "--json"]).json();
    let other = run([&["replay", sample][..], &on, &["--json"]].concat()).json();
    assert_eq!((&other["outcome"], &other["computed"]), (&"match".into(), &true.into()));
    assert_eq!(other["outputs"], own["outputs"]);
    assert!(other["rewrites"]["identity"].as_u64().unwrap() > 1, "{other}");
    for verb in ["plan", "replay"] {
        let text = run([&[verb, sample][..], &on].concat()).out;
        let model = "recorded on Mali-G71, compiled for Mali-G72: ";
        assert!(
            text.contains(model) && text.contains(" rewrites of identity, "),
            "{text}"
        );
    }
    let formats = run([&["plan", sample][..], &on, &["--page-tables", "aarch64-4k"]].concat()).out;
    assert!(formats.contains("table-format"), "{formats}");
    let edu = root().join("sample-traces/edu.plan.txt");
    let refused = run([
        "plan",
        edu.to_str().unwrap(),
        "--on",
        "software:mali-g71",
        "--page-tables",
        "mali-lpae",
    ]);
    refused.assert_refused("--page-tables is for recordings");
}

/// Runs `kinescope` without a folder for its files: nobody can create a folder inside a file.
fn run_without_home(arguments: &[&str], variable: &str) -> whole_program_tests::ProgramOutput {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    let mut command = std::process::Command::new(whole_program_tests::program("kinescope"));
    command.env_clear().env(variable, file.join("home")).args(arguments);
    whole_program_tests::ProgramOutput::from(command.output().unwrap())
}

#[test]
fn software_target_needs_no_key_folder() {
    let sample = root().join("sample-traces/vecadd.kine");
    let sample = sample.to_str().unwrap();
    for variable in ["HOME", "KINESCOPE_KEYS"] {
        for verb in ["plan", "replay"] {
            let ended = run_without_home(&[verb, sample, "--on", "software:mali-g71"], variable);
            assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{variable}: {ended:?}");
        }
        let targets = run_without_home(&["boards", "--json"], variable);
        assert_eq!(targets.code, Some(0), "{targets:?}");
        let names: Vec<String> = targets
            .json()
            .as_array()
            .unwrap()
            .iter()
            .map(|b| b["board"].to_string())
            .collect();
        let models = ["g71", "g52", "g72", "g51", "g76", "g31"];
        assert_eq!(names, models.map(|m| format!("\"software:mali-{m}\"")));
        assert!(
            targets.err.starts_with("kinescope: cannot read the paired agents: ") && targets.err.lines().count() == 1,
            "{targets:?}"
        );
        // A verb that needs keys names the file that it cannot open.
        run_without_home(&["replay", sample, "--on", "agent:lab/mali-g71"], variable).assert_refused("/file/home");
        run_without_home(&["agents"], variable).assert_refused("/file/home");
        // An invalid target name is reported as such.
        run_without_home(&["replay", sample, "--on", "cuda:0"], variable).assert_refused("cuda");
    }
}

#[test]
fn a_plan_is_shown_without_being_run() {
    let sample = root().join("sample-traces/write-value.kine");
    let print_plan = |form: &str| run(["plan", sample.to_str().unwrap(), "--on", "software:mali-g71", form]);
    let plan = print_plan("--json").json();
    assert_eq!(plan["jobs"], 3);
    assert!(plan["verified"]["leaves"].as_u64().unwrap() > 0);
    let rewrites: u64 = plan["rewrites"]
        .as_object()
        .unwrap()
        .values()
        .map(|v| v.as_u64().unwrap())
        .sum();
    assert_eq!(rewrites, plan["rewrite_list"].as_array().unwrap().len() as u64);
    let text = print_plan("--text");
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(
        text.out.lines().count() as u64 > plan["actions"].as_u64().unwrap(),
        "one line per action"
    );
}

#[test]
fn unknown_register_replays_only_with_an_allowed_range() {
    let dir = tempfile::tempdir().unwrap();
    let sample = root().join("sample-traces/vecadd.kine");
    let mut recording = trace_core::container::open(&sample).unwrap();
    let mut events = trace_core::recording::EventsBuilder::new();
    let unknown = trace_core::recording::Access {
        space: 0,
        write: false,
        offset: RegOffset::new(0x3ff8),
        width: 4,
        value: 0,
    };
    events.access(0, 0, unknown);
    for at in 0..recording.events.len() {
        let time = recording.events.time.get(at).unwrap();
        match (recording.events.access(at), recording.events.interrupt(at)) {
            (Some(access), _) => events.access(time, 0, access),
            (None, Some(interrupt)) => events.interrupt(time, interrupt),
            (None, None) => {}
        }
    }
    recording.events = events.finish();
    let file = dir.path().join("unknown.kine");
    std::fs::write(&file, trace_core::container::to_bytes(&recording).unwrap()).unwrap();
    let run_allowed = |verb: &str, extra: &[&str]| {
        let start = [verb, file.to_str().unwrap(), "--on", "software:mali-g71"];
        run(start.iter().chain(extra))
    };
    for verb in ["plan", "replay"] {
        run_allowed(verb, &[]).assert_refused("event 0: the register map does not know the register at 0x3ff8");
        run_allowed(verb, &[]).assert_refused("--allow START..END");
        run_allowed(verb, &["--allow", "0x3f00..0x3ff8"]).assert_refused("0x3ff8");
        run_allowed(verb, &["--allow", "0x0..0x4000"]).assert_refused("a quarter of the MMIO region");
        run_allowed(verb, &["--allow", "0x0..0x10"]).assert_refused("GPU_ID");
        for invalid in ["0x3ff8", "0x3ff8..0x3ffa", "0x3ff8..0x3ff8", "a..b"] {
            let ended = run_allowed(verb, &["--allow", invalid]);
            assert!(
                ended.code == Some(2) && ended.err.contains("not a range of registers"),
                "{ended:?}"
            );
        }
        let ended = run_allowed(
            verb,
            &["--allow", "0x3ff0..0x3ff4", "--allow", "0x3ff8..0x3ffc", "--json"],
        );
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(ended.json()["allowed"], json!(["0x3ff0..0x3ff4", "0x3ff8..0x3ffc"]));
        let text = run_allowed(verb, &["--allow", "0x3ff8..0x3ffc"]);
        assert!(text.code == Some(0) && text.out.contains("0x3ff8..0x3ffc"), "{text:?}");
    }
}

fn replay_vecadd(extra: &[&str]) -> whole_program_tests::ProgramOutput {
    let sample = root().join("sample-traces/vecadd.kine");
    let start = [
        "replay",
        sample.to_str().unwrap(),
        "--on",
        "software:mali-g71",
        "--json",
    ];
    run(start.iter().chain(extra))
}

#[test]
fn every_buffer_exports_and_imports_as_raw_and_npy() {
    let dir = tempfile::tempdir().unwrap();
    let sample = root().join("sample-traces/vecadd.kine");
    let info = run(["info".as_ref(), sample.as_os_str(), "--json".as_ref()]).json();
    let mut names = Vec::new();
    for buffer in info["buffers"].as_array().unwrap() {
        let name = buffer["name"].as_str().unwrap();
        let bytes = buffer["bytes"].as_u64().unwrap();
        let (raw, npy) = (
            dir.path().join(format!("{name}.bin")),
            dir.path().join(format!("{name}.npy")),
        );
        let file = |path: &std::path::Path| format!("{name}={}", path.display());
        let out = replay_vecadd(&["--output", &file(&raw), "--output", &file(&npy)]);
        assert_eq!(out.code, Some(0), "{out:?}");
        let (raw_bytes, npy_bytes) = (std::fs::read(&raw).unwrap(), std::fs::read(&npy).unwrap());
        assert_eq!(raw_bytes.len() as u64, bytes, "{name}");
        assert!(
            npy_bytes.starts_with(b"\x93NUMPY") && npy_bytes.ends_with(&raw_bytes),
            "{name}"
        );
        let report = out.json();
        let parsed_json = report["outputs"]
            .as_array()
            .unwrap()
            .iter()
            .find(|o| o["name"] == name)
            .unwrap();
        assert_eq!(parsed_json["bytes"], bytes);
        assert_eq!(
            parsed_json["blake3"],
            blake3::hash(&raw_bytes).to_hex().to_string(),
            "{name}"
        );
        // An exported buffer can be imported in either form, and changes nothing.
        for path in [&raw, &npy] {
            let reimported = replay_vecadd(&["--input", &file(path)]);
            assert_eq!(
                (reimported.code, &reimported.json()["rewrites"]["input"]),
                (Some(0), &json!(1)),
                "{name}"
            );
        }
        names.push(name.to_owned());
    }
    assert_eq!(names, ["a", "b", "c", "shader0"]);
}

#[test]
fn unfit_inputs_and_outputs_are_refused_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let npy = at("a.npy");
    assert_eq!(replay_vecadd(&["--output", &format!("a={npy}")]).code, Some(0));
    let npy_bytes = std::fs::read(&npy).unwrap();
    let write_input = |name: &str, bytes: &[u8]| {
        std::fs::write(at(name), bytes).unwrap();
        format!("a={}", at(name))
    };
    let assert_input_refused = |input: &str, needle: &str| {
        let ended = replay_vecadd(&["--input", input]);
        ended.assert_refused(needle);
        assert!(
            ended.err.contains(input.split_once('=').unwrap().1),
            "the message names the file: {}",
            ended.err
        );
    };
    assert_input_refused(
        &write_input("short.bin", &[0; 4095]),
        "holds 4095 bytes, but buffer 'a' takes exactly 4096",
    );
    assert_input_refused(&write_input("long.bin", &[0; 4097]), "takes exactly 4096");
    assert_input_refused(&write_input("empty.bin", &[]), "holds 0 bytes");
    let start = npy_bytes
        .windows(3)
        .position(|w| w == b"<f4")
        .expect("buffer a has f32 elements");
    let mut ints = npy_bytes.clone();
    ints[start + 1] = b'i';
    assert_input_refused(
        &write_input("ints.npy", &ints),
        "holds i32 elements, but buffer 'a' has f32",
    );
    assert_input_refused(&write_input("cut.npy", &npy_bytes[..npy_bytes.len() - 4]), "");
    assert_input_refused(&write_input("head.npy", &npy_bytes[..20]), "");
    assert_input_refused(&write_input("letter.npy", b"Dear all"), "");
    assert_input_refused(&format!("a={}", dir.path().display()), "");
    assert_input_refused(&format!("a={}", at("nowhere.bin")), "No such file");
    for (option, value) in [
        ("--output", format!("a={}", at("missing/out.bin"))),
        ("--output", format!("a={}", dir.path().display())),
        ("-o", at("missing/outcome.kine")),
        ("-o", dir.path().to_str().unwrap().to_owned()),
    ] {
        let ended = replay_vecadd(&[option, &value]);
        ended.assert_refused("folder");
    }
}

#[test]
fn exit_codes_distinguish_match_difference_and_error() {
    let dir = tempfile::tempdir().unwrap();
    let sample = |name: &str| root().join("sample-traces").join(name).to_str().unwrap().to_owned();
    let (vecadd, saxpy, g52) = (sample("vecadd.kine"), sample("saxpy.kine"), sample("vecadd-g52.kine"));
    let target = ["--on", "software:mali-g71"];
    let damaged = dir.path().join("damaged.kine");
    let mut bytes = std::fs::read(&vecadd).unwrap();
    bytes[4096] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let damaged = damaged.to_str().unwrap();
    let diverging = whole_program_tests::copy_diverging(dir.path(), "vecadd.kine");
    let diverging = diverging.to_str().unwrap();
    let table: &[(i32, &[&str])] = &[
        (0, &["info", &vecadd]),
        (0, &["check", &vecadd]),
        (0, &["diff", &vecadd, &vecadd]),
        (1, &["diff", &vecadd, &saxpy]),
        (2, &["diff", &vecadd, "/nowhere"]),
        (0, &["verify", &vecadd]),
        (1, &["verify", damaged]),
        (2, &["verify", "/nowhere"]),
        (0, &["map", &vecadd, "--walk", "0xf7ffb000"]),
        (1, &["map", &vecadd, "--walk", "0x1000"]),
        (0, &["memory", &vecadd, "--buffer", "a"]),
        (2, &["memory", &vecadd, "--buffer", "nobody"]),
        (1, &["memory", &vecadd, "--search", "00112233445566778899aabbccddeeff"]),
        (2, &["memory", &vecadd, "--search", "xyz"]),
        (2, &["import", &vecadd, "-o", &vecadd]),
        (0, &["plan", &vecadd, target[0], target[1]]),
        (2, &["plan", &vecadd, "--on", "software:mali-g99"]),
        (0, &["replay", &vecadd, target[0], target[1]]),
        (0, &["replay", &vecadd, target[0], target[1], "--pace", "recorded"]),
        (1, &["replay", diverging, target[0], target[1]]),
        (2, &["replay", &g52, target[0], target[1]]),
        (2, &["replay", &vecadd, "--on", "agent:nobody/mali-g71"]),
        (2, &["replay", &vecadd, "--on", "cuda:0"]),
        (2, &["replay", &vecadd, target[0], target[1], "--repeat", "0"]),
        (
            2,
            &["replay", &vecadd, target[0], target[1], "--input", "nobody=/dev/null"],
        ),
        (0, &["boards"]),
        (0, &["agents"]),
        (2, &["agents", "--forget", "nobody"]),
        (2, &["boards", "--forget", "nobody"]),
        (2, &["pair", "127.0.0.1:1", "lab"]),
        (0, &["--help"]),
        (2, &["--frobnicate"]),
    ];
    for (code, arguments) in table {
        let ended = run(*arguments);
        assert_eq!(ended.code, Some(*code), "{arguments:?}: {ended:?}");
        // Errors go to standard error only. A verb that succeeds prints nothing there.
        assert_eq!(ended.err.is_empty(), *code != 2, "{arguments:?}: {}", ended.err);
        assert!(*code != 2 || ended.out.is_empty(), "{arguments:?}: {}", ended.out);
    }
}

#[test]
fn replay_text_lists_every_job_with_correct_counts() {
    let sample = root().join("sample-traces/twopass.kine");
    let replay = |extra: &[&str]| {
        let start = ["replay", sample.to_str().unwrap(), "--on", "software:mali-g71"];
        let ended = run(start.iter().chain(extra));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.out
    };
    let plain = replay(&[]);
    assert!(
        plain.starts_with("match: ") && plain.contains("software:mali-g71"),
        "{plain}"
    );
    assert!(
        plain.contains("yes, every shader ran"),
        "the output says that every job was computed: {plain}"
    );
    let jobs = replay(&["--jobs"]);
    let rows: Vec<&str> = jobs.lines().skip_while(|l| !l.starts_with("Job ")).skip(1).collect();
    let info = run(["info".as_ref(), sample.as_os_str(), "--json".as_ref()]).json();
    assert_eq!(rows.len() as u64, info["jobs"].as_u64().unwrap(), "{jobs}");
    assert!(
        rows.iter()
            .all(|r| r.contains("done") && r.contains(" ran ") && r.contains(" us")),
        "{jobs}"
    );
    for text in [&plain, &jobs] {
        assert!(!text.contains(" 1 jobs") && !text.contains("(s)"), "{text}");
    }
}

#[test]
fn screenshot_works_without_a_display() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("window.png");
    let mut command = std::process::Command::new(whole_program_tests::program("kinescope"));
    command
        .args(["--screenshot".as_ref(), out.as_os_str()])
        .arg(root().join("sample-traces/write-value.kine"))
        .args(["--size", "800x500"]);
    for name in ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET", "XDG_RUNTIME_DIR"] {
        command.env_remove(name);
    }
    let ended = whole_program_tests::ProgramOutput::from(command.output().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    // A PNG begins with its signature, followed by a header with width and height.
    let png = std::fs::read(&out).unwrap();
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    assert_eq!(&png[16..24], &[0, 0, 3, 32, 0, 0, 1, 244]);
}

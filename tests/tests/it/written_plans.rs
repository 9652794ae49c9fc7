//! Plans as text and as files on the command line: printed, read back, and replayed on bus-mastering devices.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use serde_json::Value;
use whole_program_tests::emulated::has_qemu;
use whole_program_tests::{root, run};

const GRAPHICS: &str = "qemu:virtio-gpu-pci,vectors=0";

fn edu() -> String {
    root().join("sample-traces/edu.plan.txt").display().to_string()
}

fn json(arguments: &[&str], code: i32) -> Value {
    let ended = run(arguments.iter().chain(&["--json"]));
    assert_eq!(ended.code, Some(code), "{ended:?}");
    ended.json()
}

#[test]
fn plan_text_parses_without_a_target_and_errors_name_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (file, edu) = (path("edu.plan"), edu());
    assert_eq!(run(["plan", &edu, "--assemble", "-o", &file]).code, Some(0));
    // The printed plan file gives the same plan again.
    let printed = run(["plan", &file, "--assemble", "--text"]);
    std::fs::write(path("again.txt"), &printed.out).unwrap();
    let again = path("again.plan");
    assert_eq!(
        run(["plan", &path("again.txt"), "--assemble", "-o", &again]).code,
        Some(0)
    );
    assert_eq!(std::fs::read(&file).unwrap(), std::fs::read(&again).unwrap());

    run(["plan", &edu, "--assemble"]).assert_refused("-o FILE");
    let nowhere = run(["plan", &edu]);
    assert!(
        nowhere.code == Some(2) && nowhere.err.contains("qemu:edu"),
        "{nowhere:?}"
    );
    let recording = root().join("sample-traces/vecadd.kine").display().to_string();
    run(["plan", &recording, "--assemble", "--text"]).assert_refused("begins with `kinescope plan`");
    let text = std::fs::read_to_string(&edu).unwrap();
    for (from, to, why) in [
        (
            "2 write 0",
            "2 wirte 0",
            "line 87, column 3 of the plan: `wirte` is not an operation",
        ),
        (
            "content \"nothing\" 0x000 00",
            "content \"nothing\" file \"../x\"",
            "only files in the folder",
        ),
        (
            "content \"nothing\" 0x000 00",
            "content \"nothing\" file \"/etc/passwd\"",
            "only files in the folder",
        ),
    ] {
        assert!(text.contains(from));
        std::fs::write(path("bad.txt"), text.replacen(from, to, 1)).unwrap();
        run(["plan", &path("bad.txt"), "--assemble", "--text"]).assert_refused(why);
    }
    std::fs::write(path("cut.plan"), &std::fs::read(&file).unwrap()[..500]).unwrap();
    run(["plan", &path("cut.plan"), "--assemble", "--text"]).assert_refused("is cut off");
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn edu_replays_a_written_plan_and_its_outcome() {
    if !has_qemu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (edu, file, copy, outcome) = (edu(), path("edu.plan"), path("copy.bin"), path("outcome.kine"));
    assert_eq!(run(["plan", &edu, "--assemble", "-o", &file]).code, Some(0));
    let output = format!("copy={copy}");
    let parsed_json = json(
        &["replay", &file, "--on", "qemu:edu", "--output", &output, "-o", &outcome],
        0,
    );
    assert_eq!(
        (&parsed_json["outcome"], &parsed_json["mastered_bus"]),
        (&"match".into(), &true.into())
    );
    assert_eq!(
        (&parsed_json["interrupts"], &parsed_json["reads_compared"]),
        (&5.into(), &parsed_json["reads_matched"])
    );
    let kinds: Vec<&str> = parsed_json["effects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["memory", "memory", "output", "interrupts"]);
    assert_eq!(std::fs::read(&copy).unwrap().len(), 2048);
    // The outcome is a recording with memory.
    let again = json(&["replay", &outcome, "--on", "qemu:edu"], 0);
    assert_eq!(
        (&again["outcome"], &again["mastered_bus"]),
        (&"match".into(), &true.into())
    );
    // The expected content of an output can also come from a file.
    let expect = format!("copy={copy}");
    let parsed_json = json(&["replay", &edu, "--on", "qemu:edu", "--expect", &expect], 0);
    assert_eq!(parsed_json["effects"][4]["matched"], true);
    std::fs::write(&copy, [0; 2048]).unwrap();
    let parsed_json = json(&["replay", &edu, "--on", "qemu:edu", "--expect", &expect], 1);
    assert_eq!(
        (&parsed_json["outcome"], &parsed_json["effects"][4]["matched"]),
        (&"diverged".into(), &false.into())
    );
    assert_eq!(parsed_json["effects"][4]["source"], copy.as_str());
    // The plan does not fit another device.
    run(["replay", &edu, "--on", "qemu:bochs-display"]).assert_refused("the plan is for the register map `edu`");
    run(["replay", &edu, "--on", "qemu:edu", "--output", "other=x.bin"]).assert_refused("no output 'other'");
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn recorded_picture_is_reproduced_by_replay_and_plan_text() {
    if !has_qemu() {
        return;
    }
    let sample = root().join("sample-traces/qemu/virtio-gpu.kine").display().to_string();
    let parsed_json = json(&["replay", &sample, "--on", GRAPHICS], 0);
    assert_eq!(
        (&parsed_json["outcome"], &parsed_json["mastered_bus"]),
        (&"match".into(), &true.into())
    );
    assert_eq!(parsed_json["screen"]["differing_pixels"], 0);
    let planned = json(&["plan", &sample, "--on", GRAPHICS], 0);
    assert_eq!(planned["masters_bus"], true);
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("plan.txt").display().to_string();
    let printed = run(["plan", &sample, "--on", GRAPHICS, "--text"]);
    std::fs::write(&text, &printed.out).unwrap();
    let parsed_json = json(&["replay", &text, "--on", GRAPHICS], 0);
    assert_eq!(
        (&parsed_json["outcome"], &parsed_json["effects"][0]["kind"]),
        (&"match".into(), &"screen".into())
    );
    // Another expected picture diverges, whatever the device does.
    let line = printed.out.lines().find(|l| l.starts_with("expect screen")).unwrap();
    let other = line.replacen(line.split(' ').nth(4).unwrap(), &"0".repeat(64), 1);
    std::fs::write(&text, printed.out.replacen(line, &other, 1)).unwrap();
    let parsed_json = json(&["replay", &text, "--on", GRAPHICS], 1);
    assert_eq!(parsed_json["outcome"], "diverged");
}

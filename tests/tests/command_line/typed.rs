//! Common first attempts: other option names, buffer names instead of addresses, and targets without their prefix.
//! Messages about foreign and truncated files are tested here too.

use serde_json::json;
use std::path::Path;
use trace_core::RegOffset;
use whole_program_tests::{root, run};

fn sample(name: &str) -> String {
    root().join("sample-traces").join(name).display().to_string()
}

#[test]
fn a_job_is_chosen_by_its_number() {
    let file = sample("digits.kine");
    let events = |arguments: &[&str]| {
        let all = [&["events", &file][..], arguments, &["--json"]].concat();
        let ended = run(all);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.json()
    };
    assert_eq!(events(&["--job", "1"]), events(&["--where", "job = 1"]));
    assert_eq!(events(&["--job", "1..3"]), events(&["--where", "job in 1..=2"]));
    assert_eq!(
        events(&["--job", "1", "--where", "write or read"]),
        events(&["--where", "job = 1 and access"])
    );
    let one = run(["jobs", &file, "--job", "2", "--json"]).json();
    assert_eq!((one.as_array().unwrap().len(), &one[0]["index"]), (1, &json!(2)));
    run(["jobs", &file, "--job", "9"]).assert_refused("job 9 does not exist (the recording has 4 jobs");
    let wrong = run(["events", &file, "--job", "x"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("FIRST..=LAST"), "{wrong:?}");
}

#[test]
fn misplaced_filter_gets_a_suggestion() {
    let file = sample("vecadd.kine");
    for line in [&["events", &file, "write"][..], &["stats", &file, "write"]] {
        run(line).assert_refused("did you mean `--where 'write'`?");
    }
    run(["events", &file, "--filter", "write"]).assert_refused("did you mean `--where EXPR`?");
}

#[test]
fn buffer_name_is_accepted_as_an_address() {
    let file = sample("vecadd.kine");
    let info = run(["info", &file, "--json"]).json();
    let buffers = info["buffers"].as_array().unwrap();
    let c = buffers.iter().find(|b| b["name"] == "c").unwrap();
    let va = c["va"].as_str().unwrap();
    let by_name = run(["memory", &file, "c"]);
    assert_eq!(by_name.code, Some(0), "{by_name:?}");
    assert_eq!(by_name.out, run(["memory", &file, "--buffer", "c"]).out);
    let plain = va.strip_prefix("0x").unwrap();
    let letters = plain.bytes().any(|b| b.is_ascii_alphabetic());
    let forms = [va.to_owned(), plain.to_uppercase()];
    for form in forms.iter().take(if letters { 2 } else { 1 }) {
        let ended = run(["memory", &file, form, "--bytes", "16"]);
        assert_eq!(
            ended.out,
            run(["memory", &file, "c", "--bytes", "16"]).out,
            "{form}: {ended:?}"
        );
    }
    let within = run(["memory", &file, "c+0x10", "--bytes", "16", "--json"]).json();
    let start = u64::from_str_radix(plain, 16).unwrap();
    assert_eq!(within["va"], json!(format!("{:#x}", start + 0x10)));
    let walked = run(["map", &file, "--walk", "c", "--json"]);
    assert_eq!(
        (walked.code, &walked.json()[0]["va"]),
        (Some(0), &json!(va)),
        "{walked:?}"
    );
    let who = run(["who", &file, "c", "--json"]);
    assert_eq!((who.code, &who.json()["va"]), (Some(0), &json!(va)), "{who:?}");
    for line in [
        &["memory", &file, "d"][..],
        &["who", &file, "d"],
        &["map", &file, "--walk", "d"],
    ] {
        run(line).assert_refused("'d' is neither an address (0x…) nor a buffer (the recording has a, b, c");
    }
    run(["memory", &file, "c+0x100000"]).assert_refused("is beyond the end of 'c'");
}

#[test]
fn errors_suggest_fit_and_similar_targets() {
    let file = sample("vecadd.kine");
    for verb in ["replay", "plan"] {
        run([verb, &file]).assert_refused("`--on software:mali-g71` fits this recording");
        let net = sample("cuda/net.kine");
        run([verb, &net]).assert_refused("cuda:0");
        run([verb, &sample("vecadd-g52.kine")]).assert_refused("`--on software:mali-g52` fits this recording");
        let similar = run([verb, &file, "--on", "mali-g71"]);
        similar.assert_refused("did you mean `software:mali-g71`?");
        assert!(similar.err.contains("cuda:N"), "{similar:?}");
        run([verb, &file, "--on", "software:mali-g17"]).assert_refused("did you mean `software:mali-g71`?");
        run([verb, &file, "--on", "board"]).assert_refused("the forms are software:MODEL");
    }
}

#[test]
fn verbs_describe_unknown_files_and_name_import_help() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("letter.txt");
    std::fs::write(&file, "This is a letter, not a one.").unwrap();
    let file = file.to_str().unwrap();
    for verb in ["info", "events", "jobs", "check", "stats"] {
        let ended = run([verb, file]);
        ended.assert_refused("not a recording: 28 bytes of text");
        assert!(
            ended.err.contains("`kinescope import --help`") && ended.err.len() < 300,
            "{ended:?}"
        );
    }
    let help = run(["import", "--help"]).out;
    for format in ["a .kine recording", "mmiotrace", "panfrost", "RecordReplay"] {
        assert!(help.contains(format), "{format}: {help}");
    }
    let samples = root().join("sample-traces");
    run(["info", samples.to_str().unwrap()]).assert_refused("recordings: open one of them (");
    run(["info", folder.path().to_str().unwrap()]).assert_refused("a folder without a recording");
}

/// Every verb reports that a gzip log without its second half is truncated.
#[test]
fn truncated_gzip_log_is_never_treated_as_complete() {
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("log.txt.gz");
    let text: String = (0..4000)
        .map(|n| format!("W 4 3.{n:06} 1 0xd0000010 {:#x} 0x0 0\n", n * 0x9e37u64 % 65_521))
        .collect();
    let head = std::fs::read_to_string(root().join("tests/excerpts/several-spaces.txt")).unwrap();
    let log = folder.path().join("log.txt");
    std::fs::write(&log, head + &text).unwrap();
    let zipped = std::process::Command::new("gzip").arg("-c").arg(&log).output().unwrap();
    assert!(zipped.status.success(), "{zipped:?}");
    std::fs::write(&packed, &zipped.stdout).unwrap();
    let complete = run(["info", packed.to_str().unwrap()]);
    assert!(
        complete.err.is_empty() && complete.out.contains("Lost events  0"),
        "{complete:?}"
    );
    std::fs::write(&packed, &zipped.stdout[..zipped.stdout.len() / 2]).unwrap();
    let cut = packed.to_str().unwrap();
    for line in [
        &["info", cut][..],
        &["events", cut],
        &["events", cut, "--json"],
        &["stats", cut],
        &["jobs", cut],
        &["map", cut],
    ] {
        let ended = run(line);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let reported = ended
            .err
            .lines()
            .filter(|l| l.contains("cannot be decompressed further"))
            .count();
        assert_eq!(reported, 1, "{line:?}: {}", ended.err);
    }
    let info = run(["info", cut]).out;
    assert!(info.contains("Lost events  unknown: the file is truncated"), "{info}");
    // A recording that was imported from the log reports the same.
    let kine = folder.path().join("cut.kine");
    run(["import", cut, "-o", kine.to_str().unwrap()]);
    let again = run(["info", kine.to_str().unwrap()]);
    assert!(again.err.contains("cannot be decompressed further"), "{again:?}");
}

#[test]
fn events_table_has_headings_and_readable_times() {
    let out = run(["events", &sample("vecadd.kine")]).out;
    let head = out.lines().next().unwrap();
    for name in ["Event", "Time, ", "Thread", "Kind", "Register", "Value", "Means"] {
        assert!(head.contains(name), "{head}");
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("late.txt");
    let late = "VERSION 20070824\nPCIDEV 0200 1e0f0001 10 d0000000 0 0 0 0 0 0 1000 0 0 0 0 0 0 x\n\
                MAP 317493.000000 1 0xd0000000 0xffffc90000100000 0x1000 0x0 0\n\
                W 4 317493.000180 1 0xd0000010 0x7 0x0 0\nR 4 317493.000200 1 0xd0000010 0x7 0x0 0\n";
    std::fs::write(&log, late).unwrap();
    let out = run(["events", log.to_str().unwrap()]).out;
    assert!(
        out.contains("Time, us") && out.contains(" 180.000 ") && !out.contains("317493"),
        "{out}"
    );
}

#[test]
fn unnamed_device_has_a_description_without_blanks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nameless.kine");
    let mut events = trace_core::recording::EventsBuilder::new();
    let access = trace_core::recording::Access {
        space: 0,
        write: true,
        offset: RegOffset::new(0x10),
        width: 4,
        value: 1,
    };
    events.access(1, 0, access);
    let mut r = trace_core::Recording {
        events: events.finish(),
        ..trace_core::Recording::default()
    };
    r.metadata.spaces.push(trace_core::recording::Space {
        name: "bar0".into(),
        kind: trace_core::recording::SpaceKind::Registers,
        bytes: 0x1000,
    });
    r.set_hardware(&trace_core::recording::Hardware::Pci(Default::default()));
    trace_core::container::write(&r, &path, &trace_core::progress::Progress::new()).unwrap();
    let file = path.to_str().unwrap();
    let info = run(["info", file]).out;
    assert!(
        info.contains("unknown: the log does not name it; import it with `--device"),
        "{info}"
    );
    for hole in ["0000:0000", "(0x0)", "()"] {
        assert!(!info.contains(hole), "{hole}: {info}");
    }
    let check = run(["check", file]).out;
    assert!(check.contains("does not name its device"), "{check}");
    let replay = run(["replay", file, "--on", "software:mali-g71"]);
    replay.assert_refused("an unknown device");
    assert!(Path::new(file).exists());
}

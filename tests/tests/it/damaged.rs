//! Damaged and empty files on the command line: reports of damage, and refusals.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

use std::path::{Path, PathBuf};
use trace_core::container;
use whole_program_tests::{root, run};

#[test]
fn empty_source_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (dump, kine) = (dir.path().join("dump.bin"), dir.path().join("dump.kine"));
    std::fs::write(&dump, "").unwrap();
    let arguments = "--raw --base 0x80000000 --root 0x80000000 --format aarch64-4k";
    let paths = ["import", dump.to_str().unwrap(), "-o", kine.to_str().unwrap()];
    run(paths.into_iter().chain(arguments.split(' '))).assert_refused("dump.bin: the dump has 0 bytes");
    assert!(!kine.exists());
    // An empty history opens, so that the rest can be inspected. It is an error among the findings.
    std::fs::write(dir.path().join("gr_io_history"), "").unwrap();
    let check = run(["check".as_ref(), dir.path().as_os_str()]);
    assert_eq!(check.code, Some(1), "{check:?}");
    assert!(
        check.out.contains("error: gr_io_history: the file is empty"),
        "{check:?}"
    );
}

/// `verify` reports damage anywhere in a file with exit code 1. Exit code 2 is for files that it cannot check.
#[test]
fn verify_distinguishes_damaged_from_unreadable_files() {
    let dir = tempfile::tempdir().unwrap();
    let sample = std::fs::read(root().join("sample-traces/write-value.kine")).unwrap();
    let mut header = sample.clone();
    header[3] ^= 0x40;
    let half = sample[..sample.len() / 2].to_vec();
    for (name, bytes) in [("header", header), ("cut", half), ("empty", Vec::new())] {
        let path = dir.path().join(format!("{name}.kine"));
        std::fs::write(&path, bytes).unwrap();
        let text = run(["verify".as_ref(), path.as_os_str()]);
        assert_eq!((text.code, text.err.as_str()), (Some(1), ""), "{name}: {text:?}");
        assert!(
            text.out.contains("damaged: ") && text.out.starts_with("byte 0x"),
            "{name}: {text:?}"
        );
        let json = run(["verify".as_ref(), path.as_os_str(), "--json".as_ref()]);
        assert_eq!(json.code, Some(1), "{name}: {json:?}");
        let json = json.json();
        assert_eq!(
            (&json["sound"], &json["problem_count"]),
            (&false.into(), &1.into()),
            "{name}: {json}"
        );
        assert!(
            !json["problems"][0]["message"].as_str().unwrap().contains(".kine:"),
            "{name}: {json}"
        );
    }
    // A file of another format is not damaged.
    for (name, bytes) in [
        ("text.kine", b"Dear all, this is no recording.".to_vec()),
        ("trace.txt", b"MAP 1.000000 1 0xfe000000".to_vec()),
        ("picture.png", b"\x89PNG\r\n\x1a\n and so on".to_vec()),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        run(["verify".as_ref(), path.as_os_str()]).assert_refused("not a .kine file");
    }
    run(["verify".as_ref(), dir.path().as_os_str()]).assert_refused(dir.path().to_str().unwrap());
    run(["verify", "/nowhere/x.kine"]).assert_refused("/nowhere/x.kine");
    let help = run(["verify", "--help"]).out;
    // Help is wrapped at the width of the terminal.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("exit 1 if damaged"), "{help}");
}

/// A file that is cut anywhere has a commit or is damaged. `verify` checks both.
#[test]
fn verify_handles_files_truncated_anywhere() {
    let bytes = std::fs::read(root().join("sample-traces/write-value.kine")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let cut = dir.path().join("cut.kine");
    for length in [
        0,
        1,
        7,
        8,
        63,
        64,
        65,
        4095,
        4096,
        4097,
        bytes.len() / 2,
        bytes.len() - 1,
    ] {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        let verified = run(["verify".as_ref(), cut.as_os_str()]);
        assert_eq!(
            (verified.code, verified.err.as_str()),
            (Some(1), ""),
            "{length}: {verified:?}"
        );
    }
}

/// Writes the digits sample with three changed bytes of a page image. Returns its path.
fn damaged_digits(dir: &Path) -> PathBuf {
    let path = dir.join("hurt.kine");
    let mut bytes = std::fs::read(root().join("sample-traces/digits.kine")).unwrap();
    for b in &mut bytes[90_000..90_003] {
        *b ^= 0xff;
    }
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Verbs do not show damaged content, and report it on standard error. A verb that does not use it reports nothing, and
/// prints the same as for the undamaged recording.
#[test]
fn damaged_pages_are_always_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = damaged_digits(dir.path());
    let file = path.to_str().unwrap();
    let sound = root().join("sample-traces/digits.kine");
    let mut used = 0;
    for arguments in [
        &["memory", file, "0xa013000"][..],
        &["memory", file, "--search", "00112233"],
        &["map", file],
        &["info", file, "--json"],
        &["events", file],
        &["stats", file],
        &["jobs", file],
        &["shader", file, "--job", "0"],
    ] {
        let ended = run(arguments);
        let expected: Vec<&str> = arguments
            .iter()
            .map(|a| if *a == file { sound.to_str().unwrap() } else { a })
            .collect();
        let expected = run(expected);
        assert_eq!(expected.err, "", "{arguments:?}");
        if ended.code == Some(0) {
            assert_eq!(
                (ended.err.as_str(), ended.out.len()),
                ("", expected.out.len()),
                "{arguments:?}"
            );
            continue;
        }
        used += 1;
        assert_eq!(ended.code, Some(1), "{arguments:?}: {ended:?}");
        let prefix = format!("kinescope: {file}: section page-images (bytes 0x");
        assert!(ended.err.starts_with(&prefix), "{arguments:?}: {ended:?}");
        assert!(
            ended.err.contains("page ") && ended.err.lines().count() == 1,
            "{ended:?}"
        );
        assert!(ended.err.contains(&format!("`kinescope verify {file}`")), "{ended:?}");
    }
    assert!(used > 0, "no verb used the page");
    // Pages are compared by their digests. Damaged pages do not match theirs.
    let sound = sound.to_str().unwrap();
    for sides in [[file, sound], [sound, file]] {
        let ended = run(["diff", sides[0], sides[1]]);
        ended.assert_refused("the recording is damaged: section page-images");
        assert!(ended.err.starts_with(&format!("kinescope: {file}: ")), "{ended:?}");
    }
}

/// A replay on a damaged page would compute wrong results, and a wrong last writer.
#[test]
fn replay_refuses_a_damaged_page_and_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = damaged_digits(dir.path());
    let file = path.to_str().unwrap();
    let input = format!("image={}", root().join("sample-traces/digits/digit.npy").display());
    let to = dir.path().join("to.kine");
    for arguments in [
        &["replay", file, "--on", "software:mali-g71"][..],
        &["replay", file, "--on", "software:mali-g71", "--input", &input],
        &["plan", file, "--on", "software:mali-g71"],
        &["shader", file, "--job", "0", "--thread", "0,0,0"],
        &["who", file, "--va", "0xa013000"],
        &["trim", file, "--jobs", "0..=0", "-o", to.to_str().unwrap()],
    ] {
        let ended = run(arguments);
        ended.assert_refused("the recording is damaged: section page-images");
        assert!(ended.err.starts_with(&format!("kinescope: {file}: ")), "{ended:?}");
        assert!(ended.err.contains(&format!("`kinescope verify {file}`")), "{ended:?}");
    }
    assert!(!to.exists());
}

/// Returns a sample in both versions of the format, with the version.
fn both_versions(dir: &Path) -> Vec<(u32, PathBuf)> {
    let old = root().join("sample-traces/digits.kine");
    let new = dir.join("new.kine");
    let done = run(["import".as_ref(), old.as_os_str(), "-o".as_ref(), new.as_os_str()]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let version = |path: &Path| container::KineFile::open(path).unwrap().version();
    assert_eq!(version(&new), 2);
    vec![(version(&old), old), (2, new)]
}

/// Any section of events is damaged, in both versions of the format. Verbs that read print the undamaged part and
/// report the damage. Verbs that write a file refuse and leave no file.
#[test]
fn damaged_events_are_reported_and_never_exported() {
    let dir = tempfile::tempdir().unwrap();
    let mut versions = Vec::new();
    for (version, sample) in both_versions(dir.path()) {
        versions.push(version);
        let sound = run(["events".as_ref(), sample.as_os_str()]).out;
        let bytes = std::fs::read(&sample).unwrap();
        let sections = container::sections(&sample).unwrap();
        for section in sections.iter().filter(|s| s.bytes > 0) {
            let name = section.kind.unwrap().name();
            if !(name.starts_with("event-") || name.starts_with("access-")) {
                continue;
            }
            let path = dir.path().join(format!("{version}-{name}.kine"));
            let mut damaged = bytes.clone();
            damaged[(section.offset + section.bytes / 3) as usize] ^= 4;
            std::fs::write(&path, damaged).unwrap();
            let file = path.to_str().unwrap();
            let message = format!("section {name}");
            let block = if version == 1 { "" } else { ", block 0" };

            let events = run(["events", file]);
            assert_eq!(events.code, Some(1), "{name}: {events:?}");
            assert!(
                events
                    .err
                    .starts_with(&format!("kinescope: {file}: {message}{block} (bytes 0x"))
                    && events.err.contains("events ")
                    && events.err.lines().count() == 1,
                "{name}: {events:?}"
            );
            // Without their section there are no times, and the heading says so.
            for line in events.out.lines().skip(1) {
                assert!(sound.lines().any(|l| l == line), "{name}: {line}");
            }
            assert!(events.out.len() < sound.len(), "{name}: no event is omitted");

            let to = dir.path().join("to");
            let (kine, csv, vcd) = (
                to.with_extension("kine"),
                to.with_extension("csv"),
                to.with_extension("vcd"),
            );
            let out = |path: &Path| path.to_str().unwrap().to_owned();
            let sample = sample.to_str().unwrap();
            for arguments in [
                vec!["import", file, "-o", &out(&kine)],
                vec!["trim", file, "--jobs", "0..=0", "-o", &out(&kine)],
                vec!["export", file, "--table", "events", "-o", &out(&csv)],
                vec!["export", file, "--to", "vcd", "-o", &out(&vcd)],
                vec!["diff", file, sample],
                vec!["diff", sample, file],
                vec!["plan", file, "--on", "software:mali-g71"],
                vec!["replay", file, "--on", "software:mali-g71"],
            ] {
                let ended = run(&arguments);
                ended.assert_refused(&message);
                assert!(ended.err.contains(file), "{arguments:?}: {ended:?}");
                assert!(!kine.exists() && !csv.exists() && !vcd.exists(), "{arguments:?}");
            }
            let verified = run(["verify", file]);
            assert_eq!(verified.code, Some(1));
            assert!(verified.out.contains(&format!("{message}{block}")), "{verified:?}");
        }
    }
    assert_eq!(versions, [1, 2]);
}

/// Damaged derived data is computed again.
#[test]
fn verbs_ignore_damage_that_they_do_not_use() {
    let dir = tempfile::tempdir().unwrap();
    let (_, sample) = both_versions(dir.path()).pop().unwrap();
    let sections = container::sections(&sample).unwrap();
    let derived = sections.iter().find(|s| s.name.as_deref() == Some("timeline")).unwrap();
    let mut damaged = std::fs::read(&sample).unwrap();
    damaged[(derived.offset + derived.bytes - 1) as usize] ^= 1;
    let path = dir.path().join("derived.kine");
    std::fs::write(&path, damaged).unwrap();
    let file = path.to_str().unwrap();
    // Jobs are computed again, and the recording itself is undamaged, so that it can be written again.
    let jobs = run(["jobs", file]);
    assert_eq!(jobs.code, Some(0), "{jobs:?}");
    assert_eq!(jobs.out, run(["jobs".as_ref(), sample.as_os_str()]).out);
    let to = dir.path().join("anew.kine");
    let done = run(["import", file, "-o", to.to_str().unwrap()]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(run(["verify".as_ref(), to.as_os_str()]).code, Some(0));
    assert_eq!(run(["verify", file]).code, Some(1));
}

/// A compressed file is read up to a limit that the user sets. No unfinished file remains.
#[test]
fn a_packed_file_is_unpacked_up_to_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to.kine");
    let packed = root().join("sample-traces/freedreno/es2gears-a320.rd.gz");
    let file = packed.to_str().unwrap();
    for arguments in [
        &["info", file, "--limit", "4KiB"][..],
        &["import", file, "-o", to.to_str().unwrap(), "--limit", "4KiB"],
        &["diff", file, file, "--limit", "4096"],
    ] {
        let ended = run(arguments);
        ended.assert_refused("decompresses to more than 4 KiB");
        assert!(ended.err.contains("`--limit 8KiB`"), "{ended:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let complete = run(["info", file, "--limit", "1GiB"]);
    assert_eq!((complete.code, complete.err.as_str()), (Some(0), ""), "{complete:?}");
    let wrong = run(["info", file, "--limit", "much"]);
    assert!(
        wrong.code == Some(2) && wrong.err.contains("'much' is not a number of bytes"),
        "{wrong:?}"
    );
    assert!(run(["import", "--help"]).out.contains("--limit"));
}

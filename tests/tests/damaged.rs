//! Damaged and empty files through the command line: what is told as damage, and what is refused.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail and tell in these ways"
)]

use std::path::{Path, PathBuf};
use whole_program_tests::{root, run};

#[test]
fn a_source_without_contents_is_no_recording() {
    let dir = tempfile::tempdir().unwrap();
    let (dump, kine) = (dir.path().join("dump.bin"), dir.path().join("dump.kine"));
    std::fs::write(&dump, "").unwrap();
    let arguments = "--raw --base 0x80000000 --root 0x80000000 --format aarch64-4k";
    let paths = ["import", dump.to_str().unwrap(), "-o", kine.to_str().unwrap()];
    run(paths.into_iter().chain(arguments.split(' '))).assert_refused("dump.bin: the dump has 0 bytes");
    assert!(!kine.exists());
    // An empty history is opened, so that the rest can be looked at, and is an error among the findings.
    std::fs::write(dir.path().join("gr_io_history"), "").unwrap();
    let check = run(["check".as_ref(), dir.path().as_os_str()]);
    assert_eq!(check.code, Some(1), "{check:?}");
    assert!(
        check.out.contains("error: gr_io_history: the file is empty"),
        "{check:?}"
    );
}

/// Damage is what `verify` looks for, wherever it is: exit code 2 is left for what could not be looked at.
#[test]
fn verify_tells_a_damaged_file_from_one_that_it_cannot_look_at() {
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
    // What never was such a file is not damaged.
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
    // Help is broken into lines where the terminal ends.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        help.contains("exit 1 when it is damaged, 2 when it cannot be looked at"),
        "{help}"
    );
}

/// Wherever a file is cut, what is left has a commit or is damaged; either was looked at.
#[test]
fn verify_looks_at_a_file_that_is_cut_anywhere() {
    let bytes = std::fs::read(root().join("sample-traces/write-value.kine")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let cut = dir.path().join("cut.kine");
    for place in [
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
        std::fs::write(&cut, &bytes[..place]).unwrap();
        let verified = run(["verify".as_ref(), cut.as_os_str()]);
        assert_eq!(
            (verified.code, verified.err.as_str()),
            (Some(1), ""),
            "{place}: {verified:?}"
        );
    }
}

/// The sample of digits with three bytes of a page image changed.
fn hurt(dir: &Path) -> PathBuf {
    let path = dir.join("hurt.kine");
    let mut bytes = std::fs::read(root().join("sample-traces/digits.kine")).unwrap();
    for b in &mut bytes[90_000..90_003] {
        *b ^= 0xff;
    }
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Looking at damaged memory may be the point: it is shown, and standard error says what it is.
#[test]
fn a_damaged_page_is_never_shown_without_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let path = hurt(dir.path());
    let file = path.to_str().unwrap();
    let sound = root().join("sample-traces/digits.kine");
    let csv = dir.path().join("events.csv");
    for arguments in [
        &["memory", file, "0xa013000"][..],
        &["map", file],
        &["info", file, "--json"],
        &["jobs", file],
        &["shader", file, "--job", "0"],
        &["export", file, "--table", "jobs", "-o", csv.to_str().unwrap()],
    ] {
        let ended = run(arguments);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let said = format!("kinescope: {file}: the page image at byte 0x");
        assert!(ended.err.starts_with(&said), "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(&format!("`kinescope verify {file}`")), "{ended:?}");
        let whole: Vec<&str> = arguments
            .iter()
            .map(|a| if *a == file { sound.to_str().unwrap() } else { a })
            .collect();
        assert_eq!(run(whole).err, "", "{arguments:?}");
    }
    // Pages are compared by digests that these are not the pages of.
    let sound = sound.to_str().unwrap();
    for sides in [[file, sound], [sound, file]] {
        let ended = run(["diff", sides[0], sides[1]]);
        ended.assert_refused("the page image at byte 0x");
        assert!(ended.err.starts_with(&format!("kinescope: {file}: ")), "{ended:?}");
    }
}

/// What a replay would compute on a damaged page is nobody's work, and neither is what wrote it.
#[test]
fn a_damaged_page_is_never_run_on_and_the_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = hurt(dir.path());
    let file = path.to_str().unwrap();
    let input = format!("image={}", root().join("sample-traces/digits/digit.npy").display());
    for arguments in [
        &["replay", file, "--on", "software:mali-g71"][..],
        &["replay", file, "--on", "software:mali-g71", "--input", &input],
        &["plan", file, "--on", "software:mali-g71"],
        &["shader", file, "--job", "0", "--thread", "0,0,0"],
        &["who", file, "--va", "0xa013000"],
    ] {
        let ended = run(arguments);
        ended.assert_refused("the recording is damaged: the page image at byte 0x");
        assert!(ended.err.starts_with(&format!("kinescope: {file}: ")), "{ended:?}");
        assert!(ended.err.contains(&format!("`kinescope verify {file}`")), "{ended:?}");
    }
}

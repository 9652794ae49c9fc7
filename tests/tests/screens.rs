//! `screen`: pictures from the stores of stock drivers, as files, compared with what QEMU showed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "tests fail and tell in these ways"
)]

use std::path::PathBuf;
use trace_core::screen::Picture;
use whole_program_tests::{root, run};

fn log(name: &str) -> Option<String> {
    let folder =
        std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(|| root().join("../shared/recordings"), PathBuf::from);
    let path = folder.join("mmiotrace").join(format!("{name}.txt.gz"));
    if path.is_file() {
        return Some(path.to_str().unwrap().to_owned());
    }
    println!("skipped: {} is not there", path.display());
    None
}

#[test]
fn a_screen_of_plain_stores_is_the_one_that_was_shown_and_comes_out_as_files() {
    let Some(log) = log("rage128p-aty128fb") else { return };
    let folder = tempfile::tempdir().unwrap();
    let to = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let ppm = to("end.ppm");
    let all = run(["screen", &log, "-o", &ppm, "--compare"]);
    assert_eq!(all.code, Some(0), "{}", all.err);
    assert!(all.out.contains("compared 307200 pixels, all the same"), "{}", all.out);
    let picture = Picture::from_ppm(&std::fs::read(&ppm).unwrap()).unwrap();
    assert_eq!((picture.width(), picture.height()), (640, 480));
    // Halfway it is another one; the difference is a picture too.
    let (png, heat) = (to("half.png"), to("heat.png"));
    let half = run([
        "screen",
        &log,
        "--event",
        "280000",
        "-o",
        &png,
        "--compare",
        &ppm,
        "--heat",
        &heat,
    ]);
    assert_eq!(half.code, Some(1), "{}", half.err);
    assert!(half.out.contains(" differ by 170 at most"), "{}", half.out);
    for file in [&png, &heat] {
        assert!(std::fs::read(file).unwrap().starts_with(b"\x89PNG"));
    }
    let film = to("film.png");
    let made = run(["screen", &log, "-o", &film, "--frames", "5"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let film = std::fs::read(&film).unwrap();
    let control = film.windows(4).position(|c| c == b"acTL").expect("a moving PNG");
    assert_eq!(film[control + 4..control + 8], 5u32.to_be_bytes());
    // Without registers the form is said; the first bytes are the same pixels.
    let hand = to("hand.ppm");
    let by_hand = run(["screen", &log, "--format", "640x10,indexed8", "-o", &hand]);
    assert_eq!(by_hand.code, Some(0), "{}", by_hand.err);
    let hand = Picture::from_ppm(&std::fs::read(&hand).unwrap()).unwrap();
    assert_eq!(hand.rgb(), &picture.rgb()[..640 * 10 * 3]);
}

#[test]
fn what_the_drawing_engine_drew_is_said_to_be_missing() {
    let Some(log) = log("rv100-radeonfb") else { return };
    let all = run(["screen", &log, "--compare", "--pixel", "1,786"]);
    assert_eq!(all.code, Some(1), "{}", all.err);
    assert!(
        all.out.contains("compared 1024000 pixels, 922 differ by 170 at most"),
        "{}",
        all.out
    );
    assert!(
        all.out.contains("missing  what 2 commands to the drawing engine drew"),
        "{}",
        all.out
    );
    assert!(all.out.contains("pixel    1,786 at 0xf5a01"), "{}", all.out);
}

#[test]
fn what_cannot_be_shown_is_told_with_what_would_help() {
    let sample = root().join("sample-traces/vecadd.kine");
    let sample = sample.to_str().unwrap();
    for (arguments, told) in [
        (vec!["screen", sample], "the recording has no framebuffer"),
        (vec!["screen", sample, "--format", "640"], "'640' is no size"),
        (vec!["screen", sample, "--pixel", "7"], "'7' is no pixel"),
        (vec!["screen", sample, "-o", "/tmp/a.jpg"], "expected .png or .ppm"),
        (vec!["screen", sample, "--event", "99999999"], "does not exist"),
    ] {
        let ended = run(arguments.iter().copied());
        assert_eq!(ended.code, Some(2), "{arguments:?}");
        assert!(ended.err.contains(told), "{arguments:?}: {}", ended.err);
    }
    let Some(log) = log("rage128p-aty128fb") else { return };
    let early = run(["screen", &log, "--event", "3"]);
    assert_eq!(early.code, Some(2));
    assert!(
        early.err.contains("event 174 is the first with a screen"),
        "{}",
        early.err
    );
    assert!(early.err.contains("--format gives the form by hand"), "{}", early.err);
}

//! `screen`: pictures from the stores of stock drivers, exported and compared with QEMU's screen.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test panics when it fails, and prints a line when it is skipped"
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
    println!("skipped: {} is missing", path.display());
    None
}

#[test]
fn screen_from_plain_stores_matches_and_exports() {
    let Some(log) = log("rage128p-aty128fb") else { return };
    let folder = tempfile::tempdir().unwrap();
    let to = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let ppm = to("end.ppm");
    let all = run(["screen", &log, "-o", &ppm, "--compare"]);
    assert_eq!(all.code, Some(0), "{}", all.err);
    assert!(all.out.contains("compared 307200 pixels, all the same"), "{}", all.out);
    let picture = Picture::from_ppm(&std::fs::read(&ppm).unwrap()).unwrap();
    assert_eq!((picture.width(), picture.height()), (640, 480));
    // The picture halfway differs. The difference is a picture too.
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
    let film_result = run(["screen", &log, "-o", &film, "--frames", "5"]);
    assert_eq!(film_result.code, Some(0), "{}", film_result.err);
    let film = std::fs::read(&film).unwrap();
    let control = film.windows(4).position(|c| c == b"acTL").expect("an animated PNG");
    assert_eq!(film[control + 4..control + 8], 5u32.to_be_bytes());
    // Without registers, the user gives the format. The first bytes are the same pixels.
    let first_rows = to("hand.ppm");
    let with_format = run(["screen", &log, "--format", "640x10,indexed8", "-o", &first_rows]);
    assert_eq!(with_format.code, Some(0), "{}", with_format.err);
    let first_rows = Picture::from_ppm(&std::fs::read(&first_rows).unwrap()).unwrap();
    assert_eq!(first_rows.rgb(), &picture.rgb()[..640 * 10 * 3]);
}

#[test]
fn missing_drawing_engine_output_is_reported() {
    let Some(log) = log("rv100-radeonfb") else { return };
    let all = run(["screen", &log, "--compare", "--pixel", "1,786"]);
    assert_eq!(all.code, Some(1), "{}", all.err);
    assert!(
        all.out.contains("compared 1024000 pixels, 922 differ by 170 at most"),
        "{}",
        all.out
    );
    assert!(
        all.out
            .contains("missing  the drawing of 2 commands to the drawing engine"),
        "{}",
        all.out
    );
    assert!(all.out.contains("pixel    1,786 at 0xf5a01"), "{}", all.out);
}

#[test]
fn screen_comparison_names_the_stores_of_the_first_difference() {
    let Some(plain) = log("rage128p-aty128fb") else { return };
    let Some(copied) = log("rage128p-aty128fb-memcpy") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let to = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let same = run(["screen", &plain, "--compare", &plain]);
    assert_eq!(same.code, Some(0), "{}", same.err);
    assert!(same.out.contains("after event 561841, all the same"), "{}", same.out);
    // The same recording is compared at two events. The stores between them make the difference.
    let heat = to("heat.png");
    let earlier = [
        "screen",
        &plain,
        "--compare",
        &plain,
        "--other-event",
        "280000",
        "--heat",
        &heat,
    ];
    let differing = run(earlier);
    assert_eq!(differing.code, Some(1), "{}", differing.err);
    assert!(differing.out.contains("stored as 0x"), "{}", differing.out);
    assert!(std::fs::read(&heat).unwrap().starts_with(b"\x89PNG"));
    let json = run(earlier.into_iter().chain(["--json"]));
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let c = &json["comparison"];
    assert_eq!(c["other_event"], 280_000);
    let (first, bounds) = (&c["first"], &c["bounds"]);
    assert_eq!(first["y"], bounds["top"], "{c}");
    assert_ne!(first["own"]["color"], first["other"]["color"], "{c}");
    assert!(first["own"]["event"].as_u64() > Some(280_000), "a later store: {c}");
    assert!(first["other"]["event"].as_u64() <= Some(280_000), "{c}");
    // The named store is the last one that `--pixel` lists.
    let at = format!("{},{}", first["x"], first["y"]);
    let pixel = run(["screen", &plain, "--pixel", &at, "--json"]);
    let pixel: serde_json::Value = serde_json::from_str(&pixel.out).unwrap();
    let stores = pixel["pixel"]["stores"].as_array().unwrap();
    assert_eq!(stores.last().unwrap()["event"], first["own"]["event"]);
    assert_eq!(pixel["pixel"]["color"], first["own"]["color"]);
    // Rows with unknown content in the other recording are not compared. A PNG of it gives the same result as the
    // recording.
    let by_recording = run(["screen", &plain, "--compare", &copied, "--json"]);
    let by_recording: serde_json::Value = serde_json::from_str(&by_recording.out).unwrap();
    let compared = by_recording["comparison"]["compared"].as_u64().unwrap();
    assert_eq!(compared, 640 * (480 - 64), "{by_recording}");
    let png = to("copied.png");
    assert_eq!(run(["screen", &copied, "-o", &png]).code, Some(0));
    let by_png = run(["screen", &plain, "--compare", &png, "--json"]);
    let by_png: serde_json::Value = serde_json::from_str(&by_png.out).unwrap();
    for key in ["compared", "differing", "bounds", "worst"] {
        assert_eq!(by_png["comparison"][key], by_recording["comparison"][key], "{key}");
    }
    assert_eq!(by_png["comparison"]["first"]["other"]["event"], serde_json::Value::Null);
}

#[test]
fn screen_comparison_errors_name_the_file() {
    let Some(plain) = log("rage128p-aty128fb") else { return };
    let Some(other) = log("rv100-radeonfb") else { return };
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.png");
    std::fs::write(&broken, b"\x89PNG\r\n\x1a\nno more").unwrap();
    let broken = broken.to_str().unwrap();
    let ppm = folder.path().join("a.ppm");
    std::fs::write(&ppm, b"P6 1 1 255 abc").unwrap();
    let ppm = ppm.to_str().unwrap();
    for (arguments, message) in [
        (vec!["--compare", &other], "640 by 480 pixels, the other 1280 by 800"),
        (vec!["--compare", broken], "broken.png"),
        (vec!["--compare", ppm, "--other-event", "1"], "has no events"),
        (
            vec!["--compare", "--other-event", "1"],
            "name the recording with --compare",
        ),
        (
            vec!["--compare", &plain, "--other-event", "3"],
            "event 174 is the first",
        ),
    ] {
        let ended = run(["screen", plain.as_str()].into_iter().chain(arguments.iter().copied()));
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.out);
        assert!(ended.err.contains(message), "{arguments:?}: {}", ended.err);
    }
}

#[test]
fn screen_errors_name_the_remedy() {
    let sample = root().join("sample-traces/vecadd.kine");
    let sample = sample.to_str().unwrap();
    for (arguments, message) in [
        (vec!["screen", sample], "the recording has no framebuffer"),
        (vec!["screen", sample, "--format", "640"], "'640' is not a size"),
        (vec!["screen", sample, "--pixel", "7"], "'7' is not a pixel"),
        (vec!["screen", sample, "-o", "/tmp/a.jpg"], "expected .png or .ppm"),
        (vec!["screen", sample, "--event", "99999999"], "does not exist"),
    ] {
        let ended = run(arguments.iter().copied());
        assert_eq!(ended.code, Some(2), "{arguments:?}");
        assert!(ended.err.contains(message), "{arguments:?}: {}", ended.err);
    }
    let Some(log) = log("rage128p-aty128fb") else { return };
    let early = run(["screen", &log, "--event", "3"]);
    assert_eq!(early.code, Some(2));
    assert!(
        early.err.contains("event 174 is the first with a screen"),
        "{}",
        early.err
    );
    assert!(early.err.contains("--format sets the format by hand"), "{}", early.err);
}

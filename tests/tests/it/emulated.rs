//! QEMU targets on the command line: their listing, and the errors if they are missing. Logs of stock Linux drivers
//! replay on the same device in QEMU, with the same read values and screen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use whole_program_tests::emulated::log;
use whole_program_tests::{ProgramOutput, program, root, run};

/// Runs `kinescope` with one folder as `PATH`.
fn with_path(path: &Path, arguments: &[&str]) -> ProgramOutput {
    let keys = tempfile::tempdir().unwrap();
    let mut command = Command::new(program("kinescope"));
    command.args(arguments).env("PATH", path);
    command.env("KINESCOPE_KEYS", keys.path()).env("RUST_BACKTRACE", "0");
    command.output().unwrap().into()
}

/// Returns arguments that request a plan on a target.
fn plan(target: &str) -> [String; 4] {
    let sample = root().join("sample-traces/vecadd.kine");
    ["plan", sample.to_str().unwrap(), "--on", target].map(str::to_owned)
}

#[test]
fn missing_qemu_is_not_listed_and_the_error_names_the_package() {
    let empty = tempfile::tempdir().unwrap();
    let arguments = plan("qemu:edu");
    let ended = with_path(empty.path(), &arguments.each_ref().map(String::as_str));
    ended.assert_refused("package qemu-system-x86");
    let targets = with_path(empty.path(), &["boards"]);
    assert_eq!(targets.code, Some(0), "{targets:?}");
    assert!(!targets.out.contains("qemu:"), "{targets:?}");
}

#[test]
fn qemu_target_names_with_extra_options_are_refused() {
    for (target, why) in [
        ("qemu:", "begin with a device name"),
        ("qemu:edu,addr=4", "`addr` cannot be set"),
        ("qemu:edu,x=$(id)", "contains the character '$'"),
        ("qemu:vfio-pci,host=01:00.0", "passes through"),
    ] {
        run(plan(target)).assert_refused(why);
    }
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn qemu_targets_are_listed_and_unknown_models_reported() {
    if !["/usr/bin", "/usr/local/bin"]
        .iter()
        .any(|f| Path::new(f).join("qemu-system-x86_64").exists())
    {
        println!("skipped: no QEMU (qemu-system-x86)");
        return;
    }
    let targets = run(["boards"]);
    assert!(targets.out.contains("qemu:DEVICE[,PROPERTY=VALUE…]"), "{targets:?}");
    run(plan("qemu:edu")).assert_refused("qemu:edu is the device 1234:11e8 (edu): software:mali-g71 would fit");
    run(plan("qemu:toaster")).assert_refused("'toaster' is not a valid device model name");
}

fn replay(file: &Path, device: &str, code: i32) -> Value {
    let ended = run([
        "replay".as_ref(),
        file.as_os_str(),
        "--on".as_ref(),
        device.as_ref(),
        "--json".as_ref(),
    ]);
    assert_eq!(ended.code, Some(code), "{ended:?}");
    ended.json()
}

const RV100: &str = "qemu:ati-vga,model=rv100";
const RAGE128: &str = "qemu:ati-vga,model=rage128p";

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn rage_128_driver_replay_draws_the_same_picture() {
    let Some(file) = log("rage128p-aty128fb") else { return };
    let json = replay(&file, RAGE128, 0);
    assert_eq!(json["outcome"], "match");
    assert_eq!(
        (&json["reads_compared"], &json["reads_matched"]),
        (&42.into(), &42.into())
    );
    assert_eq!(json["screen"]["differing_pixels"], 0);
    assert_eq!(json["effects"][0]["matched"], true);
    // `--screen` writes the picture to a file.
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("shown.ppm");
    let arguments = [
        "replay",
        file.to_str().unwrap(),
        "--on",
        RAGE128,
        "--screen",
        picture.to_str().unwrap(),
    ];
    assert_eq!(run(arguments).code, Some(0));
    let shown = trace_core::screen::Picture::from_ppm(&std::fs::read(&picture).unwrap()).unwrap();
    assert_eq!((shown.width(), shown.height()), (640, 480));
    // With another expected picture the outcome diverges, although all reads match.
    let black = folder.path().join("black.ppm");
    let rgb = vec![0; shown.rgb().len()];
    std::fs::write(
        &black,
        trace_core::screen::Picture::new(640, 480, rgb).unwrap().to_ppm(),
    )
    .unwrap();
    let arguments = [
        "replay",
        file.to_str().unwrap(),
        "--on",
        RAGE128,
        "--expect-screen",
        black.to_str().unwrap(),
    ];
    let ended = run(arguments);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.starts_with("diverged: 42 of 42 compared reads"), "{ended:?}");
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn rv100_driver_replay_draws_the_same_picture_without_bios() {
    let Some(file) = log("rv100-radeonfb") else { return };
    let json = replay(&file, RV100, 0);
    assert_eq!(json["outcome"], "match");
    assert_eq!(json["reads_compared"], json["reads_matched"]);
    assert_eq!(json["reads_compared"], 10_895);
    assert_eq!(json["screen"]["differing_pixels"], 0);
    let findings = json["findings"].as_array().unwrap();
    let before: Vec<&Value> = findings
        .iter()
        .filter(|f| f["kind"] == "state-before-recording")
        .collect();
    assert_eq!(before.len(), 1, "{findings:?}");
    assert!(
        before[0]["message"]
            .as_str()
            .unwrap()
            .contains("GPIO_DVI_DDC reads 0x0 here and 0x300")
    );
}

/// Without the drawing of the 2D engine, the picture does not match, although every read does.
#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn reads_match_but_the_screen_differs_without_the_2d_engine() {
    let Some(file) = log("rv100-radeonfb") else { return };
    let folder = tempfile::tempdir().unwrap();
    let text = Command::new("gzip").args(["-dc"]).arg(&file).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    // The engine's registers are at 0x1400 to 0x14ff of the register BAR at 0xfebf0000.
    let engine = |l: &&str| l.starts_with("W ") && l.contains(" 0xfebf14");
    assert_eq!(text.lines().filter(engine).count(), 8);
    let without_engine: String = text.lines().filter(|l| !engine(l)).flat_map(|l| [l, "\n"]).collect();
    let control = folder.path().join("control.txt");
    std::fs::write(&control, without_engine).unwrap();
    let picture = file.with_file_name("rv100-radeonfb.ppm.gz");
    std::fs::copy(picture, folder.path().join("control.ppm.gz")).unwrap();
    let json = replay(&control, RV100, 1);
    assert_eq!(json["outcome"], "diverged");
    assert_eq!(json["reads_compared"], json["reads_matched"]);
    assert_eq!(json["divergence_count"], 0);
    assert_eq!(json["screen"]["differing_pixels"], 922);
    assert_eq!(json["effects"][0]["matched"], false);
    // Without the picture next to the log the result is unknown. The report says so.
    std::fs::remove_file(folder.path().join("control.ppm.gz")).unwrap();
    let json = replay(&control, RV100, 0);
    assert_eq!(json["screen"]["checked"], false);
    assert!(json["unchecked"][0].as_str().unwrap().contains("was not checked"));
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn undecoded_accesses_are_reported_with_their_location() {
    let Some(file) = log("rage128p-aty128fb-memcpy") else {
        return;
    };
    let report = replay(&file, RAGE128, 1);
    assert_eq!(report["outcome"], "diverged");
    assert_eq!(report["reads_compared"], report["reads_matched"]);
    let findings = report["findings"].as_array().unwrap();
    let reports_lost_values = |f: &&Value| {
        f["message"]
            .as_str()
            .unwrap()
            .contains("10240 accesses were recorded without the value")
    };
    let left_out = findings.iter().find(reports_lost_values).unwrap();
    assert!(left_out["message"].as_str().unwrap().contains("bar0"), "{left_out}");
    // Only the rows of the copy and the cursor are wrong: 64 of 640 pixels, and 16 pixels.
    let differ = report["screen"]["differing_pixels"].as_u64().unwrap();
    assert!((1..=64 * 640 + 16).contains(&differ), "{differ}");
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn replay_on_another_device_is_refused() {
    let Some(file) = log("rage128p-aty128fb") else { return };
    let file = file.to_str().unwrap();
    run(["replay", file, "--on", RV100])
        .assert_refused("the target is qemu:ati-vga,model=rv100, 1002:5159: qemu:ati-vga,model=rage128p would fit");
    run(["replay", file, "--on", "software:mali-g71"]).assert_refused(
        "the recording is of 1002:5046, ATI Rage 128 Pro (PF); the target is software:mali-g71, Mali-G71",
    );
}

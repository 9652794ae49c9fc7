//! The project's own sample traces, through the command line.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail and tell in these ways"
)]

use serde_json::json;
use whole_program_tests::{root, run, samples};

#[test]
fn every_sample_is_sound_and_replays() {
    let samples = samples();
    assert!(samples.len() >= 10, "{samples:?}");
    for sample in samples {
        let of = |verb: &str| run([verb.as_ref(), sample.as_os_str(), "--json".as_ref()]);
        assert_eq!(of("check").code, Some(0), "{}", sample.display());
        assert_eq!(of("verify").code, Some(0), "{}", sample.display());
        let info = of("info").json();
        assert!(
            info["jobs"].as_u64().unwrap() > 0 && info["events"].as_u64().unwrap() > 50,
            "{info}"
        );
        if info["gpu"]["name"] != "Mali-G71" {
            continue;
        }
        let replay = run([
            "replay".as_ref(),
            sample.as_os_str(),
            "--on".as_ref(),
            "software:mali-g71".as_ref(),
            "--json".as_ref(),
        ]);
        assert_eq!(replay.code, Some(0), "{}: {replay:?}", sample.display());
        let outcome = replay.json();
        assert_eq!(
            (&outcome["outcome"], &outcome["reads_compared"]),
            (&json!("match"), &outcome["reads_matched"])
        );
        assert_eq!(outcome["jobs"], info["jobs"]);
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
        // Whatever was there before, the jobs write the known values over it.
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
            assert_eq!(ended.json()["computed"], true, "nothing in it needs a shader");
            std::fs::read(&result).unwrap()
        };
        let plain = replay(&[]);
        let edited = replay(&["--input", &format!("results={}", edit.display())]);
        assert!(plain.iter().any(|b| *b != 0));
        let kept = edited.iter().filter(|b| **b == 0x5a).count();
        assert!(kept < edited.len(), "nothing was written");
        for (i, (a, b)) in plain.iter().zip(&edited).enumerate() {
            assert!(a == b || *b == 0x5a, "{name}: byte {i} is {a:#x} or {b:#x}");
        }
    }
}

#[test]
fn another_gpus_recording_diverges_with_exit_code_one() {
    let sample = root().join("sample-traces/vecadd-g52.kine");
    let ended = run([
        "replay".as_ref(),
        sample.as_os_str(),
        "--on".as_ref(),
        "software:mali-g71".as_ref(),
        "--json".as_ref(),
    ]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let outcome = ended.json();
    assert_eq!(outcome["outcome"], "diverged");
    let first = &outcome["divergences"][0];
    assert_eq!(
        (&first["event"], &first["register"], &first["class"]),
        (&json!(0), &json!("GPU_ID"), &json!("equal"))
    );
    assert_eq!(
        (&first["expected"], &first["got"]),
        (&json!("0x72120000"), &json!("0x60a00002"))
    );
}

#[test]
fn a_plan_is_shown_without_being_run() {
    let sample = root().join("sample-traces/write-value.kine");
    let of = |form: &str| run(["plan", sample.to_str().unwrap(), "--on", "software:mali-g71", form]);
    let plan = of("--json").json();
    assert_eq!(plan["jobs"], 3);
    assert!(plan["verified"]["leaves"].as_u64().unwrap() > 0);
    let rewrites: u64 = plan["rewrites"]
        .as_object()
        .unwrap()
        .values()
        .map(|v| v.as_u64().unwrap())
        .sum();
    assert_eq!(rewrites, plan["rewrite_list"].as_array().unwrap().len() as u64);
    let text = of("--text");
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(
        text.out.lines().count() as u64 > plan["actions"].as_u64().unwrap(),
        "an action a line"
    );
}

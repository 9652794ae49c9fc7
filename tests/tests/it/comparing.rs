//! Comparisons on the command line: two runs of one recording with different inputs, and two images.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics when it fails"
)]

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use whole_program_tests::{ProgramOutput, root, run};

/// Outcomes of the digits network: with the recorded picture, and with another picture.
struct Runs {
    dir: TempDir,
}

impl Runs {
    fn new() -> Self {
        let runs = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let image: Vec<u8> = (0..64u32).flat_map(|n| (n as f32 / 64.0).to_le_bytes()).collect();
        fs::write(runs.path("image.bin"), image).unwrap();
        let sample = root().join("sample-traces/digits.kine");
        let input = format!("image={}", runs.path("image.bin").display());
        for (to, more) in [("a.kine", vec![]), ("b.kine", vec!["--input", &input])] {
            let to = runs.path(to);
            let fixed = [
                "replay",
                sample.to_str().unwrap(),
                "--on",
                "software:mali-g71",
                "-o",
                to.to_str().unwrap(),
            ];
            assert_eq!(run(fixed.into_iter().chain(more)).code, Some(0));
        }
        runs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn diff(&self, more: &[&str]) -> ProgramOutput {
        let (a, b) = (self.path("a.kine"), self.path("b.kine"));
        let fixed = ["diff", a.to_str().unwrap(), b.to_str().unwrap()];
        run(fixed.into_iter().chain(more.iter().copied()))
    }
}

/// Asserts that a command line is refused with a message that contains `needle`.
fn assert_refused_with(ended: &ProgramOutput, needle: &str) {
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains(needle), "{}", ended.err);
}

fn buffer<'a>(diff: &'a Value, name: &str) -> &'a Value {
    let buffers = diff["memory"]["buffers"].as_array().unwrap();
    buffers.iter().find(|b| b["name"] == name).unwrap()
}

#[test]
fn diff_compares_elements_and_names_the_differing_input() {
    let runs = Runs::new();
    let ended = runs.diff(&["--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let diff = ended.json();
    let (image, logits) = (buffer(&diff, "image"), buffer(&diff, "logits"));
    assert_eq!(
        (
            &image["element"],
            &image["compared"],
            &image["differ"],
            &image["first"]["b"]
        ),
        (&json!("f32"), &json!(64), &json!(63), &json!("0.015625"))
    );
    assert_eq!(
        (&logits["differ"], &logits["errors"]["pairs"]),
        (&json!(10), &json!(10))
    );
    assert!(logits["errors"]["max_absolute"].as_f64().unwrap() > 1.0);
    let histogram = logits["errors"]["histogram"].as_array().unwrap();
    let pairs: u64 = histogram.iter().map(|d| d["pairs"].as_u64().unwrap()).sum();
    assert_eq!(pairs, 10);
    assert_eq!(buffer(&diff, "dense.weight")["differs"], json!(false));
    let causes = diff["causes"].as_array().unwrap();
    let cause_of = |name: &str| causes.iter().find(|c| c["buffer"] == name).unwrap();
    assert_eq!(
        cause_of("image")["steps"],
        json!([]),
        "an edited input has no earlier steps"
    );
    let steps: Vec<_> = cause_of("logits")["steps"].as_array().unwrap().iter().collect();
    let entries: Vec<_> = steps
        .iter()
        .map(|s| (s["link"].as_str().unwrap(), s["buffer"].as_str()))
        .collect();
    assert_eq!(entries, [("ran", None), ("held", Some("image"))], "{steps:?}");
    let text = runs.diff(&[]).out;
    assert!(
        text.contains("may have read bytes that differ from the start:"),
        "{text}"
    );
    assert!(
        text.contains("logits: 10 of 10 f32 differ; first [0]: -2.8638382 becomes 0.6179719"),
        "{text}"
    );
}

#[test]
fn rules_are_options_and_a_file_that_can_be_shared() {
    let runs = Runs::new();
    let rules = runs.path("rules.txt");
    let rules = rules.to_str().unwrap();
    // Intermediate buffers differ too. They have no names in this recording.
    let some = ["--ignore", "buffer image", "--tolerance", "buffer logits absolute 100"];
    let all = [
        "--ignore",
        "memory 0xa010000..0xa013000",
        "--ignore",
        "memory 0xa014000..0xa025000",
    ];
    let ended = runs.diff(&[&some[..], &all[..], &["--save-rules", rules, "--json"]].concat());
    let diff = ended.json();
    assert_eq!((ended.code, &diff["same"]), (Some(0), &json!(true)), "{diff}");
    assert_eq!(buffer(&diff, "logits")["within"], json!(10));
    assert_eq!(
        fs::read_to_string(rules).unwrap(),
        "ignore buffer image\nignore memory 0xa010000..0xa013000\nignore memory 0xa014000..0xa025000\n\
         tolerance buffer logits absolute 1e2\n"
    );
    assert_eq!(runs.diff(&["--rules", rules]).code, Some(0));
    // An option on the command line overrides the file.
    let ended = runs.diff(&["--rules", rules, "--tolerance", "buffer logits ulp 1"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.out.contains("By rule: tolerance buffer logits ulp 1"),
        "{}",
        ended.out
    );
    assert_refused_with(
        &runs.diff(&["--ignore", "buffers image"]),
        "character 1: 'buffers' cannot be ignored",
    );
    assert_refused_with(
        &runs.diff(&["--tolerance", "buffer x relative"]),
        "character 18: expected a number",
    );
    fs::write(rules, "ignore mappings\nignore evnts read\n").unwrap();
    runs.diff(&["--rules", rules])
        .assert_refused("line 2, column 8: 'evnts' cannot be ignored");
    runs.diff(&["--rules", rules, "--save-rules", rules])
        .assert_refused("rules.txt");
    runs.diff(&["--rules", "/nowhere"]).assert_refused("/nowhere");
}

#[test]
fn comparison_html_is_self_contained_and_escaped() {
    let runs = Runs::new();
    let odd = runs.path("<b>&.kine");
    fs::copy(runs.path("b.kine"), &odd).unwrap();
    let page = runs.path("page.html");
    let (a, page) = (runs.path("a.kine"), page.to_str().unwrap());
    let ended = run(["diff", a.to_str().unwrap(), odd.to_str().unwrap(), "--html", page]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let text = fs::read_to_string(page).unwrap();
    assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>"));
    assert!(text.contains("&lt;b&gt;&amp;.kine") && !text.contains("<b>&"));
    assert!(text.contains("logits: 10 of 10 f32 differ"));
    for other in ["<script", "src=", "href=", "url(", "http:", "https:", "@import"] {
        assert!(!text.contains(other), "{other} refers to another file");
    }
    runs.diff(&["--html", runs.path("b.kine").to_str().unwrap()])
        .assert_refused("b.kine");
}

fn images(dir: &Path, change: impl Fn(&mut Vec<u8>)) -> (String, String) {
    let floats: Vec<u8> = (0..10_000u32).flat_map(|n| (n as f32).to_le_bytes()).collect();
    let mut other = floats.clone();
    change(&mut other);
    let paths = (dir.join("a.bin"), dir.join("b.bin"));
    fs::write(&paths.0, floats).unwrap();
    fs::write(&paths.1, other).unwrap();
    (paths.0.display().to_string(), paths.1.display().to_string())
}

#[test]
fn raw_images_are_compared_by_byte_and_by_element() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = images(dir.path(), |bytes| {
        bytes[40_000 - 4..].copy_from_slice(&10_000.5f32.to_le_bytes())
    });
    let fixed = ["diff", "--raw", &a, &b, "--element", "f32", "--base", "0x8000_0000"];
    let with = |more: &[&str]| run(fixed.iter().copied().chain(more.iter().copied()));
    let diff = with(&["--json"]).json();
    assert_eq!(
        (&diff["differ"], &diff["first"]["index"], &diff["ranges"][0]["address"]),
        (&json!(1), &json!(9999), &json!("0x80009c3d"))
    );
    assert_eq!(with(&["--tolerance", "buffer image relative 1e-3"]).code, Some(0));
    assert!(
        with(&[])
            .out
            .starts_with("First difference at f32 [9999]: 9999 becomes 10000.5")
    );
    with(&["--ignore", "events read"]).assert_refused("has no meaning for raw images");
    assert_refused_with(
        &run(["diff", "--raw", &a, &b, "--element", "f8"]),
        "'f8' is not an element type",
    );
    run(["diff", "--raw", &a, "/nowhere"]).assert_refused("/nowhere: ");
    assert_refused_with(&run(["diff", &a, &b, "--element", "f32"]), "--raw");
    let (a, b) = images(dir.path(), |bytes| bytes.truncate(39_999));
    let shorter = run(["diff", "--raw", &a, &b]);
    assert_eq!(shorter.code, Some(1));
    assert!(
        shorter.out.starts_with("They differ in size: 40000 and 39999 bytes"),
        "{}",
        shorter.out
    );
}

#[test]
fn a_picture_of_two_recordings_shows_their_comparison() {
    let dir = tempfile::tempdir().unwrap();
    let samples = root().join("sample-traces");
    let (a, b) = (samples.join("saxpy.kine"), samples.join("vecadd.kine"));
    let shot = |name: &str, other: Option<&Path>| {
        let out = dir.path().join(name);
        let mut arguments = vec!["--screenshot", out.to_str().unwrap(), a.to_str().unwrap()];
        arguments.extend(["--panel", "compare", "--size", "900x600"]);
        if let Some(other) = other {
            arguments.extend(["--compare", other.to_str().unwrap()]);
        }
        let ended = run(arguments);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        fs::read(out).unwrap()
    };
    let (alone, same, other) = (shot("a.svg", None), shot("b.svg", Some(&a)), shot("c.svg", Some(&b)));
    assert!(alone != same && same != other && alone != other);
    // The panel draws the differences: more than a hint, and more than a message that nothing differs.
    assert!(other.len() > same.len() && other.len() > alone.len());
    let out = dir.path().join("d.svg");
    let nowhere = ["--compare", "/nowhere/b.kine", "--screenshot", out.to_str().unwrap()];
    run(std::iter::once(a.to_str().unwrap()).chain(nowhere)).assert_refused("expected a recording to compare with");
    assert!(!out.exists());
}

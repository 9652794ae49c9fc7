//! Recordings saved with edits. A replay without further edits gives the edited result, and the recording lists its
//! edits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use whole_program_tests::{root, run};

fn sample(name: &str) -> String {
    root().join("sample-traces").join(name).to_str().unwrap().to_owned()
}

/// Writes an input of the recorded size in which every byte differs. Returns its path.
fn write_changed_input(folder: &Path, recording: &str, buffer: &str) -> PathBuf {
    let file = folder.join(format!("{buffer}.bin"));
    let recorded = folder.join(format!("{buffer}.recorded"));
    let ended = run([
        "memory",
        recording,
        "--buffer",
        buffer,
        "-o",
        recorded.to_str().unwrap(),
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut bytes = std::fs::read(&recorded).unwrap();
    // The changes are small, so that floats stay numbers.
    bytes.iter_mut().for_each(|b| *b ^= 1);
    std::fs::write(&file, bytes).unwrap();
    file
}

/// Returns the content of an output after a replay.
fn replay_output(folder: &Path, recording: &str, output: &str, more: &[&str]) -> Vec<u8> {
    let to = folder.join("output.bin");
    let option = format!("{output}={}", to.display());
    let mut arguments = vec!["replay", recording, "--on", "software:mali-g71", "--output", &option];
    arguments.extend(more);
    let ended = run(arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    std::fs::read(&to).unwrap()
}

#[test]
fn edited_copy_replays_edited_results_and_diff_names_the_input() {
    let folder = tempfile::tempdir().unwrap();
    for (name, input, output) in [
        ("digits.kine", "image", "logits"),
        ("vecadd.kine", "a", "c"),
        ("chain2.kine", "a", "c"),
        ("twopass.kine", "", ""),
        ("conv3x3.kine", "", ""),
    ] {
        let recording = sample(name);
        let opened = trace_core::container::open(Path::new(&recording)).unwrap();
        let role = |role| {
            let buffer = opened.metadata.buffers.iter().find(|b| b.role == role);
            buffer.unwrap_or_else(|| panic!("{name}")).name.clone()
        };
        let named = |name: &str| opened.buffer(name).map(|b| b.name.clone());
        let input = named(input).unwrap_or_else(|| role(trace_core::recording::BufferRole::Input));
        let output = named(output).unwrap_or_else(|| role(trace_core::recording::BufferRole::Output));
        let changed = write_changed_input(folder.path(), &recording, &input);
        let option = format!("{input}={}", changed.display());
        let copy = folder.path().join(format!("copy-{name}"));
        let copy = copy.to_str().unwrap();
        let ended = run(["apply", &recording, "--input", &option, "-o", copy]);
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
        assert!(ended.out.contains(&format!("edited   {input}, ")), "{ended:?}");

        let edited = replay_output(folder.path(), &recording, &output, &["--input", &option]);
        let recorded = replay_output(folder.path(), &recording, &output, &[]);
        assert_ne!(edited, recorded, "{name}: the edit changes the result");
        assert_eq!(replay_output(folder.path(), copy, &output, &[]), edited, "{name}");

        assert_eq!(run(["verify", copy]).code, Some(0), "{name}");
        let diff = run(["diff", &recording, copy]);
        assert_eq!(diff.code, Some(1), "{name}: {diff:?}");
        assert!(diff.out.contains(&input), "{name}: {diff:?}");
        // The copy has the same events, and lists the edit.
        let back = trace_core::container::open(Path::new(copy)).unwrap();
        assert_eq!(back.events.len(), opened.events.len());
        let edits = &back.metadata.applied_edits;
        assert_eq!((edits.len(), &*edits[0].buffer, &*edits[0].source), (1, &*input, name));
        let program_output = run(["info", copy]);
        assert!(
            program_output.out.contains("Edited") && program_output.out.contains(&input),
            "{program_output:?}"
        );
    }
}

#[test]
fn a_copy_of_an_api_trace_carries_the_edited_copies() {
    let folder = tempfile::tempdir().unwrap();
    let recording = sample("cuda/net.kine");
    let opened = trace_core::container::open(Path::new(&recording)).unwrap();
    let script = replay_cuda::Script::new(&opened).unwrap();
    let input = script.inputs.iter().find(|t| !t.snapshot).unwrap();
    let mut bytes = opened.copy_content(&input.row).unwrap();
    bytes.iter_mut().for_each(|b| *b ^= 1);
    let file = folder.path().join("in.bin");
    std::fs::write(&file, &bytes).unwrap();
    let copy = folder.path().join("copy.kine");
    let option = format!("{}={}", input.name, file.display());
    let ended = run(["apply", &recording, "--input", &option, "-o", copy.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let back = trace_core::container::open(&copy).unwrap();
    let again = replay_cuda::Script::new(&back).unwrap();
    for (before, after) in script.inputs.iter().zip(&again.inputs) {
        let (recorded, copied) = (opened.copy_content(&before.row), back.copy_content(&after.row));
        if before.name == input.name {
            assert_eq!(copied.as_deref(), Some(&*bytes), "event {}", before.event);
        } else {
            assert_eq!(copied, recorded, "event {}", before.event);
        }
    }
    for (before, after) in script.outputs.iter().zip(&again.outputs) {
        assert_eq!(back.copy_content(&after.row), opened.copy_content(&before.row));
    }
    assert_eq!(run(["verify", copy.to_str().unwrap()]).code, Some(0));
    let diff = run(["diff", &recording, copy.to_str().unwrap()]);
    assert_eq!(diff.code, Some(1), "{diff:?}");
    assert!(diff.out.contains(&input.name) || diff.out.contains("copy"), "{diff:?}");
}

#[test]
fn unfit_inputs_are_refused_before_writing() {
    let folder = tempfile::tempdir().unwrap();
    let recording = sample("digits.kine");
    let copy = folder.path().join("copy.kine");
    let to = copy.to_str().unwrap();
    run(["apply", &recording, "-o", to]).assert_refused("give --input NAME=FILE");
    let short = folder.path().join("short.bin");
    std::fs::write(&short, [1, 2, 3]).unwrap();
    let option = format!("image={}", short.display());
    run(["apply", &recording, "--input", &option, "-o", to]).assert_refused("image");
    run(["apply", &recording, "--input", &option, "-o", &recording]).assert_refused("the recording");
    assert!(!copy.exists());
}

//! Replay of the committed inputs of every fuzz target, with a check that targets, programs and corpora match.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail and report in these ways"
)]

use fuzz_targets::{TARGETS, parts, seeds};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use trace_core::container;

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(here(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
    entries
        .map(|e| e.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let table: BTreeSet<String> = TARGETS.iter().map(|t| t.0.to_owned()).collect();
    assert_eq!(table, names("fuzz_targets"));
    assert_eq!(table, names("corpus"));
}

#[test]
fn no_committed_input_makes_a_reader_panic() {
    for (name, target) in TARGETS {
        let mut files: Vec<PathBuf> = fs::read_dir(here("corpus").join(name))
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "corpus/{name} is empty");
        for file in files {
            let bytes = fs::read(&file).unwrap();
            // The panic message of a reader does not name the input.
            eprintln!("{}", file.display());
            target(&bytes);
        }
    }
}

#[test]
fn fuzz_seeds_are_committed_and_valid() {
    let mut refused = Vec::new();
    for seed in seeds::all() {
        let path = here("corpus").join(seed.target).join(seed.file);
        let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}; see examples/seeds.rs", path.display()));
        let target = TARGETS.iter().find(|t| t.0 == seed.target).unwrap().1;
        let accepted = target(&bytes);
        let may_be_refused = seed.target == "plan_verified" && !seed.file.ends_with("unchanged");
        if !accepted && !may_be_refused {
            refused.push(path);
        }
    }
    assert_eq!(refused, Vec::<PathBuf>::new(), "every seed is accepted");
}

#[test]
fn split_and_rebuilt_file_has_the_same_contents() {
    let samples = here("../sample-traces");
    let mut count = 0;
    for entry in fs::read_dir(samples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "kine") {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let rebuilt_bytes = parts::lay_out(&parts::split(&bytes));
        let sound = container::from_bytes(bytes).unwrap();
        let rebuilt =
            container::from_bytes(rebuilt_bytes.clone()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(rebuilt.metadata, sound.metadata);
        assert_eq!(
            container::to_bytes(&rebuilt).unwrap(),
            container::to_bytes(&sound).unwrap()
        );
        let report = container::verify_bytes(rebuilt_bytes).unwrap();
        assert!(report.is_sound(), "{}: {:?}", path.display(), report.findings);
        count += 1;
    }
    assert!(count > 10, "{count} samples");
}

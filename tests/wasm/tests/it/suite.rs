//! The official test-suite through translator and interpreter.

use crate::assembler;
use rayon::prelude::*;
use std::collections::BTreeMap;
use wasm_ptx::CellSize;
use wasm_tests::{Counts, EXCEPTIONS, FileReport, REFERENCES, SEGMENTS, SUITE_FILES, Settings, run_file};

/// Directives that pass, by kind.
const COUNTS: &[(&str, usize)] = &[
    ("assert_exhaustion", 20),
    ("assert_invalid", 1776),
    ("assert_malformed", 1229),
    ("assert_return", 22_756),
    ("assert_trap", 2456),
    ("assert_unlinkable", 75),
    ("invoke", 156),
    ("module", 1010),
    ("register", 18),
];
/// Directives that the exceptions leave out, by reason.
const LEFT_OUT: &[(&str, usize)] = &[(REFERENCES, 48), (SEGMENTS, 4)];

fn reports(cell: CellSize) -> Vec<FileReport> {
    let settings = Settings::default();
    SUITE_FILES
        .par_iter()
        .map(|file| run_file(file, &file.options(cell), settings, EXCEPTIONS))
        .collect()
}

fn check(cell: CellSize) {
    let mut counts = Counts::default();
    let mut left_out: BTreeMap<&str, usize> = BTreeMap::new();
    let mut failures = Vec::new();
    let reports = reports(cell);
    for report in &reports {
        failures.extend(&report.failures);
        counts.merge(&report.counts);
        for (reason, count) in &report.exceptions {
            *left_out.entry(reason).or_default() += count;
        }
    }
    println!(
        "cells of {} bytes: {} files, {} assertions pass: {:?}; left out: {left_out:?}",
        cell.bytes(),
        reports.len(),
        counts.assertions(),
        counts.0
    );
    let shown: Vec<_> = failures.iter().take(20).collect();
    assert!(failures.is_empty(), "{} directives fail: {shown:#?}", failures.len());
    assert_eq!(counts.0, COUNTS.iter().copied().collect());
    assert_eq!(left_out, LEFT_OUT.iter().copied().collect());
}

#[test]
fn the_official_test_suite_passes_in_cells_of_4_bytes() {
    check(CellSize::Four);
}

#[test]
fn the_official_test_suite_passes_in_cells_of_8_bytes() {
    check(CellSize::Eight);
}

#[test]
fn the_official_test_suite_passes_in_cells_of_16_bytes() {
    check(CellSize::Sixteen);
}

#[test]
#[ignore = "make test-full: assembles a thousand programs"]
fn the_assembler_accepts_the_programs_of_the_official_test_suite() {
    let Some(assembler) = assembler::find() else { return };
    let texts: Vec<String> = reports(CellSize::Four)
        .into_iter()
        .flat_map(|report| report.texts)
        .collect();
    let errors: Vec<String> = texts
        .par_iter()
        .flat_map_iter(|text| ["sm_80", "sm_90"].map(|arch| assembler.assemble(text, arch)))
        .filter_map(Result::err)
        .collect();
    println!("{} programs assembled, {} refused", texts.len(), errors.len());
    assert!(
        errors.is_empty(),
        "{} refused: {:#?}",
        errors.len(),
        errors.iter().take(5).collect::<Vec<_>>()
    );
}

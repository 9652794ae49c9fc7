//! The C programs of the tests, on the CPU and translated.

use super::{compare_with, inputs};
use crate::TranslationOptions;
use std::path::Path;
use wasm_run::{Program, RunEnd, RunOptions};

fn program(name: &str) -> Program {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/wasm/programs");
    Program::parse(std::fs::read(folder.join(format!("{name}.wasm"))).unwrap()).unwrap()
}

/// Returns a text of words that depends on `seed`.
fn text(seed: u32, words: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut text = String::new();
    for _ in 0..words {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let word = ["gpu", "warp", "lane", "#tag", "memory", "the", "copy"][(state as usize >> 8) % 7];
        text.push_str(word);
        text.push(if state >> 20 & 7 == 0 { '\n' } else { ' ' });
    }
    text.into_bytes()
}

fn check(name: &str, inputs: &[wasm_run::Input]) {
    let program = program(name);
    for strict in [false, true] {
        let translation = TranslationOptions {
            strict,
            ..TranslationOptions::default()
        };
        let runs = compare_with(&program, &RunOptions::default(), translation, inputs);
        // The filter exits with 1 if a line has no number.
        assert!(
            runs.iter().all(|r| matches!(r.end, RunEnd::Exit(0 | 1))),
            "{name}: {:?}",
            runs[0].end
        );
        assert!(runs.iter().all(|r| !r.standard_output.is_empty()), "{name}");
    }
}

#[test]
fn programs_on_text_have_equal_results() {
    for name in ["wordcount", "filter", "lz4"] {
        check(name, &inputs((0..5).map(|i| text(i, 40 + i * 30))));
    }
}

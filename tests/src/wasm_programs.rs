//! The test programs in `tests/wasm/programs/`: inputs from a seed, and independent checks of their outputs.

mod checks;
mod equality;
mod pictures;
mod random;
mod vectors;

use random::Random;
use std::path::PathBuf;

/// A test program.
#[derive(Debug)]
pub struct TestProgram {
    /// Name: `NAME.wasm` is the program, `NAME.c` or `NAME.rs` its source.
    pub name: &'static str,
    /// Arguments of the checks.
    pub arguments: &'static [&'static str],
    make: fn(&mut Random) -> Vec<u8>,
    check: fn(&[u8], &[u8]) -> Result<(), String>,
}

/// All test programs.
pub static TEST_PROGRAMS: [TestProgram; 9] = [
    TestProgram {
        name: "scrypt",
        arguments: &[],
        make: vectors::make_lines,
        check: vectors::check_scrypt,
    },
    TestProgram {
        name: "pbkdf2",
        arguments: &["1000"],
        make: vectors::make_lines,
        check: vectors::check_pbkdf2,
    },
    TestProgram {
        name: "blur",
        arguments: &[],
        make: pictures::make,
        check: pictures::check_blur,
    },
    TestProgram {
        name: "blockhash",
        arguments: &[],
        make: pictures::make,
        check: pictures::check_block_hash,
    },
    TestProgram {
        name: "lz4",
        arguments: &[],
        make: checks::make_text,
        check: checks::check_lz4,
    },
    TestProgram {
        name: "histogram",
        arguments: &[],
        make: checks::make_numbers,
        check: checks::check_histogram,
    },
    TestProgram {
        name: "wordcount",
        arguments: &[],
        make: checks::make_text,
        check: checks::check_word_count,
    },
    TestProgram {
        name: "filter",
        arguments: &[],
        make: checks::make_numbered_lines,
        check: checks::check_filter,
    },
    TestProgram {
        name: "groups",
        arguments: &[],
        make: checks::make_groups,
        check: checks::check_groups,
    },
];

impl TestProgram {
    /// Returns the path of the program.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        crate::root()
            .join("tests/wasm/programs")
            .join(format!("{}.wasm", self.name))
    }

    /// Returns the input of a seed. Equal seeds give equal inputs.
    #[must_use]
    pub fn make_input(&self, seed: u64) -> Vec<u8> {
        (self.make)(&mut Random::new(seed))
    }

    /// Compares the output of the program with one that is computed in another way.
    ///
    /// # Errors
    /// A message with the first difference.
    pub fn check_output(&self, input: &[u8], output: &[u8]) -> Result<(), String> {
        (self.check)(input, output).map_err(|e| format!("{}: {e}", self.name))
    }
}

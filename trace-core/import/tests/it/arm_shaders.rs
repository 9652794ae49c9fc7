//! Tests that every clause of shaders from Arm's compiler unpacks, and that operations that the table lacks are
//! reported as unknown. The shaders are in the published recordings; without these recordings the test is skipped.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use bifrost::{Clause, Unit, clause_text};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use trace_core::families;
use trace_core::families::{ShaderStage, mali_jm};
use trace_core::memory;
use trace_core::progress::Progress;
use trace_core::registers::RegisterMap;
use trace_core::shader_code::decode_code;
use trace_core::timeline;

/// Expected counts of the shaders of a recording.
struct ExpectedShaders {
    name: &'static str,
    /// Number of compute jobs that name a shader.
    jobs: usize,
    /// Number of shaders with different bytes.
    shaders: usize,
    operations: usize,
    unknown: usize,
    /// Number of different unknown bit patterns.
    patterns: usize,
}

const EXPECTED: [ExpectedShaders; 2] = [
    ExpectedShaders {
        name: "mnist",
        jobs: 23,
        shaders: 19,
        operations: 6422,
        unknown: 289,
        patterns: 97,
    },
    ExpectedShaders {
        name: "alexnet",
        jobs: 61,
        shaders: 32,
        operations: 7080,
        unknown: 413,
        patterns: 109,
    },
];

/// Returns the number of compute shaders in a recording, and the clauses of each different shader by its bytes.
fn shaders(folder: &Path) -> (usize, BTreeMap<Vec<u8>, Vec<Clause>>) {
    let recording = crate::open(folder);
    let map = RegisterMap::for_gpu(recording.metadata.identity.gpu_id).unwrap();
    let timeline = timeline::derive(&recording, map, &Progress::new()).unwrap();
    let events: Vec<u64> = timeline.jobs.iter().map(|j| j.submit_event).collect();
    let (mut count, mut all) = (0, BTreeMap::new());
    for (span, memory) in timeline
        .jobs
        .iter()
        .zip(families::memory_at_submits(&recording, map, &events))
    {
        let memory = memory.unwrap();
        for job in mali_jm::read_chain(&memory, span.head_va).jobs {
            for (stage, entry) in mali_jm::find_shaders(&job) {
                assert_eq!(stage, ShaderStage::Compute);
                let code = decode_code(&memory, entry);
                assert!(code.end.is_complete(), "{entry}: {}", code.end.describe());
                let mut bytes = vec![0; code.bytes() as usize];
                assert!(memory::GpuMemory::read(&memory, entry, &mut bytes));
                // The code must decode equally from memory and from its bytes.
                let shader = bifrost::disassemble(&bytes);
                assert_eq!(shader.stopped, None);
                assert_eq!(shader.clauses.len(), code.clauses.len());
                count += 1;
                all.insert(bytes, shader.clauses);
            }
        }
    }
    (count, all)
}

#[test]
fn published_shaders_decode_and_unknown_operations_are_counted() {
    let root = std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/recordings")),
        PathBuf::from,
    );
    for expected in &EXPECTED {
        let folder = root.join("gpureplay").join(expected.name);
        if !folder.is_dir() {
            println!("skipped: {} is missing", folder.display());
            continue;
        }
        let (count, all) = shaders(&folder);
        let (mut operations, mut unknown, mut reported) = (0, 0, 0);
        let mut patterns = BTreeSet::new();
        for clauses in all.values() {
            let before = unknown;
            for c in clauses {
                for t in &c.tuples {
                    assert!(t.registers.sound);
                    operations += 2;
                    for (unit, bits, operation) in [(Unit::Fma, t.fma_bits, t.fma), (Unit::Add, t.add_bits, t.add)] {
                        if operation.is_none() {
                            unknown += 1;
                            patterns.insert((unit.sign(), bits));
                        }
                    }
                }
                reported += clause_text(c, 0).matches("unknown 0x").count();
            }
            assert!(unknown > before, "a shader of Arm's compiler has no unknown operations");
        }
        let counts = (count, all.len(), operations, unknown, patterns.len());
        println!("{}: {counts:?}", expected.name);
        assert_eq!(reported, unknown);
        assert_eq!(
            counts,
            (
                expected.jobs,
                expected.shaders,
                expected.operations,
                expected.unknown,
                expected.patterns
            ),
            "{}",
            expected.name
        );
    }
}

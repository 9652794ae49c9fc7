//! Shaders that Arm's own compiler made, in the published recordings where they are present: every clause of them
//! unpacks, and what no operation of the table has is reported as unknown.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use bifrost::{Clause, Unit, clause_text};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use trace_core::import;
use trace_core::jobs::{self, Stage};
use trace_core::progress::Progress;
use trace_core::registers::RegisterMap;
use trace_core::timeline;

/// What is known about the shaders of a recording.
struct ExpectedShaders {
    name: &'static str,
    /// Compute jobs that name a shader.
    jobs: usize,
    /// Shaders that differ in their bytes.
    shaders: usize,
    operations: usize,
    unknown: usize,
    /// Bits that are unknown.
    patterns: usize,
}

const KNOWN: [ExpectedShaders; 2] = [
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

/// The code of the compute jobs of a recording: its bytes as they stand in memory, and its clauses.
fn shaders(folder: &Path) -> (usize, BTreeMap<Vec<u8>, Vec<Clause>>) {
    let recording = import::open(folder, &Progress::new()).unwrap();
    let map = RegisterMap::for_gpu(recording.metadata.identity.gpu_id).unwrap();
    let timeline = timeline::derive(&recording, map, &Progress::new()).unwrap();
    let events: Vec<u64> = timeline.jobs.iter().map(|j| j.submit_event).collect();
    let (mut count, mut all) = (0, BTreeMap::new());
    for (span, memory) in timeline
        .jobs
        .iter()
        .zip(jobs::memory_at_submits(&recording, map, &events))
    {
        let memory = memory.unwrap();
        for job in jobs::read_chain(&memory, span.head_va).jobs {
            for (stage, entry) in jobs::find_shaders(&job) {
                assert_eq!(stage, Stage::Compute);
                let code = jobs::decode_code(&memory, entry);
                assert!(code.end.is_complete(), "{entry}: {}", code.end.describe());
                let mut bytes = vec![0; code.bytes() as usize];
                assert!(jobs::GpuMemory::read(&memory, entry, &mut bytes));
                // The same code unpacked where it stands and from its bytes alone.
                let alone = bifrost::disassemble(&bytes);
                assert_eq!(alone.stopped, None);
                assert_eq!(alone.clauses.len(), code.clauses.len());
                count += 1;
                all.insert(bytes, alone.clauses);
            }
        }
    }
    (count, all)
}

#[test]
fn published_shaders_decode_and_unknown_operations_are_counted() {
    let root = std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/recordings")),
        PathBuf::from,
    );
    for known in &KNOWN {
        let folder = root.join("gpureplay").join(known.name);
        if !folder.is_dir() {
            println!("skipped: {} is not there", folder.display());
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
                    for (unit, bits, found) in [(Unit::Fma, t.fma_bits, t.fma), (Unit::Add, t.add_bits, t.add)] {
                        if found.is_none() {
                            unknown += 1;
                            patterns.insert((unit.sign(), bits));
                        }
                    }
                }
                reported += clause_text(c, 0).matches("unknown 0x").count();
            }
            assert!(unknown > before, "no shader of Arm's compiler is free of them");
        }
        let found = (count, all.len(), operations, unknown, patterns.len());
        println!("{}: {found:?}", known.name);
        assert_eq!(reported, unknown);
        assert_eq!(
            found,
            (
                known.jobs,
                known.shaders,
                known.operations,
                known.unknown,
                known.patterns
            ),
            "{}",
            known.name
        );
    }
}

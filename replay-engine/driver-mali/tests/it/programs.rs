//! Tests that run the recorded programs of Mesa's driver on the simulator. The references for their buffers are a CPU
//! or another implementation of the same shading language.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use crate::agreement;
use crate::recordings::find_recordings;

use agreement::programs;
use driver_mali::chains::{RecordedChains, record_folder};
use std::path::Path;
use trace_core::recording::{Buffer, MemoryView};
use trace_core::{Recording, mmu};

fn bytes_of(r: &Recording, view: &MemoryView<'_>, b: &Buffer) -> Vec<u8> {
    let space = &r.metadata.address_spaces[b.address_space as usize];
    let byte = |at: u64| {
        let va = b.va + at;
        let pa = mmu::translate(space.format, space.root, va, view)
            .unwrap()
            .target(va)
            .unwrap();
        view.frame(pa.frame()).unwrap()[pa.in_page()]
    };
    (0..b.bytes).map(byte).collect()
}

fn run(folder: &Path, device: &str) -> RecordedChains {
    let mut device = device_mali::factory(device).unwrap();
    record_folder(folder, &mut *device).unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
}

#[test]
fn every_program_computes_the_cpu_reference_results() {
    let Some(root) = find_recordings("panfrost") else {
        return;
    };
    let (mut compared, mut count) = (0, 0);
    for p in programs(&root) {
        let done = run(&p.folder, p.device);
        for j in done.jobs.iter().filter(|j| j.job_type == 4) {
            assert_eq!(
                (j.status, j.computed, j.reason.as_deref()),
                (1, Some(true), None),
                "{}",
                p.name
            );
        }
        assert_eq!(done.has_computed(), p.computes(), "{}", p.name);
        count += 1;
        let r = &done.recording;
        for b in &r.metadata.buffers {
            compared += p.assert_agrees(&b.name, &bytes_of(r, &r.memory.last(), b));
        }
    }
    assert!(count >= 27 && compared >= 40, "{count} programs, {compared} buffers");
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let Some(root) = find_recordings("panfrost") else {
        return;
    };
    for name in [
        "g71/histogram",
        "g71/matmul",
        "g71/conv3x3",
        "zoo/g71/atomics",
        "zoo/g71/scratch",
    ] {
        let run_with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let done = pool.install(|| run(&root.join(name), "mali-g71"));
            let r = done.recording;
            let last = r.memory.last();
            let all: Vec<Vec<u8>> = r.metadata.buffers.iter().map(|b| bytes_of(&r, &last, b)).collect();
            (all, done.jobs)
        };
        let one = run_with(1);
        for threads in [2, 3, 8] {
            assert!(run_with(threads) == one, "{name} with {threads} threads");
        }
    }
}

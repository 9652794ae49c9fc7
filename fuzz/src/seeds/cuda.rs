//! Seeds of the readers of CUDA code, single-kernel databases and memory traces.

use super::seed::Add;
use crate::kernels::{LLVM_OFFLOAD, MNEME, RECORD_REPLAY};
use crate::watched::{BASE, BYTES};
use trace_core::GpuVa;
use trace_core::api_trace::{MemorySample, MemoryTrace};

/// Adds the seeds of CUDA code containers: small ones of each kind that compilers wrote.
pub fn add_code(add: Add<'_>) {
    macro_rules! fixture {
        ($($name:literal)*) => {
            $(add(
                "cuda_code",
                $name,
                include_bytes!(concat!("../../../trace-core/cuda-code/tests/fixtures/", $name)).to_vec(),
            );)*
        };
    }
    fixture!("vecadd.lz4.fatbin" "named.fatbin" "templated.zstd.fatbin" "globals.sm_90.cubin");
    fixture!("vecadd.cuda12.sm_90a.cubin" "globals.compute_80.ptx" "required.ptx");
}

/// Adds the seeds of the loader of cubins: a number that selects sizes of launches, and a cubin.
pub fn add_load(add: Add<'_>) {
    macro_rules! cubin {
        ($($folder:literal $name:literal),*) => {
            $(add("cubin_load", $name, {
                let bytes = include_bytes!(concat!("../../../trace-core/cuda-code/tests/", $folder, "/", $name));
                [&[3], &bytes[..]].concat()
            });)*
        };
    }
    cubin!(
        "fixtures" "vecadd.cuda12.sm_90a.cubin",
        "fixtures" "globals.sm_90.cubin",
        "load" "linked.sm_90.cubin",
        "load" "loads.sm_90.cubin"
    );
}

/// Adds the seeds of single-kernel databases: each file that `trace-core/import/tests/kernels/make.py` wrote.
pub fn add_kernels(add: Add<'_>) {
    let file = |selector: u8, (_, bytes): &(&str, &[u8])| [&[selector], *bytes].concat();
    for (n, (entry, name)) in (0..).zip(RECORD_REPLAY.iter().zip(["database", "before", "behind"])) {
        add("record_replay", name, file(n, entry));
    }
    let names = ["database", "before", "changed", "before-second", "behind"];
    for (n, (entry, name)) in (0..).zip(MNEME.iter().zip(names)) {
        add("mneme", name, file(n, entry));
    }
    for (n, (entry, name)) in (0..).zip(
        LLVM_OFFLOAD
            .iter()
            .zip(["description", "before", "behind", "globals", "code"]),
    ) {
        add("llvm_offload", name, file(n, entry));
    }
}

/// Adds the seeds of memory traces: one of all memory with changes of two launches, and an empty one.
pub fn add_memory_trace(add: Add<'_>) {
    let sample = |at: u64, next_event: u64, content: u64| MemorySample {
        at: GpuVa::new(at),
        next_event,
        bytes: 4096,
        content,
    };
    let mut content = vec![0; 4096];
    content.extend([7; 4096]);
    let samples = vec![
        sample(BASE, 1, 0),
        sample(BASE, 2, 4096),
        sample(BASE + 4096, 1, 0),
        sample(BASE + 4096, 4, 0),
        sample(BASE + 4096, 5, 4096),
    ];
    let all: Vec<_> = std::iter::once(GpuVa::new(BASE)..GpuVa::new(BASE + BYTES)).collect();
    for (name, is_complete, samples, content) in [
        ("changes", true, samples, content),
        ("nothing", false, Vec::new(), Vec::new()),
    ] {
        let trace = MemoryTrace::new("cuda:0", 1..6, is_complete, all.clone(), samples, content);
        if let Ok(bytes) = trace.and_then(|w| w.to_bytes()) {
            add("watched", name, bytes);
        }
    }
}

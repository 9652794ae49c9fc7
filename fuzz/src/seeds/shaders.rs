//! Seeds of compute jobs and shader code, from the shaders of the sample recordings.

use super::seed::Add;
use crate::shader_code::encode;
use crate::shader_job::{DATA, JOB, Parts};
use std::path::Path;
use trace_core::families::mali_jm::{Payload, read_chain};
use trace_core::families::{Dispatch, memory_at_submits};
use trace_core::memory::GpuMemory;
use trace_core::registers::RegisterMap;
use trace_core::shader_code::decode_code;
use trace_core::{GpuVa, RegOffset};

/// Start address of a seed's code.
const ENTRY: u64 = 0x5f_0000_1000;

/// Adds the seeds of compute jobs, bound to the target's own memory.
pub fn add_jobs(add: Add<'_>) {
    for (sample, file, mode) in [
        ("vecadd", "vecadd", 0),
        ("vecadd-g52", "vecadd-g52", 1),
        ("matmul", "matmul", 2),
        ("histogram", "histogram", 0),
        ("mediump", "mediump", 2),
    ] {
        if let Some(bytes) = of_sample(sample, mode) {
            add("shader_job", file, bytes);
        }
    }
}

/// Adds the seeds of shader code: the shaders of the sample recordings, with padding after them and without.
pub fn add_code(add: Add<'_>) {
    for sample in ["vecadd", "matmul", "histogram", "mediump"] {
        if let Some(mut code) = code_of_sample(sample) {
            code.extend([0; 16]);
            add("shader_code", sample, encode(ENTRY, u32::MAX, u16::MAX, &code));
        }
    }
    if let Some(code) = code_of_sample("vecadd-g52") {
        // The code ends at the last byte of the address space, where nothing can follow it.
        let entry = 0u64.wrapping_sub(code.len() as u64);
        add(
            "shader_code",
            "vecadd-g52-at-the-end",
            encode(entry, u32::MAX, u16::MAX, &code),
        );
    }
}

/// Returns the code of a sample's first job.
fn code_of_sample(sample: &str) -> Option<Vec<u8>> {
    Some(first_job(sample)?.code)
}

/// The first job of a sample.
struct FirstJob {
    dispatch: Option<Dispatch>,
    state: Vec<u32>,
    code: Vec<u8>,
    /// Push uniforms of the job, with the address of a data page in place of each buffer.
    push: Vec<u64>,
}

/// Reads the first job from the recording of a sample.
fn first_job(sample: &str) -> Option<FirstJob> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../sample-traces/{sample}.kine"));
    let r = trace_core::container::open(&file).ok()?;
    let map = RegisterMap::for_gpu(r.metadata.identity.gpu_id)?;
    let write = |offset: u32| {
        (0..r.events.len()).find_map(|e| {
            let a = r
                .events
                .access(e)
                .filter(|a| a.write && a.offset == RegOffset::new(offset))?;
            Some((e as u64, a.value))
        })
    };
    let (submit, _) = write(0x18e0)?;
    let head = write(0x18c0)?.1 | write(0x18c4)?.1 << 32;
    let memory = memory_at_submits(&r, map, &[submit]).pop()??;
    let found = read_chain(&memory, GpuVa::new(head));
    let Payload::Compute(compute) = &found.jobs.first()?.payload else {
        return None;
    };
    let words = |va: u64, n: usize| -> Option<Vec<u32>> {
        let mut bytes = vec![0; 4 * n];
        memory.read(GpuVa::new(va), &mut bytes).then(|| {
            let words = bytes.as_chunks::<4>().0.iter();
            words.map(|b| u32::from_le_bytes(*b)).collect()
        })
    };
    let state = words(compute.state.get(), 16)?;
    let renderer = compute.renderer?;
    let decoded = decode_code(&memory, renderer.shader);
    let mut shader = vec![0; usize::try_from(decoded.bytes()).ok()?];
    if !memory.read(renderer.shader, &mut shader) {
        return None;
    }
    let push = words(compute.push_uniforms.get(), 2 * usize::from(renderer.push_uniforms))?;
    let push = push
        .as_chunks::<2>()
        .0
        .iter()
        .map(|[low, high]| u64::from(*low) | u64::from(*high) << 32)
        .map(
            |word| match r.metadata.buffers.iter().position(|b| b.va.get() == word) {
                Some(n) => DATA + n as u64 * 4096,
                None => word,
            },
        )
        .collect();
    Some(FirstJob {
        dispatch: found.jobs.first()?.dispatch,
        state,
        code: shader,
        push,
    })
}

/// Returns an input of the first job of a sample.
fn of_sample(sample: &str, mode: u8) -> Option<Vec<u8>> {
    let first = first_job(sample)?;
    let dispatch = Dispatch {
        workgroups: [2, 2, 1],
        size: first.dispatch?.size,
    };
    let (sizes, shifts) = dispatch.pack(6)?;
    let mut storage = [0; 8];
    storage[1] = 31;
    let word = |n: usize| first.state.get(n).copied().unwrap_or(0);
    let parts = Parts {
        mode,
        invocation: [sizes, shifts],
        state: [word(2), word(3), word(4), word(12)],
        storage,
        push: first.push,
        pointer: (255, JOB as u32),
        edits: Vec::new(),
    };
    Some(parts.encode(&first.code))
}

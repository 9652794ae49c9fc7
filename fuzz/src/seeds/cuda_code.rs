//! Seeds of CUDA code containers: small ones of each kind that compilers wrote.

use super::Add;

/// Adds the seeds.
pub fn add(add: Add<'_>) {
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

//! States of cuBLAS handles and mistakes: pointer modes, streams, settings, wrong arguments, handles that are none.

use super::blas::{create, library_name, succeed};
use crate::gpu::ClientResult;
use crate::math_libraries::{Cublas, Handle, status_name};
use crate::program_context::ProgramContext;
use crate::result::check;

/// Goes through the states of a handle, and prints the status of each mistake.
pub fn blas_states(w: &mut ProgramContext<'_>) -> ClientResult {
    let name = library_name(w);
    let blas = Cublas::load(name)?;
    let handle = create(&blas)?;
    pointer_modes(w, &blas, handle)?;
    streams(w, &blas, handle)?;
    settings(&blas, handle)?;
    wrong_arguments(w, &blas, handle)?;
    // NVIDIA's library itself ends the program for some of them.
    if w.options.has("--wrong-pointers") {
        wrong_handles(w, &blas, handle)?;
    }
    for status in [0, 1, 7, 13, 15] {
        println!("{status}: {}", status_name(name, status)?);
    }
    Ok(())
}

/// Calls a product that fails, as a test of the stand-in wants it, and prints what the next calls answer.
pub fn blas_failure(w: &mut ProgramContext<'_>) -> ClientResult {
    let blas = Cublas::load(library_name(w))?;
    let handle = create(&blas)?;
    let one = 1f32;
    let x = w.gpu.upload_new(&[1f32, 2.0, 3.0])?;
    let first = blas.cublasSscal_v2(handle, 3, &raw const one, x, 1);
    let wait = w.gpu.synchronize();
    let mut sum = 0f32;
    let second = blas.cublasSasum_v2(handle, 3, x, 1, &raw mut sum);
    let third = blas.cublasSasum_v2(handle, 3, x, 1, &raw mut sum);
    println!("scal {first}, wait {}, sum {second}, sum {third} {sum}", wait.is_ok());
    Ok(())
}

/// Prints what the first call answers where there is no library.
pub fn blas_missing(w: &mut ProgramContext<'_>) -> ClientResult {
    let blas = Cublas::load(library_name(w))?;
    let mut handle = std::ptr::null_mut();
    for _ in 0..2 {
        println!("create {}", blas.cublasCreate_v2(&raw mut handle));
    }
    let random = crate::math_libraries::Curand::load("libcurand.so.10")?;
    println!("generator {}", random.curandCreateGenerator(&raw mut handle, 100));
    Ok(())
}

fn pointer_modes(w: &mut ProgramContext<'_>, blas: &Cublas, handle: Handle) -> ClientResult {
    let gpu = w.gpu;
    let x = gpu.upload_new(&[1f32, -2.0, 3.0, -4.0])?;
    let scalars = gpu.upload_new(&[10f32, 0.0, 0.0])?;
    let mut mode = 7;
    succeed("mode", blas.cublasGetPointerMode_v2(handle, &raw mut mode))?;
    check("first mode", &[mode], &[0])?;
    succeed("device mode", blas.cublasSetPointerMode_v2(handle, 1))?;
    succeed("mode", blas.cublasGetPointerMode_v2(handle, &raw mut mode))?;
    check("second mode", &[mode], &[1])?;
    // In device mode, addresses of scalars and results are those of the device.
    let at = |index: u64| std::ptr::without_provenance_mut::<f32>((scalars + 4 * index) as usize);
    for _ in 0..50 {
        succeed("sum", blas.cublasSasum_v2(handle, 4, x, 1, at(1)))?;
        succeed("index", blas.cublasIsamax_v2(handle, 4, x, 1, at(2).cast()))?;
    }
    succeed("scale", blas.cublasSscal_v2(handle, 4, at(0), x, 1))?;
    check("scaled", &gpu.download::<f32>(x, 4)?, &[10.0, -20.0, 30.0, -40.0])?;
    let results: Vec<f32> = gpu.download(scalars, 3)?;
    check("results", &[results[1], f32::from_bits(4)], &[10.0, results[2]])?;
    succeed("host mode", blas.cublasSetPointerMode_v2(handle, 0))?;
    let (mut sum, tenth) = (0f32, 0.1f32);
    succeed("scale", blas.cublasSscal_v2(handle, 4, &raw const tenth, x, 1))?;
    succeed("sum", blas.cublasSasum_v2(handle, 4, x, 1, &raw mut sum))?;
    check("sum", &[sum.round()], &[10.0])?;
    println!("wrong mode {}", blas.cublasSetPointerMode_v2(handle, 5));
    succeed("mode", blas.cublasGetPointerMode_v2(handle, &raw mut mode))?;
    check("mode after a wrong one", &[mode], &[0])?;
    w.result.give(&results);
    Ok(())
}

fn streams(w: &mut ProgramContext<'_>, blas: &Cublas, handle: Handle) -> ClientResult {
    let gpu = w.gpu;
    let (first, second) = (gpu.stream()?, gpu.stream()?);
    let mut found = std::ptr::null_mut();
    succeed("stream", blas.cublasGetStream_v2(handle, &raw mut found))?;
    check("first stream", &[found.is_null()], &[true])?;
    let x = gpu.alloc(4096)?;
    let (one, y) = (1f32, gpu.alloc(4096)?);
    // Each call reads what earlier work of its stream wrote.
    for (round, stream) in [first, second, first, std::ptr::null_mut()].into_iter().enumerate() {
        succeed("stream", blas.cublasSetStream_v2(handle, stream))?;
        succeed("stream", blas.cublasGetStream_v2(handle, &raw mut found))?;
        check("stream", &[found], &[stream])?;
        let value = round as f32 + 2.0;
        gpu.fill(x, value.to_bits(), 1024, stream)?;
        gpu.fill(y, 1f32.to_bits(), 1024, stream)?;
        succeed("add", blas.cublasSaxpy_v2(handle, 1024, &raw const one, x, 1, y, 1))?;
        gpu.finish(stream)?;
        check("sums", &gpu.download::<f32>(y, 1024)?, &vec![value + 1.0; 1024])?;
    }
    w.result.give(&[1u32]);
    Ok(())
}

fn settings(blas: &Cublas, handle: Handle) -> ClientResult {
    let mut value = 9;
    for mode in [1, 0] {
        succeed("atomics", blas.cublasSetAtomicsMode(handle, mode))?;
        succeed("atomics", blas.cublasGetAtomicsMode(handle, &raw mut value))?;
        check("atomics", &[value], &[mode])?;
    }
    for mode in [1, 3, 0] {
        succeed("math", blas.cublasSetMathMode(handle, mode))?;
        succeed("math", blas.cublasGetMathMode(handle, &raw mut value))?;
        check("math", &[value], &[mode])?;
    }
    println!("wrong math {}", blas.cublasSetMathMode(handle, 77));
    println!("wrong workspace {}", blas.cublasSetWorkspace_v2(handle, 0x3001, 8));
    println!("wrong property {}", blas.cublasGetProperty(9, &raw mut value));
    Ok(())
}

fn wrong_arguments(w: &ProgramContext<'_>, blas: &Cublas, handle: Handle) -> ClientResult {
    let gpu = w.gpu;
    let at = gpu.upload_new(&[1f32; 64])?;
    let one = 1f32;
    let alpha = &raw const one;
    let gemm = |operation: i32, m: i32, n: i32, k: i32, [lda, ldb, ldc]: [i32; 3], beta: *const f32| {
        blas.cublasSgemm_v2(
            handle,
            operation,
            0,
            m,
            n,
            k,
            alpha,
            at,
            lda,
            at,
            ldb,
            beta,
            at + 128,
            ldc,
        )
    };
    println!(
        "products {:?}",
        [
            gemm(0, 2, 2, 2, [2, 2, 2], alpha),
            gemm(7, 2, 2, 2, [2, 2, 2], alpha),
            gemm(0, -1, 2, 2, [2, 2, 2], alpha),
            gemm(0, 2, 2, 2, [1, 2, 2], alpha),
            gemm(1, 4, 2, 2, [2, 2, 4], alpha),
            gemm(0, 2, 2, 2, [2, 2, 1], alpha),
            gemm(0, 0, 2, 2, [2, 2, 2], alpha),
        ]
    );
    let gemv = |step: i32| blas.cublasSgemv_v2(handle, 0, 2, 2, alpha, at, 2, at, step, alpha, at + 128, 1);
    println!("vectors {:?}", [gemv(1), gemv(0), gemv(-1)]);
    let typed = |number: i32, compute: i32| {
        let alpha = alpha.cast();
        blas.cublasGemmEx(
            handle,
            0,
            0,
            2,
            2,
            2,
            alpha,
            at,
            number,
            2,
            at,
            number,
            2,
            alpha,
            at + 128,
            number,
            2,
            compute,
            -1,
        )
    };
    println!("types {:?}", [typed(0, 68), typed(0, 72), typed(3, 68), typed(0, 1234)]);
    let mut sum = 5f32;
    println!(
        "sum of nothing {} {sum}",
        blas.cublasSasum_v2(handle, 0, at, 1, &raw mut sum)
    );
    // NVIDIA's library reads and writes such addresses.
    if w.options.has("--wrong-pointers") {
        println!(
            "no result {}",
            blas.cublasSasum_v2(handle, 4, at, 1, std::ptr::null_mut())
        );
        println!("no scalar {}", blas.cublasSscal_v2(handle, 4, std::ptr::null(), at, 1));
        println!("no factor {}", gemm(0, 2, 2, 2, [2, 2, 2], std::ptr::null()));
    }
    let words = [1u32; 8];
    let from = words.as_ptr().cast();
    println!(
        "host vectors {:?}",
        [
            blas.cublasSetVector(0, 4, from, 1, at, 1),
            blas.cublasSetVector(-1, 4, from, 1, at, 1),
            blas.cublasSetVector(4, 0, from, 1, at, 1),
            blas.cublasSetVector(4, 4, from, 0, at, 1),
            blas.cublasSetMatrix(2, 2, 4, from, 2, at, 0),
        ]
    );
    Ok(())
}

fn wrong_handles(w: &ProgramContext<'_>, blas: &Cublas, handle: Handle) -> ClientResult {
    let at = w.gpu.upload_new(&[1f32; 4])?;
    let second = create(blas)?;
    check("handles differ", &[second == handle], &[false])?;
    let one = 1f32;
    let scale = |handle: Handle| blas.cublasSscal_v2(handle, 4, &raw const one, at, 1);
    let random = std::ptr::without_provenance_mut(0x1234_5670);
    succeed("scale", scale(second))?;
    succeed("destroy", blas.cublasDestroy_v2(second))?;
    let mut found = std::ptr::null_mut();
    println!(
        "handles {:?}",
        [
            scale(handle),
            scale(second),
            scale(std::ptr::null_mut()),
            scale(random),
            blas.cublasDestroy_v2(second),
            blas.cublasDestroy_v2(std::ptr::null_mut()),
            blas.cublasGetStream_v2(second, &raw mut found),
            blas.cublasSetStream_v2(random, found),
            blas.cublasCreate_v2(std::ptr::null_mut()),
            blas.cublasDestroy_v2(handle),
            scale(handle),
        ]
    );
    Ok(())
}

//! Linear algebra with cuBLAS: every function with ordinary arguments, compared with the same on the host. Small whole
//! numbers make all sums exact.

use crate::gpu::ClientResult;
use crate::math_libraries::{Cublas, Handle};
use crate::program_context::ProgramContext;
use crate::result::{check, words};
use std::ffi::c_void;

/// Returns the name of the library: `--twelve` takes that of CUDA 12.
pub fn library_name(w: &ProgramContext<'_>) -> &'static str {
    match w.options.has("--twelve") {
        true => "libcublas.so.12",
        false => "libcublas.so.13",
    }
}

/// Fails with the function's name unless the call succeeded.
pub fn succeed(what: &str, status: i32) -> ClientResult {
    match status {
        0 => Ok(()),
        status => Err(format!("{what}: status {status}")),
    }
}

/// Creates a handle.
pub fn create(blas: &Cublas) -> ClientResult<Handle> {
    let mut handle = std::ptr::null_mut();
    succeed("cublasCreate", blas.cublasCreate_v2(&raw mut handle))?;
    Ok(handle)
}

/// Returns small whole numbers, some of them negative.
fn whole(seed: u32, n: usize) -> Vec<f64> {
    words(seed, n as u32).iter().map(|w| f64::from(w % 9) - 4.0).collect()
}

fn floats(values: &[f64]) -> Vec<f32> {
    values.iter().map(|v| *v as f32).collect()
}

/// Returns the half of a small whole number.
fn half(value: f64) -> u16 {
    let bits = (value as f32).to_bits();
    match value == 0.0 {
        true => 0,
        false => ((bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 | bits >> 13 & 1023) as u16,
    }
}

/// A product of two matrices of the sizes that all tests here have.
struct Product {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

const ROWS: usize = 5;
const COLUMNS: usize = 4;
const DEPTH: usize = 3;
/// Leading dimensions: the first factor is stored transposed.
const LEADING: [usize; 3] = [4, 3, 6];

impl Product {
    fn new(seed: u32) -> Self {
        Self {
            a: whole(seed, LEADING[0] * ROWS),
            b: whole(seed + 1, LEADING[1] * COLUMNS),
            c: whole(seed + 2, LEADING[2] * COLUMNS),
        }
    }

    /// Returns 2·Aᵀ·B - C as it is stored.
    fn result(&self) -> Vec<f64> {
        let mut c = self.c.clone();
        for column in 0..COLUMNS {
            for row in 0..ROWS {
                let terms = (0..DEPTH).map(|k| self.a[row * LEADING[0] + k] * self.b[column * LEADING[1] + k]);
                let at = column * LEADING[2] + row;
                c[at] = 2.0 * terms.sum::<f64>() - c[at];
            }
        }
        c
    }
}

const SIZES: (i32, i32, i32) = (ROWS as i32, COLUMNS as i32, DEPTH as i32);
const LD: [i32; 3] = [LEADING[0] as i32, LEADING[1] as i32, LEADING[2] as i32];

/// Calls everything once.
pub fn blas(w: &mut ProgramContext<'_>) -> ClientResult {
    let name = library_name(w);
    let blas = Cublas::load(name)?;
    let handle = create(&blas)?;
    vectors(w, &blas, handle)?;
    products(w, &blas, handle)?;
    typed_products(w, &blas, handle)?;
    host_copies(w, &blas)?;
    let (mut version, mut parts) = (0, [0; 3]);
    succeed("cublasGetVersion", blas.cublasGetVersion_v2(handle, &raw mut version))?;
    for (property, part) in (0..).zip(&mut parts) {
        succeed("cublasGetProperty", blas.cublasGetProperty(property, part))?;
    }
    check("version", &[version], &[parts[0] * 10_000 + parts[1] * 100 + parts[2]])?;
    succeed("cublasDestroy", blas.cublasDestroy_v2(handle))
}

fn vectors(w: &mut ProgramContext<'_>, blas: &Cublas, handle: Handle) -> ClientResult {
    let n = 100;
    let (x, y) = (whole(w.options.seed, 2 * n), whole(w.options.seed + 9, 3 * n));
    let gpu = w.gpu;
    let (sx, sy) = (gpu.upload_new(&floats(&x))?, gpu.upload_new(&floats(&y))?);
    let (dx, dy) = (gpu.upload_new(&x)?, gpu.upload_new(&y)?);
    let (xs, ys): (Vec<f64>, Vec<f64>) = (
        x.iter().step_by(2).copied().collect(),
        y.iter().step_by(3).copied().collect(),
    );
    let n = n as i32;
    let (mut float, mut double, mut index) = ([0f32; 3], [0f64; 3], [0i32; 2]);
    let [f0, f1, f2] = &mut float;
    let [d0, d1, d2] = &mut double;
    let [i0, i1] = &mut index;
    succeed("Sasum", blas.cublasSasum_v2(handle, n, sx, 2, f0))?;
    succeed("Dasum", blas.cublasDasum_v2(handle, n, dx, 2, d0))?;
    succeed("Sdot", blas.cublasSdot_v2(handle, n, sx, 2, sy, 3, f1))?;
    succeed("Ddot", blas.cublasDdot_v2(handle, n, dx, 2, dy, 3, d1))?;
    succeed("Snrm2", blas.cublasSnrm2_v2(handle, n, sx, 2, f2))?;
    succeed("Dnrm2", blas.cublasDnrm2_v2(handle, n, dx, 2, d2))?;
    succeed("Isamax", blas.cublasIsamax_v2(handle, n, sx, 2, i0))?;
    succeed("Idamax", blas.cublasIdamax_v2(handle, n, dx, 2, i1))?;
    let sum: f64 = xs.iter().map(|x| x.abs()).sum();
    let dot: f64 = xs.iter().zip(&ys).map(|(x, y)| x * y).sum();
    let square: f64 = xs.iter().map(|x| x * x).sum();
    let most = xs.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let first = xs.iter().position(|x| x.abs() == most).map_or(0, |at| at as i32 + 1);
    check("sums", &[double[0], float[0].into()], &[sum, sum])?;
    check("products", &[double[1], float[1].into()], &[dot, dot])?;
    check(
        "lengths",
        &[double[2].round(), float[2].round().into()],
        &[square.sqrt().round(); 2],
    )?;
    check("largest", &index, &[first; 2])?;
    w.result.give(&float);
    w.result.give(&double);
    // y := 3 x + y, then x := -2 x, then y's first elements := x, backwards.
    let (alpha, beta) = (3f32, -2f32);
    let (alpha_d, beta_d) = (3f64, -2f64);
    succeed("Saxpy", blas.cublasSaxpy_v2(handle, n, &raw const alpha, sx, 2, sy, 3))?;
    succeed(
        "Daxpy",
        blas.cublasDaxpy_v2(handle, n, &raw const alpha_d, dx, 2, dy, 3),
    )?;
    succeed("Sscal", blas.cublasSscal_v2(handle, n, &raw const beta, sx, 2))?;
    succeed("Dscal", blas.cublasDscal_v2(handle, n, &raw const beta_d, dx, 2))?;
    succeed("Scopy", blas.cublasScopy_v2(handle, 10, sx, 2, sy, -1))?;
    succeed("Dcopy", blas.cublasDcopy_v2(handle, 10, dx, 2, dy, -1))?;
    let (mut right_x, mut right_y) = (x.clone(), y.clone());
    for index in 0..n as usize {
        right_y[3 * index] += 3.0 * x[2 * index];
        right_x[2 * index] *= -2.0;
    }
    for index in 0..10 {
        right_y[9 - index] = right_x[2 * index];
    }
    let (got_x, got_y): (Vec<f64>, Vec<f64>) = (gpu.download(dx, x.len())?, gpu.download(dy, y.len())?);
    check("doubles", &got_x, &right_x)?;
    check("sums of doubles", &got_y, &right_y)?;
    let (got_x, got_y): (Vec<f32>, Vec<f32>) = (gpu.download(sx, x.len())?, gpu.download(sy, y.len())?);
    check("floats", &got_x, &floats(&right_x))?;
    check("sums of floats", &got_y, &floats(&right_y))?;
    w.result.give(&got_y);
    // y := 2 A x - y with a matrix of 3 rows and 4 columns, and with its transposed form.
    let a = whole(w.options.seed + 20, 5 * 4);
    let (sa, da) = (gpu.upload_new(&floats(&a))?, gpu.upload_new(&a)?);
    let (two, less, two_d, less_d) = (2f32, -1f32, 2f64, -1f64);
    for (operation, rows, columns) in [(0, 3, 4), (1, 4, 3)] {
        let (x, y) = (whole(31, columns), whole(32, rows));
        let (sx, sy) = (gpu.upload_new(&floats(&x))?, gpu.upload_new(&floats(&y))?);
        let (dx, dy) = (gpu.upload_new(&x)?, gpu.upload_new(&y)?);
        let single = blas.cublasSgemv_v2(
            handle,
            operation,
            3,
            4,
            &raw const two,
            sa,
            5,
            sx,
            1,
            &raw const less,
            sy,
            1,
        );
        let double = blas.cublasDgemv_v2(
            handle,
            operation,
            3,
            4,
            &raw const two_d,
            da,
            5,
            dx,
            1,
            &raw const less_d,
            dy,
            1,
        );
        succeed("Sgemv", single)?;
        succeed("Dgemv", double)?;
        let element = |row: usize, column: usize| {
            if operation == 0 {
                a[column * 5 + row]
            } else {
                a[row * 5 + column]
            }
        };
        let right: Vec<f64> = (0..rows)
            .map(|row| 2.0 * (0..columns).map(|column| element(row, column) * x[column]).sum::<f64>() - y[row])
            .collect();
        check("vector", &gpu.download::<f64>(dy, rows)?, &right)?;
        check("vector of floats", &gpu.download::<f32>(sy, rows)?, &floats(&right))?;
        w.result.give(&right);
    }
    Ok(())
}

fn products(w: &mut ProgramContext<'_>, blas: &Cublas, handle: Handle) -> ClientResult {
    let gpu = w.gpu;
    let product = Product::new(w.options.seed + 40);
    let right = product.result();
    let (m, n, k) = SIZES;
    let (two, less, two_d, less_d) = (2f32, -1f32, 2f64, -1f64);
    let upload = |values: &[f64]| gpu.upload_new(&floats(values));
    let [a, b, c] = [upload(&product.a)?, upload(&product.b)?, upload(&product.c)?];
    let status = blas.cublasSgemm_v2(
        handle,
        1,
        0,
        m,
        n,
        k,
        &raw const two,
        a,
        LD[0],
        b,
        LD[1],
        &raw const less,
        c,
        LD[2],
    );
    succeed("Sgemm", status)?;
    check(
        "product of floats",
        &gpu.download::<f32>(c, right.len())?,
        &floats(&right),
    )?;
    let [a, b, c] = [&product.a, &product.b, &product.c].map(|values| gpu.upload_new(values));
    let status = blas.cublasDgemm_v2(
        handle,
        1,
        0,
        m,
        n,
        k,
        &raw const two_d,
        a?,
        LD[0],
        b?,
        LD[1],
        &raw const less_d,
        c.clone()?,
        LD[2],
    );
    succeed("Dgemm", status)?;
    let got: Vec<f64> = gpu.download(c?, right.len())?;
    check("product of doubles", &got, &right)?;
    w.result.give(&got);
    let halves = |values: &[f64]| -> Vec<u16> { values.iter().map(|v| half(*v)).collect() };
    let [a, b, c] = [&product.a, &product.b, &product.c].map(|values| gpu.upload_new(&halves(values)));
    let c = c?;
    let (two_h, less_h) = (half(2.0), half(-1.0));
    let status = blas.cublasHgemm(
        handle,
        1,
        0,
        m,
        n,
        k,
        &raw const two_h,
        a?,
        LD[0],
        b?,
        LD[1],
        &raw const less_h,
        c,
        LD[2],
    );
    succeed("Hgemm", status)?;
    check(
        "product of halves",
        &gpu.download::<u16>(c, right.len())?,
        &halves(&right),
    )?;
    // Two products in one call; the second has other numbers.
    let second = Product::new(w.options.seed + 50);
    let both = |first: &[f64], second: &[f64]| [first, second].concat();
    let (a, b, c) = (
        both(&product.a, &second.a),
        both(&product.b, &second.b),
        both(&product.c, &second.c),
    );
    let right = both(&right, &second.result());
    let strides = [product.a.len(), product.b.len(), product.c.len()].map(|n| n as i64);
    let [sa, sb, sc] = [upload(&a)?, upload(&b)?, upload(&c)?];
    let status = blas.cublasSgemmStridedBatched(
        handle,
        1,
        0,
        m,
        n,
        k,
        &raw const two,
        sa,
        LD[0],
        strides[0],
        sb,
        LD[1],
        strides[1],
        &raw const less,
        sc,
        LD[2],
        strides[2],
        2,
    );
    succeed("SgemmStridedBatched", status)?;
    check(
        "two products of floats",
        &gpu.download::<f32>(sc, right.len())?,
        &floats(&right),
    )?;
    let [da, db, dc] = [gpu.upload_new(&a)?, gpu.upload_new(&b)?, gpu.upload_new(&c)?];
    let status = blas.cublasDgemmStridedBatched(
        handle,
        1,
        0,
        m,
        n,
        k,
        &raw const two_d,
        da,
        LD[0],
        strides[0],
        db,
        LD[1],
        strides[1],
        &raw const less_d,
        dc,
        LD[2],
        strides[2],
        2,
    );
    succeed("DgemmStridedBatched", status)?;
    let got: Vec<f64> = gpu.download(dc, right.len())?;
    check("two products of doubles", &got, &right)?;
    w.result.give(&got);
    Ok(())
}

/// Products whose types are arguments: floats, doubles, and halves that are computed as floats.
fn typed_products(w: &mut ProgramContext<'_>, blas: &Cublas, handle: Handle) -> ClientResult {
    let gpu = w.gpu;
    let product = Product::new(w.options.seed + 60);
    let right = product.result();
    let (m, n, k) = SIZES;
    let (two, less, two_d, less_d) = (2f32, -1f32, 2f64, -1f64);
    let single: [*const c_void; 2] = [(&raw const two).cast(), (&raw const less).cast()];
    let double: [*const c_void; 2] = [(&raw const two_d).cast(), (&raw const less_d).cast()];
    let bytes = |number: i32, value: f64| match number {
        0 => (value as f32).to_le_bytes().to_vec(),
        1 => value.to_le_bytes().to_vec(),
        _ => half(value).to_le_bytes().to_vec(),
    };
    for (number, compute, [alpha, beta]) in [(0, 68, single), (1, 70, double), (2, 68, single), (0, 77, single)] {
        let stored = |values: &[f64]| values.iter().flat_map(|v| bytes(number, *v)).collect::<Vec<u8>>();
        for batches in [1, 2] {
            let upload = |values: &[f64]| gpu.upload_new(&stored(values).repeat(batches));
            let [a, b, c] = [upload(&product.a)?, upload(&product.b)?, upload(&product.c)?];
            let strides = [product.a.len(), product.b.len(), product.c.len()].map(|n| n as i64);
            let status = match batches {
                1 => blas.cublasGemmEx(
                    handle, 1, 0, m, n, k, alpha, a, number, LD[0], b, number, LD[1], beta, c, number, LD[2], compute,
                    -1,
                ),
                _ => blas.cublasGemmStridedBatchedEx(
                    handle, 1, 0, m, n, k, alpha, a, number, LD[0], strides[0], b, number, LD[1], strides[1], beta, c,
                    number, LD[2], strides[2], 2, compute, -1,
                ),
            };
            succeed("GemmEx", status)?;
            let expected = stored(&right).repeat(batches);
            check("typed product", &gpu.download::<u8>(c, expected.len())?, &expected)?;
            w.result.give(&expected);
        }
    }
    Ok(())
}

/// Vectors and matrices between host and device, with other distances on both sides.
fn host_copies(w: &mut ProgramContext<'_>, blas: &Cublas) -> ClientResult {
    let gpu = w.gpu;
    let source = words(w.options.seed + 70, 60);
    let device = gpu.alloc(60 * 4)?;
    let stream = gpu.stream()?;
    for is_asynchronous in [false, true] {
        gpu.fill(device, 7, 60, std::ptr::null_mut())?;
        gpu.synchronize()?;
        let from = source.as_ptr().cast();
        let status = match is_asynchronous {
            false => blas.cublasSetVector(20, 4, from, 3, device, 2),
            true => blas.cublasSetVectorAsync(20, 4, from, 3, device, 2, stream),
        };
        succeed("SetVector", status)?;
        gpu.finish(stream)?;
        let mut right = vec![7u32; 60];
        (0..20).for_each(|index| right[2 * index] = source[3 * index]);
        check("vector", &gpu.download::<u32>(device, 60)?, &right)?;
        let mut back = vec![1u32; 60];
        let status = match is_asynchronous {
            false => blas.cublasGetVector(20, 4, device, 2, back.as_mut_ptr().cast(), 1),
            true => blas.cublasGetVectorAsync(20, 4, device, 2, back.as_mut_ptr().cast(), 1, stream),
        };
        succeed("GetVector", status)?;
        gpu.finish(stream)?;
        let expected: Vec<u32> = (0..60).map(|n| if n < 20 { source[3 * n] } else { 1 }).collect();
        check("vector back", &back, &expected)?;
        gpu.fill(device, 9, 60, std::ptr::null_mut())?;
        gpu.synchronize()?;
        let status = match is_asynchronous {
            false => blas.cublasSetMatrix(3, 5, 4, from, 4, device, 7),
            true => blas.cublasSetMatrixAsync(3, 5, 4, from, 4, device, 7, stream),
        };
        succeed("SetMatrix", status)?;
        gpu.finish(stream)?;
        let mut right = vec![9u32; 60];
        (0..15).for_each(|index| right[index / 3 * 7 + index % 3] = source[index / 3 * 4 + index % 3]);
        check("matrix", &gpu.download::<u32>(device, 60)?, &right)?;
        let mut back = vec![1u32; 60];
        let status = match is_asynchronous {
            false => blas.cublasGetMatrix(3, 5, 4, device, 7, back.as_mut_ptr().cast(), 3),
            true => blas.cublasGetMatrixAsync(3, 5, 4, device, 7, back.as_mut_ptr().cast(), 3, stream),
        };
        succeed("GetMatrix", status)?;
        gpu.finish(stream)?;
        let matrix: Vec<u32> = (0..15).map(|index| source[index / 3 * 4 + index % 3]).collect();
        check("matrix back", &back[..15], &matrix)?;
        w.result.give(&back);
    }
    Ok(())
}

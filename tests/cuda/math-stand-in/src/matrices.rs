//! Products of matrices, stored column by column.

use crate::handles::{INVALID_VALUE, find};
use crate::numbers::{Number, Plain, from_half, to_half};
use crate::vectors::{Vector, scalar};
use crate::{Answer, exported, memory};
use std::ffi::c_void;

/// `CUBLAS_STATUS_NOT_SUPPORTED`.
const NOT_SUPPORTED: i32 = 15;

/// A matrix in device memory, as it is stored.
#[derive(Clone, Copy)]
struct Matrix {
    at: u64,
    rows: i32,
    columns: i32,
    leading: i32,
}

impl Matrix {
    fn check(self) -> Answer {
        match self.rows >= 0 && self.columns >= 0 && self.leading >= self.rows.max(1) {
            true => Ok(()),
            false => Err(INVALID_VALUE),
        }
    }

    fn span(self) -> usize {
        match self.rows > 0 && self.columns > 0 {
            true => (self.columns as usize - 1) * self.leading as usize + self.rows as usize,
            false => 0,
        }
    }

    fn read<T: Plain>(self, stream: u64) -> Answer<Vec<T>> {
        memory::read(self.at, self.span(), stream)
    }

    fn position(self, is_transposed: bool, row: i32, column: i32) -> usize {
        let (row, column) = if is_transposed { (column, row) } else { (row, column) };
        column as usize * self.leading as usize + row as usize
    }
}

fn is_transposed(operation: i32) -> Answer<bool> {
    match operation {
        0 => Ok(false),
        1 | 2 => Ok(true),
        _ => Err(INVALID_VALUE),
    }
}

/// A product of two matrices: operations, sizes, and what is stored where.
#[derive(Clone, Copy)]
struct Product {
    operations: [i32; 2],
    sizes: [i32; 3],
    at: [u64; 3],
    leading: [i32; 3],
}

impl Product {
    /// Returns the factors, the result, and which factors are transposed.
    fn matrices(self) -> Answer<([Matrix; 3], [bool; 2])> {
        let [rows, columns, depth] = self.sizes;
        let [first, second, result] = self.at;
        let [leading_first, leading_second, leading_result] = self.leading;
        let transposed = [is_transposed(self.operations[0])?, is_transposed(self.operations[1])?];
        let stored = |at, is_transposed, rows, columns, leading| {
            let (rows, columns) = if is_transposed {
                (columns, rows)
            } else {
                (rows, columns)
            };
            Matrix {
                at,
                rows,
                columns,
                leading,
            }
        };
        let matrices = [
            stored(first, transposed[0], rows, depth, leading_first),
            stored(second, transposed[1], depth, columns, leading_second),
            stored(result, false, rows, columns, leading_result),
        ];
        matrices.iter().try_for_each(|matrix| matrix.check())?;
        Ok((matrices, transposed))
    }

    /// Multiplies numbers that are stored as `S` and computed as `T`.
    fn multiply<S: Plain, T: Number>(
        self,
        stream: u64,
        scalars: [T; 2],
        from: impl Fn(S) -> T,
        to: impl Fn(T) -> S,
    ) -> Answer {
        let ([first, second, result], transposed) = self.matrices()?;
        let [alpha, beta] = scalars;
        let [rows, columns, depth] = self.sizes;
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        let (a, b) = (first.read::<S>(stream)?, second.read::<S>(stream)?);
        let mut c = result.read::<S>(stream)?;
        let element = |memory: &[S], at: usize| memory.get(at).copied().map(&from).unwrap_or_default();
        for column in 0..columns {
            for row in 0..rows {
                let mut sum = T::default();
                for step in 0..depth {
                    let left = element(&a, first.position(transposed[0], row, step));
                    sum = sum + left * element(&b, second.position(transposed[1], step, column));
                }
                let at = result.position(false, row, column);
                let value = alpha * sum + beta * element(&c, at);
                if let Some(place) = c.get_mut(at) {
                    *place = to(value);
                }
            }
        }
        memory::write(result.at, &c)
    }

    /// Returns the product of a batch, after the given numbers of bytes.
    fn moved(self, index: i32, strides: [i64; 3], bytes: i64) -> Self {
        let mut at = self.at;
        for (at, stride) in at.iter_mut().zip(strides) {
            *at = at.wrapping_add_signed(i64::from(index) * stride * bytes);
        }
        Self { at, ..self }
    }
}

fn multiply<T: Number>(handle: *mut c_void, product: Product, alpha: *const T, beta: *const T) -> Answer {
    multiply_batch(handle, product, alpha, beta, [0; 3], 1)
}

fn multiply_batch<T: Number>(
    handle: *mut c_void,
    product: Product,
    alpha: *const T,
    beta: *const T,
    strides: [i64; 3],
    batches: i32,
) -> Answer {
    let state = find(handle)?;
    product.matrices()?;
    if batches < 0 {
        return Err(INVALID_VALUE);
    }
    let scalars = [scalar(state, alpha)?, scalar(state, beta)?];
    for index in 0..batches {
        let moved = product.moved(index, strides, size_of::<T>() as i64);
        moved.multiply::<T, T>(state.stream, scalars, |x| x, |x| x)?;
    }
    Ok(())
}

fn multiply_halves(handle: *mut c_void, product: Product, alpha: *const u16, beta: *const u16) -> Answer {
    let state = find(handle)?;
    product.matrices()?;
    let scalars = [from_half(scalar(state, alpha)?), from_half(scalar(state, beta)?)];
    product.multiply::<u16, f32>(state.stream, scalars, from_half, to_half)
}

/// Types of a product: of the matrices, which are equal here, and of the computation.
#[derive(Clone, Copy)]
struct Types {
    stored: [i32; 3],
    compute: i32,
}

fn multiply_typed(
    handle: *mut c_void,
    product: Product,
    alpha: *const c_void,
    beta: *const c_void,
    types: Types,
    strides: [i64; 3],
    batches: i32,
) -> Answer {
    let state = find(handle)?;
    product.matrices()?;
    if batches < 0 {
        return Err(INVALID_VALUE);
    }
    match (types.stored, types.compute) {
        ([0, 0, 0], 68 | 77) => multiply_batch::<f32>(handle, product, alpha.cast(), beta.cast(), strides, batches),
        ([1, 1, 1], 70) => multiply_batch::<f64>(handle, product, alpha.cast(), beta.cast(), strides, batches),
        ([2, 2, 2], 68) => {
            let scalars = [scalar::<f32>(state, alpha.cast())?, scalar::<f32>(state, beta.cast())?];
            (0..batches).try_for_each(|index| {
                let moved = product.moved(index, strides, 2);
                moved.multiply::<u16, f32>(state.stream, scalars, from_half, to_half)
            })
        }
        _ => Err(NOT_SUPPORTED),
    }
}

fn multiply_vector<T: Number>(
    handle: *mut c_void,
    operation: i32,
    matrix: Matrix,
    alpha: *const T,
    x: (u64, i32),
    beta: *const T,
    y: (u64, i32),
) -> Answer {
    let state = find(handle)?;
    let is_transposed = is_transposed(operation)?;
    matrix.check()?;
    if x.1 == 0 || y.1 == 0 {
        return Err(INVALID_VALUE);
    }
    let (alpha, beta) = (scalar(state, alpha)?, scalar(state, beta)?);
    let (rows, columns) = match is_transposed {
        true => (matrix.columns, matrix.rows),
        false => (matrix.rows, matrix.columns),
    };
    let (from, to) = (
        Vector {
            at: x.0,
            count: columns,
            step: x.1,
        },
        Vector {
            at: y.0,
            count: rows,
            step: y.1,
        },
    );
    let (a, x) = (matrix.read::<T>(state.stream)?, from.read::<T>(state.stream)?);
    let old = to.read::<T>(state.stream)?;
    let sums = (0..rows).zip(&old).map(|(row, old)| {
        let terms = (0..columns).zip(&x).map(|(column, x)| {
            let at = matrix.position(is_transposed, row, column);
            a.get(at).copied().unwrap_or_default() * *x
        });
        alpha * terms.fold(T::default(), |sum, term| sum + term) + beta * *old
    });
    to.write(&sums.collect::<Vec<T>>(), state.stream)
}

exported! {
    cublasSgemv_v2(handle: *mut c_void, trans: i32, m: i32, n: i32, alpha: *const f32, a: u64, lda: i32, x: u64, incx: i32, beta: *const f32, y: u64, incy: i32) =>
        multiply_vector(handle, trans, Matrix { at: a, rows: m, columns: n, leading: lda }, alpha, (x, incx), beta, (y, incy));
    cublasSgemm_v2(handle: *mut c_void, transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: *const f32, a: u64, lda: i32, b: u64, ldb: i32, beta: *const f32, c: u64, ldc: i32) =>
        multiply(handle, Product { operations: [transa, transb], sizes: [m, n, k], at: [a, b, c], leading: [lda, ldb, ldc] }, alpha, beta);
    cublasSgemmStridedBatched(handle: *mut c_void, transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: *const f32, a: u64, lda: i32, stride_a: i64, b: u64, ldb: i32, stride_b: i64, beta: *const f32, c: u64, ldc: i32, stride_c: i64, batches: i32) =>
        multiply_batch(handle, Product { operations: [transa, transb], sizes: [m, n, k], at: [a, b, c], leading: [lda, ldb, ldc] }, alpha, beta, [stride_a, stride_b, stride_c], batches);
    cublasDgemv_v2(handle: *mut c_void, trans: i32, m: i32, n: i32, alpha: *const f64, a: u64, lda: i32, x: u64, incx: i32, beta: *const f64, y: u64, incy: i32) =>
        multiply_vector(handle, trans, Matrix { at: a, rows: m, columns: n, leading: lda }, alpha, (x, incx), beta, (y, incy));
    cublasDgemm_v2(handle: *mut c_void, transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: *const f64, a: u64, lda: i32, b: u64, ldb: i32, beta: *const f64, c: u64, ldc: i32) =>
        multiply(handle, Product { operations: [transa, transb], sizes: [m, n, k], at: [a, b, c], leading: [lda, ldb, ldc] }, alpha, beta);
    cublasDgemmStridedBatched(handle: *mut c_void, transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: *const f64, a: u64, lda: i32, stride_a: i64, b: u64, ldb: i32, stride_b: i64, beta: *const f64, c: u64, ldc: i32, stride_c: i64, batches: i32) =>
        multiply_batch(handle, Product { operations: [transa, transb], sizes: [m, n, k], at: [a, b, c], leading: [lda, ldb, ldc] }, alpha, beta, [stride_a, stride_b, stride_c], batches);
    cublasHgemm(handle: *mut c_void, transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: *const u16, a: u64, lda: i32, b: u64, ldb: i32, beta: *const u16, c: u64, ldc: i32) =>
        multiply_halves(handle, Product { operations: [transa, transb], sizes: [m, n, k], at: [a, b, c], leading: [lda, ldb, ldc] }, alpha, beta);
    cublasGemmEx(handle: *mut c_void, transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: *const c_void, a: u64, type_a: i32, lda: i32, b: u64, type_b: i32, ldb: i32, beta: *const c_void, c: u64, type_c: i32, ldc: i32, compute: i32, _algorithm: i32) =>
        multiply_typed(handle, Product { operations: [transa, transb], sizes: [m, n, k], at: [a, b, c], leading: [lda, ldb, ldc] }, alpha, beta, Types { stored: [type_a, type_b, type_c], compute }, [0; 3], 1);
    cublasGemmStridedBatchedEx(handle: *mut c_void, transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: *const c_void, a: u64, type_a: i32, lda: i32, stride_a: i64, b: u64, type_b: i32, ldb: i32, stride_b: i64, beta: *const c_void, c: u64, type_c: i32, ldc: i32, stride_c: i64, batches: i32, compute: i32, _algorithm: i32) =>
        multiply_typed(handle, Product { operations: [transa, transb], sizes: [m, n, k], at: [a, b, c], leading: [lda, ldb, ldc] }, alpha, beta, Types { stored: [type_a, type_b, type_c], compute }, [stride_a, stride_b, stride_c], batches);
}

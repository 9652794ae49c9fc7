//! Checks of arguments at the client: whether a call is sure to pass the library's own checks.
//!
//! Such a call need not wait. Any other call waits for its answer, so that the library decides, and its status comes from
//! the call that is wrong.

/// `CUBLAS_OP_N`.
const NOT_TRANSPOSED: i32 = 0;
/// `CUBLAS_OP_C`, the last operation.
const LAST_OPERATION: i32 = 2;

/// `CUDA_R_32F`.
const FLOAT: i32 = 0;
/// `CUDA_R_64F`.
const DOUBLE: i32 = 1;
/// `CUDA_R_16F`.
const HALF: i32 = 2;
/// `CUDA_R_16BF`.
const BFLOAT: i32 = 14;
/// `CUBLAS_COMPUTE_16F`.
const COMPUTE_HALF: i32 = 64;
/// `CUBLAS_COMPUTE_32F`.
const COMPUTE_FLOAT: i32 = 68;
/// `CUBLAS_COMPUTE_32F_PEDANTIC`.
const COMPUTE_FLOAT_PEDANTIC: i32 = 69;
/// `CUBLAS_COMPUTE_64F`.
const COMPUTE_DOUBLE: i32 = 70;
/// `CUBLAS_GEMM_DEFAULT`.
const DEFAULT_ALGORITHM: i32 = -1;
/// `CUBLAS_GEMM_DEFAULT_TENSOR_OP`.
const DEFAULT_TENSOR_ALGORITHM: i32 = 99;

/// Returns whether a number is `CUBLAS_OP_N`, `T` or `C`.
const fn is_operation(operation: i32) -> bool {
    NOT_TRANSPOSED <= operation && operation <= LAST_OPERATION
}

/// Returns whether a switch is off or on.
#[must_use]
pub const fn is_switch(value: i32) -> bool {
    value == 0 || value == 1
}

/// Returns whether the arguments of a call on one vector are ordinary.
#[must_use]
pub const fn vector(count: i32, step: i32) -> bool {
    count > 0 && step > 0
}

/// Returns whether the arguments of a call on two vectors are ordinary.
#[must_use]
pub const fn vectors(count: i32, step_x: i32, step_y: i32) -> bool {
    count > 0 && step_x != 0 && step_y != 0
}

/// Returns whether a matrix with this many rows has an ordinary leading dimension.
const fn is_dimension(rows: i32, leading: i32) -> bool {
    leading >= 1 && leading >= rows
}

/// Returns whether the arguments of a product of a matrix and a vector are ordinary.
#[must_use]
pub const fn matrix_vector(operation: i32, rows: i32, columns: i32, leading: i32, step_x: i32, step_y: i32) -> bool {
    is_operation(operation) && rows > 0 && columns > 0 && is_dimension(rows, leading) && step_x != 0 && step_y != 0
}

/// Shape of a product of two matrices, as cuBLAS takes it: column by column.
#[derive(Clone, Copy, Debug)]
pub struct ProductShape {
    /// Operations on both factors.
    pub operations: [i32; 2],
    /// Rows of the result, columns of the result, and length of each sum.
    pub sizes: [i32; 3],
    /// Leading dimensions of both factors and of the result.
    pub leading: [i32; 3],
}

/// Returns whether the arguments of a product of two matrices are ordinary.
#[must_use]
pub const fn matrix_product(shape: ProductShape) -> bool {
    let [first, second] = shape.operations;
    let [rows, columns, depth] = shape.sizes;
    let [leading_first, leading_second, leading_result] = shape.leading;
    let rows_first = if first == NOT_TRANSPOSED { rows } else { depth };
    let rows_second = if second == NOT_TRANSPOSED { depth } else { columns };
    is_operation(first)
        && is_operation(second)
        && rows > 0
        && columns > 0
        && depth > 0
        && is_dimension(rows_first, leading_first)
        && is_dimension(rows_second, leading_second)
        && is_dimension(rows, leading_result)
}

/// Returns whether a count of normally distributed numbers is ordinary: they are made in pairs.
#[must_use]
pub const fn pairs(count: usize) -> bool {
    count > 0 && count.is_multiple_of(2)
}

/// Returns whether cuBLAS is sure to multiply matrices of these types (`cudaDataType_t`, of both factors and of the
/// result) with this type of computation and this choice of an algorithm.
#[must_use]
pub const fn product_types(types: [i32; 3], compute: i32, algorithm: i32) -> bool {
    let is_known = match (types, compute) {
        // Floats, also with faster forms of the computation.
        ([FLOAT, FLOAT, FLOAT], COMPUTE_FLOAT | COMPUTE_FLOAT_PEDANTIC | 74 | 75 | 77)
        | ([DOUBLE, DOUBLE, DOUBLE], COMPUTE_DOUBLE)
        | ([HALF, HALF, HALF], COMPUTE_HALF)
        | ([HALF, HALF, HALF | FLOAT] | [BFLOAT, BFLOAT, BFLOAT | FLOAT], COMPUTE_FLOAT) => true,
        _ => false,
    };
    is_known && (algorithm == DEFAULT_ALGORITHM || algorithm == DEFAULT_TENSOR_ALGORITHM)
}

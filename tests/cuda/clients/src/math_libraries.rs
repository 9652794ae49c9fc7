//! cuBLAS and cuRAND as client programs use them: loaded by name, called by pointers.

use crate::gpu::ClientResult;
use std::ffi::{CStr, CString, c_char, c_void};

/// Handle of a library's object.
pub type Handle = *mut c_void;

fn load(name: &str) -> ClientResult<*mut c_void> {
    let path = CString::new(name).map_err(|e| e.to_string())?;
    // SAFETY: the call loads a library, as every program that uses it does.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        // SAFETY: the loader has just failed and returns the reason.
        let why = unsafe { CStr::from_ptr(libc::dlerror()) };
        return Err(format!("{name}: {}", why.to_string_lossy()));
    }
    Ok(library)
}

macro_rules! library {
    ($library:ident $($name:ident ($($arg:ident: $type:ty),*);)*) => {
        /// The functions of a library.
        #[allow(non_snake_case, reason = "the library's own names")]
        pub struct $library {
            $($name: unsafe extern "C" fn($($type),*) -> i32,)*
        }

        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the library's own")]
        impl $library {
            /// Loads a library by its name.
            pub fn load(name: &str) -> ClientResult<Self> {
                let library = load(name)?;
                let find = |function: &str| {
                    let symbol = CString::new(function).map_err(|e| e.to_string())?;
                    // SAFETY: the handle is from the loader, and the string ends in a zero.
                    let at = unsafe { libc::dlsym(library, symbol.as_ptr()) };
                    if at.is_null() { Err(format!("{name} has no {function}")) } else { Ok(at) }
                };
                Ok(Self {
                    $($name: {
                        let at = find(stringify!($name))?;
                        // SAFETY: the library's function of this name has this signature.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> i32>(at) }
                    },)*
                })
            }

            $(pub fn $name(&self $(, $arg: $type)*) -> i32 {
                // SAFETY: the programs pass what the library's manual requires; wrong values are those that it checks.
                unsafe { (self.$name)($($arg),*) }
            })*
        }
    };
}

library! { Cublas
    cublasCreate_v2(handle: *mut Handle);
    cublasDestroy_v2(handle: Handle);
    cublasGetVersion_v2(handle: Handle, version: *mut i32);
    cublasGetProperty(property: i32, value: *mut i32);
    cublasSetStream_v2(handle: Handle, stream: *mut c_void);
    cublasGetStream_v2(handle: Handle, stream: *mut *mut c_void);
    cublasSetWorkspace_v2(handle: Handle, workspace: u64, bytes: usize);
    cublasSetPointerMode_v2(handle: Handle, mode: i32);
    cublasGetPointerMode_v2(handle: Handle, mode: *mut i32);
    cublasSetAtomicsMode(handle: Handle, mode: i32);
    cublasGetAtomicsMode(handle: Handle, mode: *mut i32);
    cublasSetMathMode(handle: Handle, mode: i32);
    cublasGetMathMode(handle: Handle, mode: *mut i32);
    cublasSasum_v2(handle: Handle, n: i32, x: u64, incx: i32, result: *mut f32);
    cublasDasum_v2(handle: Handle, n: i32, x: u64, incx: i32, result: *mut f64);
    cublasSnrm2_v2(handle: Handle, n: i32, x: u64, incx: i32, result: *mut f32);
    cublasDnrm2_v2(handle: Handle, n: i32, x: u64, incx: i32, result: *mut f64);
    cublasIsamax_v2(handle: Handle, n: i32, x: u64, incx: i32, result: *mut i32);
    cublasIdamax_v2(handle: Handle, n: i32, x: u64, incx: i32, result: *mut i32);
    cublasScopy_v2(handle: Handle, n: i32, x: u64, incx: i32, y: u64, incy: i32);
    cublasDcopy_v2(handle: Handle, n: i32, x: u64, incx: i32, y: u64, incy: i32);
    cublasSdot_v2(handle: Handle, n: i32, x: u64, incx: i32, y: u64, incy: i32, result: *mut f32);
    cublasDdot_v2(handle: Handle, n: i32, x: u64, incx: i32, y: u64, incy: i32, result: *mut f64);
    cublasSaxpy_v2(handle: Handle, n: i32, alpha: *const f32, x: u64, incx: i32, y: u64, incy: i32);
    cublasDaxpy_v2(handle: Handle, n: i32, alpha: *const f64, x: u64, incx: i32, y: u64, incy: i32);
    cublasSscal_v2(handle: Handle, n: i32, alpha: *const f32, x: u64, incx: i32);
    cublasDscal_v2(handle: Handle, n: i32, alpha: *const f64, x: u64, incx: i32);
    cublasSgemv_v2(handle: Handle, trans: i32, m: i32, n: i32, alpha: *const f32, a: u64, lda: i32, x: u64, incx: i32, beta: *const f32, y: u64, incy: i32);
    cublasDgemv_v2(handle: Handle, trans: i32, m: i32, n: i32, alpha: *const f64, a: u64, lda: i32, x: u64, incx: i32, beta: *const f64, y: u64, incy: i32);
    cublasSgemm_v2(handle: Handle, transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: *const f32, a: u64, lda: i32, b: u64, ldb: i32, beta: *const f32, c: u64, ldc: i32);
    cublasDgemm_v2(handle: Handle, transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: *const f64, a: u64, lda: i32, b: u64, ldb: i32, beta: *const f64, c: u64, ldc: i32);
    cublasHgemm(handle: Handle, transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: *const u16, a: u64, lda: i32, b: u64, ldb: i32, beta: *const u16, c: u64, ldc: i32);
    cublasSgemmStridedBatched(handle: Handle, transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: *const f32, a: u64, lda: i32, stride_a: i64, b: u64, ldb: i32, stride_b: i64, beta: *const f32, c: u64, ldc: i32, stride_c: i64, batches: i32);
    cublasDgemmStridedBatched(handle: Handle, transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: *const f64, a: u64, lda: i32, stride_a: i64, b: u64, ldb: i32, stride_b: i64, beta: *const f64, c: u64, ldc: i32, stride_c: i64, batches: i32);
    cublasGemmEx(handle: Handle, transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: *const c_void, a: u64, type_a: i32, lda: i32, b: u64, type_b: i32, ldb: i32, beta: *const c_void, c: u64, type_c: i32, ldc: i32, compute: i32, algorithm: i32);
    cublasGemmStridedBatchedEx(handle: Handle, transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: *const c_void, a: u64, type_a: i32, lda: i32, stride_a: i64, b: u64, type_b: i32, ldb: i32, stride_b: i64, beta: *const c_void, c: u64, type_c: i32, ldc: i32, stride_c: i64, batches: i32, compute: i32, algorithm: i32);
    cublasSetVector(n: i32, bytes: i32, x: *const c_void, incx: i32, y: u64, incy: i32);
    cublasGetVector(n: i32, bytes: i32, x: u64, incx: i32, y: *mut c_void, incy: i32);
    cublasSetMatrix(rows: i32, columns: i32, bytes: i32, a: *const c_void, lda: i32, b: u64, ldb: i32);
    cublasGetMatrix(rows: i32, columns: i32, bytes: i32, a: u64, lda: i32, b: *mut c_void, ldb: i32);
    cublasSetVectorAsync(n: i32, bytes: i32, x: *const c_void, incx: i32, y: u64, incy: i32, stream: *mut c_void);
    cublasGetVectorAsync(n: i32, bytes: i32, x: u64, incx: i32, y: *mut c_void, incy: i32, stream: *mut c_void);
    cublasSetMatrixAsync(rows: i32, columns: i32, bytes: i32, a: *const c_void, lda: i32, b: u64, ldb: i32, stream: *mut c_void);
    cublasGetMatrixAsync(rows: i32, columns: i32, bytes: i32, a: u64, lda: i32, b: *mut c_void, ldb: i32, stream: *mut c_void);
}

library! { Curand
    curandCreateGenerator(generator: *mut Handle, kind: i32);
    curandCreateGeneratorHost(generator: *mut Handle, kind: i32);
    curandDestroyGenerator(generator: Handle);
    curandGetVersion(version: *mut i32);
    curandGetProperty(property: i32, value: *mut i32);
    curandSetStream(generator: Handle, stream: *mut c_void);
    curandSetPseudoRandomGeneratorSeed(generator: Handle, seed: u64);
    curandSetGeneratorOffset(generator: Handle, offset: u64);
    curandSetGeneratorOrdering(generator: Handle, order: i32);
    curandSetQuasiRandomGeneratorDimensions(generator: Handle, dimensions: u32);
    curandGenerateSeeds(generator: Handle);
    curandGenerate(generator: Handle, to: *mut u32, count: usize);
    curandGenerateLongLong(generator: Handle, to: *mut u64, count: usize);
    curandGenerateUniform(generator: Handle, to: *mut f32, count: usize);
    curandGenerateUniformDouble(generator: Handle, to: *mut f64, count: usize);
    curandGenerateNormal(generator: Handle, to: *mut f32, count: usize, mean: f32, deviation: f32);
    curandGenerateNormalDouble(generator: Handle, to: *mut f64, count: usize, mean: f64, deviation: f64);
    curandGenerateLogNormal(generator: Handle, to: *mut f32, count: usize, mean: f32, deviation: f32);
    curandGenerateLogNormalDouble(generator: Handle, to: *mut f64, count: usize, mean: f64, deviation: f64);
    curandGeneratePoisson(generator: Handle, to: *mut u32, count: usize, lambda: f64);
}

/// Returns the name that cuBLAS has for a status.
pub fn status_name(library: &str, status: i32) -> ClientResult<String> {
    let library = load(library)?;
    // SAFETY: the handle is from the loader, and the string ends in a zero.
    let at = unsafe { libc::dlsym(library, c"cublasGetStatusName".as_ptr()) };
    if at.is_null() {
        return Err("there is no cublasGetStatusName".to_owned());
    }
    // SAFETY: the library's function of this name has this signature.
    let name = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(i32) -> *const c_char>(at) };
    // SAFETY: the library returns a constant string.
    Ok(unsafe { CStr::from_ptr(name(status)) }.to_string_lossy().into_owned())
}

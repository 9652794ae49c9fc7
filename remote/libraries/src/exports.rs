//! The exported functions. The packages in `cublas-12/`, `cublas-13/` and `curand/` expand these macros.

/// What the expanded macros use.
pub mod table {
    pub use crate::cublas::{CopyDirection, HostCopy};
    pub use crate::{cublas, curand, forwarded, status_of};
    pub use remote_calls::library::{
        ComputeType, CreatedHostGenerator, CreatedObject, DestroyedObject, DeviceAddress, Generated, GeneratedCount,
        LibraryObject, LibraryStatus, PointerMode, ResultType, ScalarArgument, ScalarBytes, ScalarResult,
        StreamArgument,
    };
    pub use remote_calls::{Form, Output, Value};
    pub use std::ffi::{c_char, c_void};
}

/// Exports the functions of a table that are `exported` there.
#[macro_export]
macro_rules! exported_table_functions {
    ($($name:ident $policy:ident $export:ident [$($certain:tt)*] $args:tt;)*) => {
        $($crate::exported_table_functions!(@$export $name $args);)*
    };
    (@inner $($rest:tt)*) => {};
    (@exported $name:ident ($($arg:ident: $form:ty),*)) => {
        /// The library's function of this name.
        ///
        /// # Safety
        /// The same as the library's function.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, non_snake_case, reason = "the library's own")]
        pub unsafe extern "C" fn $name($($arg: <$form as Form>::Abi),*) -> LibraryStatus {
            status_of(forwarded::$name($($arg),*))
        }
    };
}

/// Exports functions with code of their own.
#[macro_export]
macro_rules! exported_library_functions {
    ($($name:ident ($($arg:ident: $type:ty),*) => $answer:expr;)*) => {
        $(
            /// The library's function of this name.
            ///
            /// # Safety
            /// The same as the library's function.
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments, non_snake_case, reason = "the library's own")]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> LibraryStatus {
                status_of($answer)
            }
        )*
    };
}

/// Exports cuBLAS as a major version.
#[macro_export]
macro_rules! export_cublas_functions {
    ($major:literal) => {
        mod table_functions {
            use $crate::exported_table_functions;
            use $crate::exports::table::*;
            $crate::remote_calls::cublas_functions!(exported_table_functions);
        }

        mod own_functions {
            use $crate::exports::table::*;
            $crate::exported_library_functions! {
                cublasCreate_v2 (handle: *mut *mut c_void) => cublas::create(handle, $major);
                cublasDestroy_v2 (handle: *mut c_void) => cublas::destroy(handle);
                cublasGetVersion_v2 (handle: *mut c_void, version: *mut i32) => cublas::write_version(handle, version);
                cublasSetStream_v2 (handle: *mut c_void, stream: *mut c_void) => cublas::set_stream(handle, stream);
                cublasGetStream_v2 (handle: *mut c_void, stream: *mut *mut c_void) => cublas::write_stream(handle, stream);
                cublasSetPointerMode_v2 (handle: *mut c_void, mode: i32) => cublas::set_pointer_mode(handle, mode);
                cublasGetPointerMode_v2 (handle: *mut c_void, mode: *mut i32) => cublas::write_pointer_mode(handle, mode);
                cublasSetVector (n: i32, bytes: i32, x: *const c_void, incx: i32, y: u64, incy: i32) => cublas::copy(HostCopy::vector(n, bytes, incx, incy), CopyDirection::ToDevice(x, y), None);
                cublasGetVector (n: i32, bytes: i32, x: u64, incx: i32, y: *mut c_void, incy: i32) => cublas::copy(HostCopy::vector(n, bytes, incx, incy), CopyDirection::ToHost(x, y), None);
                cublasSetMatrix (rows: i32, columns: i32, bytes: i32, a: *const c_void, lda: i32, b: u64, ldb: i32) => cublas::copy(HostCopy { elements: rows, rows: columns, element_bytes: bytes, source_step: lda, target_step: ldb }, CopyDirection::ToDevice(a, b), None);
                cublasGetMatrix (rows: i32, columns: i32, bytes: i32, a: u64, lda: i32, b: *mut c_void, ldb: i32) => cublas::copy(HostCopy { elements: rows, rows: columns, element_bytes: bytes, source_step: lda, target_step: ldb }, CopyDirection::ToHost(a, b), None);
                cublasSetVectorAsync (n: i32, bytes: i32, x: *const c_void, incx: i32, y: u64, incy: i32, stream: *mut c_void) => cublas::copy(HostCopy::vector(n, bytes, incx, incy), CopyDirection::ToDevice(x, y), Some(stream));
                cublasGetVectorAsync (n: i32, bytes: i32, x: u64, incx: i32, y: *mut c_void, incy: i32, stream: *mut c_void) => cublas::copy(HostCopy::vector(n, bytes, incx, incy), CopyDirection::ToHost(x, y), Some(stream));
                cublasSetMatrixAsync (rows: i32, columns: i32, bytes: i32, a: *const c_void, lda: i32, b: u64, ldb: i32, stream: *mut c_void) => cublas::copy(HostCopy { elements: rows, rows: columns, element_bytes: bytes, source_step: lda, target_step: ldb }, CopyDirection::ToDevice(a, b), Some(stream));
                cublasGetMatrixAsync (rows: i32, columns: i32, bytes: i32, a: u64, lda: i32, b: *mut c_void, ldb: i32, stream: *mut c_void) => cublas::copy(HostCopy { elements: rows, rows: columns, element_bytes: bytes, source_step: lda, target_step: ldb }, CopyDirection::ToHost(a, b), Some(stream));
            }

            /// The library's function of this name.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "the library's own name")]
            pub extern "C" fn cublasGetStatusName(status: LibraryStatus) -> *const c_char {
                cublas::status_name(status)
            }

            /// The library's function of this name.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "the library's own name")]
            pub extern "C" fn cublasGetStatusString(status: LibraryStatus) -> *const c_char {
                cublas::status_text(status)
            }
        }
    };
}

/// Exports cuRAND.
#[macro_export]
macro_rules! export_curand_functions {
    () => {
        mod table_functions {
            use $crate::exported_table_functions;
            use $crate::exports::table::*;
            $crate::remote_calls::curand_functions!(exported_table_functions);
        }

        mod own_functions {
            use $crate::exports::table::*;
            $crate::exported_library_functions! {
                curandCreateGenerator (generator: *mut *mut c_void, kind: i32) => curand::create(generator, kind);
                curandCreateGeneratorHost (generator: *mut *mut c_void, kind: i32) => curand::create_host(generator, kind);
                curandDestroyGenerator (generator: *mut c_void) => curand::destroy(generator);
                curandSetStream (generator: *mut c_void, stream: *mut c_void) => curand::set_stream(generator, stream);
            }
        }
    };
}

//! The table of library functions, and their numbers in messages.

use super::{
    ComputeType, CreatedHostGenerator, CreatedObject, DestroyedObject, DeviceAddress, Generated, GeneratedCount,
    LibraryArgument, LibraryForm, LibraryObject, NvidiaLibrary, PointerMode, ResultType, ScalarArgument, ScalarBytes,
    ScalarResult, StreamArgument,
};
use crate::{Decoder, MessageError, Output, Policy, Scalar, Value};

/// Passes the functions of cuBLAS to a macro: `cublas_functions!(list)` becomes
/// `list! { name policy export [condition] (argument: form, …); … }`. Tokens after the macro's name come first.
///
/// The names and the order of arguments are those of `cublas_api.h` of CUDA 12 and 13. A `Quiet` call does not wait if
/// its results are in device memory and its condition holds: then the library's own checks are sure to pass. `exported`
/// functions need nothing at the client but this line; `inner` ones are called by code that keeps state there.
#[macro_export]
macro_rules! cublas_functions {
    ($with:ident $($extra:tt)*) => {
        $with! {
            $($extra)*
            cublasCreate_v2 Answered inner [] (handle: CreatedObject);
            cublasDestroy_v2 Answered inner [] (handle: DestroyedObject);
            cublasGetVersion_v2 Answered inner [] (handle: LibraryObject, version: Output<i32>);
            cublasGetProperty Answered exported [] (property: Value<i32>, value: Output<i32>);
            cublasSetStream_v2 Quiet inner [] (handle: LibraryObject, stream: StreamArgument);
            cublasSetWorkspace_v2 Answered exported [] (handle: LibraryObject, workspace: DeviceAddress, bytes: Value<usize>);
            cublasSetPointerMode_v2 Quiet inner [$crate::library::checks::is_switch(mode)] (handle: LibraryObject, mode: PointerMode);
            cublasSetAtomicsMode Quiet exported [$crate::library::checks::is_switch(mode)] (handle: LibraryObject, mode: Value<i32>);
            cublasGetAtomicsMode Answered exported [] (handle: LibraryObject, mode: Output<i32>);
            cublasSetMathMode Quiet exported [$crate::library::checks::is_switch(mode)] (handle: LibraryObject, mode: Value<i32>);
            cublasGetMathMode Answered exported [] (handle: LibraryObject, mode: Output<i32>);
            cublasSasum_v2 Quiet exported [$crate::library::checks::vector(n, incx)] (handle: LibraryObject, n: Value<i32>, x: DeviceAddress, incx: Value<i32>, result: ScalarResult<f32>);
            cublasSnrm2_v2 Quiet exported [$crate::library::checks::vector(n, incx)] (handle: LibraryObject, n: Value<i32>, x: DeviceAddress, incx: Value<i32>, result: ScalarResult<f32>);
            cublasIsamax_v2 Quiet exported [$crate::library::checks::vector(n, incx)] (handle: LibraryObject, n: Value<i32>, x: DeviceAddress, incx: Value<i32>, result: ScalarResult<i32>);
            cublasScopy_v2 Quiet exported [$crate::library::checks::vectors(n, incx, incy)] (handle: LibraryObject, n: Value<i32>, x: DeviceAddress, incx: Value<i32>, y: DeviceAddress, incy: Value<i32>);
            cublasSdot_v2 Quiet exported [$crate::library::checks::vectors(n, incx, incy)] (handle: LibraryObject, n: Value<i32>, x: DeviceAddress, incx: Value<i32>, y: DeviceAddress, incy: Value<i32>, result: ScalarResult<f32>);
            cublasSaxpy_v2 Quiet exported [$crate::library::checks::vectors(n, incx, incy)] (handle: LibraryObject, n: Value<i32>, alpha: ScalarArgument<f32>, x: DeviceAddress, incx: Value<i32>, y: DeviceAddress, incy: Value<i32>);
            cublasSscal_v2 Quiet exported [$crate::library::checks::vector(n, incx)] (handle: LibraryObject, n: Value<i32>, alpha: ScalarArgument<f32>, x: DeviceAddress, incx: Value<i32>);
            cublasSgemv_v2 Quiet exported [$crate::library::checks::matrix_vector(trans, m, n, lda, incx, incy)] (handle: LibraryObject, trans: Value<i32>, m: Value<i32>, n: Value<i32>, alpha: ScalarArgument<f32>, a: DeviceAddress, lda: Value<i32>, x: DeviceAddress, incx: Value<i32>, beta: ScalarArgument<f32>, y: DeviceAddress, incy: Value<i32>);
            cublasDasum_v2 Quiet exported [$crate::library::checks::vector(n, incx)] (handle: LibraryObject, n: Value<i32>, x: DeviceAddress, incx: Value<i32>, result: ScalarResult<f64>);
            cublasDnrm2_v2 Quiet exported [$crate::library::checks::vector(n, incx)] (handle: LibraryObject, n: Value<i32>, x: DeviceAddress, incx: Value<i32>, result: ScalarResult<f64>);
            cublasIdamax_v2 Quiet exported [$crate::library::checks::vector(n, incx)] (handle: LibraryObject, n: Value<i32>, x: DeviceAddress, incx: Value<i32>, result: ScalarResult<i32>);
            cublasDcopy_v2 Quiet exported [$crate::library::checks::vectors(n, incx, incy)] (handle: LibraryObject, n: Value<i32>, x: DeviceAddress, incx: Value<i32>, y: DeviceAddress, incy: Value<i32>);
            cublasDdot_v2 Quiet exported [$crate::library::checks::vectors(n, incx, incy)] (handle: LibraryObject, n: Value<i32>, x: DeviceAddress, incx: Value<i32>, y: DeviceAddress, incy: Value<i32>, result: ScalarResult<f64>);
            cublasDaxpy_v2 Quiet exported [$crate::library::checks::vectors(n, incx, incy)] (handle: LibraryObject, n: Value<i32>, alpha: ScalarArgument<f64>, x: DeviceAddress, incx: Value<i32>, y: DeviceAddress, incy: Value<i32>);
            cublasDscal_v2 Quiet exported [$crate::library::checks::vector(n, incx)] (handle: LibraryObject, n: Value<i32>, alpha: ScalarArgument<f64>, x: DeviceAddress, incx: Value<i32>);
            cublasDgemv_v2 Quiet exported [$crate::library::checks::matrix_vector(trans, m, n, lda, incx, incy)] (handle: LibraryObject, trans: Value<i32>, m: Value<i32>, n: Value<i32>, alpha: ScalarArgument<f64>, a: DeviceAddress, lda: Value<i32>, x: DeviceAddress, incx: Value<i32>, beta: ScalarArgument<f64>, y: DeviceAddress, incy: Value<i32>);
            cublasSgemm_v2 Quiet exported [$crate::library::checks::matrix_product($crate::library::checks::ProductShape { operations: [transa, transb], sizes: [m, n, k], leading: [lda, ldb, ldc] })] (handle: LibraryObject, transa: Value<i32>, transb: Value<i32>, m: Value<i32>, n: Value<i32>, k: Value<i32>, alpha: ScalarArgument<f32>, a: DeviceAddress, lda: Value<i32>, b: DeviceAddress, ldb: Value<i32>, beta: ScalarArgument<f32>, c: DeviceAddress, ldc: Value<i32>);
            cublasDgemm_v2 Quiet exported [$crate::library::checks::matrix_product($crate::library::checks::ProductShape { operations: [transa, transb], sizes: [m, n, k], leading: [lda, ldb, ldc] })] (handle: LibraryObject, transa: Value<i32>, transb: Value<i32>, m: Value<i32>, n: Value<i32>, k: Value<i32>, alpha: ScalarArgument<f64>, a: DeviceAddress, lda: Value<i32>, b: DeviceAddress, ldb: Value<i32>, beta: ScalarArgument<f64>, c: DeviceAddress, ldc: Value<i32>);
            cublasHgemm Quiet exported [$crate::library::checks::matrix_product($crate::library::checks::ProductShape { operations: [transa, transb], sizes: [m, n, k], leading: [lda, ldb, ldc] })] (handle: LibraryObject, transa: Value<i32>, transb: Value<i32>, m: Value<i32>, n: Value<i32>, k: Value<i32>, alpha: ScalarArgument<u16>, a: DeviceAddress, lda: Value<i32>, b: DeviceAddress, ldb: Value<i32>, beta: ScalarArgument<u16>, c: DeviceAddress, ldc: Value<i32>);
            cublasSgemmStridedBatched Quiet exported [$crate::library::checks::matrix_product($crate::library::checks::ProductShape { operations: [transa, transb], sizes: [m, n, k], leading: [lda, ldb, ldc] }) && batches > 0] (handle: LibraryObject, transa: Value<i32>, transb: Value<i32>, m: Value<i32>, n: Value<i32>, k: Value<i32>, alpha: ScalarArgument<f32>, a: DeviceAddress, lda: Value<i32>, stride_a: Value<i64>, b: DeviceAddress, ldb: Value<i32>, stride_b: Value<i64>, beta: ScalarArgument<f32>, c: DeviceAddress, ldc: Value<i32>, stride_c: Value<i64>, batches: Value<i32>);
            cublasDgemmStridedBatched Quiet exported [$crate::library::checks::matrix_product($crate::library::checks::ProductShape { operations: [transa, transb], sizes: [m, n, k], leading: [lda, ldb, ldc] }) && batches > 0] (handle: LibraryObject, transa: Value<i32>, transb: Value<i32>, m: Value<i32>, n: Value<i32>, k: Value<i32>, alpha: ScalarArgument<f64>, a: DeviceAddress, lda: Value<i32>, stride_a: Value<i64>, b: DeviceAddress, ldb: Value<i32>, stride_b: Value<i64>, beta: ScalarArgument<f64>, c: DeviceAddress, ldc: Value<i32>, stride_c: Value<i64>, batches: Value<i32>);
            cublasGemmEx Quiet exported [$crate::library::checks::matrix_product($crate::library::checks::ProductShape { operations: [transa, transb], sizes: [m, n, k], leading: [lda, ldb, ldc] }) && $crate::library::checks::product_types([type_a, type_b, type_c], compute, algorithm)] (handle: LibraryObject, transa: Value<i32>, transb: Value<i32>, m: Value<i32>, n: Value<i32>, k: Value<i32>, alpha: ScalarBytes, a: DeviceAddress, type_a: Value<i32>, lda: Value<i32>, b: DeviceAddress, type_b: Value<i32>, ldb: Value<i32>, beta: ScalarBytes, c: DeviceAddress, type_c: ResultType, ldc: Value<i32>, compute: ComputeType, algorithm: Value<i32>);
            cublasGemmStridedBatchedEx Quiet exported [$crate::library::checks::matrix_product($crate::library::checks::ProductShape { operations: [transa, transb], sizes: [m, n, k], leading: [lda, ldb, ldc] }) && batches > 0 && $crate::library::checks::product_types([type_a, type_b, type_c], compute, algorithm)] (handle: LibraryObject, transa: Value<i32>, transb: Value<i32>, m: Value<i32>, n: Value<i32>, k: Value<i32>, alpha: ScalarBytes, a: DeviceAddress, type_a: Value<i32>, lda: Value<i32>, stride_a: Value<i64>, b: DeviceAddress, type_b: Value<i32>, ldb: Value<i32>, stride_b: Value<i64>, beta: ScalarBytes, c: DeviceAddress, type_c: ResultType, ldc: Value<i32>, stride_c: Value<i64>, batches: Value<i32>, compute: ComputeType, algorithm: Value<i32>);
        }
    };
}

/// Passes the functions of cuRAND to a macro, in the form of [`cublas_functions!`]. The names and the order of arguments
/// are those of `curand.h` of CUDA 12 and 13.
#[macro_export]
macro_rules! curand_functions {
    ($with:ident $($extra:tt)*) => {
        $with! {
            $($extra)*
            curandCreateGenerator Answered inner [] (generator: CreatedObject, kind: Value<i32>);
            curandCreateGeneratorHost Answered inner [] (generator: CreatedHostGenerator, kind: Value<i32>);
            curandDestroyGenerator Answered inner [] (generator: DestroyedObject);
            curandGetVersion Answered exported [] (version: Output<i32>);
            curandGetProperty Answered exported [] (property: Value<i32>, value: Output<i32>);
            curandSetStream Quiet inner [] (generator: LibraryObject, stream: StreamArgument);
            curandSetPseudoRandomGeneratorSeed Answered exported [] (generator: LibraryObject, seed: Value<u64>);
            curandSetGeneratorOffset Answered exported [] (generator: LibraryObject, offset: Value<u64>);
            curandSetGeneratorOrdering Answered exported [] (generator: LibraryObject, order: Value<i32>);
            curandSetQuasiRandomGeneratorDimensions Answered exported [] (generator: LibraryObject, dimensions: Value<u32>);
            curandGenerateSeeds Answered exported [] (generator: LibraryObject);
            curandGenerate Quiet exported [count > 0] (generator: LibraryObject, to: Generated<u32>, count: GeneratedCount);
            curandGenerateLongLong Quiet exported [false] (generator: LibraryObject, to: Generated<u64>, count: GeneratedCount);
            curandGenerateUniform Quiet exported [count > 0] (generator: LibraryObject, to: Generated<f32>, count: GeneratedCount);
            curandGenerateUniformDouble Quiet exported [count > 0] (generator: LibraryObject, to: Generated<f64>, count: GeneratedCount);
            curandGenerateNormal Quiet exported [$crate::library::checks::pairs(count)] (generator: LibraryObject, to: Generated<f32>, count: GeneratedCount, mean: Value<f32>, deviation: Value<f32>);
            curandGenerateNormalDouble Quiet exported [$crate::library::checks::pairs(count)] (generator: LibraryObject, to: Generated<f64>, count: GeneratedCount, mean: Value<f64>, deviation: Value<f64>);
            curandGenerateLogNormal Quiet exported [$crate::library::checks::pairs(count)] (generator: LibraryObject, to: Generated<f32>, count: GeneratedCount, mean: Value<f32>, deviation: Value<f32>);
            curandGenerateLogNormalDouble Quiet exported [$crate::library::checks::pairs(count)] (generator: LibraryObject, to: Generated<f64>, count: GeneratedCount, mean: Value<f64>, deviation: Value<f64>);
            curandGeneratePoisson Quiet exported [count > 0 && lambda > 0.0] (generator: LibraryObject, to: Generated<u32>, count: GeneratedCount, lambda: Value<f64>);
        }
    };
}

macro_rules! function_ids {
    (
        [$($other:ident $other_policy:ident $other_export:ident [$($other_certain:tt)*] ($($other_arg:ident: $other_form:ty),*);)*]
        $($name:ident $policy:ident $export:ident [$($certain:tt)*] ($($arg:ident: $form:ty),*);)*
    ) => {
        /// A function of a library, by its number in messages.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(non_camel_case_types, missing_docs, reason = "the libraries' own names")]
        #[repr(u16)]
        pub enum LibraryFunction {
            $($name,)*
            $($other,)*
        }

        impl LibraryFunction {
            /// All functions, by their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)* $(Self::$other,)*];

            /// Returns the name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                    $(Self::$other => stringify!($other),)*
                }
            }

            /// Returns the library that has the function.
            #[must_use]
            pub const fn library(self) -> NvidiaLibrary {
                match self {
                    $(Self::$name => NvidiaLibrary::Cublas,)*
                    $(Self::$other => NvidiaLibrary::Curand,)*
                }
            }

            /// Returns how a call travels: `Quiet` if it waits only for results in host memory.
            #[must_use]
            pub const fn policy(self) -> Policy {
                match self {
                    $(Self::$name => Policy::$policy,)*
                    $(Self::$other => Policy::$other_policy,)*
                }
            }

            /// Returns whether the first argument names the object that the call is about.
            #[must_use]
            pub const fn has_object(self) -> bool {
                match self {
                    $(Self::$name => false $(|| <$form as LibraryForm>::NAMES_OBJECT)*,)*
                    $(Self::$other => false $(|| <$other_form as LibraryForm>::NAMES_OBJECT)*,)*
                }
            }
        }

        /// Reads the arguments of a function without their meaning.
        pub(super) fn read_arguments<'m>(
            function: LibraryFunction,
            decoder: &mut Decoder<'m>,
            arguments: &mut Vec<LibraryArgument<'m>>,
        ) -> Result<(), MessageError> {
            match function {
                $(LibraryFunction::$name => { $(arguments.extend(<$form as LibraryForm>::read(decoder)?);)* })*
                $(LibraryFunction::$other => { $(arguments.extend(<$other_form as LibraryForm>::read(decoder)?);)* })*
            }
            Ok(())
        }

        /// The table as text, for the digest of all tables.
        #[allow(clippy::redundant_pub_crate, reason = "the table of calls uses it")]
        pub(crate) const TABLE_TEXT: &str = concat!(
            $(stringify!($name), stringify!($policy), $(stringify!($form), ",",)* ";",)*
            $(stringify!($other), stringify!($other_policy), $(stringify!($other_form), ",",)* ";",)*
        );
    };
}

macro_rules! with_curand {
    ($($functions:tt)*) => {
        crate::cublas_functions!(function_ids [$($functions)*]);
    };
}

crate::curand_functions!(with_curand);

impl Scalar for LibraryFunction {
    const BYTES: usize = 2;

    fn append_to(self, bytes: &mut Vec<u8>) {
        (self as u16).append_to(bytes);
    }

    fn read_from(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let at = decoder.offset();
        let number: u16 = decoder.read()?;
        let function = Self::ALL.get(usize::from(number)).copied();
        function.ok_or(MessageError::Unknown {
            what: "the function of a library",
            value: number.into(),
            at,
        })
    }
}

//! Calls of NVIDIA's libraries above the driver (cuBLAS, cuRAND), which the worker plays on the libraries of its machine.
//!
//! A call is a request of the session like those of the driver: the number of a function, and its arguments in the forms
//! of one table ([`cublas_functions!`](crate::cublas_functions), [`curand_functions!`](crate::curand_functions)). The
//! pointer mode of an object decides whether scalars and results are in the message or in device memory.

mod arguments;
pub mod checks;
mod form;
mod frame;
mod functions;
mod handle;
mod nvidia_library;
mod parts;

pub use arguments::{LibraryArgument, LibraryArguments};
pub use form::{
    ComputeType, CreatedHostGenerator, CreatedObject, DestroyedObject, DeviceAddress, Generated, GeneratedCount,
    LibraryForm, LibraryObject, PointerMode, ResultType, ScalarArgument, ScalarBytes, ScalarResult, StreamArgument,
};
pub use frame::{LIBRARY_CALL_FUNCTION, LibraryCallFrame, LibraryRequestKind, OTHER_TABLE};
pub use functions::LibraryFunction;
pub(crate) use functions::TABLE_TEXT;
pub use handle::LibraryHandle;
pub use nvidia_library::{LibraryStatus, NvidiaLibrary, StatusCodes};
pub use parts::{
    GeneratedPart, LibraryOpening, MAX_GENERATED_PART, MAX_SCALAR_BYTES, OpenLibrary, ReadGenerated, ResultPart,
    ScalarPart,
};

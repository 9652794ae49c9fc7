//! Calls that are sent to the worker as they are: a function for each line of the tables. It encodes the arguments, sends
//! the request, and writes the results.

use crate::CallResult;
use crate::forms::ClientForm;
use crate::request::LibraryRequest;
use remote_calls::library::{
    ComputeType, CreatedHostGenerator, CreatedObject, DestroyedObject, DeviceAddress, Generated, GeneratedCount,
    LibraryFunction, LibraryObject, PointerMode, ResultType, ScalarArgument, ScalarBytes, ScalarResult, StreamArgument,
};
use remote_calls::{Form, Output, Value};

/// Returns whether a call is sure to pass the library's checks: without a condition, it is.
macro_rules! is_certain {
    () => {
        true
    };
    ($($certain:tt)+) => {
        $($certain)+
    };
}

macro_rules! forwarded_functions {
    ($($name:ident $policy:ident $export:ident [$($certain:tt)*] ($($arg:ident: $form:ty),*);)*) => {$(
        #[doc = concat!("Sends a call of `", stringify!($name), "`.")]
        ///
        /// # Errors
        /// The library's status.
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the library's own")]
        pub fn $name($($arg: <$form as Form>::Abi),*) -> CallResult {
            let mut request = LibraryRequest::new(LibraryFunction::$name, is_certain!($($certain)*))?;
            $(<$form as ClientForm>::announce($arg, &mut request);)*
            $(let $arg = <$form as ClientForm>::prepare($arg, &mut request)?;)*
            let Some(answer) = request.finish()? else {
                return Ok(());
            };
            #[allow(unused_mut, reason = "some calls have no results")]
            let mut decoder = answer.decoder();
            $(<$form as ClientForm>::complete($arg, &answer, &mut decoder)?;)*
            decoder.finish().map_err(|_| answer.failed())
        }
    )*};
}

remote_calls::cublas_functions!(forwarded_functions);
remote_calls::curand_functions!(forwarded_functions);

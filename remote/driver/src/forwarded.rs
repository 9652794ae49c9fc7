//! Calls that are sent to the worker as they are: a function for each line of the table of plain calls. It encodes the
//! arguments, sends the request, and writes the results.

use crate::CallResult;
use crate::errors::DEVICE_UNAVAILABLE;
use crate::forms::ClientForm;
use crate::request::{CallMode, Request};
use remote_calls::{
    CallId, Created, Destroyed, Form, Input, InputBytes, Object, OptionalOutput, Output, OutputBytes, Resolved, Text,
    Value, cuda_driver, kinds,
};

macro_rules! forwarded_functions {
    ($($name:ident [$($other:ident)?] $policy:ident $export:ident ($($arg:ident: $form:ty),*);)*) => {$(
        #[doc = concat!("Sends a call of `", stringify!($name), "`.")]
        #[allow(clippy::too_many_arguments, reason = "the driver's own")]
        pub fn $name(mode: impl Into<CallMode> $(, $arg: <$form as Form>::Abi)*) -> CallResult {
            #[allow(unused_mut, reason = "some calls have no arguments")]
            let mut request = Request::new(CallId::$name, mode)?;
            $(let $arg = <$form as ClientForm>::prepare($arg, &mut request)?;)*
            let Some(answer) = request.finish()? else {
                $(<$form as ClientForm>::complete_unanswered($arg)?;)*
                return Ok(());
            };
            #[allow(unused_mut, reason = "some calls have no results")]
            let mut decoder = answer.decoder();
            $(<$form as ClientForm>::complete($arg, &mut decoder)?;)*
            decoder.finish().map_err(|_| DEVICE_UNAVAILABLE)
        }
    )*};
}

remote_calls::calls!(forwarded_functions);

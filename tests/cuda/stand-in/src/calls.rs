//! Exported functions: one for each line of the list of signatures, in both forms of the function.
//!
//! Each function forwards its arguments to the function of the same name in one of the modules. A line of the list
//! without such a function does not compile.

use crate::call::answer;
use cuda_driver::*;
use std::ffi::{c_char, c_void};

/// The functions that the exported ones call.
mod implementations {
    pub use crate::code::functions::*;
    pub use crate::code::libraries::*;
    pub use crate::code::modules::*;
    pub use crate::context::*;
    pub use crate::copies::*;
    pub use crate::device::*;
    pub use crate::fills::*;
    pub use crate::graphs::capture::*;
    pub use crate::graphs::exec::*;
    pub use crate::graphs::nodes::*;
    pub use crate::launch::*;
    pub use crate::memory::allocation::*;
    pub use crate::memory::arrays::*;
    pub use crate::memory::host::*;
    pub use crate::memory::queries::*;
    pub use crate::memory::virtual_memory::*;
    pub use crate::procs::*;
    pub use crate::streams::calls::*;
    pub use crate::streams::events::*;
}

macro_rules! export {
    ($name:ident, $own:ident, $per_thread:literal, ($($arg:ident: $type:ty),*)) => {
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the driver's own")]
        unsafe extern "C" fn $own($($arg: $type),*) -> CuResult {
            answer(stringify!($name), $per_thread, |call| implementations::$name(call $(, $arg)*))
        }
    };
}

macro_rules! exports {
    ($($name:ident [$($other:ident)?] $args:tt;)*) => {
        $(
            export!($name, $name, false, $args);
            $(export!($name, $other, true, $args);)?
        )*

        /// Returns both forms of a function by its exported name. The second form is `None` if it does not exist.
        pub fn exported(name: &str) -> Option<(*mut c_void, Option<*mut c_void>)> {
            type Form = *const ();
            let all: &[(&str, Form, &[Form])] = &[
                $((stringify!($name), $name as Form, &[$($other as Form)?]),)*
            ];
            let (_, at, other) = all.iter().find(|(known, ..)| *known == name)?;
            Some((at.cast_mut().cast(), other.first().map(|o| o.cast_mut().cast())))
        }
    };
}

cuda_driver::functions!(exports);

//! Functions of NVIDIA's libraries: looked up when a library is loaded, and called with arguments of a message.
#![allow(unsafe_code, reason = "functions of C libraries")]

use super::places::{ArgumentPlace, CallFrame, LibraryError};
use libloading::Library;
use remote_calls::library::{
    ComputeType, CreatedHostGenerator, CreatedObject, DestroyedObject, DeviceAddress, Generated, GeneratedCount,
    LibraryFunction, LibraryObject, LibraryStatus, NvidiaLibrary, PointerMode, ResultType, ScalarArgument, ScalarBytes,
    ScalarResult, StreamArgument,
};
use remote_calls::{Decoder, Encoder, Form, Output, Value};
use std::ffi::{OsStr, OsString, c_void};

macro_rules! library_functions {
    (
        $functions:ident
        $($name:ident $policy:ident $export:ident [$($certain:tt)*] ($($arg:ident: $form:ty),*);)*
    ) => {
        /// The functions of a library. A function that the installed version does not have is `None`.
        #[allow(non_snake_case, reason = "the library's own names")]
        struct $functions {
            $($name: Option<unsafe extern "C" fn($(<$form as Form>::Abi),*) -> LibraryStatus>,)*
        }

        impl $functions {
            /// Looks up the functions.
            ///
            /// # Safety
            /// The functions have the signatures of the table.
            unsafe fn look_up(find: impl Fn(&'static str) -> Option<*mut c_void>) -> Self {
                Self {
                    $($name: find(stringify!($name)).map(|at| {
                        // SAFETY: the caller guarantees the signature. Pointers to functions and to data have the same
                        // representation on every system that the driver supports.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($(<$form as Form>::Abi),*) -> LibraryStatus,
                            >(at)
                        }
                    }),)*
                }
            }

            /// Calls a function with the arguments of a message, and writes its results.
            fn call(
                &self,
                function: LibraryFunction,
                frame: &mut CallFrame<'_>,
                decoder: &mut Decoder<'_>,
                answer: &mut Encoder,
            ) -> Result<LibraryStatus, LibraryError> {
                match function {
                    $(LibraryFunction::$name => {
                        $(let mut $arg = <$form as ArgumentPlace>::read(decoder, frame)?;)*
                        decoder.finish()?;
                        $(<$form as ArgumentPlace>::prepare(&mut $arg, frame)?;)*
                        let called = self.$name.ok_or(LibraryError::Status(frame.codes.not_supported))?;
                        // SAFETY: objects and streams are the library's and the driver's own. Pointers to host memory are
                        // to memory of this call, of the size that the function accesses. Addresses of device memory are
                        // the program's own affair: its context belongs to it alone.
                        let status = unsafe { called($(<$form as ArgumentPlace>::argument(&mut $arg, frame)),*) };
                        if status == 0 {
                            $(<$form as ArgumentPlace>::complete($arg, frame, answer);)*
                        }
                        Ok(status)
                    })*
                    _ => Err(LibraryError::Status(frame.codes.not_supported)),
                }
            }
        }
    };
}

remote_calls::cublas_functions!(library_functions CublasFunctions);
remote_calls::curand_functions!(library_functions CurandFunctions);

/// A loaded library. It stays loaded: it has threads of its own.
pub struct LoadedLibrary(LibraryFunctions);

enum LibraryFunctions {
    Cublas(Box<CublasFunctions>),
    Curand(Box<CurandFunctions>),
}

impl LoadedLibrary {
    /// Loads a library: the one that its environment variable names, or the installed one, of this major version if
    /// possible.
    ///
    /// # Errors
    /// The loader's reason for the first file name.
    pub fn load(library: NvidiaLibrary, major: u32) -> Result<Self, String> {
        let variable = std::env::var_os(library.variable()).filter(|path| !path.is_empty());
        let names: Vec<OsString> = match variable {
            Some(path) => vec![path],
            None => library.file_names(major).iter().map(OsString::from).collect(),
        };
        let mut reason = None;
        for name in &names {
            match Self::open(library, name) {
                Ok(loaded) => return Ok(loaded),
                Err(error) => reason = reason.or(Some(error.to_string())),
            }
        }
        // A message holds no zeros.
        Err(reason.unwrap_or_default().replace('\0', " "))
    }

    fn open(library: NvidiaLibrary, name: &OsStr) -> Result<Self, libloading::Error> {
        // SAFETY: loading NVIDIA's library runs its initialisers, as every program that uses it does.
        let file = unsafe { Library::new(name) }?;
        let find = |name: &'static str| {
            // SAFETY: only the address is taken here.
            let symbol = unsafe { file.get::<*mut c_void>(name.as_bytes()) };
            // SAFETY: as above.
            symbol.ok().map(|symbol| unsafe { symbol.into_raw() }.as_raw_ptr())
        };
        // SAFETY: a library of this name has the functions that NVIDIA publishes, with these signatures.
        let functions = unsafe {
            match library {
                NvidiaLibrary::Cublas => LibraryFunctions::Cublas(Box::new(CublasFunctions::look_up(find))),
                NvidiaLibrary::Curand => LibraryFunctions::Curand(Box::new(CurandFunctions::look_up(find))),
            }
        };
        std::mem::forget(file);
        Ok(Self(functions))
    }

    /// Calls a function with the arguments of a message, and writes its results.
    ///
    /// # Errors
    /// If the message is invalid, or an argument cannot be right.
    pub fn call(
        &self,
        function: LibraryFunction,
        frame: &mut CallFrame<'_>,
        decoder: &mut Decoder<'_>,
        answer: &mut Encoder,
    ) -> Result<LibraryStatus, LibraryError> {
        match &self.0 {
            LibraryFunctions::Cublas(functions) => functions.call(function, frame, decoder, answer),
            LibraryFunctions::Curand(functions) => functions.call(function, frame, decoder, answer),
        }
    }
}

//! Forms of arguments of library calls: what an argument is, and how it travels.

use super::LibraryArgument;
use super::parts::{ResultPart, ScalarPart};
use crate::{Decoder, Form, MessageError, Output, Scalar, Value};
use std::ffi::c_void;
use std::marker::PhantomData;

/// A form of arguments of library calls.
pub trait LibraryForm: Form {
    /// Whether the argument names the object that the call is about. It is the first one of its function then.
    const NAMES_OBJECT: bool = false;

    /// Reads the argument from a message without its meaning. Returns `None` for one that does not travel.
    ///
    /// # Errors
    /// If the message is not one.
    fn read<'m>(decoder: &mut Decoder<'m>) -> Result<Option<LibraryArgument<'m>>, MessageError>;
}

impl<T: Scalar> LibraryForm for Value<T> {
    fn read<'m>(decoder: &mut Decoder<'m>) -> Result<Option<LibraryArgument<'m>>, MessageError> {
        decoder
            .read_raw(T::BYTES)
            .map(|bytes| Some(LibraryArgument::Value(bytes)))
    }
}

impl<T: Scalar> LibraryForm for Output<T> {
    fn read<'m>(_: &mut Decoder<'m>) -> Result<Option<LibraryArgument<'m>>, MessageError> {
        Ok(None)
    }
}

macro_rules! plain_forms {
    ($($(#[$doc:meta])* $name:ident = $abi:ty, $names_object:literal, |$decoder:ident| $read:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Form for $name {
            type Abi = $abi;
        }

        impl LibraryForm for $name {
            const NAMES_OBJECT: bool = $names_object;

            fn read<'m>($decoder: &mut Decoder<'m>) -> Result<Option<LibraryArgument<'m>>, MessageError> {
                $read
            }
        }
    )*};
}

plain_forms! {
    /// The object of the call.
    LibraryObject = *mut c_void, true, |d| d.read().map(|handle| Some(LibraryArgument::Handle(handle)));
    /// The object of the call, which ends with it.
    DestroyedObject = *mut c_void, true, |d| d.read().map(|handle| Some(LibraryArgument::Handle(handle)));
    /// Where the call writes the handle of a new object.
    CreatedObject = *mut *mut c_void, false, |_d| Ok(None);
    /// Where the call writes the handle of a new generator of numbers in host memory.
    CreatedHostGenerator = *mut *mut c_void, false, |_d| Ok(None);
    /// A stream of the driver.
    StreamArgument = *mut c_void, false, |d| d.read().map(|stream| Some(LibraryArgument::Stream(stream)));
    /// An address in device memory.
    DeviceAddress = u64, false, |d| d.read().map(|at| Some(LibraryArgument::Address(at)));
    /// A scalar whose size another argument says. The pointer mode decides where it is.
    ScalarBytes = *const c_void, false, |d| ScalarPart::read(d).map(|part| Some(LibraryArgument::Scalar(part)));
    /// The pointer mode that the object gets.
    PointerMode = i32, false, |d| d.read_raw(4).map(|bytes| Some(LibraryArgument::Value(bytes)));
    /// Type of the result's numbers, `cudaDataType_t`.
    ResultType = i32, false, |d| d.read_raw(4).map(|bytes| Some(LibraryArgument::Value(bytes)));
    /// Type of the computation, `cublasComputeType_t`. It says the size of [`ScalarBytes`], with [`ResultType`].
    ComputeType = i32, false, |d| d.read_raw(4).map(|bytes| Some(LibraryArgument::Value(bytes)));
    /// How many numbers a generator makes. Every function with [`Generated`] has one.
    GeneratedCount = usize, false, |d| d.read_raw(8).map(|bytes| Some(LibraryArgument::Value(bytes)));
}

macro_rules! typed_forms {
    ($($(#[$doc:meta])* $name:ident<T> = $abi:ty, |$decoder:ident| $read:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<T>(PhantomData<T>);

        impl<T: Copy> Form for $name<T> {
            type Abi = $abi;
        }

        impl<T: Copy> LibraryForm for $name<T> {
            fn read<'m>($decoder: &mut Decoder<'m>) -> Result<Option<LibraryArgument<'m>>, MessageError> {
                $read
            }
        }
    )*};
}

typed_forms! {
    /// A scalar that the call reads. The pointer mode decides where it is.
    ScalarArgument<T> = *const T, |d| ScalarPart::read(d).map(|part| Some(LibraryArgument::Scalar(part)));
    /// A result of one number. The pointer mode decides where it is.
    ScalarResult<T> = *mut T, |d| ResultPart::read(d).map(|part| Some(LibraryArgument::Result(part)));
    /// Numbers of a generator. The kind of the generator decides where they are.
    Generated<T> = *mut T, |d| ResultPart::read(d).map(|part| Some(LibraryArgument::Result(part)));
}

//! Forms of arguments: what an argument of a driver call is, and how it travels.

use crate::HandleKind;
use std::ffi::{c_char, c_void};
use std::marker::PhantomData;

/// A form of arguments.
pub trait Form {
    /// The argument's type in the driver's interface.
    type Abi: Copy;
}

/// A kind of handles, as a type.
pub trait Kind {
    /// The kind.
    const KIND: HandleKind;
    /// The handle's type in the driver's interface.
    type Abi: Copy;
}

/// The kinds of handles, as types for the table.
pub mod kinds {
    use super::{HandleKind, Kind, c_void};

    macro_rules! kinds {
        ($($name:ident: $abi:ty;)*) => {$(
            #[doc = concat!("See [`HandleKind::", stringify!($name), "`].")]
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl Kind for $name {
                const KIND: HandleKind = HandleKind::$name;
                type Abi = $abi;
            }
        )*};
    }

    kinds! {
        Context: *mut c_void;
        Module: *mut c_void;
        Library: *mut c_void;
        Function: *mut c_void;
        Kernel: *mut c_void;
        Stream: *mut c_void;
        Event: *mut c_void;
        Graph: *mut c_void;
        GraphNode: *mut c_void;
        GraphExec: *mut c_void;
        MemPool: *mut c_void;
        Array: *mut c_void;
        LinkState: *mut c_void;
        Memory: u64;
        MipmappedArray: *mut c_void;
    }
}

macro_rules! forms {
    ($($(#[$doc:meta])* $name:ident<$param:ident $(: $bound:ident)?> = $abi:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<$param>(PhantomData<$param>);

        impl<$param: Copy $(+ $bound)?> Form for $name<$param> {
            type Abi = $abi;
        }
    )*};
}

forms! {
    /// A number, by value.
    Value<T> = T;
    /// A handle that exists. A stream can be a default stream; a context, function or pool can be null where the
    /// driver allows it.
    Object<K: Kind> = K::Abi;
    /// A handle that exists and that the call destroys.
    Destroyed<K: Kind> = K::Abi;
    /// Where the call writes a handle that the client made.
    Created<K: Kind> = *mut K::Abi;
    /// Where the call writes a handle that the worker looked up or made.
    Resolved<K: Kind> = *mut K::Abi;
    /// Where the call writes a value. Null is an invalid value.
    Output<T> = *mut T;
    /// Where the call writes a value, or null.
    OptionalOutput<T> = *mut T;
    /// A structure without pointers and handles, which is read. Null is an invalid value.
    Input<T> = *const T;
}

/// A structure of `N` bytes without pointers and handles, which is read. Null is an invalid value.
#[derive(Clone, Copy, Debug)]
pub struct InputBytes<const N: usize>;

impl<const N: usize> Form for InputBytes<N> {
    type Abi = *const c_void;
}

/// Where the call writes a structure of `N` bytes without pointers and handles. Null is an invalid value.
#[derive(Clone, Copy, Debug)]
pub struct OutputBytes<const N: usize>;

impl<const N: usize> Form for OutputBytes<N> {
    type Abi = *mut c_void;
}

/// A text that ends with a zero. Null is an invalid value.
#[derive(Clone, Copy, Debug)]
pub struct Text;

impl Form for Text {
    type Abi = *const c_char;
}

//! Arguments of driver calls at the worker: from the message to the driver's argument, and results into the answer.
#![allow(unsafe_code, reason = "structures of the driver are made of bytes")]

use crate::call_error::{CallError, CallResult};
use crate::session::Scope;
use cuda_driver::{INVALID_VALUE, NOT_SUPPORTED};
use remote_calls::{
    Created, Decoder, Destroyed, Encoder, Form, HandleKind, HandleNumber, Input, InputBytes, Kind, Object,
    OptionalOutput, Output, OutputBytes, Resolved, Scalar, Text, Value,
};
use std::ffi::{CString, c_char, c_void};

/// A handle as the driver has it.
pub trait DriverHandle: Copy {
    /// Returns the handle of an object.
    fn from_object(object: u64) -> Self;
    /// Returns the object of a handle.
    fn object(self) -> u64;
}

impl DriverHandle for *mut c_void {
    fn from_object(object: u64) -> Self {
        std::ptr::with_exposed_provenance_mut(object as usize)
    }

    fn object(self) -> u64 {
        self.expose_provenance() as u64
    }
}

impl DriverHandle for u64 {
    fn from_object(object: u64) -> Self {
        object
    }

    fn object(self) -> u64 {
        self
    }
}

/// Returns the driver's object of a handle of a kind.
///
/// # Errors
/// `INVALID_HANDLE` for another kind or an unknown handle.
pub fn find_object(scope: &Scope<'_>, kind: HandleKind, number: HandleNumber) -> CallResult<u64> {
    let is_fit = match number.kind() {
        None => number == HandleNumber::NULL || kind == HandleKind::Stream,
        Some(HandleKind::Kernel) => matches!(kind, HandleKind::Kernel | HandleKind::Function),
        Some(other) => other == kind,
    };
    if !is_fit {
        return Err(CallError::Result(cuda_driver::INVALID_HANDLE));
    }
    match number {
        HandleNumber::STREAM_LEGACY => Ok(cuda_driver::STREAM_LEGACY as u64),
        HandleNumber::STREAM_PER_THREAD => scope.thread_stream(),
        _ => scope.session.handles.get(number),
    }
}

/// A form of arguments, at the worker.
pub trait WorkerForm: Form {
    /// The argument's memory during the call.
    type Place;

    /// Reads the argument from a request.
    ///
    /// # Errors
    /// If the request is invalid, or names an unknown handle.
    fn read(decoder: &mut Decoder<'_>, scope: &Scope<'_>) -> CallResult<Self::Place>;

    /// Returns the driver's argument. It can point into the place.
    fn argument(place: &mut Self::Place) -> Self::Abi;

    /// Writes the results of a call that succeeded.
    ///
    /// # Errors
    /// If a handle cannot be added.
    fn complete(_place: Self::Place, _scope: &Scope<'_>, _answer: &mut Encoder) -> CallResult {
        Ok(())
    }
}

impl<T: Scalar> WorkerForm for Value<T> {
    type Place = T;

    fn read(decoder: &mut Decoder<'_>, _: &Scope<'_>) -> CallResult<T> {
        Ok(decoder.read()?)
    }

    fn argument(place: &mut T) -> T {
        *place
    }
}

impl<K: Kind<Abi: DriverHandle> + Copy> WorkerForm for Object<K> {
    type Place = u64;

    fn read(decoder: &mut Decoder<'_>, scope: &Scope<'_>) -> CallResult<u64> {
        find_object(scope, K::KIND, decoder.read()?)
    }

    fn argument(place: &mut u64) -> K::Abi {
        K::Abi::from_object(*place)
    }
}

impl<K: Kind<Abi: DriverHandle> + Copy> WorkerForm for Destroyed<K> {
    type Place = (u64, HandleNumber);

    fn read(decoder: &mut Decoder<'_>, scope: &Scope<'_>) -> CallResult<Self::Place> {
        let number = decoder.read()?;
        Ok((find_object(scope, K::KIND, number)?, number))
    }

    fn argument(place: &mut Self::Place) -> K::Abi {
        K::Abi::from_object(place.0)
    }

    fn complete((_, number): Self::Place, scope: &Scope<'_>, _: &mut Encoder) -> CallResult {
        scope.session.handles.remove(number);
        Ok(())
    }
}

impl<K: Kind<Abi: DriverHandle> + Copy> WorkerForm for Created<K> {
    type Place = (K::Abi, HandleNumber);

    fn read(decoder: &mut Decoder<'_>, _: &Scope<'_>) -> CallResult<Self::Place> {
        Ok((K::Abi::from_object(0), decoder.read()?))
    }

    fn argument(place: &mut Self::Place) -> *mut K::Abi {
        &raw mut place.0
    }

    fn complete((handle, number): Self::Place, scope: &Scope<'_>, _: &mut Encoder) -> CallResult {
        scope
            .session
            .handles
            .insert(K::KIND, number, handle.object(), scope.owner(K::KIND))
    }
}

impl<K: Kind<Abi: DriverHandle> + Copy> WorkerForm for Resolved<K> {
    type Place = K::Abi;

    fn read(_: &mut Decoder<'_>, _: &Scope<'_>) -> CallResult<Self::Place> {
        Ok(K::Abi::from_object(0))
    }

    fn argument(place: &mut Self::Place) -> *mut K::Abi {
        &raw mut *place
    }

    fn complete(place: Self::Place, scope: &Scope<'_>, answer: &mut Encoder) -> CallResult {
        answer.write(
            scope
                .session
                .handles
                .resolve(K::KIND, place.object(), scope.owner(K::KIND))?,
        );
        Ok(())
    }
}

impl<T: Scalar + Default> WorkerForm for Output<T> {
    type Place = T;

    fn read(_: &mut Decoder<'_>, _: &Scope<'_>) -> CallResult<T> {
        Ok(T::default())
    }

    fn argument(place: &mut T) -> *mut T {
        &raw mut *place
    }

    fn complete(place: T, _: &Scope<'_>, answer: &mut Encoder) -> CallResult {
        answer.write(place);
        Ok(())
    }
}

impl<T: Scalar + Default> WorkerForm for OptionalOutput<T> {
    type Place = (T, bool);

    fn read(decoder: &mut Decoder<'_>, _: &Scope<'_>) -> CallResult<Self::Place> {
        Ok((T::default(), decoder.read::<u8>()? != 0))
    }

    fn argument(place: &mut Self::Place) -> *mut T {
        match place.1 {
            true => &raw mut place.0,
            false => std::ptr::null_mut(),
        }
    }

    fn complete(place: Self::Place, _: &Scope<'_>, answer: &mut Encoder) -> CallResult {
        answer.write(place.0);
        Ok(())
    }
}

/// A structure of the driver that is made of bytes of a client.
///
/// # Safety
/// Every pattern of bytes is a value.
pub unsafe trait PlainStructure: Copy {
    /// Removes what a client has no business to set.
    ///
    /// # Errors
    /// The driver's code for a value that is not supported.
    fn check(&mut self) -> CallResult;
}

// SAFETY: the fields are numbers and a pointer, which is not followed before it is checked.
unsafe impl PlainStructure for cuda_driver::AllocationProperties {
    fn check(&mut self) -> CallResult {
        // Memory that is shared with other processes has handles of this process.
        if self.handle_types != 0 {
            return Err(CallError::Result(NOT_SUPPORTED));
        }
        self.win32 = std::ptr::null_mut();
        Ok(())
    }
}

impl<T: PlainStructure> WorkerForm for Input<T> {
    type Place = T;

    fn read(decoder: &mut Decoder<'_>, _: &Scope<'_>) -> CallResult<T> {
        let bytes = decoder.read_raw(size_of::<T>())?;
        // SAFETY: the slice has the size of the structure, and every pattern of bytes is a value.
        let mut structure = unsafe { bytes.as_ptr().cast::<T>().read_unaligned() };
        structure.check()?;
        Ok(structure)
    }

    fn argument(place: &mut T) -> *const T {
        &raw const *place
    }
}

impl<const N: usize> WorkerForm for InputBytes<N> {
    /// Aligned as the driver's structures are.
    type Place = Box<[u64]>;

    fn read(decoder: &mut Decoder<'_>, _: &Scope<'_>) -> CallResult<Self::Place> {
        let bytes = decoder.read_raw(N)?;
        let word = |chunk: &[u8]| {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            u64::from_le_bytes(word)
        };
        Ok(bytes.chunks(8).map(word).collect())
    }

    fn argument(place: &mut Self::Place) -> *const c_void {
        place.as_ptr().cast()
    }
}

impl<const N: usize> WorkerForm for OutputBytes<N> {
    /// Aligned as the driver's structures are.
    type Place = Box<[u64]>;

    fn read(_: &mut Decoder<'_>, _: &Scope<'_>) -> CallResult<Self::Place> {
        Ok(vec![0; N.div_ceil(size_of::<u64>())].into_boxed_slice())
    }

    fn argument(place: &mut Self::Place) -> *mut c_void {
        place.as_mut_ptr().cast()
    }

    fn complete(place: Self::Place, _: &Scope<'_>, answer: &mut Encoder) -> CallResult {
        let bytes: Vec<u8> = place.iter().flat_map(|word| word.to_le_bytes()).take(N).collect();
        answer.write_raw(&bytes);
        Ok(())
    }
}

impl WorkerForm for Text {
    type Place = CString;

    fn read(decoder: &mut Decoder<'_>, _: &Scope<'_>) -> CallResult<CString> {
        CString::new(decoder.read_text()?).map_err(|_| CallError::Result(INVALID_VALUE))
    }

    fn argument(place: &mut CString) -> *const c_char {
        place.as_ptr()
    }
}

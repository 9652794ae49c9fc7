//! Arguments of driver calls at the client: from the program's argument to the message, and from the answer back.

use crate::CallResult;
use crate::errors::DEVICE_UNAVAILABLE;
use crate::pointers::{bytes, get, put, put_bytes, text};
use crate::{handles, request::Request, stream_state};
use cuda_driver::{CuStream, INVALID_HANDLE, INVALID_VALUE};
use remote_calls::{
    Created, Decoder, Destroyed, Form, HandleKind, HandleNumber, Input, InputBytes, Kind, Object, OptionalOutput,
    Output, OutputBytes, Resolved, Scalar, Text, Value,
};
use std::ffi::c_void;

/// A handle as programs pass it.
pub trait AbiHandle: Copy {
    /// Returns the handle's number, or `None` if no handle looks like this.
    fn number(self) -> Option<HandleNumber>;
    /// Returns a handle as programs see it.
    fn from_number(handle: HandleNumber) -> Self;
}

impl AbiHandle for *mut c_void {
    fn number(self) -> Option<HandleNumber> {
        HandleNumber::from_address(self.addr() as u64)
    }

    fn from_number(handle: HandleNumber) -> Self {
        std::ptr::without_provenance_mut(handle.as_address() as usize)
    }
}

impl AbiHandle for u64 {
    fn number(self) -> Option<HandleNumber> {
        HandleNumber::from_address(self)
    }

    fn from_number(handle: HandleNumber) -> Self {
        handle.as_address()
    }
}

/// Returns the number of a handle of a kind.
///
/// # Errors
/// The driver's code for something that is no such handle.
pub fn handle_number(kind: HandleKind, handle: impl AbiHandle) -> CallResult<HandleNumber> {
    let number = handle.number().ok_or(INVALID_HANDLE)?;
    let is_fit = match number.kind() {
        // Only streams have default ones. The worker's driver decides about null.
        None => number == HandleNumber::NULL || kind == HandleKind::Stream,
        Some(HandleKind::Kernel) => matches!(kind, HandleKind::Kernel | HandleKind::Function),
        Some(other) => other == kind,
    };
    is_fit.then_some(number).ok_or(INVALID_HANDLE)
}

/// Returns the number of a stream that the program passes.
///
/// # Errors
/// `INVALID_HANDLE` if it is no stream.
pub fn stream_number(is_per_thread: bool, stream: CuStream) -> CallResult<HandleNumber> {
    let number = handle_number(HandleKind::Stream, stream)?;
    Ok(match is_per_thread && number == HandleNumber::NULL {
        true => HandleNumber::STREAM_PER_THREAD,
        false => number,
    })
}

/// A form of arguments, at the client.
pub trait ClientForm: Form {
    /// What stays of the argument until the answer.
    type Pending;

    /// Adds the argument to a request.
    ///
    /// # Errors
    /// The driver's code for an argument that cannot be right.
    fn prepare(argument: Self::Abi, request: &mut Request) -> CallResult<Self::Pending>;

    /// Completes the argument of a call without an answer.
    ///
    /// # Errors
    /// `DEVICE_UNAVAILABLE` for a result that only an answer has: the table has no such call.
    fn complete_unanswered(_pending: Self::Pending) -> CallResult {
        Ok(())
    }

    /// Takes the argument's part of the answer to a call that succeeded.
    ///
    /// # Errors
    /// If the answer is too short.
    fn complete(_pending: Self::Pending, _answer: &mut Decoder<'_>) -> CallResult {
        Ok(())
    }
}

fn read_answer<T: Scalar>(answer: &mut Decoder<'_>) -> CallResult<T> {
    answer.read().map_err(|_| DEVICE_UNAVAILABLE)
}

impl<T: Scalar> ClientForm for Value<T> {
    type Pending = ();

    fn prepare(argument: T, request: &mut Request) -> CallResult {
        request.encoder.write(argument);
        Ok(())
    }
}

impl<K: Kind<Abi: AbiHandle> + Copy> ClientForm for Object<K> {
    type Pending = ();

    fn prepare(argument: K::Abi, request: &mut Request) -> CallResult {
        let mut number = handle_number(K::KIND, argument)?;
        if K::KIND == HandleKind::Stream && number == HandleNumber::NULL && request.is_per_thread {
            number = HandleNumber::STREAM_PER_THREAD;
        }
        request.is_uncertain |= match K::KIND {
            HandleKind::Stream => !stream_state::is_plain(number),
            _ => !handles::is_live(number),
        };
        request.encoder.write(number);
        Ok(())
    }
}

impl<K: Kind<Abi: AbiHandle> + Copy> ClientForm for Destroyed<K> {
    type Pending = HandleNumber;

    fn prepare(argument: K::Abi, request: &mut Request) -> CallResult<HandleNumber> {
        let number = handle_number(K::KIND, argument)?;
        request.is_uncertain |= !handles::is_live(number);
        request.encoder.write(number);
        Ok(number)
    }

    fn complete_unanswered(number: HandleNumber) -> CallResult {
        handles::remove(number);
        Ok(())
    }

    fn complete(number: HandleNumber, _: &mut Decoder<'_>) -> CallResult {
        handles::remove(number);
        Ok(())
    }
}

impl<K: Kind<Abi: AbiHandle> + Copy> ClientForm for Created<K> {
    type Pending = (*mut K::Abi, HandleNumber);

    fn prepare(argument: *mut K::Abi, request: &mut Request) -> CallResult<Self::Pending> {
        if argument.is_null() {
            return Err(INVALID_VALUE);
        }
        let handle = handles::create(K::KIND)?;
        request.encoder.write(handle);
        Ok((argument, handle))
    }

    fn complete_unanswered((to, handle): Self::Pending) -> CallResult {
        handles::add(handle);
        put(to, K::Abi::from_number(handle))
    }

    fn complete(pending: Self::Pending, _: &mut Decoder<'_>) -> CallResult {
        Self::complete_unanswered(pending)
    }
}

impl<K: Kind<Abi: AbiHandle> + Copy> ClientForm for Resolved<K> {
    type Pending = *mut K::Abi;

    fn prepare(argument: *mut K::Abi, _: &mut Request) -> CallResult<Self::Pending> {
        if argument.is_null() {
            return Err(INVALID_VALUE);
        }
        Ok(argument)
    }

    fn complete_unanswered(_: Self::Pending) -> CallResult {
        Err(DEVICE_UNAVAILABLE)
    }

    fn complete(to: Self::Pending, answer: &mut Decoder<'_>) -> CallResult {
        let handle: HandleNumber = read_answer(answer)?;
        put(to, K::Abi::from_number(handle))
    }
}

impl<T: Scalar> ClientForm for Output<T> {
    type Pending = *mut T;

    fn prepare(argument: *mut T, _: &mut Request) -> CallResult<Self::Pending> {
        if argument.is_null() {
            return Err(INVALID_VALUE);
        }
        Ok(argument)
    }

    fn complete_unanswered(_: Self::Pending) -> CallResult {
        Err(DEVICE_UNAVAILABLE)
    }

    fn complete(to: Self::Pending, answer: &mut Decoder<'_>) -> CallResult {
        put(to, read_answer(answer)?)
    }
}

impl<T: Scalar> ClientForm for OptionalOutput<T> {
    type Pending = *mut T;

    fn prepare(argument: *mut T, request: &mut Request) -> CallResult<Self::Pending> {
        request.encoder.write(u8::from(!argument.is_null()));
        Ok(argument)
    }

    fn complete_unanswered(_: Self::Pending) -> CallResult {
        Err(DEVICE_UNAVAILABLE)
    }

    fn complete(to: Self::Pending, answer: &mut Decoder<'_>) -> CallResult {
        let value = read_answer(answer)?;
        if to.is_null() {
            return Ok(());
        }
        put(to, value)
    }
}

impl<T: Copy> ClientForm for Input<T> {
    type Pending = ();

    fn prepare(argument: *const T, request: &mut Request) -> CallResult {
        get(argument)?;
        request.encoder.write_raw(bytes(argument.cast(), size_of::<T>())?);
        Ok(())
    }
}

impl<const N: usize> ClientForm for InputBytes<N> {
    type Pending = ();

    fn prepare(argument: *const c_void, request: &mut Request) -> CallResult {
        request.encoder.write_raw(bytes(argument, N)?);
        Ok(())
    }
}

impl<const N: usize> ClientForm for OutputBytes<N> {
    type Pending = *mut c_void;

    fn prepare(argument: *mut c_void, _: &mut Request) -> CallResult<Self::Pending> {
        if argument.is_null() {
            return Err(INVALID_VALUE);
        }
        Ok(argument)
    }

    fn complete_unanswered(_: Self::Pending) -> CallResult {
        Err(DEVICE_UNAVAILABLE)
    }

    fn complete(to: Self::Pending, answer: &mut Decoder<'_>) -> CallResult {
        put_bytes(to, answer.read_raw(N).map_err(|_| DEVICE_UNAVAILABLE)?)
    }
}

impl ClientForm for Text {
    type Pending = ();

    fn prepare(argument: *const std::ffi::c_char, request: &mut Request) -> CallResult {
        request.encoder.write_bytes(text(argument)?.to_bytes());
        Ok(())
    }
}

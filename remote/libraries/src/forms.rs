//! Arguments of library calls at the client: from the program's argument to the message, and from the answer back.

use crate::CallResult;
use crate::objects::{self, ObjectState};
use crate::pointers::{get, get_bytes, put, put_bytes};
use crate::request::{LibraryAnswer, LibraryRequest};
use remote_calls::library::{
    ComputeType, CreatedHostGenerator, CreatedObject, DestroyedObject, DeviceAddress, Generated, GeneratedCount,
    GeneratedPart, LibraryForm, LibraryHandle, LibraryObject, PointerMode, ReadGenerated, ResultPart, ResultType,
    ScalarArgument, ScalarBytes, ScalarPart, ScalarResult, StreamArgument,
};
use remote_calls::{Decoder, Encoder, HandleNumber, Output, Scalar, Value};
use std::ffi::c_void;

/// `cudaDataType_t` of complex numbers of floats and doubles.
const COMPLEX_TYPES: [i32; 2] = [4, 5];

/// A form of arguments, at the client.
pub trait ClientForm: LibraryForm {
    /// What stays of the argument until the answer.
    type Pending;

    /// Notes what other arguments need to know of this one, before any is added.
    fn announce(_argument: Self::Abi, _request: &mut LibraryRequest) {}

    /// Adds the argument to a request.
    ///
    /// # Errors
    /// The library's status for an argument that cannot travel.
    fn prepare(argument: Self::Abi, request: &mut LibraryRequest) -> CallResult<Self::Pending>;

    /// Takes the argument's part of the answer to a call that succeeded.
    ///
    /// # Errors
    /// If the answer is not one.
    fn complete(_pending: Self::Pending, _answer: &LibraryAnswer, _decoder: &mut Decoder<'_>) -> CallResult {
        Ok(())
    }
}

impl<T: Scalar> ClientForm for Value<T> {
    type Pending = ();

    fn prepare(argument: T, request: &mut LibraryRequest) -> CallResult {
        request.encoder.write(argument);
        Ok(())
    }
}

fn complete_result<T: Scalar>(to: *mut T, answer: &LibraryAnswer, decoder: &mut Decoder<'_>) -> CallResult {
    let value = decoder.read().map_err(|_| answer.failed())?;
    put(to, value).then_some(()).ok_or(answer.failed())
}

impl<T: Scalar> ClientForm for Output<T> {
    type Pending = *mut T;

    fn prepare(argument: *mut T, request: &mut LibraryRequest) -> CallResult<*mut T> {
        match argument.is_null() {
            true => Err(request.codes().invalid_value),
            false => Ok(argument),
        }
    }

    fn complete(to: *mut T, answer: &LibraryAnswer, decoder: &mut Decoder<'_>) -> CallResult {
        complete_result(to, answer, decoder)
    }
}

fn prepare_object(argument: *mut c_void, request: &mut LibraryRequest) -> CallResult<LibraryHandle> {
    let (handle, state) = objects::find(argument, request.codes().no_object)?;
    request.handle = handle;
    request.object = state;
    request.stream = state.stream;
    request.waits |= state.waits_for_each;
    request.encoder.write(handle);
    Ok(handle)
}

impl ClientForm for LibraryObject {
    type Pending = ();

    fn prepare(argument: *mut c_void, request: &mut LibraryRequest) -> CallResult {
        prepare_object(argument, request).map(drop)
    }
}

impl ClientForm for DestroyedObject {
    type Pending = LibraryHandle;

    fn prepare(argument: *mut c_void, request: &mut LibraryRequest) -> CallResult<LibraryHandle> {
        prepare_object(argument, request)
    }

    fn complete(handle: LibraryHandle, _: &LibraryAnswer, _: &mut Decoder<'_>) -> CallResult {
        objects::remove(handle);
        Ok(())
    }
}

macro_rules! created_objects {
    ($($form:ident $is_host_generator:literal;)*) => {$(
        impl ClientForm for $form {
            type Pending = *mut *mut c_void;

            fn prepare(argument: *mut *mut c_void, request: &mut LibraryRequest) -> CallResult<*mut *mut c_void> {
                match argument.is_null() {
                    true => Err(request.codes().invalid_value),
                    false => Ok(argument),
                }
            }

            fn complete(
                to: *mut *mut c_void,
                answer: &LibraryAnswer,
                decoder: &mut Decoder<'_>,
            ) -> CallResult {
                let handle = decoder.read().map_err(|_| answer.failed())?;
                let state = ObjectState {
                    is_host_generator: $is_host_generator,
                    ..ObjectState::default()
                };
                put(to, objects::add(handle, state)).then_some(()).ok_or(answer.failed())
            }
        }
    )*};
}

created_objects! {
    CreatedObject false;
    CreatedHostGenerator true;
}

impl ClientForm for StreamArgument {
    type Pending = ();

    fn prepare(argument: *mut c_void, request: &mut LibraryRequest) -> CallResult {
        let address = argument.addr() as u64;
        let stream = HandleNumber::from_address(address).ok_or(request.codes().invalid_value)?;
        request.stream = address;
        request.encoder.write(stream);
        Ok(())
    }
}

impl ClientForm for DeviceAddress {
    type Pending = ();

    fn prepare(argument: u64, request: &mut LibraryRequest) -> CallResult {
        request.waits |= argument == 0;
        request.encoder.write(argument);
        Ok(())
    }
}

impl ClientForm for PointerMode {
    type Pending = ();

    fn prepare(argument: i32, request: &mut LibraryRequest) -> CallResult {
        request.encoder.write(argument);
        Ok(())
    }
}

impl ClientForm for ResultType {
    type Pending = ();

    fn announce(argument: i32, request: &mut LibraryRequest) {
        request.is_complex = COMPLEX_TYPES.contains(&argument);
    }

    fn prepare(argument: i32, request: &mut LibraryRequest) -> CallResult {
        request.encoder.write(argument);
        Ok(())
    }
}

impl ClientForm for ComputeType {
    type Pending = ();

    fn announce(argument: i32, request: &mut LibraryRequest) {
        let real_bytes = match argument {
            64 | 65 => 2,
            68 | 69 | 72..=75 | 77 | 78 => 4,
            70 | 71 | 79 => 8,
            // NVIDIA's library decides about a type that it may know.
            _ => {
                request.waits = true;
                0
            }
        };
        request.scalar_bytes = if request.is_complex { 2 * real_bytes } else { real_bytes };
    }

    fn prepare(argument: i32, request: &mut LibraryRequest) -> CallResult {
        request.encoder.write(argument);
        Ok(())
    }
}

/// Writes a scalar; `read_bytes` reads it from host memory.
fn prepare_scalar<T>(
    argument: *const T,
    request: &mut LibraryRequest,
    read_bytes: impl FnOnce(*const T) -> Option<Vec<u8>>,
) {
    if argument.is_null() {
        // NVIDIA's library decides about a null pointer.
        request.waits = true;
        return ScalarPart::Null.write(&mut request.encoder);
    }
    if request.object.is_device_mode {
        return ScalarPart::Device(argument.addr() as u64).write(&mut request.encoder);
    }
    match read_bytes(argument) {
        Some(bytes) => ScalarPart::Host(&bytes).write(&mut request.encoder),
        None => ScalarPart::Null.write(&mut request.encoder),
    }
}

impl<T: Scalar> ClientForm for ScalarArgument<T> {
    type Pending = ();

    fn prepare(argument: *const T, request: &mut LibraryRequest) -> CallResult {
        prepare_scalar(argument, request, |argument| {
            let mut encoder = Encoder::default();
            encoder.write(get(argument)?);
            Some(encoder.into_buffer())
        });
        Ok(())
    }
}

impl ClientForm for ScalarBytes {
    type Pending = ();

    fn prepare(argument: *const c_void, request: &mut LibraryRequest) -> CallResult {
        let bytes = request.scalar_bytes;
        prepare_scalar(argument, request, |argument| get_bytes(argument, bytes));
        Ok(())
    }
}

impl<T: Scalar> ClientForm for ScalarResult<T> {
    /// Where the result goes, if it comes with the answer.
    type Pending = Option<*mut T>;

    fn prepare(argument: *mut T, request: &mut LibraryRequest) -> CallResult<Option<*mut T>> {
        let is_device_mode = request.object.is_device_mode;
        let part = match (argument.is_null(), is_device_mode) {
            (true, _) => ResultPart::Null,
            (false, true) => ResultPart::Device(argument.addr() as u64),
            (false, false) => ResultPart::Host,
        };
        request.waits |= !matches!(part, ResultPart::Device(_));
        part.write(&mut request.encoder);
        Ok((part == ResultPart::Host).then_some(argument))
    }

    fn complete(to: Option<*mut T>, answer: &LibraryAnswer, decoder: &mut Decoder<'_>) -> CallResult {
        to.map_or(Ok(()), |to| complete_result(to, answer, decoder))
    }
}

impl ClientForm for GeneratedCount {
    type Pending = ();

    fn announce(argument: usize, request: &mut LibraryRequest) {
        request.count = argument;
    }

    fn prepare(argument: usize, request: &mut LibraryRequest) -> CallResult {
        request.encoder.write(argument);
        Ok(())
    }
}

/// Numbers that come with answers.
pub struct PendingNumbers {
    to: *mut c_void,
    generator: LibraryHandle,
    bytes: usize,
}

impl<T: Scalar> ClientForm for Generated<T> {
    type Pending = Option<PendingNumbers>;

    fn prepare(argument: *mut T, request: &mut LibraryRequest) -> CallResult<Option<PendingNumbers>> {
        if !request.object.is_host_generator {
            let part = match argument.is_null() {
                true => ResultPart::Null,
                false => ResultPart::Device(argument.addr() as u64),
            };
            request.waits |= argument.is_null();
            part.write(&mut request.encoder);
            return Ok(None);
        }
        let codes = request.codes();
        if argument.is_null() && request.count > 0 {
            return Err(codes.invalid_value);
        }
        ResultPart::Host.write(&mut request.encoder);
        request.waits = true;
        request.has_numbers = true;
        Ok(Some(PendingNumbers {
            to: argument.cast(),
            generator: request.handle,
            bytes: request.count.checked_mul(size_of::<T>()).ok_or(codes.out_of_memory)?,
        }))
    }

    fn complete(numbers: Option<PendingNumbers>, answer: &LibraryAnswer, decoder: &mut Decoder<'_>) -> CallResult {
        let Some(PendingNumbers { to, generator, bytes }) = numbers else {
            return Ok(());
        };
        let GeneratedPart(first) = GeneratedPart::read(decoder).map_err(|_| answer.failed())?;
        let mut done = take_part(to, 0, first, bytes).ok_or(answer.failed())?;
        while done < bytes {
            let offset = done as u64;
            let part = answer.read_generated(ReadGenerated { generator, offset })?;
            let GeneratedPart(part) = GeneratedPart::read(&mut Decoder::new(&part)).map_err(|_| answer.failed())?;
            done = take_part(to, done, part, bytes).ok_or(answer.failed())?;
        }
        Ok(())
    }
}

/// Writes a part of the numbers. Returns the number of bytes so far, or `None` for a part that cannot be right.
fn take_part(to: *mut c_void, done: usize, part: &[u8], bytes: usize) -> Option<usize> {
    let end = done + part.len();
    if end > bytes || part.is_empty() && bytes > done {
        return None;
    }
    (part.is_empty() || put_bytes(to, done, part)).then_some(end)
}

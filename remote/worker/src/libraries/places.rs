//! Arguments of library calls at the worker: from the message to the function's argument, and results into the answer.

use super::objects::{LibraryObject as Object, ObjectState, Objects};
use crate::call_error::{CallError, CallResult};
use remote_calls::library::{
    ComputeType, CreatedHostGenerator, CreatedObject, DestroyedObject, DeviceAddress, Generated, GeneratedCount,
    GeneratedPart, LibraryForm, LibraryHandle, LibraryObject, LibraryStatus, MAX_GENERATED_PART, NvidiaLibrary,
    PointerMode, ResultPart, ResultType, ScalarArgument, ScalarBytes, ScalarPart, ScalarResult, StatusCodes,
    StreamArgument,
};
use remote_calls::{Decoder, Encoder, HandleNumber, MessageError, Output, Scalar, Value};
use std::ffi::c_void;

/// Maximum size of the numbers that a host generator makes in a call, bytes.
const MAX_GENERATED_BYTES: usize = 4 << 30;

/// Why a call is not made.
#[derive(Debug)]
pub enum LibraryError {
    /// The message is invalid. The session ends.
    Message(MessageError),
    /// The program gets this status.
    Status(LibraryStatus),
}

impl From<MessageError> for LibraryError {
    fn from(error: MessageError) -> Self {
        Self::Message(error)
    }
}

/// A call, while its arguments are read and its function runs.
pub struct CallFrame<'f> {
    /// Returns the driver's object of a stream of the program.
    pub find_stream: &'f dyn Fn(HandleNumber) -> CallResult<u64>,
    /// Status codes of the library.
    pub codes: StatusCodes,
    /// All objects.
    pub objects: &'f Objects,
    /// The library.
    pub library: NvidiaLibrary,
    /// The object of the call, if it has one.
    pub object: Option<&'f Object>,
    /// State of the object.
    pub state: Option<&'f mut ObjectState>,
    /// Number of numbers that a generator makes.
    pub count: usize,
}

impl CallFrame<'_> {
    const fn invalid(&self) -> LibraryError {
        LibraryError::Status(self.codes.invalid_value)
    }

    /// Checks that a value of the message is where the object's pointer mode says.
    fn check_mode(&self, is_host: bool, is_device: bool) -> Result<(), LibraryError> {
        let is_device_mode = self.state.as_ref().is_some_and(|state| state.is_device_mode);
        match is_device_mode && is_host || !is_device_mode && is_device {
            true => Err(self.invalid()),
            false => Ok(()),
        }
    }
}

fn device_pointer<T>(at: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(at as usize)
}

/// A form of arguments, at the worker.
pub trait ArgumentPlace: LibraryForm {
    /// The argument's memory during the call.
    type Place;

    /// Reads the argument from a request.
    ///
    /// # Errors
    /// If the request is invalid, or names what does not exist.
    fn read(decoder: &mut Decoder<'_>, frame: &mut CallFrame<'_>) -> Result<Self::Place, LibraryError>;

    /// Allocates what the argument points to, after all arguments are read.
    ///
    /// # Errors
    /// If there is not enough memory.
    fn prepare(_place: &mut Self::Place, _frame: &CallFrame<'_>) -> Result<(), LibraryError> {
        Ok(())
    }

    /// Returns the function's argument. It can point into the place.
    fn argument(place: &mut Self::Place, frame: &CallFrame<'_>) -> Self::Abi;

    /// Writes the results of a call that succeeded.
    fn complete(_place: Self::Place, _frame: &mut CallFrame<'_>, _answer: &mut Encoder) {}
}

impl<T: Scalar> ArgumentPlace for Value<T> {
    type Place = T;

    fn read(decoder: &mut Decoder<'_>, _: &mut CallFrame<'_>) -> Result<T, LibraryError> {
        Ok(decoder.read()?)
    }

    fn argument(place: &mut T, _: &CallFrame<'_>) -> T {
        *place
    }
}

impl<T: Scalar + Default> ArgumentPlace for Output<T> {
    type Place = T;

    fn read(_: &mut Decoder<'_>, _: &mut CallFrame<'_>) -> Result<T, LibraryError> {
        Ok(T::default())
    }

    fn argument(place: &mut T, _: &CallFrame<'_>) -> *mut T {
        &raw mut *place
    }

    fn complete(place: T, _: &mut CallFrame<'_>, answer: &mut Encoder) {
        answer.write(place);
    }
}

fn object_pointer(frame: &CallFrame<'_>) -> *mut c_void {
    device_pointer(frame.object.map_or(0, |object| object.pointer))
}

impl ArgumentPlace for LibraryObject {
    type Place = LibraryHandle;

    fn read(decoder: &mut Decoder<'_>, _: &mut CallFrame<'_>) -> Result<LibraryHandle, LibraryError> {
        Ok(decoder.read()?)
    }

    fn argument(_: &mut LibraryHandle, frame: &CallFrame<'_>) -> *mut c_void {
        object_pointer(frame)
    }
}

impl ArgumentPlace for DestroyedObject {
    type Place = LibraryHandle;

    fn read(decoder: &mut Decoder<'_>, _: &mut CallFrame<'_>) -> Result<LibraryHandle, LibraryError> {
        Ok(decoder.read()?)
    }

    fn argument(_: &mut LibraryHandle, frame: &CallFrame<'_>) -> *mut c_void {
        object_pointer(frame)
    }

    fn complete(place: LibraryHandle, frame: &mut CallFrame<'_>, _: &mut Encoder) {
        frame.objects.remove(place);
        if let Some(state) = &mut frame.state {
            state.is_destroyed = true;
            // The object ends well: its last failure has reached the program's waits.
            state.deferred = 0;
        }
    }
}

fn check_room(frame: &CallFrame<'_>) -> Result<(), LibraryError> {
    match frame.objects.has_room() {
        true => Ok(()),
        false => Err(LibraryError::Status(frame.codes.out_of_memory)),
    }
}

macro_rules! created_objects {
    ($($form:ident $is_host_generator:literal;)*) => {$(
        impl ArgumentPlace for $form {
            type Place = *mut c_void;

            fn read(_: &mut Decoder<'_>, frame: &mut CallFrame<'_>) -> Result<*mut c_void, LibraryError> {
                check_room(frame)?;
                Ok(std::ptr::null_mut())
            }

            fn argument(place: &mut *mut c_void, _: &CallFrame<'_>) -> *mut *mut c_void {
                &raw mut *place
            }

            fn complete(place: *mut c_void, frame: &mut CallFrame<'_>, answer: &mut Encoder) {
                let pointer = place.expose_provenance() as u64;
                answer.write(frame.objects.add(frame.library, pointer, $is_host_generator));
            }
        }
    )*};
}

created_objects! {
    CreatedObject false;
    CreatedHostGenerator true;
}

impl ArgumentPlace for StreamArgument {
    type Place = u64;

    fn read(decoder: &mut Decoder<'_>, frame: &mut CallFrame<'_>) -> Result<u64, LibraryError> {
        (frame.find_stream)(decoder.read()?).map_err(|error| match error {
            CallError::Message(error) => LibraryError::Message(error),
            CallError::Result(_) => frame.invalid(),
        })
    }

    fn argument(place: &mut u64, _: &CallFrame<'_>) -> *mut c_void {
        device_pointer(*place)
    }
}

impl ArgumentPlace for DeviceAddress {
    type Place = u64;

    fn read(decoder: &mut Decoder<'_>, _: &mut CallFrame<'_>) -> Result<u64, LibraryError> {
        Ok(decoder.read()?)
    }

    fn argument(place: &mut u64, _: &CallFrame<'_>) -> u64 {
        *place
    }
}

macro_rules! type_numbers {
    ($($form:ident)*) => {$(
        impl ArgumentPlace for $form {
            type Place = i32;

            fn read(decoder: &mut Decoder<'_>, _: &mut CallFrame<'_>) -> Result<i32, LibraryError> {
                Ok(decoder.read()?)
            }

            fn argument(place: &mut i32, _: &CallFrame<'_>) -> i32 {
                *place
            }
        }
    )*};
}

type_numbers!(ResultType ComputeType);

impl ArgumentPlace for PointerMode {
    type Place = i32;

    fn read(decoder: &mut Decoder<'_>, _: &mut CallFrame<'_>) -> Result<i32, LibraryError> {
        Ok(decoder.read()?)
    }

    fn argument(place: &mut i32, _: &CallFrame<'_>) -> i32 {
        *place
    }

    fn complete(place: i32, frame: &mut CallFrame<'_>, _: &mut Encoder) {
        if let Some(state) = &mut frame.state {
            state.is_device_mode = place != 0;
        }
    }
}

/// A scalar or a result: null, memory of this call, or device memory.
pub struct ValuePlace<T> {
    value: T,
    place: ResultPart,
}

impl<T> ValuePlace<T> {
    fn pointer(&mut self) -> *mut T {
        match self.place {
            ResultPart::Null => std::ptr::null_mut(),
            ResultPart::Host => &raw mut self.value,
            ResultPart::Device(at) => device_pointer(at),
        }
    }
}

/// Reads a scalar, whose value `read_value` takes from its bytes.
fn read_scalar<T: Default>(
    decoder: &mut Decoder<'_>,
    frame: &CallFrame<'_>,
    read_value: impl FnOnce(&[u8]) -> Result<T, MessageError>,
) -> Result<ValuePlace<T>, LibraryError> {
    let (value, place) = match ScalarPart::read(decoder)? {
        ScalarPart::Null => (T::default(), ResultPart::Null),
        ScalarPart::Host(bytes) => (read_value(bytes)?, ResultPart::Host),
        ScalarPart::Device(at) => (T::default(), ResultPart::Device(at)),
    };
    frame.check_mode(place == ResultPart::Host, matches!(place, ResultPart::Device(_)))?;
    Ok(ValuePlace { value, place })
}

impl<T: Scalar + Default> ArgumentPlace for ScalarArgument<T> {
    type Place = ValuePlace<T>;

    fn read(decoder: &mut Decoder<'_>, frame: &mut CallFrame<'_>) -> Result<ValuePlace<T>, LibraryError> {
        read_scalar(decoder, frame, |bytes| {
            let mut decoder = Decoder::new(bytes);
            let value = decoder.read()?;
            decoder.finish()?;
            Ok(value)
        })
    }

    fn argument(place: &mut ValuePlace<T>, _: &CallFrame<'_>) -> *const T {
        place.pointer()
    }
}

impl ArgumentPlace for ScalarBytes {
    /// The largest scalar, aligned as such. Missing bytes are zero.
    type Place = ValuePlace<[u64; 2]>;

    fn read(decoder: &mut Decoder<'_>, frame: &mut CallFrame<'_>) -> Result<Self::Place, LibraryError> {
        read_scalar(decoder, frame, |bytes| {
            let mut words = [0; 2];
            for (word, part) in words.iter_mut().zip(bytes.chunks(8)) {
                let mut padded = [0; 8];
                padded.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
                *word = u64::from_le_bytes(padded);
            }
            Ok(words)
        })
    }

    fn argument(place: &mut Self::Place, _: &CallFrame<'_>) -> *const c_void {
        place.pointer().cast()
    }
}

impl<T: Scalar + Default> ArgumentPlace for ScalarResult<T> {
    type Place = ValuePlace<T>;

    fn read(decoder: &mut Decoder<'_>, frame: &mut CallFrame<'_>) -> Result<ValuePlace<T>, LibraryError> {
        let place = ResultPart::read(decoder)?;
        frame.check_mode(place == ResultPart::Host, matches!(place, ResultPart::Device(_)))?;
        Ok(ValuePlace {
            value: T::default(),
            place,
        })
    }

    fn argument(place: &mut ValuePlace<T>, _: &CallFrame<'_>) -> *mut T {
        place.pointer()
    }

    fn complete(place: ValuePlace<T>, _: &mut CallFrame<'_>, answer: &mut Encoder) {
        if place.place == ResultPart::Host {
            answer.write(place.value);
        }
    }
}

impl ArgumentPlace for GeneratedCount {
    type Place = usize;

    fn read(decoder: &mut Decoder<'_>, frame: &mut CallFrame<'_>) -> Result<usize, LibraryError> {
        frame.count = decoder.read()?;
        Ok(frame.count)
    }

    fn argument(place: &mut usize, _: &CallFrame<'_>) -> usize {
        *place
    }
}

/// Numbers of a generator: memory of this call for a host generator, or device memory.
pub struct GeneratedPlace<T> {
    numbers: Vec<T>,
    place: ResultPart,
}

impl<T: Scalar + Default> ArgumentPlace for Generated<T> {
    type Place = GeneratedPlace<T>;

    fn read(decoder: &mut Decoder<'_>, frame: &mut CallFrame<'_>) -> Result<GeneratedPlace<T>, LibraryError> {
        let place = ResultPart::read(decoder)?;
        let is_host = frame.object.is_some_and(|object| object.is_host_generator);
        // A host generator writes where the program says; here that can only be memory of this call.
        match is_host == (place == ResultPart::Host) {
            true => Ok(GeneratedPlace {
                numbers: Vec::new(),
                place,
            }),
            false => Err(frame.invalid()),
        }
    }

    fn prepare(place: &mut GeneratedPlace<T>, frame: &CallFrame<'_>) -> Result<(), LibraryError> {
        if place.place != ResultPart::Host {
            return Ok(());
        }
        let out_of_memory = LibraryError::Status(frame.codes.out_of_memory);
        let bytes = frame.count.checked_mul(size_of::<T>());
        if bytes.is_none_or(|bytes| bytes > MAX_GENERATED_BYTES) || place.numbers.try_reserve(frame.count).is_err() {
            return Err(out_of_memory);
        }
        place.numbers.resize(frame.count, T::default());
        Ok(())
    }

    fn argument(place: &mut GeneratedPlace<T>, _: &CallFrame<'_>) -> *mut T {
        match place.place {
            ResultPart::Null => std::ptr::null_mut(),
            ResultPart::Host => place.numbers.as_mut_ptr(),
            ResultPart::Device(at) => device_pointer(at),
        }
    }

    fn complete(place: GeneratedPlace<T>, frame: &mut CallFrame<'_>, answer: &mut Encoder) {
        if place.place != ResultPart::Host {
            return;
        }
        let mut numbers = Encoder::with_buffer(Vec::with_capacity(place.numbers.len() * size_of::<T>()));
        for number in place.numbers {
            numbers.write(number);
        }
        let bytes = numbers.into_buffer();
        let first = bytes.get(..MAX_GENERATED_PART).unwrap_or(&bytes);
        GeneratedPart(first).write(answer);
        if let Some(state) = &mut frame.state {
            state.generated = if first.len() < bytes.len() { bytes } else { Vec::new() };
        }
    }
}

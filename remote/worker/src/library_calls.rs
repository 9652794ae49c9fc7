//! Calls of NVIDIA's libraries above the driver, with a program's objects and streams.
//!
//! They use the worker's own driver and the context that is current on the calling thread. A call without an answer that
//! fails leaves its status with its object, whose next answered call returns it, and an error of the driver for the
//! program's next wait.

use crate::call_error::{CallError, CallResult};
use crate::forms::find_object;
use crate::libraries::{CallFrame, LibraryError, LibraryObject};
use crate::session::Scope;
use crate::{contexts, lock};
use cuda_driver::{CuResult, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY};
use remote_calls::library::{
    GeneratedPart, LibraryFunction, LibraryOpening, LibraryStatus, MAX_GENERATED_PART, NvidiaLibrary, OpenLibrary,
    ReadGenerated,
};
use remote_calls::{Decoder, Encoder, HandleKind, MessageError};
use std::sync::Arc;

/// `CUDA_ERROR_UNKNOWN`: the driver's code for a failure that only the library can name.
const UNKNOWN: CuResult = 999;
/// Major version of cuBLAS for a call before [`OpenLibrary`]. No client of this version sends one.
const NEWEST_MAJOR: u32 = 13;

/// Loads a library, and answers whether it is there.
///
/// # Errors
/// If the message is invalid.
pub fn open(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let OpenLibrary { library, major } = OpenLibrary::read(decoder)?;
    decoder.finish()?;
    let loaded = scope.session.libraries.load(library, major);
    contexts::forget_thread(scope);
    match loaded {
        Ok(_) => LibraryOpening::Loaded,
        Err(why) => LibraryOpening::Missing(why),
    }
    .write(answer);
    Ok(())
}

/// Plays a call of a library's function, and answers its status and its results.
///
/// # Errors
/// If the message is invalid; for a call without an answer also if it fails.
pub fn call(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let function: LibraryFunction = decoder.read()?;
    let object = match function.has_object() {
        // The handle is the first argument, which is read again with the others.
        true => scope
            .session
            .libraries
            .objects
            .find(function.library(), decoder.clone().read()?),
        false => None,
    };
    let mut results = Encoder::default();
    let status = match play(scope, function, object.as_ref(), decoder, &mut results) {
        Ok(status) | Err(LibraryError::Status(status)) => status,
        Err(LibraryError::Message(error)) => return Err(error.into()),
    };
    contexts::forget_thread(scope);
    let mut status = status;
    if let Some(object) = &object {
        let deferred = &mut lock(&object.state).deferred;
        match scope.is_answered {
            true if status == 0 => status = std::mem::take(deferred),
            false if *deferred == 0 => *deferred = status,
            _ => {}
        }
    }
    if !scope.is_answered && status != 0 {
        return Err(CallError::Result(result_of(function.library(), status)));
    }
    answer.write(status);
    if status == 0 {
        answer.write_raw(results.as_bytes());
    }
    Ok(())
}

fn play(
    scope: &Scope<'_>,
    function: LibraryFunction,
    object: Option<&Arc<LibraryObject>>,
    decoder: &mut Decoder<'_>,
    results: &mut Encoder,
) -> Result<LibraryStatus, LibraryError> {
    let codes = function.library().codes();
    if function.has_object() && object.is_none() {
        return Err(LibraryError::Status(codes.no_object));
    }
    let loaded = scope.session.libraries.load(function.library(), NEWEST_MAJOR);
    let loaded = loaded.map_err(|_| LibraryError::Status(codes.unavailable))?;
    // The objects of NVIDIA's libraries are not for two threads at a time, and one can end while another call waits here.
    let mut state = object.map(|object| lock(&object.state));
    if state.as_ref().is_some_and(|state| state.is_destroyed) {
        return Err(LibraryError::Status(codes.no_object));
    }
    let find_stream = |stream| find_object(scope, HandleKind::Stream, stream);
    let mut frame = CallFrame {
        find_stream: &find_stream,
        codes,
        objects: &scope.session.libraries.objects,
        library: function.library(),
        object: object.map(Arc::as_ref),
        state: state.as_deref_mut(),
        count: 0,
    };
    loaded.call(function, &mut frame, decoder, results)
}

/// Answers the numbers of a host generator from an offset. The last part frees their memory.
///
/// # Errors
/// If the message is invalid, or the generator has no numbers there.
pub fn read_generated(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let at = decoder.offset();
    let ReadGenerated { generator, offset } = ReadGenerated::read(decoder)?;
    decoder.finish()?;
    let object = scope.session.libraries.objects.find(NvidiaLibrary::Curand, generator);
    let object = object.ok_or(CallError::Result(INVALID_VALUE))?;
    let mut state = lock(&object.state);
    let rest = usize::try_from(offset)
        .ok()
        .and_then(|from| state.generated.get(from..));
    let rest = rest.ok_or(CallError::Message(MessageError::Unknown {
        what: "the offset of the numbers",
        value: offset,
        at,
    }))?;
    let part = rest.get(..MAX_GENERATED_PART).unwrap_or(rest);
    GeneratedPart(part).write(answer);
    if part.len() == rest.len() {
        state.generated = Vec::new();
    }
    Ok(())
}

/// Returns the driver's code that a program's next wait reports for a status.
const fn result_of(library: NvidiaLibrary, status: LibraryStatus) -> CuResult {
    let codes = library.codes();
    if status == codes.out_of_memory {
        return OUT_OF_MEMORY;
    }
    if status == codes.invalid_value || status == codes.no_object {
        return INVALID_VALUE;
    }
    if status == codes.not_supported {
        return NOT_SUPPORTED;
    }
    UNKNOWN
}

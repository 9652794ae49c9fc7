//! Host functions: functions of the program that run in a stream. The worker's driver reaches them, and asks for them here
//! through a region of its own.

use crate::connection::Connection;
use crate::forms::{handle_number, stream_number};
use crate::message::say;
use crate::request::Request;
use crate::{CallResult, lock, stream_state, thread_state};
use cuda_driver::{CuStream, INVALID_VALUE, OUT_OF_MEMORY};
use remote_calls::message::{HostFunctionCall, HostFunctionDone, HostFunctionForm, LaunchHostFunction};
use remote_calls::{CallId, Decoder, Encoder, HandleKind, HandleNumber};
use remote_ring::{MessageReader, MessageWriter, RingError, Wait};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex};

/// A host function with its argument.
#[derive(Clone, Copy)]
struct HostFunction {
    function: usize,
    data: usize,
    /// The stream, for a callback of `cuStreamAddCallback`, which takes it as an argument.
    callback_stream: Option<usize>,
    /// A graph can run it again.
    is_reused: bool,
}

#[derive(Default)]
struct Functions {
    next: u64,
    by_id: HashMap<u64, HostFunction>,
    is_served: bool,
}

static FUNCTIONS: LazyLock<Mutex<Functions>> = LazyLock::new(Mutex::default);

fn add(connection: &'static Connection, function: HostFunction) -> CallResult<u64> {
    let mut functions = lock(&FUNCTIONS);
    if !functions.is_served {
        let (writer, reader) = connection.take_host_function_ends().ok_or(OUT_OF_MEMORY)?;
        let thread = std::thread::Builder::new().name("kinescope-host-functions".into());
        thread
            .spawn(move || serve(connection, writer, reader))
            .map_err(|_| OUT_OF_MEMORY)?;
        functions.is_served = true;
    }
    let id = functions.next;
    functions.next += 1;
    functions.by_id.insert(id, function);
    Ok(id)
}

/// Registers a host function. Returns its number for the worker.
///
/// # Errors
/// `INVALID_VALUE` for a null pointer, `OUT_OF_MEMORY` if no thread can be started.
pub fn register(
    connection: &'static Connection,
    function: *mut c_void,
    data: *mut c_void,
    is_reused: bool,
) -> CallResult<u64> {
    if function.is_null() {
        return Err(INVALID_VALUE);
    }
    let function = HostFunction {
        function: function.expose_provenance(),
        data: data.expose_provenance(),
        callback_stream: None,
        is_reused,
    };
    add(connection, function)
}

/// Forgets a host function that was not launched.
pub fn forget(id: u64) {
    lock(&FUNCTIONS).by_id.remove(&id);
}

fn launch(mut request: Request, id: u64, stream: HandleNumber, form: HostFunctionForm) -> CallResult {
    LaunchHostFunction { id, stream, form }.write(&mut request.encoder);
    let launched = match stream_state::is_plain(stream) {
        true => request.finish().map(drop),
        false => request.ask().map(drop),
    };
    if launched.is_err() {
        forget(id);
    }
    launched
}

/// `cuLaunchHostFunc`.
pub fn launch_function(is_per_thread: bool, stream: CuStream, function: *mut c_void, data: *mut c_void) -> CallResult {
    let request = Request::new(CallId::launch_host_function, is_per_thread)?;
    let number = stream_number(is_per_thread, stream)?;
    // In a capture, the function becomes a node of a graph.
    let id = register(request.connection(), function, data, !stream_state::is_plain(number))?;
    launch(request, id, number, HostFunctionForm::Function)
}

/// `cuStreamAddCallback`.
pub fn add_callback(
    is_per_thread: bool,
    stream: CuStream,
    function: *mut c_void,
    data: *mut c_void,
    flags: u32,
) -> CallResult {
    let request = Request::new(CallId::launch_host_function, is_per_thread)?;
    if function.is_null() || flags != 0 {
        return Err(INVALID_VALUE);
    }
    let number = stream_number(is_per_thread, stream)?;
    let _ = handle_number(HandleKind::Stream, stream)?;
    let function = HostFunction {
        function: function.expose_provenance(),
        data: data.expose_provenance(),
        callback_stream: Some(stream.addr()),
        is_reused: false,
    };
    let id = add(request.connection(), function)?;
    launch(request, id, number, HostFunctionForm::Callback)
}

/// Runs what the worker asks for, until it is gone.
fn serve(connection: &'static Connection, mut writer: MessageWriter, mut reader: MessageReader) {
    let mut message = Vec::new();
    loop {
        match reader.read(&mut message, Wait::Forever, connection.peer()) {
            Ok(_) => {}
            Err(RingError::PeerGone { .. }) => return,
            Err(e) => return say(format_args!("host functions end: {e}")),
        }
        let mut decoder = Decoder::new(&message);
        let call = match HostFunctionCall::read(&mut decoder) {
            Ok(call) => call,
            Err(e) => return say(format_args!("host functions end: {e}")),
        };
        run(&call);
        let mut done = Encoder::default();
        HostFunctionDone { ticket: call.ticket }.write(&mut done);
        if writer.write(&[done.as_bytes()], connection.peer()).is_err() {
            return;
        }
    }
}

fn run(call: &HostFunctionCall) {
    let function = {
        let mut functions = lock(&FUNCTIONS);
        match functions.by_id.get(&call.id).copied() {
            Some(function) if function.is_reused => Some(function),
            _ => functions.by_id.remove(&call.id),
        }
    };
    // The worker can ask only for functions that were sent; another number runs nothing.
    let Some(HostFunction {
        function,
        data,
        callback_stream,
        ..
    }) = function
    else {
        return;
    };
    let at = std::ptr::with_exposed_provenance::<c_void>(function);
    let data = std::ptr::with_exposed_provenance_mut::<c_void>(data);
    thread_state::set_in_host_function(true);
    match callback_stream {
        // SAFETY: the program passed it as a function of this type with this argument, and keeps both until it is called.
        None => unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut c_void)>(at)(data) },
        Some(stream) => {
            let stream = std::ptr::with_exposed_provenance_mut(stream);
            // SAFETY: as above, for callbacks with the stream and its result.
            unsafe {
                std::mem::transmute::<*const c_void, unsafe extern "C" fn(CuStream, u32, *mut c_void)>(at)(
                    stream,
                    call.status,
                    data,
                );
            }
        }
    }
    thread_state::set_in_host_function(false);
}

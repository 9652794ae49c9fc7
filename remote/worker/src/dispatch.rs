//! The way of a request to the driver.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::call_error::{CallError, CallResult};
use crate::forms::WorkerForm;
use crate::session::Scope;
use crate::{
    array_copies, code, contexts, copies, graphs, host_functions, host_memory, launches, library_calls, links,
    memory_copies, memory_limit, memory_queries, textures,
};
use remote_calls::message::{ObjectKind, is_number_attribute};
use remote_calls::{
    CallId, Created, Decoder, Destroyed, Encoder, HandleKind, HandleNumber, Input, InputBytes, Object, OptionalOutput,
    Output, OutputBytes, Resolved, Text, Value, cuda_driver, kinds,
};

macro_rules! play_plain {
    ($($name:ident [$($other:ident)?] $policy:ident $export:ident ($($arg:ident: $form:ty),*);)*) => {
        /// Plays a call of the table of plain calls. Returns `None` for another one.
        fn play_plain(call: CallId, scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> Option<CallResult> {
            match call {
                $(CallId::$name => Some(plain::$name(scope, decoder, answer)),)*
                _ => None,
            }
        }

        #[allow(non_snake_case, unused_variables, reason = "the driver's own names; some calls have no results")]
        mod plain {
            use super::*;
            $(
                pub fn $name(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
                    $(let mut $arg = <$form as WorkerForm>::read(decoder, scope)?;)*
                    decoder.finish()?;
                    // SAFETY: handles are the driver's, pointers are to memory of this call. Addresses of device memory
                    // are the program's own affair: its context belongs to it alone.
                    unsafe { scope.session.driver.$name($(<$form as WorkerForm>::argument(&mut $arg)),*)? };
                    $(<$form as WorkerForm>::complete($arg, scope, answer)?;)*
                    Ok(())
                }
            )*
        }
    };
}

remote_calls::calls!(play_plain);

/// Plays a request in the caller's context, and writes its results to the answer.
///
/// # Errors
/// If the message is invalid, or the driver refuses the call.
pub fn play(call: CallId, scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let session = scope.session;
    match call {
        CallId::begin_session => return session.begin(decoder, answer),
        CallId::code_piece => return session.add_piece(decoder),
        CallId::drain_staging => return copies::drain(scope, decoder),
        CallId::release_staging => return copies::release(scope, decoder),
        _ => {
            let entered = contexts::enter(scope);
            if !needs_no_context(call)
                && let Err(error) = entered
            {
                if matches!(call, CallId::copy_to_device | CallId::finish_copy_to_device) {
                    copies::skip(scope, decoder.clone())?;
                }
                return Err(error);
            }
        }
    }
    let change = memory_limit::begin(call, scope, decoder.clone())?;
    let results_at = answer.as_bytes().len();
    let played = play_in_context(call, scope, decoder, answer);
    let results = answer.as_bytes().get(results_at..).unwrap_or_default();
    change.complete(scope, played.is_ok().then(|| Decoder::new(results)));
    played
}

/// Plays a request whose context is this thread's current one.
fn play_in_context(call: CallId, scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    match call {
        CallId::cuMemGetInfo_v2 if scope.session.device_budget.limit().is_some() => {
            memory_limit::memory_info(scope, decoder, answer)
        }
        CallId::load_module | CallId::load_library => code::load(scope, call, decoder, answer),
        CallId::find_function | CallId::find_kernel => code::find(scope, call, decoder, answer),
        CallId::list_functions => code::list(scope, decoder, answer),
        CallId::function_of_kernel => code::function_of_kernel(scope, decoder, answer),
        CallId::begin_capture => graphs::begin_stream_capture(scope, decoder),
        CallId::launch_host_function => host_functions::launch(scope, decoder),
        CallId::create_link => links::create(scope, decoder),
        CallId::add_to_link => links::add(scope, decoder, answer),
        CallId::complete_link => links::complete(scope, decoder, answer),
        CallId::read_linked => links::read(scope, decoder, answer),
        CallId::destroy_link => links::destroy(scope, decoder),
        CallId::launch => launches::launch(scope, decoder),
        CallId::copy_to_device => copies::to_device(scope, decoder, false),
        CallId::finish_copy_to_device => copies::to_device(scope, decoder, true),
        CallId::copy_to_host => copies::to_host(scope, decoder, answer, true),
        CallId::begin_copy_to_host => copies::to_host(scope, decoder, answer, false),
        CallId::copy_memory => memory_copies::copy(scope, decoder, true),
        CallId::begin_copy_memory => memory_copies::copy(scope, decoder, false),
        CallId::allocate_host => host_memory::allocate(scope, decoder, answer),
        CallId::free_host => host_memory::free(scope, decoder),
        CallId::expose_host => host_memory::expose(decoder),
        CallId::pointer_attribute => memory_queries::pointer_attribute(scope, decoder, answer),
        CallId::set_access => memory_queries::set_access(scope, decoder),
        CallId::destroy_graph => graphs::destroy(scope, decoder),
        CallId::add_graph_node => graphs::add(scope, decoder),
        CallId::set_graph_node => graphs::set(scope, decoder),
        CallId::describe_graph_node => graphs::describe(scope, decoder, answer),
        CallId::get_node_attribute => graphs::get_attribute(scope, decoder, answer),
        CallId::set_node_attribute => graphs::set_attribute(scope, decoder),
        CallId::list_graph_nodes => graphs::list_nodes(scope, decoder, answer),
        CallId::list_graph_edges => graphs::list_edges(scope, decoder, answer),
        CallId::find_child_graph => graphs::find_child(scope, decoder, answer),
        CallId::instantiate_graph => graphs::instantiate(scope, decoder, answer),
        CallId::update_exec => graphs::update(scope, decoder, answer),
        CallId::capture_to_graph => graphs::begin_capture(scope, decoder),
        CallId::capture_info => graphs::describe_capture(scope, decoder, answer),
        CallId::copy_array => array_copies::copy(scope, decoder, true),
        CallId::begin_copy_array => array_copies::copy(scope, decoder, false),
        CallId::create_texture => textures::create_texture(scope, decoder, answer),
        CallId::create_surface => textures::create_surface(scope, decoder, answer),
        CallId::describe_object => textures::describe(scope, decoder, answer),
        CallId::set_pool_attribute => memory_queries::set_pool_attribute(scope, decoder),
        CallId::get_pool_attribute => memory_queries::get_pool_attribute(scope, decoder, answer),
        CallId::open_library => library_calls::open(scope, decoder, answer),
        CallId::library_call | CallId::finish_library_call => library_calls::call(scope, decoder, answer),
        CallId::read_generated => library_calls::read_generated(scope, decoder, answer),
        _ => {
            let arguments = decoder.clone();
            before(call, scope, arguments.clone())?;
            let results_at = answer.as_bytes().len();
            let played = play_plain(call, scope, decoder, answer).unwrap_or(Ok(()));
            let results = answer.as_bytes().get(results_at..).unwrap_or_default();
            after(call, scope, arguments, played.is_ok().then(|| Decoder::new(results)));
            played
        }
    }
}

/// Returns whether a call works without a context, or with one that is gone.
const fn needs_no_context(call: CallId) -> bool {
    matches!(
        call,
        CallId::cuDevicePrimaryCtxRetain
            | CallId::cuDevicePrimaryCtxRelease_v2
            | CallId::cuDevicePrimaryCtxReset_v2
            | CallId::cuDevicePrimaryCtxGetState
            | CallId::cuDeviceGetDefaultMemPool
            | CallId::cuDeviceGetMemPool
            | CallId::cuDeviceSetMemPool
            | CallId::cuCtxCreate_v2
            | CallId::cuCtxDestroy_v2
            | CallId::cuLibraryUnload
            | CallId::cuMemGetAllocationGranularity
            | CallId::cuMemPoolCreate
            | CallId::cuMemPoolDestroy
            | CallId::cuMemPoolTrimTo
            | CallId::set_pool_attribute
            | CallId::get_pool_attribute
            | CallId::cuDevicePrimaryCtxSetFlags_v2
            | CallId::cuCtxGetApiVersion
            | CallId::free_host
            | CallId::expose_host
    )
}

/// Does what the worker's own state needs before a call, and checks what the driver would not.
fn before(call: CallId, scope: &Scope<'_>, arguments: Decoder<'_>) -> CallResult {
    match call {
        CallId::cuMemcpyAsync => memory_queries::check_unified(scope, arguments),
        CallId::cuMemPoolCreate => memory_queries::check_pool(arguments),
        CallId::cuTexObjectDestroy => check_object(scope, ObjectKind::Texture, arguments),
        CallId::cuTexObjectGetTextureDesc | CallId::cuTexObjectGetResourceViewDesc => {
            check_object(scope, ObjectKind::Texture, arguments)
        }
        CallId::cuSurfObjectDestroy => check_object(scope, ObjectKind::Surface, arguments),
        // Attributes of later drivers could hold addresses.
        CallId::cuStreamSetAttribute | CallId::cuStreamGetAttribute => {
            let mut arguments = arguments;
            let _stream: HandleNumber = arguments.read()?;
            match is_number_attribute(arguments.read()?) {
                true => Ok(()),
                false => Err(CallError::Result(cuda_driver::NOT_SUPPORTED)),
            }
        }
        // A level ends with its mipmapped array: drivers would use it after its end.
        CallId::cuArrayDestroy => {
            let mut arguments = arguments;
            let owner = scope.session.handles.owner_of(arguments.read()?);
            match owner.kind() {
                Some(HandleKind::MipmappedArray) => Err(CallError::Result(cuda_driver::INVALID_HANDLE)),
                _ => Ok(()),
            }
        }
        CallId::cuCtxDestroy_v2 | CallId::cuDevicePrimaryCtxReset_v2 | CallId::cuDevicePrimaryCtxRelease_v2 => {
            scope.session.copies.settle(&scope.session.driver);
            scope.session.host_copies.settle(&scope.session.driver);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Checks the object of a call on texture or surface objects. It is the only argument that travels.
fn check_object(scope: &Scope<'_>, kind: ObjectKind, mut arguments: Decoder<'_>) -> CallResult {
    scope.session.texture_objects.check(kind, arguments.read()?)
}

/// Does what the worker's own state needs after a call; `results` are those of a call that succeeded.
fn after(call: CallId, scope: &Scope<'_>, mut arguments: Decoder<'_>, results: Option<Decoder<'_>>) {
    match call {
        CallId::cuDevicePrimaryCtxRetain => {
            // A context that was released and is retained again has the same handle.
            contexts::forget();
            if let (Ok(device), Some(Ok(context))) = (arguments.read(), results.map(|mut r| r.read())) {
                scope.session.note_primary_context(device, context);
            }
        }
        CallId::cuCtxCreate_v2 => contexts::leave_created(scope),
        CallId::cuCtxDestroy_v2 => {
            contexts::forget();
            if let Ok(context) = arguments.read() {
                scope.session.forget_thread_streams(context);
                scope.session.texture_objects.forget(context);
                if results.is_some() {
                    scope.session.device_budget.release_context(context);
                }
            }
        }
        CallId::cuDevicePrimaryCtxReset_v2 | CallId::cuDevicePrimaryCtxRelease_v2 => {
            contexts::forget();
            let device = arguments.read().ok();
            if let Some(context) = device.and_then(|device| scope.session.primary_context(device))
                && !contexts::is_primary_active(scope, device)
            {
                scope.session.handles.remove_children(context);
                scope.session.forget_thread_streams(context);
                scope.session.texture_objects.forget(context);
                scope.session.device_budget.release_context(context);
            }
        }
        CallId::cuMemcpyAsync if results.is_some() => memory_queries::note_unified_copy(scope, arguments),
        // A capture that fails ends too.
        CallId::cuStreamEndCapture => {
            if let Ok(stream) = arguments.read() {
                scope.end_capture(stream, results.is_none());
            }
        }
        CallId::cuTexObjectDestroy | CallId::cuSurfObjectDestroy if results.is_some() => {
            let kind = match call {
                CallId::cuTexObjectDestroy => ObjectKind::Texture,
                _ => ObjectKind::Surface,
            };
            if let Ok(object) = arguments.read() {
                scope.session.texture_objects.remove(kind, object);
            }
        }
        // A level ends with its mipmapped array, and not only with the context.
        CallId::cuMipmappedArrayGetLevel => {
            if let (Ok(array), Some(Ok(level))) = (arguments.read(), results.map(|mut r| r.read())) {
                scope.session.handles.set_owner(level, array);
            }
        }
        // The library's module ends with the library, and not with the context.
        CallId::cuLibraryGetModule => {
            if let (Ok(library), Some(Ok(module))) = (arguments.read(), results.map(|mut r| r.read())) {
                scope.session.handles.set_owner(module, library);
            }
        }
        _ => {}
    }
}

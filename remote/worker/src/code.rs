//! Modules, libraries, and what launches of their functions need.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::call_error::{CallError, CallResult};
use crate::forms::{DriverHandle as _, find_object};
use crate::jit_options::JitList;
use crate::session::Scope;
use cuda_driver::{
    CuFunction, CuKernel, CuLibrary, CuModule, CudaError, FUNCTION_MAX_THREADS, FUNCTION_SHARED, INVALID_HANDLE,
    INVALID_VALUE, NOT_SUPPORTED,
};
use remote_calls::message::{
    CodeImage, FunctionDescription, FunctionList, FunctionLookup, LoadCode, MAX_FUNCTIONS, MAX_PARAMETERS,
    ParameterPlace,
};
use remote_calls::{CallId, Decoder, Encoder, HandleKind, HandleNumber, MessageError};
use std::ffi::{CStr, CString, c_char, c_void};

/// Maximum number of functions that are described when their code is loaded.
const MAX_DESCRIBED: u32 = 64;
/// Zeros after an image: they end a text, and a header that promises more than was sent reads them first.
pub const PADDING: [u8; 64] = [0; 64];

/// Loads a module or a library. The answer has the logs and the driver's result.
///
/// # Errors
/// If the message is invalid, or an option is not supported.
pub fn load(scope: &Scope<'_>, call: CallId, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let load = LoadCode::read(decoder)?;
    decoder.finish()?;
    let image = read_image(scope, &load)?;
    let mut list = JitList::new(&load.options)?;
    let driver = &scope.session.driver;
    let (kinds, values, count) = (list.kinds.as_mut_ptr(), list.values.as_mut_ptr(), list.count());
    let mut code = std::ptr::null_mut();
    let image = image.as_ptr().cast::<c_void>();
    // SAFETY: the image ends in zeros, the lists have this many elements, and all live during the call.
    let (kind, loaded) = unsafe {
        match call {
            CallId::load_module if count == 0 => (HandleKind::Module, driver.cuModuleLoadData(&raw mut code, image)),
            CallId::load_module => (
                HandleKind::Module,
                driver.cuModuleLoadDataEx(&raw mut code, image, count, kinds, values),
            ),
            _ => {
                let none = std::ptr::null_mut();
                (
                    HandleKind::Library,
                    driver.cuLibraryLoadData(
                        &raw mut code,
                        image,
                        kinds,
                        values,
                        count,
                        none,
                        std::ptr::null_mut(),
                        0,
                    ),
                )
            }
        }
    };
    let result = match loaded {
        Ok(()) => {
            scope
                .session
                .handles
                .insert(kind, load.handle, code.object(), scope.owner(kind))?;
            0
        }
        Err(e) => e.result().unwrap_or(NOT_SUPPORTED),
    };
    list.logs().write(answer);
    answer.write(result);
    // The functions of small code come with the answer, so that lookups need no request.
    let functions = match result {
        0 => describe_all(scope, kind, load.handle, code).unwrap_or_default(),
        _ => None,
    };
    answer.write(u8::from(functions.is_some()));
    functions.unwrap_or_default().write(answer);
    Ok(())
}

/// Returns the image of a request, with zeros after it.
///
/// # Errors
/// If another number of bytes was collected than the request says.
pub fn read_image(scope: &Scope<'_>, load: &LoadCode<'_>) -> CallResult<Vec<u8>> {
    let mut image = match load.image {
        CodeImage::Inline(bytes) => bytes.to_vec(),
        CodeImage::Collected(bytes) => scope.session.take_image(load.handle, bytes)?,
    };
    image.extend_from_slice(&PADDING);
    Ok(image)
}

/// Describes all functions of a module or library. Returns `None` if there are many: a driver may load each function only
/// when it is asked about it.
fn describe_all(
    scope: &Scope<'_>,
    kind: HandleKind,
    handle: HandleNumber,
    code: *mut c_void,
) -> CallResult<Option<FunctionList>> {
    let driver = &scope.session.driver;
    let mut count = 0;
    // SAFETY: the handle is the driver's, and the pointer is valid for the result.
    unsafe {
        match kind {
            HandleKind::Library => driver.cuLibraryGetKernelCount(&raw mut count, code)?,
            _ => driver.cuModuleGetFunctionCount(&raw mut count, code)?,
        }
    }
    match count <= MAX_DESCRIBED {
        true => enumerate(scope, handle, count).map(Some),
        false => Ok(None),
    }
}

/// Finds a function of a module, or a kernel of a library, by its name.
///
/// # Errors
/// If the message is invalid, or there is none.
pub fn find(scope: &Scope<'_>, call: CallId, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let lookup = FunctionLookup::read(decoder)?;
    decoder.finish()?;
    let name = CString::new(lookup.name).map_err(|_| CallError::Result(INVALID_VALUE))?;
    let driver = &scope.session.driver;
    let mut found = std::ptr::null_mut();
    let kind = match call {
        CallId::find_function => {
            let module = CuModule::from_object(find_object(scope, HandleKind::Module, lookup.owner)?);
            // SAFETY: the handle is the driver's, and the name ends in a zero.
            unsafe { driver.cuModuleGetFunction(&raw mut found, module, name.as_ptr())? };
            HandleKind::Function
        }
        _ => {
            let library = CuLibrary::from_object(find_object(scope, HandleKind::Library, lookup.owner)?);
            // SAFETY: as above.
            unsafe { driver.cuLibraryGetKernel(&raw mut found, library, name.as_ptr())? };
            HandleKind::Kernel
        }
    };
    describe(scope, kind, found, lookup.owner, Some(lookup.name))?.write(answer);
    Ok(())
}

/// Returns the function of a kernel in the current context.
///
/// # Errors
/// If the message is invalid, or the driver fails.
pub fn function_of_kernel(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let number: HandleNumber = decoder.read()?;
    decoder.finish()?;
    let kernel = CuKernel::from_object(find_object(scope, HandleKind::Kernel, number)?);
    let mut function = std::ptr::null_mut();
    // SAFETY: the handle is the driver's, and the pointer is valid for the result.
    unsafe { scope.session.driver.cuKernelGetFunction(&raw mut function, kernel)? };
    describe(scope, HandleKind::Function, function, number, None)?.write(answer);
    Ok(())
}

/// Lists the functions of a module, or the kernels of a library.
///
/// # Errors
/// If the message is invalid, or the driver fails.
pub fn list(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let owner: HandleNumber = decoder.read()?;
    let at = decoder.offset();
    let count: u32 = decoder.read()?;
    decoder.finish()?;
    if count > MAX_FUNCTIONS {
        return Err(CallError::Message(MessageError::TooLong {
            what: "the list of functions",
            count: count.into(),
            limit: MAX_FUNCTIONS.into(),
            at,
        }));
    }
    enumerate(scope, owner, count)?.write(answer);
    Ok(())
}

/// Describes the first functions of a module, or kernels of a library.
fn enumerate(scope: &Scope<'_>, owner: HandleNumber, count: u32) -> CallResult<FunctionList> {
    let driver = &scope.session.driver;
    let kind = owner
        .kind()
        .filter(|kind| matches!(kind, HandleKind::Module | HandleKind::Library));
    let object = find_object(scope, kind.ok_or(CallError::Result(INVALID_HANDLE))?, owner)?;
    let mut all = vec![std::ptr::null_mut::<c_void>(); count as usize];
    // SAFETY: the handles are the driver's, and the list has this many elements.
    let kind = unsafe {
        match owner.kind() {
            Some(HandleKind::Library) => {
                driver.cuLibraryEnumerateKernels(all.as_mut_ptr(), count, CuLibrary::from_object(object))?;
                HandleKind::Kernel
            }
            _ => {
                driver.cuModuleEnumerateFunctions(all.as_mut_ptr(), count, CuModule::from_object(object))?;
                HandleKind::Function
            }
        }
    };
    let existing = all.into_iter().filter(|function| !function.is_null());
    let functions = existing
        .map(|function| describe(scope, kind, function, owner, None))
        .collect::<CallResult<Vec<_>>>()?;
    Ok(FunctionList { functions })
}

/// Describes a function of the module or library `owner`, or of the kernel `owner`.
///
/// # Errors
/// If the driver fails.
pub fn describe(
    scope: &Scope<'_>,
    kind: HandleKind,
    function: CuFunction,
    owner: HandleNumber,
    name: Option<&str>,
) -> CallResult<FunctionDescription> {
    let driver = &scope.session.driver;
    let handle = scope.session.handles.resolve(kind, function.object(), owner)?;
    let (mut max_threads, mut shared_bytes) = (0, 0);
    // SAFETY: the handle is the driver's, and the pointers are valid for the results.
    unsafe {
        match kind {
            HandleKind::Kernel => {
                let mut device = 0;
                driver.cuCtxGetDevice(&raw mut device)?;
                driver.cuKernelGetAttribute(&raw mut max_threads, FUNCTION_MAX_THREADS, function, device)?;
                driver.cuKernelGetAttribute(&raw mut shared_bytes, FUNCTION_SHARED, function, device)?;
            }
            _ => {
                driver.cuFuncGetAttribute(&raw mut max_threads, FUNCTION_MAX_THREADS, function)?;
                driver.cuFuncGetAttribute(&raw mut shared_bytes, FUNCTION_SHARED, function)?;
            }
        }
    }
    let parameter = |index: usize| -> Result<ParameterPlace, CudaError> {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: as above.
        unsafe {
            match kind {
                HandleKind::Kernel => {
                    driver.cuKernelGetParamInfo(function, index, &raw mut offset, &raw mut bytes)?;
                }
                _ => driver.cuFuncGetParamInfo(function, index, &raw mut offset, &raw mut bytes)?,
            }
        }
        Ok(ParameterPlace {
            offset: u32::try_from(offset).unwrap_or(u32::MAX),
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        })
    };
    let mut parameters = Vec::new();
    for index in 0..MAX_PARAMETERS as usize {
        match parameter(index) {
            Ok(place) => parameters.push(place),
            // There is no further parameter.
            Err(e) if e.result() == Some(INVALID_VALUE) => break,
            Err(e) => return Err(e.into()),
        }
    }
    let name = match name {
        Some(name) => name.to_owned(),
        None => read_name(scope, kind, function)?,
    };
    Ok(FunctionDescription {
        handle,
        name,
        max_threads: u32::try_from(max_threads).unwrap_or(0),
        shared_bytes: u32::try_from(shared_bytes).unwrap_or(0),
        parameters,
    })
}

fn read_name(scope: &Scope<'_>, kind: HandleKind, function: CuFunction) -> CallResult<String> {
    let driver = &scope.session.driver;
    let mut name: *const c_char = std::ptr::null();
    // SAFETY: the handle is the driver's, and the pointer is valid for the result. The driver's text ends in a zero and
    // lives as long as its module.
    unsafe {
        match kind {
            HandleKind::Kernel => driver.cuKernelGetName(&raw mut name, function)?,
            _ => driver.cuFuncGetName(&raw mut name, function)?,
        }
        match name.is_null() {
            true => Ok(String::new()),
            false => Ok(CStr::from_ptr(name).to_string_lossy().into_owned()),
        }
    }
}

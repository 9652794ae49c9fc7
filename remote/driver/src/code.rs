//! Modules, libraries, and their functions.

use crate::errors::DEVICE_UNAVAILABLE;
use crate::forms::{AbiHandle, handle_number};
use crate::jit_options::JitOptions;
use crate::pointers::{bytes, get, put, put_if_wanted, text};
use crate::request::Request;
use crate::{CallResult, handles, read, write};
use cuda_driver::{CuFunction, CuKernel, CuLibrary, CuModule, INVALID_HANDLE, INVALID_VALUE, NOT_FOUND};
use remote_calls::message::{CodeImage, FunctionDescription, FunctionList, FunctionLookup, LoadAnswer, LoadCode};
use remote_calls::{CallId, HandleKind, HandleNumber};
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::{Arc, LazyLock, RwLock};

/// `CUDA_ERROR_FILE_NOT_FOUND`.
const FILE_NOT_FOUND: u32 = 301;
/// `CUDA_ERROR_INVALID_IMAGE`.
const INVALID_IMAGE: u32 = 200;
/// Maximum size of an image whose size is not in its header: PTX text, bytes.
const MAX_TEXT_BYTES: usize = 1 << 30;
/// Maximum size of a piece of an image in a message, bytes.
const PIECE_BYTES: usize = 128 << 10;

/// A function that the program knows.
pub struct Function {
    /// What the worker said about it.
    pub description: FunctionDescription,
    /// Its name, for programs.
    name: CString,
}

static FUNCTIONS: LazyLock<RwLock<HashMap<HandleNumber, Arc<Function>>>> = LazyLock::new(RwLock::default);

/// Functions by their names, of modules and libraries whose functions are all known.
static NAMES: LazyLock<RwLock<HashMap<HandleNumber, HashMap<String, HandleNumber>>>> = LazyLock::new(RwLock::default);

/// Returns a function, or a kernel of a library, by its handle.
///
/// # Errors
/// `INVALID_HANDLE` if there is none.
pub fn function(handle: CuFunction) -> CallResult<Arc<Function>> {
    let number = handle_number(HandleKind::Function, handle)?;
    read(&FUNCTIONS).get(&number).cloned().ok_or(INVALID_HANDLE)
}

/// First bytes of a fatbin's wrapper, which points to the fatbin.
const WRAPPER_MAGIC: u32 = 0x4662_43b1;
/// First bytes of a fatbin.
const FATBIN_MAGIC: u32 = 0xba55_ed50;
/// First bytes of an ELF file.
const ELF_MAGIC: u32 = 0x464c_457f;

/// Returns the bytes of an image. Its size is in its header, or it is a text that ends in a zero.
fn image_bytes<'a>(image: *const c_void) -> CallResult<&'a [u8]> {
    let magic: u32 = get(image.cast())?;
    match magic {
        WRAPPER_MAGIC => {
            let fatbin: u64 = get(image.wrapping_byte_add(8).cast())?;
            image_bytes(std::ptr::with_exposed_provenance(fatbin as usize))
        }
        FATBIN_MAGIC => {
            let header: u16 = get(image.wrapping_byte_add(6).cast())?;
            let rest: u64 = get(image.wrapping_byte_add(8).cast())?;
            let size = rest.checked_add(header.into()).and_then(|n| usize::try_from(n).ok());
            bytes(image, size.ok_or(INVALID_IMAGE)?)
        }
        ELF_MAGIC => bytes(image, elf_bytes(image)?),
        _ => {
            let text = text(image.cast())?.to_bytes_with_nul();
            match text.len() <= MAX_TEXT_BYTES {
                true => Ok(text),
                false => Err(INVALID_IMAGE),
            }
        }
    }
}

/// Returns the size of a cubin: the end of its last table or section.
fn elf_bytes(image: *const c_void) -> CallResult<usize> {
    let at = |offset: usize| image.wrapping_byte_add(offset);
    let u64_at = |offset: usize| get::<u64>(at(offset).cast());
    let u16_at = |offset: usize| get::<u16>(at(offset).cast()).map(u64::from);
    let (programs, sections) = (u64_at(32)?, u64_at(40)?);
    let (program_bytes, program_count) = (u16_at(54)?, u16_at(56)?);
    let (section_bytes, section_count) = (u16_at(58)?, u16_at(60)?);
    let table_end = |start: u64, bytes: u64, count: u64| start.checked_add(bytes * count).ok_or(INVALID_IMAGE);
    let mut end = table_end(programs, program_bytes, program_count)?;
    end = end.max(table_end(sections, section_bytes, section_count)?);
    // A cubin's sections lie before its tables, but a file of another tool need not be like that.
    const NO_BITS: u32 = 8;
    for index in 0..section_count {
        let header = usize::try_from(table_end(sections, section_bytes, index)?).map_err(|_| INVALID_IMAGE)?;
        let kind: u32 = get(at(header + 4).cast())?;
        if kind != NO_BITS {
            let section_end = u64_at(header + 24)?.checked_add(u64_at(header + 32)?);
            end = end.max(section_end.ok_or(INVALID_IMAGE)?);
        }
    }
    usize::try_from(end).map_err(|_| INVALID_IMAGE)
}

/// Adds code to a request. Large code is sent before, in pieces.
///
/// # Errors
/// If the worker is gone.
pub fn write_code(request: &mut Request, handle: HandleNumber, image: &[u8], options: &JitOptions) -> CallResult {
    let in_one = image.len() <= PIECE_BYTES;
    if !in_one {
        for piece in image.chunks(PIECE_BYTES) {
            let mut request = Request::new(CallId::code_piece, false)?;
            request.encoder.write(handle);
            request.encoder.write(image.len() as u64);
            request.encoder.write_bytes(piece);
            request.finish_quietly()?;
        }
    }
    LoadCode {
        handle,
        options: options.options.clone(),
        image: match in_one {
            true => CodeImage::Inline(image),
            false => CodeImage::Collected(image.len() as u64),
        },
    }
    .write(&mut request.encoder);
    Ok(())
}

fn load(call: CallId, kind: HandleKind, to: *mut *mut c_void, image: &[u8], options: &JitOptions) -> CallResult {
    if to.is_null() || options.is_invalid {
        return Err(INVALID_VALUE);
    }
    let handle = handles::create(kind)?;
    let mut request = Request::new(call, false)?;
    write_code(&mut request, handle, image, options)?;
    let answer = request.ask()?;
    let mut decoder = answer.decoder();
    // The call's own result comes after the logs, which belong to failures most of all.
    let logs = LoadAnswer::read(&mut decoder).map_err(|_| DEVICE_UNAVAILABLE)?;
    options.write_logs(logs)?;
    match decoder.read::<u32>().map_err(|_| DEVICE_UNAVAILABLE)? {
        0 => {}
        result => return Err(result),
    }
    handles::add(handle);
    let is_complete = decoder.read::<u8>().map_err(|_| DEVICE_UNAVAILABLE)? != 0;
    let list = FunctionList::read(&mut decoder).map_err(|_| DEVICE_UNAVAILABLE)?;
    if is_complete {
        let mut names = HashMap::new();
        for description in list.functions {
            let name = description.name.clone();
            names.insert(name, remember(description)?);
        }
        write(&NAMES).insert(handle, names);
    }
    put(to, <*mut c_void>::from_number(handle))
}

/// `cuModuleLoadData` and its relatives.
pub fn load_module(to: *mut CuModule, image: *const c_void, options: &JitOptions) -> CallResult {
    load(
        CallId::load_module,
        HandleKind::Module,
        to,
        image_bytes(image)?,
        options,
    )
}

/// `cuLibraryLoadData`.
pub fn load_library(to: *mut CuLibrary, image: *const c_void, options: &JitOptions) -> CallResult {
    load(
        CallId::load_library,
        HandleKind::Library,
        to,
        image_bytes(image)?,
        options,
    )
}

/// Reads a file of code, here: the worker has no files. A text gets the zero that ends it.
///
/// # Errors
/// `FILE_NOT_FOUND` if it cannot be read.
pub fn read_file(path: *const c_char) -> CallResult<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = std::ffi::OsStr::from_bytes(text(path)?.to_bytes());
    let mut content = std::fs::read(path).map_err(|_| FILE_NOT_FOUND)?;
    content.push(0);
    Ok(content)
}

/// `cuModuleLoad`.
pub fn load_module_file(to: *mut CuModule, path: *const c_char) -> CallResult {
    let content = read_file(path)?;
    load(CallId::load_module, HandleKind::Module, to, &content, &JitOptions::NONE)
}

/// `cuLibraryLoadFromFile`.
pub fn load_library_file(to: *mut CuLibrary, path: *const c_char, options: &JitOptions) -> CallResult {
    let content = read_file(path)?;
    load(CallId::load_library, HandleKind::Library, to, &content, options)
}

/// Adds a function that the worker described. Returns its handle.
///
/// # Errors
/// If its name is not a text.
pub fn remember(description: FunctionDescription) -> CallResult<HandleNumber> {
    let handle = description.handle;
    let name = CString::new(description.name.as_str()).map_err(|_| DEVICE_UNAVAILABLE)?;
    // A second lookup gives the same handle; the entry stays, since programs may hold the address of its name.
    write(&FUNCTIONS)
        .entry(handle)
        .or_insert_with(|| Arc::new(Function { description, name }));
    Ok(handle)
}

fn look_up(
    call: CallId,
    kind: HandleKind,
    to: *mut *mut c_void,
    owner: *mut c_void,
    name: *const c_char,
) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let name = text(name)?.to_str().map_err(|_| INVALID_VALUE)?;
    let mut request = Request::new(call, false)?;
    let owner = handle_number(kind, owner)?;
    if handles::is_live(owner)
        && let Some(names) = read(&NAMES).get(&owner)
    {
        request.connection().check_health()?;
        let function = names.get(name).ok_or(NOT_FOUND)?;
        return put(to, <*mut c_void>::from_number(*function));
    }
    FunctionLookup { owner, name }.write(&mut request.encoder);
    let answer = request.ask()?;
    let description = FunctionDescription::read(&mut answer.decoder()).map_err(|_| DEVICE_UNAVAILABLE)?;
    put(to, <*mut c_void>::from_number(remember(description)?))
}

/// `cuModuleGetFunction`.
pub fn find_function(to: *mut CuFunction, module: CuModule, name: *const c_char) -> CallResult {
    look_up(CallId::find_function, HandleKind::Module, to, module, name)
}

/// `cuLibraryGetKernel`.
pub fn find_kernel(to: *mut CuKernel, library: CuLibrary, name: *const c_char) -> CallResult {
    look_up(CallId::find_kernel, HandleKind::Library, to, library, name)
}

fn list(kind: HandleKind, to: *mut *mut c_void, count: u32, owner: *mut c_void) -> CallResult {
    if to.is_null() && count > 0 {
        return Err(INVALID_VALUE);
    }
    let mut request = Request::new(CallId::list_functions, false)?;
    let owner = handle_number(kind, owner)?;
    request.encoder.write(owner);
    request.encoder.write(count);
    let answer = request.ask()?;
    let functions = FunctionList::read(&mut answer.decoder())
        .map_err(|_| DEVICE_UNAVAILABLE)?
        .functions;
    for (index, description) in functions.into_iter().take(count as usize).enumerate() {
        put(
            to.wrapping_add(index),
            <*mut c_void>::from_number(remember(description)?),
        )?;
    }
    Ok(())
}

/// `cuModuleEnumerateFunctions`.
pub fn list_functions(to: *mut CuFunction, count: u32, module: CuModule) -> CallResult {
    list(HandleKind::Module, to, count, module)
}

/// `cuLibraryEnumerateKernels`.
pub fn list_kernels(to: *mut CuKernel, count: u32, library: CuLibrary) -> CallResult {
    list(HandleKind::Library, to, count, library)
}

/// `cuKernelGetFunction`: the kernel's function in the current context.
pub fn function_of_kernel(to: *mut CuFunction, kernel: CuKernel) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let kernel = handle_number(HandleKind::Kernel, kernel)?;
    let mut request = Request::new(CallId::function_of_kernel, false)?;
    request.encoder.write(kernel);
    let answer = request.ask()?;
    let description = FunctionDescription::read(&mut answer.decoder()).map_err(|_| DEVICE_UNAVAILABLE)?;
    put(to, <*mut c_void>::from_number(remember(description)?))
}

/// `cuFuncGetName` and `cuKernelGetName`. The text stays while the process lives.
pub fn write_name(to: *mut *const c_char, handle: CuFunction) -> CallResult {
    put(to, function(handle)?.name.as_ptr())
}

/// `cuFuncGetParamInfo` and `cuKernelGetParamInfo`.
pub fn write_parameter(handle: CuFunction, index: usize, offset: *mut usize, size: *mut usize) -> CallResult {
    let function = function(handle)?;
    let place = function.description.parameters.get(index).ok_or(INVALID_VALUE)?;
    put(offset, place.offset as usize)?;
    put_if_wanted(size, place.bytes as usize);
    Ok(())
}

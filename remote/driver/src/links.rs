//! Links: machine code made of texts and other machine code, by the worker's driver.

use crate::code::{read_file, write_code};
use crate::errors::DEVICE_UNAVAILABLE;
use crate::forms::{AbiHandle as _, handle_number};
use crate::jit_options::JitOptions;
use crate::pointers::{bytes, put, put_if_wanted, text};
use crate::request::Request;
use crate::{CallResult, handles, lock};
use cuda_driver::{CuLinkState, INVALID_HANDLE, INVALID_VALUE};
use remote_calls::message::LoadAnswer;
use remote_calls::{CallId, Decoder, HandleKind, HandleNumber};
use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::sync::{LazyLock, Mutex};

/// Maximum size of a linked image, bytes.
const MAX_IMAGE_BYTES: u64 = 1 << 30;

/// A link of the program.
struct Link {
    options: JitOptions,
    /// The linked image, which lives as long as the link.
    image: Vec<u8>,
}

static LINKS: LazyLock<Mutex<HashMap<HandleNumber, Link>>> = LazyLock::new(Mutex::default);

/// `cuLinkCreate`.
pub fn create(options: JitOptions, to: *mut CuLinkState) -> CallResult {
    if to.is_null() || options.is_invalid {
        return Err(INVALID_VALUE);
    }
    let handle = handles::create(HandleKind::LinkState)?;
    let mut request = Request::new(CallId::create_link, false)?;
    write_code(&mut request, handle, &[], &options)?;
    request.ask()?;
    let image = Vec::new();
    lock(&LINKS).insert(handle, Link { options, image });
    put(to, CuLinkState::from_number(handle))
}

/// `cuLinkAddFile`: the file is on the program's machine.
pub fn add_file(state: CuLinkState, kind: u32, path: *const c_char, options: &JitOptions) -> CallResult {
    let content = read_file(path)?;
    add_data(state, kind, content.as_ptr().cast(), content.len(), path, options)
}

/// Writes the logs of an answer to the buffers of a link's creator. Returns the driver's result, as an error.
fn take_result(link: &Link, decoder: &mut Decoder<'_>) -> CallResult {
    let logs = LoadAnswer::read(decoder).map_err(|_| DEVICE_UNAVAILABLE)?;
    link.options.write_logs(logs)?;
    match decoder.read::<u32>().map_err(|_| DEVICE_UNAVAILABLE)? {
        0 => Ok(()),
        result => Err(result),
    }
}

/// `cuLinkAddData`.
pub fn add_data(
    state: CuLinkState,
    kind: u32,
    data: *const c_void,
    count: usize,
    name: *const c_char,
    options: &JitOptions,
) -> CallResult {
    let handle = handle_number(HandleKind::LinkState, state)?;
    let data = bytes(data, count)?;
    let name = match name.is_null() {
        true => &[],
        false => text(name)?.to_bytes(),
    };
    let mut request = Request::new(CallId::add_to_link, false)?;
    request.encoder.write(kind);
    request.encoder.write_bytes(name);
    write_code(&mut request, handle, data, options)?;
    let answer = request.ask()?;
    let links = lock(&LINKS);
    take_result(links.get(&handle).ok_or(INVALID_HANDLE)?, &mut answer.decoder())
}

/// `cuLinkComplete`. The image lives until the link is destroyed.
pub fn complete(state: CuLinkState, image: *mut *mut c_void, size: *mut usize) -> CallResult {
    if image.is_null() {
        return Err(INVALID_VALUE);
    }
    let handle = handle_number(HandleKind::LinkState, state)?;
    let mut request = Request::new(CallId::complete_link, false)?;
    request.encoder.write(handle);
    let answer = request.ask()?;
    let mut decoder = answer.decoder();
    let mut links = lock(&LINKS);
    let link = links.get_mut(&handle).ok_or(INVALID_HANDLE)?;
    take_result(link, &mut decoder)?;
    let count: u64 = decoder.read().map_err(|_| DEVICE_UNAVAILABLE)?;
    if count > MAX_IMAGE_BYTES {
        return Err(DEVICE_UNAVAILABLE);
    }
    link.image.clear();
    while (link.image.len() as u64) < count {
        let mut request = Request::new(CallId::read_linked, false)?;
        request.encoder.write(handle);
        request.encoder.write(link.image.len());
        let answer = request.ask()?;
        let piece = answer.decoder().read_bytes().map_err(|_| DEVICE_UNAVAILABLE)?.to_vec();
        if piece.is_empty() {
            return Err(DEVICE_UNAVAILABLE);
        }
        link.image.extend_from_slice(&piece);
    }
    put_if_wanted(size, link.image.len());
    put(image, link.image.as_mut_ptr().cast())
}

/// `cuLinkDestroy`.
pub fn destroy(state: CuLinkState) -> CallResult {
    let handle = handle_number(HandleKind::LinkState, state)?;
    let mut request = Request::new(CallId::destroy_link, false)?;
    request.encoder.write(handle);
    request.ask()?;
    lock(&LINKS).remove(&handle);
    Ok(())
}

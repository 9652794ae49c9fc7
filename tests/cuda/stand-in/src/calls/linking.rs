//! Calls on links. The linked image is the text itself: the stand-in runs no machine code.

use crate::call::Call;
use crate::code::{LinkOptions, read_bytes};
use crate::codes::INVALID_VALUE;
use crate::handles::{Handles, pointer};
use crate::pointers::{bytes as read_data, get_at, give};
use crate::{Answer, lock};
use cuda_driver::{CuLinkState, INPUT_PTX, JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES};
use std::ffi::{c_char, c_void};
use std::sync::Mutex;

/// A link: its text, the image that it became, and the caller's log of errors.
struct Link {
    handle: usize,
    text: Mutex<Vec<u8>>,
    image: Mutex<Box<[u8]>>,
    /// Address and size of the log, if the caller has one.
    log: Option<(usize, usize)>,
}

static LINKS: Handles<Link> = Handles::new(14);

pub fn cuLinkCreate_v2(
    call: &Call,
    count: u32,
    options: *mut i32,
    values: *mut *mut c_void,
    state: *mut CuLinkState,
) -> Answer {
    call.context()?;
    let (mut log, mut log_bytes) = (None, None);
    for place in 0..count as usize {
        let value = get_at(values.cast_const(), place)? as usize;
        match get_at(options.cast_const(), place)? {
            JIT_ERROR_LOG => log = Some(value),
            JIT_ERROR_LOG_BYTES => log_bytes = Some(value),
            _ => {}
        }
    }
    let link = LINKS.put(|handle| Link {
        handle,
        text: Mutex::default(),
        image: Mutex::default(),
        log: log.zip(log_bytes),
    });
    give(state, pointer(link.handle))
}

#[allow(clippy::too_many_arguments, reason = "the driver's own")]
pub fn cuLinkAddData_v2(
    call: &Call,
    state: CuLinkState,
    kind: u32,
    data: *mut c_void,
    bytes: usize,
    _name: *const c_char,
    _count: u32,
    _options: *mut i32,
    _values: *mut *mut c_void,
) -> Answer {
    call.context()?;
    let link = LINKS.get(state)?;
    let mut text = lock(&link.text);
    if kind != INPUT_PTX || !text.is_empty() {
        return Err(INVALID_VALUE);
    }
    let bytes = read_data(data.cast_const(), bytes)?;
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    text.extend_from_slice(&bytes[..end]);
    if let Err(e) = read_bytes(&text, LinkOptions::default()) {
        if let Some((at, room)) = link.log {
            let message = format!("ptxas fatal: {}", e.why);
            let kept = message.bytes().take(room.saturating_sub(1)).chain([0]).take(room);
            for (n, byte) in kept.enumerate() {
                give(std::ptr::with_exposed_provenance_mut::<u8>(at + n), byte)?;
            }
        }
        return Err(e.code);
    }
    Ok(())
}

pub fn cuLinkComplete(call: &Call, state: CuLinkState, image: *mut *mut c_void, bytes: *mut usize) -> Answer {
    call.context()?;
    let link = LINKS.get(state)?;
    let mut linked = lock(&link.text).clone();
    linked.push(0);
    let mut kept = lock(&link.image);
    *kept = linked.into_boxed_slice();
    give(image, kept.as_mut_ptr().cast())?;
    give(bytes, kept.len())
}

pub fn cuLinkDestroy(call: &Call, state: CuLinkState) -> Answer {
    call.context()?;
    LINKS.take(state).map(|_| ())
}

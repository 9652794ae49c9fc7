//! Questions about addresses, and access rights of mapped memory.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::call_error::{CallError, CallResult};
use crate::forms::{DriverHandle as _, find_object};
use crate::host_memory;
use crate::session::Scope;
use cuda_driver::{
    ALLOCATION_PINNED, AccessDescription, CuMemPool, CuStream, INVALID_VALUE, LOCATION_DEVICE, MEMORY_DEVICE,
    MemLocation, NOT_SUPPORTED, POINTER_MEMORY_TYPE,
};
use remote_calls::message::{MAX_ACCESS_DESCRIPTIONS, pointer_attribute_bytes, pool_attribute_bytes};
use remote_calls::{Decoder, Encoder, HandleKind, HandleNumber, MessageError};

/// `CU_POINTER_ATTRIBUTE_CONTEXT`.
const CONTEXT: i32 = 1;
/// `CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE`.
const MEMPOOL: i32 = 17;

/// Returns an attribute of an address: its bytes, or the number of a handle.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn pointer_attribute(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let (attribute, at): (i32, u64) = (decoder.read()?, decoder.read()?);
    decoder.finish()?;
    let size = pointer_attribute_bytes(attribute).ok_or(CallError::Result(INVALID_VALUE))?;
    let mut value = [0u64; 2];
    // SAFETY: the buffer is larger than any attribute.
    unsafe {
        scope
            .session
            .driver
            .cuPointerGetAttribute(value.as_mut_ptr().cast(), attribute, at)?
    };
    let [first, second] = value;
    match attribute {
        CONTEXT => answer.write(
            scope
                .session
                .handles
                .resolve(HandleKind::Context, first, HandleNumber::NULL)?,
        ),
        MEMPOOL => answer.write(
            scope
                .session
                .handles
                .resolve(HandleKind::MemPool, first, HandleNumber::NULL)?,
        ),
        _ => {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&first.to_le_bytes());
            bytes[8..].copy_from_slice(&second.to_le_bytes());
            answer.write_bytes(bytes.get(..size).unwrap_or_default());
        }
    }
    Ok(())
}

/// Sets access rights of mapped memory.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn set_access(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult {
    let (at, bytes): (u64, usize) = (decoder.read()?, decoder.read()?);
    let position = decoder.offset();
    let count: u32 = decoder.read()?;
    if count > MAX_ACCESS_DESCRIPTIONS {
        return Err(CallError::Message(MessageError::TooLong {
            what: "the list of access rights",
            count: count.into(),
            limit: MAX_ACCESS_DESCRIPTIONS.into(),
            at: position,
        }));
    }
    let mut descriptions = Vec::new();
    for _ in 0..count {
        let location = MemLocation {
            kind: decoder.read()?,
            id: decoder.read()?,
        };
        let flags = decoder.read()?;
        descriptions.push(AccessDescription { location, flags });
    }
    decoder.finish()?;
    // SAFETY: the list has this many elements.
    unsafe {
        scope
            .session
            .driver
            .cuMemSetAccess(at, bytes, descriptions.as_ptr(), descriptions.len())
    }
    .map_err(CallError::from)
}

/// Refuses a copy between unified addresses that is not between memory of the device and the window: for the driver,
/// any address of the worker's process is valid.
///
/// # Errors
/// `INVALID_VALUE` for another address.
pub fn check_unified(scope: &Scope<'_>, mut arguments: Decoder<'_>) -> CallResult {
    let (to, from, count): (u64, u64, u64) = (arguments.read()?, arguments.read()?, arguments.read()?);
    for at in [to, from] {
        let is_in_window =
            host_memory::offset(scope, at).is_some_and(|offset| scope.session.window.pointer(offset, count).is_ok());
        if is_in_window {
            continue;
        }
        let mut kind = 0u32;
        // SAFETY: the attribute has 4 bytes.
        unsafe {
            scope
                .session
                .driver
                .cuPointerGetAttribute((&raw mut kind).cast(), POINTER_MEMORY_TYPE, at)?;
        }
        if kind != MEMORY_DEVICE {
            return Err(CallError::Result(INVALID_VALUE));
        }
    }
    Ok(())
}

/// Refuses a pool of another kind than memory of a device that no other process shares.
///
/// # Errors
/// `NOT_SUPPORTED` for another pool.
pub fn check_pool(mut arguments: Decoder<'_>) -> CallResult {
    // The handle of the new pool, then `CUmemPoolProps`: kind, kinds of handles, location, a pointer.
    let _: HandleNumber = arguments.read()?;
    let [kind, handle_types, location, _number]: [u32; 4] = arguments.read()?;
    let attributes: u64 = arguments.read()?;
    match (kind, handle_types, location, attributes) {
        (ALLOCATION_PINNED, 0, LOCATION_DEVICE, 0) => Ok(()),
        _ => Err(CallError::Result(NOT_SUPPORTED)),
    }
}

/// Reads the pool and the number of an attribute that is supported.
fn pool_attribute(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult<(CuMemPool, u32)> {
    let (pool, attribute): (HandleNumber, u32) = (decoder.read()?, decoder.read()?);
    match pool_attribute_bytes(attribute) {
        Some(_) if pool != HandleNumber::NULL => {
            let pool = find_object(scope, HandleKind::MemPool, pool)?;
            Ok((CuMemPool::from_object(pool), attribute))
        }
        _ => Err(CallError::Result(INVALID_VALUE)),
    }
}

/// Sets an attribute of a memory pool.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn set_pool_attribute(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult {
    let (pool, attribute) = pool_attribute(scope, decoder)?;
    let mut value: u64 = decoder.read()?;
    decoder.finish()?;
    let at = (&raw mut value).cast();
    // SAFETY: the pool is the driver's, and the value is as long as any attribute.
    unsafe { scope.session.driver.cuMemPoolSetAttribute(pool, attribute, at) }.map_err(CallError::from)
}

/// Returns an attribute of a memory pool.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn get_pool_attribute(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let (pool, attribute) = pool_attribute(scope, decoder)?;
    decoder.finish()?;
    let mut value = 0u64;
    let at = (&raw mut value).cast();
    // SAFETY: as above.
    unsafe { scope.session.driver.cuMemPoolGetAttribute(pool, attribute, at)? };
    answer.write(value);
    Ok(())
}

/// Notes a copy between any two addresses that was just submitted, if its target is in the window.
pub fn note_unified_copy(scope: &Scope<'_>, mut arguments: Decoder<'_>) {
    let mut read = || -> Result<(u64, HandleNumber), MessageError> {
        let to = arguments.read()?;
        let (_from, _bytes): (u64, u64) = (arguments.read()?, arguments.read()?);
        Ok((to, arguments.read()?))
    };
    // The call was played, so that its message is valid.
    let Ok((to, stream)) = read() else { return };
    if host_memory::offset(scope, to).is_some()
        && let Ok(stream) = find_object(scope, HandleKind::Stream, stream)
    {
        scope.note_host_copy(CuStream::from_object(stream));
    }
}

//! Questions about addresses, and access rights of mapped memory.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::call_error::{CallError, Played};
use crate::session::Scope;
use cuda_driver::{AccessDescription, INVALID_VALUE, MemLocation};
use remote_calls::message::MAX_ACCESS_DESCRIPTIONS;
use remote_calls::{Decoder, Encoder, HandleKind, HandleNumber, MessageError};

/// Sizes of pointer attributes by their numbers, bytes; 0 for those that are not supported. Attributes 1 and 17 are
/// handles; 5 is a structure of two numbers.
const ATTRIBUTE_BYTES: [u8; 22] = [0, 8, 4, 8, 8, 16, 4, 8, 4, 4, 4, 8, 8, 4, 8, 4, 4, 8, 8, 8, 4, 0];
/// `CU_POINTER_ATTRIBUTE_CONTEXT`.
const CONTEXT: i32 = 1;
/// `CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE`.
const MEMPOOL: i32 = 17;

/// Returns an attribute of an address: its bytes, or the number of a handle.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn pointer_attribute(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> Played {
    let (attribute, at): (i32, u64) = (decoder.read()?, decoder.read()?);
    decoder.finish()?;
    let size = usize::try_from(attribute)
        .ok()
        .and_then(|index| ATTRIBUTE_BYTES.get(index).copied());
    let size = size.filter(|size| *size > 0).ok_or(CallError::Result(INVALID_VALUE))?;
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
            answer.write_bytes(bytes.get(..usize::from(size)).unwrap_or_default());
        }
    }
    Ok(())
}

/// Sets access rights of mapped memory.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn set_access(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> Played {
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

//! Calls that change the device memory of a program, counted against its limit.
#![allow(unsafe_code, reason = "a call of the driver")]

use crate::call_error::CallResult;
use crate::device_budget::{Charge, DeviceBudget, MemoryOwner, Reservation};
use crate::session::Scope;
use remote_calls::message::AllocateHost;
use remote_calls::{CallId, Decoder, Encoder, HandleNumber, MessageError};

/// Maximum alignment of rows of `cuMemAllocPitch`, bytes.
const PITCH: u64 = 512;
/// Maximum number of levels of an array: each has half the sizes of the one before.
const MAX_LEVELS: u32 = 32;
/// `CU_LIMIT_PRINTF_FIFO_SIZE` and `CU_LIMIT_MALLOC_HEAP_SIZE`: a context has memory of these sizes.
const LIMITS_WITH_MEMORY: [u32; 2] = [1, 2];

/// What a call changes when it succeeds.
pub enum MemoryChange<'b> {
    /// Nothing that counts.
    None,
    /// Memory whose address is the first result. Rows of a pitch that is the second result have this many lines.
    Address {
        reservation: Reservation<'b>,
        bytes: u64,
        rows: Option<u64>,
    },
    /// Memory of a known owner.
    Owned {
        reservation: Reservation<'b>,
        owner: MemoryOwner,
        context: HandleNumber,
        bytes: u64,
    },
    /// Memory that is not counted any more.
    Freed {
        budget: &'b DeviceBudget,
        owner: MemoryOwner,
        charge: Charge,
    },
    /// Physical memory that gets an address.
    Mapping {
        at: u64,
        bytes: u64,
        physical: HandleNumber,
    },
    /// Addresses without memory.
    Unmapping { at: u64, bytes: u64 },
    /// Physical memory without a handle.
    Release(HandleNumber),
}

/// Counts what a call is about to change.
///
/// # Errors
/// `OUT_OF_MEMORY` beyond the limit, or if the message is invalid.
pub fn begin<'s>(call: CallId, scope: &Scope<'s>, mut arguments: Decoder<'_>) -> CallResult<MemoryChange<'s>> {
    let budget = &scope.session.device_budget;
    if budget.limit().is_none() {
        return Ok(MemoryChange::None);
    }
    let arguments = &mut arguments;
    match call {
        CallId::cuMemAlloc_v2 | CallId::cuMemAllocAsync | CallId::cuMemAllocFromPoolAsync => {
            let bytes = arguments.read()?;
            Ok(MemoryChange::Address {
                reservation: budget.reserve(bytes)?,
                bytes,
                rows: None,
            })
        }
        CallId::cuMemAllocPitch_v2 => {
            let (width, height): (u64, u64) = (arguments.read()?, arguments.read()?);
            let row = width.checked_next_multiple_of(PITCH).unwrap_or(u64::MAX);
            let bytes = row.saturating_mul(height);
            Ok(MemoryChange::Address {
                reservation: budget.reserve(bytes)?,
                bytes,
                rows: Some(height),
            })
        }
        CallId::cuMemCreate => {
            let (physical, bytes) = (arguments.read()?, arguments.read()?);
            own(budget, MemoryOwner::Object(physical), HandleNumber::NULL, bytes)
        }
        CallId::cuArrayCreate_v2 | CallId::cuArray3DCreate_v2 => {
            let array = arguments.read()?;
            let shape = ArrayShape::read(arguments, call == CallId::cuArray3DCreate_v2)?;
            own(budget, MemoryOwner::Object(array), scope.context, shape.bytes(0))
        }
        CallId::cuMipmappedArrayCreate => {
            let array = arguments.read()?;
            let shape = ArrayShape::read(arguments, true)?;
            let _flags_and_padding: u64 = arguments.read()?;
            let levels = arguments.read::<u32>()?.clamp(1, MAX_LEVELS);
            let bytes = (0..levels).map(|level| shape.bytes(level)).fold(0, u64::saturating_add);
            own(budget, MemoryOwner::Object(array), scope.context, bytes)
        }
        CallId::allocate_host => {
            let AllocateHost {
                offset,
                bytes,
                is_exposed,
            } = AllocateHost::read(arguments)?;
            // Pinned memory for copies alone has no address on the device.
            match is_exposed {
                true => own(budget, MemoryOwner::Window(offset), HandleNumber::NULL, bytes),
                false => Ok(MemoryChange::None),
            }
        }
        CallId::cuCtxSetLimit => {
            let (limit, bytes): (u32, u64) = (arguments.read()?, arguments.read()?);
            if !LIMITS_WITH_MEMORY.contains(&limit) {
                return Ok(MemoryChange::None);
            }
            let owner = MemoryOwner::ContextLimit(scope.context, limit);
            Ok(MemoryChange::Owned {
                reservation: budget.reserve(bytes.saturating_sub(budget.charged_bytes(owner)))?,
                owner,
                context: scope.context,
                bytes,
            })
        }
        CallId::cuMemFree_v2 | CallId::cuMemFreeAsync => Ok(free(budget, MemoryOwner::Address(arguments.read()?))),
        CallId::cuArrayDestroy | CallId::cuMipmappedArrayDestroy => {
            Ok(free(budget, MemoryOwner::Object(arguments.read()?)))
        }
        CallId::free_host => Ok(free(budget, MemoryOwner::Window(arguments.read()?))),
        CallId::cuMemMap => {
            let (at, bytes, _offset): (u64, u64, u64) = (arguments.read()?, arguments.read()?, arguments.read()?);
            let physical = arguments.read()?;
            Ok(MemoryChange::Mapping { at, bytes, physical })
        }
        CallId::cuMemUnmap => Ok(MemoryChange::Unmapping {
            at: arguments.read()?,
            bytes: arguments.read()?,
        }),
        CallId::cuMemRelease => Ok(MemoryChange::Release(arguments.read()?)),
        _ => Ok(MemoryChange::None),
    }
}

fn own(budget: &DeviceBudget, owner: MemoryOwner, context: HandleNumber, bytes: u64) -> CallResult<MemoryChange<'_>> {
    Ok(MemoryChange::Owned {
        reservation: budget.reserve(bytes)?,
        owner,
        context,
        bytes,
    })
}

fn free(budget: &DeviceBudget, owner: MemoryOwner) -> MemoryChange<'_> {
    match budget.take(owner) {
        Some(charge) => MemoryChange::Freed { budget, owner, charge },
        None => MemoryChange::None,
    }
}

/// Sizes of an array.
struct ArrayShape {
    /// Elements; 0 for a dimension that the array does not have.
    sizes: [u64; 3],
    element_bytes: u64,
}

impl ArrayShape {
    /// Reads a description: `CUDA_ARRAY_DESCRIPTOR`, or `CUDA_ARRAY3D_DESCRIPTOR` up to its flags.
    fn read(description: &mut Decoder<'_>, has_depth: bool) -> Result<Self, MessageError> {
        let (width, height): (u64, u64) = (description.read()?, description.read()?);
        let depth: u64 = if has_depth { description.read()? } else { 0 };
        let (format, channels): (u32, u32) = (description.read()?, description.read()?);
        // Signed, unsigned and floating-point formats of 8, 16 and 32 bits. Other formats are at most as large.
        let channel_bytes = match format {
            0x01 | 0x08 => 1u64,
            0x02 | 0x09 | 0x10 => 2,
            _ => 4,
        };
        Ok(Self {
            sizes: [width, height, depth],
            element_bytes: u64::from(channels) * channel_bytes,
        })
    }

    /// Returns the size of a level, bytes.
    fn bytes(&self, level: u32) -> u64 {
        let sizes = self.sizes.map(|size| (size >> level).max(1));
        sizes.into_iter().fold(self.element_bytes, u64::saturating_mul)
    }
}

impl MemoryChange<'_> {
    /// Notes the change after the call; `results` are those of a call that succeeded.
    pub fn complete(self, scope: &Scope<'_>, results: Option<Decoder<'_>>) {
        let budget = &scope.session.device_budget;
        let Some(mut results) = results else {
            // A reservation ends with its drop.
            if let Self::Freed { budget, owner, charge } = self {
                budget.restore(owner, charge);
            }
            return;
        };
        match self {
            Self::None | Self::Freed { .. } => {}
            Self::Address {
                reservation,
                bytes,
                rows,
            } => {
                let (at, pitch) = (results.read::<u64>(), results.read::<u64>());
                let bytes = match (rows, pitch) {
                    (Some(rows), Ok(pitch)) => pitch.saturating_mul(rows),
                    _ => bytes,
                };
                if let Ok(at) = at {
                    reservation.assign(MemoryOwner::Address(at), scope.context, bytes);
                }
            }
            Self::Owned {
                reservation,
                owner,
                context,
                bytes,
            } => reservation.assign(owner, context, bytes),
            Self::Mapping { at, bytes, physical } => budget.note_mapping(at, bytes, physical),
            Self::Unmapping { at, bytes } => budget.remove_mappings(at, bytes),
            Self::Release(physical) => budget.release_physical(physical),
        }
    }
}

/// Plays `cuMemGetInfo` for a program with a limit: the device has no more memory than the limit.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn memory_info(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    decoder.finish()?;
    let (mut free, mut total) = (0, 0);
    // SAFETY: the pointers are valid for the results.
    unsafe {
        scope.session.driver.cuMemGetInfo_v2(&raw mut free, &raw mut total)?;
    }
    let budget = &scope.session.device_budget;
    answer.write((free as u64).min(budget.free_bytes().unwrap_or(u64::MAX)));
    answer.write((total as u64).min(budget.limit().unwrap_or(u64::MAX)));
    Ok(())
}

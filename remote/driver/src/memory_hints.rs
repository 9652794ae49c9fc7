//! Hints about managed memory. It stays in host memory that kernels reach over the bus, so that nothing follows from a
//! valid hint.

use crate::forms::stream_number;
use crate::host_memory::{self, HostRangeKind};
use crate::{CallResult, connection};
use cuda_driver::{CuDevice, CuDevicePtr, CuStream, INVALID_VALUE, LOCATION_DEVICE, MemLocation};

/// `CU_DEVICE_CPU`: the host as a target.
const HOST: CuDevice = -1;
/// `CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT`, the last kind of a location.
const MAX_LOCATION: u32 = 4;
/// `CU_MEM_ADVISE_UNSET_ACCESSED_BY`, the last hint.
const MAX_ADVICE: u32 = 6;
/// `CU_MEM_ADVISE_UNSET_READ_MOSTLY`, and the numbers of hints whose device counts for nothing.
const ADVICE_WITHOUT_DEVICE: [u32; 3] = [1, 2, 4];

/// A device, in the form of one of the two versions of a function.
#[derive(Clone, Copy)]
pub enum HintTarget {
    /// Number of a device, or [`HOST`].
    Device(CuDevice),
    /// A location.
    Location(MemLocation),
}

impl HintTarget {
    fn check(self) -> CallResult {
        let device = match self {
            Self::Device(HOST) => return Ok(()),
            Self::Device(device) => device,
            Self::Location(location) if location.kind == LOCATION_DEVICE => location.id,
            Self::Location(location) if (1..=MAX_LOCATION).contains(&location.kind) => return Ok(()),
            Self::Location(_) => return Err(INVALID_VALUE),
        };
        let count = connection::current()?.snapshot()?.devices.len();
        match usize::try_from(device).is_ok_and(|index| index < count) {
            true => Ok(()),
            false => Err(crate::errors::INVALID_DEVICE),
        }
    }
}

fn check_managed(at: CuDevicePtr, bytes: usize) -> CallResult {
    let range = host_memory::find(at).filter(|range| range.kind == HostRangeKind::Managed);
    let is_inside = range.is_some_and(|range| bytes > 0 && bytes as u64 <= range.bytes - (at - range.first));
    is_inside.then_some(()).ok_or(INVALID_VALUE)
}

/// `cuMemPrefetchAsync`, in both versions.
pub fn prefetch(
    is_per_thread: bool,
    at: CuDevicePtr,
    bytes: usize,
    target: HintTarget,
    flags: u32,
    stream: CuStream,
) -> CallResult {
    connection::current()?.check_health()?;
    stream_number(is_per_thread, stream)?;
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    check_managed(at, bytes)?;
    target.check()
}

/// `cuMemAdvise`, in both versions.
pub fn advise(at: CuDevicePtr, bytes: usize, advice: u32, target: HintTarget) -> CallResult {
    connection::current()?.check_health()?;
    if !(1..=MAX_ADVICE).contains(&advice) {
        return Err(INVALID_VALUE);
    }
    check_managed(at, bytes)?;
    match ADVICE_WITHOUT_DEVICE.contains(&advice) {
        true => Ok(()),
        false => target.check(),
    }
}

//! The requests of a driver trace with their arguments, as importers of ioctl logs store them.

use crate::GpuVa;
use crate::recording::{EventKind, Recording};
use nvidia_channel::rm::{Argument, DriverBranch, decode_allocation};
use std::ops::Range;

/// Type of the ioctls of the resource manager, bits 15:8 of their numbers.
const RM_TYPE: u64 = 0x46;
/// Number of the ioctl that allocates an object.
const RM_ALLOC: u64 = 0x2b;
/// Number of the ioctl that sends a command to an object.
const RM_CONTROL: u64 = 0x2a;
/// Name of the call that maps unified memory.
const UVM_MAP: &str = "mmap /dev/nvidia-uvm";
/// Name of the request that maps the page of the compute scheduler.
const MAP_SCHEDULER: &str = "UVM_MAP_DYNAMIC_PARALLELISM_REGION";
/// Names of the requests that reserve a region, by its address and size.
const REGION_REQUESTS: [&str; 2] = [MAP_SCHEDULER, "UVM_ALLOC_SEMAPHORE_POOL"];
/// Branches that are tried if the version of the driver is unknown.
const GUESSED_BRANCHES: [DriverBranch; 3] = [DriverBranch::R580, DriverBranch::R595, DriverBranch::R570];

/// A request that the driver carried out.
pub(super) struct StoredRequest {
    /// Its event.
    pub event: u64,
    /// Number of the ioctl.
    request: u64,
    /// The argument after the call.
    pub argument: Vec<u8>,
    /// The parameters that the argument points to, after the call; empty if there are none.
    pub parameters: Vec<u8>,
}

/// An allocation of an object.
pub(super) struct Allocation {
    /// Handle of the client.
    pub client: u32,
    /// Handle of the object.
    pub handle: u32,
    /// Class of the object.
    pub class: u32,
    /// Its parameters.
    pub parameters: Argument,
}

/// A command to an object.
pub(super) struct Control<'a> {
    /// Handle of the client.
    pub client: u32,
    /// Handle of the object.
    pub object: u32,
    /// The command.
    pub command: u32,
    /// Its parameters after the call.
    pub parameters: &'a [u8],
}

impl StoredRequest {
    /// Reads the stored form: `u64 request, u32 bytes of the argument, u32 bytes of the parameters`, the argument before
    /// and after the call, and the parameters before and after it. Returns `None` for another form.
    fn read(event: u64, bytes: &[u8]) -> Option<Self> {
        let request = u64::from_le_bytes(*bytes.first_chunk()?);
        let size = read_u32(bytes, 8)? as usize;
        let nested = read_u32(bytes, 12)? as usize;
        let after = 16usize.checked_add(size)?;
        let parameters = after.checked_add(size)?.checked_add(nested)?;
        let end = parameters.checked_add(nested)?;
        (end == bytes.len()).then_some(())?;
        Some(Self {
            event,
            request,
            argument: bytes.get(after..after.checked_add(size)?)?.to_vec(),
            parameters: bytes.get(parameters..end)?.to_vec(),
        })
    }

    fn is_rm(&self, number: u64) -> bool {
        self.request >> 8 & 0xff == RM_TYPE && self.request & 0xff == number
    }

    /// Returns the allocation that the request is, if its parameters can be decoded. `version` is that of the driver.
    pub(super) fn allocation(&self, version: &str) -> Option<Allocation> {
        (self.is_rm(RM_ALLOC) && !self.parameters.is_empty()).then_some(())?;
        let class = read_u32(&self.argument, 12)?;
        let branches = DriverBranch::from_version(version).into_iter().chain(GUESSED_BRANCHES);
        let mut decoded = branches.filter_map(|b| decode_allocation(b, class, &self.parameters).ok());
        Some(Allocation {
            client: read_u32(&self.argument, 0)?,
            handle: read_u32(&self.argument, 8)?,
            class,
            parameters: decoded.next()?,
        })
    }

    /// Returns the command that the request is.
    pub(super) fn control(&self) -> Option<Control<'_>> {
        self.is_rm(RM_CONTROL).then_some(())?;
        Some(Control {
            client: read_u32(&self.argument, 0)?,
            object: read_u32(&self.argument, 4)?,
            command: read_u32(&self.argument, 8)?,
            parameters: &self.parameters,
        })
    }
}

/// Returns the ranges that unified memory uses without an allocation of the program: pools of semaphores, managed memory,
/// the region of dynamic parallelism. CPU and GPU have the same address there.
pub(super) fn find_unified_ranges(recording: &Recording) -> Vec<Range<GpuVa>> {
    let mut ranges = Vec::new();
    let mut add = |va: u64, bytes: u64| {
        let va = GpuVa::new(va);
        ranges.push(va..va.saturating_add(bytes));
    };
    for_each_named_request(recording, |_, name, bytes| {
        if name == UVM_MAP {
            // Wanted address, bytes, offset, address.
            if let Some((bytes, va)) = read_u64(bytes, 8).zip(read_u64(bytes, 24)) {
                add(va, bytes);
            }
        } else if REGION_REQUESTS.contains(&name)
            && let Some((va, bytes)) = read_region(bytes)
        {
            add(va, bytes);
        }
    });
    ranges
}

/// Returns the pages of compute schedulers: the driver calls such a page the region of dynamic parallelism.
pub(super) fn find_scheduler_pages(recording: &Recording) -> Vec<GpuVa> {
    let mut pages = Vec::new();
    for_each_named_request(recording, |_, name, bytes| {
        if name == MAP_SCHEDULER
            && let Some((va, _)) = read_region(bytes)
        {
            pages.push(GpuVa::new(va));
        }
    });
    pages
}

/// Returns address and bytes of the region that a stored request reserves.
fn read_region(stored: &[u8]) -> Option<(u64, u64)> {
    let request = StoredRequest::read(0, stored)?;
    read_u64(&request.argument, 0).zip(read_u64(&request.argument, 8))
}

/// Returns a number of 32 bits at an offset.
pub(super) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns a number of 64 bits at an offset.
pub(super) fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Calls back with each successful request whose arguments the recording holds, in event order.
pub(super) fn for_each_request(recording: &Recording, mut each: impl FnMut(&StoredRequest)) {
    let holds_arguments = recording.driver_trace().is_some_and(|d| d.has_arguments);
    if !holds_arguments || recording.events.calls.is_empty() {
        return;
    }
    for_each_named_request(recording, |event, _, bytes| {
        if let Some(request) = StoredRequest::read(event, bytes) {
            each(&request);
        }
    });
}

/// Calls back with each successful request, in event order: its event, its name and its stored arguments.
pub(super) fn for_each_named_request(recording: &Recording, mut each: impl FnMut(u64, &str, &[u8])) {
    let events = &recording.events;
    if recording.driver_trace().is_none() {
        return;
    }
    let has_calls = recording.api().is_some();
    for (event, kind) in events.kind.iter().enumerate() {
        if kind != EventKind::Call as u8 {
            continue;
        }
        let row = events.payload.get(event).and_then(|p| events.calls.get(p as usize));
        let Some(row) = row.filter(|r| r.result == 0 && (r.is_request() || !has_calls)) else {
            continue;
        };
        if let Some(bytes) = events.call_arguments(row.arguments_at, row.arguments) {
            each(event as u64, recording.call_name(&row).unwrap_or_default(), &bytes);
        }
    }
}

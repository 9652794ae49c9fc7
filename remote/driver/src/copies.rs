//! Copies between memory of the program and device memory: through the staging area, or straight from memory that both
//! processes map.

use crate::connection::{self, Connection};
use crate::copier::{Copier, with_copier};
use crate::errors::DEVICE_UNAVAILABLE;
use crate::forms::stream_number;
use crate::forwarded;
use crate::pointers::{bytes, get_at, put_bytes, put_if_wanted, result_bytes};
use crate::request::{CallMode, PendingAnswer, Request};
use crate::staging::StagingUse;
use crate::{CallResult, host_memory, memory, stream_state, thread_state};
use cuda_driver::{CuDevicePtr, CuStream, INVALID_VALUE, STREAM_PER_THREAD};
use remote_calls::message::{CopyToDevice, CopyToHost, HostPart};
use remote_calls::{CallId, HandleNumber};
use remote_ring::StagingRange;
use std::collections::VecDeque;
use std::ffi::c_void;

/// Maximum size of a copy whose bytes travel in the message, bytes. Larger ones use the staging area.
const MAX_INLINE_BYTES: usize = 16 << 10;
/// Size of the parts of a copy over a relay, bytes: about a millisecond of its connection.
const WINDOW_PART_BYTES: usize = 8 << 20;
/// Maximum size of a part of a copy to the host, bytes.
const MAX_PART_BYTES: usize = 1 << 20;
/// Maximum number of parts of a copy to the host on their way at once: the device writes one, the connection carries
/// another, and the program reads a third.
const MAX_PARTS_IN_FLIGHT: usize = 24;

/// Stream of a copy, as the program passed it, and whether the call returns before the copy is done.
#[derive(Clone, Copy)]
pub struct CopyStream {
    stream: CuStream,
    is_per_thread: bool,
    is_asynchronous: bool,
}

impl CopyStream {
    /// Returns the stream of an asynchronous copy.
    pub const fn new(stream: CuStream, is_per_thread: bool) -> Self {
        Self {
            stream,
            is_per_thread,
            is_asynchronous: true,
        }
    }

    /// Returns the stream's number.
    ///
    /// # Errors
    /// `INVALID_HANDLE` if it is no stream.
    pub fn number(self) -> CallResult<HandleNumber> {
        stream_number(self.is_per_thread, self.stream)
    }

    /// Returns the stream as an argument of a forwarded call.
    fn handle(self) -> CuStream {
        match self.is_per_thread && self.stream.is_null() {
            true => std::ptr::without_provenance_mut(STREAM_PER_THREAD),
            false => self.stream,
        }
    }

    /// Returns whether the call returns before the copy is done.
    pub const fn is_asynchronous(self) -> bool {
        self.is_asynchronous
    }
}

/// Returns the stream of a synchronous copy, which has no stream argument.
pub const fn default_stream(is_per_thread: bool) -> CopyStream {
    CopyStream {
        stream: std::ptr::null_mut(),
        is_per_thread,
        is_asynchronous: false,
    }
}

/// Copies from the program to the device. Memory that the worker does not map is read before the call returns, so that
/// the program may change it.
pub fn to_device(to: CuDevicePtr, from: *const c_void, count: usize, stream: CopyStream) -> CallResult {
    let source = bytes(from, count)?;
    let number = stream.number()?;
    // Work of streams that do not wait for the default stream may use the memory after a synchronous copy.
    let call = match stream.is_asynchronous {
        true => CallId::copy_to_device,
        false => CallId::finish_copy_to_device,
    };
    // The worker waits for a synchronous copy before it takes the next request, where that holds up no other thread. The
    // program goes on: its memory was read.
    let is_finished_there = !stream.is_asynchronous && thread_state::is_only_thread();
    if let Some(offset) = host_memory::window_offset(from.addr() as u64, count as u64).filter(|_| count > 0) {
        return window_parts(count, number, |part, is_last| {
            finish_part(
                Request::new(if is_last { call } else { CallId::copy_to_device }, false)?,
                to.checked_add(part.start).ok_or(INVALID_VALUE)?,
                part.bytes,
                number,
                HostPart::Window(offset.checked_add(part.start).ok_or(INVALID_VALUE)?),
                false,
            )
        });
    }
    if source.len() <= MAX_INLINE_BYTES {
        let request = Request::new(call, false)?;
        let source_part = HostPart::Inline(source);
        return finish_part(request, to, source.len(), number, source_part, is_finished_there);
    }
    let connection = connection::current()?;
    with_copier(connection.region(), source.len(), |copier| {
        parts_to_device(connection, copier, to, source, number, call, is_finished_there)
    })
}

/// Copies through the staging area. `last_call` is the call of the last part.
fn parts_to_device<'s>(
    connection: &Connection,
    mut copier: Copier<'s>,
    to: CuDevicePtr,
    source: &'s [u8],
    stream: HandleNumber,
    last_call: CallId,
    is_finished_there: bool,
) -> CallResult {
    let mut done = 0;
    while let Some(rest) = source.get(done..).filter(|rest| !rest.is_empty()) {
        let range = connection.allocate_staging(StagingUse::ToDevice, rest.len() as u64)?;
        let part = rest.get(..range.bytes as usize).unwrap_or(rest);
        // Parts of one stream run in order: the wait for the last one is a wait for all.
        let is_last = done + part.len() == source.len();
        let request = Request::new(if is_last { last_call } else { CallId::copy_to_device }, false)?;
        copier.copy_to_staging(range.offset, part)?;
        let at = to.checked_add(done as u64).ok_or(INVALID_VALUE)?;
        let place = HostPart::Staging {
            ticket: range.ticket,
            offset: range.offset,
        };
        let sent = finish_part(request, at, part.len(), stream, place, is_last && is_finished_there);
        if let Err(result) = sent {
            // The worker may know the range, and frees it once.
            connection.skip_staging(range);
            return Err(result);
        }
        done += part.len();
    }
    Ok(())
}

/// A part of a copy of memory that the worker maps.
struct WindowPart {
    /// Offset in the copy, bytes.
    start: u64,
    bytes: usize,
}

/// Makes a copy of memory that the worker maps, from or to the device: at once, or in parts over a relay, whose
/// connection carries one part while the device copies another. A copy that becomes a node of a graph stays whole.
fn window_parts(
    count: usize,
    stream: HandleNumber,
    mut copy: impl FnMut(WindowPart, bool) -> CallResult,
) -> CallResult {
    let has_parts = count >= 2 * WINDOW_PART_BYTES
        && connection::current()?.snapshot()?.is_relayed
        && stream_state::is_plain(stream);
    let most = if has_parts { WINDOW_PART_BYTES } else { count };
    let mut start = 0;
    while start < count {
        let bytes = most.min(count - start);
        let part = WindowPart {
            start: start as u64,
            bytes,
        };
        start += bytes;
        copy(part, start == count)?;
    }
    Ok(())
}

fn finish_part(
    mut request: Request,
    to: CuDevicePtr,
    count: usize,
    stream: HandleNumber,
    source: HostPart<'_>,
    is_finished_there: bool,
) -> CallResult {
    CopyToDevice {
        to,
        bytes: count as u64,
        stream,
        source,
    }
    .write(&mut request.encoder);
    // An address that the program did not allocate may be wrong: then the error must come from this call.
    match memory::contains(to, count as u64) && stream_state::is_plain(stream) {
        true if is_finished_there => request.finish_quietly(),
        true => request.finish().map(drop),
        false => request.ask().map(drop),
    }
}

/// Copies from the device to the program. Unless the copy is asynchronous and the worker maps the memory, it returns when
/// the bytes are in place.
pub fn to_host(to: *mut c_void, from: CuDevicePtr, count: usize, stream: CopyStream) -> CallResult {
    if to.is_null() && count > 0 {
        return Err(INVALID_VALUE);
    }
    let number = stream.number()?;
    if let Some(offset) = host_memory::window_offset(to.addr() as u64, count as u64).filter(|_| count > 0) {
        let call = match stream.is_asynchronous {
            true => CallId::begin_copy_to_host,
            false => CallId::copy_to_host,
        };
        return window_parts(count, number, |part, is_last| {
            let call = if is_last { call } else { CallId::begin_copy_to_host };
            let mut request = Request::new(call, false)?;
            let from = from.checked_add(part.start).ok_or(INVALID_VALUE)?;
            CopyToHost {
                from,
                bytes: part.bytes as u64,
                stream: number,
                target: HostPart::Window(offset.checked_add(part.start).ok_or(INVALID_VALUE)?),
            }
            .write(&mut request.encoder);
            match memory::contains(from, part.bytes as u64) && stream_state::is_plain(number) {
                true => request.finish().map(drop),
                false => request.ask().map(drop),
            }
        });
    }
    if count <= MAX_INLINE_BYTES {
        return bytes_to_host(to, from, count, number);
    }
    let connection = connection::current()?;
    with_copier(connection.region(), count, |copier| {
        parts_to_host(connection, copier, to, from, count, number)
    })
}

/// Copies a few bytes, which come in the answer.
fn bytes_to_host(to: *mut c_void, from: CuDevicePtr, count: usize, stream: HandleNumber) -> CallResult {
    let mut request = Request::new(CallId::copy_to_host, false)?;
    CopyToHost {
        from,
        bytes: count as u64,
        stream,
        target: HostPart::Inline(&[]),
    }
    .write(&mut request.encoder);
    let answer = request.ask()?;
    let mut decoder = answer.decoder();
    let bytes = decoder.read_bytes().map_err(|_| DEVICE_UNAVAILABLE)?;
    match bytes.len() == count {
        true => put_bytes(to, bytes),
        false => Err(DEVICE_UNAVAILABLE),
    }
}

/// A part of a copy to the host on its way.
struct PartInFlight {
    range: StagingRange,
    answer: PendingAnswer,
    to: *mut c_void,
}

impl PartInFlight {
    /// Waits for the part and copies it to the program's memory.
    fn finish(self, connection: &Connection, copier: &mut Copier<'_>) -> CallResult {
        let answer = self.answer.wait().map(drop);
        let copied = answer.and_then(|()| {
            let bytes = usize::try_from(self.range.bytes).map_err(|_| INVALID_VALUE)?;
            copier.copy_from_staging(self.range.offset, result_bytes(self.to, bytes)?)
        });
        connection.release_staging(self.range);
        copied
    }
}

/// Copies through the staging area. Several parts are on their way at once.
fn parts_to_host(
    connection: &Connection,
    mut copier: Copier<'_>,
    to: *mut c_void,
    from: CuDevicePtr,
    count: usize,
    stream: HandleNumber,
) -> CallResult {
    let mut parts = VecDeque::new();
    let mut result = Ok(());
    let mut begun = 0;
    while result.is_ok() && (begun < count || !parts.is_empty()) {
        let range = match begun < count && parts.len() < MAX_PARTS_IN_FLIGHT {
            true => range_to_host(connection, count - begun, parts.is_empty()),
            false => Ok(None),
        };
        result = range.and_then(|range| match (range, parts.pop_front_if(|_| range.is_none())) {
            (Some(range), _) => {
                let part = begin_part(range, to.wrapping_byte_add(begun), from, begun, stream);
                parts.push_back(part.inspect_err(|_| connection.release_staging(range))?);
                begun = begun.saturating_add(range.bytes as usize);
                Ok(())
            }
            (None, Some(part)) => part.finish(connection, &mut copier),
            (None, None) => Ok(()),
        });
    }
    // After an error, the ranges are free when their parts have ended.
    for part in parts {
        let _ = part.answer.wait();
        connection.release_staging(part.range);
    }
    result
}

/// Returns a range for the next part. The first one waits for room; a further one would wait for ranges of this copy.
fn range_to_host(connection: &Connection, rest: usize, is_first: bool) -> CallResult<Option<StagingRange>> {
    let bytes = rest.min(MAX_PART_BYTES) as u64;
    match is_first {
        true => connection.allocate_staging(StagingUse::ToHost, bytes).map(Some),
        false => connection.try_allocate_staging_to_host(bytes),
    }
}

fn begin_part(
    range: StagingRange,
    to: *mut c_void,
    from: CuDevicePtr,
    done: usize,
    stream: HandleNumber,
) -> CallResult<PartInFlight> {
    let mut request = Request::new(CallId::copy_to_host, false)?;
    CopyToHost {
        from: from.checked_add(done as u64).ok_or(INVALID_VALUE)?,
        bytes: range.bytes,
        stream,
        target: HostPart::Staging {
            ticket: range.ticket,
            offset: range.offset,
        },
    }
    .write(&mut request.encoder);
    let answer = request.begin()?;
    Ok(PartInFlight { range, answer, to })
}

/// Returns how a copy on the device is called: its ranges can be wrong, unless they are known.
fn device_mode(is_per_thread: bool, to: CuDevicePtr, from: CuDevicePtr, count: usize) -> CallMode {
    CallMode {
        is_per_thread,
        needs_answer: !memory::contains(to, count as u64) || !memory::contains(from, count as u64),
    }
}

/// Copies between two ranges of device memory in a stream.
pub fn on_device_async(
    to: CuDevicePtr,
    from: CuDevicePtr,
    count: usize,
    stream: CuStream,
    is_per_thread: bool,
) -> CallResult {
    let mode = device_mode(is_per_thread, to, from, count);
    forwarded::cuMemcpyDtoDAsync_v2(mode, to, from, count, stream)
}

/// Copies between two ranges of device memory in the default stream.
pub fn on_device(to: CuDevicePtr, from: CuDevicePtr, count: usize, is_per_thread: bool) -> CallResult {
    if is_per_thread {
        let stream = std::ptr::without_provenance_mut(STREAM_PER_THREAD);
        return on_device_async(to, from, count, stream, true);
    }
    forwarded::cuMemcpyDtoD_v2(device_mode(false, to, from, count), to, from, count)
}

/// Returns whether an address is host memory that only the program has.
pub fn is_only_here(at: CuDevicePtr) -> bool {
    host_memory::window_offset(at, 1).is_none() && (host_memory::find(at).is_some() || is_mapped_here(at))
}

/// Returns whether this process has memory at an address. The worker's device addresses are not mapped here.
fn is_mapped_here(at: CuDevicePtr) -> bool {
    if memory::contains(at, 1) {
        return false;
    }
    let page = (at & !4095) as usize;
    let mut resident = 0u8;
    // SAFETY: the call writes one byte of its result and changes nothing.
    unsafe { libc::mincore(std::ptr::without_provenance_mut(page), 1, &raw mut resident) == 0 }
}

/// Copies between any two addresses.
pub fn unified(to: CuDevicePtr, from: CuDevicePtr, count: usize, stream: CopyStream) -> CallResult {
    let pointer = |at: CuDevicePtr| std::ptr::with_exposed_provenance_mut::<c_void>(at as usize);
    match (is_only_here(to), is_only_here(from)) {
        (false, true) => to_device(to, pointer(from), count, stream),
        (true, false) => to_host(pointer(to), from, count, stream),
        (false, false) => {
            forwarded::cuMemcpyAsync(stream.is_per_thread, to, from, count, stream.handle())?;
            match stream.is_asynchronous {
                true => Ok(()),
                false => forwarded::cuStreamSynchronize(stream.is_per_thread, stream.handle()),
            }
        }
        (true, true) => {
            // The copy has its place in the stream.
            forwarded::cuStreamSynchronize(stream.is_per_thread, stream.handle())?;
            // The ranges can overlap.
            let copied = bytes(pointer(from), count)?.to_vec();
            put_bytes(pointer(to), &copied)
        }
    }
}

/// `cuMemcpyBatchAsync`: copies that may run in any order run one after the other.
pub fn batch(
    to: *mut CuDevicePtr,
    from: *mut CuDevicePtr,
    counts: *mut usize,
    count: usize,
    failed: *mut usize,
    stream: CopyStream,
) -> CallResult {
    for index in 0..count {
        let copy = || unified(get_at(to, index)?, get_at(from, index)?, get_at(counts, index)?, stream);
        if let Err(result) = copy() {
            put_if_wanted(failed, index);
            return Err(result);
        }
    }
    Ok(())
}

//! Copies and fills: what came from the host is taken up when the call returns, what goes to the host when it is there.

use crate::content::{self, content_at};
use crate::progress::Reached;
use crate::recorder::{Form, Recorder, is_ok, lock};
use cuda_driver::{
    Copy2d, Copy3d, CuDevicePtr, CuResult, CuStream, MEMORY_ARRAY, MEMORY_DEVICE, MEMORY_HOST, MEMORY_UNIFIED,
};
use cuda_session::{Begun, Slot, With};
use libc::c_void;
use trace_core::recording::{CALL_ASYNC, CallEvent, CopyKind, CopyRow, FillRow};

/// Copies to the host that are not known to be done.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    waiting: Vec<Waiting>,
    /// What was awaited when the program ended, last one first.
    last: Option<Vec<Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    stream: u64,
    work: u64,
    slot: Slot,
    row: CopyRow,
}

/// Bytes of what is awaited that are taken up at once when the program ends.
const AT_ONCE: u64 = 64 << 20;

type Call<'a> = &'a mut dyn FnMut() -> CuResult;

/// A stream, where a call names one.
#[derive(Clone, Copy)]
pub(crate) struct Where {
    stream: CuStream,
    form: Form,
    waits: bool,
}

impl Where {
    /// The default stream, and the call waits until it is done.
    pub fn now(form: Form) -> Self {
        Self {
            stream: std::ptr::null_mut(),
            form,
            waits: true,
        }
    }

    /// A stream, and the call does not wait.
    pub fn later(stream: CuStream, form: Form) -> Self {
        Self {
            stream,
            form,
            waits: false,
        }
    }
}

/// A copy of rows.
pub(crate) fn copy(r: &Recorder, at: Where, call: Call<'_>, row: CopyRow) -> CuResult {
    let begun = r.session.begun();
    let captured = r.captured(at.stream, at.form);
    let mut row = CopyRow {
        stream: r.stream(at.stream, at.form),
        flags: captured | if at.waits { 0 } else { CALL_ASYNC },
        ..row
    };
    let result = call();
    row.result = result;
    row.took = begun.took();
    let key = Recorder::stream_key(at.stream, at.form);
    let kind = CopyKind::from_raw(row.kind);
    if !is_ok(result) || captured != 0 || row.bytes == 0 || row.rows == 0 || !r.is_inside() {
        r.hand(begun, CallEvent::Copy(row), With::Nothing);
        return result;
    }
    let work = lock(&r.progress).work(key);
    match kind {
        Some(CopyKind::HostToDevice) => {
            // Pinned memory is read when the copy's turn comes, and may be what an earlier copy has yet to bring.
            let pending = lock(&r.reads)
                .waiting
                .iter()
                .any(|w| overlaps(&w.row, row.from, row.from_pitch, &row));
            if pending {
                // SAFETY: waits for the device.
                let _ = unsafe { crate::resolve::driver().cuCtxSynchronize() };
                r.complete_all();
            }
            let with = content_at(r, row.from, row.from_pitch, &row);
            r.hand(begun, CallEvent::Copy(row), with);
        }
        Some(CopyKind::DeviceToHost) if at.waits => {
            let with = content_at(r, row.to, row.to_pitch, &row);
            r.hand(begun, CallEvent::Copy(row), with);
        }
        Some(CopyKind::DeviceToHost) => r.awaits(begun, key, work, row),
        _ => r.hand(begun, CallEvent::Copy(row), With::Nothing),
    }
    // Copies on the device come back before they are done.
    if at.waits && matches!(kind, Some(CopyKind::HostToDevice | CopyKind::DeviceToHost)) {
        r.stream_done(key);
    }
    result
}

fn overlaps(read: &CopyRow, from: u64, pitch: u64, row: &CopyRow) -> bool {
    let end = |at: u64, pitch: u64, c: &CopyRow| {
        at.saturating_add(pitch.max(c.bytes).saturating_mul(c.rows.saturating_sub(1)))
            .saturating_add(c.bytes)
    };
    read.to < end(from, pitch, row) && from < end(read.to, read.to_pitch, read)
}

fn linear(to: u64, from: u64, bytes: usize, kind: CopyKind) -> CopyRow {
    CopyRow {
        to,
        from,
        bytes: bytes as u64,
        rows: 1,
        to_pitch: 0,
        from_pitch: 0,
        kind: kind as u32,
        ..Default::default()
    }
}

/// From the host to the device.
pub(crate) fn to_device(
    r: &Recorder,
    at: Where,
    call: Call<'_>,
    to: CuDevicePtr,
    from: *const c_void,
    bytes: usize,
) -> CuResult {
    copy(r, at, call, linear(to, from as u64, bytes, CopyKind::HostToDevice))
}

/// From the device to the host.
pub(crate) fn to_host(
    r: &Recorder,
    at: Where,
    call: Call<'_>,
    to: *mut c_void,
    from: CuDevicePtr,
    bytes: usize,
) -> CuResult {
    copy(r, at, call, linear(to as u64, from, bytes, CopyKind::DeviceToHost))
}

/// From the device to the device.
pub(crate) fn on_device(
    r: &Recorder,
    at: Where,
    call: Call<'_>,
    to: CuDevicePtr,
    from: CuDevicePtr,
    bytes: usize,
) -> CuResult {
    copy(r, at, call, linear(to, from, bytes, CopyKind::DeviceToDevice))
}

/// From a device to a device.
pub(crate) fn of_peer(
    r: &Recorder,
    at: Where,
    call: Call<'_>,
    to: CuDevicePtr,
    from: CuDevicePtr,
    bytes: usize,
) -> CuResult {
    let (what, why) = crate::unseen::PEERS;
    r.not_recorded(what, why);
    on_device(r, at, call, to, from, bytes)
}

/// Between addresses of which the driver finds out what they are.
pub(crate) fn unified(
    r: &Recorder,
    at: Where,
    call: Call<'_>,
    to: CuDevicePtr,
    from: CuDevicePtr,
    bytes: usize,
) -> CuResult {
    copy(
        r,
        at,
        call,
        linear(to, from, bytes, way(r.is_device(to), r.is_device(from))),
    )
}

fn way(to_device: bool, from_device: bool) -> CopyKind {
    match (to_device, from_device) {
        (true, true) => CopyKind::DeviceToDevice,
        (true, false) => CopyKind::HostToDevice,
        (false, true) => CopyKind::DeviceToHost,
        (false, false) => CopyKind::Other,
    }
}

/// One side of a copy of rows: whether it is the device's, its first byte and pitch. `None`: an array.
fn side(r: &Recorder, kind: u32, host: u64, device: u64, pitch: usize, x: usize, y: usize) -> Option<(bool, u64, u64)> {
    let base = match kind {
        MEMORY_HOST => (false, host),
        MEMORY_DEVICE => (true, device),
        MEMORY_UNIFIED => (r.is_device(device), device),
        _ => return None,
    };
    let at = base.1.wrapping_add((y.wrapping_mul(pitch)).wrapping_add(x) as u64);
    Some((base.0, at, pitch as u64))
}

/// `cuMemcpy2D`.
///
/// # Safety
/// The form is the program's, which the driver reads too.
pub(crate) unsafe fn rows(r: &Recorder, at: Where, call: Call<'_>, copy2d: *const Copy2d) -> CuResult {
    if copy2d.is_null() {
        return call();
    }
    // SAFETY: not null, and the driver is about to read it.
    let c = unsafe { *copy2d };
    let from = side(
        r,
        c.source_kind,
        c.source_host as u64,
        c.source_device,
        c.source_pitch,
        c.source_x,
        c.source_y,
    );
    let to = side(r, c.to_kind, c.to_host as u64, c.to_device, c.to_pitch, c.to_x, c.to_y);
    copy(r, at, call, row_of(r, to, from, c.width, c.height))
}

fn row_of(
    r: &Recorder,
    to: Option<(bool, u64, u64)>,
    from: Option<(bool, u64, u64)>,
    width: usize,
    rows: usize,
) -> CopyRow {
    let (Some(to), Some(from)) = (to, from) else {
        let (what, why) = crate::unseen::ARRAYS;
        r.not_recorded(what, why);
        return CopyRow {
            bytes: width as u64,
            rows: rows as u64,
            kind: CopyKind::Other as u32,
            ..Default::default()
        };
    };
    CopyRow {
        to: to.1,
        from: from.1,
        bytes: width as u64,
        rows: rows as u64,
        to_pitch: to.2,
        from_pitch: from.2,
        kind: way(to.0, from.0) as u32,
        ..Default::default()
    }
}

/// `cuMemcpy3D`: its slices are told as one copy where they follow each other, otherwise one by one.
///
/// # Safety
/// As [`rows`].
pub(crate) unsafe fn slices(r: &Recorder, at: Where, call: Call<'_>, copy3d: *const Copy3d) -> CuResult {
    if copy3d.is_null() {
        return call();
    }
    // SAFETY: not null, and the driver is about to read it.
    let c = unsafe { *copy3d };
    let rows = flattened(r, &c);
    match rows.as_slice() {
        [one] => copy(r, at, call, *one),
        many => {
            let mut result = None;
            for row in many {
                // The driver is asked once; the other slices are told as it answered.
                let answered = copy(r, at, &mut || *result.get_or_insert_with(&mut *call), *row);
                if !is_ok(answered) {
                    return answered;
                }
            }
            result.unwrap_or_else(call)
        }
    }
}

/// The copies of rows that a copy of slices is.
pub(crate) fn flattened(r: &Recorder, c: &Copy3d) -> Vec<CopyRow> {
    if c.source_kind == MEMORY_ARRAY || c.to_kind == MEMORY_ARRAY || c.depth == 0 {
        return vec![row_of(r, None, None, c.width, c.height.saturating_mul(c.depth))];
    }
    let one = c.depth == 1;
    let joined = !one && c.source_height == c.height && c.to_height == c.height;
    let (slices, height) = if joined {
        (1, c.height.saturating_mul(c.depth))
    } else {
        (c.depth, c.height)
    };
    (0..slices.min(1 << 16))
        .map(|z| {
            let y = |first: usize, own: usize, height: usize| {
                first.wrapping_add((own.wrapping_add(z)).wrapping_mul(height))
            };
            let from = side(
                r,
                c.source_kind,
                c.source_host as u64,
                c.source_device,
                c.source_pitch,
                c.source_x,
                y(c.source_y, c.source_z, c.source_height),
            );
            let to = side(
                r,
                c.to_kind,
                c.to_host as u64,
                c.to_device,
                c.to_pitch,
                c.to_x,
                y(c.to_y, c.to_z, c.to_height),
            );
            row_of(r, to, from, c.width, height)
        })
        .collect()
}

/// Memory set to a value.
pub(crate) fn fill(r: &Recorder, at: Where, call: Call<'_>, row: FillRow) -> CuResult {
    let begun = r.session.begun();
    let captured = r.captured(at.stream, at.form);
    let stream = r.stream(at.stream, at.form);
    let result = call();
    if is_ok(result) && captured == 0 {
        lock(&r.progress).work(Recorder::stream_key(at.stream, at.form));
    }
    let row = FillRow {
        stream,
        flags: captured | if at.waits { 0 } else { CALL_ASYNC },
        result,
        took: begun.took(),
        ..row
    };
    r.hand(begun, CallEvent::Fill(row), With::Nothing);
    result
}

/// A fill of elements that follow each other.
pub(crate) fn elements(to: u64, value: u32, element: u32, count: usize) -> FillRow {
    FillRow {
        to,
        elements: count as u64,
        rows: 1,
        pitch: 0,
        value,
        element,
        ..Default::default()
    }
}

/// A fill of rows.
pub(crate) fn element_rows(to: u64, pitch: usize, value: u32, element: u32, width: usize, height: usize) -> FillRow {
    FillRow {
        to,
        elements: width as u64,
        rows: height as u64,
        pitch: pitch as u64,
        value,
        element,
        ..Default::default()
    }
}

impl Recorder {
    /// A copy to the host that is done when its stream has come to the piece of work of this number.
    pub fn awaits(&self, begun: Begun, key: u64, work: u64, row: CopyRow) {
        let slot = self.session.slot();
        let mut reads = lock(&self.reads);
        // What it writes over before anybody looked is not known any more.
        reads.waiting.retain(|w| {
            let stays = !overlaps(&w.row, row.to, row.to_pitch, &row);
            if !stays {
                self.session.supply(w.slot, None);
            }
            stays
        });
        reads.waiting.push(Waiting {
            stream: key,
            work,
            slot,
            row,
        });
        drop(reads);
        self.hand(begun, CallEvent::Copy(row), With::Awaited(slot));
    }

    /// The host has waited for a stream.
    pub fn stream_done(&self, key: u64) {
        let reached = lock(&self.progress).stream_done(key);
        self.complete(&reached);
    }

    /// The host has waited for an event.
    pub fn event_done(&self, event: usize) {
        let reached = lock(&self.progress).event_done(event);
        self.complete(&reached);
    }

    /// The host has waited for the device, or for all but what `result` says failed.
    pub fn all_done(&self, result: Option<CuResult>) {
        if result.is_none_or(is_ok) {
            self.complete_all();
        }
    }

    /// Takes up what copies brought of which streams are known to have done so many pieces of work.
    fn complete(&self, reached: &Reached) {
        let mut reads = lock(&self.reads);
        if reads.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut reads.waiting);
        let done = |w: &Waiting| reached.get(&w.stream).is_some_and(|n| w.work <= *n);
        let (done, waiting): (Vec<_>, Vec<_>) = waiting.into_iter().partition(done);
        reads.waiting = waiting;
        // Whoever takes up much may have to wait for room: nobody waits for the list meanwhile.
        drop(reads);
        done.iter().for_each(|w| self.taken_up(w));
    }

    /// Takes up everything that was awaited.
    pub fn complete_all(&self) {
        let waiting = std::mem::take(&mut lock(&self.reads).waiting);
        waiting.iter().for_each(|w| self.taken_up(w));
    }

    /// The program ends: takes up some of what was awaited then. Whether there is more: not all of it is held at once.
    pub fn complete_last(&self) -> bool {
        let mut reads = lock(&self.reads);
        let mut last = match reads.last.take() {
            Some(last) => last,
            // What other threads go on to do is not theirs to lengthen the end with.
            None => std::mem::take(&mut reads.waiting).into_iter().rev().collect(),
        };
        drop(reads);
        let mut bytes = 0u64;
        while bytes < AT_ONCE
            && let Some(w) = last.pop()
        {
            bytes = bytes.saturating_add(w.row.total().unwrap_or(0));
            self.taken_up(&w);
        }
        let more = !last.is_empty();
        lock(&self.reads).last = Some(last);
        more
    }

    fn taken_up(&self, w: &Waiting) {
        content::supply(self, w.slot, w.row.to, w.row.to_pitch, &w.row);
    }
}

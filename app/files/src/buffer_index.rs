//! The named buffers of a recording and the location of their recorded bytes. In a job recording the bytes are in
//! mapped memory. In an API trace they are in the recorded copies.

use crate::changes::RecordedContents;
use std::collections::HashMap;
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::memory::GpuMemoryView;
use trace_core::recording::{Buffer, BufferRole, CopyKind, CopyRow, Recording};

/// The origin of a buffer of an API trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginKind {
    /// The program copied the bytes to the device.
    Input,
    /// Memory held the bytes at the start of the recorded range.
    InitialMemory,
    /// The program copied the bytes back to the host.
    Output,
    /// Memory held the bytes at the end of the recorded range.
    FinalMemory,
}

impl OriginKind {
    /// Returns a short description of the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "copied from the host",
            Self::InitialMemory => "in memory at the start",
            Self::Output => "copied to the host",
            Self::FinalMemory => "in memory at the end",
        }
    }

    /// Whether a replay accepts replacement bytes for this buffer. Outputs and final memory are produced by the replay
    /// itself.
    #[must_use]
    pub fn is_replaceable(self) -> bool {
        matches!(self, Self::Input | Self::InitialMemory)
    }
}

/// The kind, first copy and number of copies of a buffer of an API trace.
#[derive(Clone, Copy, Debug)]
pub struct BufferOrigin {
    /// Kind of the origin.
    pub kind: OriginKind,
    /// The first copy that carries the buffer. The device side of the copy is the buffer's address.
    pub row: CopyRow,
    /// Event of that copy.
    pub event: u64,
    /// Number of copies that carry a buffer of this name. A replay gives all of them the same bytes if the user edits
    /// the buffer.
    pub times: u64,
}

/// The buffers of a recording.
#[derive(Debug)]
pub struct Buffers {
    recording: Arc<Recording>,
    index: BufferIndex,
    /// No buffer may be edited.
    is_locked: bool,
}

/// Index of the buffers of a recording by name, address and event. Construction time is proportional to the number of
/// copies.
#[derive(Debug, Default)]
pub struct BufferIndex {
    list: Vec<Buffer>,
    /// One origin per entry of `list` in an API trace; otherwise empty.
    carried: Vec<BufferOrigin>,
    by_name: HashMap<String, usize>,
    /// Host-to-device copies by address and size in bytes.
    inputs: HashMap<(u64, u64), usize>,
    /// Readbacks by the event of the copy.
    outputs: HashMap<u64, usize>,
    places: Vec<AddressSpan>,
}

/// Addresses from the first byte of a buffer to one past its last, including gaps between rows.
#[derive(Clone, Copy, Debug)]
struct AddressSpan {
    from: u64,
    to: u64,
    /// Maximum `to` of this span and all spans before it. The spans are sorted by `from`.
    furthest: u64,
    /// Index of the buffer in the list.
    buffer: usize,
}

/// Returns the address spans of the buffers, sorted by start address.
fn places(list: &[Buffer], carried: &[BufferOrigin]) -> Vec<AddressSpan> {
    let place = |(buffer, b): (usize, &Buffer)| {
        let row = carried.get(buffer).map(|c| c.row).filter(|r| r.rows > 1);
        let bytes = row.map_or(b.bytes, |r| {
            let before = pitch(&r).saturating_mul(r.rows - 1);
            before.saturating_add(r.bytes)
        });
        AddressSpan {
            from: b.va.get(),
            to: b.va.get().saturating_add(bytes),
            furthest: 0,
            buffer,
        }
    };
    let mut all: Vec<AddressSpan> = list.iter().enumerate().map(place).collect();
    all.sort_by_key(|p| p.from);
    let mut furthest = 0;
    for p in &mut all {
        furthest = furthest.max(p.to);
        p.furthest = furthest;
    }
    all
}

impl BufferIndex {
    /// Builds the index of the buffers that a job recording names.
    #[must_use]
    pub fn from_recording(recording: &Recording) -> Self {
        let list = recording.metadata.buffers.clone();
        Self::listed(list.into_iter().map(|b| (b, None)).collect())
    }

    /// Builds the index of the buffers of an API trace. Leaves out buffers whose bytes are not in the recording.
    #[must_use]
    pub fn from_copies(recording: &Recording, mut all: Vec<(Buffer, BufferOrigin)>) -> Self {
        all.retain(|(b, c)| recording.has_copy_content(&c.row) && c.row.total() == Some(b.bytes));
        Self::listed(all.into_iter().map(|(b, c)| (b, Some(c))).collect())
    }

    /// Sorts the buffers (inputs, outputs, others) and builds the index. If several buffers share a name, the first one
    /// wins.
    fn listed(mut all: Vec<(Buffer, Option<BufferOrigin>)>) -> Self {
        all.sort_by_key(|(b, _)| match b.role {
            BufferRole::Input => 0,
            BufferRole::Output => 1,
            _ => 2,
        });
        let mut by_name = HashMap::new();
        for (n, (b, _)) in all.iter().enumerate() {
            by_name.entry(b.name.clone()).or_insert(n);
        }
        let carried: Vec<BufferOrigin> = all.iter().filter_map(|(_, c)| *c).collect();
        let (mut inputs, mut outputs) = (HashMap::new(), HashMap::new());
        for (n, (c, (b, _))) in carried.iter().zip(&all).enumerate() {
            match c.kind {
                OriginKind::Input => drop(inputs.insert((b.va.get(), b.bytes), n)),
                OriginKind::Output => drop(outputs.insert(c.event, n)),
                OriginKind::InitialMemory | OriginKind::FinalMemory => {}
            }
        }
        let list: Vec<Buffer> = all.into_iter().map(|(b, _)| b).collect();
        Self {
            places: places(&list, &carried),
            list,
            carried,
            by_name,
            inputs,
            outputs,
        }
    }
}

impl Buffers {
    /// Combines a recording with the index that was built from it.
    #[must_use]
    pub fn new(recording: Arc<Recording>, index: BufferIndex) -> Self {
        Self {
            recording,
            index,
            is_locked: false,
        }
    }

    /// Returns the buffers with every edit refused: the recording is not complete.
    #[must_use]
    pub fn with_edits_locked(self) -> Self {
        Self {
            is_locked: true,
            ..self
        }
    }

    /// Returns all buffers: inputs, outputs, others.
    #[must_use]
    pub fn list(&self) -> &[Buffer] {
        &self.index.list
    }

    /// Returns the buffer of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Buffer> {
        self.index.list.get(*self.index.by_name.get(name)?)
    }

    /// Returns the origin of the buffer of this name, or `None` if it is not a buffer of an API trace.
    #[must_use]
    pub fn origin(&self, name: &str) -> Option<&BufferOrigin> {
        self.index.carried.get(*self.index.by_name.get(name)?)
    }

    /// Returns the buffer that a copy between host and device carries. `event` is the event of the copy.
    #[must_use]
    pub fn find_by_copy(&self, event: u64, row: &CopyRow) -> Option<&Buffer> {
        let n = match CopyKind::from_raw(row.kind) {
            Some(CopyKind::HostToDevice) => self.index.inputs.get(&(row.to, row.total()?)),
            Some(CopyKind::DeviceToHost) => self.index.outputs.get(&event),
            _ => None,
        };
        self.index.list.get(*n?)
    }

    /// Whether the user may edit the buffer of this name. Buffers that a replay produces itself are not editable.
    #[must_use]
    pub fn is_editable(&self, name: &str) -> bool {
        !self.is_locked && self.extent(name).is_some()
    }

    /// Returns the address of byte `offset` of a buffer. Multi-row copies have gaps between rows.
    #[must_use]
    pub fn address_of(&self, name: &str, offset: u64) -> Option<GpuVa> {
        let buffer = self.get(name)?;
        let Some(BufferOrigin { row, .. }) = self.origin(name) else {
            return buffer.va.checked_add(offset);
        };
        let by = offset.checked_div(row.bytes)?.checked_mul(pitch(row))?;
        buffer.va.checked_add(by.checked_add(offset % row.bytes)?)
    }

    /// Returns the buffer that contains an address, and the offset of the address in it. If several match, prefers the
    /// one named `liked`, then the shortest, then the first in the list.
    #[must_use]
    pub fn at(&self, space: u32, va: GpuVa, liked: &str) -> Option<(&Buffer, u64)> {
        let liked = self
            .index
            .by_name
            .get(liked)
            .and_then(|n| self.within(*n, space, va.get()));
        liked.or_else(|| self.nearest(space, va.get(), |_| true))
    }

    /// Returns the same as [`Self::at`], but only for editable buffers and without a preferred name.
    #[must_use]
    pub fn input_at(&self, space: u32, va: GpuVa) -> Option<(&Buffer, u64)> {
        self.nearest(space, va.get(), |b| self.is_editable(&b.name))
    }

    fn nearest(&self, space: u32, va: u64, is_match: impl Fn(&Buffer) -> bool) -> Option<(&Buffer, u64)> {
        let before = self.index.places.partition_point(|p| p.from <= va);
        let before = self.index.places.get(..before).unwrap_or_default().iter().rev();
        let near = before.take_while(|p| p.furthest > va).filter(|p| p.to > va);
        let found = near.filter_map(|p| Some((p.buffer, self.within(p.buffer, space, va)?)));
        let found = found.filter(|(_, (b, _))| is_match(b));
        found.min_by_key(|(n, (b, _))| (b.bytes, *n)).map(|(_, at)| at)
    }

    /// Returns the buffer at index `n` and the offset of `va` in it, or `None` if the buffer does not contain `va`.
    fn within(&self, n: usize, space: u32, va: u64) -> Option<(&Buffer, u64)> {
        let b = self.index.list.get(n).filter(|b| b.address_space == space)?;
        let by = va.checked_sub(b.va.get())?;
        let offset = match self.index.carried.get(n).map(|c| c.row) {
            Some(row) if row.rows > 1 => {
                let in_row = Some(by.checked_rem(pitch(&row))?).filter(|i| *i < row.bytes)?;
                (by / pitch(&row)).checked_mul(row.bytes)?.checked_add(in_row)?
            }
            _ => by,
        };
        (offset < b.bytes).then_some((b, offset))
    }

    /// Fills `out` with the recorded bytes of a buffer, starting at `offset`. Returns the number of bytes that the
    /// recording does not hold; these are 0.
    pub fn read(&self, name: &str, offset: u64, out: &mut [u8]) -> u64 {
        out.fill(0);
        let unknown = out.len() as u64;
        let Some(buffer) = self.get(name) else { return unknown };
        if let Some(carried) = self.origin(name) {
            if self.recording.read_copy_content(&carried.row, offset, out) {
                return 0;
            }
            out.fill(0);
            return unknown;
        }
        let space = self
            .recording
            .metadata
            .address_spaces
            .get(buffer.address_space as usize);
        let (Some(va), Some(space)) = (buffer.va.checked_add(offset), space) else {
            return unknown;
        };
        let view = GpuMemoryView::new(self.recording.memory.at(0), space);
        let read = view.read_range(va, unknown);
        if let Some(to) = out.get_mut(..read.bytes.len()) {
            to.copy_from_slice(&read.bytes);
        }
        read.holes.iter().map(|(r, _)| r.end - r.start).sum()
    }

    /// Whether the buffer of this name can be read: its address space is in the recording.
    #[must_use]
    pub fn has_contents(&self, name: &str) -> bool {
        let space = |b: &Buffer| self.recording.metadata.address_spaces.get(b.address_space as usize);
        self.origin(name).is_some() || self.get(name).and_then(space).is_some()
    }
}

/// Returns the distance between the rows of a copy in device memory, bytes.
fn pitch(row: &CopyRow) -> u64 {
    let pitch = match CopyKind::from_raw(row.kind) {
        Some(CopyKind::DeviceToHost) => row.from_pitch,
        _ => row.to_pitch,
    };
    if row.rows > 1 { pitch.max(row.bytes) } else { row.bytes }
}

impl RecordedContents for Buffers {
    fn extent(&self, buffer: &str) -> Option<(u64, u64)> {
        let b = self.get(buffer).filter(|_| self.has_contents(buffer))?;
        let given = self.origin(buffer).is_none_or(|c| c.kind.is_replaceable());
        given.then_some((b.va.get(), b.bytes))
    }

    fn read(&self, buffer: &str, offset: u64, out: &mut [u8]) {
        let _ = Self::read(self, buffer, offset, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::PAGE_SIZE;
    use trace_core::recording::{ElementType, EventsBuilder, MemoryBuilder};

    fn buffers_of_copies(recording: Arc<Recording>, all: Vec<(Buffer, BufferOrigin)>) -> Buffers {
        let index = BufferIndex::from_copies(&recording, all);
        Buffers::new(recording, index)
    }

    const AT: u64 = 0x1539_4000_0000;

    /// Returns a recording of one page and a buffer that a copy carries.
    fn recording_of_copy(row: CopyRow, carries: OriginKind) -> (Arc<Recording>, (Buffer, BufferOrigin)) {
        let mut pages = MemoryBuilder::new();
        let page: [u8; PAGE_SIZE] = std::array::from_fn(|n| n as u8);
        let id = pages.add_page(&page).0;
        let mut events = EventsBuilder::new();
        let pages_at = events.call_pages(&[id]);
        let row = CopyRow { pages_at, ..row };
        events.copy(5, 1, row);
        let recording = Recording {
            events: events.finish(),
            memory: pages.finish(),
            ..Recording::default()
        };
        let input = carries.is_replaceable();
        let buffer = Buffer {
            name: if input { "in0" } else { "out0" }.to_owned(),
            role: if input { BufferRole::Input } else { BufferRole::Output },
            address_space: 0,
            va: row.device(),
            bytes: row.total().unwrap(),
            element: ElementType::U8,
        };
        let origin = BufferOrigin {
            kind: carries,
            row,
            event: 0,
            times: 1,
        };
        (recording.into(), (buffer, origin))
    }

    fn to_device() -> CopyRow {
        CopyRow {
            to: AT,
            bytes: 100,
            rows: 1,
            kind: CopyKind::HostToDevice as u32,
            ..CopyRow::default()
        }
    }

    #[test]
    fn copied_content_is_read_in_parts_with_device_addresses() {
        let (recording, one) = recording_of_copy(to_device(), OriginKind::Input);
        let all = buffers_of_copies(recording, vec![one]);
        let mut out = [0xee; 3];
        assert_eq!(all.read("in0", 97, &mut out), 0);
        assert_eq!(out, [97, 98, 99]);
        assert_eq!(all.read("in0", 98, &mut out), 3, "bytes past the end are unknown");
        assert_eq!(out, [0; 3]);
        assert_eq!(all.extent("in0"), Some((AT, 100)));
        let by_other_event = all.find_by_copy(77, &to_device()).map(|b| &*b.name);
        assert_eq!(
            by_other_event,
            Some("in0"),
            "every copy of these bytes carries the buffer"
        );
        let other = CopyRow {
            bytes: 99,
            ..to_device()
        };
        assert!(all.find_by_copy(0, &other).is_none());
        assert_eq!(all.address_of("in0", 97), Some(GpuVa::new(AT + 97)));
        assert_eq!(
            all.at(0, GpuVa::new(AT + 97), "").map(|(b, n)| (&*b.name, n)),
            Some(("in0", 97))
        );
        assert!(all.at(0, GpuVa::new(AT + 100), "in0").is_none() && all.at(1, GpuVa::new(AT), "in0").is_none());
        assert!(all.get("in1").is_none() && !all.is_editable("in1") && all.address_of("in1", 0).is_none());
    }

    #[test]
    fn pitched_rows_map_to_consecutive_buffer_bytes() {
        let row = CopyRow {
            bytes: 10,
            rows: 4,
            to_pitch: 64,
            from_pitch: 10,
            ..to_device()
        };
        let (recording, one) = recording_of_copy(row, OriginKind::Input);
        let all = buffers_of_copies(recording, vec![one]);
        assert_eq!(all.address_of("in0", 9), Some(GpuVa::new(AT + 9)));
        assert_eq!(all.address_of("in0", 10), Some(GpuVa::new(AT + 64)));
        assert_eq!(all.at(0, GpuVa::new(AT + 65), "").map(|(_, n)| n), Some(11));
        assert!(
            all.at(0, GpuVa::new(AT + 10), "").is_none(),
            "the address is between two rows"
        );
        assert!(
            all.at(0, GpuVa::new(AT + 4 * 64), "").is_none(),
            "the address is after the last row"
        );
    }

    #[test]
    fn readbacks_are_readable_but_not_editable() {
        let row = CopyRow {
            from: AT,
            to: 0x7000,
            kind: CopyKind::DeviceToHost as u32,
            ..to_device()
        };
        let (recording, one) = recording_of_copy(row, OriginKind::Output);
        let all = buffers_of_copies(recording, vec![one]);
        assert!(all.has_contents("out0") && !all.is_editable("out0"));
        assert_eq!(all.find_by_copy(0, &row).map(|b| &*b.name), Some("out0"));
        assert!(
            all.find_by_copy(1, &row).is_none(),
            "the readback belongs to another event"
        );
        assert_eq!(all.address_of("out0", 1), Some(GpuVa::new(AT + 1)));
        assert!(all.at(0, GpuVa::new(AT), "").is_some() && all.input_at(0, GpuVa::new(AT)).is_none());
        let mut out = [0; 1];
        assert_eq!((all.read("out0", 7, &mut out), out), (0, [7]));
    }

    #[test]
    fn copies_without_stored_bytes_are_omitted() {
        for wrong in [1 << 50, u64::MAX] {
            let (recording, (mut b, mut c)) = recording_of_copy(to_device(), OriginKind::Input);
            (b.bytes, c.row.bytes) = (wrong, wrong);
            assert!(buffers_of_copies(recording, vec![(b, c)]).list().is_empty(), "{wrong}");
        }
        let (recording, (mut b, c)) = recording_of_copy(to_device(), OriginKind::Input);
        b.bytes = 4096;
        assert!(
            buffers_of_copies(recording, vec![(b, c)]).list().is_empty(),
            "the buffer is longer than its copy"
        );
    }

    #[test]
    fn selected_buffer_is_preferred_over_a_shorter_one() {
        let (recording, (b, c)) = recording_of_copy(to_device(), OriginKind::Input);
        let (mut short, mut short_origin) = (b.clone(), c);
        short.name = "in1".into();
        (short.bytes, short_origin.row.bytes) = (10, 10);
        let all = buffers_of_copies(recording, vec![(b, c), (short, short_origin)]);
        assert_eq!(all.at(0, GpuVa::new(AT + 4), "").map(|(b, _)| &*b.name), Some("in1"));
        assert_eq!(all.at(0, GpuVa::new(AT + 4), "in0").map(|(b, _)| &*b.name), Some("in0"));
        assert_eq!(
            all.at(0, GpuVa::new(AT + 40), "in1").map(|(b, _)| &*b.name),
            Some("in0")
        );
    }
}

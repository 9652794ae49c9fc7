//! Forms of the records of the log, all little endian. `trace-import` reads them (`nvidia_log/records.rs`).

use crate::address::HostAddr;
use nvidia_channel::GpuVa;

/// Types of records.
pub(crate) mod kind {
    pub const OPEN: u32 = 1;
    pub const CLOSE: u32 = 2;
    pub const IOCTL: u32 = 3;
    pub const MAP: u32 = 4;
    pub const UNMAP: u32 = 5;
    pub const MARK: u32 = 7;
    pub const RING_ENTRY: u32 = 8;
    pub const PUSH_BUFFER: u32 = 9;
    pub const DOORBELL: u32 = 10;
    pub const MEMORY: u32 = 12;
    /// The recorder: start of the times, process, driver version, command.
    pub const RECORDER: u32 = 13;
    /// The recording ends before the program, with the reason as text.
    pub const STOP: u32 = 14;
    /// Content that the next ring entry uses and that the log lacks.
    pub const GAP: u32 = 15;
}

/// Bytes of the name of a device file, without `/dev/`.
pub(crate) const NAME_BYTES: usize = 24;
/// Bytes of the path of an opened file.
const PATH_BYTES: usize = 48;
/// Bytes of the driver version.
const VERSION_BYTES: usize = 40;

/// Name of a device file without `/dev/`, filled with zeros.
pub(crate) type DeviceName = [u8; NAME_BYTES];

/// Why content is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GapKind {
    /// The source of a copy is video memory that the program can write without a command.
    MappedVideoMemory = 1,
    /// The source of a copy is memory that the recorder cannot read.
    UnreadableSource = 2,
    /// The recorder cannot read the commands of a ring entry.
    UnreadableCommands = 3,
    /// A launch descriptor or a constant bank that the recorder cannot read, or a descriptor beyond the maximum number
    /// of a doorbell.
    LaunchMemory = 4,
}

/// What the program did at a page of doorbells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DoorbellKind {
    Store = 0,
    Load = 1,
    Unknown = 2,
}

/// Fields that are put one after the other into `N` bytes.
struct FieldWriter<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> FieldWriter<N> {
    const fn new() -> Self {
        Self {
            bytes: [0; N],
            length: 0,
        }
    }

    /// Adds bytes. Bytes beyond the end are lost.
    fn put(mut self, bytes: &[u8]) -> Self {
        let end = self.length.saturating_add(bytes.len()).min(N);
        if let Some(to) = self.bytes.get_mut(self.length..end) {
            let from = bytes.get(..to.len()).unwrap_or_default();
            to.copy_from_slice(from);
        }
        self.length = end;
        self
    }

    fn u32(self, number: u32) -> Self {
        self.put(&number.to_le_bytes())
    }

    fn u64(self, number: u64) -> Self {
        self.put(&number.to_le_bytes())
    }

    /// Adds bytes of a text, filled with zeros to `size`.
    fn text(self, text: &[u8], size: usize) -> Self {
        let end = self.length.saturating_add(size).min(N);
        let mut after = self.put(text.get(..size.saturating_sub(1)).unwrap_or(text));
        after.length = end;
        after
    }
}

pub(crate) fn open(fd: i32, flags: i32, errno: i32, path: &[u8]) -> [u8; 16 + PATH_BYTES] {
    FieldWriter::new()
        .u32(fd as u32)
        .u32(flags as u32)
        .u32(errno as u32)
        .u32(0)
        .text(path, PATH_BYTES)
        .bytes
}

pub(crate) fn close(fd: i32) -> [u8; 8] {
    FieldWriter::new().u32(fd as u32).u32(0).bytes
}

/// The head of an ioctl; the argument before and after it and its parameters before and after it follow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IoctlHead {
    pub fd: i32,
    pub returned: i32,
    pub errno: i32,
    /// Bytes of the argument.
    pub bytes: u32,
    /// Bytes of the parameters that the argument points to.
    pub nested_bytes: u32,
    pub is_uvm: bool,
    pub request: u64,
    /// Duration in nanoseconds.
    pub duration: u64,
    pub name: DeviceName,
}

impl IoctlHead {
    pub fn encode(&self) -> [u8; 40 + NAME_BYTES] {
        FieldWriter::new()
            .u32(self.fd as u32)
            .u32(self.returned as u32)
            .u32(self.errno as u32)
            .u32(self.bytes)
            .u32(self.nested_bytes)
            .u32(u32::from(self.is_uvm))
            .u64(self.request)
            .u64(self.duration)
            .put(&self.name)
            .bytes
    }
}

/// A mapping of a device file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MapCall {
    /// Address that the program asked for.
    pub wanted: HostAddr,
    pub bytes: u64,
    pub offset: u64,
    /// Address that it got, all bits set if the call failed.
    pub address: HostAddr,
    pub protection: i32,
    pub flags: i32,
    pub fd: i32,
    /// Handle of the mapped object, 0 if unknown.
    pub handle: u32,
    pub name: DeviceName,
}

impl MapCall {
    pub fn encode(&self) -> [u8; 48 + NAME_BYTES] {
        FieldWriter::new()
            .u64(self.wanted.get())
            .u64(self.bytes)
            .u64(self.offset)
            .u64(self.address.get())
            .u32(self.protection as u32)
            .u32(self.flags as u32)
            .u32(self.fd as u32)
            .u32(self.handle)
            .put(&self.name)
            .bytes
    }
}

pub(crate) fn unmap(address: HostAddr, bytes: u64) -> [u8; 16] {
    FieldWriter::new().u64(address.get()).u64(bytes).bytes
}

/// When a ring entry was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanReason {
    Doorbell = 1,
    Mark = 2,
    Exit = 3,
    Unmap = 4,
}

pub(crate) fn ring_entry(channel: u32, index: u32, entry: u64, has_commands: bool, reason: ScanReason) -> [u8; 24] {
    FieldWriter::new()
        .u32(channel)
        .u32(index)
        .u64(entry)
        .u32(u32::from(has_commands))
        .u32(reason as u32)
        .bytes
}

/// The head of records that hold GPU memory; the bytes follow.
pub(crate) fn memory(va: GpuVa) -> [u8; 8] {
    va.0.to_le_bytes()
}

pub(crate) fn doorbell(
    address: HostAddr,
    instruction: HostAddr,
    code: &[u8; 16],
    value: u32,
    kind: DoorbellKind,
) -> [u8; 40] {
    FieldWriter::new()
        .u64(address.get())
        .u64(instruction.get())
        .put(code)
        .u32(value)
        .u32(kind as u32)
        .bytes
}

/// The head of the record of the recorder; the command follows, its arguments separated by zeros. `start` is the time of
/// the monotonic clock that the times of the log count from, nanoseconds.
pub(crate) fn recorder(start: u64, process: u32, version: &str) -> [u8; 16 + VERSION_BYTES] {
    FieldWriter::new()
        .u64(start)
        .u32(process)
        .u32(0)
        .text(version.as_bytes(), VERSION_BYTES)
        .bytes
}

pub(crate) fn gap(kind: GapKind, channel: u32, va: GpuVa, bytes: u64) -> [u8; 24] {
    FieldWriter::new()
        .u32(kind as u32)
        .u32(channel)
        .u64(va.0)
        .u64(bytes)
        .bytes
}

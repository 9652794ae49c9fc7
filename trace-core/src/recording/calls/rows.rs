//! Rows of the tables of calls, as the container holds them, and their kinds.

use bytemuck::{Pod, Zeroable};

/// A launch of a function on the device. 72 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LaunchRow {
    /// First byte of its arguments in [`Events::call_bytes`]: the function's parameter buffer as the driver laid it out.
    pub arguments_at: u64,
    /// Bytes of the arguments.
    pub arguments: u32,
    /// The function, an index into [`super::CallFacts::functions`].
    pub function: u32,
    /// The stream, an index into [`super::CallFacts::streams`].
    pub stream: u32,
    /// Blocks by dimension.
    pub grid: [u32; 3],
    /// Threads a block by dimension.
    pub block: [u32; 3],
    /// Blocks a cluster by dimension; zeros: none was asked for.
    pub cluster: [u32; 3],
    /// Bytes of shared memory that are asked for beside what the function has of its own.
    pub shared: u32,
    /// Bits of [`LaunchRow::COOPERATIVE`] and [`CALL_CAPTURED`].
    pub flags: u32,
    /// What the driver answered: 0 is success.
    pub result: u32,
    /// Nanoseconds that the call took on the host, `u32::MAX` for more.
    pub took: u32,
}

impl LaunchRow {
    /// Flag: all blocks run at once and may wait for each other.
    pub const COOPERATIVE: u32 = 1;

    /// Threads of the whole launch.
    #[must_use]
    pub fn threads(&self) -> u64 {
        let all = self.grid.iter().chain(&self.block);
        all.fold(1u64, |n, d| n.saturating_mul(u64::from(*d)))
    }
}

/// Flag of a row: the call went into a graph that was being captured, and the device did not do it then.
pub const CALL_CAPTURED: u32 = 1 << 8;
/// Flag of a row: a launch of a graph did this, not a call of its own. It stands behind the launch of the graph.
pub const CALL_OF_GRAPH: u32 = 1 << 9;
/// Flag of a row: the call returns before the work is done.
pub const CALL_ASYNC: u32 = 1 << 10;
/// Content of a copy that the recorder does not hold: see [`CopyRow::pages_at`].
pub const NO_CONTENT: u64 = u64::MAX;

/// Way of a copy. The numbers are part of the `.kine` format and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CopyKind {
    /// The host's memory to the device's.
    HostToDevice = 1,
    /// The device's memory to the host's.
    DeviceToHost = 2,
    /// The device's memory to the device's.
    DeviceToDevice = 3,
    /// Between arrays, or another way whose addresses tell nothing.
    Other = 4,
}

impl CopyKind {
    /// The kind with this number in a file.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            1 => Self::HostToDevice,
            2 => Self::DeviceToHost,
            3 => Self::DeviceToDevice,
            4 => Self::Other,
            _ => return None,
        })
    }

    /// Short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HostToDevice => "host to device",
            Self::DeviceToHost => "device to host",
            Self::DeviceToDevice => "device to device",
            Self::Other => "copy",
        }
    }
}

/// A copy, of rows of bytes. 80 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct CopyRow {
    /// First byte that is written: the device's address, or the host's where it is the host's memory.
    pub to: u64,
    /// First byte that is read, likewise.
    pub from: u64,
    /// Bytes of each row.
    pub bytes: u64,
    /// Rows: 1 when the bytes follow each other.
    pub rows: u64,
    /// Bytes from one row to the next where they are written.
    pub to_pitch: u64,
    /// Bytes from one row to the next where they are read.
    pub from_pitch: u64,
    /// First page of the content in [`Events::call_pages`]; [`NO_CONTENT`] when the recording does not hold it. The rows
    /// follow each other without gaps and begin in the first page where the device's address begins in its page; what
    /// the last page has beyond them is zero, and so is what the first has before.
    pub pages_at: u64,
    /// [`CopyKind`] as its number.
    pub kind: u32,
    /// The stream, an index into [`super::CallFacts::streams`].
    pub stream: u32,
    /// Bits of [`CALL_CAPTURED`], [`CALL_OF_GRAPH`], [`CALL_ASYNC`].
    pub flags: u32,
    /// What the driver answered: 0 is success.
    pub result: u32,
    /// Nanoseconds that the call took on the host, `u32::MAX` for more.
    pub took: u32,
    /// Not used: 0.
    pub reserved: u32,
}

impl CopyRow {
    /// Bytes of all rows; `None` past what can be counted.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        self.bytes.checked_mul(self.rows)
    }

    /// The device's side of a copy from or to the host.
    #[must_use]
    pub fn device(&self) -> u64 {
        match CopyKind::from_raw(self.kind) {
            Some(CopyKind::DeviceToHost) => self.from,
            _ => self.to,
        }
    }

    /// Pages that the content takes; `None` past what can be counted.
    #[must_use]
    pub fn pages(&self) -> Option<u64> {
        let page = crate::PAGE_SIZE as u64;
        let bytes = (self.device() % page).checked_add(self.total()?)?;
        Some(bytes.div_ceil(page))
    }
}

/// Memory of the device set to one value. 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct FillRow {
    /// First byte.
    pub to: u64,
    /// Elements of each row.
    pub elements: u64,
    /// Rows: 1 when the elements follow each other.
    pub rows: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// The value of each element.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element: u32,
    /// The stream, an index into [`super::CallFacts::streams`].
    pub stream: u32,
    /// Bits of [`CALL_CAPTURED`], [`CALL_OF_GRAPH`], [`CALL_ASYNC`].
    pub flags: u32,
    /// What the driver answered: 0 is success.
    pub result: u32,
    /// Nanoseconds that the call took on the host, `u32::MAX` for more.
    pub took: u32,
    /// Not used: 0.
    pub reserved: [u32; 2],
}

impl FillRow {
    /// Bytes of a row; `None` past what can be counted.
    #[must_use]
    pub fn row_bytes(&self) -> Option<u64> {
        self.elements.checked_mul(u64::from(self.element))
    }
}

/// What orders work. The numbers are part of the `.kine` format and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum OrderKind {
    /// An event is put behind what the stream has.
    Record = 1,
    /// What the stream gets from now on waits for the event.
    StreamWaits = 2,
    /// The host waits for all that the stream has.
    StreamDone = 3,
    /// The host waits for the event.
    EventDone = 4,
    /// The host waits for all that the context has.
    ContextDone = 5,
    /// A function of the host runs in the stream.
    HostFunction = 6,
}

impl OrderKind {
    /// The kind with this number in a file.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            1 => Self::Record,
            2 => Self::StreamWaits,
            3 => Self::StreamDone,
            4 => Self::EventDone,
            5 => Self::ContextDone,
            6 => Self::HostFunction,
            _ => return None,
        })
    }
}

/// An order between streams, events and the host. 24 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct OrderRow {
    /// [`OrderKind`] as its number.
    pub kind: u32,
    /// The stream, an index into [`super::CallFacts::streams`]; `u32::MAX` for none.
    pub stream: u32,
    /// Number of the event, from 0 on in the order in which the program made them; `u32::MAX` for none.
    pub event: u32,
    /// Bits of [`CALL_CAPTURED`].
    pub flags: u32,
    /// What the driver answered: 0 is success.
    pub result: u32,
    /// Nanoseconds that the call took on the host, `u32::MAX` for more.
    pub took: u32,
}

impl OrderRow {
    /// No stream or no event.
    pub const NONE: u32 = u32::MAX;
}

/// What happened to memory. The numbers are part of the `.kine` format and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum AllocationKind {
    /// Memory of the device is taken.
    Take = 1,
    /// Memory of the device is given back.
    Give = 2,
    /// As [`AllocationKind::Take`], in the order of a stream.
    TakeInOrder = 3,
    /// As [`AllocationKind::Give`], in the order of a stream.
    GiveInOrder = 4,
    /// Memory that host and device share and that moves between them.
    TakeManaged = 5,
    /// Memory of the host that the device reaches.
    TakeHost = 6,
    /// Memory of the host that is no longer the device's to reach.
    GiveHost = 7,
    /// Memory of the device that the program maps at addresses which it reserved.
    Map = 8,
    /// The end of such a mapping.
    Unmap = 9,
}

impl AllocationKind {
    /// The kind with this number in a file.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            1 => Self::Take,
            2 => Self::Give,
            3 => Self::TakeInOrder,
            4 => Self::GiveInOrder,
            5 => Self::TakeManaged,
            6 => Self::TakeHost,
            7 => Self::GiveHost,
            8 => Self::Map,
            9 => Self::Unmap,
            _ => return None,
        })
    }

    /// Whether memory of the device comes into being.
    #[must_use]
    pub fn takes_device(self) -> bool {
        matches!(self, Self::Take | Self::TakeInOrder | Self::TakeManaged | Self::Map)
    }

    /// Whether memory of the device ends.
    #[must_use]
    pub fn gives_device(self) -> bool {
        matches!(self, Self::Give | Self::GiveInOrder | Self::Unmap)
    }
}

/// Memory taken or given back. 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct AllocationRow {
    /// First byte.
    pub at: u64,
    /// Bytes that the program asked for; of memory given back what was asked for it.
    pub bytes: u64,
    /// [`AllocationKind`] as its number.
    pub kind: u32,
    /// The stream, an index into [`super::CallFacts::streams`]; [`OrderRow::NONE`] for none.
    pub stream: u32,
    /// What the driver answered: 0 is success.
    pub result: u32,
    /// Nanoseconds that the call took on the host, `u32::MAX` for more.
    pub took: u32,
}

/// Any other call. 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct CallRow {
    /// First byte of what is told of it in [`Events::call_bytes`]: its arguments, eight bytes each.
    pub arguments_at: u64,
    /// Bytes of that.
    pub arguments: u32,
    /// Its name, an index into [`super::CallFacts::names`].
    pub name: u32,
    /// What it is about, by its name: a module, function or stream as an index into the lists of the facts; `u32::MAX`.
    pub about: u32,
    /// What the driver answered: 0 is success.
    pub result: u32,
    /// Nanoseconds that the call took on the host, `u32::MAX` for more.
    pub took: u32,
    /// Not used: 0.
    pub reserved: u32,
}

//! Rows of the call tables, as the container stores them, and their kinds.

use crate::GpuVa;
use bytemuck::{Pod, Zeroable};
use num_enum::TryFromPrimitive;

/// A launch of a function on the device. 72 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LaunchRow {
    /// First byte of its arguments in [`Events::call_bytes`]: the function's parameter buffer in the driver's layout.
    pub arguments_at: u64,
    /// Size of the arguments, bytes.
    pub arguments: u32,
    /// The function, an index into [`super::ApiTraceMetadata::functions`].
    pub function: u32,
    /// The stream, an index into [`super::ApiTraceMetadata::streams`].
    pub stream: u32,
    /// Blocks by dimension.
    pub grid: [u32; 3],
    /// Threads per block by dimension.
    pub block: [u32; 3],
    /// Blocks per cluster by dimension; zeros: no clusters.
    pub cluster: [u32; 3],
    /// Size of the dynamic shared memory, in addition to the function's own, bytes.
    pub shared: u32,
    /// Bits of [`LaunchRow::COOPERATIVE`] and [`CALL_CAPTURED`].
    pub flags: u32,
    /// Result code of the driver: 0 is success.
    pub result: u32,
    /// Duration of the call on the host in nanoseconds, `u32::MAX` for more.
    pub took: u32,
}

impl LaunchRow {
    /// Flag: cooperative launch; all blocks run at once and may wait for each other.
    pub const COOPERATIVE: u32 = 1;

    /// Returns the number of threads of the launch.
    #[must_use]
    pub fn threads(&self) -> u64 {
        let all = self.grid.iter().chain(&self.block);
        all.fold(1u64, |n, d| n.saturating_mul(u64::from(*d)))
    }
}

/// Row flag: the call was captured into a graph, and the device did not execute it then.
pub const CALL_CAPTURED: u32 = 1 << 8;
/// Row flag: a graph launch executed this, not a call of its own. The row comes after that of the graph launch.
pub const CALL_OF_GRAPH: u32 = 1 << 9;
/// Row flag: the call returns before the work is done.
pub const CALL_ASYNC: u32 = 1 << 10;
/// Value of [`CopyRow::pages_at`] if the recorder did not store the content of a copy.
pub const NO_CONTENT: u64 = u64::MAX;

/// Direction of a copy. The numbers are part of the `.kine` format and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, TryFromPrimitive)]
#[repr(u32)]
pub enum CopyKind {
    /// Host-to-device copy.
    HostToDevice = 1,
    /// Device-to-host copy.
    DeviceToHost = 2,
    /// Device-to-device copy.
    DeviceToDevice = 3,
    /// Between arrays, or another direction without meaningful addresses.
    Other = 4,
}

impl CopyKind {
    /// Returns the kind with this number in a file.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::try_from(raw).ok()
    }

    /// Returns the short name.
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

/// A copy of rows of bytes. 80 bytes.
///
/// Its addresses are numbers, as in a file: they can be addresses of the host. [`CopyRow::device`] has a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct CopyRow {
    /// First destination byte: a device address, or a host address for host memory.
    pub to: u64,
    /// First source byte: a device address, or a host address for host memory.
    pub from: u64,
    /// Size of each row, bytes.
    pub bytes: u64,
    /// Number of rows: 1 if the bytes are contiguous.
    pub rows: u64,
    /// Bytes from one row to the next at the destination.
    pub to_pitch: u64,
    /// Bytes from one row to the next at the source.
    pub from_pitch: u64,
    /// First page of the content in [`Events::call_pages`]; [`NO_CONTENT`] if the recording does not hold it. The rows
    /// are contiguous. They start in the first page at the page offset of the device address. Bytes before and after
    /// them in the first and last page are zero, or belong to other copies.
    pub pages_at: u64,
    /// [`CopyKind`] as its number.
    pub kind: u32,
    /// The stream, an index into [`super::ApiTraceMetadata::streams`].
    pub stream: u32,
    /// Bits of [`CALL_CAPTURED`], [`CALL_OF_GRAPH`], [`CALL_ASYNC`].
    pub flags: u32,
    /// Result code of the driver: 0 is success.
    pub result: u32,
    /// Duration of the call on the host in nanoseconds, `u32::MAX` for more.
    pub took: u32,
    /// Not used: 0.
    pub reserved: u32,
}

impl CopyRow {
    /// Returns the total size in bytes, or `None` on overflow.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        self.bytes.checked_mul(self.rows)
    }

    /// Returns the device address of a copy from or to the host.
    #[must_use]
    pub fn device(&self) -> GpuVa {
        match CopyKind::from_raw(self.kind) {
            Some(CopyKind::DeviceToHost) => GpuVa::new(self.from),
            _ => GpuVa::new(self.to),
        }
    }

    /// Returns the number of pages of the content, or `None` on overflow.
    #[must_use]
    pub fn pages(&self) -> Option<u64> {
        self.stored()?.pages()
    }
}

/// Device memory set to one value. 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct FillRow {
    /// First byte.
    pub to: GpuVa,
    /// Elements of each row.
    pub elements: u64,
    /// Number of rows: 1 if the elements are contiguous.
    pub rows: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// The value of each element.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element: u32,
    /// The stream, an index into [`super::ApiTraceMetadata::streams`].
    pub stream: u32,
    /// Bits of [`CALL_CAPTURED`], [`CALL_OF_GRAPH`], [`CALL_ASYNC`].
    pub flags: u32,
    /// Result code of the driver: 0 is success.
    pub result: u32,
    /// Duration of the call on the host in nanoseconds, `u32::MAX` for more.
    pub took: u32,
    /// Not used: 0.
    pub reserved: [u32; 2],
}

impl FillRow {
    /// Returns the size of a row in bytes, or `None` on overflow.
    #[must_use]
    pub fn row_bytes(&self) -> Option<u64> {
        self.elements.checked_mul(u64::from(self.element))
    }
}

/// The kind of an order. The numbers are part of the `.kine` format and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, TryFromPrimitive)]
#[repr(u32)]
pub enum OrderKind {
    /// An event is recorded after the work of the stream.
    Record = 1,
    /// Later work of the stream waits for the event.
    StreamWaits = 2,
    /// The host waits for all work of the stream.
    StreamDone = 3,
    /// The host waits for the event.
    EventDone = 4,
    /// The host waits for all work of the context.
    ContextDone = 5,
    /// A host function runs in the stream.
    HostFunction = 6,
}

impl OrderKind {
    /// Returns the kind with this number in a file.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::try_from(raw).ok()
    }
}

/// An order between streams, events and the host. 24 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct OrderRow {
    /// [`OrderKind`] as its number.
    pub kind: u32,
    /// The stream, an index into [`super::ApiTraceMetadata::streams`]; `u32::MAX` for none.
    pub stream: u32,
    /// Number of the event, from 0 on in the order in which the program made them; `u32::MAX` for none.
    pub event: u32,
    /// Bits of [`CALL_CAPTURED`].
    pub flags: u32,
    /// Result code of the driver: 0 is success.
    pub result: u32,
    /// Duration of the call on the host in nanoseconds, `u32::MAX` for more.
    pub took: u32,
}

impl OrderRow {
    /// No stream or no event.
    pub const NONE: u32 = u32::MAX;
}

/// The kind of an allocation row. The numbers are part of the `.kine` format and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, TryFromPrimitive)]
#[repr(u32)]
pub enum AllocationKind {
    /// Device memory is allocated.
    Take = 1,
    /// Device memory is freed.
    Give = 2,
    /// Like [`AllocationKind::Take`], in stream order.
    TakeInOrder = 3,
    /// Like [`AllocationKind::Give`], in stream order.
    GiveInOrder = 4,
    /// Managed memory that host and device share and that migrates between them.
    TakeManaged = 5,
    /// Host memory that the device can access.
    TakeHost = 6,
    /// Host memory that the device can no longer access.
    GiveHost = 7,
    /// Device memory that the program maps into its own address reservation.
    Map = 8,
    /// The end of such a mapping.
    Unmap = 9,
}

impl AllocationKind {
    /// Returns the kind with this number in a file.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::try_from(raw).ok()
    }

    /// Whether device memory is allocated.
    #[must_use]
    pub fn takes_device(self) -> bool {
        matches!(self, Self::Take | Self::TakeInOrder | Self::TakeManaged | Self::Map)
    }

    /// Whether device memory is freed.
    #[must_use]
    pub fn gives_device(self) -> bool {
        matches!(self, Self::Give | Self::GiveInOrder | Self::Unmap)
    }
}

/// An allocation or a release of memory. 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct AllocationRow {
    /// First byte.
    pub at: GpuVa,
    /// Size that the program requested; for a release, the size requested at its allocation.
    pub bytes: u64,
    /// [`AllocationKind`] as its number.
    pub kind: u32,
    /// The stream, an index into [`super::ApiTraceMetadata::streams`]; [`OrderRow::NONE`] for none.
    pub stream: u32,
    /// Result code of the driver: 0 is success.
    pub result: u32,
    /// Duration of the call on the host in nanoseconds, `u32::MAX` for more.
    pub took: u32,
}

/// Any other call. 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct CallRow {
    /// First byte of its arguments in [`Events::call_bytes`], eight bytes each.
    pub arguments_at: u64,
    /// Size of the arguments, bytes.
    pub arguments: u32,
    /// Its name, for [`crate::recording::Recording::call_name`]: an index into [`super::ApiTraceMetadata::names`], or
    /// into [`crate::recording::DriverTraceMetadata::names`] in a driver trace.
    pub name: u32,
    /// The subject of the call, by its name: a module, function or stream as an index into the lists of the metadata;
    /// or `u32::MAX`.
    pub about: u32,
    /// Result code of the driver: 0 is success.
    pub result: u32,
    /// Duration of the call on the host in nanoseconds, `u32::MAX` for more.
    pub took: u32,
    /// Bits of [`CallRow::REQUEST`].
    pub flags: u32,
}

impl CallRow {
    /// Flag in an API trace: a request to the kernel driver, below the calls of the program.
    pub const REQUEST: u32 = 1;

    /// Whether it is a request to the kernel driver in an API trace.
    #[must_use]
    pub fn is_request(&self) -> bool {
        self.flags & Self::REQUEST != 0
    }
}

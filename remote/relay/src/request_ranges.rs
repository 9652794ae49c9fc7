//! What a request means for the memory of the program: the ranges that it reads and writes.

use crate::host_memory::HostMemory;
use crate::record::Area;
use remote_calls::library::{LibraryArgument, LibraryArguments, ResultPart, ScalarPart};
use remote_calls::message::{
    AddNode, AllocateHost, ArrayCopy, ArrayCopyDirection, CaptureToGraph, CopyToDevice, CopyToHost, CreateTexture,
    HostPart, Launch, MemoryCopy, MemoryPlace, MemorySide, NodeWork, SetNode,
};
use remote_calls::{CallId, Decoder, HandleNumber, MessageError, RequestHeader};

/// Maximum number of ranges of one request. A copy of a box has one for each row.
const MAX_RANGES: u64 = 1 << 20;

/// A range of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRange {
    /// The area.
    pub area: Area,
    /// Offset in the area, bytes.
    pub offset: u64,
    /// Size, bytes.
    pub bytes: u64,
}

impl SharedRange {
    const fn window(offset: u64, bytes: u64) -> Self {
        Self {
            area: Area::Window,
            offset,
            bytes,
        }
    }
}

/// What a request means for the memory of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestRanges {
    /// Ranges that the worker reads.
    pub reads: Vec<SharedRange>,
    /// Ranges that the worker writes.
    pub writes: Vec<SharedRange>,
    /// The writes are complete later than the request, as the worker reports.
    pub is_asynchronous: bool,
    /// Allocations that kernels use from now on, by their offsets in the window.
    pub exposes: Vec<u64>,
    /// The device can read exposed memory.
    pub reads_exposed: bool,
    /// A range of the window comes into use.
    pub allocates: Option<(u64, u64)>,
    /// A range of the window is not used after the answer.
    pub frees: Option<(u64, u64)>,
}

/// Adds a range, as a part of the last one if it continues that.
fn add(ranges: &mut Vec<SharedRange>, range: SharedRange) {
    if range.bytes == 0 {
        return;
    }
    if let Some(last) = ranges.last_mut()
        && last.area == range.area
        && last.offset.checked_add(last.bytes) == Some(range.offset)
    {
        last.bytes = last.bytes.saturating_add(range.bytes);
        return;
    }
    ranges.push(range);
}

/// Adds the rows of a side of a copy that is in the window.
fn add_side(ranges: &mut Vec<SharedRange>, side: &MemorySide, copy: &MemoryCopy) -> Result<(), MessageError> {
    let MemoryPlace::Window(first) = side.place else {
        return Ok(());
    };
    let too_long = |count: u64| MessageError::TooLong {
        what: "the copy's list of rows",
        count,
        limit: MAX_RANGES,
        at: 0,
    };
    let rows = copy.height.checked_mul(copy.depth).filter(|rows| *rows <= MAX_RANGES);
    if rows.is_none() || side.reach(copy).is_none_or(|reach| first.checked_add(reach).is_none()) {
        return Err(too_long(copy.height.saturating_mul(copy.depth)));
    }
    // A copy without bytes reaches nothing, wherever it is said to be.
    if copy.width == 0 || copy.height == 0 || copy.depth == 0 {
        return Ok(());
    }
    for layer in 0..copy.depth {
        for line in 0..copy.height {
            // The last row of the last layer is within the reach, so that no earlier one overflows.
            let row = (side.z + layer) * side.layer_rows + side.y + line;
            add(
                ranges,
                SharedRange::window(first + row * side.pitch + side.x, copy.width),
            );
        }
    }
    Ok(())
}

impl RequestRanges {
    /// Returns what a request means, and notes it in `memory`.
    ///
    /// # Errors
    /// If the message is invalid.
    pub fn of(memory: &mut HostMemory, header: &RequestHeader, arguments: &[u8]) -> Result<Self, MessageError> {
        let mut decoder = Decoder::new(arguments);
        let mut ranges = Self::default();
        ranges.read(memory, header, &mut decoder)?;
        if memory.is_capturing() {
            // A graph repeats the copy whenever it runs.
            for range in ranges.reads.iter().chain(&ranges.writes) {
                if range.area == Area::Window {
                    ranges.exposes.extend(memory.allocation_of(range.offset));
                }
            }
            if ranges.is_asynchronous {
                ranges.writes.clear();
            }
        }
        for range in ranges.reads.iter().chain(&ranges.writes) {
            if range.area == Area::Window {
                memory.note_transfer(range.offset);
            }
        }
        ranges.exposes.retain(|offset| memory.expose(*offset));
        Ok(ranges)
    }

    fn read(
        &mut self,
        memory: &mut HostMemory,
        header: &RequestHeader,
        decoder: &mut Decoder<'_>,
    ) -> Result<(), MessageError> {
        match header.call {
            CallId::copy_to_device | CallId::finish_copy_to_device => {
                let copy = CopyToDevice::read(decoder)?;
                self.reads.extend(host_range(copy.source, copy.bytes));
            }
            CallId::copy_to_host | CallId::begin_copy_to_host => {
                let copy = CopyToHost::read(decoder)?;
                self.writes.extend(host_range(copy.target, copy.bytes));
                self.is_asynchronous = header.call == CallId::begin_copy_to_host;
            }
            CallId::copy_memory | CallId::begin_copy_memory => {
                let _stream: HandleNumber = decoder.read()?;
                let copy = MemoryCopy::read(decoder)?;
                add_side(&mut self.reads, &copy.source, &copy)?;
                add_side(&mut self.writes, &copy.target, &copy)?;
                for side in [&copy.source, &copy.target] {
                    if let MemoryPlace::Device(at) = side.place {
                        self.exposes.extend(memory.allocation_at(at));
                    }
                }
                self.is_asynchronous = header.call == CallId::begin_copy_memory;
                self.reads_exposed = true;
            }
            CallId::cuMemcpyAsync => {
                let (to, from, bytes): (u64, u64, u64) = (decoder.read()?, decoder.read()?, decoder.read()?);
                let range = |at| {
                    memory
                        .offset_of(at, bytes)
                        .map(|offset| SharedRange::window(offset, bytes))
                };
                self.reads.extend(range(from));
                self.writes.extend(range(to));
                self.is_asynchronous = true;
                self.reads_exposed = true;
            }
            CallId::cuMemcpyDtoD_v2 | CallId::cuMemcpyDtoDAsync_v2 => {
                let (to, from): (u64, u64) = (decoder.read()?, decoder.read()?);
                self.exposes.extend(memory.allocation_at(to));
                self.exposes.extend(memory.allocation_at(from));
                self.reads_exposed = true;
            }
            CallId::copy_array | CallId::begin_copy_array => {
                let copy = ArrayCopy::read(decoder)?;
                let range = SharedRange::window(copy.host, copy.bytes);
                match copy.direction {
                    ArrayCopyDirection::ToArray => add(&mut self.reads, range),
                    ArrayCopyDirection::FromArray => add(&mut self.writes, range),
                }
                self.is_asynchronous = header.call == CallId::begin_copy_array;
            }
            CallId::cuMemcpyDtoA_v2 => {
                let (_array, _offset): (HandleNumber, u64) = (decoder.read()?, decoder.read()?);
                self.exposes.extend(memory.allocation_at(decoder.read()?));
                self.reads_exposed = true;
            }
            CallId::cuMemcpyAtoD_v2 => {
                self.exposes.extend(memory.allocation_at(decoder.read()?));
                self.reads_exposed = true;
            }
            CallId::create_texture if !memory.is_empty() => {
                let texture = CreateTexture::read(decoder)?;
                let at = texture.resource.address();
                self.exposes.extend(at.and_then(|at| memory.allocation_at(at)));
            }
            CallId::cuMemsetD8_v2
            | CallId::cuMemsetD16_v2
            | CallId::cuMemsetD32_v2
            | CallId::cuMemsetD2D8_v2
            | CallId::cuMemsetD2D16_v2
            | CallId::cuMemsetD2D32_v2
            | CallId::cuMemsetD8Async
            | CallId::cuMemsetD16Async
            | CallId::cuMemsetD32Async
            | CallId::cuMemsetD2D8Async
            | CallId::cuMemsetD2D16Async
            | CallId::cuMemsetD2D32Async => {
                self.exposes.extend(memory.allocation_at(decoder.read()?));
                // The fill is ordered after writes of the program.
                self.reads_exposed = true;
            }
            CallId::launch if !memory.is_empty() => {
                let launch = Launch::read(decoder)?;
                self.expose_arguments(memory, launch.arguments);
                self.reads_exposed = true;
            }
            CallId::library_call | CallId::finish_library_call => {
                let call = LibraryArguments::read(decoder)?;
                for argument in call.arguments {
                    let at = match argument {
                        LibraryArgument::Address(at)
                        | LibraryArgument::Scalar(ScalarPart::Device(at))
                        | LibraryArgument::Result(ResultPart::Device(at)) => at,
                        _ => continue,
                    };
                    self.exposes.extend(memory.allocation_at(at));
                }
                self.reads_exposed = true;
            }
            CallId::add_graph_node if !memory.is_empty() => {
                let work = AddNode::read(decoder)?.work;
                self.expose_node(memory, &work)?;
            }
            CallId::set_graph_node if !memory.is_empty() => {
                let work = SetNode::read(decoder)?.work;
                self.expose_node(memory, &work)?;
            }
            CallId::cuGraphLaunch => self.reads_exposed = true,
            CallId::begin_capture => memory.begin_capture(header.thread, decoder.read()?),
            CallId::capture_to_graph => {
                memory.begin_capture(header.thread, CaptureToGraph::read(decoder)?.stream);
            }
            CallId::cuStreamEndCapture => memory.end_capture(header.thread, decoder.read()?),
            CallId::allocate_host => {
                let request = AllocateHost::read(decoder)?;
                memory.allocate(request.offset, request.bytes)?;
                self.allocates = Some((request.offset, request.bytes));
                if request.is_exposed {
                    self.exposes.push(request.offset);
                }
            }
            CallId::expose_host => self.exposes.extend(memory.allocation_of(decoder.read()?)),
            CallId::free_host => {
                let (offset, bytes): (u64, u64) = (decoder.read()?, decoder.read()?);
                if memory.free(offset) == Some(bytes) {
                    self.frees = Some((offset, bytes));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Exposes the memory that arguments of a kernel can point to. The driver aligns pointers to 8 bytes.
    fn expose_arguments(&mut self, memory: &HostMemory, arguments: &[u8]) {
        let (words, _) = arguments.as_chunks::<8>();
        for word in words {
            self.exposes.extend(memory.allocation_at(u64::from_le_bytes(*word)));
        }
    }

    fn expose_node(&mut self, memory: &HostMemory, work: &NodeWork<'_>) -> Result<(), MessageError> {
        match work {
            NodeWork::Kernel(launch) => self.expose_arguments(memory, launch.arguments),
            NodeWork::Copy(copy) => {
                for side in [&copy.source, &copy.target] {
                    match side.place {
                        MemoryPlace::Window(offset) => self.exposes.extend(memory.allocation_of(offset)),
                        MemoryPlace::Device(at) => self.exposes.extend(memory.allocation_at(at)),
                        MemoryPlace::Array(_) => {}
                    }
                }
            }
            NodeWork::Fill(fill) => self.exposes.extend(memory.allocation_at(fill.to)),
            NodeWork::Host(_) | NodeWork::Child(_) | NodeWork::Empty => {}
        }
        Ok(())
    }
}

fn host_range(part: HostPart<'_>, bytes: u64) -> Option<SharedRange> {
    let (area, offset) = match part {
        HostPart::Inline(_) => return None,
        HostPart::Staging { offset, .. } => (Area::Staging, offset),
        HostPart::Window(offset) => (Area::Window, offset),
    };
    (bytes > 0).then_some(SharedRange { area, offset, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use remote_calls::message::{ObjectMemory, ObjectResource, TEXTURE_WORDS};
    use remote_calls::{Encoder, HandleKind, RequestFlags};

    const WINDOW: u64 = 0x2a00_0000_0000;

    #[test]
    fn copies_without_bytes_have_no_ranges_wherever_they_are() {
        let side = MemorySide {
            place: MemoryPlace::Window(u64::MAX),
            x: 0,
            y: u64::MAX,
            z: u64::MAX,
            level: 0,
            pitch: u64::MAX,
            layer_rows: u64::MAX,
        };
        for [width, height, depth] in [[0, 2, 2], [2, 0, u64::MAX], [2, 2, 0]] {
            let copy = MemoryCopy {
                source: side,
                target: side,
                width,
                height,
                depth,
            };
            let mut ranges = Vec::new();
            assert_eq!(add_side(&mut ranges, &side, &copy), Ok(()));
            assert!(ranges.is_empty());
        }
    }

    fn header(call: CallId, thread: u32) -> RequestHeader {
        RequestHeader {
            call,
            flags: RequestFlags::default(),
            thread,
            sequence: 1,
            context: HandleNumber::NULL,
        }
    }

    fn ranges(memory: &mut HostMemory, call: CallId, write: impl FnOnce(&mut Encoder)) -> RequestRanges {
        let mut encoder = Encoder::default();
        write(&mut encoder);
        RequestRanges::of(memory, &header(call, 1), encoder.as_bytes()).unwrap()
    }

    fn stream() -> HandleNumber {
        HandleNumber::from_client(HandleKind::Stream, 3).unwrap()
    }

    /// Memory with allocations of 8 KiB at 4096 and at 32768.
    fn memory() -> HostMemory {
        let mut memory = HostMemory::new(WINDOW, 1 << 20);
        for offset in [4096, 32_768] {
            let allocated = ranges(&mut memory, CallId::allocate_host, |e| {
                AllocateHost {
                    offset,
                    bytes: 8192,
                    is_exposed: false,
                }
                .write(e);
            });
            assert_eq!(allocated.allocates, Some((offset, 8192)));
            assert_eq!(allocated.exposes, []);
        }
        memory
    }

    fn launch(memory: &mut HostMemory, arguments: &[u8]) -> RequestRanges {
        ranges(memory, CallId::launch, |e| {
            Launch {
                function: HandleNumber::NULL,
                grid: [1; 3],
                block: [1; 3],
                shared: 0,
                stream: stream(),
                attributes: None,
                cooperative: false,
                arguments,
            }
            .write(e);
        })
    }

    #[test]
    fn pinned_memory_is_exposed_by_an_argument_once() {
        let mut memory = memory();
        let arguments = |at: u64| [7, at, 0].map(u64::to_le_bytes).concat();
        assert_eq!(launch(&mut memory, &arguments(WINDOW)).exposes, []);
        assert_eq!(launch(&mut memory, &arguments(WINDOW + 4096 + 8192)).exposes, []);
        assert_eq!(launch(&mut memory, &arguments(WINDOW + 4096 + 8191)).exposes, [4096]);
        assert!(memory.is_exposed(4096) && !memory.is_exposed(32_768));
        assert_eq!(launch(&mut memory, &arguments(WINDOW + 4096)).exposes, []);
        let asked = ranges(&mut memory, CallId::expose_host, |e| e.write(32_768_u64));
        assert_eq!(asked.exposes, [32_768]);
        let freed = ranges(&mut memory, CallId::free_host, |e| {
            e.write(4096_u64);
            e.write(8192_u64);
        });
        assert_eq!(freed.frees, Some((4096, 8192)));
        assert_eq!(launch(&mut memory, &arguments(WINDOW + 4096)).exposes, []);
    }

    fn side(place: MemoryPlace) -> MemorySide {
        MemorySide {
            place,
            x: 8,
            y: 1,
            z: 1,
            level: 0,
            pitch: 64,
            layer_rows: 4,
        }
    }

    fn copy_box(memory: &mut HostMemory, call: CallId, source: MemoryPlace, target: MemoryPlace) -> RequestRanges {
        ranges(memory, call, |e| {
            e.write(stream());
            MemoryCopy {
                source: side(source),
                target: side(target),
                width: 16,
                height: 2,
                depth: 2,
            }
            .write(e);
        })
    }

    #[test]
    fn copies_of_arrays_touch_their_bytes_and_textures_expose_their_memory() {
        let mut memory = memory();
        let array = HandleNumber::from_client(HandleKind::Array, 3).unwrap();
        let copy = |direction| ArrayCopy {
            direction,
            array,
            offset: 8,
            host: 4096 + 64,
            bytes: 128,
            stream: stream(),
        };
        let range = SharedRange::window(4096 + 64, 128);
        let to_array = ranges(&mut memory, CallId::copy_array, |e| {
            copy(ArrayCopyDirection::ToArray).write(e);
        });
        assert_eq!(
            (to_array.reads, to_array.writes, to_array.is_asynchronous),
            (vec![range], vec![], false)
        );
        let from_array = ranges(&mut memory, CallId::begin_copy_array, |e| {
            copy(ArrayCopyDirection::FromArray).write(e);
        });
        assert_eq!(
            (from_array.reads, from_array.writes, from_array.is_asynchronous),
            (vec![], vec![range], true)
        );
        let texture = |e: &mut Encoder, at| {
            let texel = [32, 1];
            CreateTexture {
                resource: ObjectResource {
                    memory: ObjectMemory::Linear { at, texel, bytes: 64 },
                    flags: 0,
                },
                texture: [0; TEXTURE_WORDS],
                view: None,
            }
            .write(e);
        };
        let elsewhere = ranges(&mut memory, CallId::create_texture, |e| texture(e, 1 << 40));
        assert_eq!(elsewhere.exposes, []);
        let pinned = ranges(&mut memory, CallId::create_texture, |e| texture(e, WINDOW + 4096));
        assert_eq!(pinned.exposes, [4096]);
        let from_device = ranges(&mut memory, CallId::cuMemcpyDtoA_v2, |e| {
            e.write(array);
            e.write(0_u64);
            e.write(WINDOW + 32_768);
            e.write(64_u64);
        });
        assert_eq!((from_device.exposes, from_device.reads_exposed), (vec![32_768], true));
    }

    #[test]
    fn copies_of_boxes_touch_their_rows_alone() {
        let mut memory = memory();
        let (window, device) = (MemoryPlace::Window(4096), MemoryPlace::Device(1 << 40));
        let row = |layer: u64, line: u64| SharedRange::window(4096 + ((1 + layer) * 4 + 1 + line) * 64 + 8, 16);
        let rows = [row(0, 0), row(0, 1), row(1, 0), row(1, 1)];
        let to_device = copy_box(&mut memory, CallId::copy_memory, window, device);
        assert_eq!((to_device.reads, to_device.writes), (rows.to_vec(), Vec::new()));
        let to_host = copy_box(&mut memory, CallId::begin_copy_memory, device, window);
        assert_eq!((to_host.reads, to_host.writes), (Vec::new(), rows.to_vec()));
        assert!(to_host.is_asynchronous && !to_device.is_asynchronous);
    }

    #[test]
    fn boxes_without_end_are_refused() {
        let mut memory = memory();
        let mut encoder = Encoder::default();
        encoder.write(stream());
        MemoryCopy {
            source: side(MemoryPlace::Window(4096)),
            target: side(MemoryPlace::Device(0)),
            width: 1,
            height: 1 << 40,
            depth: 1,
        }
        .write(&mut encoder);
        let read = RequestRanges::of(&mut memory, &header(CallId::copy_memory, 1), encoder.as_bytes());
        assert!(matches!(read, Err(MessageError::TooLong { .. })), "{read:?}");
    }

    #[test]
    fn unified_copies_between_the_window_and_the_device_are_found_by_address() {
        let mut memory = memory();
        let copied = ranges(&mut memory, CallId::cuMemcpyAsync, |e| {
            for value in [WINDOW + 4100, 1 << 40, 100] {
                e.write(value);
            }
            e.write(stream());
        });
        assert_eq!(copied.writes, [SharedRange::window(4100, 100)]);
        assert!(copied.reads.is_empty() && copied.is_asynchronous);
    }

    #[test]
    fn copies_of_captures_expose_their_memory() {
        let mut memory = memory();
        let to_host = |memory: &mut HostMemory| {
            ranges(memory, CallId::begin_copy_to_host, |e| {
                CopyToHost {
                    from: 1 << 40,
                    bytes: 64,
                    stream: stream(),
                    target: HostPart::Window(4096),
                }
                .write(e);
            })
        };
        ranges(&mut memory, CallId::begin_capture, |e| e.write(stream()));
        let captured = to_host(&mut memory);
        assert_eq!((captured.exposes, captured.writes), (vec![4096], Vec::new()));
        ranges(&mut memory, CallId::cuStreamEndCapture, |e| e.write(stream()));
        assert_eq!(to_host(&mut memory).writes, [SharedRange::window(4096, 64)]);
    }
}

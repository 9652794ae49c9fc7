//! Synthetic API traces for tests: a builder that tracks the content of device memory, and a small neural network on
//! two streams.
// Each test program uses only a part of this module.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::sync::Arc;
use trace_core::recording::{
    AllocationKind, AllocationRow, Api, ApiTraceMetadata, CALL_ASYNC, CallDevice, CallFunction, CallGlobal, CallModule,
    CallRow, CallStream, CallWindow, CodeKind, CopyKind, CopyRow, EventsBuilder, FillRow, LaunchRow, MemoryBuilder,
    NO_CONTENT, OrderKind, OrderRow, Recording, TraceKind,
};
use trace_core::{GpuVa, PAGE_SIZE};

/// First address of the window that allocations are served from.
pub const WINDOW: u64 = 0x1539_4000_0000;

/// The kernels of the net, as PTX.
pub const PTX: &str = "\
//
// Generated for a test
//
.version 8.0
.target sm_80
.address_size 64

.visible .const .align 4 .f32 scale = 0f3F000000;
.visible .global .align 4 .u32 rounds;

// conv2d(float const*, float const*, float*, int, int)
.visible .entry _Z6conv2dPKfS0_Pfii(
    .param .u64 _Z6conv2dPKfS0_Pfii_param_0,
    .param .u64 _Z6conv2dPKfS0_Pfii_param_1,
    .param .u64 _Z6conv2dPKfS0_Pfii_param_2,
    .param .u32 _Z6conv2dPKfS0_Pfii_param_3,
    .param .u32 _Z6conv2dPKfS0_Pfii_param_4
)
.maxntid 256, 1, 1
{
    .reg .pred %p<3>;
    .reg .b32 %r<9>;
    .reg .f32 %f<12>;
    .reg .b64 %rd<11>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [_Z6conv2dPKfS0_Pfii_param_3];
    setp.ge.s32 %p1, %r4, %r5;
    @%p1 bra DONE;
    ld.const.f32 %f1, [scale];
DONE:
    ret;
}

// relu(float*, int)
.visible .entry _Z4reluPfi(
    .param .u64 _Z4reluPfi_param_0,
    .param .u32 _Z4reluPfi_param_1
)
{
    ret;
}

// softmax(float const*, float*, int, float)
.visible .entry _Z7softmaxPKfPfif(
    .param .u64 _Z7softmaxPKfPfif_param_0,
    .param .u64 _Z7softmaxPKfPfif_param_1,
    .param .u32 _Z7softmaxPKfPfif_param_2,
    .param .f32 _Z7softmaxPKfPfif_param_3
)
{
    ret;
}
";

/// Content of device memory: pages by number. Bytes that were not set are 0. A clone shares the pages.
#[derive(Clone, Default)]
pub struct DeviceMemory {
    pages: BTreeMap<u64, Arc<[u8; PAGE_SIZE]>>,
}

impl DeviceMemory {
    /// Returns the byte at an address.
    pub fn get(&self, at: u64) -> u8 {
        let page = self.pages.get(&(at / PAGE_SIZE as u64));
        page.map_or(0, |p| p[at as usize % PAGE_SIZE])
    }

    /// Returns memory with the same pages, and applies `change` to each byte.
    #[must_use]
    pub fn map(&self, change: impl Fn(u8) -> u8) -> Self {
        let page = |p: &Arc<[u8; PAGE_SIZE]>| Arc::new(p.map(&change));
        Self {
            pages: self.pages.iter().map(|(number, p)| (*number, page(p))).collect(),
        }
    }

    /// Sets the bytes that start at an address.
    pub fn set(&mut self, at: u64, bytes: &[u8]) {
        let (mut at, mut bytes) = (at, bytes);
        while !bytes.is_empty() {
            let from = at as usize % PAGE_SIZE;
            let (now, rest) = bytes.split_at(bytes.len().min(PAGE_SIZE - from));
            let page = self.pages.entry(at / PAGE_SIZE as u64);
            let page = Arc::make_mut(page.or_insert_with(|| Arc::new([0; PAGE_SIZE])));
            page[from..from + now.len()].copy_from_slice(now);
            (at, bytes) = (at + now.len() as u64, rest);
        }
    }
}

/// Builds an API trace, call by call.
#[derive(Default)]
pub struct Build {
    /// Metadata of the API trace.
    pub metadata: ApiTraceMetadata,
    /// Builder of the events.
    pub events: EventsBuilder,
    pages: MemoryBuilder,
    /// Time of the last event, nanoseconds.
    pub time: u64,
    /// Content of device memory.
    pub memory: DeviceMemory,
    next: u64,
}

impl Build {
    /// Creates a builder without events.
    pub fn new() -> Self {
        Self {
            next: WINDOW,
            metadata: ApiTraceMetadata {
                api: Api::Cuda,
                version: 13000,
                ..Default::default()
            },
            ..Default::default()
        }
    }

    /// Returns the number of the next event.
    pub fn event(&self) -> u64 {
        self.events.len() as u64
    }

    fn tick(&mut self) -> u64 {
        self.time += 1500;
        self.time
    }

    /// Adds a call of this name.
    pub fn call(&mut self, name: &str, result: u32) {
        let known = self.metadata.names.iter().position(|n| n == name);
        let number = known.unwrap_or_else(|| {
            self.metadata.names.push(name.into());
            self.metadata.names.len() - 1
        });
        let row = CallRow {
            name: number as u32,
            about: u32::MAX,
            result,
            took: 900,
            ..Default::default()
        };
        let time = self.tick();
        self.events.call(time, 11, row);
    }

    /// Adds a stream and returns its number.
    pub fn stream(&mut self, name: &str, flags: u32) -> u32 {
        self.metadata.streams.push(CallStream {
            name: name.into(),
            flags,
            priority: 0,
        });
        self.metadata.streams.len() as u32 - 1
    }

    /// Adds a module with its code, and returns its number.
    pub fn module(&mut self, kind: CodeKind, code: &[u8]) -> u32 {
        let pages: Vec<[u32; 2]> = code
            .chunks(PAGE_SIZE)
            .map(|c| {
                let mut page = [0; PAGE_SIZE];
                page[..c.len()].copy_from_slice(c);
                [self.pages.add_page(&page).0, 1]
            })
            .collect();
        self.metadata.modules.push(CallModule {
            origin: "memory".into(),
            kind,
            bytes: code.len() as u64,
            digest: "00".repeat(32),
            pages,
            ..Default::default()
        });
        self.metadata.modules.len() as u32 - 1
    }

    /// Adds a function with this parameter layout, and returns its number.
    pub fn function(&mut self, name: &str, module: Option<u32>, layout: &[[u32; 2]]) -> u32 {
        self.metadata.functions.push(CallFunction {
            name: name.into(),
            module,
            parameters: layout.to_vec(),
            registers: 24,
            shared: 0,
            local: 0,
            most_threads: 1024,
            ..Default::default()
        });
        self.metadata.functions.len() as u32 - 1
    }

    /// Adds an allocation at the next free address, and returns the address.
    pub fn take(&mut self, bytes: u64) -> u64 {
        let at = self.next;
        self.next += bytes.next_multiple_of(512);
        self.take_at(at, bytes);
        at
    }

    /// Adds an allocation at an address.
    pub fn take_at(&mut self, at: u64, bytes: u64) {
        self.allocation(AllocationKind::Take, at, bytes);
        self.forget(at, bytes);
    }

    /// Adds a free of memory.
    pub fn give(&mut self, at: u64, bytes: u64) {
        self.allocation(AllocationKind::Give, at, bytes);
        self.forget(at, bytes);
    }

    fn forget(&mut self, at: u64, bytes: u64) {
        self.memory.set(at, &vec![0; bytes as usize]);
    }

    /// Adds an allocation event.
    pub fn allocation(&mut self, kind: AllocationKind, at: u64, bytes: u64) {
        let row = AllocationRow {
            at: GpuVa::new(at),
            bytes,
            kind: kind as u32,
            stream: OrderRow::NONE,
            took: 41_000,
            ..Default::default()
        };
        let time = self.tick();
        self.events.allocation(time, 11, row);
    }

    fn content(&mut self, device: u64, bytes: &[u8]) -> u64 {
        let phase = (device % PAGE_SIZE as u64) as usize;
        let mut padded = vec![0; phase];
        padded.extend_from_slice(bytes);
        padded.resize(padded.len().next_multiple_of(PAGE_SIZE), 0);
        let ids: Vec<u32> = padded
            .chunks_exact(PAGE_SIZE)
            .map(|p| self.pages.add_page(p.try_into().unwrap()).0)
            .collect();
        self.events.call_pages(&ids)
    }

    /// Returns the content of device memory. Bytes that were not set are 0.
    pub fn held(&self, at: u64, bytes: u64) -> Vec<u8> {
        (at..at + bytes).map(|a| self.memory.get(a)).collect()
    }

    /// Sets the content of device memory without an event, as a launch does.
    pub fn set(&mut self, at: u64, bytes: &[u8]) {
        self.memory.set(at, bytes);
    }

    /// Adds a host-to-device copy of `rows` rows that start `pitch` bytes apart. With `with_content`, the event has its
    /// content.
    pub fn copy_in(&mut self, at: u64, bytes: &[u8], (rows, pitch): (u64, u64), stream: u32, with_content: bool) {
        let width = bytes.len() as u64 / rows;
        let pages_at = if with_content {
            self.content(at, bytes)
        } else {
            NO_CONTENT
        };
        let row = CopyRow {
            to: at,
            from: 0x7f00_1000,
            bytes: width,
            rows,
            to_pitch: pitch,
            from_pitch: width,
            pages_at,
            kind: CopyKind::HostToDevice as u32,
            stream,
            flags: CALL_ASYNC,
            result: 0,
            took: 5200,
            reserved: 0,
        };
        let time = self.tick();
        self.events.copy(time, 11, row);
        for (n, part) in bytes.chunks(width.max(1) as usize).enumerate() {
            self.set(at + n as u64 * pitch, part);
        }
    }

    /// Adds a device-to-host copy.
    pub fn copy_out(&mut self, at: u64, bytes: u64, stream: u32, with_content: bool) {
        let content = self.held(at, bytes);
        let pages_at = if with_content {
            self.content(at, &content)
        } else {
            NO_CONTENT
        };
        let row = CopyRow {
            to: if stream == OrderRow::NONE { 0 } else { 0x7f00_8000 },
            from: at,
            bytes,
            rows: 1,
            to_pitch: bytes,
            from_pitch: bytes,
            pages_at,
            kind: CopyKind::DeviceToHost as u32,
            stream,
            flags: CALL_ASYNC,
            result: 0,
            took: 7100,
            reserved: 0,
        };
        let time = self.tick();
        self.events.copy(time, 11, row);
    }

    /// Adds a device-to-device copy.
    pub fn on_device(&mut self, to: u64, from: u64, bytes: u64, stream: u32) {
        let row = CopyRow {
            to,
            from,
            bytes,
            rows: 1,
            to_pitch: bytes,
            from_pitch: bytes,
            pages_at: NO_CONTENT,
            kind: CopyKind::DeviceToDevice as u32,
            stream,
            flags: CALL_ASYNC,
            result: 0,
            took: 3000,
            reserved: 0,
        };
        let time = self.tick();
        self.events.copy(time, 11, row);
        let content = self.held(from, bytes);
        self.set(to, &content);
    }

    /// Adds a fill of memory with a value.
    pub fn fill(
        &mut self,
        to: u64,
        (elements, element): (u64, u32),
        value: u32,
        (rows, pitch): (u64, u64),
        stream: u32,
    ) {
        let row = FillRow {
            to: GpuVa::new(to),
            elements,
            rows,
            pitch,
            value,
            element,
            stream,
            flags: CALL_ASYNC,
            took: 2100,
            ..Default::default()
        };
        let time = self.tick();
        self.events.fill(time, 11, row);
        let bytes = value.to_le_bytes()[..element as usize].repeat(elements as usize);
        for n in 0..rows {
            self.set(to + n * pitch, &bytes);
        }
    }

    /// Adds a kernel launch and returns its event.
    pub fn launch(&mut self, function: u32, grid: [u32; 3], block: [u32; 3], stream: u32, arguments: &[u8]) -> u64 {
        let arguments_at = self.events.call_bytes(arguments);
        let row = LaunchRow {
            arguments_at,
            arguments: arguments.len() as u32,
            function,
            stream,
            grid,
            block,
            took: 4300 + 13 * function,
            ..Default::default()
        };
        let (time, event) = (self.tick(), self.event());
        self.events.launch(time, 11, row);
        event
    }

    /// Adds an order event.
    pub fn order(&mut self, kind: OrderKind, stream: u32, event: u32) {
        let row = OrderRow {
            kind: kind as u32,
            stream,
            event,
            took: 600,
            ..Default::default()
        };
        let time = self.tick();
        self.events.order(time, 11, row);
    }

    /// Adds a snapshot of memory ranges.
    pub fn snapshot(&mut self, name: &str, ranges: &[(u64, u64)]) {
        self.call(name, 0);
        for (at, bytes) in ranges {
            self.copy_out(*at, *bytes, OrderRow::NONE, true);
        }
    }

    /// Returns the recording.
    pub fn finish(self) -> Recording {
        let mut r = Recording {
            events: self.events.finish(),
            memory: self.pages.finish(),
            ..Recording::default()
        };
        r.metadata.identity.gpu_name = self.metadata.device.name.clone();
        r.metadata.identity.source = "cuda".into();
        r.metadata.identity.driver = "libcuda".into();
        r.metadata.kind = TraceKind::Api(self.metadata);
        r
    }
}

/// Builds the bytes of kernel arguments, each at its alignment.
#[derive(Default)]
pub struct Arguments(pub Vec<u8>);

impl Arguments {
    pub fn bytes(mut self, bytes: &[u8], align: usize) -> Self {
        self.0.resize(self.0.len().next_multiple_of(align), 0);
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn to(self, address: u64) -> Self {
        self.bytes(&address.to_le_bytes(), 8)
    }

    pub fn int(self, value: i32) -> Self {
        self.bytes(&value.to_le_bytes(), 4)
    }

    pub fn float(self, value: f32) -> Self {
        self.bytes(&value.to_le_bytes(), 4)
    }
}

/// Returns the bytes of floats.
pub fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// The recording of a small neural network, with the addresses and events that tests use.
pub struct Net {
    /// Recording of the network.
    pub recording: Recording,
    /// Address of the input image: 784 floats.
    pub image: u64,
    /// Address of the weights: 144 floats.
    pub weights: u64,
    /// Address of the output of the convolution: 4096 floats.
    pub features: u64,
    /// Address of the result: 10 floats.
    pub scores: u64,
    /// Address of the variable `rounds`.
    pub rounds: u64,
    /// Events of the launches, in order.
    pub launches: Vec<u64>,
    /// Event of the launch with snapshots before and after.
    pub around: u64,
    /// Event of the copy of the image.
    pub image_in: u64,
    /// Event of the copy of the result.
    pub scores_out: u64,
}

/// Returns the recording of a small network that runs `times` times. One stream copies the image in and the result
/// back, and the kernels run on a second stream that waits for the image. Snapshots are before and after the last
/// launch of the first run.
pub fn net(times: u32) -> Net {
    let mut b = Build::new();
    b.metadata.device = CallDevice {
        name: "NVIDIA H100 80GB HBM3".into(),
        capability: [9, 0],
        multiprocessors: 132,
        memory: 85_045_346_304,
        uuid: String::new(),
    };
    b.metadata.window = CallWindow {
        base: GpuVa::new(WINDOW),
        bytes: 1 << 40,
    };
    b.metadata.range = "whole".into();
    b.stream("default stream", 0);
    let (copies, work) = (b.stream("stream 1", 1), b.stream("stream 2", 1));
    let text = b.module(CodeKind::Ptx, PTX.as_bytes());
    let rounds = WINDOW - 0x10_0000;
    b.metadata.modules[text as usize].globals.push(CallGlobal {
        name: "rounds".into(),
        at: GpuVa::new(rounds),
        bytes: 4,
    });
    b.metadata.modules.push(CallModule {
        origin: "/usr/lib/x86_64-linux-gnu/libcublasLt.so.13".into(),
        kind: CodeKind::Cubin,
        missing: "its memory is gone".into(),
        ..Default::default()
    });
    let conv = b.function(
        "_Z6conv2dPKfS0_Pfii",
        Some(text),
        &[[0, 8], [8, 8], [16, 8], [24, 4], [28, 4]],
    );
    let relu = b.function("_Z4reluPfi", Some(text), &[[0, 8], [8, 4]]);
    let gemm = b.function("_ZN7cutlass6KernelI4GemmEEvNT_6ParamsE", Some(1), &[[0, 48]]);
    let softmax = b.function("_Z7softmaxPKfPfif", Some(text), &[[0, 8], [8, 8], [16, 4], [20, 4]]);
    b.metadata.functions[conv as usize].registers = 40;
    b.metadata.functions[gemm as usize].registers = 168;
    b.metadata.functions[gemm as usize].shared = 49_152;
    for name in [
        "cuInit",
        "cuDevicePrimaryCtxRetain",
        "cuLibraryLoadData",
        "cuStreamCreateWithPriority",
    ] {
        b.call(name, 0);
    }
    let weights = b.take(144 * 4);
    let image = b.take(784 * 4);
    let features = b.take(4096 * 4);
    let dense = b.take(10 * 256 * 4);
    let scores = b.take(10 * 4);
    let scratch = b.take(64 << 10);
    b.copy_in(
        weights,
        &floats((0..144).map(|n| (n as f32 - 72.0) / 144.0)),
        (1, 576),
        0,
        true,
    );
    b.copy_in(
        dense,
        &floats((0..2560).map(|n| (n % 17) as f32 / 17.0)),
        (1, 10_240),
        0,
        true,
    );
    b.call("cuFuncSetAttribute", 1);
    let (mut launches, mut around) = (Vec::new(), 0);
    let (mut image_in, mut scores_out) = (0, 0);
    for run in 0..times {
        b.time += 180_000;
        let picture = floats((0..784).map(|n| ((n * 7 + run * 31) % 256) as f32 / 255.0));
        if run == 0 {
            image_in = b.event();
        }
        b.copy_in(image, &picture, (1, 3136), copies, true);
        b.order(OrderKind::Record, copies, 2 * run);
        b.fill(scratch, (4096, 4), 0, (1, 16_384), work);
        b.order(OrderKind::StreamWaits, work, 2 * run);
        let arguments = Arguments::default().to(image).to(weights).to(features).int(784).int(28);
        launches.push(b.launch(conv, [16, 1, 1], [256, 1, 1], work, &arguments.0));
        b.set(features, &floats((0..4096).map(|n| ((n + run) % 11) as f32 - 5.0)));
        let arguments = Arguments::default().to(features).int(4096);
        launches.push(b.launch(relu, [32, 1, 1], [128, 1, 1], work, &arguments.0));
        b.set(
            features,
            &floats((0..4096).map(|n| (((n + run) % 11) as f32 - 5.0).max(0.0))),
        );
        b.on_device(scratch + 16_384, features, 1024, work);
        let mut params = Vec::new();
        for word in [features, dense, scores, 10, 256, 0x3f80_0000_0000_0001] {
            params.extend_from_slice(&word.to_le_bytes());
        }
        launches.push(b.launch(gemm, [1, 1, 1], [128, 1, 1], work, &params));
        b.set(scores, &floats((0..10).map(|n| (n * 3 % 7) as f32)));
        let all = [(weights, 576), (image, 3136), (scores, 40)];
        if run == 0 {
            b.snapshot("snapshot before launch", &all);
        }
        let arguments = Arguments::default().to(scores).to(scores).int(10).float(0.5);
        let event = b.launch(softmax, [1, 1, 1], [32, 1, 1], work, &arguments.0);
        launches.push(event);
        let sum: f32 = (0..10).map(|n| ((n * 3 % 7) as f32).exp()).sum();
        b.set(scores, &floats((0..10).map(|n| ((n * 3 % 7) as f32).exp() / sum)));
        if run == 0 {
            around = event;
            b.snapshot("snapshot after launch", &all);
        }
        b.order(OrderKind::Record, work, 2 * run + 1);
        b.order(OrderKind::StreamWaits, copies, 2 * run + 1);
        if run == 0 {
            scores_out = b.event();
        }
        b.copy_out(scores, 40, copies, true);
        b.order(OrderKind::StreamDone, copies, OrderRow::NONE);
    }
    b.give(scratch, 64 << 10);
    b.give(scores, 40);
    Net {
        recording: b.finish(),
        image,
        weights,
        features,
        scores,
        rounds,
        launches,
        around,
        image_in,
        scores_out,
    }
}

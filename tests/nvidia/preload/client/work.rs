//! Work for a Hopper: uploads, copies and launches of the test kernels, as words of push buffers.

use cuda_code::cubin::Cubin;
use cuda_code::cubin::load::{LoadedImage, SegmentKind, SegmentRequest};
use nvidia_channel::launch::{Delivery, LaunchRequest};
use nvidia_channel::writer::{ContextSetup, MemoryWindows, PushBufferWriter, UploadFlush};
use nvidia_channel::{Bindings, GpuVa};

/// Code of the test kernels.
pub const CUBIN: &[u8] = include_bytes!("../../model/kernels/kernels.cubin");
/// Code of the kernel that sends a message to the compute scheduler.
const SCHEDULE_CUBIN: &[u8] = include_bytes!("../../model/kernels/schedule.cubin");
/// Bytes of a large page: code, banks and descriptors are in one.
pub const CODE_BYTES: u64 = 0x20_0000;
/// Offsets of constant bank 0 and of the descriptor behind the code.
const BANK: u64 = 0x10_0000;
const DESCRIPTOR: u64 = 0x11_0000;
/// Windows of shared and local memory: addresses without memory.
const WINDOWS: MemoryWindows = MemoryWindows {
    shared: GpuVa(0x7294_0000_0000),
    local: GpuVa(0x7293_0000_0000),
};

/// Offsets of numbers and of their sums in memory for data, and of the kernel that sends messages.
pub const ARRAYS: [u64; 3] = [0, 0x1_0000, 0x2_0000];
const SENDER: u64 = 0x8_0000;
/// Header of the words of an uploaded descriptor.
const DESCRIPTOR_UPLOAD: u32 = 3 << 29 | 96 << 16 | 1 << 13 | 0x1b4 >> 2;
/// Bit of a descriptor's first word: the launch waits until it is scheduled.
const REQUIRE_SCHEDULING: u32 = 1 << 30;
/// Action of a message that schedules a descriptor.
const SCHEDULE: u64 = 2 << 32;

/// The words of a graph as CUDA's driver makes it: set-up, inputs, a launch that waits, and a kernel that starts it by a
/// message to the compute scheduler. The launch adds the numbers of both inputs.
pub fn graph(code: u64, data: u64, page: u64, inputs: [&[u8]; 2]) -> [Vec<u32>; 4] {
    let mut work = Work::new(code);
    let mut sender = Work::with_cubin(data + SENDER, SCHEDULE_CUBIN);
    let set_up = [work.set_up(), sender.set_up()].concat();
    let arrays = ARRAYS.map(|offset| data + offset);
    let uploads = [
        work.upload(arrays[0], inputs[0]),
        work.upload(arrays[1], inputs[1]),
        work.upload(arrays[2], &[0; 4000]),
    ];
    let mut waiting = work.add(arrays, 1000);
    let at = waiting.iter().position(|word| *word == DESCRIPTOR_UPLOAD);
    let first = at.and_then(|at| waiting.get_mut(at + 1));
    *first.unwrap_or_else(|| panic!("the launch uploads its descriptor")) |= REQUIRE_SCHEDULING;
    let message = SCHEDULE | (work.code + DESCRIPTOR) >> 8;
    let parameters = [page, message].map(u64::to_le_bytes).concat();
    let sender = sender.launch("schedule", 1, 1, &parameters);
    [set_up, uploads.concat(), waiting, sender]
}

/// A writer of work, with the kernels at an address.
#[derive(Debug)]
pub struct Work {
    code: u64,
    image: LoadedImage,
    writer: PushBufferWriter,
    launches: u32,
}

impl Work {
    /// Places the test kernels in [`CODE_BYTES`] of memory at an address.
    pub fn new(code: u64) -> Self {
        Self::with_cubin(code, CUBIN)
    }

    /// Places the kernels of a cubin in [`CODE_BYTES`] of memory at an address.
    pub fn with_cubin(code: u64, cubin: &[u8]) -> Self {
        let mut next = code;
        let mut allocate = |request: &SegmentRequest<'_>| {
            let va = next.next_multiple_of(request.alignment.max(0x1000));
            next = va + request.bytes;
            Some(GpuVa(va))
        };
        let cubin = Cubin::parse(cubin).unwrap_or_else(|e| panic!("the cubin of the kernels: {e}"));
        let image = cubin.load(&mut allocate).unwrap_or_else(|e| panic!("{e}"));
        assert!(next < code + BANK, "the kernels fit their memory");
        let bindings = Bindings::new(0xc86f).with(1, 0xcbc0).with(4, 0xc8b5);
        Self {
            code,
            image,
            writer: PushBufferWriter::new(bindings),
            launches: 0,
        }
    }

    fn take(&mut self) -> Vec<u32> {
        self.writer.take_words()
    }

    /// Returns the words that bind the classes and upload the kernels.
    pub fn set_up(&mut self) -> Vec<u32> {
        let setup = ContextSetup {
            compute_class: 0xcbc0,
            copy_class: Some(0xc8b5),
            windows: WINDOWS,
            local_memory: None,
            shader_version: None,
            descriptor_version: None,
            shader_exceptions: None,
        };
        let written = self.writer.set_up_context(&setup);
        written.unwrap_or_else(|e| panic!("{e}"));
        for segment in self.image.segments.iter().filter(|s| s.kind != SegmentKind::Zero) {
            let bytes = &segment.content;
            let uploaded = self.writer.upload(segment.address, bytes, UploadFlush::Channel);
            uploaded.unwrap_or_else(|e| panic!("{e}"));
        }
        self.take()
    }

    /// Returns the words that upload bytes.
    pub fn upload(&mut self, to: u64, bytes: &[u8]) -> Vec<u32> {
        let uploaded = self.writer.upload(GpuVa(to), bytes, UploadFlush::Channel);
        uploaded.unwrap_or_else(|e| panic!("{e}"));
        self.take()
    }

    /// Returns the words that replace the first instructions of a kernel.
    pub fn replace_code(&mut self, name: &str, code: &[u8]) -> Vec<u32> {
        let kernel = self.image.find_kernel(name).unwrap_or_else(|e| panic!("{e}"));
        let program = kernel.description.program.0;
        self.upload(program, code)
    }

    /// Returns the words that copy bytes.
    pub fn copy(&mut self, from: u64, to: u64, bytes: u64) -> Vec<u32> {
        let copied = self.writer.copy(GpuVa(from), GpuVa(to), bytes);
        copied.unwrap_or_else(|e| panic!("{e}"));
        self.take()
    }

    /// Returns the words that launch a kernel of one dimension.
    pub fn launch(&mut self, name: &str, grid: u32, block: u32, parameters: &[u8]) -> Vec<u32> {
        let kernel = self.image.find_kernel(name).unwrap_or_else(|e| panic!("{e}"));
        let request = LaunchRequest {
            kernel: &kernel.description,
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            cluster: None,
            dynamic_shared_bytes: 0,
            parameters,
            constant_bank_0: GpuVa(self.code + BANK),
            descriptor: GpuVa(self.code + DESCRIPTOR),
            windows: WINDOWS,
            local_bytes: 0,
            sm_count: 0,
            launch_number: self.launches,
            release: None,
            delivery: Delivery::Upload,
        };
        self.launches += 1;
        let built = request.build(&self.writer).unwrap_or_else(|e| panic!("{e}"));
        built.words
    }

    /// Returns the words that add `count` numbers at `a` and `b`.
    pub fn add(&mut self, [a, b, sums]: [u64; 3], count: u32) -> Vec<u32> {
        let mut parameters: Vec<u8> = [a, b, sums].iter().flat_map(|va| va.to_le_bytes()).collect();
        parameters.extend(count.to_le_bytes());
        self.launch("vadd", count.div_ceil(256), 256, &parameters)
    }
}

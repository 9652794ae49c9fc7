//! Fuzz target for the loader of cubins and for the launches of what it loads.

use crate::input::Input;
use cuda_code::cubin::Cubin;
use cuda_code::cubin::load::{CODE_TAIL_BYTES, LoadedImage, MAX_REQUIREMENTS, MAX_UNRESOLVED, SegmentKind};
use nvidia_channel::launch::{Delivery, KernelDescription, LaunchRequest};
use nvidia_channel::qmd::Qmd;
use nvidia_channel::writer::MemoryWindows;
use nvidia_channel::{Bindings, GpuVa, PushBufferWriter};

/// Maximum size of a segment that gets memory, bytes.
const MAX_SEGMENT: u64 = 1 << 40;
/// Number of kernels of an input that are launched.
const MAX_LAUNCHES: usize = 4;

/// Loads any bytes as a cubin, and builds launches of its kernels. The first byte selects the size of the launches. The
/// input is accepted if a launch is built.
pub fn cubin_load(data: &[u8]) -> bool {
    let mut input = Input(data);
    let size = u32::from(input.u8());
    let Ok(cubin) = Cubin::parse(input.0) else {
        return false;
    };
    let mut next = 1u64 << 36;
    let loaded = cubin.load(&mut |request| {
        assert!(request.alignment.is_power_of_two() && !request.name.is_empty());
        let address = next.checked_next_multiple_of(request.alignment)?;
        next = address.checked_add(request.bytes.min(MAX_SEGMENT))?;
        (request.bytes < MAX_SEGMENT).then_some(GpuVa(address))
    });
    let image = match loaded {
        Ok(image) => image,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    check(&image, data.len());
    let kernels = image.kernels.iter().filter(|k| k.requirements.is_empty());
    let built = kernels.take(MAX_LAUNCHES).filter(|k| launch(&k.description, size));
    built.count() > 0
}

/// Checks what every loaded image holds.
fn check(image: &LoadedImage, input_bytes: usize) {
    let content: usize = image.segments.iter().map(|s| s.content.len()).sum();
    assert!(content <= 16 * input_bytes, "{content} bytes of {input_bytes}");
    assert!(image.unresolved.len() <= MAX_UNRESOLVED);
    for kernel in &image.kernels {
        assert!(kernel.requirements.len() <= MAX_REQUIREMENTS);
        assert!(kernel.requirements.iter().all(|r| !r.to_string().is_empty()));
        let found = image.find_kernel(&kernel.description.name);
        assert_eq!(found.is_ok(), kernel.requirements.is_empty());
        let code = image.segments.iter().find(|s| s.kind == SegmentKind::Code);
        let code = code.unwrap_or_else(|| panic!("a kernel without code"));
        assert!(code.zero_bytes >= CODE_TAIL_BYTES);
        let (start, program) = (code.address.0, kernel.description.program.0);
        let end = start + code.content.len() as u64;
        assert!((start..=end).contains(&program) && program + kernel.description.code_bytes <= end);
    }
}

/// Builds a launch of a kernel, and reads its descriptor. Returns whether the launch is possible.
fn launch(kernel: &KernelDescription, size: u32) -> bool {
    let parameters = vec![0; usize::try_from(kernel.parameter_bytes.min(1 << 16)).unwrap_or_default()];
    let request = LaunchRequest {
        kernel,
        grid: [size, 2, 1],
        block: kernel.required_threads.unwrap_or([size, 1, 1]),
        cluster: None,
        dynamic_shared_bytes: size << 8,
        parameters: &parameters,
        constant_bank_0: GpuVa(0x10_0000),
        descriptor: GpuVa(0x20_0000),
        windows: MemoryWindows {
            shared: GpuVa(0x7294_0000_0000),
            local: GpuVa(0x7293_0000_0000),
        },
        local_bytes: 0x640,
        sm_count: 132,
        launch_number: 0,
        release: None,
        delivery: [Delivery::Memory, Delivery::Upload, Delivery::InlineDescriptor][size as usize % 3],
    };
    let writer = PushBufferWriter::new(Bindings::new(0xc86f).with(1, 0xcbc0));
    match request.build(&writer) {
        Ok(built) => {
            let qmd = Qmd::parse(&built.descriptor, Some(0xcbc0));
            let qmd = qmd.unwrap_or_else(|e| panic!("a built descriptor is damaged: {e}"));
            assert_eq!((qmd.grid(), qmd.block()), (Some(request.grid), Some(request.block)));
            assert_eq!(qmd.program_address(), Some(kernel.program));
            assert!(!built.words.is_empty() && built.constant_bank_0.len().is_multiple_of(256));
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

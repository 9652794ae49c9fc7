//! The built libraries, called as compiled programs call them, over the stand-in for the driver.
#![allow(unsafe_code, reason = "a runtime is called as a C library")]
#![allow(clippy::unwrap_used)]

mod arrays;
mod device_code;
mod further_functions;
mod own_processes;
mod runtime_library;

use cuda_driver::FillNode;
use device_code::{DeviceCode, GLOBALS, VECTOR_ADD, address, dim};
use kinescope_remote_cudart::copies::{Extent, PitchedPointer};
use kinescope_remote_cudart::graphs::KernelNodeParameters;
use kinescope_remote_cudart::slices::Copy3dParameters;
use runtime_library::RuntimeLibrary;
use std::ptr::{null, null_mut};

#[test]
fn functions_have_the_version_of_their_library() {
    let [old, new] = RuntimeLibrary::both();
    for name in [
        "cudaMalloc",
        "__cudaPushCallConfiguration",
        "cudaMemcpyAsync_ptsz",
        "cudaMemset_ptds",
    ] {
        assert!(!old.find(name).is_null() && !new.find(name).is_null(), "{name}");
    }
    for name in [
        "cudaThreadSynchronize",
        "cudaGetDeviceProperties_v2",
        "cudaMemAdvise_v2",
    ] {
        assert!(!old.find(name).is_null() && new.find(name).is_null(), "{name}");
    }
    for (library, expected) in [(old, 12_090), (new, 13_000)] {
        let mut version = 0;
        assert_eq!(library.cudaRuntimeGetVersion(&raw mut version), 0);
        assert_eq!(version, expected);
    }
}

#[test]
fn kernels_of_registered_binaries_run() {
    for library in RuntimeLibrary::both() {
        let code = DeviceCode::register(library, &VECTOR_ADD);
        let numbers: Vec<f32> = (0..500_u16).map(f32::from).collect();
        let bytes = size_of_val(&*numbers);
        let (mut input, mut output) = (0_u64, 0_u64);
        assert_eq!(library.cudaMalloc(&raw mut input, bytes), 0);
        assert_eq!(library.cudaMalloc(&raw mut output, bytes), 0);
        assert_eq!(library.cudaMemcpy(input, address(numbers.as_ptr()), bytes, 1), 0);
        let (mut first, mut second, mut count) = (input, input, numbers.len() as u64);
        let mut arguments = [
            (&raw mut output).cast(),
            (&raw mut first).cast(),
            (&raw mut second).cast(),
            (&raw mut count).cast(),
        ];
        let sums = |library: &RuntimeLibrary, output| {
            let mut sums = vec![0_f32; numbers.len()];
            assert_eq!(library.cudaMemcpy_ptds(address(sums.as_mut_ptr()), output, bytes, 2), 0);
            assert_eq!(library.cudaMemset(output, 0, bytes), 0);
            sums
        };
        let expected: Vec<f32> = numbers.iter().map(|n| n + n).collect();

        // As programs did up to CUDA 12: the configuration goes from one function to another.
        assert_eq!(library.__cudaPushCallConfiguration(dim(2), dim(256), 64, null_mut()), 0);
        let (mut grid, mut block, mut shared, mut stream) = (dim(0), dim(0), 0, null_mut());
        let mut pop =
            || library.__cudaPopCallConfiguration(&raw mut grid, &raw mut block, &raw mut shared, &raw mut stream);
        let (popped, missing) = (pop(), pop());
        assert_eq!((popped, missing), (0, 52));
        assert_eq!((grid, block, shared), (dim(2), dim(256), 64));
        let launched = library.cudaLaunchKernel(code.function(0), grid, block, arguments.as_mut_ptr(), shared, stream);
        assert_eq!(launched, 0);
        assert_eq!(sums(&library, output), expected);

        // As programs do since CUDA 12.1, with both kinds of default streams.
        let mut kernel = null_mut();
        assert_eq!(library.__cudaGetKernel(&raw mut kernel, code.function(0)), 0);
        assert_eq!(
            library.__cudaLaunchKernel(kernel, dim(2), dim(256), arguments.as_mut_ptr(), 0, null_mut()),
            0
        );
        assert_eq!(sums(&library, output), expected);
        assert_eq!(
            library.__cudaLaunchKernel_ptsz(kernel, dim(2), dim(256), arguments.as_mut_ptr(), 0, null_mut()),
            0
        );
        assert_eq!(sums(&library, output), expected);
        // A kernel's handle takes the place of a host function.
        assert_eq!(
            library.cudaLaunchKernel(kernel, dim(2), dim(256), arguments.as_mut_ptr(), 0, null_mut()),
            0
        );
        assert_eq!(sums(&library, output), expected);

        let mut blocks = 0;
        assert_eq!(
            library.cudaOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, code.function(0), 128, 0),
            0
        );
        assert_eq!(blocks, 16);
        assert_eq!(library.cudaFree(input), 0);
        assert_eq!(library.cudaFree(output), 0);
        assert_eq!(library.cudaFree(0), 0);
        assert_eq!(
            library.cudaPeekAtLastError(),
            52,
            "the missing configuration is the last error"
        );
    }
}

#[test]
fn impossible_launches_have_the_errors_of_their_version() {
    for library in RuntimeLibrary::both() {
        let configuration = if library.version == 12 { 9 } else { 1 };
        let code = DeviceCode::register(library, &VECTOR_ADD);
        let (mut zero, mut none) = (0_u64, [null_mut(); 4]);
        none.fill((&raw mut zero).cast());
        let mut launch = |grid, block, shared| {
            let result = library.cudaLaunchKernel(
                code.function(0),
                dim(grid),
                dim(block),
                none.as_mut_ptr(),
                shared,
                null_mut(),
            );
            assert_eq!(library.cudaPeekAtLastError(), result);
            assert_eq!(library.cudaGetLastError(), result);
            assert_eq!(library.cudaGetLastError(), 0);
            result
        };
        assert_eq!(launch(1, 32, 0), 0);
        assert_eq!(launch(0, 32, 0), configuration);
        assert_eq!(launch(1, 0, 0), configuration);
        assert_eq!(launch(1, 1025, 0), configuration);
        assert_eq!(launch(1, 32, 100_000), 1);
        assert_eq!(library.cudaFuncSetAttribute(code.function(0), 8, 100_000), 0);
        assert_eq!(launch(1, 32, 100_000), 0);
        let unknown = library.cudaLaunchKernel((&raw const library).cast(), dim(1), dim(1), null_mut(), 0, null_mut());
        assert_eq!(unknown, 400);
        assert_eq!(library.error_name(98), "cudaErrorInvalidDeviceFunction");
        // Another thread has its own last error.
        assert_eq!(
            std::thread::spawn(move || library.cudaGetLastError()).join().unwrap(),
            0
        );
        assert_eq!(library.cudaGetLastError(), 400);
        assert_eq!(library.cudaDeviceSynchronize(), 0);
    }
}

#[test]
fn variables_are_found_by_their_host_addresses() {
    for library in RuntimeLibrary::both() {
        let code = DeviceCode::register(library, &GLOBALS);
        let (weights, counter) = (code.variable(0), code.variable(1));
        let mut words = [0_u32; 4];
        assert_eq!(
            library.cudaMemcpyFromSymbol(address(words.as_mut_ptr()), weights, 16, 0, 2),
            0
        );
        assert_eq!(words, [3, 1, 4, 1]);
        let nine = 9_u32;
        assert_eq!(
            library.cudaMemcpyToSymbol(weights, address(&raw const nine), 4, 8, 1),
            0
        );
        assert_eq!(
            library.cudaMemcpyFromSymbol(address(words.as_mut_ptr()), weights, 12, 4, 4),
            0
        );
        assert_eq!(words, [1, 9, 1, 1]);
        let mut bytes = 0;
        assert_eq!(library.cudaGetSymbolSize(&raw mut bytes, counter), 0);
        assert_eq!(bytes, 4);
        assert_eq!(library.cudaMemcpyToSymbol(counter, address(words.as_ptr()), 4, 1, 1), 1);
        assert_eq!(
            library.cudaMemcpyToSymbol(counter, address(words.as_ptr()), 4, 0, 2),
            21
        );
        assert_eq!(library.cudaMemcpyToSymbol(words.as_ptr().cast(), 0, 4, 0, 1), 13);
        code.unregister();
        assert_eq!(library.cudaGetSymbolSize(&raw mut bytes, counter), 13);
    }
}

#[test]
fn rows_and_slices_are_copied_and_filled() {
    for library in RuntimeLibrary::both() {
        let (mut rows, mut pitch) = (0, 0);
        assert_eq!(library.cudaMallocPitch(&raw mut rows, &raw mut pitch, 20, 7), 0);
        let pattern: Vec<u8> = (0..140).collect();
        assert_eq!(library.cudaMemset2D(rows, pitch, 0x155, 20, 7), 0);
        assert_eq!(
            library.cudaMemcpy2D(rows, pitch, address(pattern.as_ptr()), 20, 20, 6, 1),
            0
        );
        let mut back = vec![0_u8; 140];
        assert_eq!(
            library.cudaMemcpy2D(address(back.as_mut_ptr()), 20, rows, pitch, 20, 7, 2),
            0
        );
        assert_eq!(back[..120], pattern[..120]);
        assert_eq!(back[120..], [0x55; 20]);
        assert_eq!(
            library.cudaMemcpy2D(address(back.as_mut_ptr()), 19, rows, pitch, 20, 7, 2),
            12
        );
        assert_eq!(library.cudaMemcpy(rows, address(pattern.as_ptr()), 4, 5), 21);
        let extent = Extent {
            width: 16,
            height: 3,
            depth: 2,
        };
        let mut cube = PitchedPointer {
            at: null_mut(),
            pitch: 0,
            width: 0,
            height: 0,
        };
        assert_eq!(library.cudaMalloc3D(&raw mut cube, extent), 0);
        assert_eq!((cube.width, cube.height), (16, 3));
        assert_eq!(library.cudaMemset3D(cube, 7, extent), 0);
        let mut bytes = vec![0_u8; 16];
        let copy = Copy3dParameters::linear(bytes.as_mut_ptr().cast(), cube.at, 16, 2);
        assert_eq!(library.cudaMemcpy3D(&raw const copy), 0);
        assert_eq!(bytes, [7; 16]);
    }
}

#[test]
fn properties_have_the_layout_of_each_version() {
    let [old, new] = RuntimeLibrary::both();
    let word = |bytes: &[u8], offset: usize| u32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap());
    let mut properties = vec![0xaa_u8; 1100];
    // The plain name of CUDA 12 has the structure of CUDA 11.
    assert_eq!(old.cudaGetDeviceProperties(properties.as_mut_ptr().cast(), 0), 0);
    assert!(properties.starts_with(b"Stand-in GPU\0"));
    assert_eq!((word(&properties, 360), word(&properties, 388)), (9, 16));
    assert!(properties[728..].iter().all(|byte| *byte == 0xaa));
    assert_eq!(old.cudaGetDeviceProperties_v2(properties.as_mut_ptr().cast(), 0), 0);
    assert_eq!(
        (word(&properties, 388), word(&properties, 696), word(&properties, 772)),
        (16, 232_448, 1)
    );
    assert!(properties[1032..].iter().all(|byte| *byte == 0xaa));
    properties.fill(0xaa);
    assert_eq!(new.cudaGetDeviceProperties(properties.as_mut_ptr().cast(), 0), 0);
    assert_eq!(
        (word(&properties, 384), word(&properties, 672), word(&properties, 748)),
        (16, 232_448, 1)
    );
    assert!(properties[1008..].iter().all(|byte| *byte == 0xaa));
    assert_eq!(new.cudaGetDeviceProperties(properties.as_mut_ptr().cast(), 1), 101);
    assert_eq!(new.cudaSetDevice(1), 101);
    let mut device = 7;
    assert_eq!(
        (new.cudaSetDevice(0), new.cudaGetDevice(&raw mut device), device),
        (0, 0, 0)
    );
}

#[test]
fn pointer_attributes_have_the_size_of_each_version() {
    for library in RuntimeLibrary::both() {
        let bytes = if library.version == 12 { 24 } else { 88 };
        let (mut pinned, mut device) = (0, 0);
        assert_eq!(library.cudaHostAlloc(&raw mut pinned, 64, 0), 0);
        assert_eq!(library.cudaMalloc(&raw mut device, 64), 0);
        for (at, kind) in [(pinned, 1_u64), (device, 2), (address(&raw const bytes), 0)] {
            let mut words = [0x5a5a_5a5a_5a5a_5a5a_u64; 12];
            assert_eq!(library.cudaPointerGetAttributes(words.as_mut_ptr().cast(), at), 0);
            assert_eq!(words[0] & 0xffff_ffff, kind);
            assert_eq!(words[1 + usize::from(kind != 2)], at);
            assert!(words[bytes / 8..].iter().all(|word| *word == 0x5a5a_5a5a_5a5a_5a5a));
        }
        assert_eq!(library.cudaFreeHost(pinned), 0);
        assert_eq!(library.cudaFree(device), 0);
    }
}

#[test]
fn captured_work_runs_again() {
    for library in RuntimeLibrary::both() {
        let code = DeviceCode::register(library, &GLOBALS);
        let (mut stream, mut graph, mut exec) = (null_mut(), null_mut(), null_mut());
        assert_eq!(library.cudaStreamCreate(&raw mut stream), 0);
        // The variable is looked up before, since a capture permits no lookup.
        let mut word = 0_u32;
        assert_eq!(
            library.cudaMemcpyFromSymbol(address(&raw mut word), code.variable(1), 4, 0, 2),
            0
        );
        assert_eq!(word, 7);
        let mut by = 5_u32;
        let mut arguments = [(&raw mut by).cast()];
        assert_eq!(library.cudaStreamBeginCapture(stream, 1), 0);
        let launched = library.cudaLaunchKernel(code.function(1), dim(1), dim(16), arguments.as_mut_ptr(), 0, stream);
        assert_eq!(launched, 0);
        assert_eq!(library.cudaStreamEndCapture(stream, &raw mut graph), 0);
        assert_eq!(library.cudaGraphInstantiate(&raw mut exec, graph, 0), 0);
        let (mut begin, mut end, mut milliseconds) = (null_mut(), null_mut(), -1.0);
        assert_eq!(library.cudaEventCreate(&raw mut begin), 0);
        assert_eq!(library.cudaEventCreate(&raw mut end), 0);
        assert_eq!(library.cudaEventRecord(begin, stream), 0);
        assert_eq!(library.cudaGraphLaunch(exec, stream), 0);
        assert_eq!(library.cudaGraphLaunch(exec, stream), 0);
        assert_eq!(library.cudaEventRecord(end, stream), 0);
        assert_eq!(library.cudaEventSynchronize(end), 0);
        assert_eq!(library.cudaEventElapsedTime(&raw mut milliseconds, begin, end), 0);
        assert!(milliseconds >= 0.0);
        assert_eq!(
            library.cudaMemcpyFromSymbol(address(&raw mut word), code.variable(1), 4, 0, 2),
            0
        );
        assert_eq!(word, 17);
        for event in [begin, end] {
            assert_eq!(library.cudaEventDestroy(event), 0);
        }
        assert_eq!(library.cudaGraphExecDestroy(exec), 0);
        assert_eq!(library.cudaGraphDestroy(graph), 0);
        assert_eq!(library.cudaStreamSynchronize(stream), 0);
        assert_eq!(library.cudaStreamDestroy(stream), 0);
        assert_eq!(library.cudaStreamDestroy(null_mut()), 400);
    }
}

#[test]
fn graphs_of_nodes_run_and_change() {
    for library in RuntimeLibrary::both() {
        let code = DeviceCode::register(library, &VECTOR_ADD);
        let (mut graph, mut exec, mut device) = (null_mut(), null_mut(), 0);
        assert_eq!(library.cudaMalloc(&raw mut device, 64), 0);
        assert_eq!(library.cudaGraphCreate(&raw mut graph, 0), 0);
        let [mut fill, mut kernel, mut copy] = [null_mut(); 3];
        // 0x3f800000 is the number 1.
        let fill_form = FillNode {
            to: device,
            pitch: 0,
            value: 0x3f80_0000,
            element: 4,
            width: 16,
            height: 1,
        };
        assert_eq!(
            library.cudaGraphAddMemsetNode(&raw mut fill, graph, null(), 0, &raw const fill_form),
            0
        );
        let (mut at, mut count) = (device, 8_u64);
        let mut arguments = [
            (&raw mut at).cast(),
            (&raw mut at).cast(),
            (&raw mut at).cast(),
            (&raw mut count).cast(),
        ];
        let mut form = KernelNodeParameters {
            function: code.function(0),
            grid: dim(1),
            block: dim(32),
            shared: 0,
            parameters: arguments.as_mut_ptr(),
            extra: null_mut(),
        };
        assert_eq!(
            library.cudaGraphAddKernelNode(&raw mut kernel, graph, &raw const fill, 1, &raw const form),
            0
        );
        let mut sums = [0_f32; 16];
        let to = address(sums.as_mut_ptr());
        let added = library.cudaGraphAddMemcpyNode1D(&raw mut copy, graph, &raw const kernel, 1, to, device, 64, 2);
        assert_eq!(added, 0);
        assert_eq!(library.cudaGraphInstantiate(&raw mut exec, graph, 0), 0);
        assert_eq!(library.cudaGraphLaunch(exec, null_mut()), 0);
        assert_eq!(library.cudaDeviceSynchronize(), 0);
        assert_eq!(sums, std::array::from_fn(|index| if index < 8 { 2.0 } else { 1.0 }));
        form.block = dim(4);
        assert_eq!(
            library.cudaGraphExecKernelNodeSetParams(exec, kernel, &raw const form),
            0
        );
        assert_eq!(library.cudaGraphLaunch(exec, null_mut()), 0);
        assert_eq!(library.cudaDeviceSynchronize(), 0);
        assert_eq!(sums, std::array::from_fn(|index| if index < 4 { 2.0 } else { 1.0 }));
        assert_eq!(library.cudaGraphExecDestroy(exec), 0);
        assert_eq!(library.cudaGraphDestroy(graph), 0);
        assert_eq!(library.cudaFree(device), 0);
    }
}

#[test]
fn kernels_of_loaded_libraries_run() {
    for library in RuntimeLibrary::both() {
        let (mut loaded, text) = (null_mut(), GLOBALS.text.as_ptr().cast());
        assert_eq!(
            library.cudaLibraryLoadData(&raw mut loaded, text, null(), null(), 0, null(), null(), 0),
            0
        );
        let (mut kernel, mut kernels) = (null_mut(), [null_mut(); 8]);
        assert_eq!(
            library.cudaLibraryGetKernel(&raw mut kernel, loaded, c"count_up".as_ptr()),
            0
        );
        assert_eq!(library.cudaLibraryEnumerateKernels(kernels.as_mut_ptr(), 8, loaded), 0);
        assert!(kernels.contains(&kernel) && kernels[3].is_null());
        let (mut counter, mut bytes, mut word, mut by) = (0, 0, 0_u32, 2_u32);
        assert_eq!(
            library.cudaLibraryGetGlobal(&raw mut counter, &raw mut bytes, loaded, c"counter".as_ptr()),
            0
        );
        let mut arguments = [(&raw mut by).cast()];
        assert_eq!(
            library.cudaLaunchKernel(kernel, dim(1), dim(16), arguments.as_mut_ptr(), 0, null_mut()),
            0
        );
        assert_eq!(library.cudaMemcpy(address(&raw mut word), counter, bytes, 2), 0);
        assert_eq!((word, bytes), (9, 4));
        assert_eq!(
            library.cudaLibraryGetKernel(&raw mut kernel, loaded, c"missing".as_ptr()),
            500
        );
        assert_eq!(library.cudaLibraryUnload(loaded), 0);
    }
}

#[test]
fn damaged_binaries_are_refused_at_their_first_use() {
    for library in RuntimeLibrary::both() {
        let wrapper = [0_u64; 3];
        let binary = library.__cudaRegisterFatBinary(wrapper.as_ptr().cast());
        let function = wrapper.as_ptr().cast();
        library.__cudaRegisterFunction(
            binary,
            function,
            null(),
            c"vector_add".as_ptr(),
            -1,
            null(),
            null(),
            null(),
            null(),
            null(),
        );
        library.__cudaRegisterFatBinaryEnd(binary);
        assert_eq!(
            library.cudaLaunchKernel(function, dim(1), dim(1), null_mut(), 0, null_mut()),
            200
        );
        library.__cudaUnregisterFatBinary(binary);
        assert_eq!(
            library.cudaLaunchKernel(function, dim(1), dim(1), null_mut(), 0, null_mut()),
            400
        );
    }
}

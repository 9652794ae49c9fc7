//! Tests that loaded cubins have the values of CUDA's own launches, and that kernels with unmet needs are refused.

use crate::common;

use cuda_code::cubin::Cubin;
use cuda_code::cubin::load::{LoadError, LoadedImage, RuntimeRequirement, Segment, SegmentKind, SegmentRequest};
use nvidia_channel::GpuVa;
use std::collections::BTreeMap;

/// Returns the bytes of a file in `tests/load`.
pub fn bytes(name: &str) -> Vec<u8> {
    let path = common::folder().parent().unwrap().join("load").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Loads a cubin to addresses that grow from 64 GiB, above the first 4 GiB of the address space.
pub fn load(bytes: &[u8]) -> Result<LoadedImage, LoadError> {
    let mut next = 0x10_1234_5000u64;
    Cubin::parse(bytes)?.load(&mut |request: &SegmentRequest<'_>| {
        let address = next.next_multiple_of(request.alignment);
        next = address + request.bytes;
        Some(GpuVa(address))
    })
}

fn load_file(name: &str) -> LoadedImage {
    load(&bytes(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn segment<'a>(image: &'a LoadedImage, name: &str) -> &'a Segment {
    image.segments.iter().find(|s| s.name == name).unwrap()
}

fn address(image: &LoadedImage, variable: &str) -> u64 {
    image.variables.iter().find(|v| v.name == variable).unwrap().address.0
}

fn u64_at(segment: &Segment, at: usize) -> u64 {
    u64::from_le_bytes(segment.content[at..at + 8].try_into().unwrap())
}

#[test]
fn kernels_have_the_values_of_recorded_launches() {
    let image = load_file("kernels.sm_90.cubin");
    // Registers, static shared memory, stack, parameters and code. `cuobjdump` gives the same registers.
    for (name, registers, shared, stack, parameters, code) in [
        ("vadd", 12, 0, 0, 28, 0x200),
        ("blocksum", 10, 0x400, 0, 20, 0x380),
        ("dynsum", 22, 0, 0, 20, 0x800),
        ("localmem", 28, 0, 0x100, 20, 0x2200),
        ("ids", 20, 0, 0, 8, 0x300),
        ("consts", 12, 0, 0, 8, 0x200),
        ("bigparam", 16, 0, 0, 32, 0x200),
    ] {
        let kernel = &image.find_kernel(name).unwrap().description;
        assert_eq!(kernel.registers, registers, "{name}");
        assert_eq!(
            (kernel.static_shared_bytes, kernel.reserved_shared_bytes),
            (shared, 0x400),
            "{name}"
        );
        assert_eq!(kernel.stack_bytes, stack, "{name}");
        assert_eq!(
            (kernel.parameter_offset, kernel.parameter_bytes),
            (0x210, parameters),
            "{name}"
        );
        assert_eq!((kernel.code_bytes, kernel.sass_version), (code, 0x90), "{name}");
        assert!(kernel.program.0.is_multiple_of(256), "{name}");
        let banks: Vec<(u32, u64)> = kernel.banks.iter().map(|b| (b.index, b.bytes)).collect();
        assert_eq!(banks, [(3, 0x20), (4, 0x10)], "{name}");
    }
    let last = image.find_kernel("bigparam").unwrap();
    let offsets: Vec<(u16, u16)> = last.parameters.iter().map(|p| (p.offset, p.bytes)).collect();
    assert_eq!(offsets, [(0, 8), (8, 8), (16, 4), (20, 2), (22, 1), (24, 8)]);
}

#[test]
fn the_largest_frame_is_that_of_any_function() {
    for (name, bytes_of_frame) in [
        ("kernels.sm_90.cubin", 256),
        ("loads.sm_90.cubin", 8),
        ("linked.sm_90.cubin", 0),
    ] {
        let file = bytes(name);
        let cubin = Cubin::parse(&file).unwrap();
        assert_eq!(cubin.largest_frame(), Ok(Some(bytes_of_frame)), "{name}");
        let kernels = cubin.kernels().unwrap();
        assert!(kernels.iter().all(|k| k.frame_bytes <= bytes_of_frame), "{name}");
    }
}

#[test]
fn code_and_constants_are_placed_whole() {
    let file = bytes("kernels.sm_90.cubin");
    let image = load(&file).unwrap();
    let code = segment(&image, ".text");
    let (vadd, cubin) = (
        &image.find_kernel("vadd").unwrap().description,
        Cubin::parse(&file).unwrap(),
    );
    let at = (vadd.program.0 - code.address.0) as usize;
    let original = cubin.kernel("vadd").unwrap().unwrap().code_at as usize;
    assert_eq!(code.content[at..at + 0x200], file[original..original + 0x200]);
    assert_eq!((code.kind, code.zero_bytes), (SegmentKind::Code, 4096));
    let table = segment(&image, ".nv.constant3");
    let values: Vec<u32> = table
        .content
        .chunks(4)
        .map(|c| u32::from_le_bytes(c.try_into().unwrap()))
        .collect();
    assert_eq!(values, [11, 22, 33, 44, 55, 66, 77, 88]);
    let global = segment(&image, ".nv.global.init");
    assert_eq!(
        (global.kind, &global.content[..]),
        (SegmentKind::Initialized, &1234u32.to_le_bytes()[..])
    );
    // Bank 4 has the address of the variable.
    let pointers = segment(&image, ".nv.constant4");
    assert_eq!(u64_at(pointers, 0), address(&image, "gvar"));
    assert_eq!(pointers.zero_bytes, 8, "the bank is filled to 16 bytes");
}

#[test]
fn pointers_to_variables_are_relocated() {
    for file in ["loads.sm_90.cubin", "loads.cuda12.sm_90.cubin"] {
        let image = load_file(file);
        let (counts, bank) = (address(&image, "counts"), segment(&image, ".nv.constant4"));
        let slots: Vec<u64> = (0..bank.content.len() / 8).map(|n| u64_at(bank, 8 * n)).collect();
        for variable in ["counts", "pointer_to_counts", "zeroed", "functions"] {
            assert!(slots.contains(&address(&image, variable)), "{file} {variable}");
        }
        // `counts + 1`, in the initial bytes of another variable.
        let initial = segment(&image, ".nv.global.init");
        let at = address(&image, "pointer_to_counts") - initial.address.0;
        assert_eq!(u64_at(initial, at as usize), counts + 4, "{file}");
        let zero = segment(&image, ".nv.global");
        assert_eq!(
            (zero.kind, zero.zero_bytes, zero.content.len()),
            (SegmentKind::Zero, 256, 0)
        );
        assert_eq!(address(&image, "zeroed"), zero.address.0, "{file}");
    }
}

/// Returns the 16 bytes of an instruction.
fn instruction(image: &LoadedImage, kernel: &str, offset: u64) -> u128 {
    let code = segment(image, ".text");
    let kernels = image.kernels.iter().map(|k| &k.description);
    let program = kernels
        .filter(|k| k.name == kernel)
        .map(|k| k.program.0)
        .next()
        .unwrap();
    let at = (program + offset - code.address.0) as usize;
    u128::from_le_bytes(code.content[at..at + 16].try_into().unwrap())
}

#[test]
fn instructions_are_relocated() {
    let image = load_file("linked.sm_90.cubin");
    let kernel = &image.find_kernel("linked").unwrap().description;
    // MOV of both halves of the return address `linked + 0x60`, then CALL.ABS of `twice`.
    let [low, high] = [0x30, 0x40].map(|at| (instruction(&image, "linked", at) >> 32) as u32);
    assert_eq!(u64::from(high) << 32 | u64::from(low), kernel.program.0 + 0x60);
    let call = instruction(&image, "linked", 0x50);
    let target = (call >> 16 & 0xff) as u64 * 4 + (call >> 34 & ((1 << 47) - 1)) as u64 * 1024;
    let functions = segment(&image, ".nv.global.init");
    let (add_one, twice) = (u64_at(functions, 0), u64_at(functions, 8));
    assert_eq!(target, twice);
    let code = segment(&image, ".text");
    for function in [add_one, twice] {
        assert!((code.address.0..code.address.0 + code.content.len() as u64).contains(&function));
    }
    // `functions`, in both halves.
    let [low, high] = [0x50, 0x70].map(|at| (instruction(&image, "linked_indirect", at) >> 32) as u32);
    assert_eq!(u64::from(high) << 32 | u64::from(low), address(&image, "functions"));
    assert!(image.find_kernel("linked_indirect").is_ok());
}

#[test]
fn kernels_that_need_the_run_time_library_are_refused() {
    for file in ["loads.sm_90.cubin", "loads.cuda12.sm_90.cubin"] {
        let image = load_file(file);
        let expected = BTreeMap::from([
            ("prints", RuntimeRequirement::Printf),
            ("prints_below", RuntimeRequirement::Printf),
            ("allocates", RuntimeRequirement::DeviceHeap),
            ("frees", RuntimeRequirement::DeviceHeap),
            ("asserts", RuntimeRequirement::Assert),
            ("synchronizes_grid", RuntimeRequirement::GridSynchronization),
            ("samples", RuntimeRequirement::Texture),
            ("fetches", RuntimeRequirement::Texture),
            ("stores_surface", RuntimeRequirement::Surface),
            ("loads_surface", RuntimeRequirement::Surface),
        ]);
        for kernel in &image.kernels {
            let name = kernel.description.name.as_str();
            let requirements: Vec<_> = expected.get(name).cloned().into_iter().collect();
            assert_eq!(kernel.requirements, requirements, "{file} {name}");
        }
        let outside = ["printf", "malloc or free", "assert"];
        let unresolved: Vec<String> = image.unresolved.iter().map(ToString::to_string).collect();
        assert_eq!(unresolved, outside, "{file}");
        let error = image.find_kernel("prints").unwrap_err();
        assert_eq!(error.to_string(), "kernel \"prints\" needs printf");
        for name in [
            "calls",
            "indirect",
            "recursive",
            "through_pointer",
            "shares",
            "clusters",
            "switches",
        ] {
            assert!(image.find_kernel(name).is_ok(), "{file} {name}");
        }
        let clusters = &image.find_kernel("clusters").unwrap().description;
        assert_eq!(
            (clusters.cluster, clusters.static_shared_bytes),
            (Some([2, 1, 1]), 0x80)
        );
        let banks = |name: &str| -> Vec<u32> {
            let kernel = &image.find_kernel(name).unwrap().description;
            kernel.banks.iter().map(|b| b.index).collect()
        };
        assert_eq!(
            (banks("shares"), banks("switches")),
            (vec![3, 4], vec![3, 4, 2]),
            "{file}"
        );
    }
}

#[test]
fn fixtures_of_the_architecture_load() {
    for file in common::all(".cubin") {
        let loaded = load(&common::bytes(&file));
        if file.contains("sm_90") {
            let image = loaded.unwrap_or_else(|e| panic!("{file}: {e}"));
            for kernel in &image.kernels {
                assert_eq!(kernel.requirements, [], "{file} {}", kernel.description.name);
            }
        } else {
            assert!(matches!(loaded, Err(LoadError::Architecture { .. })), "{file}");
        }
    }
}

#[test]
fn files_and_addresses_that_do_not_fit_are_errors() {
    let object = load(&bytes("launches.object.sm_90.cubin"));
    assert_eq!(object.unwrap_err(), LoadError::Unlinked);
    let file = bytes("kernels.sm_90.cubin");
    let cubin = Cubin::parse(&file).unwrap();
    let none = cubin.load(&mut |_| None);
    assert!(matches!(none, Err(LoadError::NoMemory { section, .. }) if section == ".text"));
    for address in [0x1080, !0xff] {
        let bad = cubin.load(&mut |_| Some(GpuVa(address)));
        assert!(matches!(bad, Err(LoadError::BadAddress { .. })), "{address:#x}");
    }
    let image = load(&file).unwrap();
    let missing = image.find_kernel("nothing").unwrap_err();
    assert_eq!(missing, LoadError::NoKernel { name: "nothing".into() });
}

#[test]
fn unknown_relocations_are_named() {
    let good = bytes("loads.sm_90.cubin");
    // A relocation of type 4 in `.nv.global.init`: symbol 9, addend 4.
    let info = (9u64 << 32 | 4).to_le_bytes();
    let at = good.windows(8).position(|w| w == info).unwrap();
    let mut bad = good.clone();
    bad[at] = 0x23;
    let image = load(&bad).unwrap();
    let expected = "relocation R_CUDA_FUNC_DESC_64 at offset 0x0 of section .nv.global.init";
    assert!(
        image.unresolved.iter().any(|r| r.to_string() == expected),
        "{:?}",
        image.unresolved
    );
    // Kernels that read the bank with addresses may read the variable.
    for (name, loads) in [
        ("through_pointer", false),
        ("calls", false),
        ("shares", true),
        ("switches", true),
    ] {
        assert_eq!(image.find_kernel(name).is_ok(), loads, "{name}");
    }
    let mut beyond = good;
    beyond[at - 8..at].copy_from_slice(&0x1000u64.to_le_bytes());
    assert!(matches!(
        load(&beyond),
        Err(LoadError::BrokenRelocation { offset: 0x1000, .. })
    ));

    // In code, only the kernel is refused.
    let mut linked = bytes("linked.sm_90.cubin");
    let call = (14u64 << 32 | 0x4b).to_le_bytes();
    let at = linked.windows(8).position(|w| w == call).unwrap();
    linked[at] = 0x3e;
    let image = load(&linked).unwrap();
    let error = image.find_kernel("linked").unwrap_err().to_string();
    assert_eq!(
        error,
        "kernel \"linked\" needs relocation R_CUDA_FUNC_DESC32_LO_32 at offset 0x50 of section .text.linked"
    );
    assert!(image.find_kernel("linked_indirect").is_ok());
}

//! Fuzz target for containers of CUDA code: fatbins, cubins and PTX, from a program or from the user.

use cuda_code::cubin::Cubin;
use cuda_code::fatbin::{Wrapper, images};
use cuda_code::ptx::{Change, LaunchBounds, Ptx, with_launch_bounds};
use cuda_code::{Capability, Image};

/// Maximum size of unpacked code for one input, bytes: each unpacked container is read again.
const MAX_UNPACKED: u64 = 16 << 20;

/// Reads any bytes as CUDA code, with everything in them.
pub fn cuda_code(data: &[u8]) -> bool {
    let device = Capability::new(9, 0);
    let image = Image::detect(data);
    let _ = Wrapper::parse(data);
    let mut remaining = MAX_UNPACKED;
    let mut accepted = false;
    for fatbin in images(data).map_while(Result::ok) {
        let _ = (
            fatbin.choose(device),
            fatbin.list_entries(),
            fatbin.header().total_bytes(),
        );
        for entry in fatbin.entries().map_while(Result::ok) {
            let size = entry.unpacked_bytes.max(entry.padded_bytes);
            if size > remaining {
                continue;
            }
            remaining -= size;
            if let Ok(code) = entry.code() {
                accepted |= code_of(&code);
            }
        }
    }
    accepted |= code_of(data);
    if data.len() < 1 << 16 && remaining > 0 {
        let _ = (image.code(device), image.find_kernel("_Z6vecaddPKfS0_Pfi", device));
    }
    accepted
}

/// Reads a cubin or PTX.
fn code_of(bytes: &[u8]) -> bool {
    if let Ok(cubin) = Cubin::parse(bytes) {
        let _ = (cubin.arch(), cubin.abi_version());
        for variable in cubin.variables().unwrap_or_default() {
            assert!(variable.initial.is_none_or(|b| b.len() as u64 == variable.bytes));
        }
        let Ok(kernels) = cubin.kernels() else { return false };
        for kernel in kernels.iter().take(4) {
            assert!(cubin.contains_kernel(kernel.name), "a listed kernel is missing");
            let _ = cubin.kernel(kernel.name);
        }
        return true;
    }
    let Ok(ptx) = Ptx::parse(bytes) else { return false };
    let change = LaunchBounds {
        max_threads: Change::Set([64, 1, 1]),
        min_blocks: Change::Remove,
        max_registers: Change::Set(32),
    };
    for entry in ptx.entries.iter().take(4) {
        let _ = entry.parameter_bytes();
        if let Ok(changed) = with_launch_bounds(bytes, entry.name, &change) {
            let reparsed = Ptx::parse(&changed).unwrap_or_else(|e| panic!("changed text does not parse: {e}"));
            let bounds = reparsed
                .entry(entry.name)
                .map(|e| (e.max_threads, e.min_blocks, e.max_registers));
            assert_eq!(bounds, Some((Some([64, 1, 1]), None, Some(32))));
        }
    }
    true
}

//! Locations of a function's parameters, from the driver or else from the code.

use crate::driver::driver;
use cuda_code::{cubin::Cubin, ptx::Ptx};
use cuda_driver::{CuFunction, CudaError, INVALID_VALUE};
use std::collections::HashMap;
use trace_core::recording::CodeKind;

/// Maximum number of parameters that are queried per function.
const MAX_PARAMETERS: usize = 4096;

/// Offset and size of each parameter.
pub(super) type Layout = Vec<[u32; 2]>;

/// Queries the layout from the driver. Returns `None` if the driver does not report it, as before CUDA 12.4.
pub(super) fn query_layout(handle: CuFunction, kernel: bool) -> Option<Layout> {
    let d = driver();
    let mut layout = Vec::new();
    for n in 0..MAX_PARAMETERS {
        let (mut at, mut bytes) = (0, 0);
        // SAFETY: the driver returns an error for an index past the last parameter, and for a wrong handle.
        let asked = unsafe {
            if kernel {
                d.cuKernelGetParamInfo(handle, n, &raw mut at, &raw mut bytes)
            } else {
                d.cuFuncGetParamInfo(handle, n, &raw mut at, &raw mut bytes)
            }
        };
        match asked {
            Ok(()) => layout.push([u32::try_from(at).ok()?, u32::try_from(bytes).ok()?]),
            // Past the last parameter.
            Err(CudaError::Refused {
                result: INVALID_VALUE, ..
            }) => break,
            Err(_) if n > 0 => break,
            Err(_) => return None,
        }
    }
    Some(layout)
}

/// Returns the layouts of all functions of a module by name, from its code.
pub(super) fn parse_layouts(kind: CodeKind, code: &[u8]) -> HashMap<String, Layout> {
    match kind {
        CodeKind::Cubin => {
            let kernels = Cubin::parse(code).and_then(|c| c.kernels()).unwrap_or_default();
            let layout = |k: &cuda_code::cubin::Kernel<'_>| {
                let mut all = k.parameters.clone();
                all.sort_unstable_by_key(|p| p.ordinal);
                all.iter().map(|p| [p.offset.into(), p.bytes.into()]).collect()
            };
            kernels.iter().map(|k| (k.name.to_owned(), layout(k))).collect()
        }
        CodeKind::Ptx => {
            let entries = Ptx::parse(code).map(|p| p.entries).unwrap_or_default();
            let layout = |e: &cuda_code::ptx::Entry<'_>| {
                let all = e.parameters.iter();
                let all = all.map(|p| Some([u32::try_from(p.offset).ok()?, u32::try_from(p.bytes).ok()?]));
                all.collect::<Option<Layout>>()
            };
            let all = entries.iter().filter_map(|e| Some((e.name.to_owned(), layout(e)?)));
            all.collect()
        }
        CodeKind::Fatbin | CodeKind::Unknown => HashMap::new(),
    }
}

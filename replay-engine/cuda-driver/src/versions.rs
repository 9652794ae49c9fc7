//! Versions of the driver's functions: programs ask `cuGetProcAddress` for a name and a version of the interface, and get
//! the newest form that this version has.
//!
//! Source of the versions: the names of the function types in `cudaTypedefs.h` of CUDA 13.5.

use std::borrow::Cow;

/// Functions with several forms: the name, and the version of the interface that each form came with, `1000 * major +
/// 10 * minor`. The first form is exported by the name, the second one by the name and `_v2`, and so on.
const FORMS: [(&str, &[i32]); 90] = [
    ("cuArray3DCreate", &[2_000, 3_020]),
    ("cuArray3DGetDescriptor", &[2_000, 3_020]),
    ("cuArrayCreate", &[2_000, 3_020]),
    ("cuArrayGetDescriptor", &[2_000, 3_020]),
    ("cuCtxCreate", &[2_000, 3_020, 11_040, 12_050]),
    ("cuCtxDestroy", &[2_000, 4_000]),
    ("cuCtxGetDevice", &[2_000, 13_000]),
    ("cuCtxPopCurrent", &[2_000, 4_000]),
    ("cuCtxPushCurrent", &[2_000, 4_000]),
    ("cuCtxSynchronize", &[2_000, 13_000]),
    ("cuDeviceGetUuid", &[9_020, 11_040]),
    ("cuDevicePrimaryCtxRelease", &[7_000, 11_000]),
    ("cuDevicePrimaryCtxReset", &[7_000, 11_000]),
    ("cuDevicePrimaryCtxSetFlags", &[7_000, 11_000]),
    ("cuDeviceTotalMem", &[2_000, 3_020]),
    ("cuEventDestroy", &[2_000, 4_000]),
    ("cuEventElapsedTime", &[2_000, 12_080]),
    ("cuGetProcAddress", &[11_030, 12_000]),
    ("cuGraphAddDependencies", &[10_000, 12_030]),
    ("cuGraphAddKernelNode", &[10_000, 12_000]),
    ("cuGraphAddNode", &[12_020, 12_030, 13_040]),
    ("cuGraphExecKernelNodeSetParams", &[10_010, 12_000]),
    ("cuGraphExecUpdate", &[10_020, 12_000]),
    ("cuGraphGetEdges", &[10_000, 12_030]),
    ("cuGraphInstantiate", &[10_000, 11_000]),
    ("cuGraphKernelNodeGetParams", &[10_000, 12_000]),
    ("cuGraphKernelNodeSetParams", &[10_000, 12_000]),
    ("cuGraphNodeGetDependencies", &[10_000, 12_030]),
    ("cuGraphNodeGetDependentNodes", &[10_000, 12_030]),
    ("cuGraphNodeSetParams", &[12_020, 13_040]),
    ("cuGraphRemoveDependencies", &[10_000, 12_030]),
    ("cuGraphicsResourceGetMappedPointer", &[3_000, 3_020]),
    ("cuGraphicsResourceSetMapFlags", &[3_000, 6_050]),
    ("cuIpcOpenMemHandle", &[4_010, 11_000]),
    ("cuLaunchHostFunc", &[10_000, 13_010]),
    ("cuLinkAddData", &[5_050, 6_050]),
    ("cuLinkAddFile", &[5_050, 6_050]),
    ("cuLinkCreate", &[5_050, 6_050]),
    ("cuMemAdvise", &[8_000, 12_020]),
    ("cuMemAlloc", &[2_000, 3_020]),
    ("cuMemAllocHost", &[2_000, 3_020]),
    ("cuMemAllocPitch", &[2_000, 3_020]),
    ("cuMemFree", &[2_000, 3_020]),
    ("cuMemGetAddressRange", &[2_000, 3_020]),
    ("cuMemGetInfo", &[2_000, 3_020]),
    ("cuMemHostGetDevicePointer", &[2_020, 3_020]),
    ("cuMemHostRegister", &[4_000, 6_050]),
    ("cuMemPrefetchAsync", &[8_000, 12_020]),
    ("cuMemcpy2D", &[2_000, 3_020]),
    ("cuMemcpy2DAsync", &[2_000, 3_020]),
    ("cuMemcpy2DUnaligned", &[2_000, 3_020]),
    ("cuMemcpy3D", &[2_000, 3_020]),
    ("cuMemcpy3DAsync", &[2_000, 3_020]),
    ("cuMemcpy3DBatchAsync", &[12_080, 13_000]),
    ("cuMemcpyAtoA", &[2_000, 3_020]),
    ("cuMemcpyAtoD", &[2_000, 3_020]),
    ("cuMemcpyAtoH", &[2_000, 3_020]),
    ("cuMemcpyAtoHAsync", &[2_000, 3_020]),
    ("cuMemcpyBatchAsync", &[12_080, 13_000]),
    ("cuMemcpyDtoA", &[2_000, 3_020]),
    ("cuMemcpyDtoD", &[2_000, 3_020]),
    ("cuMemcpyDtoDAsync", &[3_000, 3_020]),
    ("cuMemcpyDtoH", &[2_000, 3_020]),
    ("cuMemcpyDtoHAsync", &[2_000, 3_020]),
    ("cuMemcpyHtoA", &[2_000, 3_020]),
    ("cuMemcpyHtoAAsync", &[2_000, 3_020]),
    ("cuMemcpyHtoD", &[2_000, 3_020]),
    ("cuMemcpyHtoDAsync", &[2_000, 3_020]),
    ("cuMemsetD16", &[2_000, 3_020]),
    ("cuMemsetD2D16", &[2_000, 3_020]),
    ("cuMemsetD2D32", &[2_000, 3_020]),
    ("cuMemsetD2D8", &[2_000, 3_020]),
    ("cuMemsetD32", &[2_000, 3_020]),
    ("cuMemsetD8", &[2_000, 3_020]),
    ("cuModuleGetGlobal", &[2_000, 3_020]),
    ("cuMulticastBindAddr", &[12_010, 13_010]),
    ("cuMulticastBindMem", &[12_010, 13_010]),
    ("cuStreamBatchMemOp", &[8_000, 11_070]),
    ("cuStreamBeginCapture", &[10_000, 10_010]),
    ("cuStreamDestroy", &[2_000, 4_000]),
    ("cuStreamGetCaptureInfo", &[10_010, 11_030, 12_030]),
    ("cuStreamGetCtx", &[9_020, 12_050]),
    ("cuStreamUpdateCaptureDependencies", &[11_030, 12_030]),
    ("cuStreamWaitValue32", &[8_000, 11_070]),
    ("cuStreamWaitValue64", &[9_000, 11_070]),
    ("cuStreamWriteValue32", &[8_000, 11_070]),
    ("cuStreamWriteValue64", &[9_000, 11_070]),
    ("cuTexRefGetAddress", &[2_000, 3_020]),
    ("cuTexRefSetAddress", &[2_000, 3_020]),
    ("cuTexRefSetAddress2D", &[2_020, 3_020, 4_010]),
];

/// The form of `cuGraphInstantiate` that CUDA 12 means has a name of its own, and stays exported by it.
const INSTANTIATE: (&str, i32, &str) = ("cuGraphInstantiate", 12_000, "cuGraphInstantiateWithFlags");

/// Returns the symbol of a function in a version of the interface. `None` if the name is that of a later form, or the
/// function came later.
#[must_use]
pub fn symbol_in_version(name: &str, version: i32) -> Option<Cow<'_, str>> {
    let (instantiate, since, other) = INSTANTIATE;
    if name == instantiate && version >= since {
        return Some(other.into());
    }
    let Ok(index) = FORMS.binary_search_by_key(&name, |(name, _)| name) else {
        // A function with one form; later forms have no names of their own here.
        return first_form(name).is_none().then_some(name.into());
    };
    let (_, versions) = FORMS.get(index)?;
    match versions.iter().filter(|since| **since <= version).count() {
        0 => None,
        1 => Some(name.into()),
        form => Some(format!("{name}_v{form}").into()),
    }
}

/// Returns the name and a version of the interface under which `cuGetProcAddress` finds a symbol. Functions with one form
/// are asked for in the version `newest`.
#[must_use]
pub fn name_and_version(symbol: &str, newest: i32) -> (&str, i32) {
    let (instantiate, since, other) = INSTANTIATE;
    if symbol == other {
        return (instantiate, since);
    }
    let (name, form) = first_form(symbol).unwrap_or((symbol, 1));
    let versions = FORMS.binary_search_by_key(&name, |(name, _)| name);
    let versions = versions.ok().and_then(|index| FORMS.get(index));
    let since = versions.and_then(|(_, versions)| versions.get(form - 1));
    (name, since.copied().unwrap_or(newest))
}

/// Returns the name of the first form, and the number of the form, of the symbol of a later form.
fn first_form(symbol: &str) -> Option<(&str, usize)> {
    ["_v2", "_v3", "_v4"]
        .iter()
        .zip(2..)
        .find_map(|(end, form)| Some((symbol.strip_suffix(end)?, form)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_in_order() {
        assert!(FORMS.is_sorted_by(|a, b| a.0 < b.0));
        for (name, versions) in FORMS {
            assert!(versions.len() > 1 && versions.is_sorted_by(|a, b| a < b), "{name}");
        }
    }

    #[test]
    fn version_decides_which_form_a_name_means() {
        for (name, version, symbol) in [
            ("cuMemAlloc", 13_000, Some("cuMemAlloc_v2")),
            ("cuMemAlloc", 3_000, Some("cuMemAlloc")),
            ("cuMemAlloc_v2", 13_000, None),
            ("cuLaunchKernel", 13_000, Some("cuLaunchKernel")),
            ("cuCtxCreate", 12_040, Some("cuCtxCreate_v3")),
            ("cuCtxCreate", 13_000, Some("cuCtxCreate_v4")),
            ("cuCtxSynchronize", 12_090, Some("cuCtxSynchronize")),
            ("cuCtxSynchronize", 13_000, Some("cuCtxSynchronize_v2")),
            ("cuGetProcAddress", 11_000, None),
            ("cuGraphInstantiate", 11_000, Some("cuGraphInstantiate_v2")),
            ("cuGraphInstantiate", 12_000, Some("cuGraphInstantiateWithFlags")),
        ] {
            assert_eq!(symbol_in_version(name, version).as_deref(), symbol, "{name} {version}");
        }
    }

    #[test]
    fn each_symbol_is_found_by_its_name_and_version() {
        let mut symbols: Vec<String> = vec!["cuLaunchKernel".to_owned(), "cuGraphInstantiateWithFlags".to_owned()];
        for (name, versions) in FORMS {
            symbols.push(name.to_owned());
            symbols.extend((2..=versions.len()).map(|form| format!("{name}_v{form}")));
        }
        for symbol in symbols {
            let (name, version) = name_and_version(&symbol, 13_000);
            assert_eq!(symbol_in_version(name, version).as_deref(), Some(symbol.as_str()));
        }
    }
}

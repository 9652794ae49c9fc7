//! The code of an API trace in the GPU's memory: cubins of the launched kernels, placed and relocated.

use super::area::Area;
use cuda_code::cubin::Cubin;
use cuda_code::cubin::load::{LoadedImage, LoadedKernel, SegmentKind};
use cuda_code::{Capability, Form, Image};
use std::collections::BTreeMap;
use trace_core::GpuVa;
use trace_core::recording::{ApiTraceMetadata, Recording};

/// Compute capability of the GPUs whose launches can be built.
const CAPABILITY: Capability = Capability::new(9, 0);

/// The loaded modules of a recording.
#[derive(Debug, Default)]
pub(super) struct Code {
    /// By module number.
    images: BTreeMap<u32, LoadedImage>,
    /// Variables: recorded address, bytes, address in the replay.
    moved: Vec<(u64, u64, u64)>,
}

impl Code {
    /// Loads the modules of these functions. The images get their memory from `area`.
    pub fn load(
        recording: &Recording,
        metadata: &ApiTraceMetadata,
        functions: impl Iterator<Item = u32>,
        area: &mut Area,
    ) -> Result<Self, String> {
        let mut code = Self::default();
        for number in functions {
            let function = metadata.functions.get(number as usize);
            let function = function.ok_or_else(|| format!("function {number} is not in the recording's list"))?;
            let name = function.display_name();
            let module = function
                .module
                .ok_or_else(|| format!("the module of {name} is unknown"))?;
            if !code.images.contains_key(&module) {
                let image =
                    load_module(recording, metadata, module, area).map_err(|e| format!("the module of {name}: {e}"))?;
                code.note_variables(metadata, module, &image);
                code.images.insert(module, image);
            }
            code.kernel(metadata, number)?;
        }
        Ok(code)
    }

    fn note_variables(&mut self, metadata: &ApiTraceMetadata, module: u32, image: &LoadedImage) {
        let globals = metadata.modules.get(module as usize).map_or(&[][..], |m| &m.globals);
        for global in globals {
            if let Some(variable) = image.variables.iter().find(|v| v.name == global.name) {
                self.moved.push((global.at.get(), global.bytes, variable.address.0));
            }
        }
    }

    /// Returns what a launch of a function needs.
    pub fn kernel(&self, metadata: &ApiTraceMetadata, function: u32) -> Result<&LoadedKernel, String> {
        let named = metadata.functions.get(function as usize);
        let named = named.ok_or_else(|| format!("function {function} is not in the recording's list"))?;
        let image = named.module.and_then(|m| self.images.get(&m));
        let image = image.ok_or_else(|| format!("the module of {} is not loaded", named.display_name()))?;
        image.find_kernel(&named.name).map_err(|e| e.to_string())
    }

    /// Returns the segments of all modules.
    pub fn segments(&self) -> impl Iterator<Item = (GpuVa, &[u8])> {
        let all = self.images.values().flat_map(|image| &image.segments);
        all.filter(|s| s.kind != SegmentKind::Zero)
            .map(|s| (GpuVa::new(s.address.0), s.content.as_slice()))
    }

    /// Returns the address in the replay of a recorded address: that of a variable moves with its module.
    pub fn moved(&self, va: u64) -> GpuVa {
        let found = self
            .moved
            .iter()
            .find(|(was, bytes, _)| va >= *was && va - was < *bytes);
        GpuVa::new(found.map_or(va, |(was, _, is)| is.saturating_add(va - was)))
    }

    /// Returns the largest stack of a launched kernel, bytes.
    pub fn max_stack_bytes(&self, metadata: &ApiTraceMetadata, functions: impl Iterator<Item = u32>) -> u64 {
        let stacks = functions.filter_map(|f| Some(self.kernel(metadata, f).ok()?.description.stack_bytes));
        stacks.max().unwrap_or(0)
    }
}

fn load_module(
    recording: &Recording,
    metadata: &ApiTraceMetadata,
    number: u32,
    area: &mut Area,
) -> Result<LoadedImage, String> {
    let module = metadata.modules.get(number as usize);
    let module = module.ok_or("it is not in the recording's list")?;
    if !module.missing.is_empty() {
        return Err(format!("its code is not in the recording: {}", module.missing));
    }
    let bytes = recording
        .module_code(module)
        .ok_or("its code is incomplete in the recording")?;
    let selected = Image::detect(&bytes).code(CAPABILITY).map_err(|e| e.to_string())?;
    if selected.form == Form::Ptx {
        return Err("it holds only PTX for this GPU, and only NVIDIA's driver compiles PTX".to_owned());
    }
    let cubin = Cubin::parse(&selected.code).map_err(|e| e.to_string())?;
    let mut allocate = |request: &cuda_code::cubin::load::SegmentRequest<'_>| {
        let va = area.allocate(request.bytes, request.alignment)?;
        Some(nvidia_channel::GpuVa(va.get()))
    };
    cubin.load(&mut allocate).map_err(|e| e.to_string())
}

//! The loaded functions of a recording: modules, each loaded once, and the current addresses of their variables.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::contents::Contents;
use super::error::CudaReplayError;
use cuda_driver::{CuFunction, CuModule, Driver};
use std::collections::BTreeSet;
use std::ffi::CString;
use trace_core::GpuVa;
use trace_core::recording::{ApiTraceMetadata, CodeKind};

/// A variable of a module: its recorded address, its length and its current address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MovedVariable {
    pub was: GpuVa,
    pub bytes: u64,
    pub is: GpuVa,
}

/// The code of a recording.
#[derive(Debug)]
pub(super) struct Code {
    driver: Driver,
    modules: Vec<Option<CuModule>>,
    /// Function handles, by function number.
    functions: Vec<Option<CuFunction>>,
    /// Variables, and memory shared by host and device, by recorded address.
    pub moved: Vec<MovedVariable>,
    /// Recorded addresses of entries of `moved` that are memory and not variables.
    memory: Vec<GpuVa>,
}

impl Code {
    /// Loads the modules of the requested functions, and the modules whose variables are accessed in other ways.
    pub fn load(
        driver: Driver,
        contents: &(impl Contents + ?Sized),
        metadata: &ApiTraceMetadata,
        wanted: &BTreeSet<u32>,
        touched: &BTreeSet<usize>,
    ) -> Result<Self, CudaReplayError> {
        let mut code = Self {
            driver,
            modules: vec![None; metadata.modules.len()],
            functions: vec![None; metadata.functions.len()],
            moved: Vec::new(),
            memory: Vec::new(),
        };
        for n in wanted {
            code.function(contents, metadata, *n as usize)?;
        }
        for number in touched {
            let wrong = |why: String| CudaReplayError::Code {
                function: metadata
                    .modules
                    .get(*number)
                    .map_or_else(String::new, |m| m.origin.clone()),
                why,
            };
            code.module(contents, metadata, *number, &wrong)?;
        }
        // Variables may be written by copies before any function of their module runs.
        for module in 0..metadata.modules.len() {
            if code.modules.get(module).is_some_and(Option::is_some) {
                code.globals(metadata, module);
            }
        }
        code.moved.sort_unstable_by_key(|m| m.was);
        Ok(code)
    }

    fn function(
        &mut self,
        contents: &(impl Contents + ?Sized),
        metadata: &ApiTraceMetadata,
        n: usize,
    ) -> Result<(), CudaReplayError> {
        let Some(function) = metadata.functions.get(n) else {
            return Ok(());
        };
        let wrong = |why: String| CudaReplayError::Code {
            function: function.display_name().to_owned(),
            why,
        };
        let number = function
            .module
            .ok_or_else(|| wrong("the recording does not name its module".to_owned()))? as usize;
        let module = self.module(contents, metadata, number, &wrong)?;
        let name = CString::new(function.name.as_bytes()).map_err(|e| wrong(e.to_string()))?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: a loaded module, a C string, and a valid output pointer.
        unsafe { self.driver.cuModuleGetFunction(&raw mut handle, module, name.as_ptr()) }
            .map_err(|e| wrong(format!("its module has no such function: {e}")))?;
        for [attribute, value] in &function.attributes {
            // SAFETY: a loaded function. An attribute that this device does not support is reported at the launch.
            let _ = unsafe { self.driver.cuFuncSetAttribute(handle, *attribute, *value) };
        }
        if let Some(slot) = self.functions.get_mut(n) {
            *slot = Some(handle);
        }
        Ok(())
    }

    /// Returns the module of this number. Loads it at the first call.
    fn module(
        &mut self,
        contents: &(impl Contents + ?Sized),
        metadata: &ApiTraceMetadata,
        number: usize,
        wrong: &dyn Fn(String) -> CudaReplayError,
    ) -> Result<CuModule, CudaReplayError> {
        if let Some(module) = self.modules.get(number).copied().flatten() {
            return Ok(module);
        }
        let call_module = metadata.modules.get(number);
        let report = call_module.ok_or_else(|| wrong("its module is not in the recording's list".to_owned()))?;
        if !report.missing.is_empty() {
            return Err(wrong(format!("its code is not in the recording: {}", report.missing)));
        }
        let bytes = contents.code(report);
        let mut bytes = bytes.ok_or_else(|| wrong("its code is incomplete in the recording".to_owned()))?;
        if report.kind == CodeKind::Ptx && bytes.last() != Some(&0) {
            bytes.push(0);
        }
        let mut module = std::ptr::null_mut();
        // SAFETY: the driver checks the code; it is zero-terminated; the output pointer is valid.
        unsafe { self.driver.cuModuleLoadData(&raw mut module, bytes.as_ptr().cast()) }
            .map_err(|e| wrong(format!("its code does not load on this device: {e}")))?;
        if let Some(slot) = self.modules.get_mut(number) {
            *slot = Some(module);
        }
        Ok(module)
    }

    /// Adds memory whose address differs from the recorded one.
    pub fn add_moved(&mut self, memory: &[MovedVariable]) {
        self.memory.extend(memory.iter().map(|m| m.was));
        self.moved.extend_from_slice(memory);
        self.moved.sort_unstable_by_key(|m| m.was);
    }

    /// Returns the variables of modules, by recorded address.
    pub fn variables(&self) -> impl Iterator<Item = &MovedVariable> {
        self.moved.iter().filter(|m| !self.memory.contains(&m.was))
    }

    fn globals(&mut self, metadata: &ApiTraceMetadata, module: usize) {
        let (Some(call_module), Some(Some(handle))) = (metadata.modules.get(module), self.modules.get(module)) else {
            return;
        };
        for global in &call_module.globals {
            let Ok(name) = CString::new(global.name.as_bytes()) else {
                continue;
            };
            let (mut at, mut bytes) = (0, 0);
            // SAFETY: a loaded module, a C string, and valid output pointers.
            let found = unsafe {
                self.driver
                    .cuModuleGetGlobal_v2(&raw mut at, &raw mut bytes, *handle, name.as_ptr())
            };
            if found.is_ok() && bytes as u64 == global.bytes {
                self.moved.push(MovedVariable {
                    was: global.at,
                    bytes: global.bytes,
                    is: GpuVa::new(at),
                });
            }
        }
    }

    /// Returns the function of this number, if it is loaded.
    pub fn get(&self, n: u32) -> Option<CuFunction> {
        self.functions.get(n as usize).copied().flatten()
    }

    /// Returns the current address for a recorded address. Only addresses of variables change.
    pub fn moved_to(&self, at: GpuVa) -> GpuVa {
        let n = self.moved.partition_point(|m| m.was <= at);
        match n.checked_sub(1).and_then(|n| self.moved.get(n)) {
            Some(m) if at - m.was < m.bytes => m.is.wrapping_add(at - m.was),
            _ => at,
        }
    }

    /// Relocates addresses of variables in arguments: 8-byte words at multiples of eight.
    pub fn move_arguments(&self, arguments: &mut [u8]) {
        if self.moved.is_empty() {
            return;
        }
        for word in arguments.as_chunks_mut::<8>().0 {
            let to = self.moved_to(GpuVa::new(u64::from_le_bytes(*word)));
            *word = to.get().to_le_bytes();
        }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        for module in self.modules.iter().flatten() {
            // SAFETY: loaded by this value, and no device work is pending.
            let _ = unsafe { self.driver.cuModuleUnload(*module) };
        }
    }
}

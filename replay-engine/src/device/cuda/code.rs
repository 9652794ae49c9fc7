//! Functions of a recording, loaded: modules once each, and where their variables lie now.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::contents::Contents;
use super::error::CudaReplayError;
use cuda_driver::{CuFunction, CuModule, Driver};
use std::collections::BTreeSet;
use std::ffi::CString;
use trace_core::recording::{CallFacts, CodeKind};

/// A variable of a module: where it lay, how long it is, where it lies now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MovedVariable {
    pub was: u64,
    pub bytes: u64,
    pub is: u64,
}

/// The code of a recording.
#[derive(Debug)]
pub(super) struct Code {
    driver: Driver,
    modules: Vec<Option<CuModule>>,
    /// By the function's number.
    functions: Vec<Option<CuFunction>>,
    /// Variables, and memory that host and device shared, by where they lay.
    pub moved: Vec<MovedVariable>,
    /// Memory of these that is no variable, by where it lay.
    memory: Vec<u64>,
}

impl Code {
    /// Loads the modules of the functions that are wanted, and those whose variables are touched by other means.
    pub fn load(
        driver: Driver,
        contents: &(impl Contents + ?Sized),
        facts: &CallFacts,
        wanted: &BTreeSet<u32>,
        touched: &BTreeSet<usize>,
    ) -> Result<Self, CudaReplayError> {
        let mut code = Self {
            driver,
            modules: vec![None; facts.modules.len()],
            functions: vec![None; facts.functions.len()],
            moved: Vec::new(),
            memory: Vec::new(),
        };
        for n in wanted {
            code.function(contents, facts, *n as usize)?;
        }
        for number in touched {
            let wrong = |why: String| CudaReplayError::Code {
                function: facts
                    .modules
                    .get(*number)
                    .map_or_else(String::new, |m| m.origin.clone()),
                why,
            };
            code.module(contents, facts, *number, &wrong)?;
        }
        // Variables may be copied to before any function of their module runs.
        for module in 0..facts.modules.len() {
            if code.modules.get(module).is_some_and(Option::is_some) {
                code.globals(facts, module);
            }
        }
        code.moved.sort_unstable_by_key(|m| m.was);
        Ok(code)
    }

    fn function(
        &mut self,
        contents: &(impl Contents + ?Sized),
        facts: &CallFacts,
        n: usize,
    ) -> Result<(), CudaReplayError> {
        let Some(function) = facts.functions.get(n) else {
            return Ok(());
        };
        let wrong = |why: String| CudaReplayError::Code {
            function: function.display_name().to_owned(),
            why,
        };
        let number = function
            .module
            .ok_or_else(|| wrong("the recording does not tell its module".to_owned()))? as usize;
        let module = self.module(contents, facts, number, &wrong)?;
        let name = CString::new(function.name.as_bytes()).map_err(|e| wrong(e.to_string()))?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: a module that is loaded, a text, and a place for the answer.
        unsafe { self.driver.cuModuleGetFunction(&raw mut handle, module, name.as_ptr()) }
            .map_err(|e| wrong(format!("its module has no such function: {e}")))?;
        for [attribute, value] in &function.attributes {
            // SAFETY: a function that is loaded. What this device does not know of attributes it says at the launch.
            let _ = unsafe { self.driver.cuFuncSetAttribute(handle, *attribute, *value) };
        }
        if let Some(slot) = self.functions.get_mut(n) {
            *slot = Some(handle);
        }
        Ok(())
    }

    /// The module of this number, loaded when it is first asked for.
    fn module(
        &mut self,
        contents: &(impl Contents + ?Sized),
        facts: &CallFacts,
        number: usize,
        wrong: &dyn Fn(String) -> CudaReplayError,
    ) -> Result<CuModule, CudaReplayError> {
        if let Some(module) = self.modules.get(number).copied().flatten() {
            return Ok(module);
        }
        let call_module = facts.modules.get(number);
        let report = call_module.ok_or_else(|| wrong("its module is not in the recording's list".to_owned()))?;
        if !report.missing.is_empty() {
            return Err(wrong(format!("its code is not in the recording: {}", report.missing)));
        }
        let bytes = contents.code(report);
        let mut bytes = bytes.ok_or_else(|| wrong("its code is not whole in the recording".to_owned()))?;
        if report.kind == CodeKind::Ptx && bytes.last() != Some(&0) {
            bytes.push(0);
        }
        let mut module = std::ptr::null_mut();
        // SAFETY: code that the driver checks, a text with a zero behind it, and a place for the answer.
        unsafe { self.driver.cuModuleLoadData(&raw mut module, bytes.as_ptr().cast()) }
            .map_err(|e| wrong(format!("its code does not load on this device: {e}")))?;
        if let Some(slot) = self.modules.get_mut(number) {
            *slot = Some(module);
        }
        Ok(module)
    }

    /// Takes up memory that lies elsewhere than in the recording.
    pub fn add_moved(&mut self, memory: &[MovedVariable]) {
        self.memory.extend(memory.iter().map(|m| m.was));
        self.moved.extend_from_slice(memory);
        self.moved.sort_unstable_by_key(|m| m.was);
    }

    /// Variables of modules, by where they lay.
    pub fn variables(&self) -> impl Iterator<Item = &MovedVariable> {
        self.moved.iter().filter(|m| !self.memory.contains(&m.was))
    }

    fn globals(&mut self, facts: &CallFacts, module: usize) {
        let (Some(call_module), Some(Some(handle))) = (facts.modules.get(module), self.modules.get(module)) else {
            return;
        };
        for global in &call_module.globals {
            let Ok(name) = CString::new(global.name.as_bytes()) else {
                continue;
            };
            let (mut at, mut bytes) = (0, 0);
            // SAFETY: a module that is loaded, a text, and places for the answers.
            let found = unsafe {
                self.driver
                    .cuModuleGetGlobal_v2(&raw mut at, &raw mut bytes, *handle, name.as_ptr())
            };
            if found.is_ok() && bytes as u64 == global.bytes {
                self.moved.push(MovedVariable {
                    was: global.at,
                    bytes: global.bytes,
                    is: at,
                });
            }
        }
    }

    /// The function of this number, where it is loaded.
    pub fn get(&self, n: u32) -> Option<CuFunction> {
        self.functions.get(n as usize).copied().flatten()
    }

    /// Where an address lies now: those of variables move, all others stay.
    pub fn moved_to(&self, at: u64) -> u64 {
        let n = self.moved.partition_point(|m| m.was <= at);
        match n.checked_sub(1).and_then(|n| self.moved.get(n)) {
            Some(m) if at - m.was < m.bytes => m.is.wrapping_add(at - m.was),
            _ => at,
        }
    }

    /// Moves addresses of variables in arguments: words at multiples of eight bytes.
    pub fn move_arguments(&self, arguments: &mut [u8]) {
        if self.moved.is_empty() {
            return;
        }
        for word in arguments.as_chunks_mut::<8>().0 {
            let to = self.moved_to(u64::from_le_bytes(*word));
            *word = to.to_le_bytes();
        }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        for module in self.modules.iter().flatten() {
            // SAFETY: loaded by this value, and nothing runs any more.
            let _ = unsafe { self.driver.cuModuleUnload(*module) };
        }
    }
}

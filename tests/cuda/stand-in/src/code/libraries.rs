//! Libraries: code that belongs to no context, and becomes a module of a context on its first use there.

use crate::code::functions::{FUNCTIONS, Function};
use crate::code::modules::{self, Module};
use crate::code::{Entry, Text};
use crate::codes::NOT_FOUND;
use crate::context::Context;
use crate::handles::{Handles, pointer};
use crate::{Answer, lock};
use cuda_driver::{CuFunction, CuKernel};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex};

/// A library.
pub struct Library {
    pub handle: usize,
    text: Text,
    /// Modules by their context.
    modules: Mutex<BTreeMap<usize, Arc<Module>>>,
    /// Kernels by name.
    pub kernels: BTreeMap<String, Arc<Kernel>>,
}

/// A kernel of a library.
pub struct Kernel {
    pub handle: usize,
    /// Handle of its library.
    pub library: usize,
    pub name: CString,
    pub entry: Entry,
}

pub static LIBRARIES: Handles<Library> = Handles::new(10);
pub static KERNELS: Handles<Kernel> = Handles::new(11);

impl Library {
    /// Creates the library of a text, with its kernels.
    pub fn load(text: Text) -> Arc<Self> {
        LIBRARIES.put(|handle| {
            let kernels = text.entries.iter().map(|entry| {
                let kernel = KERNELS.put(|own| Kernel {
                    handle: own,
                    library: handle,
                    name: CString::new(entry.name.as_str()).unwrap_or_default(),
                    entry: entry.clone(),
                });
                (entry.name.clone(), kernel)
            });
            Self {
                handle,
                kernels: kernels.collect(),
                modules: Mutex::default(),
                text,
            }
        })
    }

    /// Unloads its modules and kernels.
    pub fn end(&self) -> Answer {
        for kernel in self.kernels.values() {
            KERNELS.take(pointer(kernel.handle))?;
        }
        for module in std::mem::take(&mut *lock(&self.modules)).values() {
            module.end();
        }
        Ok(())
    }

    /// Returns its module in a context. A load is not allowed during graph capture.
    pub fn module(&self, context: &Context) -> Answer<Arc<Module>> {
        let mut modules = lock(&self.modules);
        if let Some(module) = modules.get(&context.handle) {
            return Ok(Arc::clone(module));
        }
        let module = Module::load(context, &self.text)?;
        modules.insert(context.handle, Arc::clone(&module));
        Ok(module)
    }
}

/// Returns the function of a kernel in a context, or `None` if the handle is not a kernel's.
pub fn function_of(context: &Context, kernel: CuKernel) -> Option<Answer<Arc<Function>>> {
    let kernel = KERNELS.get(kernel).ok()?;
    let module = LIBRARIES
        .get(pointer(kernel.library))
        .and_then(|library| library.module(context));
    let name = kernel.name.to_string_lossy().into_owned();
    Some(module.and_then(|m| m.functions.get(&name).cloned().ok_or(NOT_FOUND)))
}

/// Returns the function of a launch, by its own handle or by that of a kernel.
pub fn find_function(context: &Context, handle: CuFunction) -> Answer<Arc<Function>> {
    match function_of(context, handle) {
        Some(function) => function,
        None => FUNCTIONS.get(handle),
    }
}

/// Unloads all modules of a context that is destroyed. A later context can have the same handle.
pub fn forget(context: usize) {
    for library in LIBRARIES.all() {
        lock(&library.modules).remove(&context);
    }
    modules::forget(context);
}

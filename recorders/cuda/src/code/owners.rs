//! Owners of functions that the program did not look up by name: the driver's answer, or else a match by name.

use super::{Code, NamedFunction};
use crate::contexts::current_context_and_device;
use crate::driver::{driver, text};
use crate::trace::Trace;
use cuda_driver::{CuFunction, CuModule};
use libc::c_void;

/// A library's module in a context.
#[derive(Clone, Copy, Debug)]
pub(super) struct LibraryModule {
    pub library: usize,
    pub context: usize,
}

impl Code {
    /// Adds a module as a library's module in the thread's context.
    pub fn add_library_module(&mut self, module: usize, library: usize) {
        if !self.loaded.contains_key(&module) {
            let context = current_context_and_device().map_or(0, |(context, _)| context);
            self.modules.insert(module, LibraryModule { library, context });
        }
    }

    /// Returns the code that a handle stands for: the library if the handle is its module in a context.
    pub(super) fn origin(&self, owner: usize) -> usize {
        match self.modules.get(&owner) {
            Some(module) if !self.loaded.contains_key(&owner) => module.library,
            _ => owner,
        }
    }

    /// Queries the driver about a handle that was not looked up by name.
    pub(super) fn find_function(&mut self, trace: &Trace, handle: CuFunction, captured: bool) -> NamedFunction {
        let d = driver();
        let mut name = std::ptr::null();
        // SAFETY: the driver returns an error for a handle that is not its own.
        let (mut result, mut kernel) = (unsafe { d.cuFuncGetName(&raw mut name, handle) }, false);
        if result.is_err() {
            // SAFETY: as above.
            result = unsafe { d.cuKernelGetName(&raw mut name, handle) };
            kernel = result.is_ok();
        }
        let name = if result.is_ok() { text(name) } else { String::new() };
        let owner = if kernel {
            let mut library = std::ptr::null_mut();
            // SAFETY: as above, with a valid pointer for the answer.
            let result = unsafe { d.cuKernelGetLibrary(&raw mut library, handle) };
            result
                .ok()
                .map(|()| library as usize)
                .filter(|l| self.loaded.contains_key(l))
        } else {
            self.module_or_library(handle, &name, captured)
        };
        let owner = owner.or_else(|| self.find_owner_by_name(trace, &name)).unwrap_or(0);
        NamedFunction { name, owner, kernel }
    }

    /// Returns the module of a function, or the module's library.
    fn module_or_library(&mut self, handle: CuFunction, name: &str, captured: bool) -> Option<usize> {
        let d = driver();
        let mut module: CuModule = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the answer; the driver returns an error for a handle that is not its own.
        let is_reported = unsafe { d.cuFuncGetModule(&raw mut module, handle) }.is_ok();
        let origin = self.origin(module as usize);
        if is_reported && self.loaded.contains_key(&origin) {
            return Some(origin);
        }
        // A kernel's function has a handle of its own, for example in graph nodes. The query can load the kernel's
        // module, which must not happen during graph capture.
        if captured {
            return None;
        }
        let kernels = self.named.iter().filter(|(_, n)| n.kernel && n.name == name);
        let mut kernels: Vec<(usize, usize)> = kernels.map(|(kernel, n)| (*kernel, n.owner)).collect();
        kernels.sort_unstable();
        let owner = kernels.into_iter().find_map(|(kernel, owner)| {
            let mut function = std::ptr::null_mut();
            // SAFETY: the program looked the kernel up, and the pointer is valid for the answer.
            let result = unsafe { d.cuKernelGetFunction(&raw mut function, kernel as *mut c_void) };
            (result.is_ok() && function == handle).then_some(owner)
        });
        if let (true, Some(library)) = (is_reported, owner) {
            self.add_library_module(module as usize, library);
        }
        owner
    }

    /// Returns the code in which the program looked up a function of this name; the code loaded first if there are
    /// several.
    fn find_owner_by_name(&self, trace: &Trace, name: &str) -> Option<usize> {
        let same = self.named.values().filter(|n| n.name == name && !name.is_empty());
        let owners = same.filter_map(|n| Some((self.loaded.get(&n.owner)?.place, n.owner)));
        let mut owners: Vec<(u64, usize)> = owners.collect();
        owners.sort_unstable();
        owners.dedup();
        if owners.len() > 1 {
            trace.note_not_recorded(
                "functions",
                format!(
                    "{name} is a function of several modules, and the driver does not report which one was launched: \
                     a replay uses the module that was loaded first"
                ),
            );
        }
        owners.first().map(|(_, owner)| *owner)
    }
}

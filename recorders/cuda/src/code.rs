//! Code of the program: its modules and libraries, and their functions. Code is stored when a function of it is first
//! used, and of a container only what the device runs.

mod owners;
mod parameters;

use crate::contexts::current_context_and_device;
use crate::driver::driver;
use crate::images::{ImageSource, extract_code};
use crate::kernels::SelectedKernels;
use crate::trace::Trace;
use cuda_code::{Capability, cubin::Cubin, names::demangle, ptx::Ptx};
use cuda_driver::{
    CuDevice, CuFunction, FUNCTION_LOCAL, FUNCTION_MAX_THREADS, FUNCTION_REGISTERS, FUNCTION_SHARED, POINTER_MANAGED,
};
use libc::c_void;
use std::collections::HashMap;
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::recording::{CallFunction, CallGlobal, CallModule, CodeKind};

/// Properties of a launched function.
#[derive(Clone, Debug)]
pub(crate) struct FunctionInfo {
    /// Number of the function in the recording.
    pub number: u32,
    /// Offset and size of each parameter; `None` if unknown.
    pub layout: Option<Arc<Vec<[u32; 2]>>>,
    /// Size of its parameter buffer, bytes.
    pub bytes: u32,
    /// Launches of the function are recorded one by one.
    pub is_selected: bool,
    /// The function exchanges memory with other devices or processes: a kernel of NCCL.
    pub collective: bool,
}

#[derive(Debug)]
struct LoadedCode {
    /// Number of modules loaded before it.
    place: u64,
    library: bool,
    source: ImageSource,
    origin: String,
    /// Number of the module in the recording, once one of its functions was used or one of its variables was requested.
    number: Option<u32>,
    /// The code is in the recording, or the reason why not: one of its functions was used.
    stored: bool,
    /// Names of variables whose addresses were not yet requested.
    variables: Vec<String>,
    /// Parameters of its functions by name, if the driver does not report them.
    parameters: HashMap<String, parameters::Layout>,
    /// Variables that the program requested, until they are recorded.
    globals: Vec<CallGlobal>,
    /// Locations of variables: first address and size in bytes.
    places: Vec<(GpuVa, u64)>,
    /// The context that it was loaded in, if it belongs to one.
    context: usize,
}

/// A kernel or a function by its handle.
#[derive(Debug)]
struct NamedFunction {
    name: String,
    owner: usize,
    kernel: bool,
}

/// Code that the program has loaded.
#[derive(Debug, Default)]
pub(crate) struct Code {
    loaded: HashMap<usize, LoadedCode>,
    /// Number of modules loaded so far.
    count: u64,
    /// Modules of libraries in contexts.
    modules: HashMap<usize, owners::LibraryModule>,
    /// Parameters have to be read from the code: the driver does not report them.
    reads_parameters: bool,
    named: HashMap<usize, NamedFunction>,
    known: HashMap<usize, FunctionInfo>,
    /// Variables whose addresses became known and were not yet taken.
    fresh: Vec<(GpuVa, u64)>,
}

/// Why the code of a module is missing in the recording if only its variables were requested.
const UNUSED: &str = "no function of it is launched";

impl LoadedCode {
    /// Returns the module's number in the recording, and assigns one if it has none.
    fn assign_number(&mut self, trace: &Trace) -> u32 {
        if let Some(number) = self.number {
            return number;
        }
        let mut tables = trace.session.tables();
        let number = u32::try_from(tables.metadata.modules.len()).unwrap_or(u32::MAX);
        tables.metadata.modules.push(CallModule {
            origin: self.origin.clone(),
            missing: UNUSED.to_owned(),
            ..Default::default()
        });
        tables.mark_changed();
        self.number = Some(number);
        number
    }

    /// Adds the known variables to the module's entry, if it has one.
    fn record_globals(&mut self, trace: &Trace) {
        let (Some(number), false) = (self.number, self.globals.is_empty()) else {
            return;
        };
        let mut tables = trace.session.tables();
        if let Some(m) = tables.metadata.modules.get_mut(number as usize) {
            for g in self.globals.drain(..) {
                if !self.places.contains(&(g.at, g.bytes)) {
                    self.places.push((g.at, g.bytes));
                }
                if !m.globals.iter().any(|known| known.name == g.name) {
                    m.globals.push(g);
                }
            }
            tables.mark_changed();
        }
    }
}

impl Code {
    /// Adds a module or a library that was loaded.
    pub fn add(&mut self, handle: usize, source: ImageSource, origin: String, library: bool) {
        self.count += 1;
        self.modules.remove(&handle);
        let loaded = LoadedCode {
            place: self.count,
            library,
            source,
            origin,
            number: None,
            stored: false,
            variables: Vec::new(),
            parameters: HashMap::new(),
            globals: Vec::new(),
            places: Vec::new(),
            context: if library {
                0
            } else {
                current_context_and_device().map_or(0, |(context, _)| context)
            },
        };
        self.loaded.insert(handle, loaded);
    }

    /// Forgets a module or a library that was unloaded, with its functions.
    pub fn remove(&mut self, handle: usize) {
        self.loaded.remove(&handle);
        self.modules
            .retain(|module, of| *module != handle && of.library != handle);
        let known = &mut self.known;
        self.named.retain(|function, n| {
            let stays = n.owner != handle;
            if !stays {
                known.remove(function);
            }
            stays
        });
    }

    /// Adds a function or a kernel that the program looked up by name. Returns whether its handle was another one's
    /// before.
    pub fn add_function(&mut self, handle: usize, owner: usize, name: String, kernel: bool) -> bool {
        let owner = self.origin(owner);
        // A handle can be reused for another function.
        let was = self.named.get(&handle);
        let reused = was.is_some_and(|was| was.name != name || was.owner != owner);
        if reused {
            self.known.remove(&handle);
        }
        self.named.insert(handle, NamedFunction { name, owner, kernel });
        reused
    }

    /// Adds the function of a kernel.
    pub fn add_kernel_function(&mut self, handle: usize, kernel: usize) {
        if let Some(n) = self.named.get(&kernel) {
            let named = NamedFunction {
                name: n.name.clone(),
                owner: n.owner,
                kernel: false,
            };
            self.named.insert(handle, named);
        }
    }

    /// Adds a variable whose address the program requested.
    pub fn add_variable(&mut self, trace: &Trace, owner: usize, global: CallGlobal) {
        let owner = self.origin(owner);
        if let Some(loaded) = self.loaded.get_mut(&owner) {
            loaded.globals.push(global);
            // The program can copy to the variable without ever launching a function of the module: a replay has to
            // know the address.
            loaded.assign_number(trace);
            loaded.record_globals(trace);
        }
    }

    /// Returns the variables whose addresses became known since the last call: first addresses and sizes in bytes.
    pub fn take_fresh_variables(&mut self) -> Vec<(GpuVa, u64)> {
        std::mem::take(&mut self.fresh)
    }

    /// Returns whether a query about a function's module is still pending.
    pub fn has_pending_query(&self, handle: CuFunction) -> bool {
        let owner = self
            .named
            .get(&(handle as usize))
            .and_then(|n| self.loaded.get(&n.owner));
        owner.is_some_and(|l| !l.variables.is_empty())
    }

    /// Returns the locations of variables of used code: first address and size in bytes.
    pub fn list_variables(&self) -> Vec<(GpuVa, u64)> {
        let mut all: Vec<(GpuVa, u64)> = self.loaded.values().flat_map(|l| l.places.iter().copied()).collect();
        all.retain(|(_, bytes)| *bytes > 0);
        all.sort_unstable();
        all.dedup_by_key(|(at, _)| *at);
        all
    }

    /// Forgets a destroyed context: its modules, and the addresses of library variables in it.
    pub fn forget_context(&mut self, context: usize) {
        let gone: Vec<usize> = self
            .loaded
            .iter()
            .filter(|(_, l)| !l.library && l.context == context)
            .map(|(handle, _)| *handle)
            .collect();
        self.loaded.retain(|handle, _| !gone.contains(handle));
        self.modules.retain(|_, of| of.context != context);
        self.loaded
            .values_mut()
            .filter(|l| l.library)
            .for_each(|l| l.places.clear());
        let (known, loaded) = (&mut self.known, &self.loaded);
        self.named.retain(|function, n| {
            // The handle of a library's kernel in this context can be reused for something else.
            let of_library = loaded.get(&n.owner).is_some_and(|l| l.library);
            let stays = !gone.contains(&n.owner) && (n.kernel || !of_library);
            if !stays {
                known.remove(function);
            }
            stays
        });
    }

    /// Returns the properties of a function, and queries them if it is new. It counts as used from then on.
    pub fn function(&mut self, trace: &Trace, kernels: Option<&SelectedKernels>, handle: CuFunction) -> FunctionInfo {
        let key = handle as usize;
        let captured = trace.is_capturing();
        if let Some(known) = self.known.get(&key) {
            let known = known.clone();
            if !captured && let Some(owner) = self.named.get(&key).map(|n| n.owner) {
                self.query_variables(trace, owner);
            }
            return known;
        }
        if !self.named.contains_key(&key) {
            let found = self.find_function(trace, handle, captured);
            self.named.insert(key, found);
        }
        let (name, owner, kernel) = match self.named.get(&key) {
            Some(n) => (n.name.clone(), n.owner, n.kernel),
            None => (String::new(), 0, false),
        };
        let report = parameters::query_layout(handle, kernel);
        self.reads_parameters |= report.is_none();
        let module = self.store_used_module(trace, owner, captured);
        let layout = report.or_else(|| self.loaded.get(&owner)?.parameters.get(&name).cloned());
        let attribute = |which| if captured { 0 } else { attribute(handle, kernel, which) };
        let wanted = kernels.is_some_and(|k| k.is_selected(&name));
        let collective = ["ncclDevKernel", "ncclKernel"].iter().any(|word| name.contains(word));
        let function = CallFunction {
            demangled: demangle(&name).unwrap_or_default(),
            name: if name.is_empty() {
                format!("function at {key:#x}")
            } else {
                name
            },
            module,
            parameters: layout.clone().unwrap_or_default(),
            registers: attribute(FUNCTION_REGISTERS),
            shared: attribute(FUNCTION_SHARED),
            local: attribute(FUNCTION_LOCAL),
            most_threads: attribute(FUNCTION_MAX_THREADS),
            ..Default::default()
        };
        if module.is_none() {
            trace.note_not_recorded(
                "functions",
                format!(
                    "the driver does not report the module of {}: its launches cannot be replayed",
                    function.name
                ),
            );
        }
        let number = trace.session.tables().new_function(key, function);
        let all = layout.iter().flatten();
        let bytes = all.map(|[at, bytes]| at.saturating_add(*bytes)).max();
        let known = FunctionInfo {
            number,
            layout: layout.map(Arc::new),
            bytes: bytes.unwrap_or(0),
            is_selected: wanted,
            collective,
        };
        self.known.insert(key, known.clone());
        known
    }

    /// Returns the number of a module that has a used function, and stores its code.
    fn store_used_module(&mut self, trace: &Trace, owner: usize, captured: bool) -> Option<u32> {
        let reads_parameters = self.reads_parameters;
        let loaded = self.loaded.get_mut(&owner)?;
        if !std::mem::replace(&mut loaded.stored, true) {
            let (mut kind, mut missing) = (CodeKind::default(), String::new());
            // The code that runs depends on the device, and nothing may have queried it yet.
            trace.record_device();
            let capability = trace.session.tables().metadata.device.capability;
            let code = extract_code(&loaded.source, Capability::new(capability[0], capability[1]));
            let mut bytes = None;
            match code {
                Ok((form, code)) => {
                    kind = form;
                    loaded.variables = variables(kind, &code);
                    if reads_parameters {
                        loaded.parameters = parameters::parse_layouts(kind, &code);
                    }
                    bytes = Some(code);
                }
                Err(why) => {
                    trace.note_not_recorded(
                        &loaded.origin,
                        format!("code that the program loaded is not in the recording: {why}"),
                    );
                    missing = why;
                }
            }
            let number = loaded.assign_number(trace);
            {
                let mut tables = trace.session.tables();
                if let Some(module) = tables.metadata.modules.get_mut(number as usize) {
                    (module.kind, module.missing) = (kind, missing);
                }
                tables.mark_changed();
            }
            if let Some(bytes) = bytes {
                trace.session.store_code(number, bytes);
            }
            // The copy is stored now and not needed any more.
            if let ImageSource::Copied(_) = loaded.source {
                loaded.source = ImageSource::Missing("it is stored already".to_owned());
            }
        }
        let number = loaded.number;
        if !captured {
            self.query_variables(trace, owner);
        }
        number
    }

    /// Queries the addresses of a module's variables. It does nothing during graph capture: the query can load the
    /// module.
    fn query_variables(&mut self, trace: &Trace, owner: usize) {
        let Some(loaded) = self.loaded.get_mut(&owner) else {
            return;
        };
        loaded.record_globals(trace);
        if loaded.number.is_none() || loaded.variables.is_empty() {
            return;
        }
        let d = driver();
        for name in std::mem::take(&mut loaded.variables) {
            let mut text = name.clone().into_bytes();
            text.push(0);
            let (mut at, mut bytes) = (0, 0);
            let owner = owner as *mut c_void;
            // SAFETY: the handle is the driver's and was not released, and the string ends in a zero.
            let found = unsafe {
                if loaded.library {
                    d.cuLibraryGetGlobal(&raw mut at, &raw mut bytes, owner, text.as_ptr().cast())
                } else {
                    d.cuModuleGetGlobal_v2(&raw mut at, &raw mut bytes, owner, text.as_ptr().cast())
                }
            };
            if found.is_ok() {
                let mut managed = 0u32;
                // SAFETY: the driver has just returned the address, and the pointer is valid for four bytes of answer.
                let asked = unsafe { d.cuPointerGetAttribute((&raw mut managed).cast(), POINTER_MANAGED, at) };
                if asked.is_ok() && managed != 0 {
                    trace.note_not_recorded(
                        "managed memory",
                        format!(
                            "host and device share the variable {name}: the recorder does not see what the host \
                             writes there"
                        ),
                    );
                }
                let (at, bytes) = (GpuVa::new(at), bytes as u64);
                if !loaded.places.contains(&(at, bytes)) {
                    loaded.places.push((at, bytes));
                    self.fresh.push((at, bytes));
                }
                loaded.globals.push(CallGlobal { name, at, bytes });
            }
        }
        loaded.record_globals(trace);
    }
}

fn attribute(handle: CuFunction, kernel: bool, which: i32) -> u32 {
    let d = driver();
    let (mut value, mut device): (i32, CuDevice) = (0, 0);
    // SAFETY: the queries have valid pointers for the answers.
    let asked = unsafe {
        if kernel {
            d.cuCtxGetDevice(&raw mut device)
                .and_then(|()| d.cuKernelGetAttribute(&raw mut value, which, handle, device))
        } else {
            d.cuFuncGetAttribute(&raw mut value, which, handle)
        }
    };
    asked.map_or(0, |()| u32::try_from(value).unwrap_or(0))
}

/// Returns the names of a module's variables.
fn variables(kind: CodeKind, code: &[u8]) -> Vec<String> {
    let of_cubin = || {
        let all = Cubin::parse(code).and_then(|c| c.variables().map(|v| v.iter().map(|v| v.name.to_owned()).collect()));
        all.unwrap_or_default()
    };
    match kind {
        CodeKind::Cubin => of_cubin(),
        CodeKind::Ptx => {
            let all = Ptx::parse(code).map(|p| p.variables.iter().map(|v| v.name.to_owned()).collect());
            all.unwrap_or_default()
        }
        CodeKind::Fatbin | CodeKind::Unknown => Vec::new(),
    }
}

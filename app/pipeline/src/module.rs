//! A WebAssembly module as a stage: its interface, checked before it runs, and its run within limits.
//!
//! The module imports nothing. It exports its memory as `memory`, and `allocate`, which takes a number of bytes and
//! returns the address of as many. The function of the stage takes two `i32` for each tensor, address and bytes: those
//! of the inputs, then those of the outputs. It returns nothing, or one `i32` that is 0 if all is well.

mod call;

use crate::document::ModuleLimits;
use crate::tensor::{TensorData, TensorType};
use call::{FuelMeter, MAX_TABLE_ELEMENTS, store_limits};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace_core::progress::Progress;
use wasmi::{CompilationMode, Config, Engine, ExternType, Instance, Memory, Module, Store, StoreLimits, Val, ValType};

/// Maximum size of a module, binary or text, bytes.
pub const MAX_MODULE_BYTES: u64 = 16 << 20;
/// Name of the exported memory.
const MEMORY: &str = "memory";
/// Name of the exported function that reserves memory.
const ALLOCATE: &str = "allocate";
/// Maximum number of nested calls.
const CALL_DEPTH: usize = 1000;
/// Maximum height of the interpreter's value stack, bytes.
const VALUE_STACK_BYTES: usize = 4 << 20;

/// Why a module cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModuleDefect {
    /// The file cannot be read.
    #[error("{0}")]
    File(String),
    /// The module is too large.
    #[error("it has {bytes} bytes (at most {MAX_MODULE_BYTES})")]
    Size {
        /// Its size, bytes.
        bytes: u64,
    },
    /// It is no valid module.
    #[error("it is no valid WebAssembly module, binary or text: {0}")]
    Invalid(String),
    /// It imports something.
    #[error("it imports '{module}.{name}' (a module of a stage imports nothing)")]
    Import {
        /// Module of the import.
        module: String,
        /// Name of the import.
        name: String,
    },
    /// An export is missing.
    #[error("it exports no {what} (expected {expected})")]
    MissingExport {
        /// The export in words.
        what: String,
        /// Its form.
        expected: String,
    },
    /// An exported function has another type.
    #[error("its function '{name}' is {got} (expected {expected})")]
    Signature {
        /// The function.
        name: String,
        /// Its type.
        got: String,
        /// The expected type.
        expected: String,
    },
    /// Its memory is larger than the limit.
    #[error("its memory has {bytes} bytes at the start, and the limit is {limit}")]
    Memory {
        /// Size at the start, bytes.
        bytes: u64,
        /// The limit, bytes.
        limit: u64,
    },
}

/// Why the run of a module gives nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModuleError {
    /// It used up its fuel.
    #[error("the module used up its fuel of {0}")]
    Fuel(u64),
    /// It took too long.
    #[error("the module ran longer than its limit of {} ms", .0.as_millis())]
    Time(Duration),
    /// It asked for more memory than its limit, or for a larger table than modules may have.
    #[error(
        "the module asked for more than {limit} bytes of memory, or a table of more than {MAX_TABLE_ELEMENTS} elements"
    )]
    Memory {
        /// The limit, bytes.
        limit: u64,
    },
    /// It trapped.
    #[error("the module trapped in '{function}': {trap}")]
    Trap {
        /// The exported function.
        function: String,
        /// The trap in words.
        trap: String,
    },
    /// `allocate` returned an address outside its memory.
    #[error("`allocate` of the module returned {address:#x} for {bytes} bytes, and its memory has {memory_bytes}")]
    Allocation {
        /// The address.
        address: u32,
        /// Number of bytes that were requested.
        bytes: u64,
        /// Size of the memory, bytes.
        memory_bytes: u64,
    },
    /// The function returned another number than 0.
    #[error("the function '{function}' of the module reports error {code}")]
    Reported {
        /// The function.
        function: String,
        /// The number.
        code: i32,
    },
    /// The user cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The interpreter failed.
    #[error("the interpreter: {0}")]
    Interpreter(String),
}

/// What a run of a module gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleRun {
    /// The outputs, in their order.
    pub outputs: Vec<TensorData>,
    /// Used fuel.
    pub fuel: u64,
}

/// A module with the interface that its stage needs.
#[derive(Clone)]
pub struct ModuleProgram {
    engine: Engine,
    module: Module,
    function: String,
    returns_status: bool,
    outputs: Vec<TensorType>,
    limits: ModuleLimits,
}

impl fmt::Debug for ModuleProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModuleProgram({})", self.function)
    }
}

/// Describes a function type: `(i32, i32) -> (i32)`.
fn describe_signature(parameters: &[ValType], results: &[ValType]) -> String {
    const MAX_SHOWN: usize = 12;
    let list = |types: &[ValType]| {
        let mut names: Vec<String> = types
            .iter()
            .take(MAX_SHOWN)
            .map(|t| format!("{t:?}").to_lowercase())
            .collect();
        if types.len() > MAX_SHOWN {
            names.push(format!("{} more", types.len() - MAX_SHOWN));
        }
        names.join(", ")
    };
    format!("({}) -> ({})", list(parameters), list(results))
}

impl ModuleProgram {
    /// Compiles a module, binary or text, and checks its interface for `inputs` tensors and these outputs.
    ///
    /// # Errors
    /// If it is no valid module, imports something, or lacks the exports of the interface.
    pub fn new(
        bytes: &[u8],
        function: &str,
        inputs: usize,
        outputs: Vec<TensorType>,
        limits: ModuleLimits,
    ) -> Result<Self, ModuleDefect> {
        if bytes.len() as u64 > MAX_MODULE_BYTES {
            return Err(ModuleDefect::Size {
                bytes: bytes.len() as u64,
            });
        }
        let binary = wat::parse_bytes(bytes).map_err(|e| ModuleDefect::Invalid(e.to_string()))?;
        let mut config = Config::default();
        config.consume_fuel(true);
        // A function that is compiled at its first call takes fuel for it.
        config.compilation_mode(CompilationMode::Eager);
        config.set_max_recursion_depth(CALL_DEPTH);
        config.set_max_stack_height(VALUE_STACK_BYTES);
        config.ignore_custom_sections(true);
        // It would run without the slices in which time is checked.
        config.allow_start_fn(false);
        let engine = Engine::new(&config);
        let module = Module::new(&engine, &*binary).map_err(|e| ModuleDefect::Invalid(e.to_string()))?;
        if let Some(import) = module.imports().next() {
            return Err(ModuleDefect::Import {
                module: import.module().to_owned(),
                name: import.name().to_owned(),
            });
        }
        check_memory(&module, &limits)?;
        let one = vec![ValType::I32];
        check_function(&module, ALLOCATE, &one, &[one.as_slice()])?;
        let tensors = inputs.saturating_add(outputs.len());
        let pairs = vec![ValType::I32; tensors.saturating_mul(2)];
        let result = check_function(&module, function, &pairs, &[&[], one.as_slice()])?;
        Ok(Self {
            engine,
            module,
            function: function.to_owned(),
            returns_status: result > 0,
            outputs,
            limits,
        })
    }

    /// Runs the function on inputs, in a fresh memory.
    ///
    /// # Errors
    /// If the module exceeds a limit, traps, or reports an error; if the user cancels.
    pub fn run(&self, inputs: &[TensorData], progress: &Progress) -> Result<ModuleRun, ModuleError> {
        let mut store = Store::new(&self.engine, store_limits(self.limits.memory));
        store.limiter(|data| data);
        let mut meter = FuelMeter::new(self.limits, progress);
        meter.start(&mut store)?;
        let instance = Instance::new(&mut store, &self.module, &[]);
        let instance = instance.map_err(|e| meter.explain("the start of the module", &e))?;
        meter.account(&store)?;
        let memory = instance.get_memory(&store, MEMORY);
        let memory = memory.ok_or_else(|| ModuleError::Interpreter("the memory is missing".to_owned()))?;
        let mut arguments = Vec::new();
        for input in inputs {
            let address = reserve(&mut store, &instance, memory, input.len() as u64, &mut meter)?;
            memory
                .write(&mut store, address as usize, input)
                .map_err(|e| ModuleError::Interpreter(e.to_string()))?;
            add_pair(&mut arguments, address, input.len() as u64);
        }
        let mut places = Vec::new();
        for output in &self.outputs {
            let address = reserve(&mut store, &instance, memory, output.bytes(), &mut meter)?;
            add_pair(&mut arguments, address, output.bytes());
            places.push((address as usize, output.bytes()));
        }
        let mut results = vec![Val::I32(0); usize::from(self.returns_status)];
        meter.call(&mut store, &instance, &self.function, &arguments, &mut results)?;
        if let Some(code) = results.first().and_then(Val::i32).filter(|code| *code != 0) {
            return Err(ModuleError::Reported {
                function: self.function.clone(),
                code,
            });
        }
        let data = memory.data(&store);
        let read = |(address, bytes): (usize, u64)| {
            let end = usize::try_from(bytes).ok().and_then(|n| address.checked_add(n));
            let content = end.and_then(|end| data.get(address..end));
            content.map(|c| Arc::new(c.to_vec()))
        };
        let outputs: Option<Vec<TensorData>> = places.into_iter().map(read).collect();
        Ok(ModuleRun {
            outputs: outputs.ok_or_else(|| ModuleError::Interpreter("an output is outside the memory".to_owned()))?,
            fuel: meter.used(),
        })
    }
}

/// Calls `allocate`, and checks that the bytes are in the memory.
fn reserve(
    store: &mut Store<StoreLimits>,
    instance: &Instance,
    memory: Memory,
    bytes: u64,
    meter: &mut FuelMeter<'_>,
) -> Result<u32, ModuleError> {
    // A tensor is far smaller than 2 GiB.
    let requested = i32::try_from(bytes).map_err(|e| ModuleError::Interpreter(e.to_string()))?;
    let mut results = [Val::I32(0)];
    meter.call(store, instance, ALLOCATE, &[Val::I32(requested)], &mut results)?;
    let address = results.first().and_then(Val::i32).unwrap_or(0).cast_unsigned();
    let memory_bytes = memory.data_size(&*store) as u64;
    match u64::from(address).saturating_add(bytes) <= memory_bytes {
        true => Ok(address),
        false => Err(ModuleError::Allocation {
            address,
            bytes,
            memory_bytes,
        }),
    }
}

fn add_pair(arguments: &mut Vec<Val>, address: u32, bytes: u64) {
    arguments.push(Val::I32(address.cast_signed()));
    // `reserve` checked the size.
    arguments.push(Val::I32(i32::try_from(bytes).unwrap_or(i32::MAX)));
}

fn check_memory(module: &Module, limits: &ModuleLimits) -> Result<(), ModuleDefect> {
    let missing = || ModuleDefect::MissingExport {
        what: format!("memory '{MEMORY}'"),
        expected: format!("(memory (export \"{MEMORY}\") ...)"),
    };
    let Some(ExternType::Memory(memory)) = module.get_export(MEMORY) else {
        return Err(missing());
    };
    if memory.is_64() {
        return Err(missing());
    }
    let bytes = memory.minimum().saturating_mul(1 << 16);
    match bytes > limits.memory {
        true => Err(ModuleDefect::Memory {
            bytes,
            limit: limits.memory,
        }),
        false => Ok(()),
    }
}

/// Checks an exported function. Returns the number of its results, which must be one of the lists.
fn check_function(
    module: &Module,
    name: &str,
    parameters: &[ValType],
    results: &[&[ValType]],
) -> Result<usize, ModuleDefect> {
    let expected: Vec<String> = results.iter().map(|r| describe_signature(parameters, r)).collect();
    let expected = expected.join(" or ");
    let Some(ExternType::Func(function)) = module.get_export(name) else {
        return Err(ModuleDefect::MissingExport {
            what: format!("function '{name}'"),
            expected,
        });
    };
    match function.params() == parameters && results.contains(&function.results()) {
        true => Ok(function.results().len()),
        false => Err(ModuleDefect::Signature {
            name: name.to_owned(),
            got: describe_signature(function.params(), function.results()),
            expected,
        }),
    }
}

/// Returns the time since a start, as long as the limit is not reached.
fn check_time(start: Instant, limit: Duration) -> Result<(), ModuleError> {
    match start.elapsed() >= limit {
        true => Err(ModuleError::Time(limit)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;

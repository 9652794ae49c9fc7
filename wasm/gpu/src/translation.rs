//! Translation of a program with the system module: one text, one layout.

use wasm_ptx::{
    CellSize, ExportedItem, FunctionId, InstanceId, MemoryId, MemoryRegion, ModuleRole, Options, Placement,
    ProgramBuilder, Suspension, TranslateError, ValueType,
};
use wasm_run::{Input, PAGE_BYTES, Program, RunOptions};
use wasm_system::{
    HostFunction, LayoutError, PROGRAM_MEMORY, PROGRAM_MODULE, SYSTEM_MEMORY, SystemInputs, SystemLayout,
};

/// Minimum capacities of the buffers of standard output and standard error in bytes. A full buffer stops its copy.
const MIN_OUTPUT_BYTES: u32 = 8 << 10;
/// Maximum capacity that the buffer of standard output gets for large inputs: outputs are often as long as inputs.
const MAX_OUTPUT_BYTES: u64 = 256 << 10;
const MIN_ERROR_BYTES: u32 = 2 << 10;
/// Bytes of the continuation stack of a copy: by default a handful of frames, else one for each nested call.
const CONTINUATION_BYTES: u32 = 16 << 10;
const STRICT_CONTINUATION_BYTES: u32 = 64 << 10;

/// Choices of a translation that a run does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TranslationOptions {
    /// Cell size of the memories, or `None` for the rule of [`choose_cell`].
    pub cell: Option<CellSize>,
    /// Each loop can suspend, so that no launch is longer than its slice. Code is larger and slower.
    pub strict: bool,
    /// Count executions and active lanes of blocks.
    pub counters: bool,
}

/// Why a program cannot be translated for a run.
#[derive(Debug, thiserror::Error)]
pub enum TranslationError {
    /// The program cannot be translated.
    #[error(transparent)]
    Translate(#[from] TranslateError),
    /// The inputs do not fit the memory of the system calls.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The system module cannot be assembled.
    #[error(transparent)]
    System(#[from] wasm_system::ModuleError),
    /// Program and system module do not fit together.
    #[error("the translated program has no {0}")]
    Missing(&'static str),
}

/// The memory of the system calls in a translated program.
#[derive(Clone, Debug)]
pub struct SystemMemory {
    /// Regions inside the memory of a copy.
    pub layout: SystemLayout,
    /// The memory in the area of a warp.
    pub region: MemoryRegion,
}

/// A program with the system calls, ready for a device.
#[derive(Clone, Debug)]
pub struct TranslatedProgram {
    /// Text, layout, constants.
    pub program: wasm_ptx::Program,
    /// The memory of the system calls; `None` for a program without system calls.
    pub system: Option<SystemMemory>,
    /// Numbers of the entries that a copy calls, in their order, after its start function.
    pub entries: Vec<u32>,
    /// Cell size of the memories.
    pub cell: CellSize,
    /// The instance of the user's program.
    pub user: InstanceId,
}

impl TranslatedProgram {
    /// Returns the host function with a number in the control words.
    #[must_use]
    pub fn host_function(&self, number: u32) -> Option<HostFunction> {
        let found = self.program.host_functions.get(usize::try_from(number).ok()?)?;
        let mut all = HostFunction::ALL.into_iter();
        all.find(|f| found.module == HostFunction::MODULE && found.name == f.name())
    }
}

/// Returns the cell size for a program by its instructions: 8 bytes if more of them access 64 bits than less, else 4.
///
/// Uniform accesses of a cell are one transaction for a warp; larger cells suit wider accesses.
#[must_use]
pub fn choose_cell(program: &Program) -> CellSize {
    let usage = program.memory_usage();
    if usage.wide_accesses > usage.narrow_accesses {
        CellSize::Eight
    } else {
        CellSize::Four
    }
}

/// Returns the inputs of the system module for an input of the run.
pub(crate) fn system_inputs<'a>(options: &'a RunOptions, standard_input: &'a [u8], number: u64) -> SystemInputs<'a> {
    SystemInputs {
        arguments: &options.arguments,
        environment: &options.environment,
        standard_input,
        seed: options.seed,
        input_number: number,
        clock_start: options.clock_start,
        clock_step: options.clock_step,
        output_limit: options.limits.output_bytes,
    }
}

/// Returns the size of the largest input or request in bytes.
#[must_use]
pub fn max_input_bytes(inputs: &[Input]) -> u64 {
    let all = inputs.iter().flat_map(|i| i.more_requests.iter().chain([&i.bytes]));
    all.map(|bytes| bytes.len() as u64).max().unwrap_or(0)
}

/// Returns a layout whose output buffers fill the last page.
fn system_layout(options: &RunOptions, max_input_bytes: u64) -> Result<SystemLayout, LayoutError> {
    let first = system_inputs(options, &[], 0);
    let log_entries = options.limits.log_entries;
    let new = |output| SystemLayout::new(&first, max_input_bytes, output, MIN_ERROR_BYTES, log_entries);
    let output = u32::try_from(max_input_bytes.min(MAX_OUTPUT_BYTES)).unwrap_or(0);
    let output = output.max(MIN_OUTPUT_BYTES).next_multiple_of(16);
    let smallest = new(output)?;
    let free = u64::from(smallest.pages()) * PAGE_BYTES - u64::from(smallest.bytes());
    new(output.saturating_add(u32::try_from(free & !15).unwrap_or(0)))
}

/// Translates a checked program for inputs of at most `max_input_bytes` bytes.
///
/// # Errors
/// When a limit of the translator is exceeded, or the inputs are too large.
pub fn translate(
    program: &Program,
    run: &RunOptions,
    options: TranslationOptions,
    max_input_bytes: u64,
) -> Result<TranslatedProgram, TranslationError> {
    let cell = options.cell.unwrap_or_else(|| choose_cell(program));
    let mut builder = ProgramBuilder::new(Options {
        cell,
        growth_pages: 0,
        continuation_bytes: if options.strict {
            STRICT_CONTINUATION_BYTES
        } else {
            CONTINUATION_BYTES
        },
        suspension: if options.strict {
            Suspension::Everywhere
        } else {
            Suspension::ResumableFunctions
        },
        counters: options.counters,
        late_starts: true,
        late_reserve: true,
        min_arguments: 2,
        ..Options::default()
    });
    let imports = define_imports(&mut builder, program)?;
    let user = builder.add_module("program", program.bytes(), ModuleRole::User)?;
    if let Some(ExportedItem::Memory(memory)) = builder.export(user, PROGRAM_MEMORY) {
        let pages = if program.memory_usage().grows {
            run.limits.memory_pages
        } else {
            0
        };
        builder.place_memory(memory, Placement::Interleaved, None, Some(pages))?;
    }
    let system = if imports.is_empty() {
        None
    } else {
        let layout = system_layout(run, max_input_bytes)?;
        let memory = add_system(&mut builder, user, &imports, layout.pages())?;
        Some((layout, memory))
    };
    let names = program.calls(&run.function);
    builder.set_entries(names.iter().map(|name| (user, (*name).to_owned())).collect());
    let translated = builder.translate()?;
    let entries = names
        .iter()
        .map(|name| translated.entry(name).map(|entry| entry.number));
    let entries = entries
        .collect::<Option<Vec<u32>>>()
        .ok_or(TranslationError::Missing("entry"))?;
    let system = match system {
        None => None,
        Some((layout, memory)) => {
            let region = translated.layout.memory(memory).copied();
            let region = region.ok_or(TranslationError::Missing("memory of the system calls"))?;
            Some(SystemMemory { layout, region })
        }
    };
    Ok(TranslatedProgram {
        program: translated,
        system,
        entries,
        cell,
        user,
    })
}

/// An import of the program: its host function until the system module exists, and the export that serves it.
struct Import {
    function: FunctionId,
    export: &'static str,
}

/// Defines a host function for each import. The system module needs the program's memory, so it comes after it.
fn define_imports(builder: &mut ProgramBuilder, program: &Program) -> Result<Vec<Import>, TranslationError> {
    let mut imports = Vec::new();
    for (module, name, signature) in builder.unresolved_functions("program", program.bytes(), ModuleRole::User)? {
        let export = wasm_system::find_export(&module, &name).ok_or(TranslationError::Missing("system call"))?;
        let function = builder.define_host_function(&module, &name, &signature.params, &signature.results)?;
        imports.push(Import { function, export });
    }
    Ok(imports)
}

/// Adds the system module, serves the imports of the program, and returns the module's memory.
fn add_system(
    builder: &mut ProgramBuilder,
    user: InstanceId,
    imports: &[Import],
    pages: u32,
) -> Result<MemoryId, TranslationError> {
    builder.alias(user, PROGRAM_MODULE);
    let module = HostFunction::MODULE;
    for function in HostFunction::ALL {
        let name = function.name();
        match function {
            HostFunction::Drain => builder.define_host_function(module, name, &[ValueType::I32], &[])?,
            HostFunction::Next => builder.define_host_function(module, name, &[], &[ValueType::I32])?,
            HostFunction::Exit => builder.define_terminal_function(module, name, &[ValueType::I32, ValueType::I32])?,
        };
    }
    let system = builder.add_module("system calls", &wasm_system::assemble(pages)?, ModuleRole::System)?;
    for import in imports {
        builder.bind_function(import.function, system, import.export)?;
    }
    let Some(ExportedItem::Memory(memory)) = builder.export(system, SYSTEM_MEMORY) else {
        return Err(TranslationError::Missing("memory of the system calls"));
    };
    builder.place_memory(memory, Placement::Contiguous, None, Some(pages))?;
    Ok(memory)
}

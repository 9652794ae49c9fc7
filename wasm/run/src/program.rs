//! A program that each target can run: validated, its imports resolved to system calls, its functions named.

use crate::{RunOptions, TrapPlace};
use std::ops::Range;
use wasmparser::{
    ExternalKind, FuncType, KnownCustom, Name, Operator, Parser, Payload, TypeRef, Validator, WasmFeatures,
};

/// Start of the names of exports that targets add to a program.
const RESERVED_PREFIX: &str = "kinescope.";
/// Name of the exported function that a program's host calls before its first function.
pub const INITIALIZE_FUNCTION: &str = "_initialize";

/// Maximum number of elements of the table. Compilers make one for each function whose address is taken.
const MAX_TABLE_ELEMENTS: u64 = 1 << 20;

/// What programs may use: WebAssembly 1.0 and the extensions that compilers use by default.
const FEATURES: WasmFeatures = WasmFeatures::MUTABLE_GLOBAL
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::CALL_INDIRECT_OVERLONG)
    .union(WasmFeatures::FLOATS)
    // Values in validation need it.
    .union(WasmFeatures::GC_TYPES);

/// Why a program cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The file is no valid module, or uses an extension that no target has.
    #[error("byte {offset:#x}: {message}")]
    Invalid {
        /// Byte offset in the file.
        offset: u64,
        /// What the validator says.
        message: String,
    },
    /// An import is no system call.
    #[error(
        "import {module}.{name}: no system call has this name (wasi_snapshot_preview1, kinescope.invoke, kinescope.respond)"
    )]
    UnknownImport {
        /// Module of the import.
        module: String,
        /// Name of the import.
        name: String,
    },
    /// An import is not a function.
    #[error("import {module}.{name} is a {kind}: a program may import only functions")]
    ImportKind {
        /// Module of the import.
        module: String,
        /// Name of the import.
        name: String,
        /// The kind.
        kind: &'static str,
    },
    /// An import has another signature than the system call.
    #[error("import {module}.{name} has the signature {found} (expected {expected})")]
    Signature {
        /// Module of the import.
        module: String,
        /// Name of the import.
        name: String,
        /// The signature of the import.
        found: String,
        /// The signature of the system call.
        expected: String,
    },
    /// The program calls system functions, which need a memory for their arguments.
    #[error(
        "the program imports system calls but exports no memory with the name `memory`: link it with --export-memory"
    )]
    NoMemory,
    /// The memory is larger than the limit before the program starts.
    #[error(
        "the memory has {pages} pages at the start (limit {limit}): raise --limit-memory, or link with a smaller --initial-memory"
    )]
    MemoryTooLarge {
        /// Pages of 64 KiB.
        pages: u64,
        /// The limit.
        limit: u32,
    },
    /// The table is too large.
    #[error("the table has {elements} elements (maximum {MAX_TABLE_ELEMENTS})")]
    TableTooLarge {
        /// Number of elements.
        elements: u64,
    },
    /// The function to call is missing.
    #[error("no exported function has the name `{name}`; the program exports {exports}")]
    NoFunction {
        /// Name of the function.
        name: String,
        /// Names of the exported functions.
        exports: String,
    },
    /// The function to call has parameters.
    #[error("the function `{name}` has parameters: only a function without parameters can be called")]
    Parameters {
        /// Name of the function.
        name: String,
    },
    /// An export has a name that the program's runner uses.
    #[error("the export `{0}` has a reserved name")]
    ReservedExport(String),
    /// A target cannot use the program.
    #[error("{0}")]
    Target(String),
}

impl From<wasmparser::BinaryReaderError> for ProgramError {
    fn from(e: wasmparser::BinaryReaderError) -> Self {
        Self::Invalid {
            offset: e.offset(),
            message: e.message().to_owned(),
        }
    }
}

/// A validated program.
#[derive(Clone, Debug)]
pub struct Program {
    bytes: Vec<u8>,
    /// Modules and names of the imported functions, in their order.
    imports: Vec<(String, String)>,
    /// Ranges of the bodies in the file, in the order of the functions that are not imported.
    bodies: Vec<Range<u64>>,
    /// Names of the functions in the name section: index and name, sorted.
    names: Vec<(u32, String)>,
    memory_pages: u64,
    exports_memory: bool,
    functions: Vec<String>,
    /// Exported functions: names and indices.
    function_indices: Vec<(String, u32)>,
    types: Vec<FuncType>,
    /// Type of each function, imports first.
    function_types: Vec<u32>,
    start: Option<u32>,
    usage: MemoryUsage,
}

/// What the instructions of a program do with its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// An instruction grows the memory.
    pub grows: bool,
    /// Number of instructions that load or store 64 bits.
    pub wide_accesses: u64,
    /// Number of instructions that load or store 32 bits or less.
    pub narrow_accesses: u64,
}

impl Program {
    /// Validates the binary of a program.
    ///
    /// # Errors
    /// When the program is invalid, uses an extension that no target has, or imports something that is no system call.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, ProgramError> {
        Validator::new_with_features(FEATURES).validate_all(&bytes)?;
        let mut program = Self {
            bytes: Vec::new(),
            imports: Vec::new(),
            bodies: Vec::new(),
            names: Vec::new(),
            memory_pages: 0,
            exports_memory: false,
            functions: Vec::new(),
            function_indices: Vec::new(),
            types: Vec::new(),
            function_types: Vec::new(),
            start: None,
            usage: MemoryUsage::default(),
        };
        for payload in Parser::new(0).parse_all(&bytes) {
            program.add_payload(payload?)?;
        }
        program.bytes = bytes;
        if !program.imports.is_empty() && !program.exports_memory {
            return Err(ProgramError::NoMemory);
        }
        if !program.imports.is_empty() {
            program.check_imports()?;
        }
        Ok(program)
    }

    fn add_payload(&mut self, payload: Payload<'_>) -> Result<(), ProgramError> {
        match payload {
            Payload::ImportSection(reader) => {
                for import in reader.into_imports() {
                    let import = import?;
                    self.add_import(import.module, import.name, import.ty)?;
                }
            }
            Payload::TableSection(reader) => {
                for table in reader {
                    let elements = table?.ty.initial;
                    if elements > MAX_TABLE_ELEMENTS {
                        return Err(ProgramError::TableTooLarge { elements });
                    }
                }
            }
            Payload::MemorySection(reader) => {
                for memory in reader {
                    self.memory_pages = memory?.initial;
                }
            }
            Payload::ExportSection(reader) => {
                for export in reader {
                    let export = export?;
                    if export.name.starts_with(RESERVED_PREFIX) {
                        return Err(ProgramError::ReservedExport(export.name.to_owned()));
                    }
                    match export.kind {
                        ExternalKind::Memory => {
                            self.exports_memory |= export.name == wasm_system::PROGRAM_MEMORY;
                        }
                        ExternalKind::Func => {
                            self.functions.push(export.name.to_owned());
                            self.function_indices.push((export.name.to_owned(), export.index));
                        }
                        _ => {}
                    }
                }
            }
            Payload::TypeSection(reader) => {
                for ty in reader.into_iter_err_on_gc_types() {
                    self.types.push(ty?);
                }
            }
            Payload::FunctionSection(reader) => {
                for ty in reader {
                    self.function_types.push(ty?);
                }
            }
            Payload::StartSection { func, .. } => self.start = Some(func),
            Payload::CodeSectionEntry(body) => {
                for operator in body.get_operators_reader()? {
                    self.usage.add(&operator?);
                }
                self.bodies.push(body.range());
            }
            Payload::CustomSection(reader) => {
                if let KnownCustom::Name(names) = reader.as_known() {
                    self.add_names(names);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_import(&mut self, module: &str, name: &str, kind: TypeRef) -> Result<(), ProgramError> {
        let (module, name) = (module.to_owned(), name.to_owned());
        let kind = match kind {
            TypeRef::Func(_) if wasm_system::find_export(&module, &name).is_none() => {
                return Err(ProgramError::UnknownImport { module, name });
            }
            TypeRef::Func(ty) => {
                self.imports.push((module, name));
                self.function_types.push(ty);
                return Ok(());
            }
            TypeRef::Table(_) => "table",
            TypeRef::Memory(_) => "memory",
            TypeRef::Global(_) => "global",
            _ => "tag",
        };
        Err(ProgramError::ImportKind { module, name, kind })
    }

    /// Reads the names of functions. A damaged name section has no effect: it is for people only.
    fn add_names(&mut self, names: wasmparser::NameSectionReader<'_>) {
        for subsection in names {
            let Ok(Name::Function(map)) = subsection else { continue };
            let named = map.into_iter().filter_map(Result::ok);
            self.names.extend(named.map(|n| (n.index, n.name.to_owned())));
        }
        self.names.sort();
    }

    fn signature(&self, function: u32) -> Option<&FuncType> {
        let ty = self.function_types.get(function as usize)?;
        self.types.get(*ty as usize)
    }

    /// Checks that each import has the signature of its system call.
    fn check_imports(&self) -> Result<(), ProgramError> {
        let system = SystemSignatures::read()?;
        for ((module, name), index) in self.imports.iter().zip(0..) {
            let served = wasm_system::find_export(module, name).and_then(|export| system.find(export));
            let (Some(found), Some(expected)) = (self.signature(index), served) else {
                return Err(ProgramError::UnknownImport {
                    module: module.clone(),
                    name: name.clone(),
                });
            };
            if found != expected {
                return Err(ProgramError::Signature {
                    module: module.clone(),
                    name: name.clone(),
                    found: describe(found),
                    expected: describe(expected),
                });
            }
        }
        Ok(())
    }

    /// Checks that a run with `options` can start: the function exists, and the memory fits its limit.
    ///
    /// # Errors
    /// When the function to call is missing or has parameters, or the memory is larger than its limit at the start.
    pub fn check(&self, options: &RunOptions) -> Result<(), ProgramError> {
        if self.memory_pages > options.limits.memory_pages.into() {
            return Err(ProgramError::MemoryTooLarge {
                pages: self.memory_pages,
                limit: options.limits.memory_pages,
            });
        }
        let Some(function) = self.function_index(&options.function) else {
            let exports = match self.functions() {
                [] => "no function".to_owned(),
                names => names.join(", "),
            };
            return Err(ProgramError::NoFunction {
                name: options.function.clone(),
                exports,
            });
        };
        let initialize = self.function_index(INITIALIZE_FUNCTION);
        let called = initialize.map(|index| (INITIALIZE_FUNCTION, index));
        for (name, index) in called.into_iter().chain([(options.function.as_str(), function)]) {
            if self.signature(index).is_some_and(|s| !s.params().is_empty()) {
                return Err(ProgramError::Parameters { name: name.to_owned() });
            }
        }
        Ok(())
    }

    /// Returns the names of the exported functions that a copy calls, in their order, after its start function.
    ///
    /// A function that follows itself is called once.
    #[must_use]
    pub fn calls<'a>(&self, function: &'a str) -> Vec<&'a str> {
        let mut previous = self.start;
        let mut names = Vec::new();
        for name in [INITIALIZE_FUNCTION, function] {
            let Some(index) = self.function_index(name) else {
                continue;
            };
            if previous != Some(index) {
                names.push(name);
            }
            previous = Some(index);
        }
        names
    }

    /// Returns the index of an exported function, imports included.
    #[must_use]
    pub fn function_index(&self, name: &str) -> Option<u32> {
        let mut exports = self.function_indices.iter();
        exports.find(|(export, _)| export == name).map(|(_, index)| *index)
    }

    /// Returns what the instructions do with the memory.
    #[must_use]
    pub fn memory_usage(&self) -> MemoryUsage {
        self.usage
    }

    /// Returns the binary.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the modules and names of the imported functions, in their order.
    #[must_use]
    pub fn imports(&self) -> &[(String, String)] {
        &self.imports
    }

    /// Returns the size of the memory at the start, in pages of 64 KiB.
    #[must_use]
    pub fn memory_pages(&self) -> u64 {
        self.memory_pages
    }

    /// Returns the names of the exported functions.
    #[must_use]
    pub fn functions(&self) -> &[String] {
        &self.functions
    }

    /// Returns the function whose body has a byte of the file, with the byte's offset.
    #[must_use]
    pub fn find_place(&self, offset: u64) -> Option<TrapPlace> {
        let position = self.bodies.partition_point(|b| b.end <= offset);
        self.bodies.get(position).filter(|b| b.contains(&offset))?;
        let function_index = u32::try_from(self.imports.len().checked_add(position)?).ok()?;
        let name = self.names.iter().find(|(index, _)| *index == function_index);
        Some(TrapPlace {
            function: name.map_or_else(|| format!("func[{function_index}]"), |(_, n)| n.clone()),
            function_index,
            offset,
        })
    }
}

impl MemoryUsage {
    fn add(&mut self, operator: &Operator<'_>) {
        use Operator as O;
        match operator {
            O::MemoryGrow { .. } => self.grows = true,
            O::I64Load { .. } | O::F64Load { .. } | O::I64Store { .. } | O::F64Store { .. } => self.wide_accesses += 1,
            O::I32Load { .. }
            | O::F32Load { .. }
            | O::I32Load8S { .. }
            | O::I32Load8U { .. }
            | O::I32Load16S { .. }
            | O::I32Load16U { .. }
            | O::I64Load8S { .. }
            | O::I64Load8U { .. }
            | O::I64Load16S { .. }
            | O::I64Load16U { .. }
            | O::I64Load32S { .. }
            | O::I64Load32U { .. }
            | O::I32Store { .. }
            | O::F32Store { .. }
            | O::I32Store8 { .. }
            | O::I32Store16 { .. }
            | O::I64Store8 { .. }
            | O::I64Store16 { .. }
            | O::I64Store32 { .. } => self.narrow_accesses += 1,
            _ => {}
        }
    }
}

/// Signatures of the exported functions of the system module.
struct SystemSignatures {
    types: Vec<FuncType>,
    function_types: Vec<u32>,
    exports: Vec<(String, u32)>,
}

impl SystemSignatures {
    fn read() -> Result<Self, ProgramError> {
        let binary = wasm_system::assemble(1).map_err(|e| ProgramError::Target(e.to_string()))?;
        let mut system = Self {
            types: Vec::new(),
            function_types: Vec::new(),
            exports: Vec::new(),
        };
        for payload in Parser::new(0).parse_all(&binary) {
            match payload? {
                Payload::TypeSection(reader) => {
                    for ty in reader.into_iter_err_on_gc_types() {
                        system.types.push(ty?);
                    }
                }
                Payload::ImportSection(reader) => {
                    for import in reader.into_imports() {
                        if let TypeRef::Func(ty) = import?.ty {
                            system.function_types.push(ty);
                        }
                    }
                }
                Payload::FunctionSection(reader) => {
                    for ty in reader {
                        system.function_types.push(ty?);
                    }
                }
                Payload::ExportSection(reader) => {
                    for export in reader {
                        let export = export?;
                        if export.kind == ExternalKind::Func {
                            system.exports.push((export.name.to_owned(), export.index));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(system)
    }

    fn find(&self, export: &str) -> Option<&FuncType> {
        let (_, index) = self.exports.iter().find(|(name, _)| name == export)?;
        let ty = self.function_types.get(*index as usize)?;
        self.types.get(*ty as usize)
    }
}

/// Writes a signature: `(i32, i64) -> (i32)`.
fn describe(signature: &FuncType) -> String {
    let list = |types: &[wasmparser::ValType]| {
        let names: Vec<String> = types.iter().map(ToString::to_string).collect();
        names.join(", ")
    };
    format!("({}) -> ({})", list(signature.params()), list(signature.results()))
}

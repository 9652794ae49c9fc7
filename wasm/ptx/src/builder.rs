//! The public builder: modules and host functions in, a translated program out.

use std::collections::HashMap;

use crate::constants::ConstantMap;
use crate::emit::{Context, emit_program};
use crate::error::TranslateError;
use crate::graph::{self, Graph};
use crate::layout::{AreaOffset, Layout, LayoutBuilder};
use crate::limits::MAX_PAGES;
use crate::link::{FunctionKind, Linked};
use crate::module::{ExportKind, parse};
use crate::options::{CellSize, Options, Placement};
use crate::program::{EntryPoint, Export, ExportedItem, Function, Global, ModuleRole, Program, Signature};
use crate::values::{FunctionId, InstanceId, MemoryId, ValueType};

/// Collects the instances of a program and translates them.
///
/// Instances are linked in the order of addition. A later instance keeps the numbers of all earlier items, and their
/// offsets as long as [`Options::spare_cells`] and [`Options::min_arguments`] suffice.
#[derive(Clone, Debug)]
pub struct ProgramBuilder {
    options: Options,
    linked: Linked,
    entries: Option<Vec<(InstanceId, String)>>,
}

impl ProgramBuilder {
    /// Starts a program without instances.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            linked: Linked::default(),
            entries: None,
        }
    }

    /// Validates a module, resolves its imports, and adds an instance of it.
    ///
    /// `name` is for messages. [`ProgramBuilder::alias`] makes the exports visible to later modules.
    ///
    /// # Errors
    ///
    /// Fails if the module is invalid, uses a refused feature, exceeds a limit, or has an import that nothing resolves.
    pub fn add_module(&mut self, name: &str, bytes: &[u8], role: ModuleRole) -> Result<InstanceId, TranslateError> {
        let module = parse(name, bytes, role, self.options.several_tables)?;
        self.linked.add_instance(module)
    }

    /// Makes the exports of `instance` visible as `module` to modules that are added later. The last alias wins.
    pub fn alias(&mut self, instance: InstanceId, module: &str) {
        self.linked.set_alias(instance, module);
    }

    /// Defines a host function: a call of it stops the copy until the host has answered.
    ///
    /// # Errors
    ///
    /// Fails if the program has too many functions.
    pub fn define_host_function(
        &mut self,
        module: &str,
        name: &str,
        params: &[ValueType],
        results: &[ValueType],
    ) -> Result<FunctionId, TranslateError> {
        let signature = Signature {
            params: params.to_vec(),
            results: results.to_vec(),
        };
        self.linked.add_host_function(module, name, signature, false)
    }

    /// Defines a host function that ends the copy, such as `proc_exit`.
    ///
    /// # Errors
    ///
    /// Fails if the program has too many functions.
    pub fn define_terminal_function(
        &mut self,
        module: &str,
        name: &str,
        params: &[ValueType],
    ) -> Result<FunctionId, TranslateError> {
        let signature = Signature {
            params: params.to_vec(),
            results: Vec::new(),
        };
        self.linked.add_host_function(module, name, signature, true)
    }

    /// Makes imports that found a host function find a function of another instance, which may be a later one.
    ///
    /// Two modules that import from each other need it: the first one imports host functions, which are bound when the
    /// second one exists. A bound host function is never called.
    ///
    /// # Errors
    ///
    /// Fails if there is no such host function or export, or if their types differ.
    pub fn bind_function(
        &mut self,
        host: FunctionId,
        instance: InstanceId,
        export: &str,
    ) -> Result<(), TranslateError> {
        let Some(ExportedItem::Function(target)) = self.linked.export(instance, export) else {
            return Err(TranslateError::Missing {
                what: "exported function",
                name: export.to_owned(),
            });
        };
        self.linked.bind_function(host, target)
    }

    /// Returns the imports of a module that nothing resolves yet: module and name of functions, in order.
    ///
    /// # Errors
    ///
    /// Fails if the module is invalid.
    pub fn unresolved_functions(
        &self,
        name: &str,
        bytes: &[u8],
        role: ModuleRole,
    ) -> Result<Vec<(String, String, Signature)>, TranslateError> {
        let module = parse(name, bytes, role, self.options.several_tables)?;
        let functions = module.imports.iter().filter_map(|import| match import.kind {
            crate::module::ImportKind::Function(ty) => Some((import, module.types[ty as usize].clone())),
            _ => None,
        });
        Ok(functions
            .filter(|(import, _)| self.linked.find(&import.module, &import.name).is_none())
            .map(|(import, signature)| (import.module.clone(), import.name.clone(), signature))
            .collect())
    }

    /// Chooses where a memory stands: its placement, its cell size and its reserve in pages.
    ///
    /// `None` keeps the program's default. The reserve is never below the minimum or above the declared maximum.
    ///
    /// # Errors
    ///
    /// Fails if the program has no such memory.
    pub fn place_memory(
        &mut self,
        memory: MemoryId,
        placement: Placement,
        cell: Option<CellSize>,
        reserve_pages: Option<u32>,
    ) -> Result<(), TranslateError> {
        let known = self.memory_mut(memory)?;
        known.placement = placement;
        known.cell = cell;
        known.reserve = reserve_pages;
        Ok(())
    }

    /// Tells the size that a memory has grown to, for the imports of modules that are added later.
    ///
    /// # Errors
    ///
    /// Fails if the program has no such memory.
    pub fn set_known_pages(&mut self, memory: MemoryId, pages: u32) -> Result<(), TranslateError> {
        let known = self.memory_mut(memory)?;
        known.known_pages = known.known_pages.max(u64::from(pages));
        Ok(())
    }

    fn memory_mut(&mut self, memory: MemoryId) -> Result<&mut crate::link::LinkedMemory, TranslateError> {
        self.linked
            .memories
            .get_mut(memory.0 as usize)
            .ok_or_else(|| TranslateError::Missing {
                what: "memory",
                name: memory.0.to_string(),
            })
    }

    /// Returns the item that `instance` exports as `name`.
    pub fn export(&self, instance: InstanceId, name: &str) -> Option<ExportedItem> {
        self.linked.export(instance, name)
    }

    /// Returns the names of the functions that `instance` exports, in order.
    pub fn exported_functions(&self, instance: InstanceId) -> Vec<String> {
        let exports = self
            .linked
            .instances
            .get(instance.0 as usize)
            .map(|instance| &instance.module.exports);
        let functions = exports
            .into_iter()
            .flatten()
            .filter(|(_, kind)| matches!(kind, ExportKind::Function(_)));
        functions.map(|(name, _)| name.clone()).collect()
    }

    /// Restricts what the host may call: all else that is unreachable is dropped.
    ///
    /// By default the host may call each function that a user module exports.
    pub fn set_entries(&mut self, entries: Vec<(InstanceId, String)>) {
        self.entries = Some(entries);
    }

    fn entries(&self) -> Result<Vec<EntryPoint>, TranslateError> {
        let mut found: Vec<(InstanceId, String, FunctionId)> = Vec::new();
        match &self.entries {
            Some(entries) => {
                for (instance, name) in entries {
                    match self.linked.export(*instance, name) {
                        Some(ExportedItem::Function(function)) => found.push((*instance, name.clone(), function)),
                        _ => {
                            return Err(TranslateError::Missing {
                                what: "exported function",
                                name: name.clone(),
                            });
                        }
                    }
                }
            }
            None => {
                for (id, instance) in (0u32..).map(InstanceId).zip(&self.linked.instances) {
                    if instance.module.role == ModuleRole::System {
                        continue;
                    }
                    for (name, kind) in &instance.module.exports {
                        if let ExportKind::Function(index) = kind {
                            found.push((id, name.clone(), instance.functions[*index as usize]));
                        }
                    }
                }
            }
        }
        let mut numbers = HashMap::new();
        Ok(found
            .into_iter()
            .map(|(instance, name, function)| {
                let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                EntryPoint {
                    number: *numbers.entry(function).or_insert(next),
                    instance,
                    name,
                    function,
                    signature: self.linked.signature_of(function).clone(),
                }
            })
            .collect())
    }

    /// Translates the program.
    ///
    /// # Errors
    ///
    /// Fails if a limit is exceeded, or an entry does not exist.
    pub fn translate(&self) -> Result<Program, TranslateError> {
        let linked = &self.linked;
        let entries = self.entries()?;
        let mut callable: Vec<FunctionId> = Vec::new();
        for entry in &entries {
            if entry.number as usize == callable.len() {
                callable.push(entry.function);
            }
        }
        let mut roots = callable.clone();
        for instance in &linked.instances {
            roots.extend(instance.module.start.map(|start| instance.functions[start as usize]));
        }
        let graph = graph::build(linked, &self.options, &roots)?;
        let constants = ConstantMap::new(linked)?;
        let segments = Segments::new(linked, &graph);
        let mut cells = Cells::default();
        let layout = self.layout(&graph, &segments, &mut cells)?;
        let context = Context {
            linked,
            graph: &graph,
            layout: &layout,
            options: &self.options,
            constants: &constants,
            dropped_datas: &cells.datas,
            dropped_elements: &cells.elements,
            entries: &callable,
        };
        let (text, blocks) = emit_program(&context)?;
        let uncounted_frames = graph.uncounted_frames;
        let functions = self.functions(&graph);
        Ok(Program {
            text,
            layout,
            constants: constants.bytes,
            entries,
            exports: self.exports(),
            functions,
            host_functions: linked.host_functions.clone(),
            globals: linked
                .globals
                .iter()
                .map(|global| Global {
                    ty: global.value_type(),
                    constant: global.constant(),
                })
                .collect(),
            blocks,
            first_steps: self.first_steps(),
            uncounted_frames,
            recursive: graph.functions.iter().any(|facts| facts.reachable && facts.recursive),
        })
    }

    fn first_steps(&self) -> Vec<u32> {
        let mut next = 0;
        self.linked
            .instances
            .iter()
            .map(|instance| {
                let first = next;
                next += 1 + u32::from(instance.module.start.is_some() && !self.options.late_starts);
                first
            })
            .collect()
    }

    fn exports(&self) -> Vec<Export> {
        let mut exports = Vec::new();
        for (id, instance) in (0u32..).map(InstanceId).zip(&self.linked.instances) {
            for (name, kind) in &instance.module.exports {
                if let Some(item) = instance.item(*kind) {
                    exports.push(Export {
                        instance: id,
                        name: name.clone(),
                        item,
                    });
                }
            }
        }
        exports
    }

    fn functions(&self, graph: &Graph) -> Vec<Function> {
        let names: Vec<HashMap<u32, &str>> = self
            .linked
            .instances
            .iter()
            .map(|instance| {
                instance
                    .module
                    .function_names
                    .iter()
                    .map(|(index, name)| (*index, name.as_str()))
                    .collect()
            })
            .collect();
        let mut functions = Vec::with_capacity(self.linked.functions.len());
        for (linked, facts) in self.linked.functions.iter().zip(&graph.functions) {
            functions.push(match linked.kind {
                FunctionKind::Host(host) => {
                    let host = &self.linked.host_functions[host as usize];
                    Function {
                        instance: None,
                        index: linked.index,
                        name: Some(format!("{}.{}", host.module, host.name)),
                        code_offset: 0,
                        code_bytes: 0,
                        resumable: facts.resumable,
                        emitted: facts.reachable,
                    }
                }
                FunctionKind::Defined(instance, defined) => {
                    let module = &self.linked.instances[instance.0 as usize].module;
                    let body = module.bodies.get(defined as usize).cloned().unwrap_or_default();
                    Function {
                        instance: Some(instance),
                        index: linked.index,
                        name: names[instance.0 as usize]
                            .get(&linked.index)
                            .map(|name| (*name).to_owned()),
                        code_offset: body.start as u64,
                        code_bytes: u32::try_from(body.len()).unwrap_or(u32::MAX),
                        resumable: facts.resumable,
                        emitted: facts.reachable,
                    }
                }
            });
        }
        functions
    }

    fn layout(&self, graph: &Graph, segments: &Segments, cells: &mut Cells) -> Result<Layout, TranslateError> {
        let linked = &self.linked;
        let largest = linked
            .functions
            .iter()
            .zip(&graph.functions)
            .filter(|(_, facts)| facts.reachable)
            .map(|(function, _)| linked.signature(function.signature))
            .map(|signature| signature.params.len().max(signature.results.len()))
            .max()
            .unwrap_or(0);
        let arguments = u32::try_from(largest)
            .unwrap_or(u32::MAX)
            .max(self.options.min_arguments);
        let mut builder = LayoutBuilder::new(arguments, self.options.continuation_bytes)?;
        let mut pages_words = vec![AreaOffset(0); linked.memories.len()];
        for (number, id) in (0u32..).map(InstanceId).enumerate().take(linked.instances.len()) {
            for global in linked.globals.iter().filter(|global| global.instance == id) {
                let wide = global.constant().is_none().then(|| global.value_type().is_wide());
                builder.add_global(wide);
            }
            for (memory, word) in linked.memories.iter().zip(&mut pages_words) {
                if memory.instance == id {
                    *word = builder.add_cell();
                }
            }
            let mut flags = |used: &[bool]| -> Vec<Option<AreaOffset>> {
                used.iter().map(|used| used.then(|| builder.add_cell())).collect()
            };
            cells.datas.push(flags(&segments.datas[number]));
            cells.elements.push(flags(&segments.elements[number]));
            for table in linked.tables.iter().filter(|table| table.instance == id) {
                let elements = u32::try_from(table.limits.min).unwrap_or(u32::MAX);
                builder.add_table(self.tables_in_area(graph).then_some(elements));
            }
        }
        builder.end_cells(self.options.spare_cells)?;
        let mut regions = Vec::with_capacity(linked.memories.len());
        for memory in &linked.memories {
            let min = u32::try_from(memory.limits.min).unwrap_or(u32::MAX);
            if min > MAX_PAGES {
                return Err(TranslateError::Limit {
                    what: "pages of a memory",
                    count: u64::from(min),
                    limit: u64::from(MAX_PAGES),
                });
            }
            let declared = memory
                .limits
                .max
                .unwrap_or(u64::from(MAX_PAGES))
                .min(u64::from(MAX_PAGES));
            // Without an instruction that grows a memory there is no reserve, unless later instances may bring one.
            let growth = if graph.grows || self.options.spare_cells > 0 {
                self.options.growth_pages
            } else {
                0
            };
            let wanted = memory.reserve.unwrap_or(min.saturating_add(growth));
            let max = u32::try_from(declared).unwrap_or(MAX_PAGES).min(wanted).max(min);
            regions.push((min, max));
        }
        // A reserve of the host's choice is the end of the area.
        let late = regions
            .iter()
            .zip(&linked.memories)
            .position(|((min, max), memory)| min < max && memory.placement == Placement::Interleaved)
            .filter(|_| self.options.late_reserve && graph.grows);
        let mut order: Vec<usize> = (0..regions.len()).filter(|number| Some(*number) != late).collect();
        order.extend(late);
        for number in order {
            let (memory, (min, max)) = (&linked.memories[number], regions[number]);
            let cell = memory.cell.unwrap_or(self.options.cell);
            builder.add_memory(number, memory.placement, cell, min, max, pages_words[number]);
        }
        if let Some(number) = late {
            builder.reserve_late(MemoryId(u32::try_from(number).unwrap_or(u32::MAX)));
        }
        builder.finish()
    }

    /// Returns true if tables are in the areas: an instruction changes one, or calls during instantiation see them.
    fn tables_in_area(&self, graph: &Graph) -> bool {
        // A start function runs before the element segments of later instances are applied.
        let starts = self
            .linked
            .instances
            .iter()
            .rev()
            .skip(1)
            .any(|instance| instance.module.start.is_some());
        self.options.tables_in_area || graph.changes_tables || starts
    }
}

/// Which segments need a flag that says that they are dropped: those that an instruction names.
struct Segments {
    datas: Vec<Vec<bool>>,
    elements: Vec<Vec<bool>>,
}

impl Segments {
    fn new(linked: &Linked, graph: &Graph) -> Self {
        let mut segments = Self {
            datas: Vec::new(),
            elements: Vec::new(),
        };
        for instance in &linked.instances {
            segments.datas.push(vec![false; instance.module.datas.len()]);
            segments.elements.push(vec![false; instance.module.elements.len()]);
        }
        for (function, facts) in linked.functions.iter().zip(&graph.functions) {
            let (FunctionKind::Defined(instance, _), Some(scan)) = (function.kind, &facts.scan) else {
                continue;
            };
            for data in &scan.data_segments {
                segments.datas[instance.0 as usize][*data as usize] = true;
            }
            for element in &scan.element_segments {
                segments.elements[instance.0 as usize][*element as usize] = true;
            }
        }
        segments
    }
}

/// Cells of the flags, by instance and segment.
#[derive(Default)]
struct Cells {
    datas: Vec<Vec<Option<AreaOffset>>>,
    elements: Vec<Vec<Option<AreaOffset>>>,
}

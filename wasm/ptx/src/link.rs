//! Linking: instances get program-wide numbers, imports find exports or host functions.

use std::collections::HashMap;

use crate::error::TranslateError;
use crate::limits::{MAX_FUNCTIONS, MAX_INSTANCES};
use crate::module::{ConstExpr, ExportKind, GlobalType, ImportKind, Limits, Module};
use crate::options::{CellSize, Placement};
use crate::program::{ExportedItem, HostFunction, Signature};
use crate::values::{FunctionId, GlobalId, InstanceId, MemoryId, TableId, ValueType};

/// Number of a signature in the program: equal types have equal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SignatureId(pub u32);

/// What a function of the program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FunctionKind {
    /// Index among the host functions.
    Host(u32),
    /// Instance, and index among the module's defined functions.
    Defined(InstanceId, u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkedFunction {
    pub kind: FunctionKind,
    pub signature: SignatureId,
    /// Index in its module.
    pub index: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkedMemory {
    pub instance: InstanceId,
    pub limits: Limits,
    pub placement: Placement,
    /// Cell size and reserve, if the host has chosen them.
    pub cell: Option<CellSize>,
    pub reserve: Option<u32>,
    /// Size in pages that later imports may rely on.
    pub known_pages: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkedTable {
    pub instance: InstanceId,
    pub limits: Limits,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkedGlobal {
    pub instance: InstanceId,
    pub ty: GlobalType,
    /// The initial value. All initial values are known at translation.
    pub value: u64,
}

/// An instance: its module, and the program-wide number of each item of its index spaces.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub module: Module,
    pub functions: Vec<FunctionId>,
    pub tables: Vec<TableId>,
    pub memories: Vec<MemoryId>,
    pub globals: Vec<GlobalId>,
    /// Signature of each type.
    pub types: Vec<SignatureId>,
    pub exports: HashMap<String, ExportKind>,
}

/// The linked program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Linked {
    pub instances: Vec<Instance>,
    pub functions: Vec<LinkedFunction>,
    pub host_functions: Vec<HostFunction>,
    pub memories: Vec<LinkedMemory>,
    pub tables: Vec<LinkedTable>,
    pub globals: Vec<LinkedGlobal>,
    pub signatures: Vec<Signature>,
    signature_ids: HashMap<Signature, SignatureId>,
    aliases: HashMap<String, InstanceId>,
    /// Host functions by module and name; a later one replaces an earlier one.
    host_names: HashMap<String, HashMap<String, FunctionId>>,
}

impl Linked {
    /// Returns the number of `signature`.
    pub fn signature_id(&mut self, signature: &Signature) -> SignatureId {
        if let Some(id) = self.signature_ids.get(signature) {
            return *id;
        }
        let id = SignatureId(u32::try_from(self.signatures.len()).unwrap_or(u32::MAX));
        self.signatures.push(signature.clone());
        self.signature_ids.insert(signature.clone(), id);
        id
    }

    /// Returns the signature with number `id`.
    pub fn signature(&self, id: SignatureId) -> &Signature {
        &self.signatures[id.0 as usize]
    }

    /// Returns the signature of a function.
    pub fn signature_of(&self, function: FunctionId) -> &Signature {
        self.signature(self.functions[function.0 as usize].signature)
    }

    /// Makes the exports of `instance` visible as `module`. A later alias wins.
    pub fn set_alias(&mut self, instance: InstanceId, module: &str) {
        self.aliases.insert(module.to_owned(), instance);
    }

    /// Adds a host function.
    pub fn add_host_function(
        &mut self,
        module: &str,
        name: &str,
        signature: Signature,
        terminal: bool,
    ) -> Result<FunctionId, TranslateError> {
        let function = self.next_function()?;
        let host = u32::try_from(self.host_functions.len()).unwrap_or(u32::MAX);
        let id = self.signature_id(&signature);
        self.functions.push(LinkedFunction {
            kind: FunctionKind::Host(host),
            signature: id,
            index: host,
        });
        self.host_names
            .entry(module.to_owned())
            .or_default()
            .insert(name.to_owned(), function);
        self.host_functions.push(HostFunction {
            module: module.to_owned(),
            name: name.to_owned(),
            signature,
            terminal,
            function,
        });
        Ok(function)
    }

    /// Replaces a host function by another function in the index spaces of all instances.
    pub fn bind_function(&mut self, host: FunctionId, target: FunctionId) -> Result<(), TranslateError> {
        let missing = || TranslateError::Missing {
            what: "host function",
            name: host.0.to_string(),
        };
        let known = self.functions.get(host.0 as usize).copied().ok_or_else(missing)?;
        let FunctionKind::Host(number) = known.kind else {
            return Err(missing());
        };
        if self.functions.get(target.0 as usize).map(|function| function.signature) != Some(known.signature) {
            let import = self.host_functions.get(number as usize).ok_or_else(missing)?;
            return Err(TranslateError::IncompatibleImport {
                module: "program".to_owned(),
                from: import.module.clone(),
                name: import.name.clone(),
            });
        }
        let all = self.instances.iter_mut().flat_map(|instance| &mut instance.functions);
        for function in all.filter(|function| **function == host) {
            *function = target;
        }
        Ok(())
    }

    fn next_function(&self) -> Result<FunctionId, TranslateError> {
        let count = self.functions.len() as u64;
        if count >= u64::from(MAX_FUNCTIONS) {
            return Err(TranslateError::Limit {
                what: "functions of a program",
                count: count + 1,
                limit: u64::from(MAX_FUNCTIONS),
            });
        }
        Ok(FunctionId(u32::try_from(count).unwrap_or(u32::MAX)))
    }

    /// Adds an instance of `module` and resolves its imports.
    pub fn add_instance(&mut self, module: Module) -> Result<InstanceId, TranslateError> {
        let count = self.instances.len() as u64;
        if count >= u64::from(MAX_INSTANCES) {
            return Err(TranslateError::Limit {
                what: "instances of a program",
                count: count + 1,
                limit: u64::from(MAX_INSTANCES),
            });
        }
        let id = InstanceId(u32::try_from(count).unwrap_or(u32::MAX));
        let types = module
            .types
            .iter()
            .map(|signature| self.signature_id(signature))
            .collect();
        let mut instance = Instance {
            functions: Vec::with_capacity(module.functions.len()),
            tables: Vec::new(),
            memories: Vec::new(),
            globals: Vec::new(),
            types,
            exports: module.exports.iter().cloned().collect(),
            module,
        };
        let items = self.resolve_imports(&instance)?;
        for item in items {
            match item {
                ExportedItem::Function(function) => instance.functions.push(function),
                ExportedItem::Table(table) => instance.tables.push(table),
                ExportedItem::Memory(memory) => instance.memories.push(memory),
                ExportedItem::Global(global) => instance.globals.push(global),
            }
        }
        self.define_items(id, &mut instance)?;
        self.instances.push(instance);
        Ok(id)
    }

    fn define_items(&mut self, id: InstanceId, instance: &mut Instance) -> Result<(), TranslateError> {
        let imported = instance.module.imported_functions;
        for (index, ty) in (0u32..).zip(&instance.module.functions).skip(imported as usize) {
            let function = self.next_function()?;
            self.functions.push(LinkedFunction {
                kind: FunctionKind::Defined(id, index - imported),
                signature: instance.types[*ty as usize],
                index,
            });
            instance.functions.push(function);
        }
        for limits in instance
            .module
            .tables
            .iter()
            .skip(instance.tables.len())
            .copied()
            .collect::<Vec<_>>()
        {
            instance
                .tables
                .push(TableId(u32::try_from(self.tables.len()).unwrap_or(u32::MAX)));
            self.tables.push(LinkedTable { instance: id, limits });
        }
        for limits in instance
            .module
            .memories
            .iter()
            .skip(instance.memories.len())
            .copied()
            .collect::<Vec<_>>()
        {
            instance
                .memories
                .push(MemoryId(u32::try_from(self.memories.len()).unwrap_or(u32::MAX)));
            self.memories.push(LinkedMemory {
                instance: id,
                limits,
                placement: Placement::Interleaved,
                cell: None,
                reserve: None,
                known_pages: limits.min,
            });
        }
        for (ty, value) in &instance.module.globals {
            let value = self.evaluate(&instance.globals, *value);
            instance
                .globals
                .push(GlobalId(u32::try_from(self.globals.len()).unwrap_or(u32::MAX)));
            self.globals.push(LinkedGlobal {
                instance: id,
                ty: *ty,
                value,
            });
        }
        Ok(())
    }

    /// Returns the value of a constant expression in an instance with `globals`.
    pub fn evaluate(&self, globals: &[GlobalId], expr: ConstExpr) -> u64 {
        match expr {
            ConstExpr::Value(value) => value,
            // Validation allows immutable imported globals only: their initial value is their value.
            ConstExpr::Global(index) => globals
                .get(index as usize)
                .and_then(|id| self.globals.get(id.0 as usize))
                .map_or(0, |global| global.value),
        }
    }

    fn resolve_imports(&mut self, instance: &Instance) -> Result<Vec<ExportedItem>, TranslateError> {
        let module = &instance.module;
        let mut items = Vec::with_capacity(module.imports.len());
        for import in &module.imports {
            let item = self
                .find(&import.module, &import.name)
                .ok_or_else(|| TranslateError::UnknownImport {
                    module: module.name.clone(),
                    from: import.module.clone(),
                    name: import.name.clone(),
                })?;
            let fits = match (import.kind, item) {
                (ImportKind::Function(ty), ExportedItem::Function(function)) => {
                    self.functions[function.0 as usize].signature == instance.types[ty as usize]
                }
                (ImportKind::Table(wanted), ExportedItem::Table(table)) => {
                    let table = self.tables[table.0 as usize].limits;
                    limits_fit(wanted, table.min, table.max)
                }
                (ImportKind::Memory(wanted), ExportedItem::Memory(memory)) => {
                    let memory = &self.memories[memory.0 as usize];
                    limits_fit(wanted, memory.known_pages, memory.limits.max)
                }
                (ImportKind::Global(wanted), ExportedItem::Global(global)) => {
                    self.globals[global.0 as usize].ty == wanted
                }
                _ => false,
            };
            if !fits {
                return Err(TranslateError::IncompatibleImport {
                    module: module.name.clone(),
                    from: import.module.clone(),
                    name: import.name.clone(),
                });
            }
            items.push(item);
        }
        Ok(items)
    }

    /// Returns what an import finds.
    pub fn find(&self, module: &str, name: &str) -> Option<ExportedItem> {
        let exported = self
            .aliases
            .get(module)
            .and_then(|instance| self.export(*instance, name));
        exported.or_else(|| Some(ExportedItem::Function(*self.host_names.get(module)?.get(name)?)))
    }

    /// Returns the item that `instance` exports as `name`.
    pub fn export(&self, instance: InstanceId, name: &str) -> Option<ExportedItem> {
        let instance = self.instances.get(instance.0 as usize)?;
        instance.item(*instance.exports.get(name)?)
    }
}

impl Instance {
    /// Returns the program-wide number of an exported item.
    pub fn item(&self, kind: ExportKind) -> Option<ExportedItem> {
        Some(match kind {
            ExportKind::Function(index) => ExportedItem::Function(*self.functions.get(index as usize)?),
            ExportKind::Table(index) => ExportedItem::Table(*self.tables.get(index as usize)?),
            ExportKind::Memory(index) => ExportedItem::Memory(*self.memories.get(index as usize)?),
            ExportKind::Global(index) => ExportedItem::Global(*self.globals.get(index as usize)?),
        })
    }
}

fn limits_fit(wanted: Limits, min: u64, max: Option<u64>) -> bool {
    min >= wanted.min
        && match (wanted.max, max) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(wanted), Some(max)) => max <= wanted,
        }
}

impl LinkedGlobal {
    /// Returns the value of a global that never changes.
    pub fn constant(&self) -> Option<u64> {
        (!self.ty.mutable).then_some(self.value)
    }

    /// Returns the type of the value.
    pub fn value_type(&self) -> ValueType {
        self.ty.ty
    }
}

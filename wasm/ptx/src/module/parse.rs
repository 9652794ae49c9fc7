//! Reader of a module: wasmparser validates each section, then this file copies what later steps use.

use wasmparser::{
    BinaryReader, CompositeInnerType, DataKind, ElementItems, ElementKind, ExternalKind, FuncValidatorAllocations,
    KnownCustom, Name, Operator, Parser, Payload, RefType, TableInit, TypeRef, ValType, ValidPayload, Validator,
};

use super::{ConstExpr, Data, Element, ExportKind, GlobalType, Import, ImportKind, Limits, Module};
use crate::error::TranslateError;
use crate::features::features;
use crate::limits::{MAX_MODULE_BYTES, MAX_TABLE_ELEMENTS, MAX_VALUES};
use crate::program::{ModuleRole, Signature};
use crate::values::ValueType;

/// Maximum number of bytes of a number of 32 bits.
const MAX_NUMBER_BYTES: usize = 5;

/// Validates `bytes` and returns the module.
pub(crate) fn parse(
    name: &str,
    bytes: &[u8],
    role: ModuleRole,
    several_tables: bool,
) -> Result<Module, TranslateError> {
    if bytes.len() > MAX_MODULE_BYTES {
        return Err(TranslateError::Limit {
            what: "bytes of a module",
            count: bytes.len() as u64,
            limit: MAX_MODULE_BYTES as u64,
        });
    }
    let mut reader = Reader {
        module: empty_module(name, bytes, role),
    };
    let mut validator = Validator::new_with_features(features(role, several_tables));
    let mut allocations = FuncValidatorAllocations::default();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(|error| reader.invalid(error))?;
        match validator.payload(&payload).map_err(|error| reader.invalid(error))? {
            ValidPayload::Func(function, body) => {
                let mut validator = function.into_validator(allocations);
                validator.validate(&body).map_err(|error| reader.invalid(error))?;
                allocations = validator.into_allocations();
                reader.check_locals(&body)?;
                let range = body.range();
                reader.module.bodies.push(as_range(&range));
            }
            _ => reader.payload(payload)?,
        }
    }
    Ok(reader.module)
}

/// Converts a range of a module's file, which fits in memory.
fn as_range(range: &std::ops::Range<u64>) -> std::ops::Range<usize> {
    usize::try_from(range.start).unwrap_or(usize::MAX)..usize::try_from(range.end).unwrap_or(usize::MAX)
}

fn empty_module(name: &str, bytes: &[u8], role: ModuleRole) -> Module {
    Module {
        name: name.to_owned(),
        role,
        bytes: bytes.to_vec(),
        types: Vec::new(),
        imports: Vec::new(),
        functions: Vec::new(),
        imported_functions: 0,
        bodies: Vec::new(),
        tables: Vec::new(),
        memories: Vec::new(),
        globals: Vec::new(),
        exports: Vec::new(),
        start: None,
        elements: Vec::new(),
        datas: Vec::new(),
        function_names: Vec::new(),
    }
}

struct Reader {
    module: Module,
}

impl Reader {
    fn invalid(&self, error: wasmparser::Error) -> TranslateError {
        TranslateError::Invalid {
            module: self.module.name.clone(),
            offset: error.offset(),
            message: error.message().to_owned(),
        }
    }

    fn unsupported(&self, offset: u64, feature: &'static str) -> TranslateError {
        TranslateError::Unsupported {
            module: self.module.name.clone(),
            offset,
            feature,
        }
    }

    fn value_type(&self, ty: ValType, offset: u64) -> Result<ValueType, TranslateError> {
        value_type(ty).ok_or_else(|| self.unsupported(offset, "a value type other than i32, i64, f32 and f64"))
    }

    /// Refuses locals of other types than numbers.
    fn check_locals(&self, body: &wasmparser::FunctionBody<'_>) -> Result<(), TranslateError> {
        let locals = body.get_locals_reader().map_err(|error| self.invalid(error))?;
        for local in locals {
            let (_, ty) = local.map_err(|error| self.invalid(error))?;
            self.value_type(ty, body.range().start)?;
        }
        Ok(())
    }

    fn global_type(&self, ty: wasmparser::GlobalType, offset: u64) -> Result<GlobalType, TranslateError> {
        Ok(GlobalType {
            ty: self.value_type(ty.content_type, offset)?,
            mutable: ty.mutable,
        })
    }

    fn table(&self, ty: wasmparser::TableType, offset: u64) -> Result<Limits, TranslateError> {
        if ty.element_type != RefType::FUNCREF {
            return Err(self.unsupported(offset, "a table of other elements than functions"));
        }
        if ty.initial > MAX_TABLE_ELEMENTS {
            return Err(TranslateError::Limit {
                what: "elements of a table",
                count: ty.initial,
                limit: MAX_TABLE_ELEMENTS,
            });
        }
        Ok(Limits {
            min: ty.initial,
            max: ty.maximum,
        })
    }

    /// Refuses limits of a memory whose numbers are longer than those of 32 bits: wasmparser reads 64 bits.
    fn check_limits(&self, offset: u64) -> Result<(), TranslateError> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.module.bytes.get(start..))
            .unwrap_or(&[]);
        let mut numbers = bytes.split_inclusive(|byte| byte & 0x80 == 0);
        let flags = numbers.next().and_then(|flags| flags.first()).copied().unwrap_or(0);
        let count = 1 + usize::from(flags & 1);
        if numbers.take(count).any(|number| number.len() > MAX_NUMBER_BYTES) {
            return Err(TranslateError::Invalid {
                module: self.module.name.clone(),
                offset,
                message: "integer representation too long".to_owned(),
            });
        }
        Ok(())
    }

    fn payload(&mut self, payload: Payload<'_>) -> Result<(), TranslateError> {
        match payload {
            Payload::TypeSection(section) => {
                let start = section.range().start;
                for group in section {
                    for ty in group.map_err(|error| self.invalid(error))?.into_types() {
                        let CompositeInnerType::Func(function) = &ty.composite_type.inner else {
                            return Err(self.unsupported(start, "a type that is no function type"));
                        };
                        let signature = self.signature(function, start)?;
                        self.module.types.push(signature);
                    }
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports_with_offsets() {
                    let (offset, import) = import.map_err(|error| self.invalid(error))?;
                    self.import(offset, &import)?;
                }
            }
            Payload::FunctionSection(section) => {
                for ty in section {
                    let ty = ty.map_err(|error| self.invalid(error))?;
                    self.module.functions.push(ty);
                }
            }
            Payload::TableSection(section) => {
                for table in section.into_iter_with_offsets() {
                    let (offset, table) = table.map_err(|error| self.invalid(error))?;
                    if !matches!(table.init, TableInit::RefNull) {
                        return Err(self.unsupported(offset, "a table with an initial value"));
                    }
                    let limits = self.table(table.ty, offset)?;
                    self.module.tables.push(limits);
                }
            }
            Payload::MemorySection(section) => {
                for memory in section.into_iter_with_offsets() {
                    let (offset, memory) = memory.map_err(|error| self.invalid(error))?;
                    self.check_limits(offset)?;
                    self.module.memories.push(Limits {
                        min: memory.initial,
                        max: memory.maximum,
                    });
                }
            }
            Payload::GlobalSection(section) => {
                for global in section.into_iter_with_offsets() {
                    let (offset, global) = global.map_err(|error| self.invalid(error))?;
                    let ty = self.global_type(global.ty, offset)?;
                    let value = self.const_expr(&global.init_expr, offset)?;
                    self.module.globals.push((ty, value));
                }
            }
            Payload::ExportSection(section) => {
                for export in section.into_iter_with_offsets() {
                    let (offset, export) = export.map_err(|error| self.invalid(error))?;
                    let kind = match export.kind {
                        ExternalKind::Func | ExternalKind::FuncExact => ExportKind::Function(export.index),
                        ExternalKind::Table => ExportKind::Table(export.index),
                        ExternalKind::Memory => ExportKind::Memory(export.index),
                        ExternalKind::Global => ExportKind::Global(export.index),
                        ExternalKind::Tag => return Err(self.unsupported(offset, "an exception tag")),
                    };
                    self.module.exports.push((export.name.to_owned(), kind));
                }
            }
            Payload::StartSection { func, .. } => self.module.start = Some(func),
            Payload::ElementSection(section) => {
                for element in section.into_iter_with_offsets() {
                    let (offset, element) = element.map_err(|error| self.invalid(error))?;
                    self.element(offset, element)?;
                }
            }
            Payload::DataSection(section) => {
                for data in section.into_iter_with_offsets() {
                    let (offset, data) = data.map_err(|error| self.invalid(error))?;
                    self.data(offset, &data)?;
                }
            }
            Payload::CustomSection(section) => {
                // Names only help: a damaged name section is ignored.
                if let KnownCustom::Name(names) = section.as_known() {
                    for name in names {
                        let Ok(Name::Function(map)) = name else { continue };
                        self.module.function_names.extend(
                            map.into_iter()
                                .map_while(Result::ok)
                                .map(|n| (n.index, n.name.to_owned())),
                        );
                    }
                    self.module.function_names.sort_unstable_by_key(|(index, _)| *index);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn signature(&self, function: &wasmparser::FuncType, offset: u64) -> Result<Signature, TranslateError> {
        let convert = |types: &[ValType]| -> Result<Vec<ValueType>, TranslateError> {
            if types.len() > MAX_VALUES {
                return Err(TranslateError::Limit {
                    what: "values of a function type",
                    count: types.len() as u64,
                    limit: MAX_VALUES as u64,
                });
            }
            types.iter().map(|ty| self.value_type(*ty, offset)).collect()
        };
        Ok(Signature {
            params: convert(function.params())?,
            results: convert(function.results())?,
        })
    }

    fn import(&mut self, offset: u64, import: &wasmparser::Import<'_>) -> Result<(), TranslateError> {
        let kind = match import.ty {
            TypeRef::Func(ty) | TypeRef::FuncExact(ty) => {
                self.module.functions.push(ty);
                self.module.imported_functions += 1;
                ImportKind::Function(ty)
            }
            TypeRef::Table(ty) => {
                let limits = self.table(ty, offset)?;
                self.module.tables.push(limits);
                ImportKind::Table(limits)
            }
            TypeRef::Memory(ty) => {
                let limits = Limits {
                    min: ty.initial,
                    max: ty.maximum,
                };
                self.module.memories.push(limits);
                ImportKind::Memory(limits)
            }
            TypeRef::Global(ty) => ImportKind::Global(self.global_type(ty, offset)?),
            TypeRef::Tag(_) => return Err(self.unsupported(offset, "an exception tag")),
        };
        self.module.imports.push(Import {
            module: import.module.to_owned(),
            name: import.name.to_owned(),
            kind,
        });
        Ok(())
    }

    fn element(&mut self, offset: u64, element: wasmparser::Element<'_>) -> Result<(), TranslateError> {
        let (active, declared) = match element.kind {
            ElementKind::Passive => (None, false),
            ElementKind::Declared => (None, true),
            ElementKind::Active {
                table_index,
                offset_expr,
            } => (
                Some((table_index.unwrap_or(0), self.const_expr(&offset_expr, offset)?)),
                false,
            ),
        };
        let mut items = Vec::new();
        match element.items {
            ElementItems::Functions(section) => {
                for function in section {
                    items.push(Some(function.map_err(|error| self.invalid(error))?));
                }
            }
            ElementItems::Expressions(ty, section) => {
                if ty != RefType::FUNCREF {
                    return Err(self.unsupported(offset, "an element segment of other elements than functions"));
                }
                for expr in section {
                    let expr = expr.map_err(|error| self.invalid(error))?;
                    let operator = expr
                        .get_operators_reader()
                        .read()
                        .map_err(|error| self.invalid(error))?;
                    items.push(match operator {
                        Operator::RefNull { .. } => None,
                        Operator::RefFunc { function_index } => Some(function_index),
                        _ => return Err(self.unsupported(offset, "an element expression with a global")),
                    });
                }
            }
        }
        self.module.elements.push(Element {
            active,
            declared,
            items,
            offset,
        });
        Ok(())
    }

    fn data(&mut self, offset: u64, data: &wasmparser::Data<'_>) -> Result<(), TranslateError> {
        let active = match &data.kind {
            DataKind::Passive => None,
            DataKind::Active {
                memory_index,
                offset_expr,
            } => Some((*memory_index, self.const_expr(offset_expr, offset)?)),
        };
        // The bytes of a segment end it.
        let end = as_range(&data.range).end;
        let bytes = end.saturating_sub(data.data.len())..end;
        if self.module.bytes.get(bytes.clone()) != Some(data.data) {
            return Err(self.unsupported(offset, "this form of a data segment"));
        }
        self.module.datas.push(Data { active, bytes, offset });
        Ok(())
    }

    fn const_expr(&self, expr: &wasmparser::ConstExpr<'_>, offset: u64) -> Result<ConstExpr, TranslateError> {
        let mut reader = expr.get_operators_reader();
        let value = match reader.read().map_err(|error| self.invalid(error))? {
            Operator::I32Const { value } => ConstExpr::Value(u64::from(value.cast_unsigned())),
            Operator::I64Const { value } => ConstExpr::Value(value.cast_unsigned()),
            Operator::F32Const { value } => ConstExpr::Value(u64::from(value.bits())),
            Operator::F64Const { value } => ConstExpr::Value(value.bits()),
            Operator::GlobalGet { global_index } => ConstExpr::Global(global_index),
            _ => return Err(self.unsupported(offset, "an extended constant expression")),
        };
        match reader.read().map_err(|error| self.invalid(error))? {
            Operator::End => Ok(value),
            _ => Err(self.unsupported(offset, "an extended constant expression")),
        }
    }
}

/// Returns the value type, or `None` for vectors and references.
pub(crate) fn value_type(ty: ValType) -> Option<ValueType> {
    Some(match ty {
        ValType::I32 => ValueType::I32,
        ValType::I64 => ValueType::I64,
        ValType::F32 => ValueType::F32,
        ValType::F64 => ValueType::F64,
        ValType::V128 | ValType::Ref(_) => return None,
    })
}

/// Returns a reader of the body of a defined function. Its offsets are those of the module's file.
pub(crate) fn body_reader<'a>(module: &'a Module, defined: usize) -> Option<wasmparser::FunctionBody<'a>> {
    let range = module.bodies.get(defined)?.clone();
    let start = range.start as u64;
    Some(wasmparser::FunctionBody::new(BinaryReader::new(
        module.bytes.get(range)?,
        start,
    )))
}

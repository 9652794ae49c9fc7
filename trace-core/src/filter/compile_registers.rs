//! Compilation of tests of registers: names and blocks, fields, values, and locations in a space.

use super::compile::{Check, Column, Compiler, unknown};
use super::conditions::{Names, kind_error, names, numbers};
use super::edit_distance::nearest;
use super::error::{FilterError, FilterErrorKind};
use super::keywords::{KEYWORDS, Meaning};
use super::number::NumberTest;
use super::register_tests::{
    FieldEncoding, FieldTest, RegisterBits, RegisterTest, Registers, find_fields, without_index,
};
use super::syntax::{Condition, Test, TypedText};
use crate::registers::{FieldKind, Layout, NamedValues, RecordedRegisters, RegisterMap};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

impl Compiler<'_> {
    /// Compiles a test of register names, or of names of blocks of registers.
    pub(super) fn registers(&self, t: &Test, block: bool) -> Result<Check, FilterError> {
        let names = names(t)?;
        let Some(device) = self.device else {
            // The recording has no register names, so no register matches. The name may be valid for another
            // recording.
            return Ok(Check::Always(false));
        };
        let map = device.map();
        let lower = |all: &[&TypedText]| all.iter().map(|n| n.text.to_lowercase()).collect::<Vec<_>>();
        let (meant, not) = match names {
            Names::Any => (RegisterTest::Any, false),
            Names::Exact(all, not) => {
                for n in &all {
                    let one = vec![n.text.to_lowercase()];
                    let (one, what) = if block {
                        (RegisterTest::Block(one), "block")
                    } else {
                        (RegisterTest::Named(one), "register")
                    };
                    let whole_access = !block && n.text.contains([' ', '[']);
                    if !whole_access && !map.any_register(|r| one.register(r)) {
                        let known = known_names(map, block);
                        return Err(unknown(what, n, known.iter().map(String::as_str)));
                    }
                }
                let names = lower(&all);
                (
                    if block {
                        RegisterTest::Block(names)
                    } else {
                        RegisterTest::Named(names)
                    },
                    not,
                )
            }
            Names::Matching(r, not) => (
                if block {
                    RegisterTest::BlockMatches(r)
                } else {
                    RegisterTest::Matches(r)
                },
                not,
            ),
        };
        Ok(Check::Registers(Arc::new(Registers::new(device, meant, not))))
    }

    /// Returns the space and offset of a name that is a location as events show it: `bar3+0x10`.
    fn find_place(&self, name: &TypedText) -> Result<Option<(u64, u64)>, FilterError> {
        let Some((space, offset)) = name.text.rsplit_once('+') else {
            return Ok(None);
        };
        let offset = match offset.strip_prefix("0x").or_else(|| offset.strip_prefix("0X")) {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => offset.parse().ok(),
        };
        let Some(offset) = offset else { return Ok(None) };
        let spaces = &self.recording.metadata.spaces;
        match spaces.iter().position(|s| s.name.eq_ignore_ascii_case(space)) {
            Some(n) => Ok(Some((n as u64, u64::from(offset)))),
            None => {
                let typed = TypedText {
                    text: space.to_owned(),
                    ..name.clone()
                };
                Err(unknown("space", &typed, spaces.iter().map(|s| s.name.as_str())))
            }
        }
    }

    /// Compiles a word that is not a keyword: a register, a field of it, a part of register names, or a location.
    pub(super) fn compile_register(&self, t: &Test) -> Result<Check, FilterError> {
        let name = &t.left;
        if let Some(place) = self.find_place(name)? {
            return compile_place(t, place);
        }
        let device = self.device.ok_or_else(|| no_map_error(name))?;
        let whole = find_fields(device.map(), &name.text);
        if is_bare(t) && (!whole.is_empty() || !name.text.contains('.')) {
            return self.compile_register_name(name, device, &whole);
        }
        if !whole.is_empty() {
            return compile_register_value(t, device, &whole);
        }
        match name.text.rsplit_once('.') {
            Some((register, field)) => compile_field(t, device, register, field),
            None => Err(self.unknown_name_error(name, device.map())),
        }
    }

    /// Compiles a name without a condition: accesses to the registers whose names contain it.
    fn compile_register_name(
        &self,
        name: &TypedText,
        device: RecordedRegisters,
        whole: &[RegisterBits<'_>],
    ) -> Result<Check, FilterError> {
        let lower = name.text.to_lowercase();
        let meant = RegisterTest::Holds(lower.clone());
        if device.map().any_register(|r| meant.register(r)) {
            return Ok(Check::Registers(Arc::new(Registers::new(device, meant, false))));
        }
        // `JS_COMMAND` stands for that register of every slot, and no register name contains it.
        if !whole.is_empty() {
            let meant = RegisterTest::Named(vec![lower]);
            return Ok(Check::Registers(Arc::new(Registers::new(device, meant, false))));
        }
        Err(self.unknown_name_error(name, device.map()))
    }

    fn unknown_name_error(&self, name: &TypedText, map: &RegisterMap) -> FilterError {
        let known = known_names(map, false);
        let all = words().chain(known.iter().map(String::as_str));
        unknown("field, kind of event or register", name, all)
    }
}

/// Returns whether a test is a name alone.
fn is_bare(t: &Test) -> bool {
    t.condition == Condition::Bare && t.mask.is_none()
}

/// Compiles a test of the accesses to a space and offset, and of their value if it has a condition.
fn compile_place(t: &Test, (space, offset): (u64, u64)) -> Result<Check, FilterError> {
    let is = |column, n| Check::Number(column, NumberTest::new(None, vec![(n, n)], false));
    let mut all = vec![is(Column::Space, space), is(Column::Offset, offset)];
    if !is_bare(t) {
        let test = numbers(t, false, &|v| Err(kind_error(t, "a number", v.span.clone())))?;
        all.push(Check::Number(Column::Value, test));
    }
    Ok(Check::And(all))
}

/// Returns the error of a word that is not a keyword, in a recording without a register map.
fn no_map_error(name: &TypedText) -> FilterError {
    let what = match nearest(&name.text, words()) {
        Some(near) => FilterErrorKind::Unknown {
            what: "field or kind of event",
            word: name.text.clone(),
            near: Some(near.to_owned()),
        },
        None => FilterErrorKind::NoMap(name.text.clone()),
    };
    FilterError::new(what, name.span.clone())
}

/// Compiles a test of the values of whole registers.
fn compile_register_value(
    t: &Test,
    device: RecordedRegisters,
    whole: &[RegisterBits<'_>],
) -> Result<Check, FilterError> {
    let layout = whole.first().map(|w| w.layout);
    let only = layout.and_then(only_enum);
    let values = |value: &TypedText| match only {
        Some(names) => enum_value(names, value),
        None => Err(kind_error(t, "a number", value.span.clone())),
    };
    let test = numbers(t, false, &values)?;
    let test = FieldTest::new(device, whole, None, FieldEncoding::Plain, test);
    Ok(Check::Part(Arc::new(test)))
}

/// Compiles a test of a field of a register. `t` names both: `register.field`.
fn compile_field(t: &Test, device: RecordedRegisters, register: &str, field: &str) -> Result<Check, FilterError> {
    let (name, map) = (&t.left, device.map());
    let whole = find_fields(map, register);
    let Some(layout) = whole.first().map(|w| w.layout) else {
        let known = known_names(map, false);
        let typed = TypedText {
            text: register.to_owned(),
            span: name.span.start..name.span.end.saturating_sub(field.len() + 1),
            quoted: false,
        };
        return Err(unknown("register", &typed, known.iter().map(String::as_str)));
    };
    let Some(f) = layout.fields.iter().find(|f| f.name.eq_ignore_ascii_case(field)) else {
        return Err(no_field_error(name, register, field, layout));
    };
    let values = |value: &TypedText| match &f.kind {
        FieldKind::Enum(names) => field_value(names, f.written.as_deref(), value),
        FieldKind::Bool => match value.text.to_ascii_lowercase().as_str() {
            "yes" | "true" | "on" => Ok(1),
            "no" | "false" | "off" => Ok(0),
            _ => Err(kind_error(t, "yes, no or a number", value.span.clone())),
        },
        _ => Err(kind_error(t, "a number", value.span.clone())),
    };
    let (test, shown) = if is_bare(t) {
        // A field alone tests that it is set.
        (NumberTest::new(None, vec![(0, 0)], true), FieldEncoding::Plain)
    } else {
        (numbers(t, false, &values)?, FieldEncoding::from_kind(&f.kind))
    };
    let test = FieldTest::new(device, &whole, Some((f.lo, f.hi)), shown, test);
    Ok(Check::Part(Arc::new(test)))
}

/// Returns the error of a field that a register does not have.
fn no_field_error(name: &TypedText, register: &str, field: &str, layout: &Layout) -> FilterError {
    let fields: Vec<String> = layout.fields.iter().map(|f| f.name.clone()).collect();
    let what = FilterErrorKind::NoField {
        register: register.to_owned(),
        field: field.to_owned(),
        near: nearest(field, fields.iter().map(String::as_str)).map(str::to_owned),
        fields,
    };
    let span = name.span.end.saturating_sub(field.len())..name.span.end;
    FilterError::new(what, span)
}

/// Returns the keywords that start a test.
fn words<'k>() -> impl Iterator<Item = &'k str> {
    let all = KEYWORDS.iter().filter(|w| w.meaning != Meaning::Operator);
    all.flat_map(|w| std::iter::once(w.name).chain(w.aliases.iter().copied()))
}

/// Returns the names by which registers, or their blocks, can be referenced.
pub(super) fn known_names(map: &RegisterMap, block: bool) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    if block {
        return map.first_members().map(|r| r.block.clone()).collect();
    }
    let _ = map.visit(|r| {
        all.insert(r.name.clone());
        all.extend(r.wide.as_ref().map(|w| w.name.clone()));
        all.extend(without_index(r).map(|n| n.to_uppercase()));
        ControlFlow::<()>::Continue(())
    });
    all
}

/// Returns the value names of a register that has exactly one field, if that field has value names.
pub(super) fn only_enum(layout: &Layout) -> Option<&[(u64, String)]> {
    match layout.fields.as_ref() {
        [only] => match &only.kind {
            FieldKind::Enum(names) => Some(names),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the value of a field that a name stands for: in reads, else in writes.
fn field_value(names: &NamedValues, written: Option<&NamedValues>, value: &TypedText) -> Result<u64, FilterError> {
    let is_written = |list: &&NamedValues| list.iter().any(|(_, n)| n.eq_ignore_ascii_case(&value.text));
    let in_reads = names.iter().any(|(_, n)| n.eq_ignore_ascii_case(&value.text));
    let list = written.filter(is_written).filter(|_| !in_reads);
    enum_value(list.unwrap_or(names), value)
}

fn enum_value(names: &[(u64, String)], value: &TypedText) -> Result<u64, FilterError> {
    let found = names.iter().find(|(_, n)| n.eq_ignore_ascii_case(&value.text));
    let unknown = || unknown("value of this field", value, names.iter().map(|(_, n)| n.as_str()));
    found.map(|(v, _)| *v).ok_or_else(unknown)
}

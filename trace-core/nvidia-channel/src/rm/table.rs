//! The embedded tables of requests and structs, in `assets/registers/nvidia/`.
//!
//! `requests.txt` has a line for each request: `rm NUMBER NAME [STRUCT...]` and `uvm NUMBER NAME [STRUCT]` for ioctls,
//! `alloc CLASS STRUCT` for parameters of allocations, `control COMMAND STRUCT` for those of control commands. A struct
//! with `*` may be repeated. `structs.txt` has `struct NAME BYTES BRANCH...`, followed by a line
//! ` OFFSET TYPE NAME` for each field. A type is `u8`, `i32`, `ptr` and so on, with `[COUNT]` for an array.

use super::DriverBranch;
use super::request::Request;
use super::structure::{FieldKind, Structure, StructureField};
use crate::table::TableError;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

/// Maximum number of elements in an array.
const MAX_ELEMENTS: usize = 1 << 16;

/// The embedded tables, parsed at first use.
pub(super) static TABLES: LazyLock<Result<Tables, TableError>> = LazyLock::new(|| {
    Tables::parse(
        include_str!("../../../../assets/registers/nvidia/requests.txt"),
        include_str!("../../../../assets/registers/nvidia/structs.txt"),
    )
});

/// Requests and structs.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Ioctls of the resource manager by number.
    pub rm: BTreeMap<u32, Request>,
    /// Ioctls of unified memory by number.
    pub uvm: BTreeMap<u32, Request>,
    /// Structs of allocations by class.
    pub allocations: BTreeMap<u32, &'static str>,
    /// Structs of control commands by command.
    pub controls: BTreeMap<u32, &'static str>,
    /// Forms of a struct by name; each branch has at most one.
    pub structures: HashMap<&'static str, Vec<Structure>>,
}

impl Tables {
    fn parse(requests: &'static str, structures: &'static str) -> Result<Self, TableError> {
        let mut tables = Self::default();
        for (n, line) in requests.lines().enumerate() {
            tables.read_request(line).ok_or_else(|| error(n, line))?;
        }
        let mut last = None;
        for (n, line) in structures.lines().enumerate() {
            tables.read_structure(line, &mut last).ok_or_else(|| error(n, line))?;
        }
        Ok(tables)
    }

    fn read_request(&mut self, line: &'static str) -> Option<()> {
        let mut words = line.split_ascii_whitespace();
        let kind = words.next()?;
        let number = u32::from_str_radix(words.next()?, 16).ok()?;
        let name = words.next()?;
        match kind {
            "rm" | "uvm" => {
                let structures: Vec<&'static str> = words.collect();
                let request = Request {
                    number,
                    name,
                    repeated: structures.iter().any(|s| s.ends_with('*')),
                    structures: structures.iter().map(|s| s.trim_end_matches('*')).collect(),
                };
                let table = if kind == "rm" { &mut self.rm } else { &mut self.uvm };
                table.insert(number, request);
            }
            "alloc" => _ = self.allocations.insert(number, name),
            "control" => _ = self.controls.insert(number, name),
            _ => return None,
        }
        Some(())
    }

    /// Reads a line of a struct; `last` is the name of the struct that fields belong to.
    fn read_structure(&mut self, line: &'static str, last: &mut Option<&'static str>) -> Option<()> {
        let mut words = line.split_ascii_whitespace();
        let head = words.next()?;
        if head == "struct" {
            let name = words.next()?;
            let structure = Structure {
                name,
                bytes: words.next()?.parse().ok()?,
                branches: words.map(DriverBranch::from_version).collect::<Option<_>>()?,
                fields: Vec::new(),
            };
            self.structures.entry(name).or_default().push(structure);
            *last = Some(name);
            return Some(());
        }
        let structure = self.structures.get_mut((*last)?)?.last_mut()?;
        let (kind, count) = parse_type(words.next()?)?;
        let field = StructureField {
            name: words.next()?,
            offset: head.parse().ok()?,
            kind,
            count,
        };
        let bytes = kind.bytes().checked_mul(count.unwrap_or(1))?;
        let fits = field.offset.checked_add(bytes)? <= structure.bytes;
        structure.fields.push(field);
        fits.then_some(())
    }
}

fn error(index: usize, line: &str) -> TableError {
    TableError {
        line: index + 1,
        text: line.to_owned(),
    }
}

/// Parses `u32` or `u32[4]`.
fn parse_type(word: &str) -> Option<(FieldKind, Option<usize>)> {
    let (kind, count) = match word.split_once('[') {
        Some((kind, count)) => {
            let count = count.strip_suffix(']')?.parse().ok()?;
            (kind, Some(count).filter(|c| (1..=MAX_ELEMENTS).contains(c))?)
        }
        None => return Some((parse_kind(word)?, None)),
    };
    Some((parse_kind(kind)?, Some(count)))
}

fn parse_kind(word: &str) -> Option<FieldKind> {
    Some(match word {
        "ptr" => FieldKind::Pointer,
        "u8" => FieldKind::Unsigned(1),
        "u16" => FieldKind::Unsigned(2),
        "u32" => FieldKind::Unsigned(4),
        "u64" => FieldKind::Unsigned(8),
        "i8" => FieldKind::Signed(1),
        "i16" => FieldKind::Signed(2),
        "i32" => FieldKind::Signed(4),
        "i64" => FieldKind::Signed(8),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_tables_are_sound() {
        let tables = TABLES.as_ref().unwrap();
        let ioctls = tables.rm.values().chain(tables.uvm.values());
        let structures = ioctls.flat_map(|r| r.structures.iter());
        let structures = structures
            .chain(tables.allocations.values())
            .chain(tables.controls.values());
        for name in structures {
            assert!(tables.structures.contains_key(name), "{name}");
        }
        for forms in tables.structures.values() {
            let branches: Vec<&DriverBranch> = forms.iter().flat_map(|s| &s.branches).collect();
            let mut once = branches.clone();
            once.sort();
            once.dedup();
            assert_eq!(once.len(), branches.len(), "{:?}", forms[0].name);
        }
    }

    #[test]
    fn damaged_lines_are_named() {
        for (requests, structures) in [
            ("rm zz A", ""),
            ("other 1 A", ""),
            ("", "struct A 4 999"),
            ("", " 0 u32 a"),
            ("", "struct A 4 580\n 0 u64 a"),
            ("", "struct A 4 580\n 0 u32[0] a"),
            ("", "struct A 4 580\n 0 u24 a"),
        ] {
            let line = requests.lines().count().max(structures.lines().count());
            assert_eq!(
                Tables::parse(requests, structures).map(|_| ()).map_err(|e| e.line),
                Err(line),
                "{structures}"
            );
        }
    }
}

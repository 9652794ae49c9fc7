//! Reading of a description: checks of its content, and the form that the walker uses.

use super::error::FormatError;
use super::format::{MAX_FORMAT_BYTES, MAX_INDEX_BITS, MAX_LEVELS, PageTableFormat, RightCondition};
use super::raw::{RawBits, RawField, RawFieldBits, RawFormat, RawRight, RawRule, RawTable, RawTarget};
use super::table::{BitPlacement, BitRun, EntryField, EntryPart, EntryRule, RuleTarget, TableKind};
use std::collections::HashMap;
use toml::Spanned;

/// Maximum number of kinds of tables, of rules of a part, and of fields of a table.
const MAX_TABLES: usize = 32;
const MAX_RULES: usize = 64;
const MAX_FIELDS: usize = 64;
/// Maximum size of a table, bytes.
const MAX_TABLE_BYTES: u64 = 1 << 28;
/// Maximum length of a name or a title, bytes.
const MAX_NAME: usize = 64;
/// Smallest and largest page, as base-2 logarithms: recordings hold pages of 4 KiB.
const MIN_PAGE_LOG: u32 = 12;
const MAX_PAGE_LOG: u32 = 39;

/// A location in the text.
struct Location<'a> {
    text: &'a str,
    byte: usize,
    item: String,
}

impl Location<'_> {
    fn error(&self, reason: impl Into<String>) -> FormatError {
        FormatError::Content {
            line: line_of(self.text, self.byte),
            item: self.item.clone(),
            reason: reason.into(),
        }
    }
}

fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    before.iter().filter(|b| **b == b'\n').count() + 1
}

impl PageTableFormat {
    /// Reads a description, a TOML text.
    ///
    /// # Errors
    /// If the text is longer than [`MAX_FORMAT_BYTES`] or is no description. The error names the line and what is missing.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        if text.len() > MAX_FORMAT_BYTES {
            return Err(FormatError::TooLong {
                bytes: text.len(),
                limit: MAX_FORMAT_BYTES,
            });
        }
        let raw: RawFormat = toml::from_str(text).map_err(|e| FormatError::Syntax {
            line: e.span().map_or(1, |s| line_of(text, s.start)),
            reason: e.message().trim().replace('\n', "; "),
        })?;
        Compiler { text, raw: &raw }.compile()
    }
}

/// The work on one description.
struct Compiler<'a> {
    text: &'a str,
    raw: &'a RawFormat,
}

impl<'a> Compiler<'a> {
    fn at<T>(&self, value: &Spanned<T>, item: impl Into<String>) -> Location<'a> {
        Location {
            text: self.text,
            byte: value.span().start,
            item: item.into(),
        }
    }

    fn compile(&self) -> Result<PageTableFormat, FormatError> {
        let raw = self.raw;
        let at = self.at(&raw.name, "name");
        check_name(&at, raw.name.get_ref())?;
        let at = self.at(&raw.title, "title");
        if raw.title.get_ref().is_empty() || raw.title.get_ref().len() > MAX_NAME {
            return Err(at.error(format!("a title has 1 to {MAX_NAME} bytes")));
        }
        let address_bits = *raw.address_bits.get_ref();
        if !(MIN_PAGE_LOG + 1..=64).contains(&address_bits) {
            return Err(self.at(&raw.address_bits, "address_bits").error(format!(
                "{address_bits} is not a number of address bits (expected 13 to 64)"
            )));
        }
        let at = self.at(&raw.rights, "rights");
        let right = |r: &RawRight| right(&at, r);
        let rights = raw.rights.get_ref();
        let access_flag = match &raw.access_flag {
            Some(bits) => {
                let at = self.at(bits, "access_flag");
                let (high, low) = bit_range(&at, bits.get_ref(), 64)?;
                run_mask(high, low)
            }
            None => 0,
        };
        let tables = self.tables()?;
        let (root, levels) = self.levels(&tables, address_bits)?;
        Ok(PageTableFormat {
            name: raw.name.get_ref().clone(),
            title: raw.title.get_ref().clone(),
            address_bits: address_bits as u8,
            extension: raw.upper_bits,
            root,
            memory: raw.memory,
            entry_layout: raw.entry_layout.clone(),
            restricting: raw.table_rights_restrict,
            access_flag,
            read: right(&rights.read)?,
            write: right(&rights.write)?,
            execute: rights.execute.as_ref().map_or(Ok(RightCondition::NEVER), right)?,
            has_execute: rights.execute.is_some(),
            tables,
            levels,
            sources: raw.sources.clone(),
        })
    }

    fn tables(&self) -> Result<Vec<TableKind>, FormatError> {
        let raw = self.raw;
        let Some(first) = raw.table.first() else {
            return Err(self.at(&raw.name, "table").error("there is no [[table]]"));
        };
        if raw.table.len() > MAX_TABLES {
            return Err(self
                .at(first, "table")
                .error(format!("there are {} tables, more than {MAX_TABLES}", raw.table.len())));
        }
        let mut numbers = HashMap::new();
        for (number, table) in (0u8..).zip(&raw.table) {
            let name = table.get_ref().name.as_str();
            let at = self.at(table, format!("table {name}"));
            check_name(&at, name)?;
            if numbers.insert(name, number).is_some() {
                return Err(at.error("two tables have this name"));
            }
        }
        raw.table.iter().map(|t| self.table(t, &numbers)).collect()
    }

    fn table(&self, spanned: &Spanned<RawTable>, numbers: &HashMap<&str, u8>) -> Result<TableKind, FormatError> {
        let table = spanned.get_ref();
        let at = self.at(spanned, format!("table {}", table.name));
        let (high, low) = bit_range(&at, &table.index, 64)?;
        let index_bits = high - low + 1;
        if index_bits > MAX_INDEX_BITS {
            return Err(at.error(format!(
                "its index has {index_bits} bits (expected at most {MAX_INDEX_BITS})"
            )));
        }
        if !matches!(table.entry_bytes, 4 | 8 | 16) {
            return Err(at.error(format!("entry_bytes is {} (expected 4, 8 or 16)", table.entry_bytes)));
        }
        let stride = table.stride.unwrap_or(table.entry_bytes);
        if !stride.is_power_of_two() || !(table.entry_bytes..=4096).contains(&stride) {
            return Err(at.error(format!(
                "stride is {stride} (expected a power of two from {} to 4096)",
                table.entry_bytes
            )));
        }
        let bytes = u64::from(stride) << index_bits;
        if bytes > MAX_TABLE_BYTES {
            return Err(at.error(format!(
                "a table has {bytes} bytes (expected at most {MAX_TABLE_BYTES})"
            )));
        }
        let whole = table.entry_bytes.min(8);
        let mut parts = Vec::new();
        match (table.rule.is_empty(), table.part.as_slice()) {
            (false, []) => parts.push(self.part(&at, (0, whole), &table.rule, numbers)?),
            (true, [_] | [_, _]) => {
                for part in &table.part {
                    let at = self.at(part, format!("table {}, part", table.name));
                    let (offset, bytes) = (part.get_ref().offset, part.get_ref().bytes.unwrap_or(whole));
                    let fits = offset.checked_add(bytes).is_some_and(|end| end <= table.entry_bytes);
                    if !matches!(bytes, 4 | 8) || !fits || !offset.is_multiple_of(bytes) {
                        return Err(at.error(format!(
                            "{bytes} bytes at offset {offset} are no part of an entry of {} bytes",
                            table.entry_bytes
                        )));
                    }
                    parts.push(self.part(&at, (offset, bytes), &part.get_ref().rule, numbers)?);
                }
            }
            (false, _) => return Err(at.error("it has rules of its own and parts (expected one of them)")),
            (true, []) => return Err(at.error("it has no [[table.rule]]")),
            (true, _) => return Err(at.error("it has more than two parts")),
        }
        let has_page = |p: &EntryPart| p.rules.iter().any(|r| r.target == RuleTarget::Page);
        if let [_, second] = parts.as_slice()
            && has_page(second)
        {
            return Err(at.error("the second part of its entries has a page (only the first part may)"));
        }
        if parts.iter().any(has_page) && !(MIN_PAGE_LOG..=MAX_PAGE_LOG).contains(&low) {
            return Err(at.error(format!(
                "its pages have 2^{low} bytes (expected 2^{MIN_PAGE_LOG} to 2^{MAX_PAGE_LOG})"
            )));
        }
        let has_table = |p: &EntryPart| p.rules.iter().any(|r| matches!(r.target, RuleTarget::Table(_)));
        let attribute = match (&table.attribute, &self.raw.attribute) {
            (Some(own), _) => placement(&at, own, 64)?,
            (None, Some(general)) => placement(&self.at(general, "attribute"), general.get_ref(), 64)?,
            (None, None) => BitPlacement::default(),
        };
        if placed_bits(&attribute) > 8 {
            return Err(at.error("its attribute has more than 8 bits"));
        }
        Ok(TableKind {
            name: table.name.clone(),
            shift: low as u8,
            index_bits: index_bits as u8,
            stride_log: stride.trailing_zeros() as u8,
            entry_bytes: table.entry_bytes as u8,
            is_last: !parts.iter().any(has_table),
            parts,
            attribute,
            fields: self.fields(table.fields.as_ref().unwrap_or(&self.raw.fields))?,
        })
    }

    fn part(
        &self,
        at: &Location<'_>,
        (offset, bytes): (u32, u32),
        rules: &[Spanned<RawRule>],
        numbers: &HashMap<&str, u8>,
    ) -> Result<EntryPart, FormatError> {
        if rules.is_empty() || rules.len() > MAX_RULES {
            return Err(at.error(format!("it has {} rules (expected 1 to {MAX_RULES})", rules.len())));
        }
        let rules = rules.iter().map(|spanned| {
            let rule = spanned.get_ref();
            let at = self.at(spanned, at.item.clone() + ", rule");
            let (mask, value) = pattern(&at, &rule.when, bytes * 8)?;
            if rule.name.len() > MAX_NAME {
                return Err(at.error(format!("its name has more than {MAX_NAME} bytes")));
            }
            let target = match (rule.target, &rule.table) {
                (RawTarget::Invalid, None) => RuleTarget::Invalid,
                (RawTarget::Hole, None) => RuleTarget::Hole,
                (RawTarget::Page, None) => RuleTarget::Page,
                (RawTarget::Table, Some(name)) => match numbers.get(name.as_str()) {
                    Some(number) => RuleTarget::Table(*number),
                    None => return Err(at.error(format!("there is no [[table]] of the name '{name}'"))),
                },
                (RawTarget::Table, None) => return Err(at.error("a rule for a table lacks `table = NAME`")),
                (_, Some(_)) => return Err(at.error("only a rule for a table has `table`")),
            };
            let points = matches!(target, RuleTarget::Page | RuleTarget::Table(_));
            match (points, rule.address.is_empty(), rule.memory, self.raw.memory) {
                (true, true, ..) => return Err(at.error("it lacks `address = { \"HIGH:LOW\" = POSITION }`")),
                (false, false, ..) => return Err(at.error("an entry that maps nothing has no address")),
                (false, _, Some(_), _) => return Err(at.error("an entry that maps nothing has no memory")),
                (true, _, Some(_), None) => {
                    return Err(at.error("it names a memory, but the format lacks `memory`, the one that a dump holds"));
                }
                (true, _, None, Some(_)) => return Err(at.error("it lacks `memory`, which the format has")),
                _ => {}
            }
            Ok(EntryRule {
                mask,
                value,
                target,
                address: placement(&at, &rule.address, bytes * 8)?,
                memory: rule.memory,
                name: rule.name.clone(),
            })
        });
        let mut part = EntryPart {
            offset: offset as u8,
            bytes: bytes as u8,
            rules: rules.collect::<Result<_, _>>()?,
            zero_is_invalid: false,
        };
        part.zero_is_invalid = part.find_rule(0).is_some_and(|(_, r)| r.target == RuleTarget::Invalid);
        Ok(part)
    }

    fn fields(&self, fields: &[Spanned<RawField>]) -> Result<Vec<EntryField>, FormatError> {
        if let Some(extra) = fields.get(MAX_FIELDS) {
            return Err(self.at(extra, "fields").error(format!("more than {MAX_FIELDS} fields")));
        }
        let field = |spanned: &Spanned<RawField>| {
            let field = spanned.get_ref();
            let at = self.at(spanned, format!("field {}", field.name));
            check_name(&at, &field.name)?;
            let bits = match &field.bits {
                RawFieldBits::Run(run) => placement(&at, &RawBits::from([(run.clone(), 0)]), 64)?,
                RawFieldBits::Runs(runs) => placement(&at, runs, 64)?,
            };
            let mut values = Vec::with_capacity(field.values.len());
            for (value, name) in &field.values {
                let parsed = match value.strip_prefix("0x") {
                    Some(digits) => u64::from_str_radix(digits, 16),
                    None => value.parse(),
                };
                let parsed = parsed.map_err(|_| at.error(format!("the value '{value}' is not a number")))?;
                values.push((parsed, name.clone()));
            }
            Ok(EntryField {
                name: field.name.clone(),
                bits,
                values,
            })
        };
        fields.iter().map(field).collect()
    }

    /// Checks that tables follow each other without gaps, and returns the number of the top table and the kinds of
    /// tables of each level.
    fn levels(&self, tables: &[TableKind], address_bits: u32) -> Result<(u8, Vec<Vec<u8>>), FormatError> {
        let raw = self.raw;
        let at = self.at(&raw.root, "root");
        let name = raw.root.get_ref();
        let Some(root) = tables.iter().position(|t| t.name == *name) else {
            return Err(at.error(format!("there is no [[table]] of the name '{name}'")));
        };
        for (spanned, table) in raw.table.iter().zip(tables) {
            let at = self.at(spanned, format!("table {}", table.name));
            let mut targets = Vec::new();
            for part in &table.parts {
                for rule in &part.rules {
                    let RuleTarget::Table(number) = rule.target else {
                        continue;
                    };
                    let Some(next) = tables.get(usize::from(number)) else {
                        continue;
                    };
                    let end = u32::from(next.shift) + u32::from(next.index_bits);
                    if end != u32::from(table.shift) {
                        return Err(at.error(format!(
                            "an entry covers 2^{} bytes, but the table {} that it points to covers 2^{end}",
                            table.shift, next.name
                        )));
                    }
                    if !rule
                        .address
                        .keeps_alignment(u32::from(next.entry_bytes).trailing_zeros())
                    {
                        return Err(at.error(format!(
                            "the address of the table {} has bits below the size of an entry, {} bytes",
                            next.name, next.entry_bytes
                        )));
                    }
                    targets.push((part.offset, next));
                }
            }
            if let [first, second] = table.parts.as_slice() {
                let of = |offset: u8| targets.iter().filter(move |(o, _)| *o == offset).map(|(_, t)| *t);
                let simple = of(first.offset).all(|t| t.is_last && t.parts.len() == 1);
                if !simple || of(second.offset).any(|t| t.parts.len() != 1) {
                    return Err(
                        at.error("tables below an entry of two parts have entries of one part, the first no tables")
                    );
                }
                let smallest = of(first.offset).map(|t| t.shift).min();
                if of(second.offset).any(|t| Some(t.shift) > smallest) {
                    return Err(at.error("the first part of an entry points to the table with the larger pages"));
                }
            }
        }
        let top = tables
            .get(root)
            .map_or(0, |t| u32::from(t.shift) + u32::from(t.index_bits));
        if top != address_bits {
            return Err(at.error(format!(
                "the table {name} translates {top} address bits (address_bits is {address_bits})"
            )));
        }
        // Each level has lower address bits than the one above, so this ends.
        let mut levels = Vec::new();
        let mut level = vec![root as u8];
        while !level.is_empty() {
            if levels.len() >= MAX_LEVELS {
                return Err(at.error(format!("there are more than {MAX_LEVELS} levels")));
            }
            let mut next: Vec<u8> = level
                .iter()
                .filter_map(|n| tables.get(usize::from(*n)))
                .flat_map(|t| &t.parts)
                .flat_map(|p| &p.rules)
                .filter_map(|r| match r.target {
                    RuleTarget::Table(number) => Some(number),
                    _ => None,
                })
                .collect();
            next.sort_unstable();
            next.dedup();
            levels.push(std::mem::replace(&mut level, next));
        }
        Ok((root as u8, levels))
    }
}

impl BitPlacement {
    /// Whether the lowest bits of the number are zero.
    fn keeps_alignment(&self, bits: u32) -> bool {
        let runs = std::iter::once(&self.first).chain(&self.more);
        runs.filter(|r| r.mask != 0).all(|r| u32::from(r.at) >= bits)
    }
}

fn check_name(at: &Location<'_>, name: &str) -> Result<(), FormatError> {
    let is_fit = |c: char| c.is_ascii_graphic() || c == ' ';
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_fit) {
        return Err(at.error(format!("a name has 1 to {MAX_NAME} characters of ASCII")));
    }
    Ok(())
}

/// Returns the highest and the lowest bit of `HIGH:LOW` or `BIT`.
fn bit_range(at: &Location<'_>, text: &str, width: u32) -> Result<(u32, u32), FormatError> {
    let (high, low) = text.split_once(':').unwrap_or((text, text));
    let bit = |t: &str| t.trim().parse::<u32>().ok().filter(|b| *b < width);
    match (bit(high), bit(low)) {
        (Some(high), Some(low)) if high >= low => Ok((high, low)),
        _ => Err(at.error(format!(
            "'{text}' are no bits (expected \"HIGH:LOW\" or \"BIT\", below {width})"
        ))),
    }
}

fn run_mask(high: u32, low: u32) -> u64 {
    u64::MAX >> (63 - (high - low)) << low
}

/// Returns mask and value of the bits of a condition.
fn pattern(at: &Location<'_>, bits: &RawBits, width: u32) -> Result<(u64, u64), FormatError> {
    let (mut mask, mut value) = (0, 0);
    for (text, expected) in bits {
        let (high, low) = bit_range(at, text, width)?;
        let run = run_mask(high, low);
        if mask & run != 0 {
            return Err(at.error(format!("the bits '{text}' are listed twice")));
        }
        if *expected > run >> low {
            return Err(at.error(format!("the bits '{text}' cannot be {expected}")));
        }
        mask |= run;
        value |= expected << low;
    }
    Ok((mask, value))
}

/// Returns the bits of a number by their positions.
fn placement(at: &Location<'_>, bits: &RawBits, width: u32) -> Result<BitPlacement, FormatError> {
    let mut runs = Vec::with_capacity(bits.len());
    let (mut mask, mut number) = (0u64, 0u64);
    for (text, position) in bits {
        let (high, low) = bit_range(at, text, width)?;
        let run = run_mask(high, low);
        let top = position.saturating_add(u64::from(high - low));
        if top > 63 {
            return Err(at.error(format!("the bits '{text}' at position {position} exceed 64 bits")));
        }
        let placed = run >> low << position;
        if mask & run != 0 || number & placed != 0 {
            return Err(at.error(format!("the bits '{text}' overlap others")));
        }
        mask |= run;
        number |= placed;
        runs.push(BitRun {
            mask: run,
            low: low as u8,
            at: *position as u8,
        });
    }
    let mut runs = runs.into_iter();
    Ok(BitPlacement {
        mask,
        first: runs.next().unwrap_or_default(),
        more: runs.collect(),
    })
}

/// Returns the number of bits of the number of a placement.
fn placed_bits(placement: &BitPlacement) -> u32 {
    64 - placement.extract(u64::MAX).leading_zeros()
}

fn right(at: &Location<'_>, raw: &RawRight) -> Result<RightCondition, FormatError> {
    match raw {
        RawRight::Fixed(true) => Ok(RightCondition::ALWAYS),
        RawRight::Fixed(false) => Ok(RightCondition::NEVER),
        RawRight::When(cases) => match cases.as_slice() {
            [one] => Ok(RightCondition {
                first: pattern(at, one, 64)?,
                second: None,
            }),
            [one, two] => Ok(RightCondition {
                first: pattern(at, one, 64)?,
                second: Some(pattern(at, two, 64)?),
            }),
            _ => Err(at.error(format!("a right has {} cases (expected 1 or 2)", cases.len()))),
        },
    }
}

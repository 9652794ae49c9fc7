//! A table of operations on floats: special values and random bits, compared bit for bit between two devices.

use crate::error::MachineError;
use crate::machine::{Outcome, Settings};
use crate::target::CopyTarget;
use crate::world::{World, WorldError};
use std::fmt::Write as _;
use thiserror::Error;
use wasm_ptx::{CellSize, ExportedItem, InstanceId, MemoryId, Options};

/// Operand pairs of an operation.
const PAIRS: usize = 4096;
/// Operands of an operation that can trap: each is one call.
const TRAPPING_OPERANDS: usize = 512;
/// Bytes between two operands or results.
const SLOT_BYTES: usize = 8;
/// Bytes of a list of operands or results.
const LIST_BYTES: usize = PAIRS * SLOT_BYTES;
/// Number of lists: first and second operands of 32 and of 64 bits, results.
const LISTS: usize = 5;

const BINARY: [&str; 13] = [
    "add", "sub", "mul", "div", "min", "max", "copysign", "eq", "ne", "lt", "gt", "le", "ge",
];
const UNARY: [&str; 7] = ["sqrt", "abs", "neg", "ceil", "floor", "trunc", "nearest"];
/// Two operations, of which a compiler could make one, or whose NaN goes through bits: name, and text with `T` as the
/// type, `A` and `B` as operands.
const COMBINED: [(&str, &str); 6] = [
    ("add of mul", "(T.add (T.mul A B) A)"),
    ("sub of mul", "(T.sub A (T.mul B B))"),
    ("neg of sub", "(T.neg (T.sub A B))"),
    ("min of div", "(T.min (T.div A B) B)"),
    ("abs of sqrt", "(T.abs (T.sqrt (T.mul A B)))"),
    ("copysign of add", "(T.copysign (T.add A B) (T.div A B))"),
];

/// Operation of the table.
#[derive(Clone, Debug)]
struct Operation {
    name: String,
    /// Type of the operands.
    from: &'static str,
    /// Type of the result.
    to: &'static str,
    /// Text with the operands `A` and `B`.
    text: String,
    /// Some operands trap.
    traps: bool,
}

/// Results of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// Name of the operation, such as `f32.add`.
    pub name: String,
    /// Bits of each result, or the name of the trap.
    pub results: Vec<Result<u64, &'static str>>,
}

/// Why a table cannot be computed.
#[derive(Debug, Error)]
pub enum TableError {
    /// The program of the table is wrong, or the device fails.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The device fails.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The text of the program is wrong.
    #[error("the program of the table: {0}")]
    Text(#[from] wat::Error),
    /// A call ends in an unexpected way.
    #[error("{0}: {1:?}")]
    Outcome(String, Outcome),
}

/// A table with its operands.
#[derive(Clone, Debug)]
pub struct FloatTable {
    operations: Vec<Operation>,
    words: [Vec<u64>; 2],
    doubles: [Vec<u64>; 2],
}

/// Random numbers of a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn choose(&mut self, values: &[u64]) -> u64 {
        let index = self.next() % values.len().max(1) as u64;
        values.get(index as usize).copied().unwrap_or(0)
    }
}

/// A format of floats.
#[derive(Clone, Copy, Debug)]
struct Format {
    fraction_bits: u32,
    sign_bit: u32,
}

const FORMAT_32: Format = Format {
    fraction_bits: 23,
    sign_bit: 31,
};
const FORMAT_64: Format = Format {
    fraction_bits: 52,
    sign_bit: 63,
};

impl Format {
    /// Returns the bits of a number in this format.
    fn bits(self, value: f64) -> u64 {
        if self.sign_bit == 31 {
            u64::from((value as f32).to_bits())
        } else {
            value.to_bits()
        }
    }

    /// Returns zeros, limits, NaNs of both kinds, halves, and the numbers around the limits of integers.
    fn special(self) -> Vec<u64> {
        let one = 1u64 << self.fraction_bits;
        let infinity = (1u64 << self.sign_bit) - one;
        let quiet = infinity | (one >> 1);
        let mut magnitudes = vec![0, 1, 2, one - 1, one, one + 1, infinity - 1, infinity];
        magnitudes.extend([
            quiet,
            quiet | 1,
            infinity | 1,
            infinity | (one - 1),
            infinity | ((one >> 1) - 1),
            quiet | 0x1234,
        ]);
        let numbers = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 10.0, 0.1, 1.0e30, 1.0e-30];
        magnitudes.extend(numbers.map(|n| self.bits(n)));
        // One unit in the last place around what rounding and conversions treat in another way.
        for limit in [
            0.5,
            1.0,
            128.0,
            8_388_608.0,
            16_777_216.0,
            2_147_483_648.0,
            4_294_967_296.0,
        ] {
            let bits = self.bits(limit);
            magnitudes.extend([bits - 1, bits, bits + 1]);
        }
        for limit in [
            4.503_599_627_370_496e15,
            9.007_199_254_740_992e15,
            9.223_372_036_854_776e18,
            1.844_674_407_370_955_2e19,
        ] {
            let bits = self.bits(limit);
            magnitudes.extend([bits - 1, bits, bits + 1]);
        }
        let sign = 1u64 << self.sign_bit;
        magnitudes.iter().flat_map(|bits| [*bits, bits | sign]).collect()
    }

    /// Returns the operands: all special values first, then random ones.
    fn operands(self, random: &mut Random) -> [Vec<u64>; 2] {
        let special = self.special();
        let mask = (1u64 << self.sign_bit << 1).wrapping_sub(1);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for index in 0..PAIRS {
            let kind = random.next() % 8;
            let a = match special.get(index) {
                Some(bits) => *bits,
                None if kind < 3 => random.choose(&special),
                None if kind == 3 => self.bits((random.next() as i64 >> (random.next() % 63)) as f64 / 2.0),
                None => random.next() & mask,
            };
            let b = match random.next() % 8 {
                0..3 => random.choose(&special),
                // The same size: sums cancel, and quotients are near one.
                3 => a ^ (random.next() % 64),
                4 => (a ^ (random.next() & ((1 << self.fraction_bits) - 1))) ^ (1 << self.sign_bit),
                // Some places below: sums round.
                5 => a.wrapping_sub((random.next() % 60) << self.fraction_bits) & mask,
                _ => random.next() & mask,
            };
            first.push(a);
            second.push(b);
        }
        [first, second]
    }
}

fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    let mut add = |name: String, from, to, text: String, traps| {
        all.push(Operation {
            name,
            from,
            to,
            text,
            traps,
        });
    };
    for t in ["f32", "f64"] {
        for operation in BINARY {
            let is_comparison = operation.len() == 2;
            let to = if is_comparison { "i32" } else { t };
            add(
                format!("{t}.{operation}"),
                t,
                to,
                format!("({t}.{operation} A B)"),
                false,
            );
        }
        for operation in UNARY {
            add(format!("{t}.{operation}"), t, t, format!("({t}.{operation} A)"), false);
        }
        for (name, text) in COMBINED {
            add(format!("{t}: {name}"), t, t, text.replace('T', t), false);
        }
        for (integer, sign) in [("i32", "s"), ("i32", "u"), ("i64", "s"), ("i64", "u")] {
            for (operation, traps) in [("trunc_sat", false), ("trunc", true)] {
                let name = format!("{integer}.{operation}_{t}_{sign}");
                add(name.clone(), t, integer, format!("({name} A)"), traps);
            }
            let name = format!("{t}.convert_{integer}_{sign}");
            add(name.clone(), integer, t, format!("({name} A)"), false);
        }
    }
    let one = |name: &str| format!("({name} A)");
    for (name, from, to) in [
        ("f64.promote_f32", "f32", "f64"),
        ("f32.demote_f64", "f64", "f32"),
        ("i32.reinterpret_f32", "f32", "i32"),
        ("i64.reinterpret_f64", "f64", "i64"),
        ("f32.reinterpret_i32", "i32", "f32"),
        ("f64.reinterpret_i64", "i64", "f64"),
    ] {
        add(name.to_owned(), from, to, one(name), false);
    }
    all
}

/// Returns the first byte of the list of first operands of a type; the second operands stand behind it.
fn operand_list(t: &str) -> usize {
    if t.ends_with("32") { 0 } else { 2 * LIST_BYTES }
}

impl FloatTable {
    /// Returns the table of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        Self {
            operations: operations(),
            words: FORMAT_32.operands(&mut random),
            doubles: FORMAT_64.operands(&mut random),
        }
    }

    fn text(&self) -> String {
        let pages = (LISTS * LIST_BYTES).div_ceil(1 << 16);
        let results = 4 * LIST_BYTES;
        let mut text = format!("(module (memory (export \"memory\") {pages} {pages})\n");
        for Operation {
            name,
            from,
            to,
            text: body,
            traps,
        } in &self.operations
        {
            // Writing to a `String` cannot fail.
            let _ = if *traps {
                let body = body.replace('A', "(local.get 0)");
                writeln!(text, "(func (export \"{name}\") (param {from}) (result {to}) {body})")
            } else {
                let first = operand_list(from);
                let second = first + LIST_BYTES;
                let body = body
                    .replace('A', &format!("({from}.load offset={first} (local.get 0))"))
                    .replace('B', &format!("({from}.load offset={second} (local.get 0))"));
                writeln!(
                    text,
                    "(func (export \"{name}\") (local i32) (loop ({to}.store offset={results} (local.get 0) {body}) \
                     (br_if 0 (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const {SLOT_BYTES}))) \
                     (i32.const {LIST_BYTES})))))"
                )
            };
        }
        text.push(')');
        text
    }

    /// Computes the table on a device.
    ///
    /// # Errors
    ///
    /// Returns an error if the device fails.
    pub fn run<T: CopyTarget>(
        &self,
        target: T,
        cell: CellSize,
        settings: Settings,
    ) -> Result<Vec<TableRow>, TableError> {
        let options = Options {
            cell,
            ..Options::default()
        };
        let mut world = World::with_target(target, options, settings);
        let (instance, _) = world.add(&wat::parse_str(self.text())?)?;
        let machine = world.machine.as_mut();
        let machine = machine.ok_or(MachineError::Area("the program has no copy"))?;
        let memory = match machine.program.export(instance, "memory") {
            Some(ExportedItem::Memory(memory)) => memory,
            _ => MemoryId(0),
        };
        for (start, list) in (0..).step_by(LIST_BYTES).zip(self.words.iter().chain(&self.doubles)) {
            let bytes: Vec<u8> = list.iter().flat_map(|bits| bits.to_le_bytes()).collect();
            machine.fill_memory(memory, start, &bytes)?;
        }
        let mut call = |name: &str, arguments: &[u64]| {
            let outcome = machine.call_export(InstanceId(instance.0), name, arguments)?;
            outcome.ok_or(MachineError::Area("the program has no such function"))
        };
        let mut rows = Vec::new();
        for operation in self.operations.iter().filter(|o| o.traps) {
            let operands = if operation.from == "f32" {
                &self.words
            } else {
                &self.doubles
            };
            let mut results = Vec::new();
            for operand in operands.iter().flatten().take(TRAPPING_OPERANDS) {
                results.push(match call(&operation.name, &[*operand])? {
                    Outcome::Returned(values) => {
                        let bits = values.first().copied().unwrap_or(0);
                        Ok(if operation.to == "i32" {
                            bits & 0xffff_ffff
                        } else {
                            bits
                        })
                    }
                    Outcome::Trapped { kind, .. } => Err(kind.message()),
                    other => return Err(TableError::Outcome(operation.name.clone(), other)),
                });
            }
            rows.push(TableRow {
                name: operation.name.clone(),
                results,
            });
        }
        for operation in self.operations.iter().filter(|o| !o.traps) {
            match machine.call_export(instance, &operation.name, &[])? {
                Some(Outcome::Returned(_)) => {}
                Some(other) => return Err(TableError::Outcome(operation.name.clone(), other)),
                None => return Err(MachineError::Area("the program has no such function").into()),
            }
            let mut bytes = vec![0; LIST_BYTES];
            machine.read_memory(memory, 4 * LIST_BYTES as u32, &mut bytes)?;
            let narrow = operation.to.ends_with("32");
            let results = bytes.as_chunks::<8>().0.iter().map(|slot| {
                let bits = u64::from_le_bytes(*slot);
                Ok(if narrow { bits & 0xffff_ffff } else { bits })
            });
            rows.push(TableRow {
                name: operation.name.clone(),
                results: results.collect(),
            });
        }
        Ok(rows)
    }

    /// Describes the operands of a result.
    fn describe_operands(&self, name: &str, index: usize) -> String {
        let operation = self.operations.iter().find(|o| o.name == name);
        let is_narrow = operation.is_none_or(|o| o.from.ends_with("32"));
        let [first, second] = if is_narrow { &self.words } else { &self.doubles };
        let (a, b) = (first.get(index).copied(), second.get(index).copied());
        format!("{:#x}, {:#x}", a.unwrap_or(0), b.unwrap_or(0))
    }
}

/// Returns what differs between a table and the expected one, at most some lines for each operation.
#[must_use]
pub fn compare_tables(table: &FloatTable, expected: &[TableRow], found: &[TableRow]) -> Vec<String> {
    const SHOWN: usize = 3;
    let mut differences = Vec::new();
    for (expected, found) in expected.iter().zip(found) {
        let pairs = expected.results.iter().zip(&found.results).enumerate();
        let different: Vec<_> = pairs.filter(|(_, (e, f))| e != f).collect();
        if different.is_empty() && expected.results.len() == found.results.len() {
            continue;
        }
        differences.push(format!("{}: {} results differ", expected.name, different.len()));
        differences.extend(
            different
                .iter()
                .take(SHOWN)
                .map(|(index, (expected_bits, found_bits))| {
                    let operands = table.describe_operands(&expected.name, *index);
                    format!(
                        "  {}({operands}): expected {expected_bits:x?}, found {found_bits:x?}",
                        expected.name
                    )
                }),
        );
    }
    if expected.len() != found.len() {
        differences.push(format!("expected {} operations, found {}", expected.len(), found.len()));
    }
    differences
}

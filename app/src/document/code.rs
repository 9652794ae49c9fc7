//! The code of a job's shader as lines: one for each clause, one for each of its tuples.

use super::jobs::JobFact;
use super::lookup::memory_at;
use bifrost::{Unit, WORD_BYTES, header_text};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use trace_core::GpuVa;
use trace_core::jobs::{self, Code, CodeEnd, Stage};
use trace_core::recording::Recording;

/// Code that is read at once, in the frame that asks for it; longer code is read apart from the interface thread.
pub const MAX_SYNC_READ_BYTES: u64 = 16 << 10;

/// One of the shaders that a job's chain runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainShader {
    /// Place in the chain, from 0.
    pub position: usize,
    /// What it works on.
    pub stage: Stage,
    /// Where its code begins.
    pub entry: u64,
}

/// Maximum number of shaders of a chain that are told. Chains are short; one of a damaged recording need not be.
pub const MAX_CHAIN_SHADERS: usize = 4096;

/// The shaders that a job's chain runs, in order, [`MAX_CHAIN_SHADERS`] at most.
#[must_use]
pub fn list_chain_shaders(job: &JobFact) -> Vec<ChainShader> {
    let each = |(position, c): (usize, &super::jobs::ChainJob)| {
        let one = move |&(stage, entry): &(Stage, u64)| ChainShader { position, stage, entry };
        c.shaders.iter().map(one).collect::<Vec<_>>()
    };
    job.chain
        .iter()
        .enumerate()
        .flat_map(each)
        .take(MAX_CHAIN_SHADERS)
        .collect()
}

/// A line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A clause begins.
    Clause {
        /// Its number.
        clause: usize,
        /// Its header in words.
        header: Box<str>,
    },
    /// A tuple: what FMA does and what ADD does.
    Tuple {
        /// The clause's number.
        clause: usize,
        /// The tuple's number in the clause.
        tuple: usize,
        /// FMA's operation.
        fma: Box<str>,
        /// ADD's operation.
        add: Box<str>,
    },
}

impl Line {
    /// The number of the clause that the line belongs to.
    #[must_use]
    pub fn clause(&self) -> usize {
        match self {
            Self::Clause { clause, .. } | Self::Tuple { clause, .. } => *clause,
        }
    }
}

/// A shader's code as lines.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The code.
    pub code: Code,
    /// Its lines.
    pub lines: Vec<Line>,
    /// By clause: the line that it begins at.
    pub begins: Vec<usize>,
    /// By clause: the clauses that branch to it.
    pub sources: BTreeMap<usize, Vec<usize>>,
    /// Lines with an operation that is not known.
    pub unknown: Vec<usize>,
    /// Operations that are not known.
    pub unknown_operations: u64,
    /// All operations.
    pub operations: u64,
}

impl Listing {
    /// Lists code.
    #[must_use]
    pub fn new(code: Code) -> Self {
        let base = code.entry.0;
        let (mut lines, mut begins, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        let mut sources: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (n, c) in code.clauses.iter().enumerate() {
            begins.push(lines.len());
            lines.push(Line::Clause {
                clause: n,
                header: header_text(c.clause.header).into(),
            });
            for (tuple, t) in c.clause.tuples.iter().enumerate() {
                if t.fma.is_none() || t.add.is_none() {
                    unknown.push(lines.len());
                }
                let text = |unit| c.clause.instruction_text(tuple, unit, base).into();
                lines.push(Line::Tuple {
                    clause: n,
                    tuple,
                    fma: text(Unit::Fma),
                    add: text(Unit::Add),
                });
            }
            for to in c.targets.iter().filter_map(|t| code.at(t.0)) {
                sources.entry(to).or_default().push(n);
            }
        }
        Self {
            unknown_operations: code.unknown_operations().values().sum(),
            operations: code.operations(),
            code,
            lines,
            begins,
            sources,
            unknown,
        }
    }

    /// Reads the code at an address as it stood at an event.
    #[must_use]
    pub fn read(recording: &Recording, space: u32, event: u64, entry: u64, most: u64) -> Self {
        let entry = GpuVa(entry);
        Self::new(match memory_at(recording, space, event) {
            Some(memory) => jobs::decode_code_within(&memory, entry, most),
            None => Code {
                entry,
                clauses: Vec::new(),
                end: CodeEnd::Unreadable(entry),
            },
        })
    }

    /// How the text names a clause: by its distance from the entry in words of 16 bytes.
    #[must_use]
    pub fn label(&self, clause: usize) -> String {
        let at = self.address(clause).unwrap_or(self.code.entry.0);
        format!("clause_{}", at.wrapping_sub(self.code.entry.0) / WORD_BYTES as u64)
    }

    /// Address of a clause.
    #[must_use]
    pub fn address(&self, clause: usize) -> Option<u64> {
        self.code.clauses.get(clause).map(|c| c.clause.address)
    }

    /// The clause that the text names so.
    #[must_use]
    pub fn find_label(&self, label: &str) -> Option<usize> {
        let words: u64 = label.strip_prefix("clause_")?.parse().ok()?;
        let by = words.checked_mul(WORD_BYTES as u64)?;
        self.code.at(self.code.entry.0.checked_add(by)?)
    }

    /// Lines that hold a text, whatever the case of its letters: addresses, labels, headers, operations.
    #[must_use]
    pub fn find(&self, text: &str) -> Vec<usize> {
        let wanted = text.trim().to_ascii_lowercase();
        if wanted.is_empty() {
            return Vec::new();
        }
        let holds = |t: &str| t.to_ascii_lowercase().contains(&wanted);
        let hit = |line: &Line| match line {
            Line::Clause { clause, header } => {
                holds(header)
                    || holds(&self.label(*clause))
                    || self.address(*clause).is_some_and(|a| holds(&format!("{a:#x}")))
            }
            Line::Tuple { fma, add, .. } => holds(fma) || holds(add),
        };
        self.lines
            .iter()
            .enumerate()
            .filter(|(_, l)| hit(l))
            .map(|(n, _)| n)
            .collect()
    }

    /// The text of some clauses.
    #[must_use]
    pub fn text(&self, clauses: std::ops::Range<usize>) -> String {
        let mut out = String::new();
        let from = self.begins.get(clauses.start).copied().unwrap_or(self.lines.len());
        for line in self.lines.iter().skip(from).take_while(|l| l.clause() < clauses.end) {
            // Writing to a string cannot fail.
            let _ = match line {
                Line::Clause { clause, header } => {
                    let gap = if out.is_empty() { "" } else { "\n" };
                    let at = self.address(*clause).unwrap_or(0);
                    writeln!(out, "{gap}{}:  {at:#x}\n{header}", self.label(*clause))
                }
                Line::Tuple { fma, add, .. } => writeln!(out, "    {fma}\n    {add}"),
            };
        }
        out
    }
}

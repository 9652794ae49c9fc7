//! The disassembly listing of a job's shader: one line per clause and per tuple.

use crate::jobs::JobFact;
use crate::lookup::memory_at;
use bifrost::{Unit, WORD_BYTES, header_text};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use trace_core::GpuVa;
use trace_core::families::{ShaderStage, find_family};
use trace_core::recording::Recording;
use trace_core::shader_code::{Code, CodeEnd};

/// Maximum size of code that is read within a frame, bytes. Longer code is read off the interface thread.
pub const MAX_SYNC_READ_BYTES: u64 = 16 << 10;

/// A shader of a job's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainShader {
    /// Position in the chain, from 0.
    pub position: usize,
    /// Shader stage.
    pub stage: ShaderStage,
    /// Entry address of the code.
    pub entry: GpuVa,
}

/// Maximum number of listed shaders of a chain. Chains are short, but a chain of a damaged recording may not be.
pub const MAX_CHAIN_SHADERS: usize = 4096;

/// Lists the shaders of a job's chain in order, at most [`MAX_CHAIN_SHADERS`].
#[must_use]
pub fn list_chain_shaders(job: &JobFact) -> Vec<ChainShader> {
    let each = |(position, c): (usize, &crate::jobs::ChainJob)| {
        let one = move |&(stage, entry): &(ShaderStage, GpuVa)| ChainShader { position, stage, entry };
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
    /// Start of a clause.
    Clause {
        /// Number of the clause.
        clause: usize,
        /// Description of the clause header.
        header: Box<str>,
    },
    /// A tuple of an FMA and an ADD operation.
    Tuple {
        /// Number of the clause.
        clause: usize,
        /// Number of the tuple in the clause.
        tuple: usize,
        /// FMA operation.
        fma: Box<str>,
        /// ADD operation.
        add: Box<str>,
    },
}

impl Line {
    /// Returns the number of the clause of this line.
    #[must_use]
    pub fn clause(&self) -> usize {
        match self {
            Self::Clause { clause, .. } | Self::Tuple { clause, .. } => *clause,
        }
    }
}

/// A disassembly listing of a shader.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The code.
    pub code: Code,
    /// The lines.
    pub lines: Vec<Line>,
    /// First line of each clause.
    pub begins: Vec<usize>,
    /// For each clause, the clauses that branch to it.
    pub sources: BTreeMap<usize, Vec<usize>>,
    /// Lines with an unknown operation.
    pub unknown: Vec<usize>,
    /// Number of unknown operations.
    pub unknown_operations: u64,
    /// Number of all operations.
    pub operations: u64,
}

impl Listing {
    /// Creates the listing of decoded code.
    #[must_use]
    pub fn new(code: Code) -> Self {
        let base = code.entry.get();
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
            for to in c.targets.iter().filter_map(|t| code.at(*t)) {
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

    /// Reads the code at an address as memory held it at an event.
    #[must_use]
    pub fn read(recording: &Recording, space: u32, event: u64, entry: GpuVa, max: u64) -> Self {
        let memory = memory_at(recording, space, event);
        let code = memory.and_then(|memory| find_family(recording).decode_code(&memory, entry, max));
        Self::new(code.unwrap_or(Code {
            entry,
            clauses: Vec::new(),
            end: CodeEnd::Unreadable(entry),
        }))
    }

    /// Returns the label of a clause: its distance from the entry in words of 16 bytes.
    #[must_use]
    pub fn label(&self, clause: usize) -> String {
        let at = self.address(clause).unwrap_or(self.code.entry);
        format!(
            "clause_{}",
            at.wrapping_sub(self.code.entry.get()).get() / WORD_BYTES as u64
        )
    }

    /// Returns the address of a clause.
    #[must_use]
    pub fn address(&self, clause: usize) -> Option<GpuVa> {
        self.code.clauses.get(clause).map(|c| GpuVa::new(c.clause.address))
    }

    /// Returns the clause with this label.
    #[must_use]
    pub fn find_label(&self, label: &str) -> Option<usize> {
        let words: u64 = label.strip_prefix("clause_")?.parse().ok()?;
        let by = words.checked_mul(WORD_BYTES as u64)?;
        self.code.at(self.code.entry.checked_add(by)?)
    }

    /// Returns the lines that contain a text, ignoring case. Searches addresses, labels, headers and operations.
    #[must_use]
    pub fn find(&self, text: &str) -> Vec<usize> {
        let search = text.trim().to_ascii_lowercase();
        if search.is_empty() {
            return Vec::new();
        }
        let holds = |t: &str| t.to_ascii_lowercase().contains(&search);
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

    /// Returns the text of a range of clauses.
    #[must_use]
    pub fn text(&self, clauses: std::ops::Range<usize>) -> String {
        let mut out = String::new();
        let from = self.begins.get(clauses.start).copied().unwrap_or(self.lines.len());
        for line in self.lines.iter().skip(from).take_while(|l| l.clause() < clauses.end) {
            // Writing to a string cannot fail.
            let _ = match line {
                Line::Clause { clause, header } => {
                    let gap = if out.is_empty() { "" } else { "\n" };
                    let at = self.address(*clause).unwrap_or(GpuVa::ZERO);
                    writeln!(out, "{gap}{}:  {at:#x}\n{header}", self.label(*clause))
                }
                Line::Tuple { fma, add, .. } => writeln!(out, "    {fma}\n    {add}"),
            };
        }
        out
    }
}

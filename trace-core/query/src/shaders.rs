//! The table of shaders: one row for each operation of the code that each job runs.

use crate::batch::{BATCH, BatchSink, batch, column};
use crate::error::TableError;
use arrow_array::RecordBatch;
use bifrost::Unit;
use std::collections::HashSet;
use trace_core::Recording;
use trace_core::families::{self, ShaderStage};
use trace_core::progress::Progress;
use trace_core::registers::RegisterMap;
use trace_core::shader_code::{CodeClause, MAX_CODE};
use trace_core::timeline::Timeline;

/// Rows collected so far.
#[derive(Default)]
struct Rows {
    job: Vec<u32>,
    stage: Vec<&'static str>,
    shader: Vec<u64>,
    clause: Vec<u64>,
    tuple: Vec<u32>,
    unit: Vec<&'static str>,
    bits: Vec<u32>,
    known: Vec<bool>,
    reached: Vec<bool>,
    text: Vec<String>,
}

impl Rows {
    fn push(&mut self, (job, stage, entry): (u32, ShaderStage, u64), c: &CodeClause) {
        for (n, t) in c.clause.tuples.iter().enumerate() {
            let both = [
                (Unit::Fma, "FMA", t.fma_bits, t.fma.is_some()),
                (Unit::Add, "ADD", t.add_bits, t.add.is_some()),
            ];
            for (unit, name, bits, known) in both {
                self.job.push(job);
                self.stage.push(stage.name());
                self.shader.push(entry);
                self.clause.push(c.clause.address);
                self.tuple.push(n as u32);
                self.unit.push(name);
                self.bits.push(bits);
                self.known.push(known);
                self.reached.push(c.reachable);
                self.text.push(c.clause.instruction_text(n, unit, entry));
            }
        }
    }

    fn frame(self) -> Result<RecordBatch, TableError> {
        batch(vec![
            column("job", self.job),
            column("stage", self.stage),
            column("shader_va", self.shader),
            column("clause_va", self.clause),
            column("tuple", self.tuple),
            column("unit", self.unit),
            column("bits", self.bits),
            column("known", self.known),
            column("reached", self.reached),
            column("text", self.text),
        ])
    }
}

/// Builds the table. A shader that several jobs run has rows for each of them.
pub(crate) fn build_shader_table(
    recording: &Recording,
    timeline: &Timeline,
    progress: &Progress,
    take: &mut BatchSink<'_>,
) -> Result<(), TableError> {
    let events: Vec<u64> = timeline.jobs.iter().map(|s| s.submit_event).collect();
    let family = families::find_family(recording);
    let memory = RegisterMap::built_in_for(recording)
        .map(|map| families::memory_at_submits(recording, map, &events))
        .unwrap_or_default();
    progress.set_total(events.len() as u64);
    let mut rows = Rows::default();
    for (span, memory) in timeline.jobs.iter().zip(&memory) {
        progress.advance(1)?;
        let Some(memory) = memory else { continue };
        // The jobs of a chain often run the same shader.
        let mut seen = HashSet::new();
        let chain = family.read_chain(memory, span.head_va);
        for (stage, entry) in chain.iter().flat_map(|c| &c.jobs).flat_map(|j| j.shaders()) {
            if !seen.insert((stage, entry)) {
                continue;
            }
            let code = family.decode_code(memory, entry, MAX_CODE);
            for c in code.iter().flat_map(|c| &c.clauses) {
                rows.push((span.index, stage, entry.get()), c);
                if rows.job.len() >= BATCH {
                    progress.check()?;
                    take(std::mem::take(&mut rows).frame()?)?;
                }
            }
        }
    }
    take(rows.frame()?)
}

//! List of the programs, by name.

mod annotated;
mod arrays;
mod assembled;
mod blas;
mod blas_states;
mod constants;
mod costs;
mod details;
mod edge_cases;
mod extras;
mod graph;
mod linked;
mod mapped;
mod memory;
mod net;
mod nodes;
mod owners;
mod queries;
mod quota;
mod random;
mod simple;
mod states;
mod steps;
mod streams;
mod threads;
mod transfers;

use crate::gpu::{ClientResult, Gpu};
use crate::options::Options;
use crate::program_context::ProgramContext;
use crate::result::ProgramResult;

type Program = fn(&mut ProgramContext<'_>) -> ClientResult;

const PROGRAMS: [(&str, Program); 39] = [
    ("vector_add", simple::vector_add),
    ("annotated", annotated::annotated),
    ("reduction", simple::reduction),
    ("globals", simple::globals),
    ("stride", simple::stride),
    ("wrong_for_some", simple::wrong_for_some),
    ("faulty", simple::faulty),
    ("cooperative", simple::cooperative),
    ("linked", linked::linked),
    ("streams", streams::streams),
    ("early", streams::early),
    ("graph", graph::graph),
    ("net", net::net),
    ("besides", extras::besides),
    ("nodes", nodes::nodes),
    ("feedback", nodes::feedback),
    ("queries", queries::queries),
    ("owners", owners::owners),
    ("quota", quota::quota),
    ("threads", threads::threads),
    ("transfers", transfers::transfers),
    ("memory", memory::memory),
    ("corners", edge_cases::corners),
    ("mapped", mapped::mapped),
    ("shared", mapped::shared),
    ("past", mapped::past),
    ("collective", simple::collective),
    ("arrays", arrays::arrays),
    ("details", details::details),
    ("assembled", assembled::assembled),
    ("constants", constants::constants),
    ("costs", costs::costs),
    ("states", states::states),
    ("steps", steps::steps),
    ("blas", blas::blas),
    ("blas_states", blas_states::blas_states),
    ("blas_failure", blas_states::blas_failure),
    ("blas_missing", blas_states::blas_missing),
    ("random", random::random),
];

/// Runs a program.
pub fn run(options: &Options) -> ClientResult {
    let entry = PROGRAMS.iter().find(|(name, _)| *name == options.program);
    let (name, program) = entry.ok_or_else(|| {
        let names: Vec<&str> = PROGRAMS.iter().map(|(name, _)| *name).collect();
        format!("there is no such program (expected {})", names.join(", "))
    })?;
    let mut work = ProgramContext {
        gpu: Gpu::begin(options)?,
        options,
        result: ProgramResult::default(),
    };
    program(&mut work)?;
    work.result.finish(name, options.out.as_ref())
}

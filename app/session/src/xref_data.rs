//! The derived data of a document, as cross references need it.

use crate::derived_data::DerivedData;
use crate::jobs::{Chain, JobFact};
use crate::page_table_marks::Mark;
use std::sync::Arc;
use trace_core::api_trace::ApiTrace;
use trace_core::finding::Finding;
use trace_core::registers::Accesses;
use trace_core::xref::{CallJoin, ChainDescriptor, TableLocation, XrefData, XrefJob};
use trace_core::{GpuVa, RegOffset};

impl XrefJob for JobFact {
    fn index(&self) -> u32 {
        self.index
    }

    fn submit(&self) -> u64 {
        self.submit
    }

    fn space(&self) -> Option<u32> {
        self.chain.space
    }

    fn chain_id(&self) -> usize {
        Arc::as_ptr(&self.chain).cast::<u8>() as usize
    }

    fn descriptors(&self) -> impl ExactSizeIterator<Item = ChainDescriptor> + Clone {
        let chain: &Chain = &self.chain;
        chain.iter().map(|c| ChainDescriptor {
            va: c.va,
            shader: c.shader,
        })
    }
}

impl XrefData for DerivedData {
    type Job = JobFact;

    fn jobs(&self) -> &[JobFact] {
        &self.jobs
    }

    fn accessed_registers(&self) -> impl Iterator<Item = RegOffset> {
        self.registers.keys().copied()
    }

    fn accesses(&self, register: RegOffset) -> Option<&Accesses> {
        self.registers.get(&register).map(|r| &r.accesses)
    }

    fn tables_in(&self, frame: u64) -> Vec<TableLocation> {
        let spaces = (0u32..).zip(&self.spaces);
        let tables = spaces.flat_map(|(space, s)| {
            let here = s.marks.tables_in(frame).iter();
            here.map(move |t| TableLocation {
                space,
                level: t.level,
                va: t.va,
            })
        });
        tables.collect()
    }

    fn other_mapping(&self, space: u32, va: GpuVa) -> Option<GpuVa> {
        let marks = &self.spaces.get(space as usize)?.marks;
        let span = marks.find_span(Mark::MappedTwice, va, va.saturating_add(1))?;
        Some(span.other?.saturating_add(va.get().saturating_sub(span.va.get())))
    }

    fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn api_trace(&self) -> Option<&ApiTrace> {
        self.api_trace.as_deref()
    }

    fn call_join(&self) -> Option<CallJoin<'_>> {
        self.driver.as_deref()?.call_join()
    }
}

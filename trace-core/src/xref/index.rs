//! The derived data that cross references need, derived from a recording alone.

use super::data::{ChainDescriptor, XrefData, XrefJob};
use super::reference::TableLocation;
use crate::api_trace::ApiTrace;
use crate::check::{Submit, check_submits};
use crate::families::{ChainJob, JobForm, find_family, job_form, read_shared_chains};
use crate::finding::Finding;
use crate::memory::GpuMemoryView;
use crate::mmu::{DoubleMapping, Leaf, Scan, TableItem, find_double_mappings, visit_all};
use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;
use crate::registers::{Accesses, RegisterMap, history, register_space};
use crate::{GpuVa, RegOffset};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Maximum number of descriptors of a chain.
const MAX_CHAIN: usize = 256;
/// Maximum number of pages and blocks of an address space that are compared to find memory mapped twice.
const MAX_LEAVES: usize = 1 << 20;
/// Number of items of page tables between two checks for cancellation.
const STEP: u64 = 1 << 12;

/// The derived data of a recording that cross references need.
#[derive(Debug, Default)]
pub struct XrefIndex {
    jobs: Vec<IndexedJob>,
    registers: BTreeMap<RegOffset, Accesses>,
    /// Page tables by frame.
    tables: Vec<(u64, TableLocation)>,
    /// Memory that is mapped twice, by address space.
    doubles: Vec<Vec<DoubleMapping>>,
    findings: Vec<Finding>,
    api_trace: Option<ApiTrace>,
}

/// A job of the index.
#[derive(Debug)]
pub struct IndexedJob {
    index: u32,
    submit: u64,
    chain: Arc<IndexedChain>,
}

#[derive(Debug)]
struct IndexedChain {
    space: Option<u32>,
    descriptors: Vec<ChainDescriptor>,
}

impl XrefJob for IndexedJob {
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
        self.chain.descriptors.iter().copied()
    }
}

impl XrefIndex {
    /// Derives the data of a recording. `submits` are its jobs, in event order. Takes time proportional to the number of
    /// events, jobs and page-table entries.
    ///
    /// # Errors
    /// [`Cancelled`] if the operation was cancelled.
    pub fn new(recording: &Recording, submits: &[Submit], progress: &Progress) -> Result<Self, Cancelled> {
        if let Some(api_trace) = ApiTrace::from_recording(recording, progress)? {
            return Ok(Self {
                api_trace: Some(api_trace),
                ..Self::default()
            });
        }
        let map = RegisterMap::for_recording(recording);
        let space = register_space(recording, RegisterMap::built_in_for(recording).or(map));
        let mut out = Self {
            jobs: read_jobs(recording, submits, progress)?,
            registers: history::by_register(recording, map, space, progress)?,
            ..Self::default()
        };
        for index in (0u32..).take(recording.metadata.address_spaces.len()) {
            out.read_page_tables(recording, index, progress)?;
        }
        out.tables
            .sort_unstable_by_key(|(frame, t)| (*frame, t.space, t.level, t.va));
        Ok(out)
    }

    /// Adds the findings of `check`. `submits` are the jobs of the recording.
    ///
    /// # Errors
    /// [`Cancelled`] if the operation was cancelled.
    pub fn with_findings(
        self,
        recording: &Recording,
        submits: &[Submit],
        progress: &Progress,
    ) -> Result<Self, Cancelled> {
        let findings = check_submits(recording, Some(submits), progress)?;
        Ok(Self { findings, ..self })
    }

    /// Adds the page tables and double mappings of an address space, at the end of the recording.
    fn read_page_tables(&mut self, recording: &Recording, index: u32, progress: &Progress) -> Result<(), Cancelled> {
        let Some(space) = recording.metadata.address_spaces.get(index as usize) else {
            return Ok(());
        };
        let (mut leaves, mut problems, mut passed): (Vec<Leaf>, usize, u64) = Default::default();
        let view = recording.memory.last();
        let _ = visit_all(space.format, space.root, &view, &mut |item| {
            passed += 1;
            if passed.is_multiple_of(STEP) && progress.check().is_err() {
                return ControlFlow::Break(());
            }
            match item {
                TableItem::Table(t) => {
                    let table = TableLocation {
                        space: index,
                        level: t.level,
                        va: t.va,
                    };
                    self.tables.push((t.at.frame(), table));
                }
                TableItem::Leaf(leaf) => {
                    if leaves.len() <= MAX_LEAVES {
                        leaves.push(leaf);
                    }
                }
                TableItem::LeafElsewhere(_) => {}
                TableItem::Problem(_) => problems += 1,
            }
            match problems < Scan::MAX_PROBLEMS {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        progress.check()?;
        // Of too many leaves, only some would be compared.
        self.doubles.push(match leaves.len() <= MAX_LEAVES {
            true => find_double_mappings(&leaves),
            false => Vec::new(),
        });
        Ok(())
    }
}

impl XrefData for XrefIndex {
    type Job = IndexedJob;

    fn jobs(&self) -> &[IndexedJob] {
        &self.jobs
    }

    fn accessed_registers(&self) -> impl Iterator<Item = RegOffset> {
        self.registers.keys().copied()
    }

    fn accesses(&self, register: RegOffset) -> Option<&Accesses> {
        self.registers.get(&register)
    }

    fn tables_in(&self, frame: u64) -> Vec<TableLocation> {
        let first = self.tables.partition_point(|t| t.0 < frame);
        let here = self.tables.iter().skip(first).take_while(|t| t.0 == frame);
        here.map(|t| t.1).collect()
    }

    fn other_mapping(&self, space: u32, va: GpuVa) -> Option<GpuVa> {
        let from = |d: &DoubleMapping, a: GpuVa, b: GpuVa| {
            let by = va.offset_from(a)?;
            (by >> 12 < d.pages).then(|| b.saturating_add(by))
        };
        let mut doubles = self.doubles.get(space as usize)?.iter();
        doubles.find_map(|d| from(d, d.first, d.second).or_else(|| from(d, d.second, d.first)))
    }

    fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn api_trace(&self) -> Option<&ApiTrace> {
        self.api_trace.as_ref()
    }
}

/// Reads the chains of all jobs.
fn read_jobs(recording: &Recording, submits: &[Submit], progress: &Progress) -> Result<Vec<IndexedJob>, Cancelled> {
    let heads: Vec<(u64, GpuVa)> = submits.iter().map(|s| (s.event, s.head_va)).collect();
    let family = find_family(recording);
    let has_descriptors = job_form(recording) == JobForm::DescriptorChains;
    let chains = read_shared_chains(recording, &heads, progress, |space, event, head| {
        let only = ChainDescriptor { va: head, shader: None };
        let memory = space.and_then(|s| GpuMemoryView::at(recording, s, event));
        let descriptors = match memory {
            // Data that a command stream reads as descriptors is not one.
            _ if !has_descriptors => vec![only],
            Some(memory) => {
                let jobs = family.read_chain(&memory, head).map_or_else(Vec::new, |c| c.jobs);
                let descriptor = |j: &dyn ChainJob| ChainDescriptor {
                    va: j.va(),
                    shader: j.shader_va(),
                };
                jobs.iter().take(MAX_CHAIN).map(|j| descriptor(&**j)).collect()
            }
            None => Vec::new(),
        };
        IndexedChain { space, descriptors }
    })?;
    let each = submits.iter().zip(chains);
    let job = |(s, chain): (&Submit, Arc<IndexedChain>)| IndexedJob {
        index: s.index,
        submit: s.event,
        chain,
    };
    Ok(each.map(job).collect())
}

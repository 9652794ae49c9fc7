//! The derived data that cross references need, and who provides it.

use super::reference::TableLocation;
use super::submission_calls::CallJoin;
use crate::api_trace::ApiTrace;
use crate::finding::Finding;
use crate::registers::Accesses;
use crate::{GpuVa, RegOffset};

/// The addresses that a job descriptor names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainDescriptor {
    /// Address of the header.
    pub va: GpuVa,
    /// Address of the shader.
    pub shader: Option<GpuVa>,
}

/// A job with the descriptors of its chain.
pub trait XrefJob {
    /// Returns the index of the job.
    fn index(&self) -> u32;
    /// Returns the event that submits the job.
    fn submit(&self) -> u64;
    /// Returns the index of its address space, if the recording has it.
    fn space(&self) -> Option<u32>;
    /// Returns a number that jobs of the same chain share, as long as the data exists.
    fn chain_id(&self) -> usize;
    /// Returns the descriptors of the chain, in order.
    fn descriptors(&self) -> impl ExactSizeIterator<Item = ChainDescriptor> + Clone;
}

/// The derived data of a recording that cross references need.
pub trait XrefData {
    /// A job of the recording.
    type Job: XrefJob;
    /// Returns the jobs, in order of submit.
    fn jobs(&self) -> &[Self::Job];
    /// Returns the offsets of all accessed registers, in order.
    fn accessed_registers(&self) -> impl Iterator<Item = RegOffset>;
    /// Returns the accesses to a register.
    fn accesses(&self, register: RegOffset) -> Option<&Accesses>;
    /// Returns the page tables in a physical frame at the end of the recording.
    fn tables_in(&self, frame: u64) -> Vec<TableLocation>;
    /// Returns another address of the memory at an address, if two addresses map it.
    fn other_mapping(&self, space: u32, va: GpuVa) -> Option<GpuVa>;
    /// Returns the findings of `check`.
    fn findings(&self) -> &[Finding];
    /// Returns the index of the calls, if the recording is an API trace.
    fn api_trace(&self) -> Option<&ApiTrace>;
    /// Returns what joins calls with submissions, if it is derived already. `None` makes a search derive it.
    fn call_join(&self) -> Option<CallJoin<'_>> {
        None
    }
}

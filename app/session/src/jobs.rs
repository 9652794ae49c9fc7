//! The jobs of a recording, from submit to interrupt, with their chains in memory.

use crate::lookup::memory_at;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::check::Submit;
use trace_core::families::{
    ChainEnd, JobChain, JobForm, JobWork, ShaderStage, find_family, job_form, job_type, read_shared_chains,
};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{ChainReport, Recording};

/// Maximum number of stored jobs of a chain.
const MAX_CHAIN_JOBS: usize = 256;

/// A job of a chain.
#[derive(Clone, Debug, Default)]
pub struct ChainJob {
    /// GPU address of the header.
    pub va: GpuVa,
    /// Name of the type, or why the header does not decode.
    pub kind: String,
    /// Whether the header decodes.
    pub decoded: bool,
    /// Kind of work.
    pub work: JobWork,
    /// Workgroups and workgroup size.
    pub dispatch: Option<([u32; 3], [u32; 3])>,
    /// Shader address.
    pub shader: Option<GpuVa>,
    /// All shaders that the job names: stage and entry address.
    pub shaders: Vec<(ShaderStage, GpuVa)>,
    /// Fields of the header: name and formatted value.
    pub fields: Vec<(String, String)>,
}

/// A job from its submit to its end.
#[derive(Clone, Debug)]
pub struct JobFact {
    /// Index in order of submit.
    pub index: u32,
    /// Job slot.
    pub slot: u8,
    /// Event of the submit write.
    pub submit: u64,
    /// First event of the interrupt handler. For a driver trace, an event where the job is known to be complete.
    pub done: Option<u64>,
    /// Whether the recording does not show when jobs end: a job without [`Self::done`] may be complete.
    pub is_end_unknown: bool,
    /// Submit of the next job of the slot, where the ends of jobs are unknown; else `None`.
    pub next_submit: Option<u64>,
    /// Address of the first job of the chain.
    pub head_va: GpuVa,
    /// Nanoseconds from submit to interrupt.
    pub duration_ns: Option<u64>,
    /// Whether the job ended in a fault.
    pub failed: bool,
    /// The chain in memory.
    pub chain: Arc<Chain>,
    /// Result that the recorded device reported; derived together with the chain.
    pub report: Option<Arc<ChainReport>>,
}

impl JobFact {
    /// Returns the submit of the job.
    #[must_use]
    pub fn to_submit(&self) -> Submit {
        Submit {
            index: self.index,
            event: self.submit,
            head_va: self.head_va,
        }
    }

    /// Returns the first and last event of its bar. A job without an end runs to the end of the recording. One whose end
    /// the recording does not show has only its submit; if it is known to be complete at an event, its bar ends there or
    /// at the next submit of the slot.
    #[must_use]
    pub fn span(&self) -> (u64, u64) {
        let last = match (self.is_end_unknown, self.done) {
            (false, done) => done.unwrap_or(u64::MAX),
            (true, None) => self.submit,
            (true, Some(done)) => done.min(self.next_submit.unwrap_or(done)),
        };
        (self.submit, last.max(self.submit))
    }
}

/// A chain of jobs in memory, with data about the chain as a whole. Jobs that run the same chain share it, so that a
/// job of a million is small.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// The first jobs of the chain, up to a maximum.
    jobs: Vec<ChainJob>,
    /// Description of an abnormal end of the chain.
    pub end: Option<String>,
    /// Address space of the chain, as an index into the recording's list; `None` if it is not in the recording or not
    /// derived yet.
    pub space: Option<u32>,
}

impl Chain {
    /// Creates a chain of these jobs with a normal end.
    #[must_use]
    pub fn new(jobs: Vec<ChainJob>) -> Self {
        Self {
            jobs,
            ..Self::default()
        }
    }
}

impl Deref for Chain {
    type Target = [ChainJob];

    fn deref(&self) -> &[ChainJob] {
        &self.jobs
    }
}

/// Reads the chain of each job in its address space. Jobs that run the same chain with unchanged memory share it.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub fn read_chains(recording: &Recording, jobs: &[JobFact], progress: &Progress) -> Result<Vec<Arc<Chain>>, Cancelled> {
    let submits: Vec<(u64, GpuVa)> = jobs.iter().map(|j| (j.submit, j.head_va)).collect();
    let family = find_family(recording);
    let has_descriptors = job_form(recording) == JobForm::DescriptorChains;
    let read = |space, submit, head| family.read_chain(&memory_at(recording, space, submit)?, head);
    let mut chains = read_shared_chains(recording, &submits, progress, |space, submit, head| {
        let found = space.filter(|_| has_descriptors).and_then(|s| read(s, submit, head));
        let mut c = found.map_or_else(Chain::default, |found| chain(&found));
        c.space = space;
        c
    })?;
    if !has_descriptors {
        // Jobs of two slots may have the same address. The jobs of a slot at an address share a chain.
        let mut undecoded: HashMap<(&str, GpuVa, Option<u32>), Arc<Chain>> = HashMap::new();
        for (chain, job) in chains.iter_mut().zip(jobs) {
            let key = (job_type(recording, job.slot), job.head_va, chain.space);
            let shared = undecoded.entry(key).or_insert_with_key(|(kind, va, space)| {
                let mut chain = describe_undecoded_job(kind, *va);
                chain.space = *space;
                Arc::new(chain)
            });
            *chain = Arc::clone(shared);
        }
    }
    Ok(chains)
}

/// Returns the chain of a job that is no chain of descriptors: one entry, with the type of the job.
fn describe_undecoded_job(kind: &str, va: GpuVa) -> Chain {
    Chain::new(vec![ChainJob {
        va,
        kind: kind.to_owned(),
        decoded: true,
        ..ChainJob::default()
    }])
}

fn chain(chain: &JobChain) -> Chain {
    let end = match chain.end {
        ChainEnd::End => None,
        ChainEnd::Loop(va) => Some(format!("it comes back to {va}")),
        ChainEnd::Unreadable(va) => Some(format!("the recording does not hold {va}")),
        ChainEnd::Undecoded(va) => Some(format!("the header at {va} does not decode")),
        ChainEnd::Limit => Some("it exceeds the maximum chain length".into()),
    };
    let jobs = chain.jobs.iter().take(MAX_CHAIN_JOBS).map(|job| ChainJob {
        va: job.va(),
        kind: match job.type_name() {
            Some(name) => name.to_owned(),
            None => job.error().unwrap_or_default(),
        },
        decoded: job.is_decoded(),
        work: job.work(),
        dispatch: job.dispatch().map(|d| (d.workgroups, d.size)),
        shader: job.shader_va(),
        shaders: job.shaders(),
        fields: job
            .fields()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    });
    Chain {
        jobs: jobs.collect(),
        end,
        space: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::recording::Identity;

    #[test]
    fn undecoded_jobs_at_an_address_share_a_chain() {
        let mut recording = Recording::default();
        recording.metadata.identity.source = Identity::COMMAND_STREAMS.into();
        let job = |index: u32, head_va| JobFact {
            index,
            slot: 0,
            submit: u64::from(index),
            done: None,
            is_end_unknown: false,
            next_submit: None,
            head_va,
            duration_ns: None,
            failed: false,
            chain: Arc::default(),
            report: None,
        };
        let jobs = [
            job(0, GpuVa::new(0x1000)),
            job(1, GpuVa::new(0x2000)),
            job(2, GpuVa::new(0x1000)),
        ];
        let chains = read_chains(&recording, &jobs, &Progress::new()).unwrap();
        assert!(Arc::ptr_eq(&chains[0], &chains[2]), "a job of a million is small");
        assert!(!Arc::ptr_eq(&chains[0], &chains[1]));
        assert_eq!(
            (chains[1][0].va, chains[1][0].kind.as_str()),
            (GpuVa::new(0x2000), "command stream")
        );
    }

    #[test]
    fn job_with_an_unknown_end_has_a_bar_up_to_what_is_known() {
        let job = |done, is_end_unknown, next_submit| JobFact {
            index: 0,
            slot: 0,
            submit: 10,
            done,
            is_end_unknown,
            next_submit,
            head_va: GpuVa::new(0x1000),
            duration_ns: None,
            failed: false,
            chain: Arc::default(),
            report: None,
        };
        assert_eq!(job(None, false, None).span(), (10, u64::MAX), "it hangs");
        assert_eq!(job(Some(15), false, None).span(), (10, 15));
        assert_eq!(job(None, true, Some(12)).span(), (10, 10));
        assert_eq!(job(Some(15), true, Some(12)).span(), (10, 12));
        assert_eq!(job(Some(15), true, None).span(), (10, 15));
    }
}

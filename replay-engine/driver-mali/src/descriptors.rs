//! Builder of job chains that need no shader: null, write-value and cache-flush jobs.

use trace_core::GpuVa;
use trace_core::families::mali_jm::{CacheFlush, HEADER_BYTES, JobHeader, JobType, WriteKind, WriteValue};

/// Distance between two jobs of a chain, bytes.
const STRIDE: u64 = 64;

/// Job of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobSpec {
    /// Null job.
    Null,
    /// Job that writes a value to memory.
    WriteValue {
        /// Destination address.
        to: GpuVa,
        /// Kind of value.
        kind: WriteKind,
        /// The value, if the kind is an immediate.
        value: u64,
    },
    /// Job that cleans or invalidates caches.
    CacheFlush(CacheFlush),
}

/// Builder of a chain of jobs, each of which waits for the job before it.
#[derive(Clone, Debug, Default)]
pub struct ChainBuilder {
    jobs: Vec<JobSpec>,
}

impl ChainBuilder {
    /// Creates a builder without jobs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a job.
    #[must_use]
    pub fn job(mut self, job: JobSpec) -> Self {
        self.jobs.push(job);
        self
    }

    /// Returns the size of the chain, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.jobs.len() as u64 * STRIDE
    }

    /// Returns the bytes of the chain for the start address `at`, a multiple of 64.
    #[must_use]
    pub fn build(&self, at: GpuVa) -> Vec<u8> {
        let mut out = Vec::new();
        let last = self.jobs.len();
        for (n, job) in (1u16..).zip(&self.jobs) {
            let more = usize::from(n) < last;
            let kind = match job {
                JobSpec::Null => JobType::Null,
                JobSpec::WriteValue { .. } => JobType::WriteValue,
                JobSpec::CacheFlush(_) => JobType::CacheFlush,
            };
            let header = JobHeader {
                exception_status: 0,
                first_incomplete_task: 0,
                fault_pointer: GpuVa::ZERO,
                is_64bit: true,
                job_type: kind as u8,
                barrier: true,
                switches: 0,
                index: n,
                dep1: n - 1,
                dep2: 0,
                next: GpuVa::new(if more {
                    at.get().wrapping_add(u64::from(n) * STRIDE)
                } else {
                    0
                }),
                reserved: 0,
            };
            out.extend(header.encode());
            match job {
                JobSpec::Null => {}
                JobSpec::WriteValue { to, kind, value } => {
                    out.extend(
                        WriteValue {
                            address: *to,
                            kind: *kind,
                            value: *value,
                        }
                        .encode(),
                    );
                }
                JobSpec::CacheFlush(flush) => {
                    let (first, second) = flush.pack();
                    out.extend(first.to_le_bytes());
                    out.extend(second.to_le_bytes());
                }
            }
            out.resize(usize::from(n) * STRIDE as usize, 0);
        }
        out
    }
}

const _: () = assert!(HEADER_BYTES as u64 + 24 <= STRIDE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_linked_and_numbered() {
        let c = ChainBuilder::new().job(JobSpec::Null).job(JobSpec::Null);
        let bytes = c.build(GpuVa::new(0x1000));
        assert_eq!(bytes.len() as u64, c.bytes());
        let header = |n: usize| JobHeader::decode(bytes[n * 64..n * 64 + 32].try_into().unwrap()).unwrap();
        assert_eq!(
            (header(0).index, header(0).dep1, header(0).next),
            (1, 0, GpuVa::new(0x1040))
        );
        assert_eq!((header(1).index, header(1).dep1, header(1).next), (2, 1, GpuVa::ZERO));
    }
}

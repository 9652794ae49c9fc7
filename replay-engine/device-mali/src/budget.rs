//! Execution limits of jobs.

/// Execution limits of a job, and reading limits of a chain. The limits count clauses and never time, so that a job
/// always ends at the same clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Maximum number of clauses of one wave. A wave is 32 threads of a workgroup, whatever the width of a warp of the
    /// GPU: a clause that several of its threads execute together counts once.
    pub wave: u64,
    /// Maximum number of clauses of all waves of a job.
    pub job: u64,
    /// Maximum number of shader clauses of a chain. They are read and translated again for each job, before its first
    /// thread.
    pub read: u64,
}

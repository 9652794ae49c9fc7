//! What a worker did, for statistics.

use remote_calls::CallId;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Environment variable with the file for a worker's report.
pub const REPORT_VARIABLE: &str = "KINESCOPE_WORKER_REPORT";

/// Requests of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCount {
    /// Name of the call.
    pub name: String,
    /// Number of requests.
    pub requests: u64,
    /// Number of requests that the program waited for.
    pub waits: u64,
}

/// Bytes of frames between two machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireBytes {
    /// Bytes to the agent.
    pub sent: u64,
    /// Bytes from the agent.
    pub received: u64,
}

/// What a worker did for a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Name of the program.
    pub program: String,
    /// Its process.
    pub process: u32,
    /// Requests by call, the most frequent first.
    pub calls: Vec<CallCount>,
    /// Bytes of requests and of the staging area, from the program.
    pub bytes_in: u64,
    /// Bytes of answers and of the staging area, to the program.
    pub bytes_out: u64,
    /// Bytes between the machines, for a program whose calls went through a relay. The client knows them.
    #[serde(default)]
    pub wire: Option<WireBytes>,
}

impl WorkerReport {
    /// Reads the report that a worker wrote. Returns `None` if there is none.
    #[must_use]
    pub fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    /// Writes the report to the file that the environment names.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_to_environment(&self) -> std::io::Result<()> {
        match std::env::var_os(REPORT_VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => std::fs::write(PathBuf::from(path), serde_json::to_vec(self)?),
            None => Ok(()),
        }
    }

    /// Returns the number of requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.calls.iter().map(|call| call.requests).sum()
    }

    /// Returns the number of requests that the program waited for.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.calls.iter().map(|call| call.waits).sum()
    }
}

/// Counters of a session.
#[derive(Debug)]
pub struct Counters {
    requests: Vec<AtomicU64>,
    waits: Vec<AtomicU64>,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        let zeros = || CallId::ALL.iter().map(|_| AtomicU64::new(0)).collect();
        Self {
            requests: zeros(),
            waits: zeros(),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
        }
    }
}

impl Counters {
    /// Counts a request.
    pub fn count(&self, call: CallId, is_answered: bool) {
        let index = usize::from(call.number());
        if let Some(requests) = self.requests.get(index) {
            requests.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(waits) = self.waits.get(index).filter(|_| is_answered) {
            waits.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts bytes from the program.
    pub fn add_in(&self, bytes: u64) {
        self.bytes_in.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes to the program.
    pub fn add_out(&self, bytes: u64) {
        self.bytes_out.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the report of a program.
    pub fn report(&self, program: String, process: u32) -> WorkerReport {
        let counts = self.requests.iter().zip(&self.waits);
        let calls = CallId::ALL
            .iter()
            .zip(counts)
            .map(|(call, (requests, waits))| CallCount {
                name: call.name().to_owned(),
                requests: requests.load(Ordering::Relaxed),
                waits: waits.load(Ordering::Relaxed),
            });
        let mut calls: Vec<CallCount> = calls.filter(|call| call.requests > 0).collect();
        calls.sort_by_key(|call| std::cmp::Reverse(call.requests));
        WorkerReport {
            program,
            process,
            calls,
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            wire: None,
        }
    }
}

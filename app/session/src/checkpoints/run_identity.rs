//! The identity of a run, which its checkpoints carry: the recording, the inputs and the options that decide the result.

use crate::replay::request::ReplayRequest;
use replay_engine::plan::Pace;
use trace_core::Recording;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{Digest, PageId};

/// Number of events between two checks for cancellation.
const CHECK_EVERY: usize = 1 << 16;

/// BLAKE3 digest of a recording and the request for its replay. The target is not part of it: a run may go on elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunIdentity(Digest);

impl RunIdentity {
    /// Returns the digest.
    #[must_use]
    pub fn digest(self) -> Digest {
        self.0
    }

    /// Computes the identity of the replay of a recording.
    ///
    /// # Errors
    /// If the work was cancelled.
    pub fn new(recording: &Recording, request: &ReplayRequest, progress: &Progress) -> Result<Self, Cancelled> {
        let mut hash = blake3::Hasher::new();
        let events = &recording.events;
        hash.update(&(events.len() as u64).to_le_bytes());
        for (event, access) in events.accesses(0..events.len()) {
            if event % CHECK_EVERY == 0 {
                progress.check()?;
            }
            hash.update(&(event as u64).to_le_bytes())
                .update(&[access.space, u8::from(access.write), access.width])
                .update(&access.offset.get().to_le_bytes())
                .update(&access.value.to_le_bytes());
        }
        for event in 0..events.len() {
            if event % CHECK_EVERY == 0 {
                progress.check()?;
            }
            if let Some(write) = events.host_write(event) {
                hash.update(&(event as u64).to_le_bytes())
                    .update(&write.at.get().to_le_bytes())
                    .update(&write.bytes.to_le_bytes())
                    .update(&write.page.to_le_bytes());
            }
        }
        for digest in (1..).map_while(|n| recording.memory.pages.digest(PageId(n))) {
            hash.update(&digest);
        }
        for run in recording.memory.snapshots.iter().flat_map(|s| &s.runs) {
            hash.update(&run.first_frame.to_le_bytes())
                .update(&run.count.to_le_bytes())
                .update(&run.first_page.0.to_le_bytes());
        }
        for (name, bytes) in &request.edits.inputs {
            hash.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
            hash.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        }
        hash.update(&[u8::from(request.pace == Pace::Fast)]);
        for range in &request.allowed {
            hash.update(&range.start.get().to_le_bytes())
                .update(&range.end.get().to_le_bytes());
        }
        Ok(Self(*hash.finalize().as_bytes()))
    }
}

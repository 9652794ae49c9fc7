//! Queries on the requests to a kernel driver: objects with their life time, mappings, channels, submissions.
//!
//! [`DriverTrace`] is built once, with one pass over all events. It takes API traces too, if the requests below their
//! calls were recorded.

mod builder;
mod channel;
mod commands;
mod fault;
mod join;
mod launch_kernels;
mod nearest;
mod object;
mod submission_calls;
mod summary;
#[cfg(test)]
mod tests;
mod work;

pub use channel::{ChannelEngine, ChannelKind, DriverChannel, Submission};
pub use commands::{
    AddressWord, DecodedMethod, DecodedSubmission, GpuWork, SubmissionDecoder, SubmittedBank, SubmittedLaunch,
    SubmittedParameter, SubmittedRelease,
};
pub use fault::DriverFault;
pub use join::{JoinError, join_driver_trace};
pub use launch_kernels::{LaunchKernels, LaunchedKernel};
pub use nearest::NearestBuffer;
pub use object::{DriverObject, Mapping};
pub use submission_calls::SubmissionCalls;
pub use summary::{DriverSummary, SizedCount};
pub use work::DriverWork;

use crate::GpuVa;
use crate::progress::{Cancelled, Progress};
use crate::recording::{ObjectKind, Recording};
use builder::Builder;

/// The objects of a kernel driver, and what was submitted to its channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverTrace {
    objects: Vec<DriverObject>,
    mappings: Vec<Mapping>,
    channels: Vec<DriverChannel>,
    submissions: Vec<Submission>,
}

impl DriverTrace {
    /// Derives the objects of a recording, or returns `None` if it has no requests to a kernel driver. Takes time
    /// proportional to the number of events.
    ///
    /// # Errors
    /// [`Cancelled`] if the operation was cancelled.
    pub fn from_recording(recording: &Recording, progress: &Progress) -> Result<Option<Self>, Cancelled> {
        if recording.driver_trace().is_none() {
            return Ok(None);
        }
        let mut builder = Builder::default();
        progress.set_total(recording.events.len() as u64);
        for event in 0..recording.events.len() {
            builder.add_event(recording, event);
            if event % (1 << 14) == 0 {
                progress.check()?;
            }
        }
        Ok(Some(builder.finish()))
    }

    /// Returns the objects, in the order of their creation. Channels and clients that the recording only names are
    /// objects too.
    #[must_use]
    pub fn objects(&self) -> &[DriverObject] {
        &self.objects
    }

    /// Returns the mappings of buffers to GPU addresses, in event order.
    #[must_use]
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// Returns the channels, in the order of their creation.
    #[must_use]
    pub fn channels(&self) -> &[DriverChannel] {
        &self.channels
    }

    /// Returns the submissions, in event order: one for each ring entry.
    #[must_use]
    pub fn submissions(&self) -> &[Submission] {
        &self.submissions
    }

    /// Returns the children of an object, or the objects without a known parent.
    pub fn children(&self, parent: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        let all = self.objects.iter().enumerate();
        all.filter(move |(_, o)| o.parent == parent).map(|(n, _)| n)
    }

    /// Whether the recording holds a mapping of an object.
    #[must_use]
    pub fn has_mapping(&self, object: usize) -> bool {
        self.mappings.iter().any(|m| m.object == object)
    }

    /// Returns the smallest buffer at a GPU address just before an event: the index of the object, and the offset in it.
    #[must_use]
    pub fn find_buffer(&self, va: GpuVa, event: u64) -> Option<(usize, u64)> {
        let mapped = self.mappings.iter().filter(|m| m.exists_at(event)).filter_map(|m| {
            let offset = va.offset_from(m.va).filter(|n| *n < m.bytes)?;
            Some((m.object, offset.checked_add(m.offset)?, m.bytes))
        });
        let placed = self.objects.iter().enumerate().filter_map(|(n, o)| {
            let is_buffer = o.kind == Some(ObjectKind::Buffer) && o.exists_at(event);
            let (at, bytes) = (o.address.filter(|_| is_buffer)?, o.bytes?);
            let offset = va.offset_from(at).filter(|n| *n < bytes)?;
            // The mappings of a buffer tell when it has an address.
            (!self.has_mapping(n)).then_some((n, offset, bytes))
        });
        let (object, offset, _) = mapped.chain(placed).min_by_key(|(_, _, bytes)| *bytes)?;
        Some((object, offset))
    }
}

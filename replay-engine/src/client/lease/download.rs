//! The fetch of an outcome.

use super::meter::{Meter, RAN, TOTAL};
use super::{Lease, MAX_BULK};
use crate::channel;
use crate::client::connection::Connection;
use crate::client::error::{ClientError, Stage};
use crate::plan::Compiled;
use crate::run::{ArtifactsHeader, Outcome, ReceivedArtifacts};
use crate::wire::Topic;
use std::time::Duration;

impl Lease {
    /// Fetches the bulk data of an outcome, checks the digests of the outputs, and builds the recording.
    pub(super) fn download(
        &self,
        mut outcome: Box<Outcome>,
        left: Option<Box<ArtifactsHeader>>,
        lengths: &[u64],
        compiled: &Compiled,
        meter: &mut Meter<'_>,
    ) -> Result<Box<Outcome>, ClientError> {
        let broken = |what: String| self.connection.protocol_error(Stage::Download, what);
        let total = lengths.iter().try_fold(0u64, |sum, n| sum.checked_add(*n));
        let (Some(total), [events, images, screen, outputs @ ..]) = (total, lengths) else {
            return Err(broken("an outcome of an invalid size".to_owned()));
        };
        if total > MAX_BULK || outputs.len() != outcome.outputs.len() {
            return Err(broken("an outcome of an invalid size".to_owned()));
        }
        let mut download = Download::new(total);
        let mut fetch = |length: u64| download.fetch(&self.connection, length, meter);
        let (events, images, screen) = (fetch(*events)?, fetch(*images)?, fetch(*screen)?);
        for (output, length) in outcome.outputs.iter_mut().zip(outputs) {
            let data = fetch(*length)?;
            if *blake3::hash(&data).as_bytes() != output.blake3 {
                return Err(broken(format!("output `{}` does not have its digest", output.name)));
            }
            output.data = data;
        }
        let (plan, pages) = (&compiled.plan, &compiled.pages);
        if let (Some(left), Some(plan)) = (left, plan.planned_accesses()) {
            let arrived = ReceivedArtifacts::new(*left, events, &images, screen).map_err(|e| broken(e.to_string()))?;
            arrived.complete(&mut outcome, plan, pages, &self.info);
        }
        if let (Some(calls), Some(api), false) = (plan.planned_calls(), &self.api, self.unrecorded) {
            let recording = api.build_recording(&outcome, calls, pages, &self.info);
            let written = recording.and_then(|r| trace_core::container::to_bytes(&r).map_err(|e| e.to_string()));
            match written {
                Ok(bytes) => outcome.recording = bytes,
                Err(e) => {
                    outcome.failure.get_or_insert(e);
                }
            }
        }
        if let (Some(plan), false) = (plan.planned_submissions(), self.unrecorded) {
            let recording = channel::build_recording(&outcome, plan, pages, &self.info);
            match recording.and_then(|r| trace_core::container::to_bytes(&r).map_err(|e| e.to_string())) {
                Ok(bytes) => outcome.recording = bytes,
                Err(e) => {
                    outcome.failure.get_or_insert(e);
                }
            }
        }
        meter.move_to(TOTAL);
        Ok(outcome)
    }
}

/// The bulk data that an agent announced.
pub(super) struct Download {
    total: u64,
    done: u64,
}

impl Download {
    pub(super) fn new(total: u64) -> Self {
        Self { total, done: 0 }
    }

    /// Fetches the next `length` bytes.
    pub(super) fn fetch(
        &mut self,
        connection: &Connection,
        length: u64,
        meter: &mut Meter<'_>,
    ) -> Result<Vec<u8>, ClientError> {
        let stage = Stage::Download;
        // The buffer grows with the received data, because the announced length is not trusted.
        let mut part = Vec::new();
        while (part.len() as u64) < length {
            let Some(frame) = connection.frame(stage, Duration::from_secs(60))? else {
                continue;
            };
            let fits = part.len() as u64 + frame.payload.len() as u64 <= length;
            if frame.concern != Topic::Bulk || frame.payload.is_empty() || !fits {
                return Err(connection.protocol_error(stage, "a bulk frame of the announced length was expected"));
            }
            part.extend_from_slice(&frame.payload);
            self.done += frame.payload.len() as u64;
            meter.move_within(RAN, TOTAL, self.done, self.total);
        }
        Ok(part)
    }
}

//! What a channel plan uses, counted: memory by place, submissions by engine, uploads, outputs.

use crate::plan::ChannelPlan;
use nvidia_client::Place;
use nvidia_client::steps::{EngineKind, Step, Steps};
use serde::Serialize;

/// What a channel plan maps, writes, submits and reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChannelFootprint {
    /// Class of the compute engine that the push buffers are for.
    pub compute_class: u16,
    /// Number of mapped ranges of memory.
    pub ranges: u64,
    /// Mapped bytes of the GPU's memory.
    pub video_bytes: u64,
    /// Mapped bytes of the machine's memory.
    pub system_bytes: u64,
    /// Number of push buffers for the compute engine.
    pub compute_submissions: u64,
    /// Number of push buffers for the copy engine.
    pub copy_submissions: u64,
    /// Bytes of all push buffers.
    pub command_bytes: u64,
    /// Number of known kernel launches.
    pub launches: u64,
    /// Number of writes to memory besides push buffers.
    pub uploads: u64,
    /// Bytes of these writes.
    pub upload_bytes: u64,
    /// Number of outputs that are read.
    pub outputs: u64,
    /// Bytes of these outputs.
    pub output_bytes: u64,
}

impl ChannelFootprint {
    /// Counts the steps of a plan, in linear time. Steps after one that does not decode are not counted: the check of
    /// the plan refuses it.
    #[must_use]
    pub fn for_plan(plan: &ChannelPlan) -> Self {
        let mut counts = Self {
            compute_class: plan.compute_class,
            launches: plan.launches.len() as u64,
            ..Self::default()
        };
        // A write is an upload, unless the step behind it submits exactly its bytes.
        let mut last_write: Option<(u64, u64)> = None;
        for step in Steps::new(&plan.body).map_while(Result::ok) {
            let write = last_write.take();
            if let Step::Submit { engine, va, words, .. } = step {
                let bytes = u64::from(words) * 4;
                match engine {
                    EngineKind::Compute => counts.compute_submissions += 1,
                    EngineKind::Copy => counts.copy_submissions += 1,
                }
                counts.command_bytes = counts.command_bytes.saturating_add(bytes);
                counts.add_upload(write.filter(|w| *w != (va, bytes)));
                continue;
            }
            counts.add_upload(write);
            match step {
                Step::Map { place, bytes, .. } => counts.add_range(place, bytes),
                Step::Write { va, data } => last_write = Some((va, data.len() as u64)),
                Step::WritePages { va, bytes, .. } => last_write = Some((va, bytes)),
                Step::Read { bytes, .. } => {
                    counts.outputs += 1;
                    counts.output_bytes = counts.output_bytes.saturating_add(bytes);
                }
                Step::MapScheduler { .. } | Step::Submit { .. } => {}
            }
        }
        counts.add_upload(last_write);
        counts
    }

    /// Returns the number of all submissions.
    #[must_use]
    pub fn submissions(&self) -> u64 {
        self.compute_submissions.saturating_add(self.copy_submissions)
    }

    /// Returns the mapped bytes of both places.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.video_bytes.saturating_add(self.system_bytes)
    }

    fn add_range(&mut self, place: Place, bytes: u64) {
        self.ranges += 1;
        let sum = match place {
            Place::Video => &mut self.video_bytes,
            Place::System => &mut self.system_bytes,
        };
        *sum = sum.saturating_add(bytes);
    }

    /// Counts a write that is no push buffer: address and bytes.
    fn add_upload(&mut self, write: Option<(u64, u64)>) {
        if let Some((_, bytes)) = write {
            self.uploads += 1;
            self.upload_bytes = self.upload_bytes.saturating_add(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::ChannelBody;
    use crate::plan::PlannedLaunch;
    use trace_core::GpuVa;

    #[test]
    fn push_buffers_are_no_uploads() {
        let at = |offset: u64| GpuVa::new(0x2_0000_0000 + offset);
        let mut body = ChannelBody::default();
        body.map(Place::Video, at(0), 0x40_0000);
        body.map(Place::System, at(0x40_0000), 0x20_0000);
        body.write(at(0), &[1; 100]);
        body.write(at(0x40_0000), &[0; 16]);
        body.submit(1, EngineKind::Compute, at(0x40_0000), 4);
        // A longer write becomes page images.
        body.write(at(0x1000), &[2; 20_000]);
        body.write(at(0x40_0000), &[0; 16]);
        body.submit(2, EngineKind::Copy, at(0x40_0000), 2);
        body.read(0, at(0x1000), 64);
        body.write(at(0), &[3; 8]);
        let plan = ChannelPlan {
            compute_class: 0xcbc0,
            launches: vec![PlannedLaunch::default()],
            body: body.into_steps().unwrap().0.into(),
            ..ChannelPlan::default()
        };
        let expected = ChannelFootprint {
            compute_class: 0xcbc0,
            ranges: 2,
            video_bytes: 0x40_0000,
            system_bytes: 0x20_0000,
            compute_submissions: 1,
            copy_submissions: 1,
            command_bytes: 24,
            launches: 1,
            // The second push buffer is shorter than its write, which is an upload then.
            uploads: 4,
            upload_bytes: 100 + 20_000 + 16 + 8,
            outputs: 1,
            output_bytes: 64,
        };
        let counts = ChannelFootprint::for_plan(&plan);
        assert_eq!(counts, expected);
        assert_eq!((counts.submissions(), counts.mapped_bytes()), (2, 0x60_0000));
    }
}

//! Adreno GPUs, from recordings of their command streams. They can be viewed, not replayed: a job is a submit, whose
//! register writes follow it as events.

use super::family::{EventRelation, Family, JobForm};
use super::stream_tracker::{StreamTracker, relate_stream_events};
use super::work::{JobTracker, ScannedEvents};
use crate::recording::{Identity, Recording};
use crate::registers::RegisterMap;

/// The family.
pub(super) struct Adreno;

impl Family for Adreno {
    fn name(&self) -> &'static str {
        "adreno"
    }

    fn title(&self) -> &'static str {
        "Qualcomm Adreno"
    }

    fn drivers(&self) -> &'static [&'static str] {
        &["msm"]
    }

    fn queue_job_type(&self, _queue: &str) -> &'static str {
        "command stream"
    }

    fn has_recording(&self, recording: &Recording, _map: Option<&RegisterMap>) -> bool {
        let source = recording.metadata.identity.source.as_str();
        matches!(source, Identity::COMMAND_STREAMS | Identity::MSM_CORE_DUMP)
    }

    fn job_form(&self) -> JobForm {
        JobForm::CommandStreams
    }

    fn track_jobs<'a>(&self, scanned: ScannedEvents<'a>) -> Box<dyn JobTracker + 'a> {
        Box::new(StreamTracker::new(scanned.events))
    }

    fn relate_events(&self, recording: &Recording, _map: &RegisterMap) -> Vec<EventRelation> {
        relate_stream_events(recording)
    }

    fn explain_missing_map(&self, recording: &Recording, file: &str) -> Option<String> {
        let identity = &recording.metadata.identity;
        let id = identity.gpu_id;
        let generation = match id >> 24 {
            0x43 => 7,
            0x44 => 8,
            n => n,
        };
        if !(2..10).contains(&generation) {
            return Some(format!(
                "no register map fits: the recording does not name its GPU. Import the .rd file again if an earlier \
                 version imported it. If you know the generation: `kinescope regmaps import a6xx.xml --variant A6XX \
                 --block A6XX --next-to {file}`, with the file from Mesa's src/freedreno/registers/adreno"
            ));
        }
        // One file describes all generations from the sixth on.
        let source = generation.min(6);
        let name = &identity.gpu_name;
        Some(format!(
            "no register map knows {name} (chip id {id:#010x}), so no register has a name. Import one from a \
             version of Mesa that describes it, in src/freedreno/registers/adreno: `kinescope regmaps import \
             a{source}xx.xml --variant A{generation}XX --block A{source}XX --next-to {file}`"
        ))
    }
}

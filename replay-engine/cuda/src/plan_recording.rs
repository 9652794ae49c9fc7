//! The calls of a plan as a recording.

use super::error::CudaReplayError;
use super::script::Script;
use replay_engine::plan::api_body::{CallReader, CallsError, without_content};
use replay_engine::plan::{PLAN_FILE_MAGIC, PageSource, Plan, PlanError, PlannedCalls};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use trace_core::PAGE_SIZE;
use trace_core::recording::{
    CallEvent, Digest, EventsBuilder, MemoryBuilder, PageId, PageStore, Recording, SharedBytes, TraceKind,
};

/// The bytes of a file, kept as long as images refer to them.
struct FileBytes(Vec<u8>);

impl SharedBytes for FileBytes {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn slice(&self, range: Range<usize>) -> Option<&[u8]> {
        self.0.get(range)
    }
}

/// The reason why an API-trace plan is invalid.
#[derive(Debug, thiserror::Error)]
pub enum PlanCallsError {
    /// It is a plan of another kind.
    #[error("it is not a plan of an API trace")]
    NotApiTrace,
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The body.
    #[error(transparent)]
    Body(#[from] CallsError),
    /// An image that the plan refers to is missing.
    #[error("page image {number} of the plan is missing")]
    Image {
        /// Its number.
        number: usize,
    },
    /// The calls do not form a valid script.
    #[error(transparent)]
    Script(#[from] CudaReplayError),
}

/// The calls of a plan as a recording, with the original event of each.
#[derive(Debug)]
pub struct PlanRecording {
    /// The calls with their data.
    pub recording: Recording,
    /// Original event, by event.
    pub events: Vec<u64>,
}

impl PlanRecording {
    /// Returns the calls of a plan, with its page images.
    ///
    /// # Errors
    /// If its body cannot be decoded, or an image is missing.
    pub fn new(plan: PlannedCalls<'_>, pages: &dyn PageSource) -> Result<Self, PlanCallsError> {
        let mut memory = MemoryBuilder::new();
        for (n, digest) in plan.envelope.images.iter().enumerate() {
            let page = pages.page(digest).ok_or(PlanCallsError::Image { number: n + 1 })?;
            // Images are distinct, so their numbers are kept.
            if memory.add_page(page) != PageId(u32::try_from(n + 1).unwrap_or(u32::MAX)) {
                return Err(PlanCallsError::Image { number: n + 1 });
            }
        }
        let (events, original) = events(plan)?;
        let mut recording = Recording {
            events,
            memory: memory.finish(),
            ..Recording::default()
        };
        recording.metadata.kind = TraceKind::Api(plan.calls.metadata.clone());
        Ok(Self {
            recording,
            events: original,
        })
    }

    /// Returns the calls of a plan file with all of its page images ([`replay_engine::plan::encode_plan_file`]). The
    /// images are used in place. Their digests are not checked again, because the writer of the file has just checked
    /// them.
    ///
    /// # Errors
    /// Same as [`Self::new`], and if the bytes are not such a file.
    pub fn from_plan_bytes(bytes: Vec<u8>) -> Result<Self, PlanCallsError> {
        let rest = bytes
            .strip_prefix(&PLAN_FILE_MAGIC)
            .and_then(|r| r.split_first_chunk::<8>());
        let (length, rest) = rest.ok_or(PlanCallsError::NotApiTrace)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok();
        let (record, _) = length
            .and_then(|n| rest.split_at_checked(n))
            .ok_or(PlanCallsError::NotApiTrace)?;
        let first = (PLAN_FILE_MAGIC.len() + size_of::<u64>() + record.len()) as u64;
        let plan = Plan::from_bytes(record)?;
        let calls = plan.planned_calls().ok_or(PlanCallsError::NotApiTrace)?;
        let mut plan_recording = outline_recording(calls)?;
        // In the file they are ordered by digest.
        let places: BTreeMap<Digest, u64> = plan.digests().into_iter().zip(0..).collect();
        let offset = |(n, digest): (usize, &Digest)| {
            let place = places.get(digest).ok_or(PlanCallsError::Image { number: n + 1 })?;
            Ok(first + place * PAGE_SIZE as u64)
        };
        let offsets: Result<Vec<u64>, PlanCallsError> = plan.images.iter().enumerate().map(offset).collect();
        let store = PageStore::mapped(Arc::new(FileBytes(bytes)), plan.images.clone(), offsets?);
        plan_recording.recording.memory.pages = store.ok_or(PlanCallsError::Image {
            number: plan.images.len(),
        })?;
        Ok(plan_recording)
    }

    /// Returns the steps of a replay, by the original events.
    ///
    /// # Errors
    /// If the calls refer to missing data.
    pub fn script(&self) -> Result<Script, PlanCallsError> {
        let mut script = Script::new(&self.recording)?;
        let original = |event: u64| usize::try_from(event).ok().and_then(|n| self.events.get(n)).copied();
        for (event, _) in &mut script.steps {
            *event = original(*event).unwrap_or(*event);
        }
        for t in script.inputs.iter_mut().chain(&mut script.outputs) {
            t.event = original(t.event).unwrap_or(t.event);
        }
        for b in &mut script.buffers {
            b.from = original(b.from).unwrap_or(b.from);
            b.to = b.to.map(|to| original(to).unwrap_or(to));
        }
        Ok(script)
    }
}

/// Returns the calls without their data, for use without images.
///
/// # Errors
/// If the body cannot be decoded.
pub(crate) fn outline_recording(plan: PlannedCalls<'_>) -> Result<PlanRecording, PlanCallsError> {
    let (events, original) = events(plan)?;
    let mut recording = Recording {
        events,
        ..Recording::default()
    };
    recording.metadata.kind = TraceKind::Api(plan.calls.metadata.clone());
    Ok(PlanRecording {
        recording,
        events: original,
    })
}

fn events(plan: PlannedCalls<'_>) -> Result<(trace_core::recording::Events, Vec<u64>), CallsError> {
    let mut events = EventsBuilder::new();
    let mut original = Vec::new();
    for (n, carried) in CallReader::new(&plan.calls.body, plan.envelope.images.len()).enumerate() {
        let c = carried?;
        let mut call = without_content(c.call);
        match &mut call {
            CallEvent::Launch(r) => r.arguments_at = events.call_bytes(&c.arguments),
            CallEvent::Call(r) => r.arguments_at = events.call_bytes(&c.arguments),
            CallEvent::Copy(r) => {
                if let Some(pages) = &c.pages {
                    r.pages_at = events.call_pages(pages);
                }
            }
            _ => {}
        }
        events.push_call(n as u64, c.thread, call);
        original.push(c.event);
    }
    Ok((events.finish(), original))
}

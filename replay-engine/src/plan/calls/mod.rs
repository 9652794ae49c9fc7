//! Plans of calls: what a CUDA device is told to do. Beside the actions of registers they share the envelope alone.

pub mod body;
mod compile;

pub use body::{CallWithData, CallsError};
pub use compile::compile;
pub(super) use compile::find_edited_inputs;

use super::{PLAN_FILE_MAGIC, PageSource, Plan, PlanError};
use crate::device::cuda::{CudaReplayError, Script};
use crate::memory_trace::MemoryTraceRequest;
use crate::tune::TuneRequest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use trace_core::PAGE_SIZE;
use trace_core::recording::{
    CALL_FACTS, CallEvent, CallFacts, Digest, EventsBuilder, MemoryBuilder, PageId, PageStore, Recording, SharedBytes,
};

/// What a plan of calls says beside its body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Calls {
    /// Functions, modules, streams, window. The pages of modules are numbers of the plan's images, from 1 on.
    pub facts: CallFacts,
    /// Whether the range is made one graph.
    pub graph: bool,
    /// Whether nothing is put back between repeated runs: each goes on with memory as the one before left it.
    pub no_restore: bool,
    /// Whether the device is waited for behind each launch.
    pub step: bool,
    /// Whether the device's time for each launch is measured.
    pub times: bool,
    /// Buffers that end where nothing is mapped, by the events that they begin with; none in the list: all.
    pub guard: Option<Vec<u64>>,
    /// A launch that is to be tuned in the place of a replay.
    pub tune: Option<TuneRequest>,
    /// Memory that is to be watched in the place of a replay.
    pub watch: Option<MemoryTraceRequest>,
}

/// A file's bytes, kept as long as images in them are.
struct FileBytes(Vec<u8>);

impl SharedBytes for FileBytes {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Why a plan of calls is none.
#[derive(Debug, thiserror::Error)]
pub enum PlanCallsError {
    /// It is a plan of something else.
    #[error("it is no plan of calls")]
    NotCalls,
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The body.
    #[error(transparent)]
    Body(#[from] CallsError),
    /// An image that the plan names is not there.
    #[error("page image {number} of the plan is missing")]
    Image {
        /// Its number.
        number: usize,
    },
    /// What the calls do together.
    #[error(transparent)]
    Script(#[from] CudaReplayError),
}

/// The calls of a plan as a recording, and which event of the original each of them was.
#[derive(Debug)]
pub struct PlanRecording {
    /// The calls with what they carry.
    pub recording: Recording,
    /// Event of the original, by event.
    pub events: Vec<u64>,
}

impl PlanRecording {
    /// The calls of a plan, with its page images.
    ///
    /// # Errors
    /// When it is none, its body cannot be read, or an image is missing.
    pub fn new(plan: &Plan, pages: &dyn PageSource) -> Result<Self, PlanCallsError> {
        let calls = plan.calls.as_ref().ok_or(PlanCallsError::NotCalls)?;
        let mut memory = MemoryBuilder::new();
        for (n, digest) in plan.images.iter().enumerate() {
            let page = pages.page(digest).ok_or(PlanCallsError::Image { number: n + 1 })?;
            // Images are distinct, so that their numbers stay.
            if memory.add_page(page) != PageId(u32::try_from(n + 1).unwrap_or(u32::MAX)) {
                return Err(PlanCallsError::Image { number: n + 1 });
            }
        }
        let (events, original) = events(plan, calls)?;
        let mut recording = Recording {
            events,
            memory: memory.finish(),
            ..Recording::default()
        };
        recording.extras.insert(CALL_FACTS.to_owned(), json(&calls.facts));
        Ok(Self {
            recording,
            events: original,
        })
    }

    /// The calls of a plan's file with all of its page images ([`super::encode_plan_file`]). The images stay where they are in
    /// the bytes, and their digests are not looked at again: whoever wrote the file has just checked them.
    ///
    /// # Errors
    /// As [`Told::of`], and when the bytes are no such file.
    pub fn from_plan_bytes(bytes: Vec<u8>) -> Result<Self, PlanCallsError> {
        let rest = bytes
            .strip_prefix(&PLAN_FILE_MAGIC)
            .and_then(|r| r.split_first_chunk::<8>());
        let (length, rest) = rest.ok_or(PlanCallsError::NotCalls)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok();
        let (record, _) = length
            .and_then(|n| rest.split_at_checked(n))
            .ok_or(PlanCallsError::NotCalls)?;
        let first = (PLAN_FILE_MAGIC.len() + size_of::<u64>() + record.len()) as u64;
        let plan = Plan::from_bytes(record)?;
        let mut plan_recording = outline_recording(&plan)?;
        // In the file they lie in the order of their digests.
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

    /// What a replay does, step by step, by the events of the original.
    ///
    /// # Errors
    /// When the calls name what is not there.
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

/// What calls there are, without what they carry: for whoever has no images at hand.
///
/// # Errors
/// When the body cannot be read.
pub(crate) fn outline_recording(plan: &Plan) -> Result<PlanRecording, PlanCallsError> {
    let calls = plan.calls.as_ref().ok_or(PlanCallsError::NotCalls)?;
    let (events, original) = events(plan, calls)?;
    let mut recording = Recording {
        events,
        ..Recording::default()
    };
    recording.extras.insert(CALL_FACTS.to_owned(), json(&calls.facts));
    Ok(PlanRecording {
        recording,
        events: original,
    })
}

fn json(facts: &CallFacts) -> Vec<u8> {
    // Plain values under plain names: there is nothing that could not be written.
    serde_json::to_vec(facts).unwrap_or_default()
}

fn events(plan: &Plan, _calls: &Calls) -> Result<(trace_core::recording::Events, Vec<u64>), CallsError> {
    let mut events = EventsBuilder::new();
    let mut original = Vec::new();
    for (n, carried) in body::Calls::new(&plan.body, plan.images.len()).enumerate() {
        let c = carried?;
        let mut call = body::without_content(c.call);
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

/// Numbers for page images: each content once, from 1 on; the page of zeros is 0.
#[derive(Debug, Default)]
struct Images {
    digests: Vec<Digest>,
    numbers: std::collections::HashMap<Digest, u32>,
}

impl Images {
    fn number(&mut self, digest: Digest) -> u32 {
        if digest == trace_core::recording::zero_digest() {
            return 0;
        }
        let next = u32::try_from(self.digests.len() + 1).unwrap_or(u32::MAX);
        let digests = &mut self.digests;
        *self.numbers.entry(digest).or_insert_with(|| {
            digests.push(digest);
            next
        })
    }
}

/// Calls among fixed-width fields: their JSON text, which takes fields that come later.
pub(super) mod calls_json {
    use super::Calls;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de, ser};

    pub fn serialize<S: Serializer>(calls: &Option<Calls>, to: S) -> Result<S::Ok, S::Error> {
        let json = calls.as_ref().map(serde_json::to_string).transpose();
        json.map_err(ser::Error::custom)?.serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Calls>, D::Error> {
        let json = Option::<String>::deserialize(from)?;
        let read = json.map(|text| serde_json::from_str(&text)).transpose();
        read.map_err(de::Error::custom)
    }
}

//! The check of a stage that replays a recording: its buffers and their types.

use super::{CheckedWork, Stage};
use crate::defect::{DefectKind, Defects};
use crate::document::{BufferDefinition, ReplayDefinition, StageDefinition};
use crate::resources::{Resources, StageRecording};
use crate::tensor::TensorType;
use replay_engine::client::fitting::RecordedDevice;
use std::fmt;
use trace_core::recording::{Buffer, BufferRole};
use trace_core::{GpuVa, Recording};

/// A stage that replays a recording.
#[derive(Clone)]
pub struct ReplayStage {
    /// The recording, with the buffers that the pipeline states.
    pub recording: Recording,
    /// The device that was recorded.
    pub device: RecordedDevice,
    /// Buffers that inputs replace, in the order of the inputs.
    pub replaced: Vec<String>,
    /// Buffers that the stage gives, in the order of the outputs.
    pub given: Vec<String>,
}

impl fmt::Debug for ReplayStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ReplayStage({} -> {})",
            self.replaced.join(", "),
            self.given.join(", ")
        )
    }
}

pub(super) fn check(
    stage: &StageDefinition,
    replay: &ReplayDefinition,
    resources: &dyn Resources,
    defects: &mut Defects,
) -> Option<Stage> {
    let mut opened = match resources.open_recording(&replay.recording) {
        Ok(opened) => opened,
        Err(reason) => {
            let stage = stage.name.clone();
            defects.add(replay.line, DefectKind::Recording { stage, reason });
            return None;
        }
    };
    let mut is_sound = true;
    for buffer in &replay.buffers {
        is_sound &= state_buffer(stage, buffer, &mut opened, defects);
    }
    let mut find = |name: &str, line: u32, use_of: &'static str| -> Option<TensorType> {
        let found = find_type(stage, name, line, use_of, &opened, defects);
        is_sound &= found.is_some();
        found
    };
    let inputs: Vec<TensorType> = stage
        .inputs
        .iter()
        .filter_map(|i| find(&i.name, i.line, "replaces"))
        .collect();
    let outputs: Vec<TensorType> = replay
        .outputs
        .iter()
        .filter_map(|o| find(&o.name, o.line, "gives"))
        .collect();
    is_sound.then(|| Stage {
        inputs,
        outputs,
        work: CheckedWork::Replay(Box::new(ReplayStage {
            device: RecordedDevice::new(&opened.recording),
            recording: opened.recording,
            replaced: stage.inputs.iter().map(|i| i.name.clone()).collect(),
            given: replay.outputs.iter().map(|o| o.name.clone()).collect(),
        })),
    })
}

/// Adds what the pipeline states about a buffer to the recording. Returns whether it can be so.
fn state_buffer(
    stage: &StageDefinition,
    stated: &BufferDefinition,
    opened: &mut StageRecording,
    defects: &mut Defects,
) -> bool {
    let metadata = &mut opened.recording.metadata;
    let known = opened.buffers.iter_mut().find(|b| b.name == stated.name);
    let range_defect = |reason: String, defects: &mut Defects| {
        let (stage, name) = (stage.name.clone(), stated.name.clone());
        defects.add(stated.line, DefectKind::StatedRange { stage, name, reason });
        false
    };
    match (known, stated.address) {
        (Some(_), Some(_)) => {
            return range_defect("the recording has a buffer of this name".to_owned(), defects);
        }
        (Some(buffer), None) => {
            if buffer.bytes != stated.tensor.bytes() {
                let kind = DefectKind::StatedType {
                    stage: stage.name.clone(),
                    name: stated.name.clone(),
                    bytes: buffer.bytes,
                    stated: stated.tensor.clone(),
                    stated_bytes: stated.tensor.bytes(),
                };
                defects.add(stated.line, kind);
                return false;
            }
            buffer.element = stated.tensor.element();
            if let Some(named) = metadata.buffers.iter_mut().find(|b| b.name == stated.name) {
                named.element = stated.tensor.element();
            }
        }
        (None, Some(address)) => {
            if !matches!(metadata.kind, trace_core::recording::TraceKind::Register(_)) {
                let reason = "only a register trace shows memory by its address";
                return range_defect(reason.to_owned(), defects);
            }
            let spaces = metadata.address_spaces.len();
            if stated.address_space as usize >= spaces {
                let reason = format!(
                    "there is no address space {} (the recording has {spaces})",
                    stated.address_space
                );
                return range_defect(reason, defects);
            }
            if address.checked_add(stated.tensor.bytes()).is_none() {
                return range_defect("it goes beyond the end of memory".to_owned(), defects);
            }
            let buffer = Buffer {
                name: stated.name.clone(),
                role: BufferRole::Shared,
                address_space: stated.address_space,
                va: GpuVa::new(address),
                bytes: stated.tensor.bytes(),
                element: stated.tensor.element(),
            };
            metadata.buffers.push(buffer.clone());
            opened.buffers.push(buffer);
        }
        // Only the compiler knows what the push buffers of a driver trace copy back.
        (None, None) if opened.recording.driver_trace().is_some() => {
            opened.buffers.push(Buffer {
                name: stated.name.clone(),
                role: BufferRole::Output,
                address_space: 0,
                va: GpuVa::ZERO,
                bytes: stated.tensor.bytes(),
                element: stated.tensor.element(),
            });
        }
        (None, None) => {
            let known = list_buffers(opened);
            let (stage, name) = (stage.name.clone(), stated.name.clone());
            let use_of = "states the type of";
            let kind = DefectKind::UnknownBuffer {
                stage,
                use_of,
                name,
                known,
            };
            defects.add(stated.line, kind);
            return false;
        }
    }
    let shape = stated.tensor.shape().to_vec();
    opened
        .recording
        .metadata
        .buffer_shapes
        .insert(stated.name.clone(), shape);
    true
}

/// Returns the names of the buffers, for a message.
fn list_buffers(opened: &StageRecording) -> String {
    const MAX_LISTED: usize = 12;
    let names: Vec<&str> = opened
        .buffers
        .iter()
        .map(|b| b.name.as_str())
        .take(MAX_LISTED)
        .collect();
    let more = opened.buffers.len().saturating_sub(MAX_LISTED);
    match (names.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (_, 0) => names.join(", "),
        (_, more) => format!("{}, and {more} more", names.join(", ")),
    }
}

/// Returns the type of a buffer, or adds a defect.
fn find_type(
    stage: &StageDefinition,
    name: &str,
    line: u32,
    use_of: &'static str,
    opened: &StageRecording,
    defects: &mut Defects,
) -> Option<TensorType> {
    let stage = stage.name.clone();
    let Some(buffer) = opened.buffers.iter().find(|b| b.name == name) else {
        let (name, known) = (name.to_owned(), list_buffers(opened));
        let kind = DefectKind::UnknownBuffer {
            stage,
            use_of,
            name,
            known,
        };
        defects.add(line, kind);
        return None;
    };
    let stated = opened.recording.metadata.buffer_shapes.get(name);
    let shaped = stated.and_then(|shape| TensorType::new(buffer.element, shape.clone()));
    let shaped = shaped.filter(|t| t.bytes() == buffer.bytes);
    let found = shaped.or_else(|| TensorType::flat(buffer.element, buffer.bytes));
    if found.is_none() {
        let kind = DefectKind::BufferSize {
            stage,
            name: name.to_owned(),
            bytes: buffer.bytes,
            element: buffer.element.name(),
        };
        defects.add(line, kind);
    }
    found
}

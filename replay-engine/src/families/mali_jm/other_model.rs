//! Plans of a recording of one GPU model for another model: which models fit, and what the recorded model was.

mod jobs;
mod power;
mod registers;

pub(super) use jobs::SubmittedChain;

use crate::device::DeviceInfo;
use crate::plan::{CompileError, ModelError, RewriteKind};
use jobs::CheckedCode;
use power::PowerMasks;
use std::collections::BTreeMap;
use trace_core::families::mali_jm::models::{GpuModel, check_models};
use trace_core::registers::RegisterMap;
use trace_core::{Recording, RegOffset};

/// The recorded GPU: the values that the recording reads, and those of its model for other registers.
pub(super) struct RecordedModel {
    model: &'static GpuModel,
    values: BTreeMap<RegOffset, u32>,
}

impl RecordedModel {
    /// Returns the recorded GPU with the identity registers that the recording reads.
    fn new(model: &'static GpuModel, recording: &Recording, map: &RegisterMap) -> Self {
        let mut values = BTreeMap::new();
        for at in 0..recording.events.len() {
            let Some(a) = recording.events.access(at).filter(|a| !a.write && a.space == 0) else {
                continue;
            };
            if map.at(a.offset).is_some_and(|r| r.identity) {
                values.entry(a.offset).or_insert(a.value as u32);
            }
        }
        Self { model, values }
    }

    fn register(&self, offset: u32) -> u32 {
        let offset = RegOffset::new(offset);
        let known = self.values.get(&offset).copied();
        known.unwrap_or_else(|| self.model.identity_register(offset, true))
    }

    /// Returns the 64-bit value of a pair of registers.
    fn pair(&self, low: u32) -> u64 {
        u64::from(self.register(low)) | u64::from(self.register(low + 4)) << 32
    }

    /// Returns the number of threads of a core that thread storage is laid out for.
    fn storage_threads(&self) -> u32 {
        match self.register(THREAD_TLS_ALLOC) {
            0 => self.register(THREAD_MAX_THREAD),
            threads => threads,
        }
    }

    /// Returns the highest core number plus one.
    fn core_numbers(&self) -> u32 {
        u64::BITS - self.pair(SHADER_PRESENT).leading_zeros()
    }
}

// Offsets of identity registers.
const TILER_FEATURES: u32 = 0x00c;
const THREAD_MAX_THREAD: u32 = 0x0a0;
const TEXTURE_FEATURES: u32 = 0x0b0;
const SHADER_PRESENT: u32 = 0x100;
const TILER_PRESENT: u32 = 0x110;
const L2_PRESENT: u32 = 0x120;
const STACK_PRESENT: u32 = 0xe00;
const THREAD_TLS_ALLOC: u32 = 0x310;

/// A changed value of a register access.
pub(super) struct RegisterChange {
    pub value: u64,
    pub kind: RewriteKind,
    pub detail: String,
}

/// The translation of a recording for another model of its group.
pub(super) struct ModelChange {
    recorded: RecordedModel,
    target: &'static GpuModel,
    /// Whether a reset command was given since the start of the recording.
    was_reset: bool,
    /// The coherency protocol that the plan enabled since the last reset.
    enabled_coherency: Option<u64>,
    power: PowerMasks,
    checked: CheckedCode,
}

impl ModelChange {
    /// Returns the translation that a target needs, or `None` if the target is the recorded product, or one of the two
    /// does not name its GPU.
    ///
    /// # Errors
    /// If recordings of the recorded model do not compile for the target.
    pub fn find(recording: &Recording, target: &DeviceInfo, map: &RegisterMap) -> Result<Option<Self>, CompileError> {
        let id = recording.metadata.identity.gpu_id;
        if id == 0 || target.gpu_id == 0 || map.is_same_product(id, target.gpu_id) {
            return Ok(None);
        }
        let error = |reason: ModelError| CompileError::OtherModel {
            recorded: map
                .gpu_name(id)
                .unwrap_or(&recording.metadata.identity.gpu_name)
                .to_owned(),
            target: target.gpu_name.clone(),
            reason: Box::new(reason),
        };
        let (first, second) = check_models(id, target.gpu_id).map_err(|e| error(e.into()))?;
        // The registers of real hardware have values of its chip, which no description of a device holds.
        if !target.virtual_time {
            return Err(error(ModelError::NotReported {
                device: target.name.clone(),
            }));
        }
        let bits = second.pa_bits();
        if target.arena.end().get().checked_shr(bits).unwrap_or(0) != 0 {
            return Err(error(ModelError::PhysicalWidth { bits }));
        }
        let recorded = RecordedModel::new(first, recording, map);
        Ok(Some(Self {
            power: PowerMasks::new(&recorded, second),
            recorded,
            target: second,
            was_reset: false,
            enabled_coherency: None,
            checked: CheckedCode::default(),
        }))
    }

    /// Returns the target's model.
    pub fn target(&self) -> &'static GpuModel {
        self.target
    }

    /// Returns what the plan is, as the text of its first rewrite.
    pub fn describe(&self) -> String {
        format!(
            "recorded on {}, compiled for {}",
            self.recorded.model.name, self.target.name
        )
    }

    /// Returns the error of a plan with its models.
    pub fn error(&self, reason: ModelError) -> CompileError {
        CompileError::OtherModel {
            recorded: self.recorded.model.name.to_owned(),
            target: self.target.name.to_owned(),
            reason: Box::new(reason),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::jobs::MAX_CHECKED_CODE;
    use super::*;
    use crate::device::{Arena, Containment, DeviceInterface, Window};
    use trace_core::families::mali_jm::models;
    use trace_core::memory::GpuMemory;
    use trace_core::{GpuVa, PhysAddr};

    /// Memory of any address that holds the same bytes.
    struct EndlessMemory([u8; 16]);

    impl GpuMemory for EndlessMemory {
        fn read(&self, _va: GpuVa, out: &mut [u8]) -> bool {
            let bytes = self.0.iter().cycle();
            out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            true
        }
    }

    fn change(from: u32, to: &GpuModel) -> Result<Option<ModelChange>, CompileError> {
        let mut recording = Recording::default();
        recording.metadata.identity.gpu_id = from;
        let info = DeviceInfo {
            name: to.device_name.to_owned(),
            description: String::new(),
            gpu_id: to.gpu_id,
            gpu_name: to.name.to_owned(),
            register_map: "mali-jm".to_owned(),
            containment: Containment::Software,
            interface: DeviceInterface::Registers,
            hardware: None,
            windows: Window::registers(0x4000),
            arena: Arena {
                base: PhysAddr::new(0x1_0000_0000),
                pages: 16,
            },
            virtual_time: true,
            computes: true,
        };
        let map = RegisterMap::by_name("mali-jm").unwrap();
        ModelChange::find(&recording, &info, map)
    }

    #[test]
    fn only_another_model_needs_a_change() {
        assert!(change(0, &models::G72).unwrap().is_none());
        assert!(
            change(models::G72.gpu_id | 0x0ff0_0000, &models::G72)
                .unwrap()
                .is_none()
        );
        let found = change(models::G71.gpu_id, &models::G72).unwrap().unwrap();
        assert_eq!(found.describe(), "recorded on Mali-G71, compiled for Mali-G72");
        // Registers that the recording does not read have the values of the model.
        assert_eq!(
            (found.recorded.core_numbers(), found.recorded.storage_threads()),
            (8, 384)
        );
    }

    #[test]
    fn code_is_checked_up_to_a_limit() {
        let mut found = change(models::G71.gpu_id, &models::G72).unwrap().unwrap();
        // A clause of one tuple and one word, after which the next one follows.
        let mut clause = [0u8; 16];
        clause[0] = 0x40 | 1 << 3;
        clause[11] = 3 << 6;
        let memory = EndlessMemory(clause);
        let chain = SubmittedChain {
            event: 0,
            slot: 1,
            space: 0,
            jobs: &[],
            memory: &memory,
            translation: 0,
            ranges: &[],
        };
        found.checked.bytes = MAX_CHECKED_CODE - 64;
        let reason = found.check_shader(&chain, GpuVa::new(0x1000)).unwrap_err();
        assert!(matches!(reason, ModelError::TooMuchCode { .. }), "{reason}");
        assert_eq!(found.checked.bytes, MAX_CHECKED_CODE);
        let reason = found.check_shader(&chain, GpuVa::new(0x2000)).unwrap_err();
        assert!(
            matches!(
                reason,
                ModelError::TooMuchCode {
                    limit: MAX_CHECKED_CODE
                }
            ),
            "{reason}"
        );
    }
}

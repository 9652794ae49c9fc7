//! Masks of cores for another model: power registers and affinities.

use super::{L2_PRESENT, RecordedModel, SHADER_PRESENT, STACK_PRESENT, TILER_PRESENT};
use crate::plan::ModelError;
use trace_core::families::mali_jm::models::GpuModel;
use trace_core::registers::{Half, Register, Role};

/// Groups of cores with their own power registers, by the first word of their names.
const DOMAINS: [&str; 4] = ["SHADER", "TILER", "L2", "STACK"];
const SHADER: usize = 0;
const TILER: usize = 1;
const L2: usize = 2;

/// One half of the masks of a domain, on the recorded GPU and on the target.
#[derive(Clone, Copy, Debug, Default)]
struct Masks {
    /// Existing cores.
    recorded: u64,
    target: u64,
    /// Cores that are on, or on their way.
    recorded_on: u64,
    target_on: u64,
    /// The target's cores of the last power command.
    last: u64,
}

impl Masks {
    fn covers_all(&self, mask: u64) -> bool {
        self.recorded != 0 && mask & self.recorded == self.recorded
    }

    /// Returns the cores of the target for a mask of a command.
    fn translate_command(&self, mask: u64) -> u64 {
        match mask {
            // A driver may write all bits, whatever cores there are.
            0 | 0xffff_ffff => mask,
            _ if self.covers_all(mask) => self.target,
            _ => mask & self.target,
        }
    }

    /// Returns the cores of the target that a status register shows.
    fn translate_status(&self, mask: u64, all: u64) -> u64 {
        match mask {
            0 => 0,
            _ if self.covers_all(mask) && all != 0 => all,
            _ if self.covers_all(mask) => self.target,
            _ => mask & self.target,
        }
    }
}

/// The masks of all domains, in 32-bit halves, and which cores are on.
#[derive(Clone, Debug)]
pub(super) struct PowerMasks {
    halves: [[Masks; 2]; DOMAINS.len()],
}

/// Kind of a register with a mask of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MaskRegister {
    On,
    Off,
    Ready,
    /// Cores on their way, or working.
    Transition,
    Affinity,
}

/// Returns the kind, the domain and the half of a register with a mask of cores.
fn decode(register: &Register) -> Option<(MaskRegister, usize, usize)> {
    let half = match register.pair? {
        Half::Low { .. } => 0,
        Half::High { .. } => 1,
    };
    let kind = match register.replay.role {
        Some(Role::PowerOn) => MaskRegister::On,
        Some(Role::PowerOff) => MaskRegister::Off,
        Some(Role::PowerReady) => MaskRegister::Ready,
        Some(Role::PowerTransition) => MaskRegister::Transition,
        Some(Role::JobAffinity) => return Some((MaskRegister::Affinity, SHADER, half)),
        None if register.name.contains("_AFFINITY_") => return Some((MaskRegister::Affinity, SHADER, half)),
        None if register.name.contains("_PWRACTIVE_") => MaskRegister::Transition,
        _ => return None,
    };
    let domain = register.name.split('_').next()?;
    let domain = DOMAINS.iter().position(|d| *d == domain)?;
    Some((kind, domain, half))
}

impl PowerMasks {
    /// Returns the state in which everything is off.
    pub fn new(recorded: &RecordedModel, target: &GpuModel) -> Self {
        let domain = |low: u32, there: u64| {
            let here = recorded.pair(low);
            let half = |shift: u32| Masks {
                recorded: here >> shift & 0xffff_ffff,
                target: there >> shift & 0xffff_ffff,
                ..Masks::default()
            };
            [half(0), half(32)]
        };
        Self {
            halves: [
                domain(SHADER_PRESENT, target.shader_present),
                domain(TILER_PRESENT, target.tiler_present),
                domain(L2_PRESENT, target.l2_present),
                domain(STACK_PRESENT, target.stack_present),
            ],
        }
    }

    /// Processes a reset: every core is off.
    pub fn reset(&mut self) {
        for masks in self.halves.iter_mut().flatten() {
            (masks.recorded_on, masks.target_on, masks.last) = (0, 0, 0);
        }
    }

    /// Returns the value of a register with a mask of cores on the target, or `None` if the register has no such mask.
    ///
    /// # Errors
    /// If the mask names cores, and none of them exists on the target; or if a power change of the recording would
    /// change nothing on the target.
    pub fn translate(
        &mut self,
        event: u64,
        register: &Register,
        write: bool,
        value: u64,
    ) -> Result<Option<u64>, ModelError> {
        let Some((kind, domain, half)) = decode(register) else {
            return Ok(None);
        };
        let Some(masks) = self.halves.get_mut(domain).and_then(|d| d.get_mut(half)) else {
            return Ok(None);
        };
        let new = match kind {
            MaskRegister::Ready => masks.translate_status(value, masks.target_on),
            MaskRegister::Transition => masks.translate_status(value, masks.last),
            MaskRegister::Affinity if masks.covers_all(value) => masks.translate_status(value, masks.target_on),
            MaskRegister::Affinity | MaskRegister::On | MaskRegister::Off => masks.translate_command(value),
        };
        let named = value & masks.recorded != 0;
        if named && new & masks.target == 0 {
            return Err(ModelError::Cores {
                event,
                register: register.name.clone(),
                recorded: value,
                present: masks.target,
            });
        }
        if write && matches!(kind, MaskRegister::On | MaskRegister::Off) {
            let (recorded, target) = (value & masks.recorded, new & masks.target);
            let (changed, changes) = match kind {
                MaskRegister::On => (recorded & !masks.recorded_on, target & !masks.target_on),
                _ => (recorded & masks.recorded_on, target & masks.target_on),
            };
            if changed != 0 && changes == 0 {
                return Err(ModelError::PowerStep {
                    event,
                    register: register.name.clone(),
                    recorded: value,
                    present: masks.target,
                });
            }
            self.note_command(kind, domain, half, recorded, target);
        }
        Ok(Some(new))
    }

    /// Notes a power command, with the cores that exist. The L2 powers up with shader cores and tiler, and they power
    /// down with it.
    fn note_command(&mut self, kind: MaskRegister, domain: usize, half: usize, recorded: u64, target: u64) {
        let mut set = |domain: usize, half: usize, recorded: u64, target: u64, on: bool| {
            let Some(masks) = self.halves.get_mut(domain).and_then(|d| d.get_mut(half)) else {
                return;
            };
            if on {
                masks.recorded_on |= recorded & masks.recorded;
                masks.target_on |= target & masks.target;
            } else {
                masks.recorded_on &= !recorded;
                masks.target_on &= !target;
            }
            if target != 0 {
                masks.last = target & masks.target;
            }
        };
        let on = kind == MaskRegister::On;
        set(domain, half, recorded, target, on);
        if on && matches!(domain, SHADER | TILER) && recorded != 0 {
            (0..2).for_each(|half| set(L2, half, u64::MAX, u64::MAX, true));
        }
        if !on && domain == L2 && recorded != 0 {
            for domain in [SHADER, TILER] {
                (0..2).for_each(|half| set(domain, half, u64::MAX, u64::MAX, false));
            }
        }
    }
}

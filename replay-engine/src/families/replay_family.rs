//! The interface of a GPU family for replays: plans, their rules, and the meaning of what a run observes.

use crate::device::DeviceInfo;
use crate::device::platform::TreeGpu;
use crate::plan::{CompileError, CompileOptions, Edits, PageSource, PlacedPlan, PlannedAccesses};
use crate::rules::{Refusal, VerificationReport, Work};
use replay_core::Divergence;
use serde::{Deserialize, Serialize};
use trace_core::json_forms::hex_text;
use trace_core::progress::Progress;
use trace_core::recording::InterruptLine;
use trace_core::registers::{Register, RegisterMap};
use trace_core::{GpuVa, Recording};

/// The last values of an address space's registers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpaceRegisters {
    /// Memory attributes.
    pub memattr: u64,
    /// Translation configuration.
    pub transcfg: u64,
}

/// What an access of a run means for its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessMeaning {
    /// Nothing.
    None,
    /// It submits a job.
    Submit,
    /// It reads the status of the jobs.
    JobStatus,
    /// It sets up an address space.
    SpaceSetup,
}

/// What a difference between run and recording means for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DivergenceMeaning {
    /// The run continues.
    Difference,
    /// A fault that is not in the recording: later actions would be meaningless or harmful.
    Fault(InterruptLine),
    /// The device is not idle as later actions require, unless a fault came first.
    Stuck,
}

/// A register that describes a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultRegister {
    /// Name of the register.
    pub name: String,
    /// Its value.
    #[serde(with = "hex_text")]
    pub value: u64,
    /// The value in words.
    pub means: String,
}

/// The state of a device after a fault or a hang.
#[derive(Clone, Debug)]
pub(crate) struct FaultState {
    /// The registers that show it: name, value, meaning.
    pub registers: Vec<FaultRegister>,
    /// Code and name of the exception, or `none`.
    pub exception: String,
    /// Number of the address space in which the fault occurred.
    pub space: Option<u8>,
    /// Address of the fault.
    pub address: Option<GpuVa>,
}

impl Default for FaultState {
    fn default() -> Self {
        Self {
            registers: Vec::new(),
            exception: "none".to_owned(),
            space: None,
            address: None,
        }
    }
}

/// Reads a register, or the pair that it is the low half of: value and meaning. Returns `None` if it cannot be read.
pub(crate) type RegisterReader<'a> = dyn FnMut(&Register) -> Option<(u64, String)> + 'a;

/// A GPU family whose recordings can be replayed; its member of `trace_core::families` has the same name.
pub(crate) trait ReplayFamily: Sync {
    /// Returns whether it compiles a recording for a target.
    fn takes_recording(&self, recording: &Recording, target: &DeviceInfo) -> bool;

    /// Compiles a recording and its edits into a plan; see [`crate::compile::compile`].
    ///
    /// # Errors
    /// If the recording cannot be replayed on the target.
    fn compile(
        &self,
        recording: &Recording,
        edits: &Edits,
        target: &DeviceInfo,
        map: &RegisterMap,
        options: &CompileOptions,
        progress: &Progress,
    ) -> Result<PlacedPlan, CompileError>;

    /// Returns whether a plan is of this family.
    fn has_plan(&self, plan: PlannedAccesses<'_>) -> bool;

    /// Proves that a plan, whose envelope was checked, keeps the rules on a device.
    ///
    /// # Errors
    /// The first rule that the plan breaks.
    fn verify(
        &self,
        plan: PlannedAccesses<'_>,
        pages: &dyn PageSource,
        target: &DeviceInfo,
        map: &RegisterMap,
        work: &Work<'_>,
    ) -> Result<VerificationReport, Refusal>;

    /// Returns why a verified plan needs a reset of an idle device before it; `None` if it depends on nothing that an
    /// earlier plan left.
    fn find_reset_need(&self, _plan: PlannedAccesses<'_>, _map: &RegisterMap) -> Option<String> {
        Some("plans of this family begin in the device's power-on state, and only a reset proves it".to_owned())
    }

    /// Returns the GPUs of the family in device trees, or `None` if they are operated as devices on a bus.
    fn tree_gpu(&self) -> Option<&'static dyn TreeGpu> {
        None
    }

    /// Returns the meaning of an access to a register.
    fn meaning_of(&self, _register: &Register, _is_write: bool, _value: u64) -> AccessMeaning {
        AccessMeaning::None
    }

    /// Returns whether the job of a slot failed, by a value with the meaning [`AccessMeaning::JobStatus`], or `None` if
    /// it did not end.
    fn job_failed(&self, _status: u64, _slot: u8) -> Option<bool> {
        None
    }

    /// Updates the registers of an address space with a write of the meaning [`AccessMeaning::SpaceSetup`].
    fn set_up_space(&self, _space: &mut SpaceRegisters, _register: &Register, _value: u64) {}

    /// Returns the meaning of a difference. `register` is the register of the read, if the map knows it.
    fn meaning_of_divergence(
        &self,
        _plan: PlannedAccesses<'_>,
        _register: Option<&Register>,
        _divergence: &Divergence,
    ) -> DivergenceMeaning {
        DivergenceMeaning::Difference
    }

    /// Reads the state of the device after a fault or a hang, in the job of a slot.
    fn read_fault(
        &self,
        _plan: PlannedAccesses<'_>,
        _map: &RegisterMap,
        _slot: Option<u8>,
        _read: &mut RegisterReader<'_>,
    ) -> FaultState {
        FaultState::default()
    }
}

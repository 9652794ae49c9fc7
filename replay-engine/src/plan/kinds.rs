//! The kinds of plans: register accesses of a job-manager GPU, accesses to the MMIO regions of a bus device, API calls,
//! submissions to channels.

use super::effects::Expectation;
use super::origin::Origin;
use super::{Body, Plan, PlanBuffer, PlanJob, PlanPage, PlanSpace, ReadClasses};
use crate::device::{Arena, Window, hardware_record, space};
use replay_core::{Action, Actions};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace_core::recording::{ApiTraceMetadata, Hardware};
use trace_core::{GpuVa, RegOffset};

/// What one kind of plan has besides the envelope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PlanBody {
    /// Register accesses and memory of a job-manager GPU.
    Registers(RegisterPlan),
    /// Accesses to the MMIO regions of a device on a bus.
    Mmio(MmioPlan),
    /// Driver calls of an API trace.
    Api(ApiTracePlan),
    /// Submissions to the channels of a GPU.
    Channel(ChannelPlan),
}

/// The accesses of a plan, and the memory that belongs to them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccessPlan {
    /// Raw GPU id of the recording.
    pub gpu_id: u32,
    /// Name of the register map that classifies its registers.
    pub register_map: String,
    /// The arena that addresses were relocated into; the device must grant exactly this one.
    pub arena: Arena,
    /// Pages stored before the run, sorted by frame.
    pub pages: Vec<PlanPage>,
    /// Number of arena frames that the plan uses: `0..used_pages` from its base. All others stay untouched.
    pub used_pages: u64,
    /// Number of recorded reads by treatment.
    pub reads: ReadClasses,
    /// Number of interrupts that the plan waits for.
    pub interrupts: u64,
    /// Encoded [`replay_core::Action`]s.
    pub body: Body,
    /// Register offsets that the map does not know and that the user allowed: start, end (exclusive).
    pub allowed: Vec<(RegOffset, RegOffset)>,
    /// All named buffers of the recording, so that a fault report can name the nearest buffer.
    pub buffers: Vec<PlanBuffer>,
    /// Required effects of the run other than matching reads.
    pub expectations: Vec<Expectation>,
    /// Data that the outcome's recording takes over from the source recording. Devices do not need it, so it is not
    /// sent to an agent.
    pub origin: Option<Origin>,
}

/// A plan of a job-manager GPU, which accesses its registers and the plan's memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegisterPlan {
    /// The accesses.
    pub accesses: AccessPlan,
    /// Translations that the plan sets up.
    pub spaces: Vec<PlanSpace>,
    /// Jobs in order of submit.
    pub jobs: Vec<PlanJob>,
}

/// A plan of a device on a bus, which accesses the device's MMIO regions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MmioPlan {
    /// The accesses.
    pub accesses: AccessPlan,
    /// The device's identity on its bus.
    #[serde(with = "hardware_record")]
    pub hardware: Hardware,
    /// The device's MMIO regions: the space numbers in the body.
    pub windows: Vec<Window>,
    /// Whether the device uses bus mastering on the plan's memory, with the addresses that its register map's
    /// [`trace_core::registers::BusMaster`] describes.
    pub masters: bool,
}

/// A plan of driver calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ApiTracePlan {
    /// Functions, modules, streams, window. Pages of modules are numbers of the plan's images, starting at 1.
    #[serde(with = "super::api_metadata_record")]
    pub metadata: ApiTraceMetadata,
    /// Encoded calls: see [`super::api_body`].
    pub body: Body,
    /// Whether the range becomes one graph.
    pub graph: bool,
    /// Whether memory is not restored between repeated runs: each run starts with the memory of the one before.
    pub no_restore: bool,
    /// Whether the replay waits after each launch.
    pub step: bool,
    /// Whether the device time of each launch is measured.
    pub times: bool,
    /// Buffers to guard, by their first event. An empty list means all buffers.
    pub guard: Option<Vec<u64>>,
}

/// A launch that a plan submits, for messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedLaunch {
    /// Event of the submission.
    pub event: u64,
    /// Name of the kernel, or the address of its code.
    pub name: String,
}

/// A plan of submissions to the channels of an NVIDIA GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChannelPlan {
    /// Version of the kernel driver of the recording, for messages. Empty if the recording does not state it.
    pub driver_version: String,
    /// Class of the compute engine that the push buffers are for.
    pub compute_class: u16,
    /// First address of the window that the player takes for itself.
    pub control: GpuVa,
    /// Encoded steps: see [`nvidia_client::steps`].
    pub body: Body,
    /// Number of submissions.
    pub submissions: u64,
    /// Launches, by ascending event.
    pub launches: Vec<PlannedLaunch>,
    /// Known buffers, so that a fault names the nearest one.
    pub buffers: Vec<PlanBuffer>,
}

/// A channel plan with its envelope: what is verified and run.
#[derive(Clone, Copy, Debug)]
pub struct PlannedSubmissions<'p> {
    /// The envelope.
    pub envelope: &'p Plan,
    /// The submissions.
    pub channel: &'p ChannelPlan,
}

/// The kind of an access plan, with what only this kind has.
#[derive(Clone, Copy, Debug)]
pub enum AccessKind<'p> {
    /// A job-manager GPU.
    Registers(&'p RegisterPlan),
    /// A device on a bus.
    Mmio(&'p MmioPlan),
}

/// An access plan with its envelope: what is verified and run.
#[derive(Clone, Copy, Debug)]
pub struct PlannedAccesses<'p> {
    /// The envelope.
    pub envelope: &'p Plan,
    /// The accesses.
    pub accesses: &'p AccessPlan,
    /// The kind.
    pub kind: AccessKind<'p>,
}

/// An API-trace plan with its envelope: what is verified and run.
#[derive(Clone, Copy, Debug)]
pub struct PlannedCalls<'p> {
    /// The envelope.
    pub envelope: &'p Plan,
    /// The calls.
    pub calls: &'p ApiTracePlan,
}

impl<'p> PlannedAccesses<'p> {
    /// Returns the plan of a bus device, or `None` for a job-manager GPU.
    #[must_use]
    pub fn mmio(&self) -> Option<&'p MmioPlan> {
        match self.kind {
            AccessKind::Registers(_) => None,
            AccessKind::Mmio(plan) => Some(plan),
        }
    }

    /// Returns the translations that the plan sets up. A bus device has none.
    #[must_use]
    pub fn spaces(&self) -> &'p [PlanSpace] {
        match self.kind {
            AccessKind::Registers(plan) => &plan.spaces,
            AccessKind::Mmio(_) => &[],
        }
    }

    /// Returns the jobs that the plan submits. A bus device has none.
    #[must_use]
    pub fn jobs(&self) -> &'p [PlanJob] {
        match self.kind {
            AccessKind::Registers(plan) => &plan.jobs,
            AccessKind::Mmio(_) => &[],
        }
    }

    /// Returns whether the device uses bus mastering.
    #[must_use]
    pub fn masters(&self) -> bool {
        self.mmio().is_some_and(|plan| plan.masters)
    }
}

impl PlanBody {
    /// Returns the accesses, or `None` if the plan has none.
    #[must_use]
    pub fn accesses(&self) -> Option<&AccessPlan> {
        match self {
            Self::Registers(plan) => Some(&plan.accesses),
            Self::Mmio(plan) => Some(&plan.accesses),
            Self::Api(_) | Self::Channel(_) => None,
        }
    }

    /// Returns the accesses, or `None` if the plan has none.
    pub fn accesses_mut(&mut self) -> Option<&mut AccessPlan> {
        match self {
            Self::Registers(plan) => Some(&mut plan.accesses),
            Self::Mmio(plan) => Some(&mut plan.accesses),
            Self::Api(_) | Self::Channel(_) => None,
        }
    }

    /// Returns the encoded actions or calls.
    #[must_use]
    pub fn bytes(&self) -> &Body {
        match self {
            Self::Registers(plan) => &plan.accesses.body,
            Self::Mmio(plan) => &plan.accesses.body,
            Self::Api(plan) => &plan.body,
            Self::Channel(plan) => &plan.body,
        }
    }

    /// Replaces the encoded actions or calls.
    pub fn set_bytes(&mut self, bytes: Body) {
        match self {
            Self::Registers(plan) => plan.accesses.body = bytes,
            Self::Mmio(plan) => plan.accesses.body = bytes,
            Self::Api(plan) => plan.body = bytes,
            Self::Channel(plan) => plan.body = bytes,
        }
    }
}

impl Plan {
    /// Returns the accesses with the envelope, or `None` if the plan has none.
    #[must_use]
    pub fn planned_accesses(&self) -> Option<PlannedAccesses<'_>> {
        let (accesses, kind) = match &self.body {
            PlanBody::Registers(plan) => (&plan.accesses, AccessKind::Registers(plan)),
            PlanBody::Mmio(plan) => (&plan.accesses, AccessKind::Mmio(plan)),
            PlanBody::Api(_) | PlanBody::Channel(_) => return None,
        };
        Some(PlannedAccesses {
            envelope: self,
            accesses,
            kind,
        })
    }

    /// Returns the calls with the envelope, or `None` if the plan has accesses.
    #[must_use]
    pub fn planned_calls(&self) -> Option<PlannedCalls<'_>> {
        let calls = self.api()?;
        Some(PlannedCalls { envelope: self, calls })
    }

    /// Returns the accesses, or `None` if the plan has none.
    #[must_use]
    pub fn accesses(&self) -> Option<&AccessPlan> {
        self.body.accesses()
    }

    /// Returns the accesses, or `None` if the plan has none.
    pub fn accesses_mut(&mut self) -> Option<&mut AccessPlan> {
        self.body.accesses_mut()
    }

    /// Returns the translations that the plan sets up. Only the plan of a job-manager GPU has some.
    #[must_use]
    pub fn spaces(&self) -> &[PlanSpace] {
        self.registers().map_or(&[], |plan| &plan.spaces)
    }

    /// Returns the jobs in order of submit. Only the plan of a job-manager GPU has some.
    #[must_use]
    pub fn jobs(&self) -> &[PlanJob] {
        self.registers().map_or(&[], |plan| &plan.jobs)
    }

    /// Returns the plan of a job-manager GPU, or `None` for the other kinds.
    #[must_use]
    pub fn registers(&self) -> Option<&RegisterPlan> {
        match &self.body {
            PlanBody::Registers(plan) => Some(plan),
            _ => None,
        }
    }

    /// Returns the plan of a job-manager GPU, or `None` for the other kinds.
    pub fn registers_mut(&mut self) -> Option<&mut RegisterPlan> {
        match &mut self.body {
            PlanBody::Registers(plan) => Some(plan),
            _ => None,
        }
    }

    /// Returns the plan of a bus device, or `None` for the other kinds.
    #[must_use]
    pub fn mmio(&self) -> Option<&MmioPlan> {
        match &self.body {
            PlanBody::Mmio(plan) => Some(plan),
            _ => None,
        }
    }

    /// Returns the plan of a bus device, or `None` for the other kinds.
    pub fn mmio_mut(&mut self) -> Option<&mut MmioPlan> {
        match &mut self.body {
            PlanBody::Mmio(plan) => Some(plan),
            _ => None,
        }
    }

    /// Returns the plan of an API trace, or `None` for the other kinds.
    #[must_use]
    pub fn api(&self) -> Option<&ApiTracePlan> {
        match &self.body {
            PlanBody::Api(plan) => Some(plan),
            _ => None,
        }
    }

    /// Returns the plan of an API trace, or `None` for the other kinds.
    pub fn api_mut(&mut self) -> Option<&mut ApiTracePlan> {
        match &mut self.body {
            PlanBody::Api(plan) => Some(plan),
            _ => None,
        }
    }

    /// Returns the channel plan, or `None` for the other kinds.
    #[must_use]
    pub fn channel(&self) -> Option<&ChannelPlan> {
        match &self.body {
            PlanBody::Channel(plan) => Some(plan),
            _ => None,
        }
    }

    /// Returns the submissions with the envelope, or `None` for the other kinds.
    #[must_use]
    pub fn planned_submissions(&self) -> Option<PlannedSubmissions<'_>> {
        let channel = self.channel()?;
        Some(PlannedSubmissions {
            envelope: self,
            channel,
        })
    }

    /// Returns the offsets of the registers that the plan writes, with the number of writes. Other MMIO regions are not
    /// included. Actions after one that does not decode are not counted; such a plan is refused. The time is linear in
    /// the number of actions.
    #[must_use]
    pub fn writes(&self) -> BTreeMap<u64, u64> {
        let mut out = BTreeMap::new();
        let Some(plan) = self.planned_accesses() else {
            return out;
        };
        for action in Actions::new(&plan.accesses.body).map_while(Result::ok) {
            if let Action::Write { space, offset, .. } | Action::WriteSlot { space, offset, .. } = action
                && space != space::ARENA
                && (plan.mmio().is_none() || space == space::REGISTERS)
            {
                *out.entry(offset).or_default() += 1;
            }
        }
        out
    }
}

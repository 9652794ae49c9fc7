//! Targets of all kinds: what a server owns, what it is asked for, and what API traces need besides register accesses.

use crate::channel::VerifiedMemory;
use crate::device::{DeviceInfo, DeviceInterface, RegisterFactory, RegisterTarget, ReplayDeviceError, Target};
use crate::memory_trace::{MemoryTraceReport, MemoryTraceRequest};
use crate::plan::{PageSource, PlannedCalls, PlannedSubmissions};
use crate::run::Outcome;
use crate::tune::{TuneReport, TuneRequest};
use crate::verify::{Reason, Refusal, VerificationReport, refuse};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use trace_core::Recording;
use trace_core::progress::Progress;

/// What a target is asked to do with a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TargetRequest {
    /// A replay.
    Replay {
        /// Number of repetitions, at least 1.
        repeat: u32,
    },
    /// A tuning of one launch of an API trace.
    Tune(Box<TuneRequest>),
    /// A memory trace of an API trace.
    TraceMemory(MemoryTraceRequest),
    /// One replay of register accesses that may stop before its end, if the lease is preempted.
    ReplayWithStops {
        /// Events of the recording after which no job runs, ascending. The run stops after one of them.
        stops: Vec<u32>,
    },
    /// One replay of register accesses without a reset before it. It is refused if the plan depends on the state of the
    /// device, or the device is not idle.
    ReplayWithoutReset,
}

/// The first protocol version with [`TargetRequest::ReplayWithoutReset`].
pub const WITHOUT_RESET_VERSION: u16 = 9;

/// The memory that an API target traced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedMemory {
    /// The report.
    pub report: MemoryTraceReport,
    /// The bytes of the [`trace_core::api_trace::MemoryTrace`].
    pub trace: Vec<u8>,
}

/// A target of API traces.
pub trait ApiTarget: Target {
    /// Returns the API of its traces.
    fn api(&self) -> Arc<dyn ApiSupport>;

    /// Replays a verified plan `repeat` times. Returns the outcome without its recording; failures are part of it.
    fn replay(&mut self, plan: PlannedCalls<'_>, pages: &dyn PageSource, repeat: u32, progress: &Progress) -> Outcome;

    /// Tunes a launch of a verified plan. A cancelled tuning returns the results up to then.
    ///
    /// # Errors
    /// Why there is no result, for the user.
    fn tune(
        &mut self,
        plan: PlannedCalls<'_>,
        pages: &dyn PageSource,
        request: &TuneRequest,
        progress: &Progress,
    ) -> Result<TuneReport, String>;

    /// Traces the memory of a verified plan.
    ///
    /// # Errors
    /// Why there is no trace, for the user.
    fn trace_memory(
        &mut self,
        plan: PlannedCalls<'_>,
        pages: &dyn PageSource,
        request: &MemoryTraceRequest,
        progress: &Progress,
    ) -> Result<TracedMemory, String>;
}

/// A target of submissions to channels.
pub trait ChannelTarget: Target {
    /// Starts the slow preparations for a replay that will soon be requested. Errors are reported when it is.
    fn prestart(&mut self) {}

    /// Returns what prepares a replay while its plan is verified, or `None` if the target has nothing of the kind.
    fn preparation(&self) -> Option<Arc<dyn ReplayPreparation>> {
        None
    }

    /// Replays a verified plan `repeat` times. Returns the outcome without its recording; failures are part of it.
    fn replay(
        &mut self,
        plan: PlannedSubmissions<'_>,
        pages: &dyn PageSource,
        repeat: u32,
        progress: &Progress,
    ) -> Outcome;
}

/// Preparations for a replay whose plan is being compiled or verified.
pub trait ReplayPreparation: fmt::Debug + Send + Sync {
    /// Starts to map the memory, unless it was already started. Errors are reported by the replay, which repeats what is missing.
    fn map_memory(&self, memory: VerifiedMemory<'_>);

    /// Prepares what takes long: starts to map the memory, and reads the page images. Errors are reported by the replay, which
    /// repeats what is missing.
    fn prepare(&self, plan: PlannedSubmissions<'_>, memory: VerifiedMemory<'_>, pages: &dyn PageSource);

    /// Takes everything back: the plan was refused.
    fn discard(&self);
}

/// What clients and servers need for plans of one API. A program hands it in.
pub trait ApiSupport: fmt::Debug + Send + Sync {
    /// Proves that a plan may run on this device.
    ///
    /// # Errors
    /// The first rule that the plan breaks.
    fn verify(&self, plan: PlannedCalls<'_>, target: &DeviceInfo) -> Result<VerificationReport, Refusal>;

    /// Proves that a verified plan fits a request.
    ///
    /// # Errors
    /// The first rule that the request breaks.
    fn check_request(&self, plan: PlannedCalls<'_>, request: &TargetRequest) -> Result<(), Refusal>;

    /// Builds the recording of a replay.
    ///
    /// # Errors
    /// Why the plan cannot be decoded, for the user.
    fn build_recording(
        &self,
        outcome: &Outcome,
        plan: PlannedCalls<'_>,
        pages: &dyn PageSource,
        info: &DeviceInfo,
    ) -> Result<Recording, String>;
}

/// Checks a request for a plan of another kind than an API trace: it is only replayed.
///
/// # Errors
/// If the request is for API traces.
pub fn check_replay_request(request: &TargetRequest, device: &DeviceInfo) -> Result<(), Refusal> {
    let (place, what) = match request {
        TargetRequest::Replay { .. } => return Ok(()),
        TargetRequest::ReplayWithStops { .. } | TargetRequest::ReplayWithoutReset
            if device.interface == DeviceInterface::Registers =>
        {
            return Ok(());
        }
        TargetRequest::ReplayWithoutReset => ("reset", "is not reset between replays"),
        TargetRequest::ReplayWithStops { .. } => ("stops", "stops at no event"),
        TargetRequest::Tune(_) => ("tuning", "tunes no launches"),
        TargetRequest::TraceMemory(_) => ("memory trace", "traces no memory"),
    };
    let why = format!("{} runs {} and {what}", device.name, device.taken_plans());
    refuse(0, place, Reason::Calls { why })
}

/// An open target.
pub enum OpenTarget {
    /// It takes register accesses.
    Registers(Box<dyn RegisterTarget>),
    /// It takes API traces.
    Api(Box<dyn ApiTarget>),
    /// It takes submissions to channels.
    Channel(Box<dyn ChannelTarget>),
}

impl OpenTarget {
    /// Returns the description of the device.
    #[must_use]
    pub fn info(&self) -> DeviceInfo {
        match self {
            Self::Registers(device) => device.info(),
            Self::Api(device) => device.info(),
            Self::Channel(device) => device.info(),
        }
    }

    /// Brings the device to its power-on state.
    ///
    /// # Errors
    /// If the device fails.
    pub fn reset(&mut self) -> Result<(), ReplayDeviceError> {
        match self {
            Self::Registers(device) => device.reset(),
            Self::Api(device) => device.reset(),
            Self::Channel(device) => device.reset(),
        }
    }

    /// Returns the API of its traces, or `None` if it takes no API traces.
    #[must_use]
    pub fn api(&self) -> Option<Arc<dyn ApiSupport>> {
        match self {
            Self::Registers(_) | Self::Channel(_) => None,
            Self::Api(device) => Some(device.api()),
        }
    }
}

/// Creates a target of API traces, and creates it again after a panic.
pub type ApiFactory = Arc<dyn Fn() -> Result<Box<dyn ApiTarget>, ReplayDeviceError> + Send + Sync>;

/// Creates a target of submissions to channels, and creates it again after a panic.
pub type ChannelFactory = Arc<dyn Fn() -> Result<Box<dyn ChannelTarget>, ReplayDeviceError> + Send + Sync>;

/// Creates a target, and creates it again after a panic.
#[derive(Clone)]
pub enum Factory {
    /// It takes register accesses.
    Registers(RegisterFactory),
    /// It takes API traces.
    Api(ApiFactory),
    /// It takes submissions to channels.
    Channel(ChannelFactory),
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Registers(_) => "Factory::Registers",
            Self::Api(_) => "Factory::Api",
            Self::Channel(_) => "Factory::Channel",
        })
    }
}

impl From<RegisterFactory> for Factory {
    fn from(factory: RegisterFactory) -> Self {
        Self::Registers(factory)
    }
}

impl From<ApiFactory> for Factory {
    fn from(factory: ApiFactory) -> Self {
        Self::Api(factory)
    }
}

impl From<ChannelFactory> for Factory {
    fn from(factory: ChannelFactory) -> Self {
        Self::Channel(factory)
    }
}

impl Factory {
    /// Creates the target.
    ///
    /// # Errors
    /// If the device cannot be created.
    pub fn open(&self) -> Result<OpenTarget, ReplayDeviceError> {
        match self {
            Self::Registers(factory) => factory().map(OpenTarget::Registers),
            Self::Api(factory) => factory().map(OpenTarget::Api),
            Self::Channel(factory) => factory().map(OpenTarget::Channel),
        }
    }
}

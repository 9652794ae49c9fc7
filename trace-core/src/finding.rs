//! Findings: suspicious properties of a recording, each with its kind, severity, location and reason.

use crate::ids::GpuVa;
use serde::{Deserialize, Serialize};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information.
    Note,
    /// Something may be wrong.
    Warning,
    /// The recording, or a part of it, cannot be trusted.
    Error,
}

/// The kind of a finding. The names are part of the command line's JSON, and files store the position in this list: a
/// new kind comes at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A submitted job header does not decode.
    UndecodedJobHead,
    /// Memory holds unexpected data, for example text in a job descriptor.
    ForeignData,
    /// A file or section ends before its declared size.
    TruncatedSection,
    /// The recorder missed events.
    LostEvents,
    /// Two regions cover the same addresses.
    OverlappingRegions,
    /// An event's time is before that of the event before it.
    TimeBackwards,
    /// An access to a register that is not in the register map.
    UnknownRegister,
    /// Mapped memory whose contents the recording does not hold.
    MappedWithoutContent,
    /// An identity or feature register changed its value.
    FeatureChanged,
    /// A read during a replay shows state from before the recording.
    StateBeforeRecording,
    /// The importer skipped something in the source, with the reason.
    NotUsed,
    /// The order of two timelines of the same recording differs.
    OrderDiffers,
    /// The source lacks information, and the importer assumed a value.
    Assumed,
    /// Bytes of the file do not match their digest.
    DamagedSection,
    /// In a replay, a job's shader did not run or did not finish, with the reason.
    ShaderNotRun,
    /// Accesses whose address was recorded but not their value.
    UndecodedAccess,
    /// Pages that the GPU may both write and execute.
    WritableAndExecutable,
    /// Physical memory that is mapped at two addresses with different cacheability or shareability.
    AliasedAttributes,
    /// Physical memory that is mapped at two addresses with different access rights.
    AliasedRights,
    /// Mapped pages with no recorded reads or writes.
    MappedUnused,
    /// A page table in memory that the GPU may write.
    WritablePageTable,
    /// The recorded program used a driver feature that the recording does not hold.
    NotRecorded,
    /// The kernel driver reported an error: a fault of the GPU, or work that it refused.
    DriverError,
    /// Work of the GPU at an address where no buffer is mapped: none ever was, or it was freed before.
    UnmappedAddress,
    /// A buffer that a client of the kernel driver did not free, although it freed its channels and other buffers.
    NotFreed,
    /// Copies of a WebAssembly program trapped at the same instruction.
    CopyTrapped,
    /// Copies of a WebAssembly program stopped at a limit of time, output or nested calls.
    CopyLimit,
    /// Copies of a WebAssembly program ended with the same exit code, which is not 0.
    CopyFailed,
    /// A run of a WebAssembly program stopped before all copies ended.
    CopyUnfinished,
}

impl FindingKind {
    /// Returns the severity of findings of this kind.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            Self::UndecodedJobHead | Self::ForeignData | Self::TruncatedSection | Self::DamagedSection => {
                Severity::Error
            }
            Self::LostEvents
            | Self::OverlappingRegions
            | Self::TimeBackwards
            | Self::UnknownRegister
            | Self::UndecodedAccess
            | Self::AliasedAttributes
            | Self::WritablePageTable
            | Self::NotRecorded
            | Self::DriverError
            | Self::UnmappedAddress
            | Self::CopyTrapped
            | Self::CopyLimit
            | Self::CopyUnfinished => Severity::Warning,
            Self::MappedWithoutContent
            | Self::FeatureChanged
            | Self::StateBeforeRecording
            | Self::NotUsed
            | Self::OrderDiffers
            | Self::Assumed
            | Self::ShaderNotRun
            | Self::WritableAndExecutable
            | Self::AliasedRights
            | Self::MappedUnused
            | Self::NotFreed
            | Self::CopyFailed => Severity::Note,
        }
    }
}

/// Something suspicious in a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The kind of the finding.
    pub kind: FindingKind,
    /// The severity.
    pub severity: Severity,
    /// The location: a file and line, an event, or an address.
    pub place: String,
    /// What is wrong and why it matters, in one sentence.
    pub message: String,
    /// The event to jump to, if there is one.
    pub event: Option<u64>,
    /// The GPU address, if the location is one. Not stored: no finding of an importer or recorder has one.
    #[serde(skip)]
    pub address: Option<GpuVa>,
}

impl Finding {
    /// Creates a finding with the severity of its kind.
    #[must_use]
    pub fn new(kind: FindingKind, place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            severity: kind.severity(),
            place: place.into(),
            message: message.into(),
            event: None,
            address: None,
        }
    }

    /// Creates a finding whose location is a GPU address.
    #[must_use]
    pub fn at_address(kind: FindingKind, address: GpuVa, message: impl Into<String>) -> Self {
        Self {
            address: Some(address),
            ..Self::new(kind, address.to_string(), message)
        }
    }

    /// Returns the same finding with an event to jump to.
    #[must_use]
    pub fn at_event(mut self, event: u64) -> Self {
        self.event = Some(event);
        self
    }
}

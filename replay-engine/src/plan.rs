//! The plan: actions compiled from a recording and its edits, with every rewrite listed.

pub mod api_body;
mod api_metadata_record;
mod apply;
mod assembled;
mod body;
pub(crate) mod bus;
mod compile_input;
mod effects;
mod error;
mod kinds;
mod legacy;
mod memory;
mod model_error;
mod origin;
mod pages;
mod register_access;
pub(crate) mod relocate;
pub mod text;

pub use apply::{ApplyError, apply};
pub use assembled::{Compiled, PLAN_FILE_MAGIC, PlacedPlan, PlanFileError, encode_plan_file, write_plan_file};
pub use body::{Body, BodyBuilder, BodyError};
pub(crate) use bus::{Bus, BusError, DeviceMemory, PollEnd, is_within};
pub use compile_input::{CompileOptions, Edits, Pace, Patch, plan_title};
pub(crate) use compile_input::{find_buffer, plan_buffer};
pub(crate) use effects::short_digest;
pub use effects::{Effect, EffectResult, Expectation, MAX_WINDOW_BYTES};
pub use error::CompileError;
pub use kinds::{
    AccessKind, AccessPlan, ApiTracePlan, ChannelPlan, MmioPlan, PlanBody, PlannedAccesses, PlannedCalls,
    PlannedLaunch, PlannedSubmissions, RegisterPlan,
};
pub use memory::{MissingPage, PlanGpuMemory, PlanMemory, PlanPages};
pub use model_error::ModelError;
pub use origin::Origin;
pub use pages::{ComputedImages, PageImages, PageSource};
pub(crate) use register_access::{CompareMode, RegisterAccess, UnwrittenRegisters};
pub use relocate::EDIT_END;

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trace_core::encode::EncodeError;
use trace_core::recording::{Digest, ElementType, FrameRole, MmuFormat, Page, zero_digest};
use trace_core::{GpuVa, PhysAddr};

/// Version of the plan format that this code writes. See `docs/plan.md`.
pub const PLAN_VERSION: u32 = 7;
/// Oldest version of the plan format that this code reads.
pub const MIN_PLAN_VERSION: u32 = legacy::MIN_VERSION;

/// Maximum number of ranges of unknown registers that the user can allow.
pub const MAX_ALLOWED: u64 = 64;

/// Magic bytes of a plan.
pub const PLAN_MAGIC: [u8; 8] = *b"KINEPLAN";

/// Kinds of differences between a recording and its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewriteKind {
    /// The page-table root is replaced by the agent's.
    Root,
    /// The flush id comes from the live read.
    FlushId,
    /// A job's status word is cleared before its submit.
    JobStatus,
    /// Recorded idle time is skipped.
    Gap,
    /// Reads of a changing status become a bounded wait.
    ReadToWait,
    /// A wait for an interrupt is added where the recording has its handler.
    WaitAdded,
    /// An input's bytes are replaced by the user's.
    Input,
    /// An output is copied out at the end.
    Output,
    /// A recorded address is replaced by an address of the agent's memory.
    Address,
    /// Accesses are left out, because they do not belong to the device or the recording lacks their data.
    LeftOut,
    /// A feature is accepted that the device requires behind an IOMMU.
    Feature,
    /// The plan is for another model than the recorded one.
    Model,
    /// An identity or feature register reads as that of the target's model.
    Identity,
    /// A mask of cores names the cores of the target.
    CoreMask,
    /// A set-up register has the value that fits the target's model.
    UnitSetup,
    /// Page tables, or the registers that select and describe them, have another format.
    TableFormat,
}

/// One difference between a recording and its plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrite {
    /// The kind.
    pub kind: RewriteKind,
    /// The event of the recording that it belongs to, if there is one.
    pub event: Option<u64>,
    /// The change, for the user.
    pub detail: String,
}

/// A page that a plan puts into the arena before it runs. Pages that are not listed are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanPage {
    /// Physical frame number (address / 4096), inside the arena.
    pub frame: u64,
    /// BLAKE3 digest of its content.
    pub digest: Digest,
    /// Page table or data.
    pub role: FrameRole,
}

/// A translation that the plan sets up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSpace {
    /// Hardware address-space number.
    pub number: u8,
    /// Format of its tables.
    pub format: MmuFormat,
    /// Physical address of the top table, inside the arena.
    pub root: PhysAddr,
    /// Value that the root register receives.
    pub root_register: u64,
}

/// A named buffer; the ones in [`Plan::outputs`] are copied out at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanBuffer {
    /// Its name in the recording.
    pub name: String,
    /// First byte.
    pub va: GpuVa,
    /// Size in bytes.
    pub bytes: u64,
    /// Type of the elements.
    pub element: ElementType,
    /// Index into [`RegisterPlan::spaces`].
    pub space: u32,
}

/// A job that the plan submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanJob {
    /// Event of the submit write.
    pub submit_event: u64,
    /// First event of its interrupt's handler.
    pub done_event: Option<u64>,
    /// GPU address of the head of its chain.
    pub head_va: GpuVa,
    /// Job slot.
    pub slot: u8,
}

/// Number of recorded reads by treatment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadClasses {
    /// Must match.
    pub equal: u64,
    /// Some bits must match.
    pub masked: u64,
    /// Part of a poll.
    pub until: u64,
    /// Value used by a later rewrite.
    pub feeds: u64,
    /// Free-running.
    pub any: u64,
}

impl ReadClasses {
    /// Returns the number of compared reads.
    #[must_use]
    pub fn compared(&self) -> u64 {
        self.equal + self.masked + self.until
    }
}

/// Limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budgets {
    /// Maximum number of actions.
    pub actions: u64,
    /// Maximum number of arena pages, including zero ones.
    pub pages: u64,
    /// Maximum time on the device's clock, nanoseconds.
    pub time_ns: u64,
    /// Limit of one wait for an interrupt, ns.
    pub interrupt_ns: u64,
    /// Limit of one poll, ns.
    pub poll_ns: u64,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            actions: 50_000_000,
            pages: 1 << 20,
            time_ns: 600_000_000_000,
            interrupt_ns: 5_000_000_000,
            poll_ns: 100_000_000,
        }
    }
}

/// Actions or calls compiled from a recording and its edits, for one device: an envelope that all kinds of plans share,
/// and the body of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_VERSION`].
    pub version: u32,
    /// Source of the recording, for the user.
    pub title: String,
    /// Buffers copied out at the end.
    pub outputs: Vec<PlanBuffer>,
    /// Every difference from the recording.
    pub rewrites: Vec<Rewrite>,
    /// Number of encoded actions or calls.
    pub actions: u64,
    /// Limits.
    pub budgets: Budgets,
    /// BLAKE3 digests of the page images that the encoded actions or calls take bytes from, by number.
    pub images: Vec<Digest>,
    /// What only this kind of plan has.
    pub body: PlanBody,
}

/// The error for bytes that are not a plan that this code reads.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The first bytes are not [`PLAN_MAGIC`].
    #[error("these {bytes} bytes are not a plan: they do not start with KINEPLAN")]
    NotAPlan {
        /// Number of bytes.
        bytes: usize,
    },
    /// The version is another one.
    #[error("the plan has version {found}; this program reads versions {MIN_PLAN_VERSION} to {PLAN_VERSION}")]
    Version {
        /// The version found.
        found: u32,
    },
    /// A plan with its page images is truncated.
    #[error("the plan of {bytes} bytes is cut off")]
    Cut {
        /// Number of bytes.
        bytes: usize,
    },
    /// A plan of an older version that no plan of today can express.
    #[error("the plan of an older version cannot be used: {why}")]
    Legacy {
        /// The reason.
        why: String,
    },
    /// The record is damaged.
    #[error("the plan is damaged")]
    Record(#[from] EncodeError),
}

impl Plan {
    /// Creates a plan with an empty envelope.
    #[must_use]
    pub fn new(body: PlanBody) -> Self {
        Self {
            version: PLAN_VERSION,
            title: String::new(),
            outputs: Vec::new(),
            rewrites: Vec::new(),
            actions: 0,
            budgets: Budgets::default(),
            images: Vec::new(),
            body,
        }
    }

    /// Returns for which model the plan is, if not for the recorded one, with the number of rewrites of each kind that this
    /// takes: `recorded on Mali-G71, compiled for Mali-G72: 24 rewrites of identity, 6 of core-mask`.
    #[must_use]
    pub fn describe_model(&self) -> Option<String> {
        let model = self.rewrites.iter().find(|r| r.kind == RewriteKind::Model)?;
        let counts = RewriteKind::OF_MODELS.into_iter().filter_map(|kind| {
            let count = self.rewrites.iter().filter(|r| r.kind == kind).count();
            (count > 0).then(|| (count, kind.name()))
        });
        let counts: Vec<String> = counts
            .enumerate()
            .map(|(at, (count, name))| match (at, count) {
                (0, 1) => format!("1 rewrite of {name}"),
                (0, _) => format!("{count} rewrites of {name}"),
                _ => format!("{count} of {name}"),
            })
            .collect();
        Some(match counts.is_empty() {
            true => model.detail.clone(),
            false => format!("{}: {}", model.detail, counts.join(", ")),
        })
    }

    /// Returns the digests of all page images that the plan refers to, each once, ascending, without the page of zeros.
    #[must_use]
    pub fn digests(&self) -> BTreeSet<Digest> {
        let pages = self.accesses().map_or(&[][..], |a| &a.pages).iter().map(|p| p.digest);
        let all = pages.chain(self.images.iter().copied());
        all.filter(|d| *d != zero_digest()).collect()
    }

    /// Returns the images that memory changes take bytes from, by their number.
    ///
    /// # Errors
    /// The number of the first missing image, with its digest.
    pub fn change_images<'p>(&self, pages: &'p dyn PageSource) -> Result<Vec<&'p Page>, (usize, Digest)> {
        let image = |(i, digest): (usize, &Digest)| pages.page(digest).ok_or((i, *digest));
        self.images.iter().enumerate().map(image).collect()
    }

    /// Encodes the plan: magic, version, record. See `docs/plan.md`.
    ///
    /// # Errors
    /// If it is too long for a record.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PlanError> {
        let record = trace_core::encode::to_long_bytes(self)?;
        let mut out = Vec::with_capacity(12 + record.len());
        out.extend_from_slice(&PLAN_MAGIC);
        out.extend_from_slice(&PLAN_VERSION.to_le_bytes());
        out.extend_from_slice(&record);
        Ok(out)
    }

    /// Decodes a plan.
    ///
    /// # Errors
    /// If the bytes are not a plan, have another version, or are damaged. An unknown version is refused, never guessed.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PlanError> {
        let not = PlanError::NotAPlan { bytes: bytes.len() };
        let Some((version, record)) = bytes.strip_prefix(&PLAN_MAGIC).and_then(|r| r.split_first_chunk::<4>()) else {
            return Err(not);
        };
        let found = u32::from_le_bytes(*version);
        if !(MIN_PLAN_VERSION..=PLAN_VERSION).contains(&found) {
            return Err(PlanError::Version { found });
        }
        Self::from_record(record)
    }

    /// Returns the record of the plan without encoded actions or calls and without origin, as it is sent to an agent.
    ///
    /// # Errors
    /// If it is too long for a record.
    pub(crate) fn head_record(&self) -> Result<Vec<u8>, EncodeError> {
        let mut head = self.clone();
        head.body.set_bytes(Body::default());
        if let Some(accesses) = head.accesses_mut() {
            accesses.origin = None;
        }
        trace_core::encode::to_bytes(&head)
    }

    /// Reads a plan's record, which starts with its version. A plan of an older version becomes one of
    /// [`PLAN_VERSION`].
    ///
    /// # Errors
    /// If the version is unknown or the record is damaged.
    pub fn from_record(record: &[u8]) -> Result<Self, PlanError> {
        match record.first_chunk::<4>().map(|v| u32::from_le_bytes(*v)) {
            Some(version) if legacy::is_legacy(version) => legacy::read(version, record),
            Some(found) if found != PLAN_VERSION => Err(PlanError::Version { found }),
            _ => Ok(trace_core::encode::from_long_bytes(record)?),
        }
    }
}

impl RewriteKind {
    /// All kinds, in order.
    pub const ALL: [Self; 16] = [
        Self::Root,
        Self::FlushId,
        Self::JobStatus,
        Self::Gap,
        Self::ReadToWait,
        Self::WaitAdded,
        Self::Input,
        Self::Output,
        Self::Address,
        Self::LeftOut,
        Self::Feature,
        Self::Model,
        Self::Identity,
        Self::CoreMask,
        Self::UnitSetup,
        Self::TableFormat,
    ];

    /// The kinds of rewrites that another model takes.
    const OF_MODELS: [Self; 4] = [Self::Identity, Self::CoreMask, Self::UnitSetup, Self::TableFormat];

    /// Returns the name of the kind in JSON, text and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::FlushId => "flush-id",
            Self::JobStatus => "job-status",
            Self::Gap => "gap",
            Self::ReadToWait => "read-to-wait",
            Self::WaitAdded => "wait-added",
            Self::Input => "input",
            Self::Output => "output",
            Self::Address => "address",
            Self::LeftOut => "left-out",
            Self::Feature => "feature",
            Self::Model => "model",
            Self::Identity => "identity",
            Self::CoreMask => "core-mask",
            Self::UnitSetup => "unit-setup",
            Self::TableFormat => "table-format",
        }
    }
}

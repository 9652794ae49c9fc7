//! The plan: actions compiled from a recording and its edits, with every rewrite listed.

mod apply;
mod assembled;
mod body;
mod bus;
pub mod calls;
mod compile;
mod compile_input;
mod dma;
mod effects;
mod error;
mod events;
mod memory;
mod origin;
mod pages;
mod prepass;
mod register_access;
mod relocate;
pub mod text;
mod unwritten;
mod virtio_features;
mod windows;

pub use apply::{ApplyError, apply};
pub use assembled::{Compiled, PLAN_FILE_MAGIC, PlanFileError, encode_plan_file, write_plan_file};
pub use body::{Body, BodyBuilder, BodyError};
pub(crate) use bus::{Bus, BusError, DeviceMemory, PollEnd, is_within};
pub use compile::{PlacedPlan, compile, compile_placed, compile_with};
pub use compile_input::{CompileOptions, Edits, Pace, Patch};
pub(crate) use effects::short_digest;
pub use effects::{Effect, EffectResult, Expectation, MAX_WINDOW_BYTES};
pub use error::CompileError;
pub use memory::{MissingPage, PlanGpuMemory, PlanMemory, PlanPages};
pub use origin::Origin;
pub use pages::PageSource;
pub(crate) use prepass::{AS_UPDATE, CONFIG_AS, JOB_START};
pub(crate) use register_access::{CompareMode, RegisterAccess, UnwrittenRegisters as UntouchedWindows};
pub(crate) use unwritten::{RESETS, UnwrittenRegisters};
pub(crate) use windows::OTHER_WINDOW;

use crate::device::{Arena, Window, hardware_json, space};
use replay_core::{Action, Actions};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use trace_core::encode::EncodeError;
use trace_core::recording::{Digest, ElementType, FrameRole, Hardware, MmuFormat, Page, zero_digest};
use trace_core::{GpuVa, PhysAddr};

/// Version of the plan format that this code writes. See `docs/plan.md`.
pub const PLAN_VERSION: u32 = 6;
/// Oldest version of the plan format that this code reads: version 5 ends before [`Plan::origin`].
pub const MIN_PLAN_VERSION: u32 = 5;

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
    /// Index into [`Plan::spaces`].
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

/// Actions compiled from a recording and its edits, for one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_VERSION`].
    pub version: u32,
    /// Source of the recording, for the user.
    pub title: String,
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
    /// Translations that the plan sets up.
    pub spaces: Vec<PlanSpace>,
    /// Buffers copied out at the end.
    pub outputs: Vec<PlanBuffer>,
    /// Jobs in order of submit.
    pub jobs: Vec<PlanJob>,
    /// Every difference from the recording.
    pub rewrites: Vec<Rewrite>,
    /// Number of recorded reads by treatment.
    pub reads: ReadClasses,
    /// Number of interrupts that the plan waits for.
    pub interrupts: u64,
    /// Number of actions in `body`.
    pub actions: u64,
    /// Limits.
    pub budgets: Budgets,
    /// Encoded [`replay_core::Action`]s.
    pub body: Body,
    /// Register offsets that the map does not know and that the user allowed: start, end (exclusive).
    pub allowed: Vec<(u32, u32)>,
    /// All named buffers of the recording, so that a fault report can name the nearest buffer.
    pub buffers: Vec<PlanBuffer>,
    /// BLAKE3 digests of the page images that memory changes take bytes from, by their number in the body.
    pub images: Vec<Digest>,
    /// The device's identity on its bus, for a plan of a device's windows.
    #[serde(with = "hardware_json")]
    pub hardware: Option<Hardware>,
    /// The device's windows, for a plan of accesses to them: the space numbers in the body. Empty for a plan of a
    /// job-manager GPU, which accesses its registers and the plan's memory.
    pub windows: Vec<Window>,
    /// Required effects of the run other than matching reads.
    pub expectations: Vec<Expectation>,
    /// Whether the device uses bus mastering on the plan's memory, with the addresses that its register map's
    /// [`trace_core::registers::BusMaster`] describes.
    pub masters: bool,
    /// The properties of an API-trace plan outside its body. The body then holds calls instead of actions.
    #[serde(with = "calls::calls_json")]
    pub calls: Option<calls::ApiTracePlan>,
    /// Data that the outcome's recording takes over from the source recording. Devices do not need it, so it is not
    /// sent to an agent.
    #[serde(with = "origin::origin_json")]
    pub origin: Option<Origin>,
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
    /// The record is damaged.
    #[error("the plan is damaged")]
    Record(#[from] EncodeError),
}

impl Plan {
    /// Returns the offsets of the registers that the plan writes, with the number of writes. Other windows are not
    /// included. Actions after one that does not decode are not counted; such a plan is refused. The time is linear in
    /// the number of actions.
    #[must_use]
    pub fn writes(&self) -> BTreeMap<u64, u64> {
        let mut out = BTreeMap::new();
        if self.calls.is_some() {
            return out;
        }
        for action in Actions::new(&self.body).map_while(Result::ok) {
            if let Action::Write { space, offset, .. } | Action::WriteSlot { space, offset, .. } = action
                && space != space::ARENA
                && (self.windows.is_empty() || space == space::REGISTERS)
            {
                *out.entry(offset).or_default() += 1;
            }
        }
        out
    }

    /// Creates an empty plan, in an arena without pages.
    #[must_use]
    pub fn empty(version: u32) -> Self {
        Self {
            version,
            title: String::new(),
            gpu_id: 0,
            register_map: String::new(),
            arena: Arena {
                base: PhysAddr(0),
                pages: 0,
            },
            pages: Vec::new(),
            used_pages: 0,
            spaces: Vec::new(),
            outputs: Vec::new(),
            jobs: Vec::new(),
            rewrites: Vec::new(),
            reads: ReadClasses::default(),
            interrupts: 0,
            actions: 0,
            budgets: Budgets::default(),
            body: Body::default(),
            allowed: Vec::new(),
            buffers: Vec::new(),
            images: Vec::new(),
            hardware: None,
            windows: Vec::new(),
            expectations: Vec::new(),
            masters: false,
            calls: None,
            origin: None,
        }
    }

    /// Returns the digests of all page images that the plan refers to, each once, ascending, without the page of zeros.
    #[must_use]
    pub fn digests(&self) -> BTreeSet<Digest> {
        let pages = self.pages.iter().map(|p| p.digest);
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

    /// Returns the record of the plan without body and origin, as it is sent to an agent. It has version 5, which has
    /// no origin, so that older agents can read it too.
    ///
    /// # Errors
    /// If it is too long for a record.
    pub(crate) fn head_record(&self) -> Result<Vec<u8>, EncodeError> {
        let head = Self {
            version: MIN_PLAN_VERSION,
            body: Body::default(),
            origin: None,
            ..self.clone()
        };
        let mut record = trace_core::encode::to_bytes(&head)?;
        // The byte for a missing origin.
        record.pop();
        Ok(record)
    }

    /// Reads a plan's record, which starts with its version. A plan of an older version becomes one of
    /// [`PLAN_VERSION`].
    ///
    /// # Errors
    /// If the version is unknown or the record is damaged.
    pub fn from_record(record: &[u8]) -> Result<Self, PlanError> {
        let found = record.first_chunk::<4>().map(|v| u32::from_le_bytes(*v));
        match found {
            Some(MIN_PLAN_VERSION) => {
                // Version 6 added one optional field at the end.
                let mut longer = Vec::with_capacity(record.len() + 1);
                longer.extend_from_slice(record);
                longer.push(0);
                let mut plan: Self = trace_core::encode::from_long_bytes(&longer)?;
                plan.version = PLAN_VERSION;
                Ok(plan)
            }
            Some(found) if found != PLAN_VERSION => Err(PlanError::Version { found }),
            _ => Ok(trace_core::encode::from_long_bytes(record)?),
        }
    }
}

impl RewriteKind {
    /// All kinds, in order.
    pub const ALL: [Self; 11] = [
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
    ];

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
        }
    }
}

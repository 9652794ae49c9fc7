//! What a run leaves beside its outcome, and the recording that is made of it.
//!
//! The two are apart because a board has little memory: it keeps the events packed and each page once, and whoever asked
//! for the run, who has the plan and its pages, puts the recording together.

use super::Outcome;
use super::log::{EventLog, LogError, unpack};
use super::outcome::{JobOutcome, Verdict};
use super::recorder::SpaceRegisters;
use super::snapshots::{CountedPages, add_snapshots, fill_lost_pages};
use crate::device::{Board, BoardError, DeviceInfo, Window};
use crate::plan::{JOB_START, PageSource, Plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace_core::PAGE_SIZE;
use trace_core::check::{Finding, FindingKind};
use trace_core::recording::{
    Access, AddressSpace, Buffer, BufferRole, ChainReport, Clock, Facts, Identity, MemoryBuilder, Page, PageId,
    PageStore, RecordedRange, Recording, Space, ZERO_PAGE,
};
use trace_core::registers::{RegisterMap, Role};
use trace_core::screen::{Picture, PictureError};

/// What of the material is small: a record of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactsHeader {
    /// Address spaces that were set up: number, memory attributes, translation configuration.
    pub spaces: Vec<(u8, u64, u64)>,
    /// Of each host write among the events, in order: the number of the page image that it left, 0 for one of zeros.
    pub host_pages: Vec<u32>,
    /// Frames that are not zero after the run, rising, each with the number of its page image from 1 on.
    pub frames: Vec<(u64, u32)>,
    /// Width and height of what the screen shows, where the device has one.
    pub screen: Option<(u32, u32)>,
}

/// What the recording of a run is made of.
#[derive(Debug)]
pub(crate) struct RunArtifacts {
    pub header: ArtifactsHeader,
    /// The events, packed.
    pub events: EventLog,
    /// Page images, numbered from 1 on.
    pub images: PageStore,
    pub screen: Option<Picture>,
}

/// Material that came over a connection does not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactsError {
    /// The events.
    #[error(transparent)]
    Events(#[from] LogError),
    /// A page image that is not there.
    #[error("frame {frame:#x} has the page image {number}, and there are {images}")]
    Image {
        /// The frame.
        frame: u64,
        /// The number that it names.
        number: u32,
        /// Images there are.
        images: usize,
    },
    /// An image that the plan puts in place is not there.
    #[error("the image that the plan puts into frame {frame:#x} is missing")]
    Start {
        /// The frame.
        frame: u64,
    },
    /// Page images that are not whole.
    #[error("{bytes} bytes of page images are left over")]
    Images {
        /// How many.
        bytes: usize,
    },
    /// What the screen shows.
    #[error("what the screen shows: {0}")]
    Screen(#[from] PictureError),
    /// The recording cannot be written.
    #[error("the outcome could not be written: {0}")]
    Write(String),
}

/// Material as it came over a connection: one piece each.
#[derive(Debug, Default)]
pub struct ReceivedArtifacts {
    /// What is small.
    pub left: ArtifactsHeader,
    /// The events, packed.
    pub events: Vec<u8>,
    /// Page images.
    pub images: Vec<Page>,
    /// What the screen shows.
    pub screen: Option<Picture>,
}

impl RunArtifacts {
    /// Takes from the board what it holds after a run. `changed` holds the pages that changes of memory left.
    pub(super) fn gather(
        plan: &Plan,
        board: &mut dyn Board,
        events: EventLog,
        host_pages: Vec<u32>,
        mut changed: MemoryBuilder,
        seen: &BTreeMap<u8, SpaceRegisters>,
        screen: Option<Picture>,
    ) -> Result<Self, BoardError> {
        let first = plan.arena.base.frame();
        let used = first..first.saturating_add(plan.used_pages);
        let may_differ = board.content_frames();
        let frames: &mut dyn Iterator<Item = u64> = match &may_differ {
            Some(frames) => &mut frames.iter().copied().filter(|f| used.contains(f)),
            None => &mut used.clone(),
        };
        let mut page = ZERO_PAGE;
        let mut left = Vec::new();
        for frame in frames {
            board.load_page(frame, &mut page)?;
            if page != ZERO_PAGE {
                left.push((frame, changed.add_page(&page).0));
            }
        }
        Ok(Self {
            header: ArtifactsHeader {
                spaces: seen.iter().map(|(n, s)| (*n, s.memattr, s.transcfg)).collect(),
                host_pages,
                frames: left,
                screen: screen.as_ref().map(|p| (p.width(), p.height())),
            },
            events,
            images: changed.finish().pages,
            screen,
        })
    }

    /// Bytes of what is large: events, page images, what the screen shows.
    pub fn lengths(&self) -> [u64; 3] {
        let screen = self.screen.as_ref().map_or(0, |p| p.rgb().len());
        [
            self.events.bytes(),
            self.images.len() as u64 * PAGE_SIZE as u64,
            screen as u64,
        ]
    }

    /// All of it goes into a hash, which is the same for runs that left the same.
    pub fn hash(&self, hash: &mut blake3::Hasher) {
        for block in self.events.blocks() {
            hash.update(block);
        }
        for digest in (1..).map_while(|n| self.images.digest(PageId(n))) {
            hash.update(&digest);
        }
        for (frame, image) in &self.header.frames {
            hash.update(&frame.to_le_bytes()).update(&image.to_le_bytes());
        }
        for image in &self.header.host_pages {
            hash.update(&image.to_le_bytes());
        }
        if let Some(picture) = &self.screen {
            hash.update(picture.rgb());
        }
    }

    /// The same as one that came over a connection.
    pub fn into_received(self) -> ReceivedArtifacts {
        let images = self.images.iter().copied().collect();
        ReceivedArtifacts {
            left: self.header,
            events: self.events.into_blocks().flatten().collect(),
            images,
            screen: self.screen,
        }
    }
}

impl ReceivedArtifacts {
    /// Material from the pieces of a connection.
    ///
    /// # Errors
    /// When a piece does not have the length that follows from what is small.
    pub fn new(left: ArtifactsHeader, events: Vec<u8>, images: &[u8], screen: Vec<u8>) -> Result<Self, ArtifactsError> {
        let (images, rest) = images.as_chunks::<PAGE_SIZE>();
        if !rest.is_empty() {
            return Err(ArtifactsError::Images { bytes: rest.len() });
        }
        let screen = match left.screen {
            Some((width, height)) => Some(Picture::new(width, height, screen)?),
            None => None,
        };
        Ok(Self {
            left,
            events,
            images: images.to_vec(),
            screen,
        })
    }

    /// Makes the outcome whole: the recording of what the device did, of a run of `plan` on the device `info`. What does
    /// not fit together makes it failed.
    pub fn complete(self, outcome: &mut Outcome, plan: &Plan, pages: &dyn PageSource, info: &DeviceInfo) {
        let recording = self.recording(plan, pages, info, Some(outcome));
        let written = recording
            .and_then(|r| trace_core::container::to_bytes(&r).map_err(|e| ArtifactsError::Write(e.to_string())));
        match written {
            Ok(bytes) => outcome.recording = bytes,
            Err(e) => {
                outcome.verdict = Verdict::Failed;
                outcome.failure.get_or_insert(e.to_string());
            }
        }
    }

    /// Returns the recording of the run: memory as the plan put it in place, what the CPU wrote between other events, and
    /// memory at the end. How jobs ended is told where `outcome` is given.
    ///
    /// # Errors
    /// If the parts do not fit together, or `source` lacks an image of the plan.
    pub fn recording(
        self,
        plan: &Plan,
        source: &dyn PageSource,
        info: &DeviceInfo,
        outcome: Option<&Outcome>,
    ) -> Result<Recording, ArtifactsError> {
        let Self {
            left,
            events,
            images,
            screen,
        } = self;
        let mut memory = MemoryBuilder::new();
        // The numbers are the board's; one that sends an image twice has other ones than the recording.
        let ids: Vec<PageId> = images.iter().map(|page| memory.add_page(page)).collect();
        let id = |number: u32| match number.checked_sub(1) {
            None => Some(PageId::ZERO),
            Some(at) => ids.get(at as usize).copied(),
        };
        let mut host_pages: Vec<u32> = left.host_pages.iter().map(|n| id(*n).map_or(0, |id| id.0)).collect();
        let mut end = BTreeMap::new();
        for (frame, number) in left.frames {
            let images = ids.len();
            let image = id(number).ok_or(ArtifactsError::Image { frame, number, images })?;
            end.insert(frame, image);
        }
        let packed = events;
        let mut events = unpack(&packed, &host_pages)?.finish();
        if fill_lost_pages(&mut memory, plan, source, &events, &mut host_pages) {
            events = unpack(&packed, &host_pages)?.finish();
        }
        let counted = add_snapshots(&mut memory, plan, source, &events, &end)?;
        let set: BTreeMap<u8, (u64, u64)> = left.spaces.iter().map(|(n, m, t)| (*n, (*m, *t))).collect();
        let mut recording = Recording {
            facts: facts(plan, info, &set, counted),
            events,
            memory: memory.finish(),
            ..Recording::default()
        };
        if let Some(hardware) = &info.hardware {
            recording.set_hardware(hardware);
        }
        if let Some(picture) = &screen {
            recording.set_expected_screen(picture);
        }
        if let Some(origin) = &plan.origin {
            recording.set_buffer_shapes(&origin.shapes);
            let base = plan.arena.base.0;
            let in_arena = |r: &RecordedRange| RecordedRange {
                at: base.saturating_add(r.at),
                ..*r
            };
            let ranges: Vec<RecordedRange> = origin.ranges.iter().map(in_arena).collect();
            recording.set_recorded_ranges(&ranges);
        }
        if let Some(outcome) = outcome {
            let reports = chain_reports(&recording, plan, outcome);
            recording.set_chain_reports(&reports);
        }
        Ok(recording)
    }
}

/// How the chains of a run ended, by the events of the run's own recording.
fn chain_reports(recording: &Recording, plan: &Plan, outcome: &Outcome) -> Vec<ChainReport> {
    let Some(map) = RegisterMap::by_name(&plan.register_map).filter(|_| !outcome.jobs.is_empty()) else {
        return Vec::new();
    };
    let is_submit = |a: &Access| {
        let register = map.at(a.offset);
        a.write && a.value == JOB_START && register.is_some_and(|r| r.replay.role == Some(Role::JobCommand))
    };
    let all = recording.events.accesses(0..recording.events.len());
    let submits = all.filter(|(_, a)| is_submit(a)).map(|(event, _)| event as u64);
    // Jobs stand in the order in which the run submitted them.
    submits
        .zip(&outcome.jobs)
        .map(|(submit_event, job)| ChainReport {
            submit_event,
            status: job.status.unwrap_or(0),
            computed: job.computed.filter(|_| job.done),
            reason: not_run_reason(outcome, job),
        })
        .collect()
}

/// Why a shader of a job did not run, as the device told it.
fn not_run_reason(outcome: &Outcome, job: &JobOutcome) -> Option<String> {
    let findings = outcome.findings.iter().filter(|f| f.kind == FindingKind::ShaderNotRun);
    let of_job = |f: &&Finding| job.computed == Some(false) && f.event == Some(job.submit_event);
    findings.filter(of_job).map(|f| f.message.clone()).next()
}

/// What is known of the run as a recording.
fn facts(plan: &Plan, info: &DeviceInfo, set: &BTreeMap<u8, (u64, u64)>, pages: CountedPages) -> Facts {
    Facts {
        identity: Identity {
            gpu_id: info.gpu_id,
            gpu_name: info.gpu_name.clone(),
            driver: "kinescope replay".to_owned(),
            board: info.name.clone(),
            tool: concat!("kinescope ", env!("CARGO_PKG_VERSION")).to_owned(),
            source: "outcome".to_owned(),
            when: String::new(),
            clock: if info.virtual_time {
                Clock::Virtual
            } else {
                Clock::Monotonic
            },
        },
        spaces: spaces(plan, info),
        address_spaces: plan
            .spaces
            .iter()
            .map(|s| {
                let (memattr, transcfg) = set.get(&s.number).copied().unwrap_or_default();
                AddressSpace {
                    number: s.number,
                    format: s.format,
                    root: s.root,
                    memattr,
                    transcfg,
                }
            })
            .collect(),
        buffers: plan
            .buffers
            .iter()
            .map(|b| Buffer {
                name: b.name.clone(),
                role: role(plan, &b.name),
                address_space: b.space,
                va: b.va,
                bytes: b.bytes,
                element: b.element,
            })
            .collect(),
        regions: plan.origin.as_ref().map(|o| o.regions.clone()).unwrap_or_default(),
        source_pages: pages.data,
        source_zero_pages: pages.zeros,
        ..Facts::default()
    }
}

/// The windows that accesses went to, in the order in which the recorder numbers them.
fn spaces(plan: &Plan, info: &DeviceInfo) -> Vec<Space> {
    let windows = if plan.windows.is_empty() {
        Window::registers(info.register_bytes())
    } else {
        plan.windows.clone()
    };
    let space = |w: Window| Space {
        name: w.name,
        kind: w.kind,
        bytes: w.bytes,
    };
    windows.into_iter().map(space).collect()
}

/// The role of a buffer. A plan of version 5 does not tell it.
fn role(plan: &Plan, name: &str) -> BufferRole {
    if let Some(role) = plan.origin.as_ref().and_then(|o| o.roles.get(name)) {
        return *role;
    }
    if plan.outputs.iter().any(|o| o.name == name) {
        return BufferRole::Output;
    }
    if name == "input" {
        BufferRole::Input
    } else {
        BufferRole::Shared
    }
}

//! The data of a run outside its outcome, and the recording built from it.
//!
//! The two are separate because a target has little memory. It keeps the events packed and each page once. The client,
//! which has the plan and its pages, builds the recording.

use super::Outcome;
use super::log::{EventLog, LogError, unpack};
use super::outcome::{JobOutcome, Verdict};
use super::snapshots::{CountedPages, add_snapshots, fill_lost_pages};
use crate::device::{DeviceInfo, RegisterTarget, ReplayDeviceError, Window};
use crate::families::{AccessMeaning, SpaceRegisters, find_family_of_plan};
use crate::plan::{PageSource, PlannedAccesses};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{
    Access, AddressSpace, Buffer, BufferRole, ChainReport, Clock, Identity, MemoryBuilder, Metadata, Page, PageId,
    PageStore, RecordedRange, Recording, Space, ZERO_PAGE,
};
use trace_core::registers::RegisterMap;
use trace_core::screen::{Picture, PictureError};
use trace_core::{PAGE_SIZE, PhysAddr};

/// The small part of the artifacts: a record of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactsHeader {
    /// Address spaces that were set up: number, memory attributes, translation configuration.
    pub spaces: Vec<(u8, u64, u64)>,
    /// The number of the page image after each host write among the events, in order; 0 for a page of zeros.
    pub host_pages: Vec<u32>,
    /// Frames that are not zero after the run, ascending, each with the number of its page image, starting at 1.
    pub frames: Vec<(u64, u32)>,
    /// Width and height of the screen's picture, if the device has a screen.
    pub screen: Option<(u32, u32)>,
}

/// The artifacts of a run, from which its recording is built.
#[derive(Debug)]
pub(crate) struct RunArtifacts {
    pub header: ArtifactsHeader,
    /// The events, packed.
    pub events: EventLog,
    /// Page images, numbered from 1.
    pub images: PageStore,
    pub screen: Option<Picture>,
}

/// Artifacts that arrived over a connection are inconsistent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactsError {
    /// The events.
    #[error(transparent)]
    Events(#[from] LogError),
    /// A missing page image.
    #[error("frame {frame:#x} has the page image {number}, and there are {images}")]
    Image {
        /// The frame.
        frame: u64,
        /// The referenced number.
        number: u32,
        /// Number of images.
        images: usize,
    },
    /// An initial page image of the plan is missing.
    #[error("the image that the plan puts into frame {frame:#x} is missing")]
    Start {
        /// The frame.
        frame: u64,
    },
    /// Incomplete page images.
    #[error("{bytes} bytes of page images are left over")]
    Images {
        /// Their length, bytes.
        bytes: usize,
    },
    /// The screen's picture.
    #[error("the picture of the screen: {0}")]
    Screen(#[from] PictureError),
    /// The recording cannot be written.
    #[error("the outcome could not be written: {0}")]
    Write(String),
}

/// Artifacts as received over a connection: one piece each.
#[derive(Debug, Default)]
pub struct ReceivedArtifacts {
    /// The small part.
    pub left: ArtifactsHeader,
    /// The events, packed.
    pub events: Vec<u8>,
    /// Page images.
    pub images: Vec<Page>,
    /// The screen's picture.
    pub screen: Option<Picture>,
}

impl RunArtifacts {
    /// Collects the artifacts of a run from the target. `changed` holds the pages after memory changes.
    pub(super) fn gather(
        plan: PlannedAccesses<'_>,
        device: &mut dyn RegisterTarget,
        events: EventLog,
        host_pages: Vec<u32>,
        mut changed: MemoryBuilder,
        seen: &BTreeMap<u8, SpaceRegisters>,
        screen: Option<Picture>,
    ) -> Result<Self, ReplayDeviceError> {
        let first = plan.accesses.arena.base.frame();
        let used = first..first.saturating_add(plan.accesses.used_pages);
        let may_differ = device.content_frames();
        let frames: &mut dyn Iterator<Item = u64> = match &may_differ {
            Some(frames) => &mut frames.iter().copied().filter(|f| used.contains(f)),
            None => &mut used.clone(),
        };
        let mut page = ZERO_PAGE;
        let mut left = Vec::new();
        for frame in frames {
            device.load_page(frame, &mut page)?;
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

    /// Returns the lengths of the bulk parts, bytes: events, page images, the screen's picture.
    pub fn lengths(&self) -> [u64; 3] {
        let screen = self.screen.as_ref().map_or(0, |p| p.rgb().len());
        [
            self.events.bytes(),
            self.images.len() as u64 * PAGE_SIZE as u64,
            screen as u64,
        ]
    }

    /// Adds everything to a hash, which is equal for runs with equal results.
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

    /// Converts to the form received over a connection.
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
    /// Builds artifacts from the pieces of a connection.
    ///
    /// # Errors
    /// If a piece does not have the length that the small part announces.
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

    /// Completes the outcome with the recording of a run of `plan` on the device `info`. Inconsistent artifacts make
    /// the outcome failed.
    pub fn complete(self, outcome: &mut Outcome, plan: PlannedAccesses<'_>, pages: &dyn PageSource, info: &DeviceInfo) {
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

    /// Returns the recording of the run: the initial memory of the plan, the CPU writes between other events, and
    /// memory at the end. With `outcome` it has the results of the jobs.
    ///
    /// # Errors
    /// If the parts are inconsistent, or `source` lacks an image of the plan.
    pub fn recording(
        self,
        plan: PlannedAccesses<'_>,
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
        // The numbers are the target's. If it sends an image twice, they differ from those of the recording.
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
            metadata: metadata(plan, info, &set, counted),
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
        if let Some(origin) = &plan.accesses.origin {
            recording.metadata.buffer_shapes.clone_from(&origin.shapes);
            let base = plan.accesses.arena.base.get();
            let in_arena = |r: &RecordedRange| RecordedRange {
                at: PhysAddr::new(base.saturating_add(r.at.get())),
                ..*r
            };
            let mut ranges: Vec<RecordedRange> = origin.ranges.iter().map(in_arena).collect();
            ranges.sort_by_key(|r| r.at);
            if let Some(trace) = recording.register_trace_mut() {
                trace.recorded_ranges = ranges;
            }
        }
        if let Some(outcome) = outcome {
            let reports = chain_reports(&recording, plan, outcome);
            if let Some(trace) = recording.register_trace_mut() {
                trace.chain_reports = reports;
            }
        }
        Ok(recording)
    }
}

/// Returns the results of the chains of a run, by the events of the run's own recording.
fn chain_reports(recording: &Recording, plan: PlannedAccesses<'_>, outcome: &Outcome) -> Vec<ChainReport> {
    let Some(map) = RegisterMap::by_name(&plan.accesses.register_map).filter(|_| !outcome.jobs().is_empty()) else {
        return Vec::new();
    };
    let family = find_family_of_plan(plan);
    let is_submit = |a: &Access| {
        let register = map.at(a.offset);
        register.is_some_and(|r| family.meaning_of(r, a.write, a.value) == AccessMeaning::Submit)
    };
    let all = recording.events.accesses(0..recording.events.len());
    let submits = all.filter(|(_, a)| is_submit(a)).map(|(event, _)| event as u64);
    // Jobs are in submit order.
    submits
        .zip(outcome.jobs())
        .map(|(submit_event, job)| ChainReport {
            submit_event,
            status: job.status.unwrap_or(0),
            computed: job.computed.filter(|_| job.done),
            reason: not_run_reason(outcome, job),
        })
        .collect()
}

/// Returns why a shader of a job did not run, as reported by the device.
fn not_run_reason(outcome: &Outcome, job: &JobOutcome) -> Option<String> {
    let findings = outcome
        .findings()
        .iter()
        .filter(|f| f.kind == FindingKind::ShaderNotRun);
    let of_job = |f: &&Finding| job.computed == Some(false) && f.event == Some(job.submit_event);
    findings.filter(of_job).map(|f| f.message.clone()).next()
}

/// Returns the metadata of the run's recording.
fn metadata(
    plan: PlannedAccesses<'_>,
    info: &DeviceInfo,
    set: &BTreeMap<u8, (u64, u64)>,
    pages: CountedPages,
) -> Metadata {
    Metadata {
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
            .spaces()
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
            .accesses
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
        regions: plan
            .accesses
            .origin
            .as_ref()
            .map(|o| o.regions.clone())
            .unwrap_or_default(),
        source_pages: pages.data,
        source_zero_pages: pages.zeros,
        ..Metadata::default()
    }
}

/// Returns the accessed windows, in the order of the recorder's numbers.
fn spaces(plan: PlannedAccesses<'_>, info: &DeviceInfo) -> Vec<Space> {
    let windows = match plan.mmio() {
        Some(mmio) => mmio.windows.clone(),
        None => Window::registers(info.register_bytes()),
    };
    let space = |w: Window| Space {
        name: w.name,
        kind: w.kind,
        bytes: w.bytes,
    };
    windows.into_iter().map(space).collect()
}

/// Returns the role of a buffer. A plan of version 5 does not have it.
fn role(plan: PlannedAccesses<'_>, name: &str) -> BufferRole {
    if let Some(role) = plan.accesses.origin.as_ref().and_then(|o| o.roles.get(name)) {
        return *role;
    }
    if plan.envelope.outputs.iter().any(|o| o.name == name) {
        return BufferRole::Output;
    }
    if name == "input" {
        BufferRole::Input
    } else {
        BufferRole::Shared
    }
}

//! `references`: lists what reads, writes, executes or names bytes of memory, a register, a page-table entry or a pixel.

use crate::cli::out::format_count;
use crate::cli::source::{Source, SourceRecording, number};
use crate::cli::{Exit, Failure, Out, Verb, api_trace, event_filter, format_hex, progress_line};
use clap::{Args, FromArgMatches as _};
use kinescope_session::xref_text::{describe, item_label};
use serde::Serialize;
use trace_core::api_trace::{Argument, ReferenceKind};
use trace_core::check::Submit;
use trace_core::filter::{Derived, Jobs};
use trace_core::progress::Progress;
use trace_core::timeline::JobSpan;
use trace_core::xref::{
    self, EntryReason, JobPart, LaunchReference, MAX_BYTES, MAX_REFERENCES, Reference, ReferenceItem, TargetError,
    XrefData as _, XrefIndex, XrefTarget,
};
use trace_core::{GpuVa, PhysAddr, RegOffset};

pub const VERB: Verb = Verb {
    name: "references",
    about: "List what reads, writes, executes or names an address, a register, a buffer or a pixel",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

/// Maximum number of references that a search returns, before the options select some of them.
const MAX_SEARCHED: usize = 1 << 20;

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// GPU address, buffer, NAME+OFFSET, register, REGISTER.FIELD, SPACE+OFFSET, or pixel of the last screen
    #[arg(value_name = "ADDRESS|REGISTER|BUFFER|X,Y")]
    target: String,
    /// Index of the address space, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    space: u32,
    /// List the references of the page-table entry of this level, 0 (top) to 3, on the walk of the address
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=3), conflicts_with = "physical")]
    level: Option<u8>,
    /// ADDRESS is a physical address
    #[arg(long, conflicts_with = "space")]
    physical: bool,
    /// Use the page tables, and the buffers of an API trace, before this event [default: at the end, or when the buffer
    /// was freed]
    #[arg(long, visible_alias = "event", value_name = "EVENT")]
    at: Option<u64>,
    /// List only references from this job, and from events that prepare it or occur while it runs: its number,
    /// FIRST..END or FIRST..=LAST
    #[arg(long, value_name = "JOB", value_parser = event_filter::job_filter)]
    job: Option<String>,
    /// List only references that may write
    #[arg(long, conflicts_with = "reads")]
    writes: bool,
    /// List only references that may read or execute
    #[arg(long)]
    reads: bool,
    /// List references to only the page of the address too
    #[arg(long)]
    page: bool,
    /// Maximum number of references
    #[arg(long = "max-references", value_name = "N", default_value_t = MAX_REFERENCES)]
    max: usize,
}

/// The references of a target as rows of text. The engine has an enum of items.
#[derive(Serialize)]
struct Report {
    /// What the references refer to.
    target: TargetRow,
    /// The references: those with an event in event order, then those without one, then those of only the page.
    references: Vec<Row>,
    /// Whether these are all references.
    complete: bool,
}

/// A target, without the keys that its kind does not have.
#[derive(Default, Serialize)]
struct TargetRow {
    /// `memory`, `physical`, `page-table-entry`, `register` or `framebuffer`.
    kind: &'static str,
    /// Index of the address space, and the GPU address.
    #[serde(skip_serializing_if = "Option::is_none")]
    address_space: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    va: Option<String>,
    /// Physical address.
    #[serde(skip_serializing_if = "Option::is_none")]
    physical: Option<String>,
    /// Name of the space of a framebuffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    space: Option<String>,
    /// Offset of a register, or of a pixel in its framebuffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<String>,
    /// Number of bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Level of a page-table entry, 0 to 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<u8>,
    /// Name of a register; its offset if it has no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    register: Option<String>,
    /// First and last bit of a register field.
    #[serde(skip_serializing_if = "Option::is_none")]
    bits: Option<[u32; 2]>,
}

/// A reference, without the details that its kind does not have.
#[derive(Default, Serialize)]
struct Row {
    /// `register`, `job`, `cpu-write`, `page-table`, `snapshot`, `buffer`, `finding`, `command` (to an address space),
    /// `store` or `load`. In an API trace: `copy`, `fill`, `memory` (allocated or freed), `launch` or `buffer`.
    kind: &'static str,
    /// `write`, `read`, `read-or-write` (which one is not known), `execute`, `address-of` (the item holds or names the
    /// address) or `resident` (the item contains the target).
    access: &'static str,
    /// Event of the reference.
    event: Option<u64>,
    /// Job through which it happens, or that its event prepares, or that runs at its event.
    job: Option<u32>,
    /// In an API trace: launch through which it happens.
    launch: Option<u32>,
    /// Whether it refers to the page of the address and not to the address. Such references need `--page`.
    page_only: bool,
    /// The reference, in words.
    description: String,
    /// The register.
    #[serde(skip_serializing_if = "Option::is_none")]
    register: Option<String>,
    /// Value of the access, or the page-table entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// Buffer that contains the target or leads to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    buffer: Option<String>,
    /// Offset in the buffer, or of a pixel in its framebuffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<String>,
    /// Index of the address space, and the address of the item or in the pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    address_space: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    va: Option<String>,
    /// Level of the page table or entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<u8>,
    /// Part of a job that refers to the target: `header`, `start`, `shader` or `pointer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'static str>,
    /// Position of the job in its chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u32>,
    /// Address of the word that holds a pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    word_va: Option<String>,
    /// Pointer of the descriptors that leads to the word, if the descriptors do not hold the word.
    #[serde(skip_serializing_if = "Option::is_none")]
    through_va: Option<String>,
    /// Arguments of a launch that point into the buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Vec<String>>,
    /// Text output for the kind.
    #[serde(skip)]
    label: &'static str,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = arguments.source.open()?;
    opened.check_event(arguments.at)?;
    if let Some(job) = &arguments.job {
        event_filter::check_job(job, &opened)?;
    }
    let timeline = opened.timeline()?;
    let submits: Vec<Submit> = timeline.jobs.iter().map(submit).collect();
    let fail = |e| Failure::file(&opened.file, e);
    let index = progress_line::run_with_progress("reading jobs and page tables", |progress, _| {
        XrefIndex::new(&opened.recording, &submits, progress).map_err(fail)
    })?;
    let target = find_target(arguments, &opened, &index)?;
    let is_register_trace = index.api_trace().is_none();
    let index = match target {
        XrefTarget::Bytes { .. } if is_register_trace => {
            progress_line::run_with_progress("checking", |progress, _| {
                index.with_findings(&opened.recording, &submits, progress).map_err(fail)
            })?
        }
        _ => index,
    };
    let event = match index.api_trace() {
        Some(api_trace) => api_trace::find_event(&opened, api_trace, &arguments.target, arguments.at)?,
        None => arguments.at.unwrap_or(u64::MAX),
    };
    // The options that select references apply before the maximum.
    let found = progress_line::run_with_progress("searching for references", |progress, _| {
        xref::find_references(&opened.recording, &index, target, (event, MAX_SEARCHED), progress).map_err(fail)
    })?;
    let filter = match &arguments.job {
        Some(job) => Some(event_filter::compile("--job", job, &opened)?),
        None => None,
    };
    let passes = |r: &Reference| {
        let is_kind = (r.access.may_write() || !arguments.writes) && (r.access.may_read() || !arguments.reads);
        let is_job = || match (&filter, r.event) {
            (Some(filter), Some(event)) => filter.is_match(&opened.recording.events, event),
            (Some(_), None) => false,
            (None, _) => true,
        };
        is_kind && (arguments.page || !r.is_page_only) && is_job()
    };
    let mut list: Vec<Reference> = found.list.into_iter().filter(passes).collect();
    let complete = found.is_complete && list.len() <= arguments.max;
    list.truncate(arguments.max);
    let context = RowContext {
        opened: &opened,
        index: &index,
        jobs: Jobs::new(&Derived::from(&timeline), opened.device),
        target,
    };
    let report = Report {
        target: context.target_row(),
        references: list.iter().map(|r| context.row(r)).collect(),
        complete,
    };
    if out.is_json() {
        out.value(&report)?;
    } else {
        print_text(arguments, target, &report, out)?;
    }
    Ok(Exit::Good)
}

fn submit(job: &JobSpan) -> Submit {
    Submit {
        index: job.index,
        event: job.submit_event,
        head_va: job.head_va,
    }
}

/// Returns the target of the arguments.
fn find_target(arguments: &Arguments, opened: &SourceRecording, index: &XrefIndex) -> Result<XrefTarget, Failure> {
    let text = arguments.target.trim();
    if arguments.physical {
        let at = number(text).map_err(Failure::usage)?;
        return Ok(XrefTarget::Physical {
            at: PhysAddr::new(at),
            bytes: 1,
        });
    }
    let parse = |progress: &Progress| {
        xref::parse_target(&opened.recording, index.api_trace(), (arguments.space, text), progress)
    };
    let target = progress_line::run_with_progress("finding the target", |progress, _| match parse(progress) {
        // The contents of copies have names of their own.
        Err(e @ TargetError::Unknown(_)) => match opened.api_buffers().iter().find(|b| b.name == text) {
            Some(b) => Ok(XrefTarget::Bytes {
                space: 0,
                va: b.va,
                bytes: b.bytes.max(1),
            }),
            None => Err(Failure::file(&opened.file, e)),
        },
        parsed => parsed.map_err(|e| Failure::file(&opened.file, e)),
    })?;
    let XrefTarget::Bytes { space, va, .. } = target else {
        return match arguments.level {
            Some(_) => Err(Failure::usage(
                "--level is for addresses and buffers, which page tables translate",
            )),
            None => Ok(target),
        };
    };
    // Without page tables, one address space is that of all jobs.
    let is_common = space == 0 && opened.recording.metadata.address_spaces.is_empty();
    if index.api_trace().is_none() && !is_common {
        opened.address_space(space)?;
    }
    Ok(match arguments.level {
        Some(level) => XrefTarget::Entry { space, va, level },
        None => target,
    })
}

/// What the rows of the output need.
struct RowContext<'a> {
    opened: &'a SourceRecording,
    index: &'a XrefIndex,
    jobs: Jobs,
    target: XrefTarget,
}

impl RowContext<'_> {
    fn register_name(&self, offset: u32) -> String {
        let register = self.opened.device.and_then(|d| d.map().at(RegOffset::new(offset)));
        register.map_or_else(|| format_hex(u64::from(offset)), |r| r.name.clone())
    }

    fn target_row(&self) -> TargetRow {
        let space_name = |space: u8| {
            let spaces = &self.opened.recording.metadata.spaces;
            spaces.get(usize::from(space)).map(|s| s.name.clone())
        };
        match self.target {
            XrefTarget::Register { register, bits } => TargetRow {
                kind: "register",
                register: Some(self.register_name(register.get())),
                offset: Some(register.to_string()),
                bits: bits.map(|(lo, hi)| [lo, hi]),
                ..TargetRow::default()
            },
            XrefTarget::Bytes { space, va, bytes } => TargetRow {
                kind: "memory",
                address_space: Some(space),
                va: Some(va.to_string()),
                bytes: Some(bytes),
                ..TargetRow::default()
            },
            XrefTarget::Physical { at, bytes } => TargetRow {
                kind: "physical",
                physical: Some(at.to_string()),
                bytes: Some(bytes),
                ..TargetRow::default()
            },
            XrefTarget::Entry { space, va, level } => TargetRow {
                kind: "page-table-entry",
                address_space: Some(space),
                va: Some(va.to_string()),
                level: Some(level),
                ..TargetRow::default()
            },
            XrefTarget::Framebuffer { space, offset, bytes } => TargetRow {
                kind: "framebuffer",
                space: space_name(space),
                offset: Some(format_hex(offset)),
                bytes: Some(bytes),
                ..TargetRow::default()
            },
        }
    }

    fn row(&self, r: &Reference) -> Row {
        let recording = &self.opened.recording;
        let job_of = |event: u64| {
            let access = usize::try_from(event).ok().and_then(|e| recording.events.access(e));
            self.jobs.job(event, access.as_ref())
        };
        let mut row = Row {
            kind: r.item.name(),
            label: item_label(&r.item),
            access: r.access.name(),
            event: r.event,
            job: r.job().or_else(|| r.event.and_then(job_of)),
            launch: r.launch(),
            page_only: r.is_page_only,
            description: describe(recording, self.index, self.target, r),
            ..Row::default()
        };
        self.add_details(&r.item, &mut row);
        row
    }

    fn add_details(&self, item: &ReferenceItem, row: &mut Row) {
        let buffer = |index: u32| self.opened.recording.metadata.buffers.get(index as usize);
        let mut set_va = |space: Option<u32>, va: GpuVa| (row.address_space, row.va) = (space, Some(va.to_string()));
        match *item {
            ReferenceItem::RegisterAccess(a) => {
                row.register = Some(self.register_name(a.offset.get()));
                row.value = Some(format_hex(a.value));
            }
            ReferenceItem::AddressRegister { register, value, .. } => {
                row.register = Some(self.register_name(register.get()));
                row.value = Some(format_hex(value));
            }
            ReferenceItem::TableCommand { register, .. } => row.register = Some(self.register_name(register.get())),
            ReferenceItem::Buffer { buffer: index, offset } => {
                row.buffer = buffer(index).map(|b| b.name.clone());
                row.offset = Some(format_hex(offset));
            }
            ReferenceItem::WalkStep { space, va, step } => {
                set_va(Some(space), va);
                row.level = Some(step.level);
                row.value = Some(format_hex(step.raw));
            }
            ReferenceItem::Mapping { space, va } => set_va(Some(space), va),
            ReferenceItem::PageTable(t) => {
                set_va(Some(t.space), t.va);
                row.level = Some(t.level);
            }
            ReferenceItem::Job { position, part, .. } => {
                row.position = Some(position);
                self.add_job_part(part, row);
            }
            ReferenceItem::EntryWrite { raw } | ReferenceItem::EntryJob { raw, .. } => {
                row.value = raw.map(format_hex);
                if let ReferenceItem::EntryJob { reason, .. } = *item {
                    self.add_entry_reason(reason, row);
                }
            }
            ReferenceItem::FirstEntry(value) | ReferenceItem::EntryChange { after: value, .. } => {
                row.value = value.map(|v| format_hex(v.raw));
            }
            ReferenceItem::Pixel(a) => {
                row.offset = Some(format_hex(u64::from(a.offset.get())));
                row.value = Some(format_hex(a.value));
            }
            ReferenceItem::Launch { launch, how } => row.arguments = self.arguments(launch, how),
            ReferenceItem::DeviceBuffer(location) => {
                let buffers = self.index.api_trace().map(|a| a.buffers());
                row.buffer = buffers.and_then(|b| Some(b.get(location.buffer)?.name.clone()));
                row.offset = Some(format_hex(location.offset));
            }
            ReferenceItem::HostWrite { .. }
            | ReferenceItem::Snapshot(_)
            | ReferenceItem::Finding(_)
            | ReferenceItem::OtherJobs { .. }
            | ReferenceItem::Call(_) => {}
        }
    }

    fn add_job_part(&self, part: JobPart, row: &mut Row) {
        let (name, va) = match part {
            JobPart::Header(va) => ("header", va),
            JobPart::Start(va) => ("start", va),
            JobPart::Shader(va) => ("shader", va),
            JobPart::Pointer { word, to, through } => {
                row.word_va = Some(word.to_string());
                row.through_va = through.map(|p| p.to_string());
                ("pointer", to)
            }
        };
        (row.part, row.va) = (Some(name), Some(va.to_string()));
    }

    fn add_entry_reason(&self, reason: EntryReason, row: &mut Row) {
        let (name, va) = match reason {
            EntryReason::Header(va) => ("header", va),
            EntryReason::Shader(va) => ("shader", va),
            EntryReason::Pointer(va) => ("pointer", va),
            EntryReason::Buffer { pointer, buffer } => {
                let b = self.opened.recording.metadata.buffers.get(buffer as usize);
                row.buffer = b.map(|b| b.name.clone());
                ("pointer", pointer)
            }
        };
        (row.part, row.va) = (Some(name), Some(va.to_string()));
    }

    /// Returns the arguments of a launch that point into the buffer of the target.
    fn arguments(&self, launch: u32, how: LaunchReference) -> Option<Vec<String>> {
        let api_trace = self.index.api_trace()?;
        let XrefTarget::Bytes { va, .. } = self.target else {
            return None;
        };
        let event = api_trace.launches().get(launch as usize)?.event;
        let is_variable = matches!(
            how,
            LaunchReference::Possible(k) | LaunchReference::Unchanged(k) if k == ReferenceKind::Variable
        );
        let location = api_trace.buffers().locate(va, event).filter(|_| !is_variable)?;
        let all = xref::find_pointing_arguments(&self.opened.recording, api_trace, launch, location.buffer);
        Some(all.iter().map(Argument::label).collect())
    }
}

fn print_text(arguments: &Arguments, target: XrefTarget, report: &Report, out: &mut Out) -> Result<(), Failure> {
    if report.references.is_empty() {
        out.line(format_args!("no references of {}", arguments.target.trim()))?;
    } else {
        let mut rows = vec![
            ["Event", "Job", "Kind", "Access", "Reference"]
                .map(str::to_owned)
                .to_vec(),
        ];
        let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        rows.extend(report.references.iter().map(|r| {
            vec![
                number(r.event),
                number(r.job.map(u64::from)),
                r.label.to_owned(),
                r.access.to_owned(),
                r.description.clone(),
            ]
        }));
        out.table(&rows)?;
    }
    if !report.complete {
        let max = arguments.max;
        out.line(format_args!(
            "only the first {max} references are listed; --max-references lists more"
        ))?;
    }
    let is_long = |bytes: u64| bytes > MAX_BYTES;
    if let XrefTarget::Bytes { bytes, .. } = target
        && is_long(bytes)
    {
        let all = format_count(bytes, "byte");
        out.line(format_args!("only the first {MAX_BYTES} of {all} were searched"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::RegOffset;
    use trace_core::recording::Access;
    use trace_core::xref::AccessKind;

    #[test]
    fn access_names_are_the_documented_ones() {
        let names = [
            AccessKind::Write,
            AccessKind::Read,
            AccessKind::ReadOrWrite,
            AccessKind::Execute,
            AccessKind::AddressOf,
            AccessKind::Resident,
        ]
        .map(AccessKind::name);
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/json.md");
        let text = std::fs::read_to_string(page).unwrap();
        for name in names {
            assert!(text.contains(&format!("`{name}`")), "{name}");
        }
        let store = ReferenceItem::Pixel(Access {
            space: 0,
            write: true,
            offset: RegOffset::ZERO,
            width: 4,
            value: 0,
        });
        assert!(text.contains(&format!("`{}`", store.name())));
    }
}

//! Finds out what the window wants to know of a recording. The only file of the window that asks trace-core's
//! analyses; runs apart from the interface thread.

use super::axis::Axis;
use super::facts::{ChainJob, Content, Facts, Fold, Interrupt, JobFact, Lane, PhaseFact, RegisterFact, Run, SpaceFact};
use std::collections::BTreeMap;
use trace_core::jobs::{self, ChainEnd, GpuMemory};
use trace_core::memory::{ByteState, GpuMemoryView};
use trace_core::mmu;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{Buffer, PageId, Recording};
use trace_core::registers::{Register, RegisterMap};
use trace_core::{GpuVa, check, timeline};

/// Gaps longer than this can be pressed together, ns.
const GAP_NS: u64 = 2_000_000;
/// Most jobs of a chain that are kept.
const MOST_CHAIN: usize = 256;

/// The register map of a recording's GPU.
#[must_use]
pub fn map_of(recording: &Recording) -> Option<&'static RegisterMap> {
    RegisterMap::for_gpu(recording.facts.identity.gpu_id)
}

/// The register at an offset, when the recording's GPU is known.
#[must_use]
pub fn register_of(recording: &Recording, offset: u32) -> Option<&'static Register> {
    map_of(recording)?.at(offset)
}

/// GPU memory of an address space at an event.
#[must_use]
pub fn memory_at(recording: &Recording, space: u32, event: u64) -> Option<GpuMemoryView<'_>> {
    let s = recording.facts.address_spaces.get(space as usize)?;
    Some(GpuMemoryView::new(recording.memory.at(event), s))
}

/// A buffer's bytes as recorded; those without content are zero. `None`: its address space is not there.
#[must_use]
pub fn buffer_bytes(recording: &Recording, buffer: &Buffer) -> Option<Vec<u8>> {
    Some(memory_at(recording, buffer.address_space, 0)?.read_buffer(buffer).bytes)
}

/// A line of memory: a byte, or what is known instead.
#[must_use]
pub fn read(recording: &Recording, space: u32, va: u64, event: u64, len: usize) -> Vec<Result<u8, ByteState>> {
    let mut bytes = vec![0; len];
    let Some(view) = memory_at(recording, space, event) else {
        return vec![Err(ByteState::Unmapped); len];
    };
    let states = view.read_partial(GpuVa(va), &mut bytes);
    bytes
        .into_iter()
        .zip(states)
        .map(|(b, s)| if s == ByteState::Content { Ok(b) } else { Err(s) })
        .collect()
}

/// Everything that the window knows of a recording.
///
/// # Errors
/// [`Cancelled`] when nobody wants it any more.
pub fn derive(recording: &Recording, progress: &Progress) -> Result<Facts, Cancelled> {
    let n = recording.events.len();
    let mut facts = Facts {
        axis: Axis::new(recording.events.time.iter(), GAP_NS),
        ..Default::default()
    };
    progress.check()?;
    by_register(recording, &mut facts, n);
    progress.check()?;
    if let Some(map) = map_of(recording) {
        let t = timeline::derive(recording, map, progress)?;
        take_timeline(recording, &mut facts, t);
    } else if n > 0 {
        facts.gaps_in_knowledge.push(
            "This GPU has no register map: registers have no names, and polls, interrupts and jobs are not found."
                .into(),
        );
    }
    progress.check()?;
    for (i, _) in recording.facts.address_spaces.iter().enumerate() {
        facts.spaces.push(space(recording, i, progress)?);
    }
    facts.findings = check::check(recording);
    facts.findings.sort_by_key(|f| (std::cmp::Reverse(f.severity), f.event));
    Ok(facts)
}

fn lane_name(register: Option<&Register>) -> String {
    let Some(r) = register else { return "unknown".into() };
    if let Some(i) = r.index {
        let known = match r.block.as_str() {
            "JOB_SLOT" | "JS" => Some("JS"),
            "AS" => Some("AS"),
            _ => None,
        };
        if let Some(k) = known {
            return format!("{k}{i}");
        }
    }
    let power = ["PWR", "READY", "PRESENT", "ACTIVE"];
    match r.block.as_str() {
        "GPU_CONTROL" if power.iter().any(|k| r.name.contains(k)) => "power".into(),
        "GPU_CONTROL" => "GPU".into(),
        "JOB_CONTROL" => "job control".into(),
        other => other.to_lowercase().replace('_', " "),
    }
}

fn by_register(recording: &Recording, facts: &mut Facts, n: usize) {
    let map = map_of(recording);
    let mut registers: BTreeMap<u32, RegisterFact> = BTreeMap::new();
    let mut lanes: BTreeMap<String, Lane> = BTreeMap::new();
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    for e in 0..n {
        let Some(a) = recording.events.access(e) else { continue };
        let Ok(event) = u32::try_from(e) else { break };
        let fact = registers.entry(a.offset).or_insert_with(|| {
            let r = map.and_then(|m| m.at(a.offset));
            RegisterFact {
                name: r.map_or_else(|| format!("{:#06x}", a.offset), |r| r.name.clone()),
                block: r.map_or_else(|| "unknown".into(), |r| r.block.clone()),
                events: Vec::new(),
            }
        });
        fact.events.push(event);
        let name = names
            .entry(a.offset)
            .or_insert_with(|| lane_name(map.and_then(|m| m.at(a.offset))));
        let lane = lanes.entry(name.clone()).or_insert_with(|| Lane {
            name: name.clone(),
            ..Default::default()
        });
        if a.write { &mut lane.writes } else { &mut lane.reads }.push(event);
    }
    facts.registers = registers;
    facts.lanes = lanes.into_values().collect();
    let rank = |l: &Lane| match l.name.as_str() {
        n if n.starts_with("JS") => 0,
        n if n.starts_with("AS") => 1,
        "power" => 2,
        "job control" => 3,
        "GPU" => 4,
        _ => 5,
    };
    facts.lanes.sort_by(|a, b| (rank(a), &a.name).cmp(&(rank(b), &b.name)));
}

fn take_timeline(recording: &Recording, facts: &mut Facts, t: timeline::Timeline) {
    facts.polls = t
        .polls
        .iter()
        .map(|p| Fold {
            first: p.first,
            last: p.last,
            reads: p.reads,
            offset: p.offset,
        })
        .collect();
    facts.interrupts = t
        .interrupts
        .iter()
        .map(|i| Interrupt {
            event: i.event,
            line: i.line.name(),
            status: i.status,
        })
        .collect();
    facts.interrupts.sort_by_key(|i| i.event);
    facts.gaps = t.gaps.iter().map(|g| (g.after_event, g.ns)).collect();
    facts.phases = t
        .phases
        .iter()
        .map(|p| PhaseFact {
            name: p.name.name().to_owned(),
            first: p.first,
            last: p.last,
        })
        .collect();
    for j in &t.jobs {
        let mut fact = JobFact {
            index: j.index,
            slot: j.slot,
            submit: j.submit_event,
            done: j.done_event,
            head_va: j.head_va.0,
            duration_ns: j.done_ns.map(|d| d.saturating_sub(j.submit_ns)),
            failed: j.failed,
            chain: Vec::new(),
            end: None,
        };
        if let Some(mem) = memory_at(recording, 0, j.submit_event) {
            take_chain(&mem, j.head_va, &mut fact);
        }
        facts.jobs.push(fact);
    }
}

fn take_chain(mem: &impl GpuMemory, head: GpuVa, fact: &mut JobFact) {
    let chain = jobs::chain(mem, head);
    fact.end = match chain.end {
        ChainEnd::End => None,
        ChainEnd::Loop(va) => Some(format!("it comes back to {va}")),
        ChainEnd::Unreadable(va) => Some(format!("the recording does not hold {va}")),
        ChainEnd::Undecoded(va) => Some(format!("the header at {va} does not decode")),
        ChainEnd::Limit => Some("it is longer than any that is followed".into()),
    };
    for job in chain.jobs.iter().take(MOST_CHAIN) {
        let mut fields = Vec::new();
        let kind = match &job.header {
            Ok(h) => {
                fields.push(("index".into(), h.index.to_string()));
                fields.push(("status".into(), jobs::exception_name(h.exception_code()).to_owned()));
                fields.push(("barrier".into(), if h.barrier { "yes" } else { "no" }.into()));
                if h.next.0 != 0 {
                    fields.push(("next".into(), h.next.to_string()));
                }
                if h.fault_pointer != 0 {
                    fields.push(("fault at".into(), format!("{:#x}", h.fault_pointer)));
                }
                job.kind()
                    .map_or_else(|| format!("type {}", h.job_type), |k| k.name().to_owned())
            }
            Err(e) => e.to_string(),
        };
        fact.chain.push(ChainJob {
            va: job.va.0,
            kind,
            decoded: job.decoded(),
            dispatch: job.dispatch.map(|d| (d.workgroups, d.size)),
            shader: job.shader_va.map(|s| s.0),
            fields,
        });
    }
}

fn space(recording: &Recording, index: usize, progress: &Progress) -> Result<SpaceFact, Cancelled> {
    let Some(s) = recording.facts.address_spaces.get(index) else {
        return Ok(SpaceFact::default());
    };
    let view = recording.memory.last();
    let scan = mmu::scan(s.format, s.root, &view);
    let mut out = SpaceFact {
        number: s.number,
        format: match s.format {
            trace_core::recording::MmuFormat::Aarch64_4k => "AArch64 4 KiB".into(),
            trace_core::recording::MmuFormat::MaliLpae => "Mali LPAE".into(),
        },
        root: s.root.0,
        problem: scan.problems.first().map(ToString::to_string),
        ..Default::default()
    };
    progress.set_total(scan.leaves.len() as u64);
    for m in &scan.mappings {
        let rights = rights_bits(m.rights);
        let add = Run {
            va: m.va.0,
            pages: m.pages,
            rights,
            content: Content::None,
        };
        match out.mappings.last_mut() {
            Some(last) if last.end() == add.va && last.rights == rights => last.pages += add.pages,
            _ => out.mappings.push(add),
        }
    }
    for (i, leaf) in scan.leaves.iter().enumerate() {
        if i % 4096 == 0 {
            progress.advance(4096)?;
        }
        let rights = rights_bits(leaf.rights);
        // A block of 2 MiB or 1 GiB is looked at page by page up to a bound, and as a whole beyond.
        let pages = (leaf.bytes / 4096).max(1);
        let looked = if pages > 512 { 1 } else { pages };
        for k in 0..looked {
            let content = match view.page_id(leaf.pa.frame().saturating_add(k)) {
                None => Content::None,
                Some(PageId::ZERO) => Content::Zero,
                Some(_) => Content::Data,
            };
            let add = Run {
                va: leaf.va.0.saturating_add(k * 4096),
                pages: if looked == 1 { pages } else { 1 },
                rights,
                content,
            };
            match out.runs.last_mut() {
                Some(last) if last.end() == add.va && last.rights == rights && last.content == content => {
                    last.pages += add.pages;
                }
                _ => out.runs.push(add),
            }
        }
    }
    Ok(out)
}

fn rights_bits(r: mmu::Rights) -> u8 {
    u8::from(r.read) | u8::from(r.write) << 1 | u8::from(r.execute) << 2
}

/// The walk of an address level by level, for people: level, index, where the entry stands, what it is.
#[must_use]
pub fn walk(recording: &Recording, space: u32, va: u64, event: u64) -> Option<mmu::Walk> {
    let s = recording.facts.address_spaces.get(space as usize)?;
    Some(mmu::walk(s.format, s.root, GpuVa(va), &recording.memory.at(event)))
}

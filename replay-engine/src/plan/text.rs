//! The text form of a plan, which can be printed and parsed. `docs/plan.md` describes its lines.

mod actions;
mod content;
mod devices;
mod lines;

pub use content::{Files, NoFiles};
pub use lines::TextError;

use super::api_body::CallReader;
use super::{
    AccessPlan, BodyBuilder, Budgets, ChannelPlan, Compiled, MIN_PLAN_VERSION, MmioPlan, PLAN_VERSION, PageSource,
    Plan, PlanBody, PlanBuffer, PlanJob, PlanPage, PlanSpace, ReadClasses, RegisterPlan, Rewrite, RewriteKind,
};
use crate::device::{Arena, Window};
use actions::{parse_action, print_action};
use content::Contents;
use lines::Fields;
use nvidia_client::Place;
use nvidia_client::steps::{EngineKind, Step, Steps};
use replay_core::Actions;
use std::fmt::Write as _;
use trace_core::recording::{Digest, ElementType, FrameRole, Hardware, MmuFormat};
use trace_core::{GpuVa, PhysAddr, RegOffset};

/// Prints the plan as text. A body that cannot be decoded is printed up to the error, with a line that says so, and
/// cannot be parsed again.
#[must_use]
pub fn print(plan: &Plan) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = head(plan, &mut out);
    let _ = body(plan, &mut out);
    out
}

/// Prints the plan as text with its page images, so that parsing restores them.
#[must_use]
pub fn print_with_pages(plan: &Plan, pages: &dyn PageSource) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = head(plan, &mut out);
    content::print(plan, pages, &mut out);
    let _ = body(plan, &mut out);
    out
}

fn head(plan: &Plan, out: &mut String) -> std::fmt::Result {
    let b = &plan.budgets;
    writeln!(out, "kinescope plan {}", plan.version)?;
    writeln!(out, "title {}", lines::quote(&plan.title))?;
    if let Some(a) = plan.accesses() {
        writeln!(out, "gpu {:#x} map {}", a.gpu_id, lines::quote(&a.register_map))?;
        writeln!(
            out,
            "arena {} pages {} used {}",
            a.arena.base, a.arena.pages, a.used_pages
        )?;
    }
    writeln!(
        out,
        "budgets actions {} pages {} time {} interrupt {} poll {}",
        b.actions, b.pages, b.time_ns, b.interrupt_ns, b.poll_ns
    )?;
    match plan.accesses() {
        Some(a) => {
            let r = &a.reads;
            let (equal, masked, until, feeds, any) = (r.equal, r.masked, r.until, r.feeds, r.any);
            writeln!(
                out,
                "reads equal {equal} masked {masked} until {until} feeds {feeds} any {any}"
            )?;
            writeln!(out, "counts actions {} interrupts {}", plan.actions, a.interrupts)?;
        }
        None => writeln!(out, "counts actions {}", plan.actions)?,
    }
    for s in plan.registers().map_or(&[][..], |r| &r.spaces) {
        let format = s.format.name();
        writeln!(
            out,
            "space {} {format} root {} register {:#x}",
            s.number, s.root, s.root_register
        )?;
    }
    for p in plan.accesses().map_or(&[][..], |a| &a.pages) {
        let role = match p.role {
            FrameRole::Data => "data",
            FrameRole::Table => "table",
        };
        writeln!(
            out,
            "page {:#x} {role} {}",
            p.frame,
            blake3::Hash::from_bytes(p.digest).to_hex()
        )?;
    }
    for digest in &plan.images {
        writeln!(out, "image {}", blake3::Hash::from_bytes(*digest).to_hex())?;
    }
    let buffers = plan.accesses().map_or(&[][..], |a| &a.buffers);
    for (word, list) in [("output", plan.outputs.as_slice()), ("buffer", buffers)] {
        for b in list {
            let (name, element) = (lines::quote(&b.name), b.element.name());
            writeln!(
                out,
                "{word} {name} va {} bytes {} element {element} space {}",
                b.va, b.bytes, b.space
            )?;
        }
    }
    for j in plan.registers().map_or(&[][..], |r| &r.jobs) {
        let done = j.done_event.map_or_else(|| "-".to_owned(), |e| e.to_string());
        writeln!(
            out,
            "job submit {} done {done} head {} slot {}",
            j.submit_event, j.head_va, j.slot
        )?;
    }
    for r in &plan.rewrites {
        let event = r.event.map_or_else(|| "-".to_owned(), |e| e.to_string());
        writeln!(out, "rewrite {} {event} {}", r.kind.name(), lines::quote(&r.detail))?;
    }
    for (start, end) in plan.accesses().map_or(&[][..], |a| &a.allowed) {
        writeln!(out, "allow {start:#x} {end:#x}")?;
    }
    devices::print(plan, out)
}

fn body(plan: &Plan, out: &mut String) -> std::fmt::Result {
    writeln!(out, "body")?;
    if let Some(calls) = plan.api() {
        // For people only: an API-trace plan is read only from its bytes, and the parser rejects these lines.
        for call in CallReader::new(&calls.body, plan.images.len()) {
            match call {
                Ok(c) => writeln!(out, "call {} {}", c.event, c.call.describe(Some(&calls.metadata)))?,
                Err(e) => writeln!(out, "undecodable {e}")?,
            }
        }
        return Ok(());
    }
    if let Some(channel) = plan.channel() {
        // For people only, as for an API-trace plan.
        return steps(channel, out);
    }
    for action in Actions::new(plan.body.bytes()) {
        match action {
            Ok(a) => print_action(&a, out)?,
            Err(e) => return writeln!(out, "undecodable {}", lines::quote(&e.to_string())),
        }
    }
    Ok(())
}

fn steps(channel: &ChannelPlan, out: &mut String) -> std::fmt::Result {
    for step in Steps::new(&channel.body) {
        match step {
            Ok(Step::Map { place, va, bytes }) => {
                let place = match place {
                    Place::Video => "video",
                    Place::System => "system",
                };
                writeln!(out, "map {place} {va:#x} bytes {bytes}")?;
            }
            Ok(Step::MapScheduler { va }) => writeln!(out, "map scheduler {va:#x}")?,
            Ok(Step::Write { va, data }) => writeln!(out, "write {va:#x} bytes {}", data.len())?,
            Ok(Step::WritePages { va, bytes, .. }) => writeln!(out, "write {va:#x} bytes {bytes}")?,
            Ok(Step::Submit {
                event,
                engine,
                va,
                words,
            }) => {
                let engine = match engine {
                    EngineKind::Compute => "compute",
                    EngineKind::Copy => "copy",
                };
                writeln!(out, "submit {event} {engine} {va:#x} words {words}")?;
            }
            Ok(Step::Read { output, va, bytes }) => writeln!(out, "read {output} {va:#x} bytes {bytes}")?,
            Err(e) => writeln!(out, "undecodable {}", lines::quote(&e.to_string()))?,
        }
    }
    Ok(())
}

/// Parses a plan from text, with or without its page images.
///
/// # Errors
/// If a line is not understood or a part is missing.
pub fn parse(text: &str) -> Result<Plan, TextError> {
    read(text, &NoFiles).map(|c| c.plan)
}

/// Parses a plan from text, with its page images. `files` reads the files that the text refers to.
///
/// # Errors
/// If a line is not understood, or a part or a page image is missing.
pub fn assemble(text: &str, files: &dyn Files) -> Result<Compiled, TextError> {
    let compiled = read(text, files)?;
    let there = |d: &Digest| compiled.pages.page(d).is_some();
    if let Some(missing) = compiled.plan.digests().into_iter().find(|d| !there(d)) {
        let hex = blake3::Hash::from_bytes(missing).to_hex();
        return Err(lacking(text, &format!("the content of the page image {hex}")));
    }
    Ok(compiled)
}

fn error_at_end(text: &str, reason: String) -> TextError {
    TextError {
        line: text.lines().count(),
        column: 1,
        reason,
    }
}

fn lacking(text: &str, what: &str) -> TextError {
    error_at_end(text, format!("{what} is missing"))
}

fn read(text: &str, files: &dyn Files) -> Result<Compiled, TextError> {
    let mut rows = text.lines().enumerate().map(|(i, l)| (i + 1, l)).filter(|(_, l)| {
        let l = l.trim();
        !l.is_empty() && !l.starts_with('#')
    });
    let missing = |what: &str| lacking(text, what);
    let (line, first) = rows
        .next()
        .ok_or_else(|| missing("the first line, `kinescope plan 7`,"))?;
    let mut f = Fields::new(line, first, None);
    f.word("kinescope")?;
    f.word("plan")?;
    let version: u32 = f.number("the version")?;
    if !(MIN_PLAN_VERSION..=PLAN_VERSION).contains(&version) {
        return Err(f.error(format!(
            "version {version} is not known; this program reads versions {MIN_PLAN_VERSION} to {PLAN_VERSION}"
        )));
    }
    f.end()?;
    // Images may come after the lines that refer to them.
    let contents = Contents::read(rows.clone(), files)?;
    let mut plan = PlanDraft::default();
    let mut seen: Vec<(String, usize)> = Vec::new();
    let mut base = None;
    let mut body: Option<BodyBuilder> = None;
    for (line, text) in rows {
        let mut f = Fields::new(line, text, base);
        let word = f.any("a word")?;
        match &mut body {
            Some(body) => {
                let action = parse_action(&word, &mut f)?;
                body.push(&action).map_err(|e| f.error(format!("{e}: {}", e.reason)))?;
            }
            None if word == "body" => body = Some(BodyBuilder::new()),
            None if word == "content" => continue,
            None => {
                header(&word, &mut f, &mut plan, &contents)?;
                base = (word == "arena").then_some(plan.accesses.arena.base).or(base);
                seen.push((word, line));
            }
        }
        f.end()?;
    }
    let has = |once: &str| seen.iter().any(|(w, _)| w == once);
    for once in [
        "title",
        "gpu",
        "arena",
        "budgets",
        "reads",
        "counts",
        "bus-mastering",
        "hardware",
        "origin",
    ] {
        let mut lines = seen.iter().filter(|(w, _)| w == once).skip(1);
        if let Some((_, line)) = lines.next() {
            return Err(TextError {
                line: *line,
                column: 1,
                reason: format!("the line `{once}` appears twice"),
            });
        }
    }
    for needed in ["title", "gpu", "arena"] {
        if !has(needed) {
            return Err(missing(&format!("the line `{needed}`")));
        }
    }
    let (bytes, actions) = body.ok_or_else(|| missing("the body"))?.finish();
    plan.accesses.body = bytes;
    if !has("counts") {
        // In a handwritten plan, the counts are derived from the body.
        plan.actions = actions;
        let counted = content::count(&plan.accesses.body, &plan.outputs);
        (plan.accesses.reads, plan.accesses.interrupts) = (counted.reads, counted.interrupts);
        plan.rewrites.extend(counted.rewrites);
    } else if !has("reads") {
        return Err(missing("the line `reads`, which belongs to `counts`,"));
    }
    Ok(Compiled {
        plan: plan.finish().map_err(|reason| error_at_end(text, reason))?,
        pages: contents.pages(),
    })
}

/// A plan whose kind is known when all lines are read.
#[derive(Default)]
struct PlanDraft {
    title: String,
    outputs: Vec<PlanBuffer>,
    rewrites: Vec<Rewrite>,
    actions: u64,
    budgets: Budgets,
    images: Vec<Digest>,
    accesses: AccessPlan,
    spaces: Vec<PlanSpace>,
    jobs: Vec<PlanJob>,
    hardware: Option<Hardware>,
    windows: Vec<Window>,
    masters: bool,
}

impl PlanDraft {
    /// Returns the plan, or what is wrong with its lines. A plan that names its device is one of MMIO regions.
    fn finish(self) -> Result<Plan, String> {
        let body = match self.hardware {
            Some(hardware) if self.spaces.is_empty() && self.jobs.is_empty() => PlanBody::Mmio(MmioPlan {
                accesses: self.accesses,
                hardware,
                windows: self.windows,
                masters: self.masters,
            }),
            Some(_) => return Err("the plan has translations or jobs, and names a device on a bus".to_owned()),
            None if self.masters || !self.windows.is_empty() => return Err("the line `hardware` is missing".to_owned()),
            None => PlanBody::Registers(RegisterPlan {
                accesses: self.accesses,
                spaces: self.spaces,
                jobs: self.jobs,
            }),
        };
        Ok(Plan {
            title: self.title,
            outputs: self.outputs,
            rewrites: self.rewrites,
            actions: self.actions,
            budgets: self.budgets,
            images: self.images,
            ..Plan::new(body)
        })
    }
}

fn header(word: &str, f: &mut Fields<'_>, plan: &mut PlanDraft, contents: &Contents) -> Result<(), TextError> {
    match word {
        "title" => plan.title = f.text("the title")?,
        "gpu" => {
            plan.accesses.gpu_id = f.number("the GPU id")?;
            f.word("map")?;
            plan.accesses.register_map = f.text("the register map")?;
        }
        "arena" => {
            let base = PhysAddr::new(f.number("the base")?);
            plan.accesses.arena = Arena {
                base,
                pages: f.named("pages")?,
            };
            plan.accesses.used_pages = f.named("used")?;
        }
        "budgets" => {
            plan.budgets = Budgets {
                actions: f.named("actions")?,
                pages: f.named("pages")?,
                time_ns: f.named("time")?,
                interrupt_ns: f.named("interrupt")?,
                poll_ns: f.named("poll")?,
            }
        }
        "reads" => {
            plan.accesses.reads = ReadClasses {
                equal: f.named("equal")?,
                masked: f.named("masked")?,
                until: f.named("until")?,
                feeds: f.named("feeds")?,
                any: f.named("any")?,
            }
        }
        "counts" => {
            plan.actions = f.named("actions")?;
            plan.accesses.interrupts = f.named("interrupts")?;
        }
        "space" => {
            let number = f.number("the number")?;
            let name = f.any("the format")?;
            let format = MmuFormat::WRITTEN.into_iter().find(|f| f.name() == name);
            let format = format.ok_or_else(|| f.error(format!("`{name}` is not a format of page tables")))?;
            let root = PhysAddr::new(f.named("root")?);
            plan.spaces.push(PlanSpace {
                number,
                format,
                root,
                root_register: f.named("register")?,
            });
        }
        "page" => {
            let frame = f.frame("the frame")?;
            let role = match f.any("the role")?.as_str() {
                "data" => FrameRole::Data,
                "table" => FrameRole::Table,
                other => return Err(f.error(format!("`{other}` is not `data` or `table`"))),
            };
            plan.accesses.pages.push(PlanPage {
                frame,
                digest: contents.digest(f)?,
                role,
            });
        }
        "image" => plan.images.push(contents.digest(f)?),
        "output" => plan.outputs.push(buffer(f)?),
        "buffer" => plan.accesses.buffers.push(buffer(f)?),
        "job" => plan.jobs.push(PlanJob {
            submit_event: f.named("submit")?,
            done_event: {
                f.word("done")?;
                f.optional("the event")?
            },
            head_va: GpuVa::new(f.named("head")?),
            slot: f.named("slot")?,
        }),
        "rewrite" => {
            let name = f.any("the kind")?;
            let kind = RewriteKind::ALL.into_iter().find(|k| k.name() == name);
            let kind = kind.ok_or_else(|| f.error(format!("`{name}` is not a kind of rewrite")))?;
            let event = f.optional("the event")?;
            plan.rewrites.push(Rewrite {
                kind,
                event,
                detail: f.text("the detail")?,
            });
        }
        "hardware" => plan.hardware = Some(devices::parse_json("the device", f)?),
        "origin" => plan.accesses.origin = Some(devices::parse_json("the origin", f)?),
        "bus-mastering" => plan.masters = true,
        "window" => plan.windows.push(devices::parse_window(f)?),
        "expect" => {
            let expectation = devices::parse_expectation(f, &plan.outputs, contents)?;
            plan.accesses.expectations.push(expectation);
        }
        "allow" => plan.accesses.allowed.push((
            RegOffset::new(f.number("the start")?),
            RegOffset::new(f.number("the end")?),
        )),
        other => return Err(f.error(format!("`{other}` is not a part of a plan"))),
    }
    Ok(())
}

fn buffer(f: &mut Fields<'_>) -> Result<PlanBuffer, TextError> {
    let name = f.text("the name")?;
    f.word("va")?;
    let (va, bytes) = (GpuVa::new(f.address("va")?), f.named("bytes")?);
    f.word("element")?;
    let element = f.any("the element type")?;
    let element = ElementType::ALL
        .into_iter()
        .find(|e| e.name() == element)
        .ok_or_else(|| f.error(format!("`{element}` is not an element type")))?;
    Ok(PlanBuffer {
        name,
        va,
        bytes,
        element,
        space: f.named("space")?,
    })
}

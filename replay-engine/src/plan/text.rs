//! A plan as text that can be printed, read and read back. `docs/plan.md` tells its lines.

mod devices;
mod lines;

use super::{BodyBuilder, Budgets, Plan, PlanBuffer, PlanJob, PlanPage, PlanSpace, ReadClasses, Rewrite, RewriteKind};
use crate::device::Arena;
use lines::Fields;
use replay_core::{Action, Actions, ReadClass};
use std::fmt::Write as _;
use trace_core::recording::{Digest, ElementType, FrameRole, MmuFormat};
use trace_core::{GpuVa, PhysAddr};

/// Text is not a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the plan: {reason}")]
pub struct TextError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// The plan as text. A body that cannot be decoded is printed up to there, with a line that says so, and does not
/// read back.
#[must_use]
pub fn print(plan: &Plan) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = head(plan, &mut out);
    let _ = body(plan, &mut out);
    out
}

fn head(plan: &Plan, out: &mut String) -> std::fmt::Result {
    let (a, b, r) = (&plan.arena, &plan.budgets, &plan.reads);
    writeln!(out, "kinescope plan {}", plan.version)?;
    writeln!(out, "title {}", lines::quote(&plan.title))?;
    writeln!(out, "gpu {:#x} map {}", plan.gpu_id, lines::quote(&plan.register_map))?;
    writeln!(out, "arena {} pages {} used {}", a.base, a.pages, plan.used_pages)?;
    writeln!(
        out,
        "budgets actions {} pages {} time {} interrupt {} poll {}",
        b.actions, b.pages, b.time_ns, b.interrupt_ns, b.poll_ns
    )?;
    let (equal, masked, until, feeds, any) = (r.equal, r.masked, r.until, r.feeds, r.any);
    writeln!(
        out,
        "reads equal {equal} masked {masked} until {until} feeds {feeds} any {any}"
    )?;
    writeln!(out, "counts actions {} interrupts {}", plan.actions, plan.interrupts)?;
    for s in &plan.spaces {
        let format = format_name(s.format);
        writeln!(
            out,
            "space {} {format} root {} register {:#x}",
            s.number, s.root, s.root_register
        )?;
    }
    for p in &plan.pages {
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
    for (word, list) in [("output", &plan.outputs), ("buffer", &plan.buffers)] {
        for b in list {
            let (name, element) = (lines::quote(&b.name), b.element.name());
            writeln!(
                out,
                "{word} {name} va {} bytes {} element {element} space {}",
                b.va, b.bytes, b.space
            )?;
        }
    }
    for j in &plan.jobs {
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
    for (start, end) in &plan.allowed {
        writeln!(out, "allow {start:#x} {end:#x}")?;
    }
    devices::print(plan, out)?;
    writeln!(out, "body")
}

fn body(plan: &Plan, out: &mut String) -> std::fmt::Result {
    for action in Actions::new(&plan.body) {
        match action {
            Ok(a) => line_of(&a, out)?,
            Err(e) => return writeln!(out, "undecodable {}", lines::quote(&e.to_string())),
        }
    }
    Ok(())
}

fn line_of(action: &Action, out: &mut String) -> std::fmt::Result {
    match *action {
        Action::Write {
            event,
            space,
            offset,
            width,
            value,
        } => {
            writeln!(out, "{event} write {space} {offset:#x} {width} {value:#x}")
        }
        Action::WriteSlot {
            event,
            space,
            offset,
            width,
            slot,
        } => {
            writeln!(out, "{event} write-slot {space} {offset:#x} {width} slot {slot}")
        }
        Action::Read {
            event,
            space,
            offset,
            width,
            class,
            expected,
        } => {
            let (name, more) = match class {
                ReadClass::Equal => ("equal", String::new()),
                ReadClass::Masked(mask) => ("masked", format!(" mask {mask:#x}")),
                ReadClass::Before(mask) => ("before", format!(" mask {mask:#x}")),
                ReadClass::Any => ("any", String::new()),
                ReadClass::Feeds(slot) => ("feeds", format!(" slot {slot}")),
            };
            writeln!(out, "{event} {name} {space} {offset:#x} {width} {expected:#x}{more}")
        }
        Action::Until {
            event,
            reads,
            space,
            offset,
            width,
            mask,
            expected,
            limit_ns,
        } => writeln!(
            out,
            "{event} until {space} {offset:#x} {width} {expected:#x} mask {mask:#x} reads {reads} limit {limit_ns}"
        ),
        Action::WaitInterrupt { event, lines, limit_ns } => writeln!(out, "{event} wait {lines:#x} {limit_ns}"),
        Action::Put {
            event,
            offset,
            width,
            value,
        } => writeln!(out, "{event} put {offset:#x} {width} {value:#x}"),
        Action::Copy {
            event,
            offset,
            bytes,
            image,
        } => writeln!(out, "{event} copy {offset:#x} {bytes} image {image}"),
        Action::Pause { event, ns } => writeln!(out, "{event} pause {ns}"),
    }
}

fn format_name(format: MmuFormat) -> &'static str {
    match format {
        MmuFormat::Aarch64_4k => "aarch64-4k",
        MmuFormat::MaliLpae => "mali-lpae",
    }
}

/// The plan that text holds.
///
/// # Errors
/// When a line is not understood or a part is missing.
pub fn parse(text: &str) -> Result<Plan, TextError> {
    let mut rows = text.lines().enumerate().map(|(i, l)| (i + 1, l)).filter(|(_, l)| {
        let l = l.trim();
        !l.is_empty() && !l.starts_with('#')
    });
    let missing = |what: &str| TextError {
        line: text.lines().count(),
        reason: format!("{what} is missing"),
    };
    let (line, first) = rows
        .next()
        .ok_or_else(|| missing("the first line, `kinescope plan 3`,"))?;
    let mut f = Fields::new(line, first)?;
    f.word("kinescope")?;
    f.word("plan")?;
    let version: u32 = f.number("the version")?;
    f.end()?;
    if version != super::PLAN_VERSION {
        return Err(TextError {
            line,
            reason: format!("version {version} is not known"),
        });
    }
    let mut plan = Plan::empty(version);
    let mut seen = Vec::new();
    let mut body: Option<BodyBuilder> = None;
    for (line, text) in rows {
        let mut f = Fields::new(line, text)?;
        let word = f.any("a word")?;
        match &mut body {
            Some(body) => {
                let action = action(&word, &mut f)?;
                body.push(&action).map_err(|e| f.error(format!("{e}: {}", e.reason)))?;
            }
            None if word == "body" => body = Some(BodyBuilder::new()),
            None => {
                header(&word, &mut f, &mut plan)?;
                seen.push(word);
            }
        }
        f.end()?;
    }
    for once in ["title", "gpu", "arena", "budgets", "reads", "counts"] {
        match seen.iter().filter(|w| *w == once).count() {
            1 => {}
            0 => return Err(missing(&format!("the line `{once}`"))),
            _ => {
                return Err(TextError {
                    line: 1,
                    reason: format!("`{once}` stands there twice"),
                });
            }
        }
    }
    plan.body = body.ok_or_else(|| missing("the body"))?.finish().0;
    Ok(plan)
}

fn header(word: &str, f: &mut Fields<'_>, plan: &mut Plan) -> Result<(), TextError> {
    match word {
        "title" => plan.title = f.text("the title")?,
        "gpu" => {
            plan.gpu_id = f.number("the GPU id")?;
            f.word("map")?;
            plan.register_map = f.text("the register map")?;
        }
        "arena" => {
            let base = PhysAddr(f.number("the base")?);
            plan.arena = Arena {
                base,
                pages: f.named("pages")?,
            };
            plan.used_pages = f.named("used")?;
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
            plan.reads = ReadClasses {
                equal: f.named("equal")?,
                masked: f.named("masked")?,
                until: f.named("until")?,
                feeds: f.named("feeds")?,
                any: f.named("any")?,
            }
        }
        "counts" => {
            plan.actions = f.named("actions")?;
            plan.interrupts = f.named("interrupts")?;
        }
        "space" => {
            let number = f.number("the number")?;
            let name = f.any("the format")?;
            let format = [MmuFormat::Aarch64_4k, MmuFormat::MaliLpae]
                .into_iter()
                .find(|m| format_name(*m) == name);
            let format = format.ok_or_else(|| f.error(format!("`{name}` is not a format of page tables")))?;
            let root = PhysAddr(f.named("root")?);
            plan.spaces.push(PlanSpace {
                number,
                format,
                root,
                root_register: f.named("register")?,
            });
        }
        "page" => {
            let frame = f.number("the frame")?;
            let role = match f.any("the role")?.as_str() {
                "data" => FrameRole::Data,
                "table" => FrameRole::Table,
                other => return Err(f.error(format!("`{other}` is not `data` or `table`"))),
            };
            plan.pages.push(PlanPage {
                frame,
                digest: digest(f)?,
                role,
            });
        }
        "image" => plan.images.push(digest(f)?),
        "output" => plan.outputs.push(buffer(f)?),
        "buffer" => plan.buffers.push(buffer(f)?),
        "job" => plan.jobs.push(PlanJob {
            submit_event: f.named("submit")?,
            done_event: {
                f.word("done")?;
                f.optional("the event")?
            },
            head_va: GpuVa(f.named("head")?),
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
        "hardware" => devices::hardware(f, plan)?,
        "window" => devices::window(f, plan)?,
        "expect" => devices::expect(f, plan)?,
        "allow" => plan.allowed.push((f.number("the start")?, f.number("the end")?)),
        other => return Err(f.error(format!("`{other}` is not a part of a plan"))),
    }
    Ok(())
}

fn digest(f: &mut Fields<'_>) -> Result<Digest, TextError> {
    let hex = f.any("the digest")?;
    let hash = blake3::Hash::from_hex(&hex).map_err(|e| f.error(format!("the digest: {e}")))?;
    Ok(*hash.as_bytes())
}

fn buffer(f: &mut Fields<'_>) -> Result<PlanBuffer, TextError> {
    let name = f.text("the name")?;
    let (va, bytes) = (GpuVa(f.named("va")?), f.named("bytes")?);
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

fn action(event: &str, f: &mut Fields<'_>) -> Result<Action, TextError> {
    let event: u32 = event
        .parse()
        .map_err(|_| f.error(format!("`{event}` is not an event")))?;
    let word = f.any("the operation")?;
    match word.as_str() {
        "wait" => {
            return Ok(Action::WaitInterrupt {
                event,
                lines: f.number("lines")?,
                limit_ns: f.number("limit")?,
            });
        }
        "put" => {
            return Ok(Action::Put {
                event,
                offset: f.number("the offset")?,
                width: f.number("the width")?,
                value: f.number("the value")?,
            });
        }
        "copy" => {
            return Ok(Action::Copy {
                event,
                offset: f.number("the offset")?,
                bytes: f.number("the bytes")?,
                image: f.named("image")?,
            });
        }
        "pause" => {
            return Ok(Action::Pause {
                event,
                ns: f.number("nanoseconds")?,
            });
        }
        _ => {}
    }
    let space = f.number("the space")?;
    let offset = f.number("the offset")?;
    let width = f.number("the width")?;
    if word == "write-slot" {
        return Ok(Action::WriteSlot {
            event,
            space,
            offset,
            width,
            slot: f.named("slot")?,
        });
    }
    let value = f.number("the value")?;
    let class = match word.as_str() {
        "write" => {
            return Ok(Action::Write {
                event,
                space,
                offset,
                width,
                value,
            });
        }
        "until" => {
            let mask = f.named("mask")?;
            let reads = f.named("reads")?;
            let limit_ns = f.named("limit")?;
            return Ok(Action::Until {
                event,
                reads,
                space,
                offset,
                width,
                mask,
                expected: value,
                limit_ns,
            });
        }
        "equal" => ReadClass::Equal,
        "any" => ReadClass::Any,
        "before" => ReadClass::Before(f.named("mask")?),
        "masked" => ReadClass::Masked(f.named("mask")?),
        "feeds" => ReadClass::Feeds(f.named("slot")?),
        other => return Err(f.error(format!("`{other}` is not an operation"))),
    };
    Ok(Action::Read {
        event,
        space,
        offset,
        width,
        class,
        expected: value,
    })
}

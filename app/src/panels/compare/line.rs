//! Text of a row of the list of differences, by section, and the target that it links to.

use super::field::or_placeholder;
use super::style::label_change;
use super::view::{Section, View};
use crate::panels::common::actions::UiActions;
use crate::theme::Palette;
use egui::Color32;
use kinescope_session::comparison::{Comparison, Row};
use kinescope_session::difference::buffers;
use kinescope_session::{Document, field_pairs, text};
use trace_core::GpuVa;
use trace_core::diff::{CallPart, CodeDifference, ContentDiff, DiffSide, JobPair, MappedAs};

/// A row as it is drawn, with its link target.
pub(super) struct Line {
    pub sign: &'static str,
    pub word: String,
    pub ink: Color32,
    pub a: Option<u64>,
    pub b: Option<u64>,
    pub description: String,
    pub value: String,
    /// Memory that the row is about: address space by number, address, bytes.
    pub memory: Option<(u8, GpuVa, u64)>,
}

/// Returns a row of a section, or `None` if the section has no such row.
pub(super) fn line(doc: &Document, c: &Comparison, section: Section, row: u64, p: &Palette) -> Option<Line> {
    let at = usize::try_from(row).ok()?;
    match section {
        Section::Events => event(doc, c, &c.steps.row(row)?, p),
        Section::Calls => call(c, at, p),
        Section::Registers => {
            let r = c.diff.registers.get(at)?;
            let field = r.fields.first();
            let (sign, ink) = sides(p, r.first.0.is_some(), r.first.1.is_some());
            Some(Line {
                sign,
                word: text::count_noun(r.count, "access", "accesses"),
                ink,
                a: r.first.0,
                b: r.first.1,
                description: r.name.clone(),
                value: field.map_or_else(String::new, |(name, a, b)| {
                    format!("{name} {} → {}", or_placeholder(a), or_placeholder(b))
                }),
                memory: None,
            })
        }
        Section::Writes => {
            let w = c.diff.host_writes.list.get(at)?;
            let (sign, ink) = sides(p, !w.bytes_a.is_empty(), !w.bytes_b.is_empty());
            Some(Line {
                sign,
                word: text::bytes(w.bytes),
                ink,
                a: w.a,
                b: w.b,
                description: format!(
                    "{} {}",
                    format_address(w.address_space, w.va.get(), c.diff.host_writes.physical),
                    job(w.job)
                ),
                value: format!(
                    "{} → {}",
                    or_placeholder(&hex(&w.bytes_a)),
                    or_placeholder(&hex(&w.bytes_b))
                ),
                memory: (!c.diff.host_writes.physical).then_some((w.address_space, w.va, w.bytes)),
            })
        }
        Section::Descriptors => {
            let d = c.diff.descriptors.list.get(at)?;
            let (sign, ink) = sides(p, d.a.is_some(), d.b.is_some());
            let (number, va) = d.a.map(|va| (d.spaces.0, va)).or(d.b.map(|va| (d.spaces.1, va)))?;
            let field = d.fields.first();
            Some(Line {
                sign,
                word: text::count_noun(d.fields.len() as u64, "field", "fields"),
                ink,
                a: Some(d.events.0),
                b: Some(d.events.1),
                description: format!("{} {:#x} {}", d.layout, va.get(), job(d.job)),
                value: field.map_or_else(String::new, |(name, a, b)| {
                    format!("{name} {} → {}", or_placeholder(a), or_placeholder(b))
                }),
                // Memory is addressed by its location in the first recording.
                memory: d.a.is_some().then_some((number, va, u64::from(d.bytes))),
            })
        }
        Section::Mappings => {
            let m = c.diff.mappings.list.get(at)?;
            let (sign, ink) = sides(p, m.a.is_some(), m.b.is_some());
            let how = |m: Option<MappedAs>| m.map_or_else(|| "not mapped".into(), |m| m.rights.to_string());
            let value = match m.moved_to {
                Some(to) => format!("{:#x} → {:#x}, moved", m.va.get(), to.get()),
                None => format!("{} → {}", how(m.a), how(m.b)),
            };
            Some(Line {
                sign: if m.moved_to.is_some() { "↗" } else { sign },
                word: text::count_noun(m.pages, "page", "pages"),
                ink,
                a: None,
                b: None,
                description: format_address(m.address_space, m.va.get(), false),
                value,
                memory: Some((m.address_space, m.va, 1)),
            })
        }
        Section::Buffers => buffer(c, at, p),
        Section::Memory | Section::Rules => None,
    }
}

/// Returns the row of a step or of a run of events.
fn event(doc: &Document, c: &Comparison, row: &Row, p: &Palette) -> Option<Line> {
    let step = c.steps.at(row.step)?;
    let (sign, word, ink) = label_change(p, step.change);
    let (what, value) = match (step.a, step.b) {
        (Some(a), _) => field_pairs::describe_event(&doc.recording, &doc.derived, doc.numbers, a),
        (None, Some(b)) => field_pairs::describe_event(&c.other.recording, &c.other.derived, doc.numbers, b),
        (None, None) => return None,
    };
    let value = if step.a.is_some() && step.b.is_some() {
        let pairs = field_pairs::list_field_pairs(doc, c, step.a, step.b);
        let fields: Vec<String> = pairs
            .iter()
            .skip(1)
            .filter(|f| f.differs())
            .take(2)
            .map(|f| format!("{} {} → {}", f.name, or_placeholder(&f.a), or_placeholder(&f.b)))
            .collect();
        match (fields.is_empty(), pairs.first()) {
            (true, Some(whole)) if whole.differs() => {
                format!("{} → {}", or_placeholder(&whole.a), or_placeholder(&whole.b))
            }
            (true, _) => {
                let there = step
                    .b
                    .map(|b| field_pairs::describe_event(&c.other.recording, &c.other.derived, doc.numbers, b).1);
                format!("{value} → {}", there.unwrap_or_default())
            }
            _ => fields.join(", "),
        }
    } else {
        value
    };
    let more = if row.len > 1 {
        format!(" and {} more", text::count(row.len - 1))
    } else {
        String::new()
    };
    Some(Line {
        sign,
        word: word.to_owned(),
        ink,
        a: step.a,
        b: step.b,
        description: format!("{what}{more}"),
        value,
        memory: None,
    })
}

/// Returns the row of a buffer, or after all buffers the row of a page.
fn buffer(c: &Comparison, at: usize, p: &Palette) -> Option<Line> {
    if let Some(b) = buffers(c).nth(at) {
        let (sign, ink) = sides(p, b.a.is_some(), b.b.is_some());
        let value = match (&b.elements, b.a, b.b) {
            (_, Some((_, x)), Some((_, y))) if x != y => format!("{} → {}", text::bytes(x), text::bytes(y)),
            (Some(e), ..) => format!(
                "{} of {} differ",
                text::count_noun(e.differ, "element", "elements"),
                text::count(e.compared)
            ),
            _ => String::new(),
        };
        let va = b.a.or(b.b).map_or(0, |x| x.0.get());
        return Some(Line {
            sign,
            word: "buffer".into(),
            ink,
            a: None,
            b: None,
            description: b.name.clone(),
            value,
            memory: Some((0, GpuVa::new(va), 1)),
        });
    }
    let page = c.diff.pages.list.get(at.checked_sub(buffers(c).count())?)?;
    let (sign, ink) = sides(p, page.in_a, page.in_b);
    let value = match (page.in_a, page.in_b, page.first_byte) {
        (true, true, Some(first)) => format!("first at byte {first:#x}"),
        (true, false, _) => "no contents in B".into(),
        _ => "no contents in A".into(),
    };
    let va = page.va.get().saturating_add(u64::from(page.first_byte.unwrap_or(0)));
    Some(Line {
        sign,
        word: "page".into(),
        ink,
        a: None,
        b: None,
        description: format_address(page.address_space, page.va.get(), c.diff.pages.physical),
        value,
        memory: (!c.diff.pages.physical).then_some((page.address_space, GpuVa::new(va), 1)),
    })
}

/// Returns the sign and colour for what both sides have, or one side alone.
fn sides(p: &Palette, a: bool, b: bool) -> (&'static str, Color32) {
    match (a, b) {
        (true, false) => ("−", p.only_a),
        (false, true) => ("+", p.only_b),
        _ => ("≠", p.error),
    }
}

fn hex(bytes: &[u8]) -> String {
    let all: Vec<String> = bytes.iter().take(8).map(|b| format!("{b:02x}")).collect();
    all.join(" ")
}

fn format_address(space: u8, va: u64, physical: bool) -> String {
    if physical {
        format!("physical {va:#x}")
    } else {
        format!("AS {space} {va:#x}")
    }
}

fn job(pair: JobPair) -> String {
    match pair.a.or(pair.b) {
        Some(0) => "before any job".into(),
        Some(n) => format!("job {}", n - 1),
        None => String::new(),
    }
}

/// Returns a row of the list: calls that differ first, then functions whose code differs.
fn call(c: &Comparison, at: usize, p: &Palette) -> Option<Line> {
    let calls = &c.diff.calls;
    let Some(d) = calls.list.get(at) else {
        let code = calls.code.get(at.checked_sub(calls.list.len())?)?;
        return Some(code_line(code, p));
    };
    let what = match d.part {
        CallPart::Copy => format!("{} {}", d.names.0, d.way),
        CallPart::Snapshot => format!("{} in a snapshot", d.names.0),
        CallPart::Fill | CallPart::Launch => d.names.0.clone(),
    };
    let of_field = d
        .fields
        .first()
        .map(|(name, a, b)| format!("{name} {} → {}", or_placeholder(a), or_placeholder(b)));
    let value = of_field
        .or_else(|| d.content.as_ref().map(|c| describe_content_diff(c).1))
        .unwrap_or_default();
    Some(Line {
        sign: if d.differs { "≠" } else { "≈" },
        word: call_word(d.part).into(),
        ink: if d.differs { p.error } else { p.quiet },
        a: Some(d.events.0),
        b: Some(d.events.1),
        description: what,
        value,
        memory: d.place().map(|(a, _)| (0, a, 1)),
    })
}

fn call_word(part: CallPart) -> &'static str {
    match part {
        CallPart::Copy => "copy",
        CallPart::Snapshot => "snapshot",
        CallPart::Fill => "fill",
        CallPart::Launch => "launch",
    }
}

fn code_line(c: &CodeDifference, p: &Palette) -> Line {
    let digest = |d: &str| d.get(..8).unwrap_or(d).to_owned();
    Line {
        sign: if c.differs() { "≠" } else { "≈" },
        word: "code".into(),
        ink: if c.differs() { p.error } else { p.quiet },
        a: Some(c.events.0),
        b: Some(c.events.1),
        description: c.function.clone(),
        value: format!("module {} → {}", digest(&c.digests.0), digest(&c.digests.1)),
        memory: None,
    }
}

/// Describes how many elements differ, and the first of them on both sides.
fn describe_content_diff(c: &ContentDiff) -> (String, String) {
    let e = &c.elements;
    let many = format!(
        "{} of {} {}",
        text::count(e.differ),
        text::count(e.compared),
        e.element.name()
    );
    match field_pairs::element_pair(c) {
        Some((at, a, b)) => (many.clone(), format!("{many}, {at} {a} → {b}")),
        None => (
            many.clone(),
            format!("{many}, {} within the tolerance", text::count(e.within)),
        ),
    }
}

/// Goes to the target of a row. `deeper`: also shows its bytes side by side, if the row is about memory.
pub(super) fn open_line(
    doc: &mut Document,
    c: &Comparison,
    view: &mut View,
    actions: &mut UiActions,
    line: &Line,
    deeper: bool,
) {
    let step = match (line.a, line.b) {
        (Some(a), _) => Some(c.steps.step_of(DiffSide::A, a)),
        (None, Some(b)) => Some(c.steps.step_of(DiffSide::B, b)),
        (None, None) => None,
    };
    if let Some(s) = step {
        doc.go_step(s);
    }
    if let Some((number, va, bytes)) = line.memory {
        let spaces = &doc.recording.metadata.address_spaces;
        let space = spaces.iter().position(|s| s.number == number).unwrap_or(0);
        let space = u32::try_from(space).ok();
        actions.show_memory_at_top(space, va, bytes);
        // The memory of a call is what the call carried, which the list already shows at its right.
        if deeper && !matches!(view.section, Section::Mappings | Section::Calls) {
            view.space = space.unwrap_or(0);
            view.open(Section::Memory);
            view.show_byte(va);
        }
    }
}

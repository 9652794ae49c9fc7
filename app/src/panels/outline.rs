//! Outline: what there is in the recording, at the left.

use crate::document::Document;
use crate::document::facts::Content;
use crate::document::moment::Selection;
use crate::document::words;
use crate::theme::widgets::{Part, list_row, section};
use crate::theme::{palette, text};
use crate::window::Asks;
use egui::Ui;
use trace_core::check::Severity;

/// Jobs that are listed around the one that is meant, per phase.
const JOBS: usize = 3;

/// Draws the outline.
pub fn ui(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    ui.spacing_mut().item_spacing.y = 0.0;
    phases(doc, asks, ui);
    buffers(doc, asks, ui);
    spaces(doc, asks, ui);
    problems(doc, asks, ui);
    notes(doc, ui);
    views(doc, asks, ui);
    ui.add_space(12.0);
}

fn phases(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    if doc.facts.phases.is_empty() {
        section(ui, "Events");
        let n = text::count(doc.len());
        if list_row(ui, "all events", false, 0.0, Part::words("all"), Part::mono(n)).clicked() {
            asks.command("show-events");
        }
        return;
    }
    section(ui, "Phases");
    let facts = std::sync::Arc::clone(&doc.facts);
    let here = facts.phase_at(doc.moment()).map(|ph| ph.first);
    for ph in &facts.phases {
        let (from, to) = (
            facts.jobs.partition_point(|j| j.submit < ph.first),
            facts.jobs.partition_point(|j| j.submit <= ph.last),
        );
        let n = to - from;
        let right = match n {
            0 => text::count(ph.last - ph.first + 1),
            1 => "1 job".into(),
            n => format!("{n} jobs"),
        };
        let label = format!("phase {}", ph.name);
        if list_row(ui, &label, false, 0.0, Part::words(&ph.name), Part::mono(right)).clicked() {
            doc.go(ph.first);
        }
        if here == Some(ph.first) && n > 0 {
            let now = match doc.selection() {
                Selection::Job(j) => *j as usize,
                _ => facts
                    .jobs
                    .partition_point(|j| j.submit <= doc.moment())
                    .saturating_sub(1),
            };
            let first = now
                .saturating_sub(JOBS / 2)
                .clamp(from, to.saturating_sub(JOBS).max(from));
            for j in &facts.jobs[first..(first + JOBS).min(to)] {
                let selected = *doc.selection() == Selection::Job(j.index) || j.submit == doc.moment();
                let mut left = Part::words(format!("job {}", j.index));
                if j.failed {
                    left = left.colour(p.error);
                }
                let right = j.duration_ns.map_or_else(|| "no end".into(), text::duration);
                if list_row(
                    ui,
                    &format!("outline job {}", j.index),
                    selected,
                    14.0,
                    left,
                    Part::mono(right),
                )
                .clicked()
                {
                    doc.go_job(j.index);
                }
            }
        }
    }
}

fn buffers(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    let recording = std::sync::Arc::clone(&doc.recording);
    let list = &recording.facts.buffers;
    if list.is_empty() {
        return;
    }
    section(ui, "Buffers");
    let mut ranked: Vec<_> = list.iter().collect();
    let rank = |b: &&trace_core::recording::Buffer| match b.role {
        trace_core::recording::BufferRole::Input => 0,
        trace_core::recording::BufferRole::Output => 1,
        _ => 2,
    };
    ranked.sort_by_key(|b| rank(b));
    for b in ranked.iter().take(6) {
        let edited = doc.changes().inputs().contains_key(&b.name);
        let mut left = Part::words(if edited {
            format!("{}  ●", b.name)
        } else {
            b.name.clone()
        });
        if edited {
            left = left.colour(p.edited);
        }
        let selected = *doc.selection() == Selection::Buffer(b.name.clone());
        let right = Part::mono(words::buffer_kind(doc, b));
        if list_row(ui, &format!("buffer {}", b.name), selected, 0.0, left, right).clicked() {
            doc.select(Selection::Buffer(b.name.clone()));
            asks.command("show-inputs");
        }
    }
    if ranked.len() > 6 {
        let more = Part::words(format!("{} more", ranked.len() - 6)).colour(p.quiet);
        if list_row(ui, "more buffers", false, 0.0, more, Part::mono("")).clicked() {
            asks.command("show-inputs");
        }
    }
}

fn spaces(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    if doc.facts.spaces.is_empty() {
        return;
    }
    section(ui, "Address spaces");
    let facts = std::sync::Arc::clone(&doc.facts);
    for (i, s) in facts.spaces.iter().enumerate() {
        let mapped = format!("{} mapped", text::bytes(s.pages().saturating_mul(4096)));
        let label = format!("address space {}", s.number);
        if list_row(
            ui,
            &label,
            false,
            0.0,
            Part::words(format!("AS {}", s.number)),
            Part::mono(mapped),
        )
        .clicked()
        {
            doc.tables.space = i as u32;
            asks.command("show-page-tables");
        }
    }
}

fn problems(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    section(ui, "Problems");
    let facts = std::sync::Arc::clone(&doc.facts);
    let count = |s: Severity| facts.findings.iter().filter(|f| f.severity == s).count();
    let mut none = true;
    for (severity, word, mark, colour) in [
        (Severity::Error, "errors", "▲", p.error),
        (Severity::Warning, "warnings", "!", p.warning),
        (Severity::Note, "notes", "·", p.quiet),
    ] {
        let n = count(severity);
        if n == 0 {
            continue;
        }
        none = false;
        let left = Part::words(format!("{mark} {word}")).colour(colour);
        if list_row(
            ui,
            &format!("problems {word}"),
            false,
            0.0,
            left,
            Part::mono(n.to_string()),
        )
        .clicked()
        {
            let first = facts.findings.iter().position(|f| f.severity == severity).unwrap_or(0);
            doc.go_finding(first as u32);
            asks.command("show-problems");
        }
    }
    if none {
        let quiet = Part::words("none found").colour(p.quiet);
        list_row(ui, "no problems", false, 0.0, quiet, Part::mono(""));
    }
    let bare: u64 = facts.spaces.iter().map(|s| s.pages_with(Content::None)).sum();
    if bare > 0 {
        let runs = facts
            .spaces
            .iter()
            .flat_map(|s| &s.runs)
            .filter(|r| r.content == Content::None)
            .count();
        let quiet = Part::words("no content").colour(p.quiet);
        let row = list_row(
            ui,
            "mapped without content",
            false,
            0.0,
            quiet,
            Part::mono(format!("{runs} runs")),
        );
        if row.clicked() {
            asks.command("show-page-tables");
        }
    }
}

fn notes(doc: &mut Document, ui: &mut Ui) {
    let p = palette(ui);
    if doc.changes().notes().is_empty() {
        return;
    }
    section(ui, "Notes");
    let notes = doc.changes().notes().clone();
    for (event, note) in notes {
        let selected = *doc.selection() == Selection::Note(event);
        let left = Part::words(if note.is_empty() { "untitled".to_owned() } else { note }).colour(p.edited);
        let right = Part::mono(text::count(event));
        if list_row(ui, &format!("note at {event}"), selected, 0.0, left, right).clicked() {
            doc.go_with(event, Selection::Note(event));
        }
    }
}

fn views(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    if doc.changes().pins().is_empty() {
        return;
    }
    section(ui, "Pinned registers");
    for r in doc.changes().pins().to_vec() {
        let name = doc.facts.register_name(r);
        let selected = doc.register() == Some(r);
        if list_row(
            ui,
            &format!("pinned {name}"),
            selected,
            0.0,
            Part::mono(name.clone()),
            Part::words("lane"),
        )
        .clicked()
        {
            doc.select(Selection::Register(r));
            asks.command("show-register");
        }
    }
}

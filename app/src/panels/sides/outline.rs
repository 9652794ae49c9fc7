//! The Outline panel, at the left: the content of the recording.

mod api_trace;
mod wasm_run;

use crate::panels::common::actions::{PageTablesTarget, PanelAction, UiActions};
use crate::panels::common::copy_menu;
use crate::theme::palette;
use crate::theme::widgets::{self, StyledText, list_row, section};
use egui::Ui;
use kinescope_files::scene::Selection;
use kinescope_session::derived_data::{SEVERITIES, Stage};
use kinescope_session::page_runs::PageContent;
use kinescope_session::{Document, descriptions, text};
use trace_core::finding::Severity;

/// Number of jobs listed around the current one, per phase.
const JOBS: usize = 5;
/// Maximum number of buffers that are listed.
const BUFFERS: usize = 6;
/// Maximum number of notes listed around the current event.
const NOTES: usize = 12;
/// Maximum number of characters of a line about the capture.
const CAPTURED: usize = 15;

/// Draws the outline.
pub fn ui(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    ui.spacing_mut().item_spacing.y = 0.0;
    phases(doc, actions, ui);
    api_trace::ui(doc, actions, ui);
    buffers(doc, actions, ui);
    spaces(doc, actions, ui);
    findings(doc, actions, ui);
    notes(doc, actions, ui);
    views(doc, actions, ui);
    captured(doc, ui);
    ui.add_space(12.0);
}

/// Draws how the recording was captured. A line seldom fits: a tooltip shows all of it.
fn captured(doc: &Document, ui: &mut Ui) {
    let p = palette(ui);
    if doc.capture_info.is_empty() {
        return;
    }
    let captured = doc.capture_info.iter().any(|(what, _)| *what != "Edited");
    section(ui, if captured { "Capture" } else { "Edited copy" });
    for (what, message) in &doc.capture_info {
        let ink = match *what {
            "Cut short" | "Kernel lost" => p.warning,
            "Edited" => p.edited,
            _ => p.quiet,
        };
        let mark = if ink == p.warning { "! " } else { "" };
        let left = StyledText::body(format!("{mark}{}", what.to_lowercase())).colour(ink);
        let short = text::truncate_middle(message, CAPTURED);
        let row = list_row(
            ui,
            &format!("{what}: {message}"),
            false,
            0.0,
            left,
            StyledText::body(short),
        );
        widgets::add_copy_menu(&row.on_hover_text(message), &[("it", message.clone())]);
    }
}

fn phases(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    if doc.derived.phases.is_empty() {
        section(ui, "Events");
        let n = text::count(doc.len());
        if list_row(
            ui,
            "all events",
            false,
            0.0,
            StyledText::body("all"),
            StyledText::mono(n),
        )
        .clicked()
        {
            actions.run_command("show-events");
        }
        return;
    }
    section(ui, "Phases");
    let derived = std::sync::Arc::clone(&doc.derived);
    let here = derived.phase_at(doc.current_event()).map(|ph| ph.first);
    for ph in &derived.phases {
        let (from, to) = (
            derived.jobs.partition_point(|j| j.submit < ph.first),
            derived.jobs.partition_point(|j| j.submit <= ph.last),
        );
        let n = to - from;
        let right = match n {
            0 => text::count(ph.last - ph.first + 1),
            1 => "1 job".into(),
            n => format!("{n} jobs"),
        };
        let label = format!("phase {}", ph.name);
        if list_row(
            ui,
            &label,
            false,
            0.0,
            StyledText::body(&ph.name),
            StyledText::mono(right),
        )
        .clicked()
        {
            doc.go(ph.first);
        }
        if here == Some(ph.first) && n > 0 {
            let now = match doc.selection() {
                Selection::Job(j) => *j as usize,
                _ => derived
                    .jobs
                    .partition_point(|j| j.submit <= doc.current_event())
                    .saturating_sub(1),
            };
            let first = now
                .saturating_sub(JOBS / 2)
                .clamp(from, to.saturating_sub(JOBS).max(from));
            for j in &derived.jobs[first..(first + JOBS).min(to)] {
                let selected = *doc.selection() == Selection::Job(j.index) || j.submit == doc.current_event();
                let mut left = StyledText::body(format!("job {}", j.index));
                if j.failed {
                    left = left.colour(p.error);
                }
                let right = doc.format_duration(j);
                let label = format!("outline job {}", j.index);
                let row = list_row(ui, &label, selected, 14.0, left, StyledText::mono(right));
                if row.clicked() {
                    doc.go_job(j.index);
                }
                let message = format!(
                    "{}, submitted at event {}",
                    descriptions::describe_job(j),
                    text::count(j.submit)
                );
                copy_menu::job(&row.on_hover_text(message), doc, actions, j);
            }
        }
    }
}

fn buffers(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let recording = std::sync::Arc::clone(&doc.recording);
    let list = &recording.metadata.buffers;
    if list.is_empty() {
        return;
    }
    section(ui, "Buffers");
    let ranked = doc.derived.buffers.clone();
    let shown = ranked.iter().take(BUFFERS).filter_map(|i| list.get(*i as usize));
    for b in shown {
        let edited = doc.changes().inputs().contains_key(&b.name);
        let mut left = StyledText::body(if edited {
            format!("{}  ●", b.name)
        } else {
            b.name.clone()
        });
        if edited {
            left = left.colour(p.edited);
        }
        let selected = *doc.selection() == Selection::Buffer(b.name.clone());
        let right = StyledText::mono(descriptions::describe_buffer_type(doc, b));
        let row = list_row(ui, &format!("buffer {}", b.name), selected, 0.0, left, right);
        if row.clicked() {
            doc.select(Selection::Buffer(b.name.clone()));
            actions.run_command("show-inputs");
        }
        let message = format!(
            "{}\n{}, {} at {:#x}",
            b.name,
            b.role.name(),
            text::bytes(b.bytes),
            b.va.get()
        );
        copy_menu::for_selection(
            &row.on_hover_text(message),
            doc,
            actions,
            &[
                ("name", b.name.clone()),
                ("address", format!("{:#x}", b.va.get())),
                ("size in bytes", b.bytes.to_string()),
            ],
            &Selection::Buffer(b.name.clone()),
        );
    }
    if ranked.len() > BUFFERS {
        let more = StyledText::body(format!("{} more", ranked.len() - BUFFERS)).colour(p.quiet);
        if list_row(ui, "more buffers", false, 0.0, more, StyledText::mono("")).clicked() {
            actions.run_command("show-inputs");
        }
    }
}

fn spaces(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    if doc.derived.spaces.is_empty() {
        return;
    }
    section(ui, "Address spaces");
    let derived = std::sync::Arc::clone(&doc.derived);
    for (i, s) in derived.spaces.iter().enumerate() {
        let mapped = format!("{} mapped", text::bytes(s.pages().saturating_mul(4096)));
        let label = format!("address space {}", s.number);
        let left = StyledText::body(format!("AS {}", s.number));
        let row = list_row(ui, &label, false, 0.0, left, StyledText::mono(mapped));
        if row.clicked() {
            actions.push(PanelAction::Pages(PageTablesTarget {
                space: Some(i as u32),
                ..PageTablesTarget::default()
            }));
            actions.run_command("show-page-tables");
        }
        let root = format!("{:#x}", s.root);
        widgets::add_copy_menu(
            &row.on_hover_text(format!("{}, top table at {root}", s.format)),
            &[("address of the top table", root)],
        );
    }
}

fn findings(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    section(ui, "Findings");
    let derived = std::sync::Arc::clone(&doc.derived);
    for (group, severity) in derived.by_severity.iter().zip(SEVERITIES) {
        let (word, mark, colour) = match severity {
            Severity::Error => ("errors", "▲", p.error),
            Severity::Warning => ("warnings", "!", p.warning),
            Severity::Note => ("notes", "·", p.quiet),
        };
        if group.count == 0 {
            continue;
        }
        let left = StyledText::body(format!("{mark} {word}")).colour(colour);
        let right = StyledText::mono(text::count(group.count as u64));
        if list_row(ui, &format!("findings {word}"), false, 0.0, left, right).clicked() {
            doc.go_finding(group.first as u32);
            actions.run_command("show-problems");
        }
    }
    if derived.findings.is_empty() {
        let word = if derived.has_stage(Stage::Findings) {
            "none found"
        } else {
            "checking…"
        };
        let quiet = StyledText::body(word).colour(p.quiet);
        list_row(ui, "no findings", false, 0.0, quiet, StyledText::mono(""));
    }
    let bare: usize = derived.spaces.iter().map(|s| s.runs_with(PageContent::None)).sum();
    if bare > 0 {
        let quiet = StyledText::body("no content").colour(p.quiet);
        let right = StyledText::mono(text::count_noun(bare as u64, "run", "runs"));
        let row = list_row(ui, "mapped without content", false, 0.0, quiet, right);
        if row.clicked() {
            actions.run_command("show-page-tables");
        }
        row.on_hover_text("pages that are mapped and that the recording does not hold");
    }
}

fn notes(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let all = doc.changes().notes();
    if all.is_empty() {
        return;
    }
    section(ui, "Notes");
    // Only notes around the current event: the cost does not depend on the length of the list.
    let before = all.range(..=doc.current_event()).rev().take(NOTES / 2);
    let mut near: Vec<(u64, String)> = before.map(|(e, n)| (*e, n.text.clone())).collect();
    near.reverse();
    let room = NOTES - near.len();
    let after = all.range(doc.current_event().saturating_add(1)..).take(room);
    near.extend(after.map(|(e, n)| (*e, n.text.clone())));
    let (first, last, more) = (
        near.first().map_or(0, |n| n.0),
        near.last().map_or(0, |n| n.0),
        all.len() - near.len(),
    );
    let earlier = all.range(..first).next_back().map(|n| *n.0);
    let later = all.range(last.saturating_add(1)..).next().map(|n| *n.0);
    for (event, note) in near {
        let selected = *doc.selection() == Selection::Note(event);
        let words = if note.is_empty() { "untitled".to_owned() } else { note };
        let left = StyledText::body(words.clone()).colour(p.edited);
        let right = StyledText::mono(text::count(event));
        let row = list_row(ui, &format!("note at {event}"), selected, 0.0, left, right);
        if row.clicked() {
            doc.go_with(event, Selection::Note(event));
        }
        let own = [("note", words), ("event number", event.to_string())];
        copy_menu::at(&row, doc, actions, &own, &Selection::Note(event), Some(event));
    }
    if let Some(next) = later.or(earlier) {
        let left = StyledText::body(format!("{} more", text::count(more as u64))).colour(p.quiet);
        if list_row(ui, "more notes", false, 0.0, left, StyledText::mono("")).clicked() {
            doc.go_with(next, Selection::Note(next));
        }
    }
}

fn views(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    if doc.changes().pins().is_empty() {
        return;
    }
    section(ui, "Pinned registers");
    for r in doc.changes().pins().to_vec() {
        let name = doc.derived.register_name(r);
        let selected = doc.current_register() == Some(r);
        let row = list_row(
            ui,
            &format!("pinned {name}"),
            selected,
            0.0,
            StyledText::mono(name.clone()),
            StyledText::body("lane"),
        );
        let own = [("name", name), ("offset", format!("{r:#x}"))];
        copy_menu::for_selection(&row, doc, actions, &own, &Selection::Register(r));
        if row.clicked() {
            doc.select(Selection::Register(r));
            actions.run_command("show-register");
        }
    }
}

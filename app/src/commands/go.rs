//! Navigation commands: events, jobs, writes, interrupts, findings, divergences.

use super::{with_document, with_panel_context};
use crate::panels::views::PanelContext;
use crate::panels::wasm;
use crate::window::{App, layout};
use egui::Context;
use kinescope_files::scene::Selection;
use kinescope_session::Document;
use kinescope_session::cursors::{Cursor, Cursors};
use kinescope_session::xref_trail::AccessFilter;

pub fn palette(app: &mut App, _: &Context) {
    app.palette = Some(Default::default());
}

pub fn back(app: &mut App, _: &Context) {
    with_document(app, Document::back);
}

pub fn forward(app: &mut App, _: &Context) {
    with_document(app, Document::forward);
}

/// Returns the event after or before the current one. If the Events panel has a filter, only events that pass it count.
fn event_step(d: &PanelContext<'_>, forward: bool) -> u64 {
    let m = d.doc.current_event();
    match &d.views.events.rows {
        Some(rows) if forward => rows.get(rows.rank(m.saturating_add(1))).unwrap_or(m),
        Some(rows) => rows.rank(m).checked_sub(1).and_then(|n| rows.get(n)).unwrap_or(m),
        None if forward => m + 1,
        None => m.saturating_sub(1),
    }
}

/// Moves timeline and lists to the end of a recording that grows.
pub fn to_end(app: &mut App, _: &Context) {
    app.go_to_end();
}

pub fn next_event(app: &mut App, _: &Context) {
    with_panel_context(app, |d| d.doc.go(event_step(d, true)));
}

pub fn previous_event(app: &mut App, _: &Context) {
    with_panel_context(app, |d| d.doc.go(event_step(d, false)));
}

pub fn next_job(app: &mut App, _: &Context) {
    with_document(app, |d| {
        let n = d.derived.jobs.partition_point(|j| j.submit <= d.current_event());
        d.go_job(n as u32);
    });
}

pub fn previous_job(app: &mut App, _: &Context) {
    with_document(app, |d| {
        if let Some(n) = d
            .derived
            .jobs
            .partition_point(|j| j.submit < d.current_event())
            .checked_sub(1)
        {
            d.go_job(n as u32);
        }
    });
}

pub fn next_launch(app: &mut App, _: &Context) {
    with_document(app, |d| d.go_launch(true));
}

/// Shows the panel, and goes to the line of the next trap.
pub fn next_trap(app: &mut App, _: &Context) {
    layout::show(&mut app.dock, "wasm");
    with_panel_context(app, |d| wasm::go_next_trap(d.doc, &mut d.views.wasm));
}

pub fn previous_launch(app: &mut App, _: &Context) {
    with_document(app, |d| d.go_launch(false));
}

pub fn cursor_a(app: &mut App, _: &Context) {
    with_document(app, |d| d.set_cursor(Cursor::A, d.current_event()));
}

pub fn cursor_b(app: &mut App, _: &Context) {
    with_document(app, |d| d.set_cursor(Cursor::B, d.current_event()));
}

fn go_cursor(app: &mut App, cursor: Cursor) {
    with_document(app, |d| {
        if let Some(event) = d.cursors.get(cursor) {
            d.go(event);
        }
    });
}

pub fn go_cursor_a(app: &mut App, _: &Context) {
    go_cursor(app, Cursor::A);
}

pub fn go_cursor_b(app: &mut App, _: &Context) {
    go_cursor(app, Cursor::B);
}

pub fn clear_cursors(app: &mut App, _: &Context) {
    with_document(app, |d| d.cursors = Cursors::default());
}

pub fn filter_launches(app: &mut App, _: &Context) {
    layout::show(&mut app.dock, "launches");
    app.views.launches.focus = true;
}

fn go_to_write(app: &mut App, forward: bool) {
    with_document(app, |d| {
        if let (Some(e), Some(r)) = (d.find_neighbour_access(forward, true), d.current_register()) {
            d.go_with(e, Selection::Register(r));
        }
    });
}

fn go_to_xref(app: &mut App, forward: bool, deeds: AccessFilter) {
    with_document(app, |d| {
        d.go_to_xref(forward, deeds);
    });
}

pub fn next_xref(app: &mut App, _: &Context) {
    go_to_xref(app, true, AccessFilter::All);
}

pub fn previous_xref(app: &mut App, _: &Context) {
    go_to_xref(app, false, AccessFilter::All);
}

pub fn last_writer(app: &mut App, _: &Context) {
    go_to_xref(app, false, AccessFilter::Writes);
}

pub fn next_reader(app: &mut App, _: &Context) {
    go_to_xref(app, true, AccessFilter::Reads);
}

pub fn submission_of_call(app: &mut App, _: &Context) {
    with_document(app, |d| {
        if let Some(event) = d.submission_of_event() {
            d.go(event);
        }
    });
}

pub fn call_of_submission(app: &mut App, _: &Context) {
    with_document(app, |d| {
        if let Some(event) = d.call_of_event() {
            d.go(event);
        }
    });
}

/// Selects the page-table entry that maps the selection, then the one above it, and shows the walk.
pub fn select_entry(app: &mut App, _: &Context) {
    layout::show(&mut app.dock, "page-tables");
    with_document(app, |d| {
        if let Some(s) = d.next_entry() {
            d.select(s);
        }
    });
}

pub fn next_write(app: &mut App, _: &Context) {
    go_to_write(app, true);
}

pub fn previous_write(app: &mut App, _: &Context) {
    go_to_write(app, false);
}

pub fn next_interrupt(app: &mut App, _: &Context) {
    with_document(app, |d| {
        let n = d.derived.interrupts.partition_point(|i| i.event <= d.current_event());
        if let Some(e) = d
            .derived
            .interrupts
            .get(n)
            .or(d.derived.interrupts.first())
            .map(|i| i.event)
        {
            d.go(e);
        }
    });
}

pub fn next_finding(app: &mut App, _: &Context) {
    with_document(app, |d| {
        let n = d.derived.findings.len() as u32;
        let next = match d.selection() {
            Selection::Finding(i) => (i + 1) % n.max(1),
            _ => 0,
        };
        d.go_finding(next);
    });
    layout::show(&mut app.dock, "problems");
}

pub fn next_divergence(app: &mut App, _: &Context) {
    with_document(app, |d| {
        let list: Vec<u64> = d
            .replay
            .outcome
            .iter()
            .flat_map(|o| o.divergences.iter().map(|x| x.event))
            .collect();
        let next = match d.selection() {
            Selection::Divergence(i) => (*i as usize + 1) % list.len().max(1),
            _ => 0,
        };
        if let Some(e) = list.get(next) {
            d.go_with(*e, Selection::Divergence(next as u32));
        }
    });
}

pub fn first_event(app: &mut App, _: &Context) {
    with_panel_context(app, |d| {
        let first = d.views.events.rows.as_ref().and_then(|r| r.get(0));
        d.doc.go(first.unwrap_or(0));
    });
}

pub fn last_event(app: &mut App, _: &Context) {
    with_panel_context(app, |d| {
        let rows = d.views.events.rows.as_ref();
        let last = rows.and_then(|r| r.get(r.len().checked_sub(1)?));
        d.doc.go(last.unwrap_or(u64::MAX));
    });
}

pub fn go_address(app: &mut App, _: &Context) {
    layout::show(&mut app.dock, "memory");
    app.views.memory.focus = true;
}

pub fn filter(app: &mut App, _: &Context) {
    layout::show(&mut app.dock, "events");
    app.views.events.focus_filter = true;
}

pub fn clear_filter(app: &mut App, _: &Context) {
    app.views.events.filter.clear();
}

//! The Jobs panel: every submit with its chain, its dispatch, its shader, the memory it can reach, and its duration.

use crate::panels::common::actions::UiActions;
use crate::panels::common::copy_menu;
use crate::panels::common::locations::current_job;
use crate::theme::columns::{Column, Table};
use crate::theme::rows::Rows;
use crate::theme::widgets::{self, StyledText, paint_text};
use crate::theme::{body, focus, icons, mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Rect, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_files::scene::Selection;
use kinescope_session::derived_data::Stage;
use kinescope_session::job_buffers::{self, ReachableBuffer};
use kinescope_session::jobs::JobFact;
use kinescope_session::{Document, descriptions, job_outcome, page_runs, text};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::families::{JobForm, job_form};
use trace_core::recording::ChainReport;

/// Maximum number of jobs of a chain that are explained.
const MAX_CHAIN_JOBS: usize = 64;

/// Width from which the panel shows the job's details at the right of the list, points.
const WIDE: f32 = 860.0;

/// Name of the table in the workspace.
const TABLE: &str = "jobs";

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    list: Rows,
    seen_jump: u64,
}

/// Returns the columns. What a job does is the last column to be hidden.
fn columns(doc: &Document) -> [Column; 8] {
    let jobs = &doc.derived.jobs;
    // Command streams have no slots, and only chains of descriptors have decoded dispatches and shaders.
    let form = job_form(&doc.recording);
    let is_undecoded = matches!(
        form,
        JobForm::CommandStreams | JobForm::ControlLists | JobForm::RingEntries | JobForm::DriverJobs
    );
    [
        Column::new("job", "job", 32.0).number().fit_count(jobs.len() as u64),
        Column::new("submit", "submit", 54.0)
            .number()
            .fit_count(doc.len())
            .hide_order(2),
        // The driver names its queues.
        match form {
            JobForm::DriverJobs => Column::new("slot", "queue", 72.0),
            _ => Column::new("slot", "slot", 22.0).number(),
        }
        .hide_order(6)
        .hide_if_empty(form == JobForm::CommandStreams),
        Column::new("duration", "duration", 76.0)
            .number()
            .hide_order(3)
            .hide_if_empty(!doc.has_times() && !jobs.is_empty()),
        Column::new("done", "done", 58.0)
            .number()
            .fit_count(doc.len())
            .hide_order(4),
        Column::new("kind", "kind", 84.0).stretch(0.6),
        Column::new("dispatch", "dispatch", 90.0)
            .stretch(1.0)
            .hide_order(1)
            .hide_if_empty(is_undecoded),
        Column::new("shader", "shader", 110.0)
            .number()
            .hide_order(5)
            .hide_if_empty(is_undecoded),
    ]
}

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    if doc.derived.jobs.is_empty() {
        let (icon, message) = if doc.recording.api().is_some() {
            (
                icons::LIGHTNING,
                "A driver submits jobs to a GPU through registers. This recording is an API trace: Launches lists its \
                 kernel launches.",
            )
        } else if doc.derived.has_stage(Stage::Timeline) {
            (icons::LIGHTNING, "No job was submitted in this recording.")
        } else {
            (icons::HOURGLASS_SIMPLE_MEDIUM, "Looking for jobs among the events…")
        };
        let action = doc.recording.api().is_some().then_some("Show launches");
        if widgets::empty_state(ui, icon, message, action) {
            actions.run_command("show-launches");
        }
        return;
    }
    let full = ui.available_rect_before_wrap();
    // The inspector shows the selected job; so does the panel if there is room for both.
    let side = if full.width() < WIDE {
        0.0
    } else {
        (full.width() * 0.34).min(380.0)
    };
    let left = Rect::from_min_max(full.min, pos2(full.right() - side, full.bottom()));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left));
    list(doc, view, actions, &mut child);
    if side > 0.0 {
        let right = Rect::from_min_max(pos2(left.right(), full.top()), full.max);
        ui.painter()
            .vline(right.left(), right.y_range(), Stroke::new(1.0, p.line));
        let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right.shrink2(vec2(12.0, 0.0))));
        egui::ScrollArea::vertical()
            .id_salt("job")
            .auto_shrink(false)
            .show(&mut child, |ui| match current_job(doc) {
                Some(j) => details(doc, actions, ui, j),
                None => {
                    widgets::empty_state(ui, icons::LIGHTNING, "Select a job to see its chain.", None);
                }
            });
    }
    ui.advance_cursor_after_rect(full);
}

fn list(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns(doc));
    let now = current_job(doc);
    let is_stream = job_form(&doc.recording) == JobForm::CommandStreams;
    if view.seen_jump != doc.jumps {
        view.seen_jump = doc.jumps;
        if let Some(j) = now {
            view.list.reveal(u64::from(j));
        }
    }
    let mut rows = view.list;
    let (mut go, mut done) = (None, None);
    let longest = doc.derived.longest_ns.max(1);
    let derived = Arc::clone(&doc.derived);
    rows.show(ui, "Jobs", derived.jobs.len() as u64, |ui, row, rect| {
        let Some(j) = derived.jobs.get(row as usize) else {
            return;
        };
        let r = focus::row_response(ui, rect, ui.scope_id().with(("job", j.index)));
        let selected = now == Some(j.index);
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, format!("job {}", j.index)));
        if selected {
            widgets::select(ui, rect);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let y = rect.center().y;
        let ink = if j.failed { p.error } else { p.job };
        table.text(ui, "job", rect, &text::count(u64::from(j.index)), mono(), ink);
        table.text(ui, "submit", rect, &text::count(j.submit), mono(), p.quiet);
        let slot = doc
            .recording
            .job_queue(j.slot)
            .map_or_else(|| j.slot.to_string(), str::to_owned);
        table.text(ui, "slot", rect, &slot, mono(), p.quiet);
        if let Some(cell) = table.cell("duration", rect)
            && let Some(d) = j.duration_ns
        {
            let part = (d as f64 / longest as f64).sqrt() as f32;
            let bar = Rect::from_min_max(
                pos2(cell.right() - 70.0_f32.min(cell.width()) * part, y + 8.0),
                pos2(cell.right(), y + 9.5),
            );
            ui.painter().rect_filled(bar, 0.0, p.job);
        }
        table.text(ui, "duration", rect, &doc.format_duration(j), mono(), p.text);
        if let Some((d, cell)) = j.done.zip(table.cell("done", rect)) {
            let place = number_link(ui, &table, "done", rect, cell, &text::count(d));
            let r = ui.interact(place, ui.scope_id().with(("done", j.index)), focus::part_sense(ui));
            r.widget_info(|| WidgetInfo::labeled(Role::Link, true, format!("job {} done at event {d}", j.index)));
            let hand = r.on_hover_cursor(egui::CursorIcon::PointingHand);
            let end = match is_stream {
                _ if j.is_end_unknown => "it is complete here: saved memory holds the value of its semaphore",
                true => "the last register that its commands write",
                false => "its interrupt",
            };
            if hand.on_hover_text(end).clicked() {
                done = Some((j.index, d));
            }
        }
        let bad = j.chain.iter().any(|c| !c.decoded) || j.chain.end.is_some();
        let (word, colour) = match bad {
            _ if !doc.derived.has_stage(Stage::Chains) => ("…".to_owned(), p.quiet),
            true => (format!("▲ {}", descriptions::describe_job(j)), p.error),
            false => (descriptions::describe_job(j), p.text),
        };
        let mut cut = Vec::new();
        if table.text(ui, "kind", rect, &word, body(), colour) {
            cut.push(word);
        }
        if let Some(d) = j.chain.first().and_then(|c| c.dispatch) {
            let message = descriptions::format_dispatch(d);
            if table.text(ui, "dispatch", rect, &message, mono(), p.text) {
                cut.push(message);
            }
        }
        if let Some((s, cell)) = j.chain.first().and_then(|c| c.shader).zip(table.cell("shader", rect)) {
            let place = number_link(ui, &table, "shader", rect, cell, &format!("{s:#x}"));
            let r = ui.interact(place, ui.scope_id().with(("shader", j.index)), focus::part_sense(ui));
            r.widget_info(|| WidgetInfo::labeled(Role::Link, true, format!("shader of job {}", j.index)));
            let hand = r.on_hover_cursor(egui::CursorIcon::PointingHand);
            if hand.on_hover_text("its code").clicked() {
                actions.show_shader(j.index, s);
            }
        }
        let r = if cut.is_empty() {
            r
        } else {
            r.on_hover_text(cut.join("\n"))
        };
        copy_menu::job(&r, doc, actions, j);
        if r.clicked() {
            go = Some(j.index);
        }
    });
    table.finish(ui, actions.tables.state(TABLE));
    view.list = rows;
    if let Some((j, event)) = done {
        doc.go_with(event, Selection::Job(j));
        view.seen_jump = doc.jumps;
    } else if let Some(j) = go {
        doc.go_job(j);
        view.seen_jump = doc.jumps;
    }
}

/// Draws a number as a link, and returns its rectangle.
fn number_link(ui: &Ui, table: &Table, column: &str, row: Rect, cell: Rect, number: &str) -> Rect {
    let p = palette(ui);
    table.note(ui, column, number, &mono(), 0.0);
    let used = paint_text(ui, cell, Align2::RIGHT_CENTER, number, mono(), p.read);
    Rect::from_min_max(pos2(cell.right() - used, row.top()), pos2(cell.right(), row.bottom())).expand2(vec2(4.0, 0.0))
}

/// Returns the heading of entry `n` of a job's `count` entries. Only descriptors have a header.
fn describe_entry(form: JobForm, n: usize, count: usize) -> String {
    match form {
        _ if count > 1 => format!("Chain {} of {count}", n + 1),
        JobForm::DescriptorChains => "Header".to_owned(),
        _ => "Submitted work".to_owned(),
    }
}

/// Describes why a job has no end.
pub fn describe_missing_end(job: &JobFact) -> &'static str {
    match job.is_end_unknown {
        true => "end unknown",
        false => "no end is recorded",
    }
}

/// Draws the details of a job, also for the inspector.
pub fn details(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, index: u32) {
    let p = palette(ui);
    let derived = Arc::clone(&doc.derived);
    let Some(j) = derived.jobs.get(index as usize) else {
        return;
    };
    ui.spacing_mut().item_spacing.y = 0.0;
    widgets::section(ui, &format!("Job {index}"));
    match doc.recording.job_queue(j.slot) {
        Some(queue) => widgets::key_value(ui, "queue", StyledText::mono(queue)),
        None => widgets::key_value(ui, "slot", StyledText::mono(j.slot.to_string())),
    };
    if widgets::key_link(ui, "submitted", &format!("event {}", text::count(j.submit))).clicked() {
        doc.go_job(index);
    }
    match j.done {
        Some(d) => {
            if widgets::key_link(ui, "done", &format!("event {}", text::count(d))).clicked() {
                doc.go_with(d, Selection::Job(index));
            }
        }
        None => {
            let text = StyledText::body(describe_missing_end(j));
            let text = if j.is_end_unknown { text } else { text.colour(p.warning) };
            widgets::key_value(ui, "done", text);
        }
    }
    if j.duration_ns.is_some() {
        widgets::key_value(ui, "took", StyledText::mono(doc.format_duration(j)));
    }
    if let Some(report) = j.report.as_deref() {
        show_recorded_end(ui, report);
    }
    if let Some((o, why)) = job_outcome::find_job_outcome(doc, j) {
        let styled_text = match (o.done, o.computed) {
            (false, _) => StyledText::body("▲ failed").colour(p.error),
            (true, Some(false)) => StyledText::body("! not computed").colour(p.warning),
            (true, Some(true)) => StyledText::body("computed").colour(p.job),
            (true, None) => StyledText::body("done, no shader").colour(p.job),
        };
        widgets::key_value(ui, "replayed", styled_text);
        if let Some(why) = why {
            ui.add(egui::Label::new(egui::RichText::new(why).font(small()).color(p.quiet)).wrap());
        }
    }
    let form = job_form(&doc.recording);
    if form == JobForm::RingEntries {
        ui.add_space(8.0);
        if ui.button("Show push buffer").clicked() {
            actions.run_command("show-push-buffer");
        }
    }
    for (n, c) in j.chain.iter().enumerate().take(MAX_CHAIN_JOBS) {
        widgets::section(ui, &describe_entry(form, n, j.chain.len()));
        if widgets::key_link(ui, "at", &format!("{:#x}", c.va)).clicked() {
            actions.show_memory(Some(j.chain.space.unwrap_or(0)), c.va, 32);
            actions.run_command("show-memory");
        }
        let kind = if c.decoded {
            StyledText::body(&c.kind)
        } else {
            StyledText::body(format!("▲ {}", c.kind)).colour(p.error)
        };
        widgets::key_value(ui, "type", kind);
        for (k, v) in &c.fields {
            match text::parse_number(v).filter(|_| k == "next") {
                Some(next) => {
                    if widgets::key_link(ui, k, v).clicked() {
                        actions.show_memory(Some(0), GpuVa::new(next), 32);
                        actions.run_command("show-memory");
                    }
                }
                None => {
                    widgets::key_value(ui, k, StyledText::mono(v));
                }
            }
        }
        if let Some(d) = c.dispatch {
            widgets::key_value(ui, "dispatch", StyledText::mono(descriptions::format_dispatch(d)));
        }
        for (stage, entry) in &c.shaders {
            let key = if c.shaders.len() > 1 { stage.name() } else { "shader" };
            if widgets::key_link(ui, key, &format!("{entry:#x}")).clicked() {
                actions.show_shader(index, *entry);
            }
        }
    }
    if j.chain.len() > MAX_CHAIN_JOBS {
        let more = text::count((j.chain.len() - MAX_CHAIN_JOBS) as u64);
        let message = format!("and {more} more in the chain");
        ui.label(egui::RichText::new(message).font(small()).color(p.quiet));
    }
    if let Some(e) = &j.chain.end {
        ui.add(egui::Label::new(egui::RichText::new(format!("▲ the chain ends early: {e}")).color(p.error)).wrap());
    }
    show_reachable(doc, actions, ui, index);
}

/// Draws how a job ended when it was recorded.
fn show_recorded_end(ui: &mut Ui, report: &ChainReport) {
    let p = palette(ui);
    let text = match (report.status, report.computed) {
        (ChainReport::DONE, Some(false)) => StyledText::body("! not computed").colour(p.warning),
        (ChainReport::DONE, Some(true)) => StyledText::body("computed").colour(p.job),
        (ChainReport::DONE, None) => StyledText::body("done, no shader").colour(p.job),
        (status, _) => StyledText::body(format!("▲ failed, status {status:#x}")).colour(p.error),
    };
    widgets::key_value(ui, "recorded", text);
    if let Some(why) = &report.reason {
        let why = egui::RichText::new(why).font(small()).color(p.quiet);
        ui.add(egui::Label::new(why).wrap());
    }
}

/// Number of buffers that are shown before the user asks for the others.
const SHOWN: usize = 12;
/// Maximum number of buffers that are listed.
const MAX_LISTED_BUFFERS: usize = 200;

/// A job, the key of its lookup, and the buffers that it reaches.
type CachedReferences = ((u32, u64, usize), Arc<Vec<ReachableBuffer>>);

/// Returns what a job can reach; computed once, and again when more is known of the job.
fn find_reachable(doc: &Document, ui: &Ui, j: &JobFact) -> Arc<Vec<ReachableBuffer>> {
    let id = egui::Id::unique("what the job reaches");
    let key = (j.index, j.submit, Arc::as_ptr(&doc.derived) as usize);
    let kept: Option<CachedReferences> = ui.data(|d| d.get_temp(id));
    if let Some((_, list)) = kept.filter(|k| k.0 == key) {
        return list;
    }
    let list = Arc::new(job_buffers::find_reachable_buffers(&doc.recording, j));
    ui.data_mut(|d| d.insert_temp(id, (key, Arc::clone(&list))));
    list
}

/// Draws a row with access rights at its right end, each letter in its colour.
fn rights_row(ui: &mut Ui, label: &str, name: StyledText, rights: u8) -> egui::Response {
    let p = palette(ui);
    let r = widgets::list_row(ui, label, false, 0.0, name, StyledText::mono("   "));
    let mut x = r.rect.right();
    for (bit, letter, ink) in [(4, "x", p.quiet), (2, "w", p.write), (1, "r", p.read)] {
        if rights & bit != 0 {
            let at = pos2(x, r.rect.center().y);
            x = ui.painter().text(at, Align2::RIGHT_CENTER, letter, mono(), ink).left();
        }
    }
    r
}

/// Draws what a job can reach; buffers that its descriptors point to come first.
pub fn show_reachable(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, index: u32) {
    let p = palette(ui);
    let (recording, derived) = (Arc::clone(&doc.recording), Arc::clone(&doc.derived));
    let Some(j) = derived.jobs.get(index as usize) else {
        return;
    };
    if !derived.has_stage(Stage::Chains) {
        return;
    }
    widgets::section(ui, "Reachable memory");
    let quiet = |ui: &mut Ui, words: String| ui.label(egui::RichText::new(words).font(small()).color(p.quiet));
    let Some(space) = j.chain.space else {
        quiet(ui, "its address space is not in the recording".into());
        return;
    };
    let list = find_reachable(doc, ui, j);
    let id = egui::Id::unique("all that the job reaches");
    let all = ui.data(|d| d.get_temp::<u32>(id)) == Some(index);
    let max = if all { MAX_LISTED_BUFFERS } else { SHOWN };
    for r in list.iter().take(max) {
        let Some(b) = recording.metadata.buffers.get(r.buffer as usize) else {
            continue;
        };
        let mut name = StyledText::body(&b.name);
        if !r.is_pointed_to {
            name = name.colour(p.quiet);
        }
        let how = if r.is_pointed_to {
            "a descriptor of the job points to it"
        } else {
            "mapped for the job; no decoded descriptor points to it"
        };
        let row = rights_row(ui, &format!("reach {}", b.name), name, r.rights);
        let message = format!("{}, {}\n{how}", b.va, page_runs::format_rights(r.rights));
        if row.on_hover_text(message).clicked() {
            doc.select(Selection::Buffer(b.name.clone()));
            actions.run_command("show-memory");
        }
    }
    if list.len() > SHOWN && !all {
        let words = format!("{} more", text::count((list.len() - SHOWN) as u64));
        if widgets::link(ui, "more that the job reaches", &words).clicked() {
            ui.data_mut(|d| d.insert_temp(id, index));
        }
    } else if list.len() > MAX_LISTED_BUFFERS {
        quiet(
            ui,
            format!("and {} more", text::count((list.len() - MAX_LISTED_BUFFERS) as u64)),
        );
    } else if list.is_empty() {
        quiet(ui, "no named buffer is mapped for it".into());
    }
    if let Some(s) = j.chain.first().and_then(|c| c.shader) {
        let rights = job_buffers::find_rights(&recording, j, s).unwrap_or(0);
        let name = StyledText::body(format!("shader {s:#x}")).colour(p.quiet);
        if rights_row(ui, "reach shader", name, rights).clicked() {
            actions.show_memory(Some(space), s, 16);
            actions.run_command("show-memory");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_descriptors_have_a_header() {
        assert_eq!(describe_entry(JobForm::DescriptorChains, 0, 1), "Header");
        assert_eq!(describe_entry(JobForm::DescriptorChains, 1, 3), "Chain 2 of 3");
        for form in [JobForm::None, JobForm::CommandStreams, JobForm::DriverJobs] {
            assert_eq!(describe_entry(form, 0, 1), "Submitted work");
        }
    }
}

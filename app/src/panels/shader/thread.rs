//! A thread beside the code: choosing it, running it on the software GPU, stepping along its clauses forward and back.

use super::view::View;
use crate::document::Document;
use crate::document::code::{Listing, Runs};
use crate::document::debug::{self, Ready, space_of};
use crate::panels::desk::Asks;
use crate::theme::widgets::{self, Part};
use crate::theme::{ROW, icons, mono, mono_small, palette, small, text};
use device_mali::debug::{Followed, MOST_STEPS, MemoryAccess, Thread, ThreadEnd, Wanted};
use egui::accesskit::Role;
use egui::{Align2, RichText, Sense, Ui, WidgetInfo, pos2, vec2};
use replay_engine::plan::Edits;
use std::collections::BTreeSet;
use std::sync::Arc;
use trace_core::progress::Progress;

/// A thread that was run.
pub struct Run {
    /// Index of the job.
    pub job: u32,
    /// The workgroup.
    pub workgroup: [u32; 3],
    /// What it did.
    pub followed: Followed,
}

/// What the panel shows of a thread.
#[derive(Default)]
pub struct Look {
    /// Whether there is room for it beside the code.
    pub open: bool,
    /// Text of the field for the workgroup.
    pub workgroup: String,
    /// Text of the field for the thread.
    pub thread: String,
    /// What is wrong with a field, or with the run.
    pub wrong: Option<String>,
    /// The run under way, with its number.
    running: Option<(u64, Progress)>,
    runs: u64,
    /// What the last run gave.
    pub run: Option<Arc<Run>>,
    /// The step that is looked at.
    pub step: usize,
    /// Clauses at which `to break` stops.
    pub breaks: BTreeSet<u64>,
}

impl Look {
    /// The address of the clause of the step that is looked at.
    pub fn at(&self) -> Option<u64> {
        let run = self.run.as_ref()?;
        run.followed.steps.get(self.step).map(|s| s.clause)
    }

    /// Sets or takes away a break at a clause.
    pub fn toggle(&mut self, clause: u64) {
        if !self.breaks.remove(&clause) {
            self.breaks.insert(clause);
        }
    }

    /// The next step at one of these clauses, or the one before.
    fn reach(&self, forward: bool, stops: &BTreeSet<u64>) -> Option<usize> {
        let steps = &self.run.as_ref()?.followed.steps;
        let hit = |n: &usize| steps.get(*n).is_some_and(|s| stops.contains(&s.clause));
        if forward {
            (self.step + 1..steps.len()).find(hit)
        } else {
            (0..self.step).rev().find(hit)
        }
    }
}

/// `X,Y,Z`, of which what is left out is 0.
pub fn place(text: &str) -> Option<[u32; 3]> {
    let mut out = [0; 3];
    if text.trim().is_empty() {
        return Some(out);
    }
    let parts: Vec<&str> = text.split([',', ' ']).filter(|p| !p.is_empty()).collect();
    if parts.len() > 3 {
        return None;
    }
    for (to, part) in out.iter_mut().zip(parts) {
        *to = part.parse().ok()?;
    }
    Some(out)
}

/// Width of the part beside the code, points.
pub const WIDTH: f32 = 268.0;

/// Draws it.
pub fn ui(doc: &Document, view: &mut View, asks: &mut Asks, ui: &mut Ui, job: u32, runs: Option<&Runs>) {
    let p = palette(ui);
    ui.spacing_mut().item_spacing.y = 2.0;
    ui.horizontal(|ui| {
        ui.set_height(26.0);
        for (label, hint, at) in [("Workgroup", "workgroup", 0), ("Thread", "thread", 1)] {
            let t = &mut view.thread;
            let text = if at == 0 { &mut t.workgroup } else { &mut t.thread };
            let edit = egui::TextEdit::singleline(text)
                .id(egui::Id::unique(("shader-thread", at)))
                .font(mono())
                .desired_width(72.0)
                .hint_text(RichText::new(hint).font(small()).color(p.quiet));
            ui.add(edit)
                .accessible_name(label)
                .on_hover_text(format!("{hint} as x,y,z; what is left out is 0"));
        }
        match view.thread.running.clone() {
            Some((_, progress)) => {
                if widgets::icon_button(ui, icons::STOP, "Stop the run").clicked() {
                    progress.cancel();
                }
            }
            None => {
                let run = ui.button("Run");
                run.widget_info(|| WidgetInfo::labeled(Role::Button, true, "Run the thread"));
                if run.on_hover_text("replays up to the job on the software GPU").clicked() {
                    start(doc, view, asks, job, runs);
                }
            }
        }
    });
    if let Some(w) = &view.thread.wrong {
        let told = RichText::new(format!("▲ {w}")).color(p.error).font(small());
        ui.add(egui::Label::new(told).wrap());
    }
    let Some(run) = view.thread.run.clone().filter(|r| r.job == job) else {
        if view.thread.wrong.is_none() {
            let told = match view.thread.running {
                Some(_) => "running up to the thread…",
                None => "Choose a workgroup and a thread, and run it to see its registers and memory clause by clause.",
            };
            ui.add(egui::Label::new(RichText::new(told).color(p.quiet)).wrap());
        }
        return;
    };
    steps(view, &run, ui);
    egui::ScrollArea::vertical()
        .id_salt("thread")
        .auto_shrink(false)
        .show(ui, |ui| state(doc, view, asks, ui, &run));
}

/// Runs the thread that the fields name.
fn start(doc: &Document, view: &mut View, asks: &mut Asks, job: u32, runs: Option<&Runs>) {
    let t = &mut view.thread;
    let (Some(workgroup), Some(thread)) = (place(&t.workgroup), place(&t.thread)) else {
        t.wrong = Some("write x,y,z as numbers from 0".into());
        return;
    };
    t.wrong = None;
    t.runs += 1;
    let id = t.runs;
    let recording = Arc::clone(&doc.recording);
    let edited: Vec<_> = doc
        .changes()
        .inputs()
        .keys()
        .filter_map(|name| doc.contents(name))
        .collect();
    let position = runs.map_or(0, |r| u32::try_from(r.position).unwrap_or(0));
    let path = doc.path.clone();
    let progress = asks.work(format!("running a thread of job {job}"), move |progress| {
        let edits = Edits {
            inputs: edited.iter().map(|c| (c.buffer().name.clone(), c.whole())).collect(),
            ..Default::default()
        };
        let wanted = Wanted {
            chain: job,
            position,
            workgroup,
            thread: Thread::At(thread),
            from: 0,
            most: MOST_STEPS,
            mark: None,
        };
        let done = Ready::new(&recording, &edits, progress).and_then(|r| r.follow(wanted, progress));
        Box::new(move |desk| {
            let view = &mut desk.views.shader;
            if desk.doc.path != path || view.thread.running.as_ref().is_none_or(|r| r.0 != id) {
                return;
            }
            view.thread.running = None;
            match done {
                Ok(followed) => {
                    view.thread.step = 0;
                    view.thread.run = Some(Arc::new(Run {
                        job,
                        workgroup,
                        followed,
                    }));
                    follow(view);
                }
                Err(e) => view.thread.wrong = Some(e.to_string()),
            }
        })
    });
    view.thread.running = Some((id, progress));
}

/// Brings the clause of the step into view.
pub fn follow(view: &mut View) {
    let at = view.thread.at();
    let found = at.and_then(|a| view.listing.as_ref()?.code.at(a));
    if let Some(clause) = found {
        view.go(clause, false);
    }
}

/// Goes forward or back by steps.
pub fn go(view: &mut View, by: i64) {
    let Some(run) = &view.thread.run else { return };
    let last = run.followed.steps.len().saturating_sub(1);
    view.thread.step = view.thread.step.saturating_add_signed(by as isize).min(last);
    follow(view);
}

/// Goes to the next step at a clause, or the one before.
pub fn go_to(view: &mut View, clause: u64, forward: bool) {
    let stops = BTreeSet::from([clause]);
    if let Some(step) = view.thread.reach(forward, &stops) {
        view.thread.step = step;
        follow(view);
    }
}

fn steps(view: &mut View, run: &Run, ui: &mut Ui) {
    let p = palette(ui);
    let n = run.followed.steps.len();
    ui.horizontal(|ui| {
        ui.set_height(26.0);
        if widgets::icon_button(ui, icons::CARET_LEFT, "Step back").clicked() {
            go(view, -1);
        }
        if widgets::icon_button(ui, icons::CARET_RIGHT, "Step forward").clicked() {
            go(view, 1);
        }
        let stops = view.thread.breaks.clone();
        let any = !stops.is_empty();
        for (forward, icon, label) in [
            (false, icons::ARROW_LEFT, "Back to a break"),
            (true, icons::ARROW_RIGHT, "On to a break"),
        ] {
            let r = ui.add_enabled_ui(any, |ui| widgets::icon_button(ui, icon, label)).inner;
            if r.clicked()
                && let Some(step) = view.thread.reach(forward, &stops)
            {
                view.thread.step = step;
                follow(view);
            }
        }
        let told = format!(
            "{} of {}",
            text::count(view.thread.step as u64 + 1),
            text::count(n as u64)
        );
        let r = ui.label(RichText::new(told).font(mono()));
        if !run.followed.is_whole() {
            let all = text::counted(run.followed.executed, "clause", "clauses");
            r.on_hover_text(format!("the thread executed {all}; the first {n} are kept"));
        }
    });
    if let ThreadEnd::Stopped(why) = &run.followed.end
        && view.thread.step + 1 >= n
    {
        let told = RichText::new(format!("▲ stopped: {why}")).color(p.error).font(small());
        ui.add(egui::Label::new(told).wrap());
    }
}

fn state(doc: &Document, view: &View, asks: &mut Asks, ui: &mut Ui, run: &Run) {
    let p = palette(ui);
    let f = &run.followed;
    let step = view.thread.step;
    ui.spacing_mut().item_spacing.y = 0.0;
    let accesses = f.accesses(step);
    if !accesses.is_empty() {
        widgets::section(ui, "Memory");
        for a in accesses {
            memory(doc, asks, ui, run.job, a);
        }
    }
    widgets::section(ui, "Registers after the clause");
    let (before, after) = (f.registers(step), f.registers(step + 1));
    let shown: Vec<usize> = (0..64)
        .filter(|n| before.get(*n) != Some(&0) || after.get(*n) != Some(&0))
        .collect();
    for pair in shown.chunks(2) {
        let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
        for (column, n) in pair.iter().enumerate() {
            let (Some(was), Some(now)) = (before.get(*n), after.get(*n)) else {
                continue;
            };
            let x = rect.left() + column as f32 * (rect.width() / 2.0).min(128.0);
            let y = rect.center().y;
            let changed = was != now;
            let cell = egui::Rect::from_min_size(pos2(x, rect.top()), vec2(120.0, ROW));
            let r = ui.interact(cell, ui.scope_id().with(("register", n)), Sense::click());
            let name = if changed {
                format!("r{n} {now:#010x} was {was:#010x}")
            } else {
                format!("r{n} {now:#010x}")
            };
            r.widget_info(|| WidgetInfo::labeled(Role::Label, true, &name));
            if changed {
                let mark = egui::Rect::from_center_size(pos2(x + 2.0, y), vec2(3.0, 10.0));
                ui.painter().rect_filled(mark, 1.0, p.write);
            }
            let ink = if changed { p.write } else { p.text };
            ui.painter().text(
                pos2(x + 7.0, y),
                Align2::LEFT_CENTER,
                format!("r{n}"),
                mono_small(),
                p.quiet,
            );
            ui.painter().text(
                pos2(x + 34.0, y),
                Align2::LEFT_CENTER,
                format!("{now:08x}"),
                mono(),
                ink,
            );
            let float = f32::from_bits(*now);
            let forms = [
                ("hex", format!("{now:#010x}")),
                ("decimal", now.to_string()),
                ("float", float.to_string()),
            ];
            widgets::copies(&r, &forms).on_hover_text(format!("{name}\n{} · {} · {float}", now, *now as i32));
        }
    }
    if !f.uniforms.is_empty() {
        widgets::section(ui, "Pushed uniforms");
        for (n, u) in f.uniforms.iter().enumerate() {
            let r = widgets::key_value(ui, &format!("u{n}"), Part::mono(format!("{u:#018x}")).colour(p.job));
            widgets::copies(&r, &[("hex", format!("{u:#x}"))]);
        }
    }
}

fn memory(doc: &Document, asks: &mut Asks, ui: &mut Ui, job: u32, a: &MemoryAccess) {
    let p = palette(ui);
    let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
    let verb = if a.write { "writes" } else { "reads" };
    let value = debug::value(a);
    r.widget_info(|| WidgetInfo::labeled(Role::Link, true, format!("{verb} {:#x} {value}", a.va)));
    let ink = if a.write { p.write } else { p.read };
    let mark = egui::Rect::from_center_size(pos2(rect.left() + 4.0, rect.center().y), vec2(7.0, 7.0));
    if a.write {
        ui.painter().rect_filled(mark, 1.0, ink);
    } else {
        ui.painter()
            .rect_stroke(mark, 1.0, egui::Stroke::new(1.2, ink), egui::StrokeKind::Inside);
    }
    let y = rect.center().y;
    ui.painter().text(
        pos2(rect.left() + 14.0, y),
        Align2::LEFT_CENTER,
        format!("{:#x}", a.va),
        mono(),
        p.read,
    );
    let cell = egui::Rect::from_min_max(pos2(rect.left() + 120.0, rect.top()), rect.max);
    widgets::paint_middle(ui, cell, Align2::LEFT_CENTER, &value, mono(), p.text);
    let float = if a.bytes == 4 {
        format!(" · {}", f32::from_bits(a.value as u32))
    } else {
        String::new()
    };
    let told = format!(
        "{verb} {} at {:#x}: {value}{float}",
        text::counted(u64::from(a.bytes), "byte", "bytes"),
        a.va
    );
    if r.on_hover_cursor(egui::CursorIcon::PointingHand)
        .on_hover_text(told)
        .clicked()
    {
        let submit = doc.facts.jobs.get(job as usize).map_or(0, |j| j.submit);
        asks.memory_first(space_of(&doc.recording, submit), a.va, u64::from(a.bytes));
        asks.command("show-memory");
    }
}

/// Whether the code that is shown is the one that the thread ran.
pub fn fits(view: &View, listing: &Listing) -> bool {
    view.thread
        .run
        .as_ref()
        .is_some_and(|r| r.followed.shader == listing.code.entry.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_people_write_it() {
        assert_eq!(place("1,2,3"), Some([1, 2, 3]));
        assert_eq!(place(" 4 "), Some([4, 0, 0]));
        assert_eq!(place("1, 2"), Some([1, 2, 0]));
        assert_eq!(place(""), Some([0; 3]));
        assert!(place("x").is_none() && place("1,2,3,4").is_none());
    }
}

//! What the commands do, and when they may.

use crate::document::Document;
use crate::document::axis::AxisKind;
use crate::document::moment::Selection;
use crate::document::{derive, replay as plays, words};
use crate::panels;
use crate::theme::text;
use crate::window::{App, Pick, ThemeChoice, layout, log};
use egui::Context;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn doc(app: &App) -> Option<&Document> {
    app.doc.as_ref()
}

fn with(app: &mut App, act: impl FnOnce(&mut Document)) {
    if let Some(d) = &mut app.doc {
        act(d);
    }
}

fn now(ctx: &Context) -> f64 {
    ctx.input(|i| i.time)
}

pub fn always(_: &App) -> bool {
    true
}

pub fn has_doc(app: &App) -> bool {
    app.doc.is_some()
}

pub fn has_events(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.is_empty())
}

pub fn has_jobs(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.facts.jobs.is_empty())
}

pub fn has_interrupts(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.facts.interrupts.is_empty())
}

pub fn has_findings(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.facts.findings.is_empty())
}

pub fn has_spaces(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.facts.spaces.is_empty())
}

pub fn has_register(app: &App) -> bool {
    doc(app).is_some_and(|d| d.register().is_some())
}

pub fn has_next_write(app: &App) -> bool {
    doc(app).is_some_and(|d| d.neighbour(true, true).is_some())
}

pub fn has_previous_write(app: &App) -> bool {
    doc(app).is_some_and(|d| d.neighbour(false, true).is_some())
}

pub fn has_filter(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.events.filter.is_empty())
}

pub fn has_plan(app: &App) -> bool {
    doc(app).is_some_and(|d| d.replay.plan.is_some())
}

pub fn has_outcome(app: &App) -> bool {
    doc(app).is_some_and(|d| d.replay.outcome.is_some())
}

pub fn has_divergences(app: &App) -> bool {
    doc(app).is_some_and(|d| d.replay.outcome.as_ref().is_some_and(|o| !o.divergences.is_empty()))
}

pub fn has_offer(app: &App) -> bool {
    doc(app).is_some_and(|d| d.offered.is_some())
}

pub fn has_torn(app: &App) -> bool {
    !app.torn.is_empty()
}

pub fn has_address(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.replay.board_field.trim().is_empty())
}

pub fn can_undo(app: &App) -> bool {
    doc(app).is_some_and(|d| d.changes().last().is_some())
}

pub fn can_redo(app: &App) -> bool {
    doc(app).is_some_and(|d| d.changes().next().is_some())
}

pub fn can_back(app: &App) -> bool {
    doc(app).is_some_and(|d| d.history().can_back())
}

pub fn can_forward(app: &App) -> bool {
    doc(app).is_some_and(|d| d.history().can_forward())
}

pub fn can_replay(app: &App) -> bool {
    doc(app).is_some_and(|d| !d.is_empty() && d.replay.running.is_none())
}

pub fn can_tear(app: &App) -> bool {
    tearable(app).is_some()
}

pub fn is_running(app: &App) -> bool {
    !app.tasks.running().is_empty()
}

pub fn input_edited(app: &App) -> bool {
    doc(app).is_some_and(|d| panels::inputs::meant(d).is_some_and(|b| d.changes().inputs().contains_key(&b.name)))
}

pub fn note_here(app: &App) -> bool {
    doc(app).is_some_and(|d| d.changes().notes().contains_key(&d.moment()))
}

/// The sample recording, where the program finds one: beside the program, in the folder it runs in, or where it was
/// built.
#[must_use]
pub fn sample() -> Option<PathBuf> {
    let beside = std::env::current_exe()
        .ok()
        .and_then(|e| e.parent().map(Path::to_owned));
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned);
    let here = std::env::current_dir().ok();
    let folders = [here, beside, built]
        .into_iter()
        .flatten()
        .map(|f| f.join("sample-traces"));
    for folder in folders {
        let Ok(list) = std::fs::read_dir(&folder) else { continue };
        let mut files: Vec<PathBuf> = list
            .flatten()
            .map(|e| e.path())
            .filter(|p| p.extension().is_some_and(|x| x == "kine"))
            .collect();
        files.sort();
        let named = files
            .iter()
            .find(|p| p.to_string_lossy().contains("write"))
            .or(files.first());
        if let Some(p) = named {
            return Some(p.clone());
        }
    }
    None
}

pub fn has_sample(_: &App) -> bool {
    sample().is_some()
}

pub fn open(app: &mut App, ctx: &Context) {
    app.pick(ctx, Pick::Recording, |app, ctx, path| app.open(ctx, path));
}

pub fn open_folder(app: &mut App, ctx: &Context) {
    app.pick(ctx, Pick::Folder, |app, ctx, path| app.open(ctx, path));
}

pub fn open_sample(app: &mut App, ctx: &Context) {
    if let Some(p) = sample() {
        app.open(ctx, p);
    }
}

pub fn save_kine(app: &mut App, ctx: &Context) {
    let Some(d) = doc(app) else { return };
    let recording = Arc::clone(&d.recording);
    let name = format!("{}.kine", d.title.strip_suffix(".kine").unwrap_or(&d.title));
    app.pick(ctx, Pick::Save(name), move |app, ctx, path| {
        app.tasks
            .spawn(ctx, format!("saving {}", path.display()), move |progress| {
                let done = trace_core::timeline::write(&recording, &path, progress).map_err(|e| e.to_string());
                Box::new(move |app| match done {
                    Ok(()) => app.info(format!("saved {}", path.display())),
                    Err(e) => app.error("the recording was not saved", &e),
                })
            });
    });
}

fn save_bytes(app: &mut App, ctx: &Context, name: String, what: &'static str, bytes: Vec<u8>) {
    app.pick(ctx, Pick::Save(name), move |app, ctx, path| {
        app.tasks.spawn(ctx, format!("saving {}", path.display()), move |_| {
            let done = std::fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()));
            Box::new(move |app| match done {
                Ok(()) => app.info(format!("saved {}", path.display())),
                Err(e) => app.error(&format!("the {what} was not saved"), &e),
            })
        });
    });
}

pub fn save_outcome(app: &mut App, ctx: &Context) {
    let Some((name, bytes)) =
        doc(app).and_then(|d| Some((d.title.clone(), d.replay.outcome.as_ref()?.recording.clone())))
    else {
        return;
    };
    let name = format!("{}-outcome.kine", name.strip_suffix(".kine").unwrap_or(&name));
    save_bytes(app, ctx, name, "outcome", bytes);
}

pub fn save_plan(app: &mut App, ctx: &Context) {
    let Some((name, plan)) = doc(app).and_then(|d| Some((d.title.clone(), Arc::clone(&d.replay.plan.as_ref()?.0))))
    else {
        return;
    };
    let text = replay_engine::plan::text::print(&plan.plan);
    let name = format!("{}.plan.txt", name.strip_suffix(".kine").unwrap_or(&name));
    save_bytes(app, ctx, name, "plan", text.into_bytes());
}

pub fn reload(app: &mut App, ctx: &Context) {
    if let Some(p) = doc(app).map(|d| d.path.clone()) {
        app.open(ctx, p);
    }
}

pub fn close(app: &mut App, _: &Context) {
    app.close();
}

pub fn quit(app: &mut App, ctx: &Context) {
    app.close();
    ctx.send_viewport_cmd(egui::ViewportCommand::Close);
}

pub fn undo(app: &mut App, _: &Context) {
    with(app, |d| {
        d.undo();
    });
}

pub fn redo(app: &mut App, _: &Context) {
    with(app, |d| {
        d.redo();
    });
}

pub fn revert_input(app: &mut App, _: &Context) {
    with(app, |d| {
        if let Some(b) = panels::inputs::meant(d) {
            d.revert(&b.name);
        }
    });
}

pub fn add_note(app: &mut App, _: &Context) {
    app.asks.give_focus("note");
    with(app, |d| {
        let at = d.moment();
        if !d.changes().notes().contains_key(&at) {
            let line = words::line(d, at);
            d.note(at, Some(line));
        }
        d.go_with(at, Selection::Note(at));
    });
    app.inspector = true;
}

pub fn remove_note(app: &mut App, _: &Context) {
    with(app, |d| {
        let at = d.moment();
        d.note(at, None);
        d.go(at);
    });
}

pub fn pin_register(app: &mut App, _: &Context) {
    with(app, |d| {
        if let Some(r) = d.register() {
            d.pin(r);
        }
    });
}

pub fn copy_selection(app: &mut App, ctx: &Context) {
    let Some(d) = doc(app) else { return };
    let line = match d.selection() {
        Selection::Register(r) => d.facts.register_name(*r),
        Selection::Job(j) => {
            let head = d.facts.jobs.get(*j as usize).map_or(0, |x| x.head_va);
            format!("job {j} at {head:#x}")
        }
        Selection::Buffer(b) => b.clone(),
        Selection::Memory { space, va, bytes } => {
            let n = usize::try_from(*bytes).unwrap_or(0).min(1 << 16);
            let read = derive::read(&d.recording, *space, *va, d.moment(), n);
            let hex: Vec<String> = read
                .iter()
                .map(|b| b.map_or("??".into(), |b| format!("{b:02x}")))
                .collect();
            format!("{va:#x}: {}", hex.join(" "))
        }
        Selection::Finding(i) => d
            .facts
            .findings
            .get(*i as usize)
            .map(|f| format!("{}: {}", f.place, f.message))
            .unwrap_or_default(),
        Selection::Event | Selection::Note(_) | Selection::Divergence(_) => {
            format!("{}\t{}", d.moment(), words::line(d, d.moment()))
        }
    };
    log::push(log::Level::Info, format!("copied {}", text::middle(&line, 60)));
    ctx.copy_text(line);
}

pub fn restore_edits(app: &mut App, _: &Context) {
    with(app, Document::accept_offered);
}

pub fn forget_edits(app: &mut App, _: &Context) {
    with(app, Document::discard_offered);
}

pub fn palette(app: &mut App, _: &Context) {
    app.palette = Some(Default::default());
}

pub fn back(app: &mut App, _: &Context) {
    with(app, Document::back);
}

pub fn forward(app: &mut App, _: &Context) {
    with(app, Document::forward);
}

/// The event after or before the moment, among those that pass the filter when Events shows some only.
fn step(d: &Document, forward: bool) -> u64 {
    let m = d.moment();
    match &d.events.rows {
        Some(rows) if forward => {
            let n = rows.partition_point(|e| u64::from(*e) <= m);
            rows.get(n).map_or(m, |e| u64::from(*e))
        }
        Some(rows) => {
            let n = rows.partition_point(|e| u64::from(*e) < m);
            n.checked_sub(1).and_then(|n| rows.get(n)).map_or(m, |e| u64::from(*e))
        }
        None if forward => m + 1,
        None => m.saturating_sub(1),
    }
}

pub fn next_event(app: &mut App, _: &Context) {
    with(app, |d| d.go(step(d, true)));
}

pub fn previous_event(app: &mut App, _: &Context) {
    with(app, |d| d.go(step(d, false)));
}

pub fn next_job(app: &mut App, _: &Context) {
    with(app, |d| {
        let n = d.facts.jobs.partition_point(|j| j.submit <= d.moment());
        d.go_job(n as u32);
    });
}

pub fn previous_job(app: &mut App, _: &Context) {
    with(app, |d| {
        if let Some(n) = d.facts.jobs.partition_point(|j| j.submit < d.moment()).checked_sub(1) {
            d.go_job(n as u32);
        }
    });
}

fn write(app: &mut App, forward: bool) {
    with(app, |d| {
        if let (Some(e), Some(r)) = (d.neighbour(forward, true), d.register()) {
            d.go_with(e, Selection::Register(r));
        }
    });
}

pub fn next_write(app: &mut App, _: &Context) {
    write(app, true);
}

pub fn previous_write(app: &mut App, _: &Context) {
    write(app, false);
}

pub fn next_interrupt(app: &mut App, _: &Context) {
    with(app, |d| {
        let n = d.facts.interrupts.partition_point(|i| i.event <= d.moment());
        if let Some(e) = d
            .facts
            .interrupts
            .get(n)
            .or(d.facts.interrupts.first())
            .map(|i| i.event)
        {
            d.go(e);
        }
    });
}

pub fn next_problem(app: &mut App, _: &Context) {
    with(app, |d| {
        let n = d.facts.findings.len() as u32;
        let next = match d.selection() {
            Selection::Finding(i) => (i + 1) % n.max(1),
            _ => 0,
        };
        d.go_finding(next);
    });
    layout::show(&mut app.dock, "problems");
}

pub fn next_divergence(app: &mut App, _: &Context) {
    with(app, |d| {
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
    with(app, |d| {
        let first = d.events.rows.as_ref().and_then(|r| r.first());
        d.go(first.map_or(0, |e| u64::from(*e)));
    });
}

pub fn last_event(app: &mut App, _: &Context) {
    with(app, |d| {
        let last = d.events.rows.as_ref().and_then(|r| r.last());
        d.go(last.map_or(u64::MAX, |e| u64::from(*e)));
    });
}

pub fn go_address(app: &mut App, _: &Context) {
    layout::show(&mut app.dock, "memory");
    with(app, |d| d.memory.focus = true);
}

pub fn filter(app: &mut App, _: &Context) {
    layout::show(&mut app.dock, "events");
    with(app, |d| d.events.focus_filter = true);
}

pub fn clear_filter(app: &mut App, _: &Context) {
    with(app, |d| d.events.filter.clear());
}

pub fn fit(app: &mut App, ctx: &Context) {
    let t = now(ctx);
    with(app, |d| d.timeline_fit(t));
}

pub fn zoom_in(app: &mut App, ctx: &Context) {
    let t = now(ctx);
    with(app, |d| d.timeline_zoom(1.6, None, t));
}

pub fn zoom_out(app: &mut App, ctx: &Context) {
    let t = now(ctx);
    with(app, |d| d.timeline_zoom(1.0 / 1.6, None, t));
}

pub fn pan_left(app: &mut App, ctx: &Context) {
    let t = now(ctx);
    with(app, |d| d.timeline_pan(-0.2, t));
}

pub fn pan_right(app: &mut App, ctx: &Context) {
    let t = now(ctx);
    with(app, |d| d.timeline_pan(0.2, t));
}

pub fn axis_order(app: &mut App, _: &Context) {
    with(app, |d| d.timeline_axis(AxisKind::Order));
}

pub fn axis_compressed(app: &mut App, _: &Context) {
    with(app, |d| d.timeline_axis(AxisKind::Compressed));
}

pub fn axis_time(app: &mut App, _: &Context) {
    with(app, |d| d.timeline_axis(AxisKind::Time));
}

pub fn toggle_theme(app: &mut App, ctx: &Context) {
    let next = match app.theme() {
        ThemeChoice::Dark => ThemeChoice::Light,
        ThemeChoice::Light => ThemeChoice::Dark,
    };
    app.choose_theme(ctx, next);
}

pub fn toggle_outline(app: &mut App, _: &Context) {
    app.outline = !app.outline;
}

pub fn toggle_inspector(app: &mut App, _: &Context) {
    app.inspector = !app.inspector;
}

/// The panel that is shown in the tabs.
fn tearable(app: &App) -> Option<&'static str> {
    app.doc.as_ref()?;
    layout::active(&app.dock).into_iter().find(|p| *p != "timeline")
}

pub fn tear_off(app: &mut App, _: &Context) {
    if let Some(id) = tearable(app) {
        layout::close(&mut app.dock, id);
        app.torn.push(id);
    }
}

pub fn dock_back(app: &mut App, _: &Context) {
    for id in std::mem::take(&mut app.torn) {
        layout::show(&mut app.dock, id);
    }
}

pub fn reset_layout(app: &mut App, _: &Context) {
    app.torn.clear();
    app.dock = layout::tree(&layout::at_first());
    app.outline = true;
    app.inspector = true;
}

macro_rules! show {
    ($($name:ident $id:literal)*) => {
        $(pub fn $name(app: &mut App, _: &Context) {
            layout::show(&mut app.dock, $id);
        })*
    };
}

show! {
    show_timeline "timeline"
    show_events "events"
    show_register "register"
    show_memory "memory"
    show_page_tables "page-tables"
    show_jobs "jobs"
    show_inputs "inputs"
    show_replay "replay"
    show_problems "problems"
    show_log "log"
}

pub fn replay(app: &mut App, ctx: &Context) {
    app.replay(ctx, 1, "replay");
}

pub fn replay_ten(app: &mut App, ctx: &Context) {
    app.replay(ctx, 10, "replay-ten");
}

pub fn plan(app: &mut App, ctx: &Context) {
    app.plan(ctx);
    layout::show(&mut app.dock, "replay");
}

pub fn cancel(app: &mut App, _: &Context) {
    app.tasks.cancel_all();
}

pub fn toggle_pace(app: &mut App, _: &Context) {
    with(app, |d| {
        d.replay.keep_gaps = !d.replay.keep_gaps;
        d.replay.plan = None;
        d.replay.verified = None;
    });
}

pub fn open_outcome(app: &mut App, ctx: &Context) {
    let Some((path, outcome)) = doc(app).and_then(|d| Some((d.path.clone(), Arc::clone(d.replay.outcome.as_ref()?))))
    else {
        return;
    };
    app.tasks.spawn(ctx, "opening the outcome", move |progress| {
        let read = trace_core::container::from_bytes(outcome.recording.clone()).map_err(|e| e.to_string());
        let made = read.and_then(|r| {
            let facts = derive::derive(&r, progress).map_err(|e| e.to_string())?;
            let name = path
                .file_name()
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default();
            let stem = name.strip_suffix(".kine").unwrap_or(&name);
            Ok(Document::new(
                path.with_file_name(format!("{stem}-outcome.kine")),
                Arc::new(r),
                Arc::new(facts),
            ))
        });
        Box::new(move |app| match made {
            Ok(d) => app.take(d),
            Err(e) => app.error("the outcome was not opened", &e),
        })
    });
}

pub fn find_boards(app: &mut App, ctx: &Context) {
    app.tasks.spawn(ctx, "looking for boards", move |_| {
        let list = plays::keys()
            .and_then(|k| replay_engine::client::boards::list(&plays::factories(), &k).map_err(|e| e.to_string()));
        Box::new(move |app| match (list, &mut app.doc) {
            (Ok(boards), Some(d)) => {
                log::push(log::Level::Info, format!("{} boards are known", boards.len()));
                d.replay.boards = Some(boards);
            }
            (Err(e), _) => app.error("boards could not be listed", &e),
            _ => {}
        })
    });
}

pub fn pair(app: &mut App, ctx: &Context) {
    app.pair(ctx);
}

pub fn help(app: &mut App, _: &Context) {
    app.help = !app.help;
}

pub fn copy_log(_: &mut App, ctx: &Context) {
    ctx.copy_text(log::text());
}

pub fn about(app: &mut App, _: &Context) {
    app.about = !app.about;
}

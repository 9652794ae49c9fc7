//! The command palette: navigation, search and commands by typing.

use super::app::App;
use super::layout;
use crate::theme::{body, mono, palette as colours, small, widgets};
use egui::accesskit::Role;
use egui::{Align2, Key, Rect, RichText, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_files::link::{self, Link};
use kinescope_files::scene::Selection;
use kinescope_session::{Document, api_trace, text};
use std::path::PathBuf;
use trace_core::{GpuVa, RegOffset};

/// Maximum number of entries shown.
const MAX_ENTRIES: usize = 12;

/// The action of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A command of the table.
    Command(&'static str),
    /// An event.
    Event(u64),
    /// An address.
    Memory(GpuVa),
    /// A memory range: address space, first byte, size in bytes.
    Range(u32, GpuVa, u64),
    /// A register.
    Register(RegOffset),
    /// A job.
    Job(u32),
    /// A buffer.
    Buffer(String),
    /// A kernel, by its index.
    Kernel(u32),
    /// A launch, by its number.
    Launch(u32),
    /// A file or folder: a recent one, or a typed path.
    File(PathBuf),
    /// A typed link to an event of a recording.
    Link(String),
}

/// Returns how well `wanted` matches `name`. A substring at the start of a word scores best; letters in order still
/// match.
fn match_score(name: &str, wanted: &str) -> Option<u32> {
    let (name, wanted) = (name.to_lowercase(), wanted.to_lowercase());
    if wanted.is_empty() {
        return Some(50);
    }
    if let Some(at) = name.find(&wanted) {
        let start = at == 0 || !name.as_bytes().get(at - 1).is_some_and(u8::is_ascii_alphanumeric);
        return Some(if start { 0 } else { 10 } + at as u32);
    }
    let mut rest = name.chars();
    wanted
        .chars()
        .all(|w| rest.any(|c| c == w))
        .then_some(100 + name.len() as u32)
}

/// Returns the file or folder that a text names: an absolute path, or a path in the user's home folder.
fn typed_path(wanted: &str) -> Option<PathBuf> {
    let path = match wanted.strip_prefix("~/") {
        Some(rest) => directories::BaseDirs::new()?.home_dir().join(rest),
        None if wanted.starts_with('/') => PathBuf::from(wanted),
        None => return None,
    };
    kinescope_session::is_openable(&path).then_some(path)
}

/// Returns the entries for a text, best first: title, kind and action.
#[must_use]
pub fn list_entries(app: &App, wanted: &str) -> Vec<(String, String, Entry)> {
    let wanted = wanted.trim();
    let mut out: Vec<(u32, String, String, Entry)> = Vec::new();
    if let Some(doc) = &app.doc {
        add_items(doc, wanted, &mut out);
    }
    for c in app.commands.iter().filter(|c| c.id != "palette" && (c.enabled)(app)) {
        let title = c.full_title();
        if let Some(rank) = match_score(&title, wanted) {
            out.push((rank + 5, title, app.keys.text(c.id), Entry::Command(c.id)));
        }
    }
    if wanted.is_empty() || wanted.len() > 1 {
        for r in app.settings.recent.iter().take(4) {
            let name = r
                .file_name()
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default();
            if let Some(rank) = match_score(&name, wanted) {
                out.push((
                    rank + 30,
                    format!("Open {name}"),
                    "recent".into(),
                    Entry::File(r.clone()),
                ));
            }
        }
    }
    if let Some(path) = typed_path(wanted) {
        out.push((0, format!("Open {}", path.display()), "file".into(), Entry::File(path)));
    }
    if link::is_link(wanted) {
        let (title, message) = match Link::parse(wanted) {
            Ok(l) => {
                let name = l.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let event = l.scene.map(|s| format!(", event {}", text::count(s.event)));
                (
                    format!("Follow the link: {name}{}", event.unwrap_or_default()),
                    "link".into(),
                )
            }
            Err(e) => ("Follow the link".into(), e.to_string()),
        };
        out.push((0, title, message, Entry::Link(wanted.to_owned())));
    }
    out.sort_by_key(|o| o.0);
    out.into_iter().take(MAX_ENTRIES).map(|o| (o.1, o.2, o.3)).collect()
}

fn add_items(doc: &Document, wanted: &str, out: &mut Vec<(u32, String, String, Entry)>) {
    let number = wanted.strip_prefix("event ").unwrap_or(wanted);
    if let Some(n) = text::parse_number(number) {
        if n < doc.len() && !number.starts_with("0x") {
            out.push((0, format!("Event {n}"), "go to".into(), Entry::Event(n)));
        }
        let mapped = doc
            .derived
            .spaces
            .first()
            .is_some_and(|s| s.mapping_at(GpuVa::new(n)).is_some());
        if mapped || number.starts_with("0x") {
            let summary = if mapped {
                "go to memory"
            } else if doc.recording.api().is_some() {
                "go to memory of the device"
            } else {
                "go to memory, not mapped"
            };
            out.push((1, format!("{n:#x}"), summary.into(), Entry::Memory(GpuVa::new(n))));
        }
    }
    if let Some(j) = wanted.strip_prefix("job ").and_then(|n| n.trim().parse::<u32>().ok())
        && doc.derived.jobs.get(j as usize).is_some()
    {
        out.push((0, format!("Job {j}"), "go to its submit".into(), Entry::Job(j)));
    }
    if let Some(api_trace) = doc.api_trace() {
        let launch = wanted
            .strip_prefix("launch ")
            .and_then(|n| n.trim().parse::<u32>().ok());
        if let Some(n) = launch.filter(|n| api_trace.launches().get(*n as usize).is_some()) {
            out.push((0, format!("Launch {n}"), "go to it".into(), Entry::Launch(n)));
        }
    }
    if wanted.len() < 2 {
        return;
    }
    add_calls(doc, wanted, out);
    for b in doc.buffers.list().iter().take(MAX_NAMES) {
        if let Some(rank) = match_score(&b.name, wanted).filter(|r| *r < 100) {
            let message = match doc.buffers.origin(&b.name) {
                Some(c) => format!("values, {}", c.kind.name()),
                None => format!("{} buffer", b.role.name()),
            };
            out.push((rank + 2, b.name.clone(), message, Entry::Buffer(b.name.clone())));
        }
    }
    for m in doc.derived.device.iter().flat_map(|d| d.map().memory()) {
        if let Some(rank) = match_score(&m.name, wanted).filter(|r| *r < 100) {
            let message = format!("memory at {:#x}", m.address.get());
            let entry = Entry::Range(m.space, m.address, m.bytes);
            out.push((rank + 2, m.name.clone(), message, entry));
        }
    }
    for (offset, r) in &doc.derived.registers {
        if let Some(rank) = match_score(&r.name, wanted).filter(|r| *r < 100) {
            let message = format!(
                "register, {}",
                text::count_noun(r.accesses.len() as u64, "access", "accesses")
            );
            out.push((rank + 3, r.name.clone(), message, Entry::Register(*offset)));
        }
    }
}

/// Maximum number of buffers and kernels that are searched for a name.
const MAX_NAMES: usize = 20_000;

/// Adds kernels and buffers of an API trace.
fn add_calls(doc: &Document, wanted: &str, out: &mut Vec<(u32, String, String, Entry)>) {
    let Some(api_trace) = doc.api_trace() else { return };
    for f in 0..api_trace.metadata().functions.len().min(MAX_NAMES) as u32 {
        let name = api_trace::short_function_name(api_trace.function_name(f));
        if let Some(rank) = match_score(name, wanted).filter(|r| *r < 100) {
            let n = api_trace.launches_of(f).len() as u64;
            let message = format!("kernel, {}", text::count_noun(n, "launch", "launches"));
            out.push((rank + 2, text::truncate_middle(name, 60), message, Entry::Kernel(f)));
        }
    }
    let (buffers, event) = (api_trace.buffers(), doc.current_event());
    for row in buffers.rows().iter().take(MAX_NAMES) {
        let name = buffers.name_row(*row, event);
        if let Some(rank) = match_score(name, wanted).filter(|r| *r < 100)
            && let Some((at, bytes)) = buffers.row_memory(*row)
        {
            let message = format!("{} of the device", text::bytes(bytes));
            out.push((rank + 3, name.to_owned(), message, Entry::Range(0, at, 1)));
        }
    }
}

/// Runs the action of an entry.
pub fn run_entry(app: &mut App, ctx: &egui::Context, entry: &Entry) {
    match entry {
        Entry::Command(id) => {
            app.run(ctx, id);
            return;
        }
        Entry::File(p) => {
            app.open(ctx, p.clone());
            return;
        }
        Entry::Link(text) => {
            if let Err(e) = app.follow(ctx, text) {
                app.error("the link was not followed", &e.to_string());
            }
            return;
        }
        _ => {}
    }
    let Some(context) = app.panel_context() else { return };
    let doc = context.doc;
    let panel = match entry {
        Entry::Event(e) => {
            doc.go(*e);
            "events"
        }
        Entry::Memory(va) => {
            let memory = &mut context.views.memory;
            memory.show_at_top(doc, memory.space, *va, 1);
            "memory"
        }
        Entry::Range(space, va, bytes) => {
            context.views.memory.show_at_top(doc, *space, *va, *bytes);
            "memory"
        }
        Entry::Register(r) => {
            doc.select(Selection::Register(*r));
            "register"
        }
        Entry::Job(j) => {
            doc.go_job(*j);
            "jobs"
        }
        Entry::Kernel(f) => {
            context.views.kernel.show_function(doc, *f);
            "kernel"
        }
        Entry::Launch(n) => {
            let launch = doc.api_trace().and_then(|c| c.launches().get(*n as usize).copied());
            if let Some(l) = launch {
                doc.go(l.event);
            }
            "launches"
        }
        Entry::Buffer(b) => {
            doc.select(Selection::Buffer(b.clone()));
            "inputs"
        }
        Entry::Command(_) | Entry::File(_) | Entry::Link(_) => return,
    };
    layout::show(&mut app.dock, panel);
}

/// Draws the palette if it is open.
pub fn draw(app: &mut App, ui: &mut Ui) {
    let Some(mut open) = app.palette.take() else { return };
    let ctx = ui.ctx().clone();
    let list = list_entries(app, &open.text);
    let (up, down, enter, escape) = ctx.input_mut(|i| {
        (
            i.consume_key(egui::Modifiers::NONE, Key::ArrowUp),
            i.consume_key(egui::Modifiers::NONE, Key::ArrowDown),
            i.consume_key(egui::Modifiers::NONE, Key::Enter),
            i.consume_key(egui::Modifiers::NONE, Key::Escape),
        )
    });
    if down {
        open.chosen = (open.chosen + 1).min(list.len().saturating_sub(1));
    }
    if up {
        open.chosen = open.chosen.saturating_sub(1);
    }
    let mut done = enter.then(|| list.get(open.chosen).map(|e| e.2.clone())).flatten();
    let mut keep = !escape;
    let screen = ctx.content_rect();
    let width = 520.0_f32.min(screen.width() - 40.0);
    let area = egui::Area::new(egui::Id::unique("palette"))
        .order(egui::Order::Foreground)
        .fixed_pos(pos2(screen.center().x - width / 2.0, screen.top() + 6.0))
        .show(&ctx, |ui| {
            egui::Frame::popup(ui.style()).inner_margin(8).show(ui, |ui| {
                ui.set_width(width);
                let p = colours(ui);
                let hint = RichText::new("Enter an event, an address, a register, a command or a link").color(p.quiet);
                let edit = egui::TextEdit::singleline(&mut open.text)
                    .id(egui::Id::unique("palette-text"))
                    .font(body())
                    .desired_width(f32::INFINITY)
                    .margin(vec2(8.0, 6.0))
                    .hint_text(hint);
                let r = ui.add(edit).accessible_name("Palette");
                if !open.focused {
                    r.request_focus();
                    open.focused = true;
                }
                if r.changed() {
                    open.chosen = 0;
                }
                ui.add_space(4.0);
                ui.spacing_mut().item_spacing.y = 0.0;
                for (i, (title, message, entry)) in list.iter().enumerate() {
                    if row(ui, title, message, i == open.chosen) {
                        done = Some(entry.clone());
                    }
                }
                if list.is_empty() {
                    ui.label(RichText::new("no match").color(p.quiet).font(small()));
                }
            });
        });
    let outside = ctx.input(|i| i.pointer.any_pressed())
        && ctx
            .input(|i| i.pointer.interact_pos())
            .is_some_and(|q| !area.response.rect.contains(q));
    keep &= !outside;
    match done {
        Some(entry) => run_entry(app, &ctx, &entry),
        None if keep => app.palette = Some(open),
        None => {}
    }
}

fn row(ui: &mut Ui, title: &str, message: &str, chosen: bool) -> bool {
    let p = colours(ui);
    let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), 24.0), Sense::click());
    r.widget_info(|| WidgetInfo::selected(Role::MenuItem, true, chosen, title));
    if chosen || r.hovered() {
        ui.painter()
            .rect_filled(rect, 3.0, if chosen { p.selection } else { p.raised });
    }
    let inner = rect.shrink2(vec2(8.0, 0.0));
    let used = widgets::paint_text(ui, inner, Align2::RIGHT_CENTER, message, small(), p.quiet);
    let left = Rect::from_min_max(inner.min, pos2(inner.right() - used - 8.0, inner.bottom()));
    let code = title.starts_with("0x")
        || title
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    widgets::paint_text(
        ui,
        left,
        Align2::LEFT_CENTER,
        title,
        if code { mono() } else { body() },
        p.text,
    );
    r.clicked()
}

#[cfg(test)]
mod tests {
    use super::match_score;

    #[test]
    fn palette_ranks_prefixes_first_and_matches_subsequences() {
        let rank = |n| match_score(n, "und").unwrap_or(u32::MAX);
        assert!(rank("Undo") < rank("Show undo") && rank("Show undo") < rank("Sound"));
        assert!(match_score("Unpin all drivers", "uad").is_some());
        assert_eq!(match_score("Redo", "xyz"), None);
    }
}

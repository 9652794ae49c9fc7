//! The Shader panel: the code that a job runs, clause by clause, with the operations of both units side by side.

use crate::panels::common::actions::UiActions;
use crate::panels::common::locations::current_job;
use crate::theme::{ROW, focus, icons, palette, widgets};
use egui::accesskit::Role;
use egui::{EventFilter, Key, Modifiers, Rect, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::Document;
use kinescope_session::code::{self, ChainShader, Listing, MAX_SYNC_READ_BYTES};
use kinescope_session::derived_data::Stage;
use std::sync::Arc;
use trace_core::families::{JobForm, job_form};
use trace_core::shader_code::{CodeEnd, MAX_CODE};

mod bar;
mod lines;
pub mod thread;
mod thread_view;
pub mod view;

pub use view::View;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let (job, all) = match find_current_shaders(doc, view) {
        Ok(found) => found,
        Err(EmptyState { icon, message, action }) => {
            let (label, command) = action.unzip();
            if widgets::empty_state(ui, icon, &message, label)
                && let Some(command) = command
            {
                actions.run_command(command);
            }
            return;
        }
    };
    read(doc, view, actions, job, &all);
    bar::ui(doc, view, actions, ui, job, &all);
    let Some(listing) = view.listing.clone() else {
        widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, "Reading the shader's code…", None);
        return;
    };
    if listing.lines.is_empty() {
        let entry = listing.code.entry;
        let message = match listing.code.end {
            CodeEnd::Unreadable(_) => format!("The recording does not hold the shader's code at {entry}."),
            CodeEnd::Broken(e) => format!("The bytes at {entry} are not a shader: {e}."),
            _ => format!("There is no code at {entry}: it begins with padding."),
        };
        if widgets::empty_state(ui, icons::CPU, &message, Some("Show the bytes")) {
            lines::show_memory(doc, actions, job, entry);
        }
        return;
    }
    keyed(view, &listing, ui);
    let full = ui.available_rect_before_wrap();
    let side = if view.thread.open { thread::WIDTH } else { 0.0 };
    let left = Rect::from_min_max(full.min, pos2(full.right() - side, full.bottom()));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left));
    child.shrink_clip_rect(left);
    lines::ui(doc, view, actions, &mut child, job, &listing);
    if view.thread.open {
        let right = Rect::from_min_max(pos2(left.right(), full.top()), full.max);
        let line = Stroke::new(1.0, palette(ui).line);
        ui.painter().vline(right.left(), right.y_range(), line);
        let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right.shrink2(vec2(10.0, 0.0))));
        let runs = all.get(view.chosen.1);
        thread::ui(doc, view, actions, &mut child, job, runs);
    }
    ui.advance_cursor_after_rect(full);
}

/// The reason why there is no code, and what to do: text of an action and its command.
struct EmptyState {
    icon: &'static str,
    message: String,
    action: Option<(&'static str, &'static str)>,
}

/// Returns the job whose shader is shown, and the shaders that it runs.
fn find_current_shaders(doc: &Document, view: &mut View) -> Result<(u32, Arc<Vec<ChainShader>>), EmptyState> {
    let nothing = |icon, text: &str, action| EmptyState {
        icon,
        message: text.to_owned(),
        action,
    };
    if doc.derived.jobs.is_empty() || !doc.derived.has_stage(Stage::Chains) {
        return Err(
            match doc.derivation.is_some() && !doc.derived.has_stage(Stage::Chains) {
                true => nothing(
                    icons::HOURGLASS_SIMPLE_MEDIUM,
                    "Looking for jobs and their shaders…",
                    None,
                ),
                false if doc.recording.api().is_some() => nothing(
                    icons::CPU,
                    "Shader shows the code of jobs of Mali GPUs. This is an API trace: Kernel shows the code of its \
                 kernels.",
                    Some(("Show kernel", "show-kernel")),
                ),
                false => nothing(
                    icons::CPU,
                    "No job was submitted in this recording, so no shader runs.",
                    Some(("Show events", "show-events")),
                ),
            },
        );
    }
    let undecoded = match job_form(&doc.recording) {
        JobForm::CommandStreams => Some(
            "The jobs of this recording are command streams of an Adreno GPU. Their register writes are in Events; their \
             shaders are not decoded.",
        ),
        JobForm::DriverJobs => Some(
            "The jobs of this recording are trace events of a kernel driver. The recording does not hold their commands \
             or shaders.",
        ),
        JobForm::ControlLists => Some(
            "The jobs of this recording are control lists and compute dispatches of a V3D GPU. The recording does not \
             hold their shaders.",
        ),
        JobForm::RingEntries => Some(
            "The jobs of this recording are push buffers of an NVIDIA GPU. Push buffer and `kinescope pushbuffer` show \
             their methods and launches; their code is not disassembled.",
        ),
        JobForm::None | JobForm::DescriptorChains => None,
    };
    if let Some(text) = undecoded {
        let action = match job_form(&doc.recording) {
            JobForm::RingEntries => ("Show push buffer", "show-push-buffer"),
            _ => ("Show events", "show-events"),
        };
        return Err(nothing(icons::CPU, text, Some(action)));
    }
    let job = current_job(doc).and_then(|j| doc.derived.jobs.get(j as usize));
    let Some(job) = job else {
        return Err(nothing(
            icons::CPU,
            "Select a job to see the code that it runs.",
            Some(("Show jobs", "show-jobs")),
        ));
    };
    // Computed once for a job, and again when more is known of it.
    let of = (Arc::as_ptr(&doc.derived) as usize, job.index);
    let all = match &view.chain_shaders {
        Some((was, all)) if *was == of => Arc::clone(all),
        _ => {
            let all = Arc::new(code::list_chain_shaders(job));
            view.chain_shaders = Some((of, Arc::clone(&all)));
            all
        }
    };
    if all.is_empty() {
        let message = match (&job.chain.space, job.chain.first()) {
            (None, _) => format!("The address space of job {} is not in the recording.", job.index),
            (_, Some(c)) if c.decoded => {
                format!("Job {} runs no shader: it is a {} job.", job.index, c.kind)
            }
            _ => format!("The descriptors of job {} cannot be read.", job.index),
        };
        return Err(EmptyState {
            icon: icons::CPU,
            message,
            action: Some(("Show jobs", "show-jobs")),
        });
    }
    if let Some((_, entry)) = view.requested.take_if(|w| w.0 == job.index)
        && let Some(n) = all.iter().position(|r| r.entry == entry)
    {
        view.chosen = (job.index, n);
    }
    if view.chosen.0 != job.index || view.chosen.1 >= all.len() {
        view.chosen = (job.index, 0);
    }
    Ok((job.index, all))
}

/// Reads the code if it differs from the shown code: at once if it is short, else off the interface thread.
fn read(doc: &Document, view: &mut View, actions: &mut UiActions, job: u32, all: &[ChainShader]) {
    let of = (Arc::as_ptr(&doc.recording) as usize, job, view.chosen.1);
    if view.listing_key == Some(of) {
        return;
    }
    if let Some(old) = view.reading.take() {
        old.cancel();
    }
    view.listing_key = Some(of);
    view.listing = None;
    view.branch_history.clear();
    view.clause = 0;
    view.hit = None;
    view.list.top = 0.0;
    let found = doc.derived.jobs.get(job as usize);
    let Some((job, runs)) = found.zip(all.get(view.chosen.1)) else {
        return;
    };
    let (space, event, entry) = (job.chain.space.unwrap_or(0), job.submit, runs.entry);
    let first = Listing::read(&doc.recording, space, event, entry, MAX_SYNC_READ_BYTES);
    if first.code.end != CodeEnd::Limit {
        show_listing(view, first);
        return;
    }
    let recording = Arc::clone(&doc.recording);
    let progress = actions.start_work::<View>(format!("reading the shader of job {}", job.index), move |_| {
        let listing = Listing::read(&recording, space, event, entry, MAX_CODE);
        Box::new(move |_, view, _| {
            if view.listing_key == Some(of) {
                show_listing(view, listing);
            }
        })
    });
    view.reading = Some(progress);
}

fn show_listing(view: &mut View, listing: Listing) {
    view.reading = None;
    view.hits = (view.search.clone(), Arc::new(listing.find(&view.search)));
    view.listing = Some(Arc::new(listing));
}

/// Runs the chosen thread.
pub fn run(doc: &Document, view: &mut View, actions: &mut UiActions) {
    if let Ok((job, all)) = find_current_shaders(doc, view) {
        let runs = all.get(view.chosen.1).copied();
        thread::start(doc, view, actions, job, runs.as_ref(), 0);
    }
}

/// Goes to the next unknown operation.
pub fn next_unknown(view: &mut View) {
    let Some(listing) = view.listing.clone() else { return };
    bar::next(view, &listing.unknown, true);
}

/// Shows the bytes of the current clause.
pub fn show_bytes(doc: &Document, view: &View, actions: &mut UiActions) {
    if let (Some((_, job, _)), Some(at)) = (view.listing_key, view.address()) {
        lines::show_memory(doc, actions, job, at);
    }
}

/// Handles keys: up and down by a clause, by a page, along a branch and back.
fn keyed(view: &mut View, listing: &Listing, ui: &Ui) {
    let id = lines::keys_id();
    let area = ui.available_rect_before_wrap();
    let r = focus::area(ui, area, id);
    r.widget_info(|| WidgetInfo::labeled(Role::Table, true, "Code"));
    let mine = ui.memory(|m| m.focused().is_none_or(|f| f == id));
    if !mine || egui::Popup::is_any_open(ui.ctx()) {
        return;
    }
    let vertical = EventFilter {
        vertical_arrows: true,
        horizontal_arrows: view.thread.open,
        ..Default::default()
    };
    ui.memory_mut(|m| m.set_focus_lock_filter(id, vertical));
    let pressed = |key| ui.input_mut(|i| i.count_and_consume_key(Modifiers::NONE, key));
    let last = listing.begins.len().saturating_sub(1);
    let by = pressed(Key::ArrowDown) as i64 - pressed(Key::ArrowUp) as i64;
    let pages = pressed(Key::PageDown) as i64 - pressed(Key::PageUp) as i64;
    if by != 0 {
        let to = view.clause.saturating_add_signed(by as isize).min(last);
        view.go_to_clause(to, false);
    }
    if pages != 0 {
        let rows = ((area.height() / ROW) as i64 - 1).max(1) * pages;
        let from = listing.begins.get(view.clause).copied().unwrap_or(0);
        let line = from
            .saturating_add_signed(rows as isize)
            .min(listing.lines.len().saturating_sub(1));
        let to = listing.lines.get(line).map_or(0, code::Line::clause);
        // A page key always moves on, even within one long clause.
        let to = if to == view.clause {
            to.saturating_add_signed(pages.signum() as isize).min(last)
        } else {
            to
        };
        view.go_to_clause(to, false);
    }
    // If a thread was run, left and right step along it.
    if view.thread.open && view.thread.ran(listing) {
        let by = pressed(Key::ArrowRight) as i64 - pressed(Key::ArrowLeft) as i64;
        if by != 0 {
            thread::step_by(view, by);
        }
    }
    if pressed(Key::Enter) > 0
        && let Some(to) = target(listing, view.clause)
    {
        view.go_to_clause(to, true);
    }
    if pressed(Key::Backspace) > 0
        && let Some(to) = view.branch_history.pop()
    {
        view.go_to_clause(to, false);
    }
}

/// Returns the clause that the first branch of a clause leads to.
fn target(listing: &Listing, clause: usize) -> Option<usize> {
    let c = listing.code.clauses.get(clause)?;
    c.targets.iter().find_map(|t| listing.code.at(*t))
}

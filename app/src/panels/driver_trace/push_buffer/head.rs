//! The ring entry of the shown submission, and the buttons that go to its neighbours.

use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::panels::driver_trace::links;
use crate::theme::{icons, mono, palette, small, strong, widgets};
use egui::{Frame, Label, Margin, Rect, RichText, Stroke, Ui, pos2, vec2};
use kinescope_session::driver_data::{DriverData, ObjectText, PointedBuffer};
use kinescope_session::{Document, api_trace, text};
use trace_core::driver_trace::Submission;
use trace_core::families::find_family;

/// Maximum length of the name of a call, characters.
const MAX_CALL_NAME: usize = 32;

/// Draws the two lines above the list.
pub(super) fn ui(
    doc: &mut Document,
    view: &mut View,
    actions: &mut UiActions,
    ui: &mut Ui,
    data: &DriverData,
    submission: &Submission,
) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(4.0);
        let all = data.trace.submissions();
        let n = submission.index as usize;
        for (icon, label, to) in [
            (icons::CARET_LEFT, "Previous submission", n.checked_sub(1)),
            (icons::CARET_RIGHT, "Next submission", n.checked_add(1)),
        ] {
            let to = to.and_then(|n| all.get(n)).map(|s| s.event);
            let clicked = ui
                .add_enabled_ui(to.is_some(), |ui| widgets::icon_button(ui, icon, label).clicked())
                .inner;
            if let Some(event) = to.filter(|_| clicked) {
                doc.go(event);
            }
        }
        let title = format!(
            "Submission {} of {}",
            text::count(n as u64),
            text::count(all.len() as u64)
        );
        ui.label(RichText::new(title).font(strong()).color(p.text))
            .on_hover_text("Submissions count from 0.");
        event_link(doc, ui, "event", submission.event);
        if let Some(doorbell) = submission.doorbell {
            event_link(doc, ui, "doorbell", doorbell);
        }
        call_link(doc, ui, data, submission);
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.add_space(10.0);
            let work = ui.checkbox(&mut view.only_work, "work only");
            if work
                .on_hover_text("Hide methods; show launches, copies, uploads and semaphores.")
                .changed()
            {
                view.selected = None;
                view.build_lines();
            }
            if let Some(listing) = &view.listing {
                let mut message = text::count_noun(listing.methods as u64, "method", "methods");
                if listing.launches > 0 {
                    let launches = text::count_noun(listing.launches as u64, "launch", "launches");
                    message = format!("{launches}, {message}");
                }
                ui.add(Label::new(RichText::new(message).color(p.quiet).font(mono())).truncate());
            }
            if !view.is_exact {
                let message = "the last one before the current event";
                ui.add(Label::new(RichText::new(message).color(p.quiet).font(small())).truncate());
            }
        });
    });
    entry(doc, actions, ui, data, submission);
    let line = ui.available_rect_before_wrap();
    ui.painter().hline(line.x_range(), line.top(), Stroke::new(1.0, p.line));
}

/// Draws a link to an event.
fn event_link(doc: &mut Document, ui: &mut Ui, what: &str, event: u64) {
    let p = palette(ui);
    ui.add_space(8.0);
    ui.label(RichText::new(what).font(small()).color(p.quiet));
    if widgets::link(ui, &format!("{what} of the submission"), &text::count(event)).clicked() {
        doc.go(event);
    }
}

/// Draws a link to the call that made the submission: `during cuGraphLaunch 1 180`.
fn call_link(doc: &mut Document, ui: &mut Ui, data: &DriverData, submission: &Submission) {
    let (Some(event), Some(trace)) = (data.call_of(submission), doc.api_trace()) else {
        return;
    };
    let name = api_trace::name_call(&trace, &doc.recording, event);
    event_link(doc, ui, &text::truncate_middle(&name, MAX_CALL_NAME), event);
}

/// Draws the fields of the ring entry.
fn entry(doc: &Document, actions: &mut UiActions, ui: &mut Ui, data: &DriverData, submission: &Submission) {
    let p = palette(ui);
    let row = usize::try_from(submission.event)
        .ok()
        .and_then(|e| doc.recording.events.ring_entry(e));
    let channel = data.trace.channels().get(submission.channel).map(|c| c.object);
    let channel = channel.and_then(|n| ObjectText::new(&doc.recording, &data.trace, n));
    let mut parts: Vec<(&str, String)> = Vec::new();
    let name = data.channel_name(submission).map(|n| n.format());
    let id = channel.map(|t| t.id());
    parts.extend(id.map(|id| ("channel", name.map_or(id.clone(), |name| format!("{name} ({id})")))));
    if let Some(row) = row {
        parts.push(("ring index", row.index.to_string()));
        if row.entry != 0 {
            parts.push(("entry", format!("{:#018x}", row.entry)));
            let fields = find_family(&doc.recording).ring_entry_fields(row.entry);
            // Address and number of words are those of the submission.
            parts.extend(fields.into_iter().filter(|f| !["address", "words"].contains(&f.0)));
        }
    }
    parts.push((
        "commands",
        format!("{} at {}", text::bytes(submission.bytes), submission.va),
    ));
    let margin = Margin::symmetric(widgets::PAD as i8, 0);
    Frame::new().inner_margin(margin).show(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing = vec2(6.0, 2.0);
            for (key, value) in parts {
                ui.label(RichText::new(key).font(small()).color(p.quiet));
                ui.label(RichText::new(value).font(mono()).color(p.text));
                ui.add_space(8.0);
            }
            let found = data.trace.find_buffer(submission.va, submission.event);
            let target = PointedBuffer {
                va: submission.va,
                buffer: found.and_then(|(n, offset)| Some((u32::try_from(n).ok()?, offset))),
            };
            if let Some(name) = target.describe(&doc.recording, &data.trace) {
                let galley = ui.painter().layout_no_wrap(format!("→ {name}"), mono(), p.read);
                let (rect, _) = ui.allocate_exact_size(vec2(galley.size().x + 2.0, 18.0), egui::Sense::hover());
                let rect = Rect::from_min_max(rect.min, pos2(rect.right() + 4.0, rect.bottom()));
                links::buffer_link(doc, data, actions, ui, rect, &target);
            }
        })
    });
    ui.add_space(4.0);
}

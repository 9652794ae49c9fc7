//! The Page tables panel: the address map of each address space by rights and content, its marks, and the walk of an
//! address level by level. The map goes from all address bits down to one page.

pub mod atlas;
mod list;
mod map;
mod style;
pub mod view;
mod walk;

pub use view::{ColourBy, View};

use crate::panels::common::actions::UiActions;
use crate::theme::rows::Rows;
use crate::theme::widgets;
use crate::theme::{icons, palette, small};
use egui::accesskit::Role;
use egui::{Rect, RichText, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::derived_data::Stage;
use kinescope_session::page_runs::PageContent;
use kinescope_session::page_table_marks::Mark;
use kinescope_session::spaces::SpaceFact;
use kinescope_session::{Document, text};
use style::mark_colour;
use trace_core::families::find_family;
use trace_core::page_table_format::AddressExtension;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let derived = std::sync::Arc::clone(&doc.derived);
    view.follow(doc);
    let Some(space) = derived.spaces.get(view.space as usize).or(derived.spaces.first()) else {
        if !derived.has_stage(Stage::Spaces) {
            widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, "Walking the page tables …", None);
            return;
        }
        let message = if doc.recording.api().is_some() {
            "An API trace holds no page tables: they stay in the driver. Memory shows the buffers that the calls \
             allocated."
        } else if doc.recording.driver_trace().is_some() {
            "A driver trace holds no page tables: the kernel driver writes them. Address space shows the GPU addresses of \
             buffers over time, and `kinescope objects` lists them."
        } else if find_family(&doc.recording).page_table_formats().is_empty() {
            "This recording holds no page tables of the GPU. `kinescope import --raw` opens a dump of memory with them, \
             and its help lists the formats."
        } else {
            "This recording holds no page tables: the driver set up no address space."
        };
        let is_driver_trace = doc.recording.api().is_none() && doc.recording.driver_trace().is_some();
        let (action, command) = match is_driver_trace {
            true => ("Show address space", "show-address-space"),
            false => ("Show events", "show-events"),
        };
        if widgets::empty_state(ui, icons::TREE_STRUCTURE, message, Some(action)) {
            actions.run_command(command);
        }
        return;
    };
    view.address_bits = address_bits(doc, view.space);
    bar(doc, view, ui, space);
    marks(view, ui, space);
    if view.as_map {
        atlas::ui(doc, view, actions, ui, space);
        return;
    }
    let full = ui.available_rect_before_wrap();
    ui.painter()
        .hline(full.x_range(), full.top(), Stroke::new(1.0, palette(ui).line));
    let side = (full.width() * 0.38).clamp(280.0, 420.0).min(full.width() * 0.5);
    let left = Rect::from_min_max(full.min, pos2(full.right() - side, full.bottom()));
    let right = Rect::from_min_max(pos2(left.right(), full.top()), full.max);
    ui.painter()
        .vline(right.left(), right.y_range(), Stroke::new(1.0, palette(ui).line));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left));
    child.shrink_clip_rect(left);
    list::ui(doc, view, actions, &mut child, space);
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right.shrink2(vec2(12.0, 8.0))));
    child.shrink_clip_rect(right);
    map::ui(doc, view, &mut child, space);
    walk::ui(doc, view, actions, &mut child);
    ui.advance_cursor_after_rect(full);
}

/// Returns the number of address bits that the map of an address space has.
fn address_bits(doc: &Document, space: u32) -> u32 {
    let space = doc.recording.metadata.address_spaces.get(space as usize);
    space.map_or(0, |s| match s.format.description().extension() {
        AddressExtension::Zero => s.format.description().address_bits(),
        AddressExtension::Sign | AddressExtension::Ones => 64,
    })
}

fn bar(doc: &Document, view: &mut View, ui: &mut Ui, space: &SpaceFact) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        let derived = std::sync::Arc::clone(&doc.derived);
        if derived.spaces.len() > 1 {
            let before = view.space;
            egui::ComboBox::from_id_salt("space")
                .selected_text(format!("AS {}", space.number))
                .show_ui(ui, |ui| {
                    for (i, s) in derived.spaces.iter().enumerate() {
                        let name = format!("AS {} · root {:#x}", s.number, s.root);
                        ui.selectable_value(&mut view.space, i as u32, name);
                    }
                });
            if view.space != before {
                view.cell = None;
                view.at = None;
            }
        } else {
            ui.label(RichText::new(format!("AS {}", space.number)).font(crate::theme::strong()));
        }
        let zero = space.pages_with(PageContent::Zero);
        let dumped = space.pages_with(PageContent::Data) + zero;
        let message = format!(
            "{} · root {:#x} · {} in {} · {} recorded, {} of it zero{}",
            space.format,
            space.root,
            text::bytes(space.pages() * 4096),
            match space.mappings.len() {
                1 => "1 mapping".to_owned(),
                n => format!("{} mappings", text::count(n as u64)),
            },
            text::bytes(dumped * 4096),
            text::bytes(zero * 4096),
            match space.elsewhere {
                0 => String::new(),
                pages => format!(" · {} in other memories", text::bytes(pages * 4096)),
            },
        );
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.add_space(8.0);
            for (as_map, word) in [(true, "map"), (false, "list")] {
                let on = view.as_map == as_map;
                let r = ui.selectable_label(on, word);
                r.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, on, format!("Page tables as a {word}")));
                if r.clicked() {
                    view.as_map = as_map;
                }
            }
            // The map has more controls, in a row of their own.
            if !view.as_map {
                ui.add_space(8.0);
                for (by, word) in [(ColourBy::Content, "content"), (ColourBy::Rights, "rights")] {
                    let on = view.colour_by == by;
                    let r = ui.selectable_label(on, word);
                    r.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, on, format!("Colour by {word}")));
                    if r.clicked() {
                        view.colour_by = by;
                    }
                }
                ui.label(RichText::new("colour by").color(p.quiet));
            }
            ui.with_layout(egui::Layout::left_to_right(egui::Align::Center), |ui| {
                ui.add(egui::Label::new(RichText::new(message).color(p.quiet)).truncate());
            });
        });
    });
}

/// Draws the marks with their counts; a click on a mark lists its pages.
fn marks(view: &mut View, ui: &mut Ui, space: &SpaceFact) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(24.0);
        ui.add_space(8.0);
        ui.spacing_mut().item_spacing.x = 4.0;
        let all = view.mark.is_none();
        let r = ui.selectable_label(all, RichText::new("all mappings").font(small()));
        r.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, all, "All mappings"));
        if r.clicked() {
            view.mark = None;
        }
        for mark in Mark::ALL {
            let pages = space.marks.pages(mark);
            let on = view.mark == Some(mark);
            let message = match pages {
                0 if mark == Mark::MappedTwice && space.marks.not_compared => {
                    format!("{} not checked", mark.title())
                }
                0 => format!("{} none", mark.title()),
                n => format!("{}{} {}", sign(mark), mark.title(), text::count(n)),
            };
            let ink = match pages {
                0 => p.quiet,
                _ => mark_colour(p, mark),
            };
            let label = RichText::new(message).font(small()).color(ink);
            let r = ui.add_enabled_ui(pages > 0, |ui| ui.selectable_label(on, label)).inner;
            r.widget_info(|| WidgetInfo::selected(Role::RadioButton, pages > 0, on, format!("Pages {}", mark.title())));
            if r.on_hover_text(mark.reason()).clicked() {
                view.mark = (!on).then_some(mark);
                view.list = Rows::default();
            }
        }
        if let Some(e) = &space.problem {
            let rich_text = RichText::new(format!("! {e}")).font(small()).color(p.warning);
            ui.add(egui::Label::new(rich_text).truncate());
        }
    });
}

fn sign(mark: Mark) -> &'static str {
    match mark {
        Mark::MappedTwice => "! ",
        Mark::Open => "▲ ",
        Mark::Missing => "",
    }
}

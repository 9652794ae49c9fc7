//! The few widgets that every panel shares: group headers, rows of lists, key and value, links, empty states.

use super::{ROW, body, focus, mono, palette, small, strong};
use egui::accesskit::Role;
use egui::{
    Align2, Color32, FontId, Frame, Label, Margin, Rect, Response, RichText, ScrollArea, Sense, Stroke, Ui, UiBuilder,
    WidgetInfo, pos2, vec2,
};

/// Gap above the header of a group, points.
pub const HEAD: f32 = super::GROUP - 4.0;

/// Margin at the sides of the parts of a panel, points.
pub const PAD: f32 = 12.0;

/// Draws a part of a panel that scrolls by itself.
pub fn part(ui: &mut Ui, name: &str, rect: Rect, draw: impl FnOnce(&mut Ui)) {
    let inner = UiBuilder::new().id_salt(name).max_rect(rect.shrink2(vec2(PAD, 0.0)));
    let mut child = ui.new_child(inner);
    child.shrink_clip_rect(rect);
    ScrollArea::vertical()
        .id_salt(name)
        .auto_shrink(false)
        .show(&mut child, |ui| {
            ui.spacing_mut().item_spacing.y = 2.0;
            draw(ui);
            ui.add_space(8.0);
        });
}

/// Draws the bar at the top of a panel: rows between its margins, and a line below them.
pub fn bar(ui: &mut Ui, draw: impl FnOnce(&mut Ui)) {
    let margin = Margin {
        left: PAD as i8,
        right: PAD as i8,
        top: 4,
        bottom: 4,
    };
    Frame::new().inner_margin(margin).show(ui, draw);
    let bottom = ui.cursor().top();
    ui.painter()
        .hline(ui.max_rect().x_range(), bottom, Stroke::new(1.0, palette(ui).line));
    ui.add_space(1.0);
}

/// Draws the name of a file; its path is shown when the pointer is on it.
pub fn file_name(ui: &mut Ui, path: &std::path::Path) {
    let full = path.display().to_string();
    let name = path
        .file_name()
        .map_or_else(|| full.clone(), |n| n.to_string_lossy().into_owned());
    ui.label(RichText::new(name).font(mono())).on_hover_text(full);
}

/// Draws how a run ended: its message, and whether that is good.
pub fn end_message(ui: &mut Ui, end: Option<&(String, bool)>) {
    let Some((message, is_good)) = end else { return };
    let p = palette(ui);
    let (text, ink) = match is_good {
        true => (message.clone(), p.text),
        false => (format!("▲ {message}"), p.error),
    };
    ui.add(Label::new(RichText::new(text).font(small()).color(ink)).truncate())
        .on_hover_text(message);
}

/// Draws the row of a call that failed: the driver's number.
pub fn failed_call(ui: &mut Ui, result: u32) {
    if result != 0 {
        let text = StyledText::body(format!("▲ failed with {result}")).colour(palette(ui).error);
        key_value(ui, "result", text);
    }
}

/// Draws the header of a group.
pub fn section(ui: &mut Ui, title: &str) {
    let p = palette(ui);
    ui.add_space(HEAD);
    ui.label(RichText::new(title).font(strong()).color(p.quiet));
}

/// A part of a row's text.
#[derive(Clone, Debug)]
pub struct StyledText {
    /// Text.
    pub text: String,
    /// Font.
    pub font: FontId,
    /// Colour; `None` is the theme's text.
    pub colour: Option<Color32>,
}

impl StyledText {
    /// Creates normal text.
    #[must_use]
    pub fn body(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            font: body(),
            colour: None,
        }
    }

    /// Creates small text.
    #[must_use]
    pub fn small(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            font: small(),
            colour: None,
        }
    }

    /// Creates numbers or code.
    #[must_use]
    pub fn mono(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            font: mono(),
            colour: None,
        }
    }

    /// Sets the colour.
    #[must_use]
    pub fn colour(mut self, colour: Color32) -> Self {
        self.colour = Some(colour);
        self
    }
}

/// Paints a text that ends in `…` if it does not fit into `rect`, and returns its width.
pub fn paint_text(ui: &Ui, rect: Rect, align: Align2, text: &str, font: FontId, colour: Color32) -> f32 {
    paint_truncated(ui, rect, align, text, font, colour).0
}

/// Paints a text as [`paint_text`] does. Returns its width and whether it was cut.
pub fn paint_truncated(ui: &Ui, rect: Rect, align: Align2, text: &str, font: FontId, colour: Color32) -> (f32, bool) {
    let mut job = egui::text::LayoutJob::simple_singleline(text.to_owned(), font, colour);
    job.wrap = egui::text::TextWrapping::truncate_at_width(rect.width().max(0.0));
    let galley = ui.painter().layout_job(job);
    let at = align.anchor_size(
        match align.x() {
            egui::Align::Min => pos2(rect.left(), rect.center().y),
            egui::Align::Center => rect.center(),
            egui::Align::Max => pos2(rect.right(), rect.center().y),
        },
        galley.size(),
    );
    let (width, cut) = (galley.size().x, galley.elided);
    ui.painter().galley(at.min, galley, colour);
    (width, cut)
}

/// Paints a text that is cut in the middle if it does not fit into `rect`, so that its end stays. Returns whether it
/// was cut.
pub fn paint_middle(ui: &Ui, rect: Rect, align: Align2, text: &str, font: FontId, colour: Color32) -> bool {
    let shown = truncate_middle(ui, rect.width(), text, &font);
    paint_text(ui, rect, align, &shown, font, colour);
    shown != text
}

/// Cuts a text in the middle so that it is not wider than this, points.
#[must_use]
pub fn truncate_middle(ui: &Ui, width: f32, text: &str, font: &FontId) -> String {
    let wide = |t: &str| {
        let g = ui.painter().layout_no_wrap(t.to_owned(), font.clone(), Color32::WHITE);
        g.size().x
    };
    let whole = wide(text);
    if whole <= width {
        return text.to_owned();
    }
    // At most a few tries: letters have similar widths.
    let mut max = (text.chars().count() as f32 * width / whole) as usize;
    let mut shown = kinescope_session::text::truncate_middle(text, max.max(3));
    while max > 3 && wide(&shown) > width {
        max -= 1;
        shown = kinescope_session::text::truncate_middle(text, max);
    }
    shown
}

/// Draws a row of a list: text on the left, a quiet value on the right. `label` is its accessible name.
pub fn list_row(
    ui: &mut Ui,
    label: &str,
    selected: bool,
    indent: f32,
    left: StyledText,
    right: StyledText,
) -> Response {
    let p = palette(ui);
    let (id, rect) = ui.allocate_space(vec2(ui.available_width(), ROW));
    let sense = focus::row(ui, id);
    let response = ui.interact(rect, id, sense);
    focus::update_row_focus(ui, &response);
    response.widget_info(|| WidgetInfo::selected(Role::Button, true, selected, label));
    if ui.is_rect_visible(rect) {
        let bleed = rect.expand2(vec2(super::PAD, 0.0));
        if selected {
            ui.painter()
                .with_clip_rect(bleed.intersect(ui.clip_rect()))
                .rect_filled(bleed, 0.0, p.selection);
        } else if response.hovered() || response.has_focus() {
            ui.painter()
                .with_clip_rect(bleed.intersect(ui.clip_rect()))
                .rect_filled(bleed, 0.0, p.raised);
        }
        if response.has_focus() {
            let within = bleed.intersect(ui.clip_rect());
            focus::ring(&ui.painter().with_clip_rect(within), within, 2.0, p.read);
        }
        let inner = Rect::from_min_max(pos2(rect.left() + indent, rect.top()), rect.max);
        let quiet = right.colour.unwrap_or(p.quiet);
        let used = paint_text(ui, inner, Align2::RIGHT_CENTER, &right.text, right.font, quiet);
        let rest = Rect::from_min_max(
            inner.min,
            pos2((inner.right() - used - 6.0).max(inner.left()), inner.bottom()),
        );
        // Names of one kind differ at their ends.
        paint_middle(
            ui,
            rest,
            Align2::LEFT_CENTER,
            &left.text,
            left.font,
            left.colour.unwrap_or(p.text),
        );
    }
    response
}

/// Paints the background of the selection.
pub fn select(ui: &Ui, rect: Rect) {
    let p = palette(ui);
    ui.painter().rect_filled(rect, 0.0, p.selection);
    if p.outlined {
        let edge = Stroke::new(1.0, p.line);
        ui.painter().rect_stroke(rect, 0.0, edge, egui::StrokeKind::Inside);
    }
}

/// Draws a key and its value.
pub fn key_value(ui: &mut Ui, key: &str, value: StyledText) -> Response {
    let p = palette(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{key} {}", value.text)));
    let split = rect.left() + 92.0_f32.min(rect.width() * 0.4);
    paint_text(
        ui,
        Rect::from_min_max(rect.min, pos2(split - 4.0, rect.bottom())),
        Align2::LEFT_CENTER,
        key,
        body(),
        p.quiet,
    );
    let right = Rect::from_min_max(pos2(split, rect.top()), rect.max);
    let whole = value.text.clone();
    let wide = ui
        .painter()
        .layout_no_wrap(value.text.clone(), value.font.clone(), p.text)
        .size()
        .x
        > right.width();
    paint_text(
        ui,
        right,
        Align2::LEFT_CENTER,
        &value.text,
        value.font,
        value.colour.unwrap_or(p.text),
    );
    if wide { response.on_hover_text(whole) } else { response }
}

/// Draws a key and a value that is a link.
pub fn key_link(ui: &mut Ui, key: &str, text: &str) -> Response {
    let p = palette(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::Link, true, format!("{key} {text}")));
    let split = rect.left() + 92.0_f32.min(rect.width() * 0.4);
    let left = Rect::from_min_max(rect.min, pos2(split - 4.0, rect.bottom()));
    paint_text(ui, left, Align2::LEFT_CENTER, key, body(), p.quiet);
    let right = Rect::from_min_max(pos2(split, rect.top()), rect.max);
    let w = paint_text(ui, right, Align2::LEFT_CENTER, text, mono(), p.read);
    if response.hovered() || response.has_focus() {
        ui.painter().hline(
            right.left()..=right.left() + w,
            right.center().y + 7.0,
            Stroke::new(1.0, p.read),
        );
    }
    response.on_hover_cursor(egui::CursorIcon::PointingHand)
}

/// Draws a key and a value that takes as many lines as it needs.
pub fn key_wrapped(ui: &mut Ui, key: &str, value: StyledText) -> Response {
    let p = palette(ui);
    let split = 92.0_f32.min(ui.available_width() * 0.4);
    let ink = value.colour.unwrap_or(p.text);
    let room = (ui.available_width() - split).max(24.0);
    let galley = ui.painter().layout(value.text.clone(), value.font, ink, room);
    let height = (galley.size().y + 5.0).max(ROW);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{key} {}", value.text)));
    let left = Rect::from_min_size(rect.min, vec2(split - 4.0, ROW));
    paint_text(ui, left, Align2::LEFT_CENTER, key, body(), p.quiet);
    let line = galley.rows.first().map_or(ROW, |r| r.size.y);
    let at = pos2(rect.left() + split, rect.top() + (ROW - line) / 2.0);
    ui.painter().galley(at, galley, ink);
    response
}

/// Draws a text that is a link.
pub fn link(ui: &mut Ui, label: &str, text: &str) -> Response {
    let p = palette(ui);
    let galley = ui.painter().layout_no_wrap(text.to_owned(), mono(), p.read);
    let (rect, response) = ui.allocate_exact_size(vec2(galley.size().x, ROW), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::Link, true, label));
    let y = rect.center().y - galley.size().y / 2.0;
    ui.painter().galley(pos2(rect.left(), y), galley, p.read);
    if response.hovered() || response.has_focus() {
        ui.painter()
            .hline(rect.x_range(), rect.center().y + 7.0, Stroke::new(1.0, p.read));
    }
    response.on_hover_cursor(egui::CursorIcon::PointingHand)
}

/// Draws the message of a panel that has nothing to show, and the action that fills it.
pub fn empty_state(ui: &mut Ui, icon: &str, what: &str, action: Option<&str>) -> bool {
    let p = palette(ui);
    let mut clicked = false;
    ui.add_space((ui.available_height() * 0.3).clamp(16.0, 120.0));
    ui.vertical_centered(|ui| {
        ui.label(RichText::new(icon).size(28.0).color(p.quiet));
        ui.add_space(4.0);
        // Lines must be easy to read, and never go from edge to edge.
        ui.set_max_width((ui.available_width() - 32.0).clamp(120.0, 560.0));
        ui.add(Label::new(RichText::new(what).color(p.quiet)).wrap());
        if let Some(a) = action {
            ui.add_space(8.0);
            clicked = ui.button(a).clicked();
        }
    });
    clicked
}

/// Draws a button without a frame until the pointer is over it.
pub fn icon_button(ui: &mut Ui, icon: &str, label: &str) -> Response {
    let r = ui.add(
        egui::Button::new(RichText::new(icon).size(15.0))
            .frame_when_inactive(false)
            .min_size(vec2(24.0, 24.0)),
    );
    r.widget_info(|| WidgetInfo::labeled(Role::Button, true, label));
    r.on_hover_text(label)
}

/// Draws the most important button.
pub fn primary_button(ui: &mut Ui, text: &str, label: &str, enabled: bool) -> Response {
    let p = palette(ui);
    // A disabled button must not stand out.
    let (ink, fill, stroke) = match enabled {
        true => (p.on_accent, p.accent, Stroke::NONE),
        false => (p.quiet, p.raised, Stroke::new(1.0, p.line)),
    };
    let font = FontId::new(13.0, egui::FontFamily::Name("semibold".into()));
    let button = egui::Button::new(RichText::new(text).color(ink).font(font))
        .fill(fill)
        .stroke(stroke);
    let r = ui.add_enabled(enabled, button);
    r.widget_info(|| WidgetInfo::labeled(Role::Button, enabled, label));
    if r.has_focus() {
        // The accent colour hides how other buttons show focus, so this button has a ring.
        let ring = Stroke::new(1.0, p.text);
        ui.painter()
            .rect_stroke(r.rect.expand(2.0), 4.0, ring, egui::StrokeKind::Inside);
    }
    r
}

/// Gives the keyboard to the first of the buttons that answer a question, unless one of them has it. The first button
/// is the answer that does nothing.
pub fn focus_first(buttons: &[&Response]) {
    if !buttons.iter().any(|b| b.has_focus() || b.gained_focus())
        && let Some(first) = buttons.first()
    {
        first.request_focus();
    }
}

/// Draws the name of a key as a key cap.
pub fn key_cap(ui: &mut Ui, key: &str) {
    let p = palette(ui);
    let galley = ui
        .painter()
        .layout_no_wrap(key.to_owned(), super::mono_small(), p.quiet);
    let (rect, _) = ui.allocate_exact_size(vec2(galley.size().x + 8.0, 17.0), Sense::hover());
    ui.painter()
        .rect_stroke(rect, 3.0, Stroke::new(1.0, p.line), egui::StrokeKind::Inside);
    ui.painter()
        .galley(rect.center() - galley.size() / 2.0, galley, p.quiet);
}

/// Draws a line across the panel.
pub fn rule(ui: &mut Ui) {
    let p = palette(ui);
    ui.add_space(6.0);
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 1.0), Sense::hover());
    ui.painter()
        .hline(rect.x_range(), rect.center().y, Stroke::new(1.0, p.line));
    ui.add_space(6.0);
}

/// Attaches a context menu that copies an item in each of its forms: the name of the form, and the text.
pub fn add_copy_menu(response: &Response, forms: &[(&str, String)]) -> Response {
    response.context_menu(|ui| {
        for (what, text) in forms {
            if ui.button(format!("Copy {what}")).clicked() {
                ui.ctx().copy_text(text.clone());
                ui.close();
            }
        }
    });
    response.clone()
}

//! The drawing of dock tiles: colours, tabs and tab scrolling.

use super::Pane;
use crate::panels;
use crate::panels::views::PanelContext;
use crate::theme::{Palette, focus, palette};
use egui::{Color32, Rangef, Response, Stroke, Ui, Visuals, WidgetText};
use egui_tiles::{Behavior, SimplificationOptions, TabState, Tabs, TileId, Tiles, UiResponse};

/// The active tab of a tab bar. If not all tabs fit, the bar scrolls to it when it becomes active or when the bar width
/// changes. Afterwards the user can scroll freely.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FrontTab {
    tile: TileId,
    /// Width of the bar, points.
    width: f32,
    /// Horizontal range of the tab in the last frame, points of the window.
    at: Rangef,
    /// Remaining frames in which the bar scrolls to the tab, because scroll arrows appear and disappear meanwhile.
    left: u8,
}

impl FrontTab {
    /// Width of a scroll arrow at an end of the bar, points.
    const ARROW: f32 = 42.0;
    /// Frames until the arrows and the spring animation settle: half a second.
    const FRAMES: u8 = 30;

    fn id(bar: TileId) -> egui::Id {
        egui::Id::unique(("tab in front", bar))
    }

    /// Stores the position of the active tab.
    fn note_position(ctx: &egui::Context, bar: &Bar, at: Rangef) {
        let Bar { id, front: tile, width } = *bar;
        let before = ctx.data(|d| d.get_temp::<Self>(Self::id(id)));
        let same = before.filter(|b| b.tile == tile && b.width == width);
        let left = same.map_or(Self::FRAMES, |b| b.left);
        ctx.data_mut(|d| d.insert_temp(Self::id(id), Self { tile, width, at, left }));
        if left > 0 {
            ctx.request_repaint();
        }
    }

    /// Returns the scroll offset that brings the active tab into view, points. Limited to the scroll range, because
    /// egui animates an overshoot back and past the end.
    fn scroll_offset(ui: &Ui, bar: TileId, offset: f32) -> f32 {
        let (front, end) = ui.data_mut(|d| {
            let front = d.get_temp::<Self>(Self::id(bar));
            if let Some(f) = front.filter(|f| f.left > 0) {
                d.insert_temp(Self::id(bar), Self { left: f.left - 1, ..f });
            }
            (front.filter(|f| f.left > 0), d.remove_temp::<f32>(end_id(bar)))
        });
        let room = ui.max_rect().x_range();
        // Width that is hidden at the right.
        let beyond = end.map_or(0.0, |end| end - room.max);
        // If a fraction of a pixel stays hidden at the end, the right arrow returns and hides the last tab.
        let rest = if (0.1..1.5).contains(&beyond) { beyond } else { 0.0 };
        let Some(front) = front else { return rest };
        let inner = room.shrink(Self::ARROW);
        if front.at.min < inner.min && offset > 0.0 {
            (front.at.min - inner.min).max(-offset)
        } else if front.at.max > inner.max && beyond >= 1.5 {
            (front.at.max - inner.max).min(beyond)
        } else {
            rest
        }
    }
}

/// Padding at each side of a tab title, as space allows, points.
const TAB_PADDING: std::ops::RangeInclusive<f32> = 3.0..=11.0;

/// Returns the id under which the last frame stored the total width and number of tab titles of a bar.
fn names_id(bar: TileId) -> egui::Id {
    egui::Id::unique(("names of tabs", bar))
}

/// Returns the padding with which all tabs of a bar fit, within [`TAB_PADDING`].
fn tab_padding(ui: &Ui, bar: TileId) -> f32 {
    let (names, n) = ui
        .data_mut(|d| d.remove_temp::<(f32, f32)>(names_id(bar)))
        .unwrap_or_default();
    let room = ui.max_rect().width() - names;
    let each = if n > 0.0 { (room / (2.0 * n)).floor() } else { f32::MAX };
    each.clamp(*TAB_PADDING.start(), *TAB_PADDING.end())
}

/// Returns the id under which the last frame stored the right end of the tabs of a bar.
fn end_id(bar: TileId) -> egui::Id {
    egui::Id::unique(("end of tabs", bar))
}

/// A bar of tabs while it is drawn.
#[derive(Clone, Copy)]
struct Bar {
    id: TileId,
    /// The active tab.
    front: TileId,
    /// Width, points.
    width: f32,
}

/// Draws the dock tiles.
pub struct TileBehavior<'a> {
    context: PanelContext<'a>,
    /// The bar whose tabs are being drawn.
    bar: Option<Bar>,
    /// Padding at each side of the tab titles, points.
    beside: f32,
}

impl<'a> TileBehavior<'a> {
    /// Creates a behavior whose panels use this context.
    #[must_use]
    pub fn new(context: PanelContext<'a>) -> Self {
        Self {
            context,
            bar: None,
            beside: *TAB_PADDING.end(),
        }
    }
}

fn colours(v: &Visuals) -> &'static Palette {
    Palette::holding(v)
}

impl Behavior<Pane> for TileBehavior<'_> {
    fn pane_ui(&mut self, ui: &mut Ui, _tile: TileId, pane: &mut Pane) -> UiResponse {
        let Some(panel) = panels::by_id(pane) else {
            return UiResponse::None;
        };
        let p = palette(ui);
        ui.painter().rect_filled(ui.max_rect(), 0.0, p.panel);
        let rect = ui.max_rect();
        ui.shrink_clip_rect(rect);
        focus::pane(ui, panel.id, panel.title);
        ui.push_id(panel.id, |ui| panel.draw(&mut self.context, ui));
        UiResponse::None
    }

    fn tab_title_for_pane(&mut self, pane: &Pane) -> WidgetText {
        panels::by_id(pane).map_or("", |p| p.title).into()
    }

    fn top_bar_right_ui(&mut self, _t: &Tiles<Pane>, ui: &mut Ui, bar: TileId, tabs: &Tabs, offset: &mut f32) {
        // egui_tiles does not pass the bar to the tabs that it draws next, so it is stored here.
        self.bar = tabs.active.map(|front| Bar {
            id: bar,
            front,
            width: ui.max_rect().width(),
        });
        *offset += FrontTab::scroll_offset(ui, bar, *offset);
        self.beside = tab_padding(ui, bar);
    }

    fn on_tab_button(&mut self, _t: &mut Tiles<Pane>, tile: TileId, button: Response) -> Response {
        if let Some(bar) = self.bar {
            let (end, name) = (button.rect.right(), button.rect.width() - 2.0 * self.beside);
            button.ctx.data_mut(|d| {
                let names = d.get_temp_mut_or_default::<(f32, f32)>(names_id(bar.id));
                *names = (names.0 + name, names.1 + 1.0);
                let far = d.get_temp_mut_or(end_id(bar.id), end);
                *far = far.max(end);
            });
            if bar.front == tile {
                FrontTab::note_position(&button.ctx, &bar, button.rect.x_range());
            }
        }
        button
    }

    fn is_tab_closable(&self, _tiles: &Tiles<Pane>, _tile: TileId) -> bool {
        false
    }

    fn simplification_options(&self) -> SimplificationOptions {
        SimplificationOptions {
            all_panes_must_have_tabs: false,
            // A single panel next to others keeps its title.
            prune_single_child_tabs: false,
            ..Default::default()
        }
    }

    fn tab_bar_height(&self, _style: &egui::Style) -> f32 {
        30.0
    }

    fn gap_width(&self, _style: &egui::Style) -> f32 {
        1.0
    }

    fn tab_title_spacing(&self, _visuals: &Visuals) -> f32 {
        self.beside
    }

    fn tab_bar_color(&self, v: &Visuals) -> Color32 {
        colours(v).raised
    }

    fn tab_bg_color(&self, v: &Visuals, _t: &Tiles<Pane>, _id: TileId, state: &TabState) -> Color32 {
        if state.active {
            colours(v).panel
        } else {
            Color32::TRANSPARENT
        }
    }

    fn tab_outline_stroke(&self, v: &Visuals, _t: &Tiles<Pane>, _id: TileId, state: &TabState) -> Stroke {
        if state.active {
            Stroke::new(1.0, colours(v).line)
        } else {
            Stroke::NONE
        }
    }

    fn tab_bar_hline_stroke(&self, v: &Visuals) -> Stroke {
        Stroke::new(1.0, colours(v).line)
    }

    fn tab_text_color(&self, v: &Visuals, _t: &Tiles<Pane>, _id: TileId, state: &TabState) -> Color32 {
        if state.active {
            colours(v).text
        } else {
            colours(v).quiet
        }
    }

    fn resize_stroke(&self, style: &egui::Style, state: egui_tiles::ResizeState) -> Stroke {
        let p = colours(&style.visuals);
        match state {
            egui_tiles::ResizeState::Idle => Stroke::new(1.0, p.line),
            _ => Stroke::new(2.0, p.read),
        }
    }
}

//! How the tiles of the dock are drawn: their colours, their tabs, and which tab is scrolled to.

use super::Pane;
use crate::panels;
use crate::panels::desk::Desk;
use crate::theme::{Palette, palette};
use egui::{Color32, Rangef, Response, Stroke, Ui, Visuals, WidgetText};
use egui_tiles::{Behavior, SimplificationOptions, TabState, Tabs, TileId, Tiles, UiResponse};

/// The tab in front of a bar of tabs. Where not all tabs have room, it is scrolled to when it comes to the front, or
/// when the bar became another width; afterwards the person may scroll as they like.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Front {
    tile: TileId,
    /// Width of the bar, points.
    width: f32,
    /// Where the tab lay in the last frame, points of the window.
    at: Rangef,
    /// Frames in which it is still moved: arrows at the ends come and go meanwhile.
    left: u8,
}

impl Front {
    /// Room of an arrow at an end of the bar, points.
    const ARROW: f32 = 42.0;
    /// Frames until the arrows are settled.
    const FRAMES: u8 = 4;

    fn id(bar: TileId) -> egui::Id {
        egui::Id::unique(("tab in front", bar))
    }

    /// Notes where the tab in front lies.
    fn seen(ctx: &egui::Context, bar: &Bar, at: Rangef) {
        let Bar { id, front: tile, width } = *bar;
        let before = ctx.data(|d| d.get_temp::<Self>(Self::id(id)));
        let same = before.filter(|b| b.tile == tile && b.width == width);
        let left = same.map_or(Self::FRAMES, |b| b.left);
        ctx.data_mut(|d| d.insert_temp(Self::id(id), Self { tile, width, at, left }));
        if left > 0 {
            ctx.request_repaint();
        }
    }

    /// By how much the tabs are to be moved so that it is in view, points.
    fn wanted(ui: &Ui, bar: TileId) -> f32 {
        let front = ui.data(|d| d.get_temp::<Self>(Self::id(bar)));
        let Some(front) = front.filter(|f| f.left > 0) else {
            return 0.0;
        };
        let moved = Self {
            left: front.left - 1,
            ..front
        };
        ui.data_mut(|d| d.insert_temp(Self::id(bar), moved));
        let room = ui.max_rect().x_range().shrink(Self::ARROW);
        if front.at.min < room.min {
            front.at.min - room.min
        } else {
            (front.at.max - room.max).max(0.0)
        }
    }
}

/// A bar of tabs while it is drawn.
#[derive(Clone, Copy)]
struct Bar {
    id: TileId,
    /// The tab in front.
    front: TileId,
    /// Points.
    width: f32,
}

/// Draws the tiles.
pub struct Draw<'a> {
    desk: Desk<'a>,
    /// The bar whose tabs are being drawn.
    bar: Option<Bar>,
}

impl<'a> Draw<'a> {
    /// Draws tiles whose panels work at this.
    #[must_use]
    pub fn new(desk: Desk<'a>) -> Self {
        Self { desk, bar: None }
    }
}

fn colours(v: &Visuals) -> &'static Palette {
    Palette::holding(v)
}

impl Behavior<Pane> for Draw<'_> {
    fn pane_ui(&mut self, ui: &mut Ui, _tile: TileId, pane: &mut Pane) -> UiResponse {
        let Some(panel) = panels::by_id(pane) else {
            return UiResponse::None;
        };
        let p = palette(ui);
        ui.painter().rect_filled(ui.max_rect(), 0.0, p.panel);
        let rect = ui.max_rect();
        ui.shrink_clip_rect(rect);
        ui.push_id(panel.id, |ui| (panel.ui)(&mut self.desk, ui));
        UiResponse::None
    }

    fn tab_title_for_pane(&mut self, pane: &Pane) -> WidgetText {
        panels::by_id(pane).map_or("", |p| p.title).into()
    }

    fn top_bar_right_ui(&mut self, _t: &Tiles<Pane>, ui: &mut Ui, bar: TileId, tabs: &Tabs, offset: &mut f32) {
        // The tiles do not hold a bar while it is drawn: its tabs, which come next, are told here.
        self.bar = tabs.active.map(|front| Bar {
            id: bar,
            front,
            width: ui.max_rect().width(),
        });
        *offset += Front::wanted(ui, bar);
    }

    fn on_tab_button(&mut self, _t: &mut Tiles<Pane>, tile: TileId, button: Response) -> Response {
        if let Some(bar) = self.bar.filter(|b| b.front == tile) {
            Front::seen(&button.ctx, &bar, button.rect.x_range());
        }
        button
    }

    fn is_tab_closable(&self, _tiles: &Tiles<Pane>, _tile: TileId) -> bool {
        false
    }

    fn simplification_options(&self) -> SimplificationOptions {
        SimplificationOptions {
            all_panes_must_have_tabs: false,
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
        11.0
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

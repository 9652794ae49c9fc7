//! How panels are laid out: the dock's tiles with the way to and from the workspace file, the sides, and windows of
//! their own.

use crate::document::workspace::Dock;
use crate::panels;
use crate::panels::desk::Desk;
use crate::theme::{Palette, palette};
use egui::{Color32, Stroke, Ui, Visuals, WidgetText};
use egui_tiles::{
    Behavior, Container, LinearDir, SimplificationOptions, TabState, Tile, TileId, Tiles, Tree, UiResponse,
};

/// A docked panel, by its id.
pub type Pane = &'static str;

/// Widths of the outline and the inspector, points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sides {
    /// Of the outline.
    pub outline: f32,
    /// Of the inspector.
    pub inspector: f32,
    /// Whether the next frame takes them up, instead of what the person dragged.
    pub set: bool,
    /// Whether the window was too narrow for both in the last frame.
    pub narrow: bool,
    /// Whether the inspector is away for want of room, and comes back when there is some.
    pub folded: bool,
}

impl Default for Sides {
    fn default() -> Self {
        Self {
            outline: 200.0,
            inspector: 290.0,
            set: true,
            narrow: false,
            folded: false,
        }
    }
}

/// Where a window of its own is, points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Upper left corner on the desktop; `None`: where the desktop puts it, or where it does not tell.
    pub at: Option<[f32; 2]>,
    /// Inner size.
    pub size: [f32; 2],
}

/// A panel that is a window of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Torn {
    /// The panel's id.
    pub panel: &'static str,
    /// Where it was opened.
    pub start: Place,
    /// Where it is now.
    pub now: Place,
}

impl Torn {
    /// A panel's window where the desktop puts it.
    #[must_use]
    pub fn new(panel: &'static str) -> Self {
        Self::placed(
            panel,
            Place {
                at: None,
                size: [720.0, 460.0],
            },
        )
    }

    /// A panel's window at a place.
    #[must_use]
    pub fn placed(panel: &'static str, start: Place) -> Self {
        Self {
            panel,
            start,
            now: start,
        }
    }
}

/// The dock as it is at first: the timeline over the tabs. `screen`: there is a framebuffer to be shown.
#[must_use]
pub fn at_first(screen: bool) -> Dock {
    let panel = |id: &str| Dock::Panel { id: id.into() };
    let mut tabs = vec![
        "events",
        "register",
        "memory",
        "page-tables",
        "jobs",
        "shader",
        "inputs",
        "replay",
        "notebook",
        "problems",
        "log",
    ];
    if screen {
        tabs.insert(1, "screen");
    }
    Dock::Column {
        shares: vec![0.92, 1.08],
        children: vec![
            panel("timeline"),
            Dock::Tabs {
                active: 0,
                children: tabs.into_iter().map(panel).collect(),
            },
        ],
    }
}

fn add(tiles: &mut Tiles<Pane>, dock: &Dock, used: &mut Vec<&'static str>) -> Option<TileId> {
    match dock {
        Dock::Panel { id } => {
            let panel = panels::by_id(id)?;
            if used.contains(&panel.id) {
                return None;
            }
            used.push(panel.id);
            Some(tiles.insert_pane(panel.id))
        }
        Dock::Tabs { active, children } => {
            let ids: Vec<TileId> = children.iter().filter_map(|c| add(tiles, c, used)).collect();
            if ids.is_empty() {
                return None;
            }
            let mut tabs = egui_tiles::Tabs::new(ids.clone());
            if let Some(a) = ids.get(*active) {
                tabs.set_active(*a);
            }
            Some(tiles.insert_container(tabs))
        }
        Dock::Row { shares, children } | Dock::Column { shares, children } => {
            let dir = if matches!(dock, Dock::Row { .. }) {
                LinearDir::Horizontal
            } else {
                LinearDir::Vertical
            };
            let kept: Vec<(TileId, f32)> = children
                .iter()
                .zip(shares)
                .filter_map(|(c, s)| Some((add(tiles, c, used)?, *s)))
                .collect();
            if kept.is_empty() {
                return None;
            }
            let mut linear = egui_tiles::Linear::new(dir, kept.iter().map(|k| k.0).collect());
            for (id, share) in kept {
                linear.shares.set_share(id, share);
            }
            Some(tiles.insert_container(linear))
        }
    }
}

/// The tiles of a dock; as at first when nothing of it can be used.
#[must_use]
pub fn tree(dock: &Dock) -> Tree<Pane> {
    let mut tiles = Tiles::default();
    match add(&mut tiles, dock, &mut Vec::new()) {
        Some(root) => Tree::new(egui::Id::unique("dock"), root, tiles),
        None if *dock != at_first(false) => tree(&at_first(false)),
        None => Tree::empty(egui::Id::unique("dock")),
    }
}

/// The dock that the tiles make.
#[must_use]
pub fn dock(tree: &Tree<Pane>) -> Option<Dock> {
    fn of(tree: &Tree<Pane>, id: TileId, depth: usize) -> Option<Dock> {
        if depth > 12 {
            return None;
        }
        match tree.tiles.get(id)? {
            Tile::Pane(p) => Some(Dock::Panel { id: (*p).to_owned() }),
            Tile::Container(Container::Tabs(t)) => {
                let kept: Vec<(TileId, Dock)> = t
                    .children
                    .iter()
                    .filter_map(|c| Some((*c, of(tree, *c, depth + 1)?)))
                    .collect();
                let active = kept.iter().position(|k| t.is_active(k.0)).unwrap_or(0);
                (!kept.is_empty()).then(|| Dock::Tabs {
                    active,
                    children: kept.into_iter().map(|k| k.1).collect(),
                })
            }
            Tile::Container(Container::Linear(l)) => {
                let share = |id: &TileId| l.shares.iter().find(|s| s.0 == id).map_or(1.0, |s| *s.1);
                let kept: Vec<(f32, Dock)> = l
                    .children
                    .iter()
                    .filter_map(|c| Some((share(c), of(tree, *c, depth + 1)?)))
                    .collect();
                let (shares, children) = kept.into_iter().unzip();
                Some(match l.dir {
                    LinearDir::Horizontal => Dock::Row { shares, children },
                    LinearDir::Vertical => Dock::Column { shares, children },
                })
            }
            Tile::Container(Container::Grid(g)) => {
                let children: Vec<Dock> = g.children().filter_map(|c| of(tree, *c, depth + 1)).collect();
                Some(Dock::Tabs { active: 0, children })
            }
        }
    }
    of(tree, tree.root()?, 0)
}

/// Brings a panel to the front; adds it to the tabs when it was closed. `false`: there is no such panel.
pub fn show(tree: &mut Tree<Pane>, id: &str) -> bool {
    let Some(panel) = panels::by_id(id) else { return false };
    if tree.tiles.find_pane(&panel.id).is_none() {
        let new = tree.tiles.insert_pane(panel.id);
        let tabs = tree
            .tiles
            .iter()
            .find_map(|(i, t)| matches!(t, Tile::Container(Container::Tabs(_))).then_some(*i));
        match tabs.and_then(|t| tree.tiles.get_mut(t)) {
            Some(Tile::Container(c)) => c.add_child(new),
            _ => *tree = self::tree(&at_first(false)),
        }
    }
    tree.make_active(|_, t| matches!(t, Tile::Pane(p) if *p == panel.id));
    true
}

/// Takes a panel out of the dock.
pub fn close(tree: &mut Tree<Pane>, id: &str) -> bool {
    let Some(tile) = panels::by_id(id).and_then(|p| tree.tiles.find_pane(&p.id)) else {
        return false;
    };
    tree.remove_recursively(tile);
    true
}

/// Where a panel that is shown lay in the last frame, points.
#[must_use]
pub fn place(tree: &Tree<Pane>, id: &str) -> Option<egui::Rect> {
    let panel = panels::by_id(id).filter(|p| active(tree).contains(&p.id))?;
    let tile = tree.tiles.find_pane(&panel.id)?;
    tree.tiles.rect(tile).filter(egui::Rect::is_positive)
}

/// Ids of the panels that are shown.
#[must_use]
pub fn active(tree: &Tree<Pane>) -> Vec<Pane> {
    tree.active_tiles()
        .into_iter()
        .filter_map(|t| tree.tiles.get_pane(&t).copied())
        .collect()
}

/// Draws the tiles.
pub struct Draw<'a> {
    /// What panels work at.
    pub desk: Desk<'a>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dock_survives_the_way_through_the_tiles() {
        let first = at_first(false);
        assert_eq!(dock(&tree(&first)), Some(first));
    }

    #[test]
    fn a_closed_panel_comes_back_to_the_tabs() {
        let mut t = tree(&at_first(false));
        assert!(close(&mut t, "jobs"));
        assert!(t.tiles.find_pane(&"jobs").is_none());
        assert!(show(&mut t, "jobs"));
        assert!(active(&t).contains(&"jobs"));
        assert!(!show(&mut t, "nothing"));
    }
}

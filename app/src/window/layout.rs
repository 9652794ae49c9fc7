//! The panel layout: dock tiles and their conversion for the workspace file, side panels, and separate windows.

mod draw;
mod repair;

use crate::panels;
pub use draw::TileBehavior;
use egui_tiles::{Container, LinearDir, Tabs, Tile, TileId, Tiles, Tree};
use kinescope_files::workspace::Dock;
pub use repair::repair_dock;

/// Id of a docked panel.
pub type Pane = &'static str;

/// Widths of the outline and the inspector, points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sides {
    /// Width of the outline.
    pub outline: f32,
    /// Width of the inspector.
    pub inspector: f32,
    /// Whether the next frame applies these widths instead of those that the user dragged.
    pub set: bool,
    /// Whether the window was too narrow for both in the last frame.
    pub narrow: bool,
    /// Whether the inspector is folded for lack of space. It returns when there is space again.
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

/// Geometry of a separate window, points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloatingGeometry {
    /// Upper left corner on the desktop; `None`: the desktop chooses it, or does not report it.
    pub at: Option<[f32; 2]>,
    /// Inner size.
    pub size: [f32; 2],
}

/// A panel in a separate window.
#[derive(Clone, Debug, PartialEq)]
pub struct FloatingPanel {
    /// The panel's id.
    pub panel: &'static str,
    /// Geometry at opening.
    pub start: FloatingGeometry,
    /// Current geometry.
    pub now: FloatingGeometry,
}

impl FloatingPanel {
    /// Creates a panel window that the desktop positions.
    #[must_use]
    pub fn new(panel: &'static str) -> Self {
        Self::with_geometry(
            panel,
            FloatingGeometry {
                at: None,
                size: [720.0, 460.0],
            },
        )
    }

    /// Creates a panel window with a geometry.
    #[must_use]
    pub fn with_geometry(panel: &'static str, start: FloatingGeometry) -> Self {
        Self {
            panel,
            start,
            now: start,
        }
    }
}

/// Default shares of the timeline and of the area below it.
const DEFAULT_SHARES: [f32; 2] = [0.92, 1.08];
/// Height of the dock above which the timeline takes only the height that it needs, points.
const TALL_DOCK_HEIGHT: f32 = 900.0;

/// In a tall window, gives the timeline the height of its lanes and the rest to the area below. Does nothing if the
/// user moved the border between them. `fitted` is the share of the last fit.
pub fn fit_timeline(tree: &mut Tree<Pane>, height: f32, wanted: f32, fitted: &mut Option<f32>) {
    let timeline = tree.tiles.find_pane(&"timeline");
    let Some(Tile::Container(Container::Linear(column))) = tree.root().and_then(|r| tree.tiles.get_mut(r)) else {
        return;
    };
    let (LinearDir::Vertical, &[top, below]) = (column.dir, &column.children[..]) else {
        return;
    };
    let shares = [column.shares[top], column.shares[below]];
    let untouched = shares == DEFAULT_SHARES || fitted.is_some_and(|f| shares == timeline_shares(f));
    if Some(top) != timeline || !untouched {
        return;
    }
    let share = if height > TALL_DOCK_HEIGHT && wanted > 0.0 {
        DEFAULT_SHARES[0].min(2.0 * wanted / height)
    } else {
        DEFAULT_SHARES[0]
    };
    for (tile, share) in [top, below].into_iter().zip(timeline_shares(share)) {
        column.shares.set_share(tile, share);
    }
    *fitted = Some(share);
}

/// Returns the share of the timeline and the remaining share.
fn timeline_shares(share: f32) -> [f32; 2] {
    if share == DEFAULT_SHARES[0] {
        DEFAULT_SHARES
    } else {
        [share, 2.0 - share]
    }
}

/// Returns the dock that the user arranged. It leaves out the share that [`fit_timeline`] set for this window only.
#[must_use]
pub fn arranged_dock(tree: &Tree<Pane>, fitted: Option<f32>) -> Option<Dock> {
    let mut dock = dock(tree)?;
    if let (Dock::Column { shares, .. }, Some(fitted)) = (&mut dock, fitted)
        && shares[..] == timeline_shares(fitted)
    {
        *shares = DEFAULT_SHARES.to_vec();
    }
    Some(dock)
}

/// Content of a recording, as far as it decides which panels are shown by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordingContent {
    /// Register accesses.
    #[default]
    Accesses,
    /// Register accesses and a framebuffer.
    Screen,
    /// Requests to a kernel driver. Such a recording has objects and push buffers, but no registers.
    Requests,
    /// API calls of a driver. Such a recording has no registers and no page tables.
    Calls,
    /// Copies of a WebAssembly program.
    Copies,
}

/// Returns the default dock: the timeline above the tabs.
#[must_use]
pub fn default_dock(holds: RecordingContent) -> Dock {
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
    match holds {
        RecordingContent::Accesses => {}
        RecordingContent::Screen => tabs.insert(1, "screen"),
        RecordingContent::Requests => {
            tabs = vec![
                "objects",
                "address-space",
                "push-buffer",
                "events",
                "jobs",
                "notebook",
                "problems",
                "log",
            ];
        }
        RecordingContent::Calls => {
            tabs = vec![
                "launches", "events", "kernel", "memory", "inputs", "tune", "replay", "notebook", "problems", "log",
            ];
        }
        RecordingContent::Copies => {
            tabs = vec![
                "wasm", "events", "launches", "memory", "inputs", "replay", "notebook", "problems", "log",
            ];
        }
    }
    // The copies of a program follow each other on the timeline, although they ran at the same time.
    let shares = match holds {
        RecordingContent::Copies => [0.5, 1.5],
        _ => DEFAULT_SHARES,
    };
    Dock::Column {
        shares: shares.to_vec(),
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
            let mut tabs = Tabs::new(ids.clone());
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

/// Returns the tiles of a dock with repaired tab groups, or the default tiles if the dock is unusable.
#[must_use]
pub fn tree(dock: &Dock) -> Tree<Pane> {
    let mut tiles = Tiles::default();
    match add(&mut tiles, &repair_dock(dock.clone(), None), &mut Vec::new()) {
        Some(root) => Tree::new(egui::Id::unique("dock"), root, tiles),
        None if *dock != default_dock(RecordingContent::Accesses) => tree(&default_dock(RecordingContent::Accesses)),
        None => Tree::empty(egui::Id::unique("dock")),
    }
}

/// Tracks the dragged panel. If it was dropped where only its tab group has a title, splits that group instead.
pub fn repair_tree(tree: &mut Tree<Pane>, ctx: &egui::Context) {
    let id = egui::Id::unique("panel that is dragged");
    let dragged = tree.dragged_id(ctx).and_then(|t| tree.tiles.get_pane(&t).copied());
    if let Some(dragged) = dragged {
        ctx.data_mut(|d| d.insert_temp::<Pane>(id, dragged));
        return;
    }
    let Some(dropped) = ctx.data_mut(|d| d.remove_temp::<Pane>(id)) else {
        return;
    };
    let Some(now) = dock(tree) else { return };
    let mended = repair_dock(now.clone(), Some(dropped));
    if mended != now {
        *tree = self::tree(&mended);
        show(tree, dropped);
    }
}

/// Returns the dock that the tiles form.
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

/// Brings a panel to the front, and adds it to the tabs if it was closed. Returns `false` if the panel does not exist.
pub fn show(tree: &mut Tree<Pane>, id: &str) -> bool {
    let Some(panel) = panels::by_id(id) else { return false };
    if tree.tiles.find_pane(&panel.id).is_none() {
        let new = tree.tiles.insert_pane(panel.id);
        // Panels start in the largest group.
        let groups = tree.tiles.iter().filter_map(|(i, t)| match t {
            Tile::Container(Container::Tabs(t)) => Some((t.children.len(), *i)),
            _ => None,
        });
        let tabs = groups
            .max_by_key(|(panels, group)| (*panels, group.0))
            .map(|(_, group)| group);
        match tabs.and_then(|t| tree.tiles.get_mut(t)) {
            Some(Tile::Container(c)) => c.add_child(new),
            _ => *tree = self::tree(&default_dock(RecordingContent::Accesses)),
        }
    }
    tree.make_active(|_, t| matches!(t, Tile::Pane(p) if *p == panel.id));
    true
}

/// Removes a panel from the dock.
pub fn close(tree: &mut Tree<Pane>, id: &str) -> bool {
    let Some(tile) = panels::by_id(id).and_then(|p| tree.tiles.find_pane(&p.id)) else {
        return false;
    };
    tree.remove_recursively(tile);
    true
}

/// Returns the rectangle of a visible panel in the last frame, points.
#[must_use]
pub fn panel_rect(tree: &Tree<Pane>, id: &str) -> Option<egui::Rect> {
    let panel = panels::by_id(id).filter(|p| active_panels(tree).contains(&p.id))?;
    let tile = tree.tiles.find_pane(&panel.id)?;
    tree.tiles.rect(tile).filter(egui::Rect::is_positive)
}

/// Returns the ids of the visible panels.
#[must_use]
pub fn active_panels(tree: &Tree<Pane>) -> Vec<Pane> {
    tree.active_tiles()
        .into_iter()
        .filter_map(|t| tree.tiles.get_pane(&t).copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dock_round_trips_through_tiles() {
        let first = default_dock(RecordingContent::Accesses);
        assert_eq!(dock(&tree(&first)), Some(first));
    }

    #[test]
    fn timeline_height_fits_until_the_user_resizes_it() {
        let (mut t, mut fitted) = (tree(&default_dock(RecordingContent::Accesses)), None);
        let shares = |t: &Tree<Pane>| match dock(t) {
            Some(Dock::Column { shares, .. }) => shares,
            other => panic!("{other:?}"),
        };
        fit_timeline(&mut t, 700.0, 200.0, &mut fitted);
        assert_eq!(shares(&t), DEFAULT_SHARES);
        fit_timeline(&mut t, 1200.0, 300.0, &mut fitted);
        assert_eq!(shares(&t), [0.5, 1.5]);
        assert_eq!(
            arranged_dock(&t, fitted),
            Some(default_dock(RecordingContent::Accesses)),
            "the fitted height is not saved"
        );
        fit_timeline(&mut t, 1200.0, 5000.0, &mut fitted);
        assert_eq!(shares(&t), DEFAULT_SHARES, "the fit never exceeds the default shares");
        fit_timeline(&mut t, 1000.0, 300.0, &mut fitted);
        assert_eq!(shares(&t)[0], 0.6);
        let Some(Tile::Container(Container::Linear(c))) = t.root().and_then(|r| t.tiles.get_mut(r)) else {
            panic!()
        };
        let top = c.children[0];
        c.shares.set_share(top, 0.7);
        let moved = dock(&t);
        fit_timeline(&mut t, 1200.0, 300.0, &mut fitted);
        assert_eq!(dock(&t), moved);
        assert_eq!(arranged_dock(&t, fitted), moved);
    }

    #[test]
    fn a_closed_panel_comes_back_to_the_tabs() {
        let mut t = tree(&default_dock(RecordingContent::Accesses));
        assert!(close(&mut t, "jobs"));
        assert!(t.tiles.find_pane(&"jobs").is_none());
        assert!(show(&mut t, "jobs"));
        assert!(active_panels(&t).contains(&"jobs"));
        assert!(!show(&mut t, "nothing"));
    }
}

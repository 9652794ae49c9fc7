//! The repair of dock layouts: tab groups next to each other, and a title for every panel.
//!
//! A panel dropped on one half of another tab would make a tab with two panels, called "Horizontal" or "Vertical". The
//! repair splits the group instead: its tabs stay, and the dropped panel goes next to them.

use kinescope_files::workspace::Dock;

/// The panel that needs no title: its content identifies it.
const UNTITLED: &str = "timeline";

/// Returns a dock in which tabs contain only panels, and every panel except the timeline is a tab. `dropped` is the
/// panel that was moved last: it leaves a group that is split. If it is unknown, the first panel stays.
#[must_use]
pub fn repair_dock(dock: Dock, dropped: Option<&str>) -> Dock {
    match split(dock, dropped) {
        Dock::Panel { id } => add_tab_titles(Dock::Panel { id }),
        other => other,
    }
}

fn split(dock: Dock, dropped: Option<&str>) -> Dock {
    match dock {
        Dock::Panel { .. } => dock,
        Dock::Tabs { active, children } => tabs(active, children, dropped),
        Dock::Row { shares, children } => {
            let (shares, children) = line(shares, children, dropped);
            Dock::Row { shares, children }
        }
        Dock::Column { shares, children } => {
            let (shares, children) = line(shares, children, dropped);
            Dock::Column { shares, children }
        }
    }
}

/// Repairs the children of a row or column, and gives each panel a title.
fn line(shares: Vec<f32>, children: Vec<Dock>, dropped: Option<&str>) -> (Vec<f32>, Vec<Dock>) {
    let children = children
        .into_iter()
        .map(|c| add_tab_titles(split(c, dropped)))
        .collect();
    (shares, children)
}

fn add_tab_titles(dock: Dock) -> Dock {
    match dock {
        Dock::Panel { id } if id != UNTITLED => Dock::Tabs {
            active: 0,
            children: vec![Dock::Panel { id }],
        },
        other => other,
    }
}

/// Repairs a tab group: merges nested groups into it, and moves rows and columns out of it.
fn tabs(active: usize, children: Vec<Dock>, dropped: Option<&str>) -> Dock {
    let (mut flat, mut front) = (Vec::new(), 0);
    // The content that left the group: whether it is a row, and what goes before and after the group.
    let mut left: Option<(bool, [Vec<Dock>; 2])> = None;
    for (n, child) in children.into_iter().enumerate() {
        if n == active {
            front = flat.len();
        }
        match split(child, dropped) {
            Dock::Tabs {
                active: inner,
                children,
            } => {
                if n == active {
                    front += inner;
                }
                flat.extend(children);
            }
            row @ (Dock::Row { .. } | Dock::Column { .. }) => {
                let is_row = matches!(row, Dock::Row { .. });
                let (Dock::Row { mut children, .. } | Dock::Column { mut children, .. }) = row else {
                    continue;
                };
                let stays = children.iter().position(|c| !is_panel(c, dropped)).unwrap_or(0);
                let behind = children.split_off((stays + 1).min(children.len()));
                if let Some(stays) = children.pop() {
                    flat.extend(panels(stays));
                }
                match &mut left {
                    None => left = Some((is_row, [children, behind])),
                    // A second broken tab goes after the first, in either direction.
                    Some((_, [_, after])) => after.extend(children.into_iter().chain(behind)),
                }
            }
            panel @ Dock::Panel { .. } => flat.push(panel),
        }
    }
    let group = Dock::Tabs {
        active: front.min(flat.len().saturating_sub(1)),
        children: flat,
    };
    let Some((is_row, [before, after])) = left else {
        return group;
    };
    let mut all = before;
    all.push(group);
    all.extend(after);
    let (shares, children) = (vec![1.0; all.len()], all.into_iter().map(add_tab_titles).collect());
    if is_row {
        Dock::Row { shares, children }
    } else {
        Dock::Column { shares, children }
    }
}

/// Returns whether a dock is exactly this panel.
fn is_panel(dock: &Dock, panel: Option<&str>) -> bool {
    match dock {
        Dock::Panel { id } => Some(id.as_str()) == panel,
        Dock::Tabs { children, .. } => matches!(children.as_slice(), [one] if is_panel(one, panel)),
        Dock::Row { .. } | Dock::Column { .. } => false,
    }
}

/// Returns the panels of a dock, in order.
fn panels(dock: Dock) -> Vec<Dock> {
    match dock {
        Dock::Panel { .. } => vec![dock],
        Dock::Tabs { children, .. } | Dock::Row { children, .. } | Dock::Column { children, .. } => {
            children.into_iter().flat_map(panels).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::layout::{RecordingContent, default_dock, dock, tree};

    fn panel(id: &str) -> Dock {
        Dock::Panel { id: id.into() }
    }

    fn group(active: usize, ids: &[&str]) -> Dock {
        Dock::Tabs {
            active,
            children: ids.iter().map(|id| panel(id)).collect(),
        }
    }

    fn row(children: Vec<Dock>) -> Dock {
        Dock::Row {
            shares: vec![1.0; children.len()],
            children,
        }
    }

    /// Returns the dock after Memory was dropped on the right half of Events, which is a tab.
    fn broken() -> Dock {
        let inner = row(vec![panel("events"), panel("memory")]);
        Dock::Column {
            shares: vec![0.92, 1.08],
            children: vec![
                panel("timeline"),
                Dock::Tabs {
                    active: 0,
                    children: vec![inner, panel("register"), panel("jobs")],
                },
            ],
        }
    }

    fn repaired(right: &str) -> Dock {
        let mut left = vec!["events", "memory"];
        left.retain(|id| *id != right);
        left.extend(["register", "jobs"]);
        Dock::Column {
            shares: vec![0.92, 1.08],
            children: vec![panel("timeline"), row(vec![group(0, &left), group(0, &[right])])],
        }
    }

    #[test]
    fn a_panel_dropped_on_half_of_a_tab_splits_the_group() {
        assert_eq!(repair_dock(broken(), Some("memory")), repaired("memory"));
        assert_eq!(
            repair_dock(broken(), None),
            repaired("memory"),
            "the first panel stays in its group"
        );
        // A panel that was dropped on the left half becomes the left group.
        let turned = repair_dock(broken(), Some("events"));
        let Dock::Column { children, .. } = turned else {
            panic!()
        };
        let expected = row(vec![group(0, &["events"]), group(0, &["memory", "register", "jobs"])]);
        assert_eq!(children[1], expected);
    }

    #[test]
    fn dock_repair_keeps_only_titled_panel_tabs() {
        let nested = Dock::Tabs {
            active: 1,
            children: vec![panel("events"), group(1, &["memory", "jobs"]), panel("log")],
        };
        assert_eq!(
            repair_dock(nested, None),
            group(2, &["events", "memory", "jobs", "log"])
        );
        let bare = row(vec![panel("timeline"), panel("memory")]);
        assert_eq!(
            repair_dock(bare, None),
            row(vec![panel("timeline"), group(0, &["memory"])])
        );
        let first = default_dock(RecordingContent::Accesses);
        assert_eq!(repair_dock(first.clone(), None), first);
        // A repaired dock stays unchanged, and a round trip through a file preserves it.
        let once = repair_dock(broken(), None);
        assert_eq!(repair_dock(once.clone(), None), once);
        assert_eq!(dock(&tree(&once)), Some(once));
    }

    #[test]
    fn broken_workspace_layout_is_repaired_on_open() {
        assert_eq!(dock(&tree(&broken())), Some(repaired("memory")));
    }
}

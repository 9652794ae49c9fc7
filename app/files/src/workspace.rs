//! The workspace of a recording: what was shown where, as data, in TOML, beside the recording.

use crate::numbers::Numbers;
use crate::place::{AxisKind, Selection};
use serde::{Deserialize, Serialize};

/// Version of the file that this program writes.
pub const VERSION: u32 = 1;
/// Longest file that is read, bytes.
pub const MOST_BYTES: usize = 1 << 20;
/// Deepest nesting of the dock.
const MOST_DEPTH: usize = 16;

/// How panels are docked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Dock {
    /// A panel, by its id.
    Panel {
        /// The panel's id.
        id: String,
    },
    /// Panels that share a place; one is shown.
    Tabs {
        /// Index of the one that is shown.
        active: usize,
        /// The panels.
        children: Vec<Dock>,
    },
    /// Side by side.
    Row {
        /// Parts of the width.
        shares: Vec<f32>,
        /// From left to right.
        children: Vec<Dock>,
    },
    /// One above the other.
    Column {
        /// Parts of the height.
        shares: Vec<f32>,
        /// From top to bottom.
        children: Vec<Dock>,
    },
}

impl Dock {
    fn depth(&self) -> usize {
        match self {
            Self::Panel { .. } => 1,
            Self::Tabs { children, .. } | Self::Row { children, .. } | Self::Column { children, .. } => {
                1 + children.iter().map(Self::depth).max().unwrap_or(0)
            }
        }
    }

    fn sound(&self, known: &dyn Fn(&str) -> bool) -> bool {
        match self {
            Self::Panel { id } => known(id),
            Self::Tabs { children, .. } => !children.is_empty() && children.iter().all(|c| c.sound(known)),
            Self::Row { shares, children } | Self::Column { shares, children } => {
                !children.is_empty()
                    && shares.len() == children.len()
                    && shares.iter().all(|s| s.is_finite() && *s > 0.0)
                    && children.iter().all(|c| c.sound(known))
            }
        }
    }
}

/// A side of the window: the outline or the inspector.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// Whether it is shown.
    pub shown: bool,
    /// Its width, points, 80 to 800; `None`: as at first.
    #[serde(default)]
    pub width: Option<f32>,
}

impl Default for Side {
    fn default() -> Self {
        Self {
            shown: true,
            width: None,
        }
    }
}

/// A panel that is a window of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Torn {
    /// The panel's id.
    pub panel: String,
    /// Upper left corner on the desktop, points; `None`: where the desktop puts it.
    #[serde(default)]
    pub at: Option<[f32; 2]>,
    /// Inner size, points, 120 to 8192 each.
    pub size: [f32; 2],
}

/// How the calls of a recording are done again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct How {
    /// As one graph.
    pub graph: bool,
    /// The device is waited for behind each launch; not within a graph, where no host waits.
    pub step: bool,
    /// Nothing is put back between repeats.
    pub no_restore: bool,
    /// What memory held behind the recorded range is brought back and compared, too.
    pub memory: bool,
}

impl How {
    /// Whether the calls are done again as anybody does them who chose nothing.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// The workspace of one recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workspace {
    /// [`VERSION`].
    pub version: u32,
    /// Event at the moment.
    pub moment: u64,
    /// Text of the Events filter.
    #[serde(default)]
    pub filter: String,
    /// Board chosen for replays.
    #[serde(default)]
    pub board: String,
    /// Axis of the timeline.
    #[serde(default)]
    pub axis: AxisKind,
    /// How values are written.
    #[serde(default)]
    pub numbers: Numbers,
    /// Part of the axis that the timeline shows.
    #[serde(default)]
    pub view: Option<[f64; 2]>,
    /// The recording that this one is compared with: its whole path. Empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub compared: String,
    /// Whether replays keep recorded idle time.
    #[serde(default)]
    pub keep_gaps: bool,
    /// How replays do calls again.
    #[serde(default, skip_serializing_if = "How::is_usual")]
    pub calls: How,
    /// How alike outputs of calls have to be, as the person wrote it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub alike: String,
    /// The outline.
    #[serde(default)]
    pub outline: Side,
    /// The inspector.
    #[serde(default)]
    pub inspector: Side,
    /// Panels that are windows of their own.
    #[serde(default)]
    pub torn: Vec<Torn>,
    /// What is selected.
    #[serde(default)]
    pub selection: Selection,
    /// How panels are docked; `None`: as at first.
    #[serde(default)]
    pub dock: Option<Dock>,
}

/// Why a workspace file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkspaceError {
    /// It is too long.
    #[error("{0} bytes are more than a workspace file may have")]
    TooLong(usize),
    /// It is not TOML of this form.
    #[error("{0}")]
    Form(String),
    /// It was written by a later version.
    #[error("version {0} of the workspace file is not known to this program")]
    Version(u32),
    /// The dock names no known panel, is empty, or is nested too deep.
    #[error("the arrangement of panels is not sound")]
    Dock,
}

impl Workspace {
    /// Reads a workspace file's text. `known` says whether there is a panel of an id.
    ///
    /// # Errors
    /// When it is too long, not of the form, of a later version, or arranges panels in a way that cannot be.
    pub fn parse(text: &str, known: &dyn Fn(&str) -> bool) -> Result<Self, WorkspaceError> {
        if text.len() > MOST_BYTES {
            return Err(WorkspaceError::TooLong(text.len()));
        }
        let mut w: Self = toml::from_str(text).map_err(|e| WorkspaceError::Form(e.to_string()))?;
        if w.version != VERSION {
            return Err(WorkspaceError::Version(w.version));
        }
        if w.dock
            .as_ref()
            .is_some_and(|d| d.depth() > MOST_DEPTH || !d.sound(known))
        {
            return Err(WorkspaceError::Dock);
        }
        w.view = w.view.filter(|v| v.iter().all(|x| x.is_finite()) && v[0] < v[1]);
        for side in [&mut w.outline, &mut w.inspector] {
            side.width = side.width.filter(|x| x.is_finite()).map(|x| x.clamp(80.0, 800.0));
        }
        w.torn
            .retain(|t| known(&t.panel) && t.size.iter().all(|x| x.is_finite()));
        for t in &mut w.torn {
            t.size = t.size.map(|x| x.clamp(120.0, 8192.0));
            // Far outside every desktop is nowhere.
            t.at = t.at.filter(|a| a.iter().all(|x| x.abs() <= 32768.0));
        }
        w.calls.step &= !w.calls.graph;
        Ok(w)
    }

    /// The text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Workspace, WorkspaceError> {
        Workspace::parse(text, &|id| ["timeline", "events", "jobs", "memory"].contains(&id))
    }

    fn sample() -> Workspace {
        let panel = |id: &str| Dock::Panel { id: id.into() };
        Workspace {
            version: VERSION,
            moment: 3957,
            filter: "job = 29".into(),
            board: "software:mali-g71".into(),
            axis: AxisKind::Compressed,
            numbers: Numbers::Float,
            view: Some([0.5, 100.0]),
            compared: "/traces/other.kine".into(),
            keep_gaps: true,
            calls: How {
                graph: true,
                step: false,
                no_restore: true,
                memory: false,
            },
            alike: "out0=f32:1e-5".into(),
            outline: Side {
                shown: false,
                width: Some(200.0),
            },
            inspector: Side::default(),
            torn: vec![Torn {
                panel: "memory".into(),
                at: Some([-40.0, 12.5]),
                size: [720.0, 460.0],
            }],
            selection: Selection::Memory {
                space: 0,
                va: 0xffff_b000_f000,
                bytes: 16,
            },
            dock: Some(Dock::Column {
                shares: vec![1.0, 2.0],
                children: vec![
                    panel("timeline"),
                    Dock::Tabs {
                        active: 1,
                        children: vec![panel("events"), panel("jobs")],
                    },
                ],
            }),
        }
    }

    #[test]
    fn a_workspace_comes_back() {
        let w = sample();
        assert_eq!(parse(&w.text()).unwrap(), w, "{}", w.text());
    }

    #[test]
    fn a_graph_waits_behind_no_launch() {
        let w = parse("version = 1\nmoment = 0\ncalls = { graph = true, step = true }").unwrap();
        assert!(w.calls.graph && !w.calls.step);
    }

    #[test]
    fn the_highest_address_comes_back() {
        let selection = Selection::Memory {
            space: 0,
            va: u64::MAX,
            bytes: 1,
        };
        let w = Workspace { selection, ..sample() };
        assert_eq!(parse(&w.text()), Ok(w));
    }

    #[test]
    fn damage_is_told_and_never_used() {
        let w = sample();
        assert!(matches!(parse("moment = 3"), Err(WorkspaceError::Form(_))));
        assert_eq!(
            parse(&w.text().replace("version = 1", "version = 9")),
            Err(WorkspaceError::Version(9))
        );
        assert_eq!(
            parse(&w.text().replace("\"jobs\"", "\"nothing\"")),
            Err(WorkspaceError::Dock)
        );
        assert!(matches!(
            parse(&"#".repeat(MOST_BYTES + 1)),
            Err(WorkspaceError::TooLong(_))
        ));
        let mut deep = Dock::Panel { id: "events".into() };
        for _ in 0..40 {
            deep = Dock::Tabs {
                active: 0,
                children: vec![deep],
            };
        }
        let text = Workspace { dock: Some(deep), ..w }.text();
        assert!(parse(&text).is_err());
    }
}

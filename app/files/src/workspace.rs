//! The workspace of a recording: the window state as a TOML file next to the recording.

use crate::numbers::NumberFormat;
use crate::scene::{AxisKind, Selection};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// File format version that this program writes.
pub const VERSION: u32 = 1;
/// Maximum size of the file, bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// Maximum number of tables whose columns are stored.
const MAX_TABLES: usize = 64;
/// Maximum number of stored lanes, or of stored columns of a table.
const MAX_NAMES: usize = 256;
/// Maximum nesting depth of the dock.
const MAX_DEPTH: usize = 16;

/// The layout of docked panels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Dock {
    /// A panel, by id.
    Panel {
        /// Id of the panel.
        id: String,
    },
    /// Panels that share a location; one is shown.
    Tabs {
        /// Index of the shown panel.
        active: usize,
        /// The panels.
        children: Vec<Dock>,
    },
    /// Panels side by side.
    Row {
        /// Shares of the width.
        shares: Vec<f32>,
        /// Panels from left to right.
        children: Vec<Dock>,
    },
    /// Panels one above the other.
    Column {
        /// Shares of the height.
        shares: Vec<f32>,
        /// Panels from top to bottom.
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
    /// Width, points, 80 to 800; `None` for the default.
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

/// A panel in its own window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FloatingPanel {
    /// Id of the panel.
    pub panel: String,
    /// Upper left corner on the desktop, points; `None` if the desktop places it.
    #[serde(default)]
    pub at: Option<[f32; 2]>,
    /// Inner size, points, 120 to 8192 each.
    pub size: [f32; 2],
}

/// The columns of a table as the user arranged them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TableColumns {
    /// Widths by column id, points, 16 to 4000.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub widths: BTreeMap<String, f32>,
    /// Ids of hidden columns.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub hidden: BTreeSet<String>,
    /// Ids of columns that are shown even if they are empty or there is little room.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub shown: BTreeSet<String>,
}

/// Events of the cursors A and B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CursorEvents {
    /// Event of cursor A.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<u64>,
    /// Event of cursor B.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<u64>,
}

impl CursorEvents {
    /// Returns whether neither is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.a.is_none() && self.b.is_none()
    }
}

/// The replay options of an API trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct How {
    /// Replay as one graph.
    pub graph: bool,
    /// Wait for the device after each launch. Not possible within a graph, where the host does not wait.
    pub step: bool,
    /// Do not restore memory between repeats.
    pub no_restore: bool,
    /// Also restore and compare the memory at the end of the recorded range.
    pub memory: bool,
    /// On the channels of a GPU, build launches anew, even if the recording holds what its driver submitted.
    pub rebuild: bool,
}

impl How {
    /// Whether all options have their defaults.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// The further replay options. Files are named by their full paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayOptions {
    /// Number of runs of a repeated replay, 1 to 10000; `None` for the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// Time limit of a run, seconds, 1 to 3600; `None` for the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<u64>,
    /// Whether a run learns effects that the recording does not hold.
    pub learn: bool,
    /// Events after which a run also learns effects, as the user wrote them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub check_after: String,
    /// Whether the buffers of an API trace end at unmapped memory.
    pub guard: bool,
    /// Whether only the agent checks the plan. It is not stored: the user chooses it anew for each opened recording.
    #[serde(skip)]
    pub bypass_check: bool,
    /// Files with the expected contents of outputs, by the name of the output.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub expected: BTreeMap<String, String>,
    /// File with the expected picture of the screen; empty for the recorded picture.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expected_screen: String,
    /// File with the plan to replay; empty to compile the recording.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub plan: String,
}

impl ReplayOptions {
    /// Whether all options have their defaults.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Returns how many options do not have their default.
    #[must_use]
    pub fn count_set(&self) -> usize {
        let set = [
            self.runs.is_some(),
            self.time_limit.is_some(),
            self.learn,
            self.guard,
            self.bypass_check,
            !self.expected_screen.is_empty(),
            !self.plan.is_empty(),
        ];
        set.into_iter().filter(|set| *set).count() + self.expected.len()
    }
}

/// The workspace of one recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workspace {
    /// File format version, [`VERSION`].
    pub version: u32,
    /// Current event.
    pub moment: u64,
    /// Text of the Events filter.
    #[serde(default)]
    pub filter: String,
    /// Target chosen for replays.
    #[serde(default)]
    pub board: String,
    /// Axis of the timeline.
    #[serde(default)]
    pub axis: AxisKind,
    /// Format of values.
    #[serde(default)]
    pub numbers: NumberFormat,
    /// Range of the axis that the timeline shows.
    #[serde(default)]
    pub view: Option<[f64; 2]>,
    /// Full path of the recording that this one is compared with; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub compared: String,
    /// Whether replays keep recorded idle time.
    #[serde(default)]
    pub keep_gaps: bool,
    /// Replay options of API traces.
    #[serde(default, skip_serializing_if = "How::is_usual")]
    pub calls: How,
    /// Tolerance for API trace outputs, as the user wrote it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub alike: String,
    /// Further replay options.
    #[serde(default, skip_serializing_if = "ReplayOptions::is_usual")]
    pub replay: ReplayOptions,
    /// State of the outline.
    #[serde(default)]
    pub outline: Side,
    /// State of the inspector.
    #[serde(default)]
    pub inspector: Side,
    /// Panels in their own windows.
    #[serde(default)]
    pub torn: Vec<FloatingPanel>,
    /// The selection.
    #[serde(default)]
    pub selection: Selection,
    /// Layout of the docked panels; `None` for the default.
    #[serde(default)]
    pub dock: Option<Dock>,
    /// Cursors A and B of the timeline.
    #[serde(default, skip_serializing_if = "CursorEvents::is_empty")]
    pub cursors: CursorEvents,
    /// Heights of timeline lanes by lane key, points, 14 to 240.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lanes: BTreeMap<String, f32>,
    /// Columns of tables by table id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, TableColumns>,
}

/// Why a workspace file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkspaceError {
    /// The file is too long.
    #[error("the workspace file has {0} bytes, which is too many")]
    TooLong(usize),
    /// The file is not TOML of this form.
    #[error("{0}")]
    Form(String),
    /// The file was written by a later version.
    #[error("version {0} of the workspace file is not supported by this program; use a newer one")]
    Version(u32),
    /// The dock names an unknown panel, is empty, or is nested too deep.
    #[error("the arrangement of panels is invalid")]
    Dock,
}

impl Workspace {
    /// Parses the text of a workspace file. `known` returns whether a panel id exists.
    ///
    /// # Errors
    /// Returns an error if the text is too long, malformed, of a later version, or has an impossible panel layout.
    pub fn parse(text: &str, known: &dyn Fn(&str) -> bool) -> Result<Self, WorkspaceError> {
        if text.len() > MAX_BYTES {
            return Err(WorkspaceError::TooLong(text.len()));
        }
        let mut w: Self = toml::from_str(text).map_err(|e| WorkspaceError::Form(e.to_string()))?;
        if w.version != VERSION {
            return Err(WorkspaceError::Version(w.version));
        }
        if w.dock
            .as_ref()
            .is_some_and(|d| d.depth() > MAX_DEPTH || !d.sound(known))
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
            // A position far outside every desktop counts as none.
            t.at = t.at.filter(|a| a.iter().all(|x| x.abs() <= 32768.0));
        }
        w.calls.step &= !w.calls.graph;
        w.replay.guard &= !w.calls.graph;
        w.replay.runs = w.replay.runs.map(|n| n.clamp(1, 10_000));
        w.replay.time_limit = w.replay.time_limit.map(|s| s.clamp(1, 3600));
        keep_first(&mut w.replay.expected, MAX_NAMES);
        clamp_all(&mut w.lanes, 14.0, 240.0);
        keep_first(&mut w.tables, MAX_TABLES);
        for table in w.tables.values_mut() {
            clamp_all(&mut table.widths, 16.0, 4000.0);
            table.hidden = std::mem::take(&mut table.hidden).into_iter().take(MAX_NAMES).collect();
            table.shown = std::mem::take(&mut table.shown).into_iter().take(MAX_NAMES).collect();
        }
        Ok(w)
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }
}

/// Removes lengths that are not finite, clamps the others, and limits their number.
fn clamp_all(lengths: &mut BTreeMap<String, f32>, min: f32, max: f32) {
    lengths.retain(|_, length| length.is_finite());
    keep_first(lengths, MAX_NAMES);
    for length in lengths.values_mut() {
        *length = length.clamp(min, max);
    }
}

/// Removes entries beyond the first `max`.
fn keep_first<T>(map: &mut BTreeMap<String, T>, max: usize) {
    while map.len() > max {
        map.pop_last();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::GpuVa;

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
            numbers: NumberFormat::Float,
            view: Some([0.5, 100.0]),
            compared: "/traces/other.kine".into(),
            keep_gaps: true,
            calls: How {
                graph: true,
                step: false,
                no_restore: true,
                memory: false,
                rebuild: false,
            },
            alike: "out0=f32:1e-5".into(),
            replay: ReplayOptions {
                time_limit: Some(30),
                expected: BTreeMap::from([("out0".into(), "/traces/out0.bin".into())]),
                ..ReplayOptions::default()
            },
            outline: Side {
                shown: false,
                width: Some(200.0),
            },
            inspector: Side::default(),
            torn: vec![FloatingPanel {
                panel: "memory".into(),
                at: Some([-40.0, 12.5]),
                size: [720.0, 460.0],
            }],
            selection: Selection::Memory {
                space: 0,
                va: GpuVa::new(0xffff_b000_f000),
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
            cursors: CursorEvents { a: Some(12), b: None },
            lanes: BTreeMap::from([("block JS1".into(), 60.0), ("filter reg = \"a\"".into(), 18.0)]),
            tables: BTreeMap::from([(
                "events".into(),
                TableColumns {
                    widths: BTreeMap::from([("means".into(), 300.5)]),
                    hidden: BTreeSet::from(["thread".into()]),
                    shown: BTreeSet::from(["job".into()]),
                },
            )]),
        }
    }

    #[test]
    fn workspace_round_trips() {
        let w = sample();
        assert_eq!(parse(&w.text()).unwrap(), w, "{}", w.text());
    }

    #[test]
    fn workspace_graph_option_disables_step() {
        let w = parse("version = 1\nmoment = 0\ncalls = { graph = true, step = true }").unwrap();
        assert!(w.calls.graph && !w.calls.step);
    }

    #[test]
    fn workspace_lengths_and_their_count_are_limited() {
        let text = "version = 1\nmoment = 0\nlanes = { jobs = 1e9, polls = nan, notes = -3.0 }\n\
                    tables = { events = { widths = { means = 1.0, job = inf } } }";
        let w = parse(text).unwrap();
        assert_eq!(
            w.lanes,
            BTreeMap::from([("jobs".into(), 240.0), ("notes".into(), 14.0)])
        );
        assert_eq!(w.tables["events"].widths, BTreeMap::from([("means".into(), 16.0)]));
        let many: String = (0..1000).map(|n| format!("{{ n = {n} }}, ")).collect();
        assert!(parse(&format!("version = 1\nmoment = 0\nlanes = [{many}]")).is_err());
        let many: String = (0..1000).map(|n| format!("lane{n} = 20.0, ")).collect();
        let w = parse(&format!(
            "version = 1\nmoment = 0\nlanes = {{ {} }}",
            many.trim_end_matches(", ")
        ))
        .unwrap();
        assert_eq!(w.lanes.len(), MAX_NAMES);
        assert_eq!(w.cursors, CursorEvents::default());
    }

    #[test]
    fn highest_address_round_trips() {
        let selection = Selection::Memory {
            space: 0,
            va: GpuVa::MAX,
            bytes: 1,
        };
        let w = Workspace { selection, ..sample() };
        assert_eq!(parse(&w.text()), Ok(w));
    }

    #[test]
    fn damaged_workspace_text_is_an_error() {
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
            parse(&"#".repeat(MAX_BYTES + 1)),
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

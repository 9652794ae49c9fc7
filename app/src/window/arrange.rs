//! What of the window comes back with its recording: taken up when it is opened, kept while it is open and when it
//! is closed.

use super::app::App;
use super::crash;
use super::keep::{Keeper, Places};
use super::layout::{self, Holds, Place, Sides, Torn};
use super::leaving::Leave;
use crate::document::Document;
use crate::document::cursors::Cursor;
use crate::document::screen::has_framebuffer;
use crate::document::workspace::{self, CursorEvents, Side, VERSION, Workspace};
use crate::log::{self, Level};
use crate::panels;
use crate::panels::views::Views;
use crate::theme::columns::Tables;
use egui::Context;
use replay_engine::client::fitting::Fit;
use trace_core::check::FindingKind;

/// How often what would be kept is looked at, seconds.
const LOOK_S: f64 = 2.0;

/// What a document's recording is of.
fn holds(doc: &Document) -> Holds {
    match (doc.facts.calls.is_some(), has_framebuffer(&doc.recording)) {
        (true, _) => Holds::Calls,
        (_, true) => Holds::Screen,
        _ => Holds::Accesses,
    }
}

impl App {
    /// Shows a document; the one that was open is closed in good order, or the person asked when that cannot be.
    pub fn take(&mut self, doc: Document) {
        let Some(Leave::Show(doc)) = self.may_leave(Leave::Show(Box::new(doc))) else {
            return;
        };
        let mut doc = *doc;
        self.close();
        crash::opened(&doc.path);
        log::push(
            Level::Info,
            format!("opened {}: {} events", doc.path.display(), doc.len()),
        );
        if let Some(text) = doc.notice.take() {
            log::push(Level::Warning, text.clone());
            self.notice = Some((format!("Changes of {}", doc.title), text));
        }
        let mut findings = doc.recording.facts.findings.iter();
        if let Some(cut) = findings.find(|f| f.kind == FindingKind::TruncatedSection) {
            let details = format!("{}: {}. What follows is not shown.", cut.place, cut.message);
            self.notice = Some((format!("{} was cut", doc.title), details));
        }
        for k in &doc.facts.gaps_in_knowledge {
            log::push(Level::Warning, k.clone());
        }
        doc.replay.meet(&self.boards);
        if let Some(b) = &self.board {
            doc.replay.choose(b);
        }
        self.arrange_at_first(holds(&doc));
        self.views = Views::default();
        self.asks.tables = Tables::default();
        self.settings.opened(&doc.path);
        self.keeper = Keeper {
            places: Places::of(&doc.path, &self.settings),
            ..Keeper::default()
        };
        match self.keeper.places.as_ref().and_then(Places::read) {
            Some(Ok(w)) => self.arrange(&mut doc, &w),
            found => {
                if let Some(Err(e)) = found {
                    log::push(Level::Warning, format!("the workspace file is damaged: {e}"));
                    self.notice = Some(("The workspace file is damaged".into(), e.to_string()));
                }
                if let Some(first) = doc.first_work() {
                    doc.go(first);
                }
            }
        }
        self.doc = Some(doc);
        self.keeper.kept = self.workspace();
    }

    /// Arranges the panels as at first.
    pub fn as_at_first(&mut self) {
        let holds = self.doc.as_ref().map_or(Holds::Accesses, holds);
        self.arrange_at_first(holds);
    }

    fn arrange_at_first(&mut self, holds: Holds) {
        self.dock = layout::tree(&layout::at_first(holds));
        self.fitted = None;
        self.torn.clear();
        self.outline = true;
        self.inspector = true;
        self.sides = Sides::default();
    }

    fn arrange(&mut self, doc: &mut Document, w: &Workspace) {
        self.views.timeline.axis = w.axis;
        self.views.timeline.range = w.view.map(|v| (v[0], v[1]));
        self.views.events.filter.clone_from(&w.filter);
        doc.replay.keep_gaps = w.keep_gaps;
        doc.replay.how = w.calls;
        doc.replay.alike.clone_from(&w.alike);
        doc.numbers = w.numbers;
        // A target that cannot be the recorded device was nobody's choice.
        if self.board.is_none() && !w.board.is_empty() && doc.replay.fit(&w.board) != Fit::Unfit {
            doc.replay.choose(&w.board);
        }
        for (cursor, event) in [(Cursor::A, w.cursors.a), (Cursor::B, w.cursors.b)] {
            if let Some(event) = event {
                doc.set_cursor(cursor, event);
            }
        }
        self.views.timeline.heights.clone_from(&w.lanes);
        self.asks.tables = Tables::from_workspace(&w.tables);
        doc.go_with(w.moment, w.selection.clone());
        doc.comparing.kept = Some(w.compared.clone()).filter(|c| !c.is_empty()).map(Into::into);
        if let Some(d) = &w.dock {
            self.dock = layout::tree(d);
        }
        self.outline = w.outline.shown;
        self.inspector = w.inspector.shown;
        (self.sides.narrow, self.sides.folded) = (false, false);
        self.sides.outline = w.outline.width.unwrap_or(self.sides.outline);
        self.sides.inspector = w.inspector.width.unwrap_or(self.sides.inspector);
        for t in &w.torn {
            let Some(panel) = panels::by_id(&t.panel) else { continue };
            // A panel is in one place only.
            layout::close(&mut self.dock, panel.id);
            self.torn.push(Torn::placed(panel.id, Place { at: t.at, size: t.size }));
        }
    }

    /// What the workspace file of the open recording would hold.
    #[must_use]
    pub fn workspace(&self) -> Option<Workspace> {
        let doc = self.doc.as_ref()?;
        let side = |shown: bool, width: f32| Side {
            shown,
            width: Some(width.round()),
        };
        let torn = |t: &Torn| workspace::Torn {
            panel: t.panel.to_owned(),
            at: t.now.at.map(|a| a.map(f32::round)),
            size: t.now.size.map(f32::round),
        };
        Some(Workspace {
            version: VERSION,
            moment: doc.moment(),
            filter: self.views.events.filter.clone(),
            board: doc.replay.board().to_owned(),
            keep_gaps: doc.replay.keep_gaps,
            calls: doc.replay.how,
            alike: doc.replay.alike.clone(),
            axis: self.views.timeline.axis,
            numbers: doc.numbers,
            view: self.views.timeline.range.map(|r| [r.0, r.1]),
            compared: doc.comparing.file().unwrap_or_default(),
            outline: side(self.outline, self.sides.outline),
            inspector: side(self.inspector || self.sides.folded, self.sides.inspector),
            torn: self.torn.iter().map(torn).collect(),
            selection: doc.selection().clone(),
            dock: layout::chosen(&self.dock, self.fitted),
            cursors: CursorEvents {
                a: doc.cursors.a,
                b: doc.cursors.b,
            },
            lanes: self.views.timeline.heights.clone(),
            tables: self.asks.tables.to_workspace(),
        })
    }

    /// Keeps the workspace now and then, on a thread of its own, when something of it changed.
    pub(super) fn keep(&mut self, ctx: &Context) {
        let now = ctx.input(|i| i.time);
        if now - self.keeper.looked < LOOK_S {
            return;
        }
        self.keeper.looked = now;
        self.keeper.hear(false);
        let (Some(w), Some(places)) = (self.workspace(), self.keeper.places.clone()) else {
            return;
        };
        if self.keeper.at_work.is_some() || self.keeper.kept.as_ref() == Some(&w) {
            return;
        }
        self.keeper.kept = Some(w.clone());
        let thread = std::thread::Builder::new().name("workspace".into());
        match thread.spawn(move || places.keep(&w)) {
            Ok(t) => self.keeper.at_work = Some(t),
            Err(e) => self.keeper.told(Err(e.to_string())),
        }
    }

    /// Closes the recording: keeps its workspace, ends its journal in good order, stops what runs for it.
    pub fn close(&mut self) {
        self.keeper.hear(true);
        if let Some(w) = self.workspace().filter(|w| self.keeper.kept.as_ref() != Some(w))
            && let Some(places) = &self.keeper.places
        {
            let done = places.keep(&w);
            self.keeper.told(done);
        }
        self.keeper = Keeper::default();
        if let Some(mut d) = self.doc.take() {
            for running in [&d.replay.running, &d.finding_out].into_iter().flatten() {
                running.cancel();
            }
            d.comparing.clear();
            d.close();
        }
        self.brought = None;
    }
}

//! Navigation to the target of a link, a note or the command line, in the open recording or after another one opens.

use super::app::App;
use super::layout;
use super::requests::{AfterOpen, Goal};
use crate::log::{self, Level};
use egui::Context;
use kinescope_files::link::{Link, LinkError};
use kinescope_files::scene::{Scene, Selection};
use kinescope_session::text;
use std::path::{Path, PathBuf};

impl App {
    /// Shows a scene of the open recording: sets the current event and the selection, and brings its panels to the
    /// front. Ignores what this version does not know.
    pub fn show_scene(&mut self, scene: &Scene) {
        let Some(doc) = &mut self.doc else { return };
        doc.go_with(scene.event, scene.selection.clone());
        for panel in &scene.panels {
            if self.floating.iter().any(|t| t.panel == panel) {
                continue;
            }
            layout::show(&mut self.dock, panel);
        }
    }

    /// Returns the scene that the user sees.
    #[must_use]
    pub fn scene(&self) -> Option<Scene> {
        let doc = self.doc.as_ref()?;
        Some(Scene {
            event: doc.current_event(),
            selection: match doc.selection() {
                // Divergences and faults belong to this run.
                Selection::Divergence(_) | Selection::Fault(_) => Selection::Event,
                s => s.clone(),
            },
            panels: layout::active_panels(&self.dock)
                .into_iter()
                .map(str::to_owned)
                .collect(),
        })
    }

    /// Returns a link to the scene that the user sees.
    #[must_use]
    pub fn link(&self) -> Option<Link> {
        let doc = self.doc.as_ref()?;
        let path = doc.path.canonicalize().unwrap_or_else(|_| doc.path.clone());
        Some(Link::new(&path, doc.len(), self.scene()?))
    }

    /// Goes to a requested event of the open recording. Reports if it has no such event, or is not the recording that
    /// the goal is for.
    pub(super) fn go_to(&mut self, goal: &Goal) {
        let Some(doc) = &self.doc else { return };
        let (have, title) = (doc.len(), doc.title.clone());
        if goal.scene.event >= have {
            let what = format!("{title} has no event {}", text::count(goal.scene.event));
            let details = match have {
                0 => "it holds no events".to_owned(),
                n => format!("its events are 0 to {}", text::count(n - 1)),
            };
            self.error(&what, &details);
            return;
        }
        self.show_scene(&goal.scene);
        if let Some(said) = goal.events.filter(|n| *n != have) {
            let message = format!(
                "the link is for a recording of {}, but {title} has {}: it may show another event",
                text::count_noun(said, "event", "events"),
                text::count(have)
            );
            log::push(Level::Warning, message);
        }
    }

    /// Follows a link in the open recording if it matches, or else opens the recording that the link names. Searches a
    /// bare name in the folder of the open recording and in the recent files.
    ///
    /// # Errors
    /// [`LinkError`] if the text is not a link.
    pub fn follow(&mut self, ctx: &Context, text: &str) -> Result<(), LinkError> {
        let link = Link::parse(text.trim())?;
        let goal = Goal::from_link(&link);
        let Some(path) = self.find_linked_file(&link.file) else {
            let what = format!("{} was not found", link.file.display());
            let looked = if link.file.is_absolute() {
                "the link names a path on the machine that made it; open the file here, then follow the link again"
            } else {
                "it is not in this folder, not next to the open recording, and not among the recent files; open it, \
                 then follow the link again"
            };
            self.error(&what, looked);
            return Ok(());
        };
        let same = |d: &Path| matches!((d.canonicalize(), path.canonicalize()), (Ok(a), Ok(b)) if a == b);
        if self.doc.as_ref().is_some_and(|d| same(&d.path)) {
            if let Some(goal) = goal {
                self.go_to(&goal);
            }
        } else {
            self.after_open = AfterOpen {
                goal,
                ..AfterOpen::default()
            };
            self.open(ctx, path);
        }
        Ok(())
    }

    /// Returns the file that a link refers to, if it can be found.
    fn find_linked_file(&self, file: &Path) -> Option<PathBuf> {
        if file.exists() {
            return Some(file.to_owned());
        }
        // The link is from another machine: use the open or recent recording with the same name.
        let name = file.file_name()?;
        let open = self.doc.as_ref().map(|d| d.path.clone());
        let sibling = open.as_ref().and_then(|p| Some(p.parent()?.join(name)));
        let recent = self.settings.recent.iter().cloned();
        let named = |p: &PathBuf| p.file_name() == Some(name) && p.exists();
        open.into_iter().chain(sibling).chain(recent).find(named)
    }
}

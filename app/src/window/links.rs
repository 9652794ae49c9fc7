//! Going where a link, a note or the command line leads: in the open recording, or once another one is open.

use super::app::App;
use super::layout;
use crate::document::moment::Selection;
use crate::log::{self, Level};
use crate::theme::text;
use egui::Context;
use kinescope_files::link::{Link, LinkError};
use kinescope_files::scene::Scene;
use std::path::{Path, PathBuf};

/// What happens once the recording that is being opened is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AfterOpen {
    /// A second recording to compare it with.
    pub compare: Option<PathBuf>,
    /// Where to go in it.
    pub goal: Option<Goal>,
}

/// Where to go in a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Goal {
    /// What is shown there.
    pub scene: Scene,
    /// Events that the recording should have; `None`: nobody said.
    pub events: Option<u64>,
}

impl Goal {
    /// An event, and nothing more.
    #[must_use]
    pub fn for_event(event: u64) -> Self {
        Self {
            scene: Scene {
                event,
                ..Scene::default()
            },
            events: None,
        }
    }

    /// Where a link leads; `None`: to where the recording was left.
    #[must_use]
    pub fn from_link(link: &Link) -> Option<Self> {
        Some(Self {
            scene: link.scene.clone()?,
            events: link.events,
        })
    }
}

impl App {
    /// Shows a scene of the open recording: time stands at its event, what was selected is selected, and its panels are
    /// in front. What the program does not know of is left out.
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

    /// What the person looks at.
    #[must_use]
    pub fn scene(&self) -> Option<Scene> {
        let doc = self.doc.as_ref()?;
        Some(Scene {
            event: doc.moment(),
            selection: match doc.selection() {
                // They belong to this run.
                Selection::Divergence(_) | Selection::Fault(_) => Selection::Event,
                s => s.clone(),
            },
            panels: layout::active_panels(&self.dock)
                .into_iter()
                .map(str::to_owned)
                .collect(),
        })
    }

    /// A link to what the person looks at.
    #[must_use]
    pub fn link(&self) -> Option<Link> {
        let doc = self.doc.as_ref()?;
        let path = doc.path.canonicalize().unwrap_or_else(|_| doc.path.clone());
        Some(Link::new(&path, doc.len(), self.scene()?))
    }

    /// Goes to an event of the open recording that somebody asked for; tells when it has no such event, or is not the
    /// recording that was meant.
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
                "the link was made of a recording of {}, and {title} has {}: it may show another moment",
                text::count_noun(said, "event", "events"),
                text::count(have)
            );
            log::push(Level::Warning, message);
        }
    }

    /// Follows a link: in the open recording when it is the one, else in the one that it names. A bare name is looked for
    /// beside the open recording and among those opened before.
    ///
    /// # Errors
    /// [`LinkError`] when the text is no link.
    pub fn follow(&mut self, ctx: &Context, text: &str) -> Result<(), LinkError> {
        let link = Link::parse(text.trim())?;
        let goal = Goal::from_link(&link);
        let Some(path) = self.find_linked_file(&link.file) else {
            let what = format!("{} was not found", link.file.display());
            let looked = if link.file.is_absolute() {
                "the link names a file of the machine that it was made on; open the file, then follow the link again"
            } else {
                "it is neither here, nor beside the open recording, nor among those that were opened before"
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
            self.after_open = AfterOpen { compare: None, goal };
            self.open(ctx, path);
        }
        Ok(())
    }

    /// The file that a link means, where it can be found.
    fn find_linked_file(&self, file: &Path) -> Option<PathBuf> {
        if file.exists() {
            return Some(file.to_owned());
        }
        // Made on another machine: the recording of the same name that is open, or was.
        let name = file.file_name()?;
        let open = self.doc.as_ref().map(|d| d.path.clone());
        let beside = open.as_ref().and_then(|p| Some(p.parent()?.join(name)));
        let recent = self.settings.recent.iter().cloned();
        let named = |p: &PathBuf| p.file_name() == Some(name) && p.exists();
        open.into_iter().chain(beside).chain(recent).find(named)
    }
}

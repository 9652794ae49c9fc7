//! Commands: one table feeds palette, menus, shortcuts and the sheet of keys; what they do lies in a file a menu.

mod edit;
mod file;
mod go;
mod help;
mod replay;
mod shortcut;
mod table;
mod view;
mod when;

use crate::document::Document;
use crate::window::App;
use egui::{Context, Key, Modifiers};

pub use file::sample;
pub use shortcut::Shortcut;
pub use table::COMMANDS;

/// A menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Menu {
    /// Recordings and files.
    File,
    /// What the person made.
    Edit,
    /// Moving about.
    Go,
    /// What is shown.
    View,
    /// Panels.
    Panels,
    /// Replays.
    Replay,
    /// Help.
    Help,
}

impl Menu {
    /// All menus, in order.
    pub const ALL: [Self; 7] = [
        Self::File,
        Self::Edit,
        Self::Go,
        Self::View,
        Self::Panels,
        Self::Replay,
        Self::Help,
    ];

    /// The menu's name.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::File => "File",
            Self::Edit => "Edit",
            Self::Go => "Go",
            Self::View => "View",
            Self::Panels => "Panels",
            Self::Replay => "Replay",
            Self::Help => "Help",
        }
    }
}

/// A command.
pub struct Command {
    /// Name in scripts, tests and panels.
    pub id: &'static str,
    /// Name for the person.
    pub title: &'static str,
    /// Menu that it is in.
    pub menu: Menu,
    /// Its key.
    pub shortcut: Option<Shortcut>,
    /// Whether it may run now.
    pub enabled: fn(&App) -> bool,
    /// Does it.
    pub run: fn(&mut App, &Context),
}

fn doc(app: &App) -> Option<&Document> {
    app.doc.as_ref()
}

fn with(app: &mut App, act: impl FnOnce(&mut Document)) {
    if let Some(d) = &mut app.doc {
        act(d);
    }
}

/// The command of this id.
#[must_use]
pub fn by_id(id: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|c| c.id == id)
}

/// Runs the commands whose keys were pressed.
pub fn keys(app: &mut App, ctx: &Context) {
    let typing = ctx.text_edit_focused();
    let mut run = Vec::new();
    for c in COMMANDS {
        let Some(s) = c.shortcut else { continue };
        if (typing && (s.plain() || matches!(s.key, Key::Z))) || app.palette.is_some() || !(c.enabled)(app) {
            continue;
        }
        let pressed = ctx.input_mut(|i| {
            // A question mark needs Shift on some keyboards and arrives as a key of its own on others.
            if s.key == Key::Questionmark {
                i.consume_key(Modifiers::SHIFT, Key::Questionmark)
                    || i.consume_key(Modifiers::NONE, Key::Questionmark)
                    || i.consume_key(Modifiers::SHIFT, Key::Slash)
            } else if s.shift || i.modifiers.shift == s.shift {
                i.consume_key(s.modifiers(), s.key)
            } else {
                false
            }
        });
        if pressed {
            run.push(c.id);
        }
    }
    for id in run {
        app.run(ctx, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_titles_and_keys_are_unique_and_every_panel_has_its_command() {
        let mut ids = HashSet::new();
        let mut keys = HashSet::new();
        for c in COMMANDS {
            assert!(ids.insert(c.id), "{} twice", c.id);
            if let Some(s) = c.shortcut {
                assert!(keys.insert(s.text()), "{} of {} twice", s.text(), c.id);
            }
        }
        for p in crate::panels::PANELS {
            assert!(by_id(&format!("show-{}", p.id)).is_some(), "{}", p.id);
        }
    }
}

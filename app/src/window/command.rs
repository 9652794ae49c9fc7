//! What a command of the window is: its names, its key, when it may run, what it does.

use super::shortcut::Shortcut;
use egui::Context;

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
    /// Code of shaders, and threads that go along it.
    Shader,
    /// Help.
    Help,
}

impl Menu {
    /// All menus, in order.
    pub const ALL: [Self; 8] = [
        Self::File,
        Self::Edit,
        Self::Go,
        Self::View,
        Self::Panels,
        Self::Replay,
        Self::Shader,
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
            Self::Shader => "Shader",
            Self::Help => "Help",
        }
    }
}

/// A command of an `A`.
pub struct Command<A: 'static> {
    /// Name in scripts, tests and panels.
    pub id: &'static str,
    /// Name for the person.
    pub title: &'static str,
    /// Menu that it is in.
    pub menu: Menu,
    /// The key that it has until the person gives it another.
    pub shortcut: Option<Shortcut>,
    /// Whether it may run now.
    pub enabled: fn(&A) -> bool,
    /// Does it.
    pub run: fn(&mut A, &Context),
}

impl<A> Command<A> {
    /// Its name where its menu is not seen: a panel that is shown is told from what goes by the same name.
    #[must_use]
    pub fn full_title(&self) -> String {
        match self.menu {
            Menu::Panels => format!("Show {}", self.title),
            _ => self.title.to_owned(),
        }
    }
}

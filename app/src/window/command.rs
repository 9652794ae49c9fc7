//! Commands of the window: names, shortcut, enabled state and action of each.

use super::shortcut::Shortcut;
use egui::Context;

/// A menu of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Menu {
    /// Recordings and files.
    File,
    /// Edits, notes and pins of the user.
    Edit,
    /// Navigation.
    Go,
    /// Display options.
    View,
    /// Panels.
    Panels,
    /// Replays.
    Replay,
    /// Shader code, and threads traced through it.
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

    /// Returns the title of the menu.
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

/// A command on an application of type `A`.
pub struct Command<A: 'static> {
    /// Name in scripts, tests and panels.
    pub id: &'static str,
    /// Title that the user sees.
    pub title: &'static str,
    /// Menu that contains the command.
    pub menu: Menu,
    /// Default shortcut.
    pub shortcut: Option<Shortcut>,
    /// Returns whether the command can run now.
    pub enabled: fn(&A) -> bool,
    /// Runs the command.
    pub run: fn(&mut A, &Context),
}

impl<A> Command<A> {
    /// Returns the title for use outside its menu. It distinguishes a command that shows a panel from others with the
    /// same name.
    #[must_use]
    pub fn full_title(&self) -> String {
        match self.menu {
            Menu::Panels => format!("Show {}", self.title),
            _ => self.title.to_owned(),
        }
    }
}

//! The commands: one table provides the palette, menus, shortcuts and the shortcut sheet. Each menu has a file with the
//! actions. The window receives the table and knows no command by itself.

mod compare;
mod edit;
mod export;
mod file;
mod go;
mod help;
mod notebook;
mod replay;
mod screen;
mod shader;
mod table;
mod view;
mod when;

use crate::panels::views::PanelContext;
use crate::window::App;
use kinescope_session::Document;

pub use table::COMMANDS;

fn doc(app: &App) -> Option<&Document> {
    app.doc.as_ref()
}

fn with_document(app: &mut App, act: impl FnOnce(&mut Document)) {
    if let Some(d) = &mut app.doc {
        act(d);
    }
}

fn with_panel_context(app: &mut App, act: impl FnOnce(&mut PanelContext<'_>)) {
    if let Some(mut d) = app.panel_context() {
        act(&mut d);
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
            assert!(ids.insert(c.id), "{} is listed twice", c.id);
            if let Some(s) = c.shortcut {
                assert!(keys.insert(s.text()), "{} of {} is bound twice", s.text(), c.id);
            }
        }
        for p in crate::panels::PANELS {
            assert!(ids.contains(format!("show-{}", p.id).as_str()), "{}", p.id);
        }
    }
}

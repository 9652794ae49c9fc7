//! The panels, one file each, registered in one table.

pub mod events;
pub mod inputs;
pub mod inspector;
pub mod jobs;
pub mod log;
pub mod memory;
pub mod outline;
pub mod page_tables;
pub mod problems;
pub mod register;
pub mod replay;
pub mod timeline;

use crate::document::Document;
use crate::window::Asks;
use egui::Ui;

/// A panel of the window.
pub struct Panel {
    /// Name in the workspace file and of its command, `show-ID`.
    pub id: &'static str,
    /// Name for the person.
    pub title: &'static str,
    /// Draws it.
    pub ui: fn(&mut Document, &mut Asks, &mut Ui),
}

/// Every panel that can be docked. A new one is a file and a line here.
pub static PANELS: &[Panel] = &[
    Panel {
        id: "timeline",
        title: "Timeline",
        ui: timeline::ui,
    },
    Panel {
        id: "events",
        title: "Events",
        ui: events::ui,
    },
    Panel {
        id: "register",
        title: "Register",
        ui: register::ui,
    },
    Panel {
        id: "memory",
        title: "Memory",
        ui: memory::ui,
    },
    Panel {
        id: "page-tables",
        title: "Page tables",
        ui: page_tables::ui,
    },
    Panel {
        id: "jobs",
        title: "Jobs",
        ui: jobs::ui,
    },
    Panel {
        id: "inputs",
        title: "Inputs",
        ui: inputs::ui,
    },
    Panel {
        id: "replay",
        title: "Replay",
        ui: replay::ui,
    },
    Panel {
        id: "problems",
        title: "Problems",
        ui: problems::ui,
    },
    Panel {
        id: "log",
        title: "Log",
        ui: log::ui,
    },
];

/// The panel of this id.
#[must_use]
pub fn by_id(id: &str) -> Option<&'static Panel> {
    PANELS.iter().find(|p| p.id == id)
}

/// Whether there is a panel of this id, for files that name panels.
#[must_use]
pub fn is_known(id: &str) -> bool {
    by_id(id).is_some()
}

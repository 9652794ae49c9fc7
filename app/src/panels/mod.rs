//! The panels, one file each, registered in one table.

mod ask_board;
pub mod compare;
mod copy_menu;
pub mod desk;
pub mod events;
pub mod inputs;
pub mod inspector;
pub mod jobs;
pub mod kernel;
pub mod launches;
pub mod log;
pub mod memory;
pub mod notebook;
pub mod outline;
pub mod page_tables;
pub mod plots;
pub mod problems;
pub mod register;
pub mod replay;
pub mod screen;
pub mod shader;
pub mod timeline;
pub mod tune;
pub mod views;

use crate::theme::{icons, palette, widgets};
use desk::{Ask, Desk};
use egui::{RichText, Ui};

/// A panel of the window.
pub struct Panel {
    /// Name in the workspace file and of its command, `show-ID`.
    pub id: &'static str,
    /// Name for the person.
    pub title: &'static str,
    /// Draws it.
    pub ui: fn(&mut Desk<'_>, &mut Ui),
}

impl Panel {
    /// Draws the panel. Where its work ended by an error of the program, a line above says so: without it the panel
    /// would say for ever that it is at work.
    pub fn draw(&self, desk: &mut Desk<'_>, ui: &mut Ui) {
        if let Some(title) = desk.asks.lost_work(self.id) {
            let message = format!("{title}: stopped by an error of the program; see the crash report.");
            let p = palette(ui);
            let mut away = false;
            ui.horizontal(|ui| {
                ui.add_space(8.0);
                let text = format!("{} {message}", icons::WARNING);
                ui.add(egui::Label::new(RichText::new(text).color(p.error)).wrap());
                away = widgets::icon_button(ui, icons::X, "Dismiss").clicked();
            });
            if away {
                desk.asks.dismiss_lost_work(self.id);
            }
        }
        desk.asks.begin_panel(Some(self.id));
        (self.ui)(desk, ui);
        desk.asks.begin_panel(None);
    }
}

/// Every panel that can be docked. A new one is a file and a line here.
pub static PANELS: &[Panel] = &[
    Panel {
        id: "timeline",
        title: "Timeline",
        ui: |d, ui| timeline::ui(d.doc, &mut d.views.timeline, d.asks, ui),
    },
    Panel {
        id: "events",
        title: "Events",
        ui: |d, ui| events::ui(d.doc, &mut d.views.events, d.asks, ui),
    },
    Panel {
        id: "launches",
        title: "Launches",
        ui: |d, ui| launches::ui(d.doc, &mut d.views.launches, d.asks, ui),
    },
    Panel {
        id: "kernel",
        title: "Kernel",
        ui: |d, ui| kernel::ui(d.doc, &mut d.views.kernel, d.asks, ui),
    },
    Panel {
        id: "register",
        title: "Register",
        ui: |d, ui| register::ui(d.doc, &mut d.views.registers, d.asks, ui),
    },
    Panel {
        id: "memory",
        title: "Memory",
        ui: |d, ui| memory::ui(d.doc, &mut d.views.memory, d.asks, ui),
    },
    Panel {
        id: "page-tables",
        title: "Page tables",
        ui: |d, ui| page_tables::ui(d.doc, &mut d.views.tables, d.asks, ui),
    },
    Panel {
        id: "jobs",
        title: "Jobs",
        ui: |d, ui| jobs::ui(d.doc, &mut d.views.jobs, d.asks, ui),
    },
    Panel {
        id: "shader",
        title: "Shader",
        ui: |d, ui| shader::ui(d.doc, &mut d.views.shader, d.asks, ui),
    },
    Panel {
        id: "plots",
        title: "Plots",
        ui: |d, ui| plots::ui(d.doc, &mut d.views.plots, &mut d.views.events, d.asks, ui),
    },
    Panel {
        id: "inputs",
        title: "Inputs",
        ui: |d, ui| inputs::ui(d.doc, &mut d.views.inputs, d.asks, ui),
    },
    Panel {
        id: "screen",
        title: "Screen",
        ui: |d, ui| screen::ui(d.doc, &mut d.views.screen, d.asks, ui),
    },
    Panel {
        id: "compare",
        title: "Compare",
        ui: |d, ui| compare::ui(d.doc, &mut d.views.compare, d.asks, ui),
    },
    Panel {
        id: "replay",
        title: "Replay",
        ui: |d, ui| replay::ui(d.doc, d.asks, ui),
    },
    Panel {
        id: "tune",
        title: "Tune",
        ui: |d, ui| tune::ui(d.doc, &mut d.views.tune, d.asks, ui),
    },
    Panel {
        id: "notebook",
        title: "Notebook",
        ui: |d, ui| notebook::ui(d.doc, &mut d.views.notebook, d.asks, ui),
    },
    Panel {
        id: "problems",
        title: "Problems",
        ui: |d, ui| problems::ui(d.doc, d.asks, ui),
    },
    Panel {
        id: "log",
        title: "Log",
        ui: |d, ui| log::ui(d.asks, ui),
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

/// Shows in a panel what another one asked for; what is asked of the window is left alone.
pub fn show(desk: &mut Desk<'_>, ask: &Ask) {
    let Desk { doc, views, asks } = desk;
    match *ask {
        Ask::Memory {
            space,
            va,
            bytes,
            first,
        } => {
            let memory = &mut views.memory;
            let space = space.unwrap_or(memory.space);
            if first {
                memory.show_first(doc, space, va, bytes);
            } else {
                memory.show(doc, space, va, bytes);
            }
        }
        Ask::Touch { space, va } => memory::touch(doc, &mut views.memory, asks, space, va),
        Ask::Shader { job, entry } => {
            if jobs::meant(doc) != Some(job) {
                doc.go_job(job);
            }
            views.shader.want(job, entry);
        }
        Ask::Thread {
            job,
            entry,
            workgroup,
            thread,
            step,
        } => {
            if jobs::meant(doc) != Some(job) {
                doc.go_job(job);
            }
            views.shader.want(job, entry);
            views.shader.thread.choose(workgroup, thread, step);
        }
        Ask::Kernel(function) => views.kernel.meant(doc, function),
        Ask::BeforeAfter => views.memory.device.side = memory::Side::Both,
        Ask::Pages(pages) => views.tables.show(pages.space, pages.frame, pages.at),
        _ => {}
    }
}

//! The table of panels, and the actions that panels request from each other.

use super::api_trace::{kernel, launches};
use super::common::actions::PanelAction;
use super::common::locations::current_job;
use super::contents::{memory, screen};
use super::driver_trace::{address_space, objects, push_buffer};
use super::gpu::{jobs, page_tables, register, shader};
use super::recording::{events, findings, notebook, plots, timeline};
use super::runs::{campaign, inputs, pipeline, replay, tune};
use super::views::PanelContext;
use super::{compare, log, wasm};
use crate::theme::{icons, palette, widgets};
use egui::{RichText, Ui};

/// A panel of the window.
pub struct Panel {
    /// Name in the workspace file and of its command, `show-ID`.
    pub id: &'static str,
    /// Name that the user sees.
    pub title: &'static str,
    /// Draws it.
    pub ui: fn(&mut PanelContext<'_>, &mut Ui),
}

impl Panel {
    /// Draws the panel. If its work ended by a program error, a line above says so: without it the panel would appear
    /// to work for ever.
    pub fn draw(&self, context: &mut PanelContext<'_>, ui: &mut Ui) {
        if let Some(title) = context.actions.lost_work(self.id) {
            let message = format!("{title} stopped because of an internal error; see the crash report.");
            let p = palette(ui);
            let mut away = false;
            ui.horizontal(|ui| {
                ui.add_space(8.0);
                let text = format!("{} {message}", icons::WARNING);
                ui.add(egui::Label::new(RichText::new(text).color(p.error)).wrap());
                away = widgets::icon_button(ui, icons::X, "Dismiss").clicked();
            });
            if away {
                context.actions.dismiss_lost_work(self.id);
            }
        }
        context.actions.begin_panel(Some(self.id));
        (self.ui)(context, ui);
        context.actions.begin_panel(None);
    }
}

/// Every panel that can be docked. A new panel is a file, an entry here, and its command `show-ID` in
/// `commands/table.rs`. Its state, if it has one, is a field of [`Views`](super::views::Views).
pub static PANELS: &[Panel] = &[
    Panel {
        id: "timeline",
        title: "Timeline",
        ui: |d, ui| timeline::ui(d.doc, &mut d.views.timeline, d.actions, ui),
    },
    Panel {
        id: "events",
        title: "Events",
        ui: |d, ui| events::ui(d.doc, &mut d.views.events, d.actions, ui),
    },
    Panel {
        id: "launches",
        title: "Launches",
        ui: |d, ui| launches::ui(d.doc, &mut d.views.launches, d.actions, ui),
    },
    Panel {
        id: "kernel",
        title: "Kernel",
        ui: |d, ui| kernel::ui(d.doc, &mut d.views.kernel, d.actions, ui),
    },
    Panel {
        id: "wasm",
        title: "WebAssembly",
        ui: |d, ui| wasm::ui(d.doc, &mut d.views.wasm, d.actions, ui),
    },
    Panel {
        id: "objects",
        title: "Objects",
        ui: |d, ui| objects::ui(d.doc, &mut d.views.objects, d.actions, ui),
    },
    Panel {
        id: "address-space",
        title: "Address space",
        ui: |d, ui| address_space::ui(d.doc, &mut d.views.address_space, d.actions, ui),
    },
    Panel {
        id: "push-buffer",
        title: "Push buffer",
        ui: |d, ui| push_buffer::ui(d.doc, &mut d.views.push_buffer, d.actions, ui),
    },
    Panel {
        id: "register",
        title: "Register",
        ui: |d, ui| register::ui(d.doc, &mut d.views.registers, d.actions, ui),
    },
    Panel {
        id: "memory",
        title: "Memory",
        ui: |d, ui| memory::ui(d.doc, &mut d.views.memory, d.actions, ui),
    },
    Panel {
        id: "page-tables",
        title: "Page tables",
        ui: |d, ui| page_tables::ui(d.doc, &mut d.views.tables, d.actions, ui),
    },
    Panel {
        id: "jobs",
        title: "Jobs",
        ui: |d, ui| jobs::ui(d.doc, &mut d.views.jobs, d.actions, ui),
    },
    Panel {
        id: "shader",
        title: "Shader",
        ui: |d, ui| shader::ui(d.doc, &mut d.views.shader, d.actions, ui),
    },
    Panel {
        id: "plots",
        title: "Plots",
        ui: |d, ui| plots::ui(d.doc, &mut d.views.plots, &mut d.views.events, d.actions, ui),
    },
    Panel {
        id: "inputs",
        title: "Inputs",
        ui: |d, ui| inputs::ui(d.doc, &mut d.views.inputs, d.actions, ui),
    },
    Panel {
        id: "screen",
        title: "Screen",
        ui: |d, ui| screen::ui(d.doc, &mut d.views.screen, d.actions, ui),
    },
    Panel {
        id: "compare",
        title: "Compare",
        ui: |d, ui| compare::ui(d.doc, &mut d.views.compare, d.actions, ui),
    },
    Panel {
        id: "replay",
        title: "Replay",
        ui: |d, ui| replay::ui(d.doc, d.actions, ui),
    },
    Panel {
        id: "tune",
        title: "Tune",
        ui: |d, ui| tune::ui(d.doc, &mut d.views.tune, d.actions, ui),
    },
    Panel {
        id: "pipeline",
        title: "Pipeline",
        ui: |d, ui| pipeline::ui(&mut d.views.pipeline, d.actions, ui),
    },
    Panel {
        id: "campaign",
        title: "Campaign",
        ui: |d, ui| campaign::ui(&mut d.views.campaign, d.actions, ui),
    },
    Panel {
        id: "notebook",
        title: "Notebook",
        ui: |d, ui| notebook::ui(d.doc, &mut d.views.notebook, d.actions, title_of, ui),
    },
    Panel {
        id: "problems",
        title: "Findings",
        ui: |d, ui| findings::ui(d.doc, d.actions, ui),
    },
    Panel {
        id: "log",
        title: "Log",
        ui: |d, ui| log::ui(d.actions, ui),
    },
];

/// Returns the panel with this id.
#[must_use]
pub fn by_id(id: &str) -> Option<&'static Panel> {
    PANELS.iter().find(|p| p.id == id)
}

/// Returns the title of the panel with this id.
fn title_of(id: &str) -> Option<&'static str> {
    by_id(id).map(|p| p.title)
}

/// Returns whether there is a panel with this id, for files that name panels.
#[must_use]
pub fn is_known(id: &str) -> bool {
    by_id(id).is_some()
}

/// Applies an action that another panel requested.
pub fn apply_action(context: &mut PanelContext<'_>, action: &PanelAction) {
    let PanelContext { doc, views, actions } = context;
    match *action {
        PanelAction::Memory {
            space,
            va,
            bytes,
            first,
        } => {
            let memory = &mut views.memory;
            let space = space.unwrap_or(memory.space);
            if first {
                memory.show_at_top(doc, space, va, bytes);
            } else {
                memory.show(doc, space, va, bytes);
            }
        }
        PanelAction::FindReferences { space, va } => {
            memory::find_references(doc, &mut views.memory, actions, space, va);
        }
        PanelAction::Shader { job, entry } => {
            if current_job(doc) != Some(job) {
                doc.go_job(job);
            }
            views.shader.show_shader(job, entry);
        }
        PanelAction::Thread {
            job,
            entry,
            workgroup,
            thread,
            step,
        } => {
            if current_job(doc) != Some(job) {
                doc.go_job(job);
            }
            views.shader.show_shader(job, entry);
            views.shader.thread.choose(workgroup, thread, step);
        }
        PanelAction::Kernel(function) => views.kernel.show_function(doc, function),
        PanelAction::DriverObject(object) => views.objects.show_object(object),
        PanelAction::ObjectAddresses(object) => views.address_space.show_object(object),
        PanelAction::BeforeAfter => views.memory.device.side = memory::Side::Both,
        PanelAction::WasmCopies(request) => views.wasm.show(request),
        PanelAction::Pages(pages) => views.tables.show(pages.space, pages.frame, pages.at),
    }
}

//! The drawing of the sheet that starts a program.

use crate::theme::{field, mono, palette, small, widgets};
use crate::window::app::App;
use crate::window::pick::Pick;
use crate::window::program_state::ProgramSheet;
use egui::accesskit::Role;
use egui::{Context, Key, Label, Modifiers, Response, RichText, TextEdit, Ui, WidgetInfo, vec2};

/// Width of the sheet, points.
const WIDTH: f32 = 520.0;
/// Width of the names of fields, points.
const NAME: f32 = 88.0;
/// Width of the buttons next to fields, points.
const BUTTON: f32 = 84.0;

#[derive(PartialEq)]
enum SheetAction {
    Start,
    Close,
    PickProgram,
    PickFolder,
}

/// Draws the sheet if it is open.
pub(in crate::window) fn draw(app: &mut App, ctx: &Context) {
    let Some(mut open) = app.program_sheet.take() else {
        return;
    };
    let mut act = None;
    if app.path_prompt.is_none() && ctx.input_mut(|i| i.consume_key(Modifiers::NONE, Key::Escape)) {
        act = Some(SheetAction::Close);
    }
    let width = WIDTH.min(ctx.content_rect().width() - 40.0);
    egui::Window::new("Run a program")
        .id(egui::Id::unique("run-program"))
        .collapsible(false)
        .resizable(false)
        .default_pos(egui::pos2((ctx.content_rect().width() - width) / 2.0, 90.0))
        .fixed_size(vec2(width, 0.0))
        .show(ctx, |ui| body(&mut open, ui, &mut act));
    let is_closed = act == Some(SheetAction::Close);
    app.program_sheet = Some(open);
    match act {
        Some(SheetAction::Start) => app.start_from_sheet(ctx),
        Some(SheetAction::PickProgram) => app.pick(ctx, Pick::Program, |app, _, path| {
            if let Some(sheet) = &mut app.program_sheet {
                sheet.request.program = path.to_string_lossy().into_owned();
            }
        }),
        Some(SheetAction::PickFolder) => app.pick(ctx, Pick::Folder, |app, _, path| {
            if let Some(sheet) = &mut app.program_sheet {
                sheet.folder = path.to_string_lossy().into_owned();
            }
        }),
        Some(SheetAction::Close) | None => {}
    }
    if is_closed {
        app.program_sheet = None;
    }
}

fn body(open: &mut ProgramSheet, ui: &mut Ui, act: &mut Option<SheetAction>) {
    let p = palette(ui);
    let about = "Runs a CUDA program on this machine with its device on the target. The window follows its recording.";
    ui.add(Label::new(RichText::new(about).color(p.quiet)).wrap());
    ui.add_space(6.0);
    let mut enter = false;
    let is_first = !std::mem::replace(&mut open.is_focused, true);
    let starts_at_target = open.request.target.is_empty();
    let known = open.targets.clone();
    let target = field::named(ui, NAME, "Target", |ui| {
        let target = text(ui, &mut open.request.target, "Target", "agent:NAME/cuda0 or cuda:0");
        choose_target(ui, known.as_deref(), &mut open.request.target);
        target
    });
    let program = field::named(ui, NAME, "Program", |ui| {
        let program = text(
            ui,
            &mut open.request.program,
            "Program",
            "a path, or a name that shells find",
        );
        if choose_button(ui, "Choose the program") {
            *act = Some(SheetAction::PickProgram);
        }
        program
    });
    let arguments = field::named(ui, NAME, "Arguments", |ui| {
        let hint = "separated by spaces; quotes keep spaces";
        text(ui, &mut open.request.arguments, "Arguments", hint)
    });
    let folder = field::named(ui, NAME, "Recording in", |ui| {
        let folder = text(ui, &mut open.folder, "Folder of the recording", "a folder");
        if choose_button(ui, "Choose the folder of the recording") {
            *act = Some(SheetAction::PickFolder);
        }
        folder
    });
    if is_first {
        let first = if starts_at_target { &target } else { &program };
        first.request_focus();
    }
    if std::mem::take(&mut open.has_new_target) && target.has_focus() {
        program.request_focus();
    }
    for field in [&target, &program, &arguments, &folder] {
        enter |= field.lost_focus() && ui.input(|i| i.key_pressed(Key::Enter));
        if field.changed() {
            open.problem = None;
        }
    }
    if known.is_some_and(|known| known.is_empty()) {
        let words = "No paired agent offers programs, and this machine has no CUDA device that answers. On the agent: \
                     kinescope-agent serve --live";
        ui.add(Label::new(RichText::new(words).font(small()).color(p.quiet)).wrap());
    }
    field::error_line(ui, open.problem.as_deref());
    ui.add_space(8.0);
    ui.horizontal(|ui| {
        let run = widgets::primary_button(ui, "Run", "Run the program", true);
        if run
            .on_hover_text("Starts the program and follows its recording.")
            .clicked()
            || enter
        {
            *act = Some(SheetAction::Start);
        }
        if ui.button("Cancel").clicked() {
            *act = Some(SheetAction::Close);
        }
    });
}

fn text(ui: &mut Ui, value: &mut String, name: &str, hint: &str) -> Response {
    let width = (ui.available_width() - BUTTON - ui.spacing().item_spacing.x).max(80.0);
    let hint = RichText::new(hint).font(small()).color(palette(ui).quiet);
    let edit = TextEdit::singleline(value)
        .font(mono())
        .desired_width(width)
        .hint_text(hint);
    ui.add(edit).accessible_name(name)
}

fn choose_button(ui: &mut Ui, label: &str) -> bool {
    let button = ui.button("Choose…");
    button.widget_info(|| WidgetInfo::labeled(Role::Button, true, label));
    button.clicked()
}

/// Draws the menu of known targets.
fn choose_target(ui: &mut Ui, known: Option<&[String]>, target: &mut String) {
    let can = known.is_some_and(|known| !known.is_empty());
    let menu = ui.add_enabled_ui(can, |ui| {
        ui.menu_button("Choose…", |ui| {
            for name in known.unwrap_or_default() {
                if ui.button(RichText::new(name).font(mono())).clicked() {
                    target.clone_from(name);
                    ui.close();
                }
            }
        })
        .response
    });
    let menu = menu.inner;
    menu.widget_info(|| WidgetInfo::labeled(Role::Button, can, "Choose the target"));
    menu.on_disabled_hover_text(match known {
        None => "Agents are being asked.",
        Some(_) => "No target is known. Type one, or pair an agent.",
    });
}

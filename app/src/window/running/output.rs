//! The drawing of a program's state and output.

use crate::theme::{Palette, mono, palette, small, strong, widgets};
use crate::window::app::App;
use egui::accesskit::Role;
use egui::{Align, Context, Label, Layout, RichText, ScrollArea, Ui, WidgetInfo, vec2};
use kinescope_session::program_run::{OutputStream, ProgramRun, RunEnd};

/// Size of the sheet at its start, points.
const SIZE: [f32; 2] = [560.0, 240.0];
/// Height of a line, points.
const LINE: f32 = 16.0;

#[derive(Clone, Copy)]
enum OutputAction {
    Stop,
    Open,
    Close,
}

/// Draws the output of the program if it is shown.
pub(in crate::window) fn draw(app: &mut App, ctx: &Context) {
    let Some(shown) = app.program.as_ref().filter(|shown| shown.is_open) else {
        return;
    };
    let run = &shown.run;
    let screen = ctx.content_rect();
    let size = vec2(
        SIZE[0].min(screen.width() - 40.0),
        SIZE[1].min(screen.height() - 120.0).max(80.0),
    );
    let is_shown = app.doc.as_ref().is_some_and(|doc| doc.path == run.request().recording);
    let can_open = run.end().is_some() && !is_shown && run.request().recording.exists();
    let (mut keep, mut act) = (true, None);
    egui::Window::new("Program")
        .id(egui::Id::unique("program-output"))
        .open(&mut keep)
        .collapsible(true)
        .resizable(true)
        .default_pos(screen.right_bottom() - size - vec2(28.0, 84.0))
        .default_size(size)
        .min_size(vec2(280.0, 80.0))
        .show(ctx, |ui| act = body(run, can_open, ui));
    match act {
        Some(OutputAction::Stop) => app.actions.run_command("stop-program"),
        Some(OutputAction::Open) => app.open_program_recording(ctx),
        Some(OutputAction::Close) => keep = false,
        None => {}
    }
    if let Some(shown) = app.program.as_mut().filter(|_| !keep) {
        shown.is_open = false;
    }
}

/// Returns the mark, its colour and the words for the state of a run.
fn describe(run: &ProgramRun, p: &Palette) -> (&'static str, egui::Color32, String) {
    let seconds = run.elapsed().as_secs();
    let time = format!("{}:{:02}", seconds / 60, seconds % 60);
    match run.end() {
        None if run.is_stopping() => ("!", p.warning, format!("Stopping after {time}")),
        None => ("●", p.job, format!("Running for {time}")),
        Some(RunEnd::Code(0)) => ("●", p.quiet, format!("Ended after {time}, exit code 0")),
        // What the user asked for is no error.
        Some(end) if run.is_stopping() => ("●", p.quiet, format!("Stopped after {time}, {}", end.describe())),
        Some(end) => ("▲", p.error, format!("Ended after {time}, {}", end.describe())),
    }
}

fn body(run: &ProgramRun, can_open: bool, ui: &mut Ui) -> Option<OutputAction> {
    let p = palette(ui);
    let mut act = None;
    ui.horizontal(|ui| {
        let (mark, ink, state) = describe(run, p);
        ui.label(RichText::new(mark).font(small()).color(ink));
        ui.label(RichText::new(state).font(strong()).color(p.text));
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            if run.end().is_none() {
                let (words, label, hover) = match run.is_stopping() {
                    false => (
                        "Stop",
                        "Stop the program",
                        "Ask the program to end; its recording is finished",
                    ),
                    true => (
                        "End at once",
                        "End the program at once",
                        "Its recording ends at its last commit",
                    ),
                };
                let button = ui.button(words);
                button.widget_info(|| WidgetInfo::labeled(Role::Button, true, label));
                if button.on_hover_text(hover).clicked() {
                    act = Some(OutputAction::Stop);
                }
            } else {
                if ui.button("Close").clicked() {
                    act = Some(OutputAction::Close);
                }
                if can_open && ui.button("Open recording").clicked() {
                    act = Some(OutputAction::Open);
                }
            }
        });
    });
    let request = run.request();
    let command = format!("{} on {}", request.describe(), request.target);
    let label = Label::new(RichText::new(&command).font(mono()).color(p.quiet)).truncate();
    ui.add(label).on_hover_text(request.recording.display().to_string());
    widgets::rule(ui);
    let height = ui.available_height().max(LINE * 2.0);
    run.with_state(|state| {
        if state.lines.is_empty() {
            let words = match state.end {
                None => "The program has printed nothing yet.",
                Some(_) => "The program printed nothing.",
            };
            ui.label(RichText::new(words).color(p.quiet));
            return;
        }
        ScrollArea::both()
            .auto_shrink(false)
            .max_height(height)
            .stick_to_bottom(true)
            .show_rows(ui, LINE, state.lines.len(), |ui, rows| {
                for line in state.lines.range(rows) {
                    let mark = match line.stream {
                        OutputStream::Output => "",
                        OutputStream::Error => "! ",
                    };
                    let text = RichText::new(format!("{mark}{}", line.text)).font(mono()).color(p.text);
                    ui.add(Label::new(text).extend());
                }
            });
    });
    act
}

//! The outline of a WebAssembly run: its program, its target, its copies by state.

use crate::panels::common::actions::{CopyRequest, UiActions};
use crate::panels::common::copy_state::{state_colour, state_mark};
use crate::theme::palette;
use crate::theme::widgets::{StyledText, list_row, section};
use egui::Ui;
use kinescope_session::text;
use kinescope_session::wasm_run::{CopyState, RunCopies};

/// Draws the sections.
pub(super) fn ui(actions: &mut UiActions, ui: &mut Ui, copies: &RunCopies) {
    let run = copies.run();
    section(ui, "Program");
    let name = match run.program_name() {
        "" => "program",
        name => name,
    };
    let bytes = StyledText::mono(text::bytes(run.program().len() as u64));
    let row = list_row(ui, "outline program", false, 0.0, StyledText::body(name), bytes);
    if row.on_hover_text("show its text in WebAssembly").clicked() {
        actions.run_command("show-wasm");
    }
    states(actions, ui, copies);
    let target = run.target();
    if target.name.is_empty() {
        return;
    }
    section(ui, "Recorded on");
    let copies = text::count_noun(target.copies.into(), "copy", "copies");
    let name = StyledText::body(&target.name);
    let times = StyledText::mono(format!("×{}", text::count(target.copies.into())));
    let row = list_row(ui, "outline target", false, 0.0, name, times);
    let hover = format!("{}, {copies} at once\nshow how to replay the run", target.name);
    if row.on_hover_text(hover).clicked() {
        actions.run_command("show-replay");
    }
}

/// Draws the copies by state.
fn states(actions: &mut UiActions, ui: &mut Ui, copies: &RunCopies) {
    let p = palette(ui);
    section(ui, "Copies");
    let all = copies.run().copies().len() as u64;
    let mut rows = vec![("all".to_owned(), None, p.text, all)];
    for state in CopyState::ALL {
        let name = format!("{} {}", state_mark(state), state.name());
        rows.push((name, Some(state), state_colour(p, state), copies.count(state)));
    }
    for (name, state, ink, count) in rows {
        if count == 0 && state.is_some() {
            continue;
        }
        let label = format!("outline copies {}", state.map_or("all", CopyState::name));
        let left = StyledText::body(name).colour(ink);
        let right = StyledText::mono(text::count(count));
        let row = list_row(ui, &label, false, 0.0, left, right);
        if row.on_hover_text("list them in WebAssembly").clicked() {
            actions.show_copy(CopyRequest::State(state));
        }
    }
}

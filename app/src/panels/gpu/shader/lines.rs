//! The lines of the code: clauses with their headers, tuples with both operations, each kind of operand in its colour.

use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::theme::columns::{Column, Table};
use crate::theme::widgets::paint_text;
use crate::theme::{Palette, mono, mono_small, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Color32, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::Document;
use kinescope_session::code::{Line, Listing};
use trace_core::GpuVa;

/// Name of the table in the workspace.
const TABLE: &str = "code";

/// Returns the columns: an address, and the two operations of a tuple.
fn columns() -> [Column; 3] {
    [
        // With little room, the tuples start under the address.
        Column::new("address", "address", 104.0).compact(24.0),
        Column::new("fma", "FMA", 250.0).stretch(1.0),
        Column::new("add", "ADD", 250.0).stretch(1.0),
    ]
}

/// Positions of the columns on the screen, points.
struct Columns {
    /// The address of a clause; `None` where the column is hidden.
    address: Option<f32>,
    /// The name of a clause.
    label: f32,
    /// The operations, if their columns are shown.
    operations: [Option<Rect>; 2],
}

impl Columns {
    fn new(table: &Table, row: Rect) -> Self {
        let address = table.cell("address", row).map(|c| c.left() + 6.0);
        let operations = ["fma", "add"].map(|id| table.cell(id, row));
        let first = operations.iter().flatten().map(Rect::left).fold(f32::MAX, f32::min);
        let label = match address {
            // A clause has a line of its own: its name follows its whole address.
            Some(address) if table.is_compact("address") || first == f32::MAX => address + 110.0,
            Some(_) => first,
            None => row.left() + MARGIN + 4.0,
        };
        Self {
            address,
            label,
            operations,
        }
    }
}

/// Width of the margin before a clause, points.
const MARGIN: f32 = 14.0;
/// Width below which an operation is narrow, points.
const NARROW: f32 = 256.0;
/// Minimum width of an operation's name before its operands, characters: normal, and with little room.
const NAME: (usize, usize) = (15, 12);

/// Draws the lines.
pub fn ui(doc: &Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, job: u32, listing: &Listing) {
    let p = palette(ui);
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns());
    let mut list = view.list;
    let mut did = LineActions {
        steps: view.thread.open && view.thread.ran(listing),
        ..LineActions::default()
    };
    let at = view.thread.at().filter(|_| did.steps);
    list.show(ui, "Shader", listing.lines.len() as u64, |ui, row, rect| {
        let Some(line) = listing.lines.get(row as usize) else {
            return;
        };
        let here = line.clause() == view.clause;
        let hit = view.hits.1.binary_search(&(row as usize)).is_ok();
        let c = Columns::new(&table, rect);
        match line {
            Line::Clause { clause, header } => {
                head_row(ui, &c, rect, listing, (*clause, header), here, &mut did);
            }
            Line::Tuple {
                clause,
                tuple,
                fma,
                add,
            } => tuple_row(ui, &c, rect, listing, (*clause, *tuple), [fma, add], &mut did),
        }
        let address = listing.address(line.clause());
        if let (Line::Clause { clause, .. }, Some(a)) = (line, address) {
            let breaks = view.thread.stops.clauses.contains(&a);
            if margin(ui, actions, rect, &listing.label(*clause), breaks) {
                did.stop = Some(a);
            }
        }
        if at.is_some() && at == address {
            let bar = Rect::from_min_size(rect.min, vec2(3.0, rect.height()));
            ui.painter().rect_filled(bar, 0.0, p.job);
        } else if here {
            let bar = Rect::from_min_size(rect.min, vec2(2.0, rect.height()));
            ui.painter().rect_filled(bar, 0.0, p.text);
        }
        if hit {
            let mark = Rect::from_min_size(pos2(rect.left() + 5.0, rect.center().y - 3.0), vec2(4.0, 6.0));
            let ink = if view.hit == Some(row as usize) {
                p.text
            } else {
                p.quiet
            };
            ui.painter().rect_filled(mark, 1.0, ink);
        }
    });
    table.finish(ui, actions.tables.state(TABLE));
    view.list = list;
    if let Some(clause) = did.clicked {
        view.clause = clause;
        ui.memory_mut(|m| m.request_focus(keys_id()));
    }
    if let Some(to) = did.follow {
        view.go_to_clause(to.1, false);
        view.branch_history.push(to.0);
        ui.memory_mut(|m| m.request_focus(keys_id()));
    }
    if let Some(clause) = did.stop {
        view.thread.stops.toggle(clause);
    }
    if let Some((clause, forward)) = did.reach {
        super::thread::step_to_clause(view, clause, forward);
    }
    if let Some(va) = did.bytes {
        show_memory(doc, actions, job, va);
    }
}

/// Draws the margin before a clause: a click there sets or removes a breakpoint. Returns `true` if it was clicked.
fn margin(ui: &mut Ui, actions: &UiActions, rect: Rect, label: &str, breaks: bool) -> bool {
    let p = palette(ui);
    let place = Rect::from_min_size(rect.min, vec2(MARGIN, rect.height()));
    let r = ui.interact(place, ui.scope_id().with(("break", label)), Sense::CLICK);
    r.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, breaks, format!("Breakpoint at {label}")));
    let dot = pos2(rect.left() + 8.0, rect.center().y);
    if breaks {
        ui.painter().circle_filled(dot, 4.0, p.error);
    } else if r.hovered() {
        ui.painter().circle_stroke(dot, 3.5, Stroke::new(1.0, p.error));
    }
    r.on_hover_cursor(egui::CursorIcon::PointingHand)
        .on_hover_text(actions.tooltip("toggle-break", "set or clear a breakpoint"))
        .clicked()
}

/// The user's actions in this frame.
#[derive(Default)]
struct LineActions {
    /// A clause was clicked.
    clicked: Option<usize>,
    /// A link was followed, from a clause to another.
    follow: Option<(usize, usize)>,
    /// The bytes at an address were requested.
    bytes: Option<GpuVa>,
    /// A breakpoint was set or removed, at the address of a clause.
    stop: Option<GpuVa>,
    /// The thread must go to a clause: forward or back.
    reach: Option<(GpuVa, bool)>,
    /// Whether a thread steps along this code.
    steps: bool,
}

/// Draws a line's background, and handles its clicks and its menu.
fn line_background(
    ui: &mut Ui,
    rect: Rect,
    listing: &Listing,
    (clause, part): (usize, usize),
    name: &str,
    fill: Option<Color32>,
    did: &mut LineActions,
) -> egui::Response {
    let p = palette(ui);
    let r = ui.interact(rect, ui.scope_id().with(("line", clause, part)), Sense::CLICK);
    r.widget_info(|| WidgetInfo::labeled(Role::Row, true, name));
    if let Some(fill) = fill {
        ui.painter().rect_filled(rect, 0.0, fill);
    }
    if r.hovered() {
        ui.painter().rect_filled(rect, 0.0, p.hover);
    }
    if r.clicked() {
        did.clicked = Some(clause);
    }
    r.context_menu(|ui| {
        let label = listing.label(clause);
        if ui.button(format!("Copy {label}")).clicked() {
            ui.ctx().copy_text(listing.text(clause..clause + 1));
            ui.close();
        }
        if ui.button("Copy all of the code").clicked() {
            ui.ctx().copy_text(listing.text(0..listing.begins.len()));
            ui.close();
        }
        if let Some(at) = listing.address(clause) {
            if ui.button(format!("Copy its address {at:#x}")).clicked() {
                ui.ctx().copy_text(format!("{at:#x}"));
                ui.close();
            }
            ui.separator();
            if ui.button("Set or clear breakpoint").clicked() {
                did.stop = Some(at);
                ui.close();
            }
            if did.steps {
                for (words, forward) in [("Thread forward to here", true), ("Thread back to here", false)] {
                    if ui.button(words).clicked() {
                        did.reach = Some((at, forward));
                        ui.close();
                    }
                }
            }
            if ui.button("Show its bytes").clicked() {
                did.bytes = Some(at);
                ui.close();
            }
        }
    });
    r
}

fn head_row(
    ui: &mut Ui,
    c: &Columns,
    rect: Rect,
    listing: &Listing,
    (clause, header): (usize, &str),
    here: bool,
    did: &mut LineActions,
) {
    let p = palette(ui);
    let label = listing.label(clause);
    let fill = if here { p.selection } else { p.raised };
    line_background(ui, rect, listing, (clause, 0), &label, Some(fill), did);
    ui.painter().hline(rect.x_range(), rect.top(), Stroke::new(1.0, p.line));
    let y = rect.center().y;
    let at = listing.address(clause).unwrap_or(GpuVa::ZERO);
    if let Some(address) = c.address {
        let place = Rect::from_x_y_ranges(address..=c.label - 6.0, rect.y_range());
        paint_text(ui, place, Align2::LEFT_CENTER, &format!("{at:#x}"), mono(), p.quiet);
    }
    let name = ui
        .painter()
        .text(pos2(c.label, y), Align2::LEFT_CENTER, &label, mono(), p.text);
    // The sources of branches to it are at the right.
    let mut right = rect.right() - 10.0;
    let reached = listing.code.clauses.get(clause).is_none_or(|x| x.reachable);
    let sources = listing.sources.get(&clause).map_or(&[][..], Vec::as_slice);
    if !reached {
        let report = ui
            .painter()
            .text(pos2(right, y), Align2::RIGHT_CENTER, "unreachable", small(), p.warning);
        right = report.left() - 10.0;
    }
    // Of several branches to one clause, the last is the nearest.
    for from in sources.iter().rev().take(3) {
        let text = listing.label(*from);
        let galley = ui.painter().layout_no_wrap(text.clone(), mono(), p.read);
        let place = Rect::from_min_max(pos2(right - galley.size().x, rect.top()), pos2(right, rect.bottom()));
        if link(ui, place, &text, &format!("from {text} to {label}"), (clause, *from)) {
            did.follow = Some((clause, *from));
        }
        right = place.left() - 8.0;
    }
    if !sources.is_empty() {
        let more = sources.len().saturating_sub(3);
        let word = if more > 0 {
            format!("from {more} more and")
        } else {
            "from".into()
        };
        let report = ui
            .painter()
            .text(pos2(right, y), Align2::RIGHT_CENTER, word, small(), p.quiet);
        right = report.left() - 10.0;
    }
    let rest = Rect::from_min_max(pos2(name.right() + 14.0, rect.top()), pos2(right, rect.bottom()));
    paint_text(ui, rest, Align2::LEFT_CENTER, header, mono_small(), p.quiet);
}

fn tuple_row(
    ui: &mut Ui,
    c: &Columns,
    rect: Rect,
    listing: &Listing,
    (clause, tuple): (usize, usize),
    [fma, add]: [&str; 2],
    did: &mut LineActions,
) {
    let p = palette(ui);
    let name = format!("{} {tuple}: {fma} {add}", listing.label(clause));
    let r = line_background(ui, rect, listing, (clause, tuple + 1), &name, None, did);
    if let Some(first) = c.operations.iter().flatten().next() {
        let number = pos2(first.left() - 14.0, rect.center().y);
        ui.painter()
            .text(number, Align2::RIGHT_CENTER, tuple.to_string(), mono_small(), p.quiet);
    }
    let mut cut = false;
    for (cell, text) in c.operations.into_iter().zip([fma, add]) {
        cut |= cell.is_none_or(|cell| operation(ui, cell, text, listing, (clause, tuple), did));
    }
    if cut || fma.contains("/*") || add.contains("/*") {
        r.on_hover_text(RichText::new(format!("{fma}\n{add}")).font(mono()));
    }
}

/// Draws a link within a line; returns `true` if it was clicked.
fn link(ui: &mut Ui, place: Rect, text: &str, label: &str, id: (usize, usize)) -> bool {
    let p = palette(ui);
    let r = ui.interact(
        place,
        ui.scope_id().with(("to", id, place.left() as i32)),
        Sense::click(),
    );
    r.widget_info(|| WidgetInfo::labeled(Role::Link, true, label));
    let width = paint_text(ui, place, Align2::LEFT_CENTER, text, mono(), p.read);
    if r.hovered() {
        let x = place.left()..=place.left() + width;
        ui.painter().hline(x, place.center().y + 7.0, Stroke::new(1.0, p.read));
    }
    r.on_hover_cursor(egui::CursorIcon::PointingHand).clicked()
}

/// Kind of a part of an operation's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// The operation that does nothing.
    Nop,
    /// Bits that are no operation.
    Unknown,
    /// The operation's name with its modifiers.
    Name,
    /// A register that the operation reads.
    Register,
    /// A register that the operation writes.
    Written,
    /// A pushed uniform, or a value that the hardware gives each lane or core.
    Uniform,
    /// A constant of the clause, or a number in the operation itself.
    Constant,
    /// The result of a unit in this tuple or the one before.
    Passed,
    /// A location in the code.
    Place,
    /// Text between the other parts.
    Between,
}

/// Returns the parts of an operation's text, in order, without the comment on a constant's meaning as a float.
#[must_use]
pub fn split_tokens(text: &str) -> Vec<(TokenKind, &str)> {
    let text = text.strip_prefix(['*', '+']).unwrap_or(text);
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    if name == "unknown" {
        return vec![(TokenKind::Unknown, text)];
    }
    if name == "NOP" {
        return vec![(TokenKind::Nop, name)];
    }
    let mut out = vec![(TokenKind::Name, name)];
    for (n, operand) in rest.split(", ").enumerate() {
        if n > 0 {
            out.push((TokenKind::Between, ", "));
        }
        let (bare, behind) = match operand.split_once(" /*") {
            Some((number, comment)) => (number, comment.split_once("*/").map_or("", |c| c.1)),
            None => (operand, ""),
        };
        if n == 0 {
            // The destination: a register, if the result is written to one, and the unit's temporary.
            match bare.split_once(':') {
                Some((register, passed)) => {
                    out.extend([
                        (TokenKind::Written, register),
                        (TokenKind::Between, ":"),
                        (TokenKind::Passed, passed),
                    ]);
                }
                None => out.push((TokenKind::Passed, bare)),
            }
            continue;
        }
        let digit = |t: &str| t.starts_with(|c: char| c.is_ascii_digit());
        let kind = match bare {
            b if b.starts_with("clause_") => TokenKind::Place,
            b if b.starts_with('@') || b.strip_prefix('r').is_some_and(digit) => TokenKind::Register,
            b if b.strip_prefix('u').is_some_and(digit) => TokenKind::Uniform,
            b if b.starts_with('t') => TokenKind::Passed,
            b if b.starts_with("0x") || b.starts_with('#') || b.contains(':') => TokenKind::Constant,
            "" => TokenKind::Between,
            _ => TokenKind::Uniform,
        };
        out.push((kind, bare));
        if !behind.is_empty() {
            out.push((TokenKind::Between, behind));
        }
    }
    out
}

fn ink(p: &Palette, kind: TokenKind) -> Color32 {
    match kind {
        TokenKind::Nop | TokenKind::Passed | TokenKind::Between => p.quiet,
        TokenKind::Unknown => p.warning,
        TokenKind::Name | TokenKind::Constant => p.text,
        TokenKind::Register | TokenKind::Place => p.read,
        TokenKind::Written => p.write,
        TokenKind::Uniform => p.job,
    }
}

/// Paints an operation; returns `true` if it was cut.
fn operation(
    ui: &mut Ui,
    cell: Rect,
    text: &str,
    listing: &Listing,
    id: (usize, usize),
    did: &mut LineActions,
) -> bool {
    let p = palette(ui);
    let letter = ui
        .painter()
        .layout_no_wrap("0".into(), mono(), p.text)
        .size()
        .x
        .max(1.0);
    let mut x = cell.left();
    for (kind, part) in split_tokens(text) {
        let wide = part.chars().count() as f32 * letter;
        let place = Rect::from_min_max(
            pos2(x, cell.top()),
            pos2((x + wide + 1.0).min(cell.right()), cell.bottom()),
        );
        if x >= cell.right() - letter {
            let dots = Rect::from_min_max(pos2(cell.right() - letter, cell.top()), cell.max);
            paint_text(ui, dots, Align2::LEFT_CENTER, "…", mono(), p.quiet);
            return true;
        }
        let to = if kind == TokenKind::Place {
            listing.find_label(part.split(' ').next().unwrap_or(part))
        } else {
            None
        };
        match to {
            Some(to) => {
                if link(ui, place, part, &format!("branch to {part}"), id) {
                    did.follow = Some((id.0, to));
                }
            }
            None if kind == TokenKind::Unknown => {
                let message = format!("! {part}");
                paint_text(
                    ui,
                    Rect::from_min_max(place.min, cell.max),
                    Align2::LEFT_CENTER,
                    &message,
                    mono(),
                    p.warning,
                );
            }
            None => {
                // A part that is cut ends in an ellipsis.
                paint_text(ui, place, Align2::LEFT_CENTER, part, mono(), ink(p, kind));
            }
        }
        if x + wide > cell.right() + 1.0 {
            return true;
        }
        x += wide;
        if kind == TokenKind::Name {
            let name = if cell.width() < NARROW { NAME.1 } else { NAME.0 };
            x += (name as f32 * letter - wide).max(letter);
        }
    }
    false
}

/// Shows bytes of the job's memory.
pub(super) fn show_memory(doc: &Document, actions: &mut UiActions, job: u32, va: GpuVa) {
    let space = doc.derived.jobs.get(job as usize).and_then(|j| j.chain.space);
    actions.show_memory_at_top(space, va, 16);
    actions.run_command("show-memory");
}

/// Returns the id that has the keyboard while it moves along the clauses.
pub(super) fn keys_id() -> egui::Id {
    egui::Id::unique("shader-keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_classified_by_kind() {
        use TokenKind::*;
        let kinds = |t: &str| {
            let all = split_tokens(t).into_iter().filter(|(k, _)| *k != Between);
            all.map(|(k, t)| format!("{k:?} {t}")).collect::<Vec<_>>()
        };
        assert_eq!(
            kinds("*LSHIFT_OR.i32 r0:t0, r60, #0, 0x00000002 /* 0.000000 */"),
            [
                "Name LSHIFT_OR.i32",
                "Written r0",
                "Passed t0",
                "Register r60",
                "Constant #0",
                "Constant 0x00000002"
            ]
        );
        assert_eq!(
            kinds("+LOAD.i32 t1, r1, u0.w1, @r1"),
            [
                "Name LOAD.i32",
                "Passed t1",
                "Register r1",
                "Uniform u0.w1",
                "Register @r1"
            ]
        );
        assert_eq!(
            kinds("+BRANCHZ.i16.eq t1, t, clause_7"),
            ["Name BRANCHZ.i16.eq", "Passed t1", "Passed t", "Place clause_7"]
        );
        assert_eq!(kinds("*NOP t0"), ["Nop NOP"]);
        assert_eq!(kinds("+unknown 0xeed00"), ["Unknown unknown 0xeed00"]);
        assert_eq!(
            kinds("+LD_VAR_IMM t1, lane_id.x, index:3, @r0")[2..],
            ["Uniform lane_id.x", "Constant index:3", "Register @r0"]
        );
    }
}

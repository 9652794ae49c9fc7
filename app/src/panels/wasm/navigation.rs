//! Ways between copies, events and lines: the next trap, the last event of a copy, the line of its trap.

use super::view::{Content, LineTarget, View};
use kinescope_session::Document;
use kinescope_session::wasm_run::WasmRunData;

/// Selects the next trapped copy, and goes to the line of its trap.
pub fn go_next_trap(doc: &mut Document, view: &mut View) {
    let Content::Read(data) = view.content.clone() else {
        return;
    };
    if let Some(copy) = data.copies().next_trap(view.copy) {
        go_copy(doc, view, &data, copy);
        view.go_trap(&data, copy);
    }
}

/// Selects a copy here, and its last event everywhere.
pub(super) fn go_copy(doc: &mut Document, view: &mut View, data: &WasmRunData, copy: u32) {
    view.select_copy(copy);
    if let Some(last) = data.copies().copy(copy).and_then(|c| c.events.end.checked_sub(1)) {
        doc.go(last);
        view.seen_jump = doc.jumps;
    }
}

impl View {
    /// Goes to the line of a copy's trap if it is known.
    pub(super) fn go_trap(&mut self, data: &WasmRunData, copy: u32) {
        if let Some(line) = data.trap_line(copy) {
            self.go_line(LineTarget::Trap(line));
        }
    }
}

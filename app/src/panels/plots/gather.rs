//! Background jobs that gather the values of plotted lines, and drop those of lines that are not plotted.

use super::line_names;
use super::view::{Key, View};
use crate::document::Document;
use crate::panels::panel_context::UiActions;
use std::sync::Arc;
use trace_core::registers::Accesses;
use trace_core::values;

/// Requests the values of every line that are neither known nor requested yet.
pub(super) fn gather(doc: &Document, view: &mut View, asks: &mut UiActions) {
    let plots = doc.changes().plots();
    view.values.retain(|line, slot| {
        let keep = plots.iter().any(|(_, l)| l == line);
        if let (false, Some(super::view::WorkState::Pending(_, p))) = (keep, &slot.0) {
            p.cancel();
        }
        keep
    });
    for (_, line) in plots {
        let key: Key = (line.clone(), view.access_filter);
        let slot = view.values.entry(line.clone()).or_default();
        if slot.is_for(&key) {
            continue;
        }
        let (recording, facts) = (Arc::clone(&doc.recording), Arc::clone(&doc.facts));
        let field = line_names::field(doc, line);
        let missing = line.field.is_some() && field.is_none();
        let mine = key.clone();
        let title = format!("collecting the values of {}", line_names::line_name(doc, line));
        let progress = asks.start_work(title, move |progress| {
            let (line, which) = &mine;
            let own = progress.clone();
            let none = Accesses::default();
            let accesses = facts.registers.get(&line.register).map(|f| &f.accesses);
            let found = if missing {
                Err("the register map has no such field".to_owned())
            } else {
                values::collect(
                    &recording,
                    facts.device,
                    line.register,
                    field,
                    accesses.unwrap_or(&none),
                    *which,
                    progress,
                )
                .map_err(|_| "stopped".to_owned())
            };
            Box::new(move |desk| {
                if let Some(slot) = desk.views.plots.values.get_mut(&mine.0) {
                    slot.finish(mine, &own, found);
                }
            })
        });
        slot.start(key, progress);
    }
}

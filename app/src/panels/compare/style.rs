//! Margins, signs and colours of the Compare panel.

use crate::theme::Palette;
use egui::Color32;
use trace_core::diff::ChangeKind;

/// Margin at the sides, points.
pub(super) const SIDE: f32 = 12.0;
/// Returns the sign, the word and the colour of a kind of change of events.
pub(super) fn label_change(p: &Palette, what: ChangeKind) -> (&'static str, &'static str, Color32) {
    match what {
        ChangeKind::Equal => ("=", "equal", p.quiet),
        ChangeKind::Changed => ("≠", "changed", p.error),
        ChangeKind::Deleted => ("−", "only in A", p.only_a),
        ChangeKind::Inserted => ("+", "only in B", p.only_b),
        ChangeKind::MovedFrom => ("↗", "moved away", p.text),
        ChangeKind::MovedTo => ("↘", "moved here", p.text),
    }
}

//! Appearance of pages in the panel: their colours, and a description of their content.

use super::view::ColourBy;
use crate::theme::Palette;
use egui::{Color32, Mesh, Rect, pos2};
use kinescope_session::page_runs::{MappedRun, PageContent, format_rights};
use kinescope_session::page_table_marks::Mark;
use kinescope_session::{Document, text, xref_text};
use trace_core::GpuVa;

/// Returns the colour of pages with a mark.
pub fn mark_colour(p: &Palette, mark: Mark) -> Color32 {
    match mark {
        Mark::MappedTwice => p.warning,
        Mark::Open => p.error,
        Mark::Missing => p.text,
    }
}

/// Returns the colour of a run of pages.
pub fn colour(p: &Palette, by: ColourBy, r: &MappedRun) -> Color32 {
    match by {
        ColourBy::Rights => {
            let base = match r.rights {
                x if x & 4 != 0 && x & 2 != 0 => p.error,
                x if x & 4 != 0 => p.interrupt,
                x if x & 2 != 0 => p.write,
                _ => p.read,
            };
            match r.content {
                PageContent::Data => base,
                PageContent::Zero => mix_colours(base, p.poll, 0.7),
                PageContent::None | PageContent::Elsewhere => base,
            }
        }
        ColourBy::Content => match r.content {
            PageContent::Data => p.job,
            PageContent::Zero => p.poll,
            PageContent::None | PageContent::Elsewhere => p.poll,
        },
    }
}

/// Distance between the lines of a hatch, points.
const HATCH: f32 = 3.0;

/// Paints pages: filled, or hatched if the recording does not hold them. The lines of neighbours meet.
pub fn paint(mesh: &mut Mesh, rect: Rect, ink: Color32, content: PageContent) {
    if content.is_recorded() || rect.width() < 1.5 {
        mesh.add_colored_rect(rect, ink);
        return;
    }
    let mut x = (rect.left() / HATCH).ceil() * HATCH;
    while x < rect.right() {
        let line = Rect::from_min_max(pos2(x, rect.top()), pos2((x + 1.0).min(rect.right()), rect.bottom()));
        mesh.add_colored_rect(line, ink);
        x += HATCH;
    }
}

/// Mixes two colours: 0 is the first, 1 the second.
pub fn mix_colours(a: Color32, b: Color32, part: f32) -> Color32 {
    let m = |x: u8, y: u8| (f32::from(x) * (1.0 - part) + f32::from(y) * part) as u8;
    Color32::from_rgb(m(a.r(), b.r()), m(a.g(), b.g()), m(a.b(), b.b()))
}

/// Describes the content of a run of pages.
pub fn describe_content(doc: &Document, va: GpuVa, end: GpuVa) -> String {
    xref_text::describe_uses(&doc.recording, &doc.derived.page_usage.find_uses(va, end))
}

/// Formats a run's rights as `rw-`, with what the pages are.
pub fn describe_run(r: &MappedRun) -> String {
    format!("{} {}", text::count(r.pages), format_rights(r.rights))
}

//! The legend: the meaning of the map's colours, in one row under it.

use super::ink::{self, CellStyle, Inks};
use super::view::Colour;
use crate::theme::{small, widgets};
use egui::{Align2, Color32, Mesh, Rect, Shape, Stroke, Ui, pos2, vec2};
use kinescope_session::{Document, text};
use trace_core::GpuVa;
use trace_core::addresses::MAX_ENTROPY;

/// Height of the row, points.
pub const HEIGHT: f32 = 26.0;
/// Maximum number of buffers that are named.
const BUFFERS: usize = 12;

/// A writer that puts one item after another along the row.
struct Row<'a> {
    ui: &'a Ui,
    inks: &'a Inks<'a>,
    rect: Rect,
    x: f32,
}

impl Row<'_> {
    fn label(&mut self, words: &str) -> bool {
        let p = self.inks.palette;
        let galley = self.ui.painter().layout_no_wrap(words.to_owned(), small(), p.quiet);
        let wide = galley.size().x;
        if self.x + wide > self.rect.right() - 8.0 {
            return false;
        }
        let at = pos2(self.x, self.rect.center().y - galley.size().y / 2.0);
        self.ui.painter().galley(at, galley, p.quiet);
        self.x += wide + 16.0;
        true
    }

    fn item(&mut self, words: &str, look: CellStyle) -> bool {
        let p = self.inks.palette;
        let galley = self.ui.painter().layout_no_wrap(words.to_owned(), small(), p.quiet);
        if self.x + 16.0 + galley.size().x > self.rect.right() - 8.0 {
            return false;
        }
        let mark = Rect::from_center_size(pos2(self.x + 5.0, self.rect.center().y), vec2(10.0, 10.0));
        let mut mesh = Mesh::default();
        ink::cell(&mut mesh, mark, &look, p.background);
        self.ui.painter().add(Shape::mesh(mesh));
        self.x += 16.0;
        self.label(words)
    }

    fn ramp(&mut self, from: &str, to: &str) {
        let p = self.inks.palette;
        self.label(from);
        self.x -= 8.0;
        let bar = Rect::from_min_size(pos2(self.x, self.rect.center().y - 5.0), vec2(120.0, 10.0));
        let mut mesh = Mesh::default();
        let steps = 30;
        for i in 0..steps {
            let at = bar.left() + bar.width() * i as f32 / steps as f32;
            let part = Rect::from_min_max(pos2(at, bar.top()), pos2(at + bar.width() / steps as f32, bar.bottom()));
            mesh.add_colored_rect(part, ink::ramp(p, f64::from(i) / f64::from(steps - 1)));
        }
        self.ui.painter().add(Shape::mesh(mesh));
        self.x = bar.right() + 8.0;
        self.label(to);
    }
}

fn plain(main: Color32) -> CellStyle {
    CellStyle {
        main,
        second: None,
        unknown: false,
        open: false,
    }
}

/// Draws the legend.
pub fn ui(doc: &Document, ui: &Ui, inks: &Inks<'_>, rect: Rect) {
    let p = inks.palette;
    ui.painter().hline(rect.x_range(), rect.top(), Stroke::new(1.0, p.line));
    let mut row = Row {
        ui,
        inks,
        rect,
        x: rect.left() + 12.0,
    };
    let unknown = CellStyle {
        unknown: true,
        ..plain(p.poll)
    };
    match inks.colour_by {
        Colour::Rights => {
            let all = inks.map.runs.over(&(GpuVa::ZERO..GpuVa::MAX));
            // The usual rights always appear, the others only if they occur.
            for bits in [3, 1, 5, 7, 2, 4, 6, 0] {
                let there = all.bytes.get(bits).is_some_and(|b| *b > 0);
                if there || matches!(bits, 1 | 3 | 5 | 7) {
                    let look = CellStyle {
                        open: bits & 6 == 6,
                        ..plain(ink::rights(p, bits))
                    };
                    row.item(&kinescope_session::page_runs::format_rights(bits as u8), look);
                }
            }
        }
        Colour::Owner => {
            let list = inks.map.owners.list();
            let mut named: Vec<u32> = Vec::new();
            for o in list.iter().take(256) {
                if !named.contains(&o.buffer) && named.len() < BUFFERS {
                    named.push(o.buffer);
                }
            }
            if list.is_empty() {
                row.label("the recording names no buffers here");
            }
            row.item("no buffer", unknown);
            let mut written = 0;
            for b in &named {
                let Some(buffer) = doc.recording.metadata.buffers.get(*b as usize) else {
                    continue;
                };
                if row.x + 250.0 > rect.right()
                    || !row.item(
                        &text::truncate_middle(&buffer.name, 18),
                        plain(ink::owner(inks.map, *b)),
                    )
                {
                    break;
                }
                written += 1;
            }
            let buffers = doc.recording.metadata.buffers.len();
            if written < named.len() || named.len() < buffers.min(256) && named.len() >= BUFFERS {
                row.label("…");
            }
        }
        Colour::Entropy => {
            row.ramp("0", "8 bits per byte");
            row.item("not recorded", unknown);
        }
        Colour::Change => {
            let (first, last) = inks.events;
            if first == last {
                row.item(
                    &format!("all as at event {}", text::count(first)),
                    plain(ink::ramp(p, 0.0)),
                );
            } else {
                row.ramp(
                    &format!("event {}", text::count(first)),
                    &format!("event {}", text::count(last)),
                );
            }
            row.item("not recorded", unknown);
        }
    }
    let several = CellStyle {
        second: Some(p.text),
        ..plain(p.poll)
    };
    row.item("several kinds in a cell", several);
}

/// Formats an entropy, bits a byte.
#[must_use]
pub fn format_bits(value: f64) -> String {
    format!("{:.1}", value * 8.0 / f64::from(MAX_ENTROPY))
}

/// Draws a message across the middle of the map.
pub fn note(ui: &Ui, view: Rect, words: &str) {
    let p = crate::theme::palette(ui);
    let cut = widgets::truncate_middle(ui, view.width() - 24.0, words, &crate::theme::body());
    ui.painter()
        .text(view.center(), Align2::CENTER_CENTER, cut, crate::theme::body(), p.quiet);
}

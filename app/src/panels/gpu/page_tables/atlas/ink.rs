//! The colour of a range of addresses, and whether one colour is enough for it.

use super::view::Colour;
use crate::panels::gpu::page_tables::ColourBy;
use crate::panels::gpu::page_tables::style::{colour, mix_colours, paint};
use crate::theme::Palette;
use egui::{Color32, Mesh, Rect};
use kinescope_session::address_map::AddressMap;
use kinescope_session::page_runs::{MappedRun, PageContent};
use kinescope_session::page_table_marks::{Mark, Span};
use kinescope_session::spaces::SpaceFact;
use std::ops::Range;
use trace_core::GpuVa;
use trace_core::addresses::{MAX_ENTROPY, Pieces, ValueRun, ValueSummary};

/// Colours of buffers: those of M. Okabe and K. Ito (2008), which users with any of the common colour-vision
/// deficiencies can distinguish, without their black.
const OWNERS: [Color32; 7] = [
    Color32::from_rgb(86, 180, 233),
    Color32::from_rgb(230, 159, 0),
    Color32::from_rgb(0, 158, 115),
    Color32::from_rgb(204, 121, 167),
    Color32::from_rgb(240, 228, 66),
    Color32::from_rgb(0, 114, 178),
    Color32::from_rgb(213, 94, 0),
];

/// Returns the colour of a buffer: colours follow in address order, so that neighbours differ.
#[must_use]
pub fn owner(map: &AddressMap, buffer: u32) -> Color32 {
    let place = map.order.get(&buffer).copied().unwrap_or_default() as usize;
    OWNERS.get(place % OWNERS.len()).copied().unwrap_or_default()
}

/// Returns a colour of the ramp for numbers, 0 to 1. Lightness rises with the number on a dark background and falls on
/// a light one, so that it reads without any hue. The hue goes from blue to yellow, which the common deficiencies
/// keep.
#[must_use]
pub fn ramp(p: &Palette, at: f64) -> Color32 {
    let dark = p.background.intensity() < 0.5;
    let stops: [(u8, u8, u8); 5] = if dark {
        [
            (47, 71, 124),
            (86, 104, 138),
            (133, 138, 140),
            (187, 175, 117),
            (255, 231, 92),
        ]
    } else {
        [
            (196, 207, 230),
            (140, 160, 197),
            (104, 119, 152),
            (66, 79, 118),
            (16, 32, 84),
        ]
    };
    let at = at.clamp(0.0, 1.0) * (stops.len() - 1) as f64;
    let of = |n: usize| stops.get(n).map_or(p.poll, |(r, g, b)| Color32::from_rgb(*r, *g, *b));
    mix_colours(of(at as usize), of(at as usize + 1), at.fract() as f32)
}

/// The appearance of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellStyle {
    /// Colour of the largest share.
    pub main: Color32,
    /// Colour of something else in the cell.
    pub second: Option<Color32>,
    /// The value for the colour is unknown: hatched.
    pub unknown: bool,
    /// Both writable and executable: crossed.
    pub open: bool,
}

/// The source of the colours.
pub struct Inks<'a> {
    /// The map.
    pub map: &'a AddressMap,
    /// Meaning of the colours.
    pub colour_by: Colour,
    /// Entropy, if it is known.
    pub entropy: Option<&'a Pieces<ValueRun>>,
    /// Colours.
    pub palette: &'a Palette,
    /// The mark that pages must have to be shown, and its address space, if a mark is chosen.
    pub mark: Option<(&'a SpaceFact, Mark)>,
    /// First and last event of changes.
    pub events: (u64, u64),
}

/// Returns the colour of a combination of rights: read 1, write 2, execute 4.
#[must_use]
pub fn rights(p: &Palette, bits: usize) -> Color32 {
    let run = MappedRun {
        va: GpuVa::ZERO,
        pages: 1,
        rights: bits as u8,
        content: PageContent::Data,
    };
    if bits & 7 == 0 {
        return p.poll;
    }
    colour(p, ColourBy::Rights, &run)
}

impl Inks<'_> {
    /// Returns the next higher address at which something else starts.
    #[must_use]
    pub fn border(&self, va: GpuVa) -> GpuVa {
        let own = self.map.runs.border(va);
        let mark = self.mark.map_or(GpuVa::MAX, |(space, mark)| {
            let spans = space.marks.spans(mark);
            // Spans overlap only if memory is mapped three times or more: then a border may be missed, but no colour.
            let n = spans.partition_point(|s| s.va <= va);
            let ends = n
                .checked_sub(1)
                .and_then(|n| spans.get(n))
                .map(Span::end)
                .filter(|e| *e > va);
            let begins = spans.get(n).map(|s| s.va);
            ends.into_iter().chain(begins).min().unwrap_or(GpuVa::MAX)
        });
        let by = match self.colour_by {
            Colour::Rights => GpuVa::MAX,
            Colour::Owner => self.map.owners.border(va),
            Colour::Entropy => self.entropy.map_or(GpuVa::MAX, |e| e.border(va)),
            Colour::Change => self.map.changes.border(va),
        };
        own.min(mark).min(by)
    }

    /// Returns the colour of a number on the ramp: an entropy directly, an event by its position among the change
    /// events.
    #[must_use]
    pub fn number(&self, value: f64) -> Color32 {
        let at = match self.colour_by {
            Colour::Change => {
                let (first, last) = self.events;
                if last > first {
                    (value - first as f64) / (last - first) as f64
                } else {
                    0.0
                }
            }
            _ => value / f64::from(MAX_ENTROPY),
        };
        ramp(self.palette, at)
    }

    /// Returns the values of a range that the colours show, if they are numbers.
    #[must_use]
    pub fn values(&self, range: &Range<GpuVa>) -> Option<ValueSummary> {
        match self.colour_by {
            Colour::Entropy => self.entropy.map(|e| e.over(range)),
            Colour::Change => Some(self.map.changes.over(range)),
            _ => None,
        }
    }

    /// Returns the appearance of a range; `None` if nothing is mapped.
    #[must_use]
    pub fn cell(&self, range: &Range<GpuVa>) -> Option<CellStyle> {
        let p = self.palette;
        let kinds = self.map.runs.over(range).kinds();
        let (first, _) = *kinds.first()?;
        let mut cell = match self.colour_by {
            Colour::Rights => CellStyle {
                main: rights(p, first),
                second: kinds.get(1).map(|k| rights(p, k.0)),
                unknown: false,
                open: kinds.iter().any(|k| k.0 & 6 == 6),
            },
            Colour::Owner => self.owned(range),
            Colour::Entropy | Colour::Change => self.valued(range),
        };
        // Paler if only a part is mapped.
        let all = range.end.offset_from(range.start).unwrap_or(0).max(1);
        let mapped: u64 = kinds.iter().map(|k| k.1).sum();
        if mapped < all {
            cell.main = mix_colours(cell.main, p.background, 0.45 * (1.0 - mapped as f32 / all as f32));
        }
        if let Some((space, mark)) = self.mark
            && space.marks.find_span(mark, range.start, range.end).is_none()
        {
            cell.main = mix_colours(cell.main, p.background, 0.8);
            cell.second = None;
            cell.open = false;
        }
        Some(cell)
    }

    fn owned(&self, range: &Range<GpuVa>) -> CellStyle {
        let owned = self.map.owners.over(range);
        let mapped = self.map.runs.over(range).mapped_bytes();
        let Some((main, _)) = owned.main else {
            return CellStyle {
                main: self.palette.poll,
                second: None,
                unknown: true,
                open: false,
            };
        };
        let there = self.map.owners.within(range);
        let list = self.map.owners.list().get(there).unwrap_or_default();
        let other = [list.first(), list.last()]
            .into_iter()
            .flatten()
            .find(|o| o.buffer != main);
        let second = match other {
            Some(o) => Some(owner(self.map, o.buffer)),
            None if owned.several => Some(self.palette.text),
            // A page is the smallest unit drawn: its buffer need not fill it.
            None if owned.bytes < mapped && mapped > 4096 => Some(self.palette.poll),
            None => None,
        };
        CellStyle {
            main: owner(self.map, main),
            second,
            unknown: false,
            open: false,
        }
    }

    fn valued(&self, range: &Range<GpuVa>) -> CellStyle {
        let values = self.values(range).filter(|v| v.bytes > 0);
        let Some((v, mean)) = values.and_then(|v| Some((v, v.mean()?))) else {
            return CellStyle {
                main: self.palette.poll,
                second: None,
                unknown: true,
                open: false,
            };
        };
        // The last change counts; older ones are shown as the other colour.
        let main = if self.colour_by == Colour::Change {
            v.max as f64
        } else {
            mean
        };
        let (min, max) = (self.number(v.min as f64), self.number(v.max as f64));
        let apart = |a: Color32, b: Color32| {
            [(a.r(), b.r()), (a.g(), b.g()), (a.b(), b.b())]
                .iter()
                .any(|(a, b)| a.abs_diff(*b) > 40)
        };
        let main = self.number(main);
        let second = [min, max].into_iter().find(|c| apart(*c, main));
        CellStyle {
            main,
            second,
            unknown: false,
            open: false,
        }
    }
}

/// Paints a cell: the largest share fills it, something else takes its lower right corner.
pub fn cell(mesh: &mut Mesh, rect: Rect, look: &CellStyle, ground: Color32) {
    let content = if look.unknown {
        PageContent::None
    } else {
        PageContent::Data
    };
    paint(mesh, rect, look.main, content);
    if let Some(second) = look.second {
        let n = mesh.vertices.len() as u32;
        for at in [rect.right_top(), rect.right_bottom(), rect.left_bottom()] {
            mesh.colored_vertex(at, second);
        }
        mesh.add_triangle(n, n + 1, n + 2);
    }
    // The cross must be readable without its colour.
    if look.open && rect.width() >= 6.0 && rect.height() >= 6.0 {
        let ink = mix_colours(look.main, ground, 0.55);
        let step = 8.0;
        let mut at = 0.0;
        while at < rect.width() + rect.height() {
            let low = |t: f32| {
                let x = (rect.left() + t).min(rect.right());
                let y = rect.top() + (t - (x - rect.left()));
                egui::pos2(x, y.min(rect.bottom()))
            };
            let high = |t: f32| {
                let y = (rect.top() + t).min(rect.bottom());
                let x = rect.left() + (t - (y - rect.top()));
                egui::pos2(x.min(rect.right()), y)
            };
            let n = mesh.vertices.len() as u32;
            for p in [low(at), low(at + 1.5), high(at + 1.5), high(at)] {
                mesh.colored_vertex(p, ink);
            }
            mesh.add_triangle(n, n + 1, n + 2);
            mesh.add_triangle(n, n + 2, n + 3);
            at += step;
        }
    }
}

/// Returns the range of events with changes, over all that is mapped.
#[must_use]
pub fn events(map: &AddressMap) -> (u64, u64) {
    let all = map.changes.over(&(GpuVa::ZERO..GpuVa::MAX));
    if all.bytes == 0 { (0, 0) } else { (all.min, all.max) }
}

/// Returns whether nothing in a range is mapped.
#[must_use]
pub fn is_bare(map: &AddressMap, range: &Range<GpuVa>) -> bool {
    map.runs.within(range).is_empty()
}

/// Returns the first mapped address from here on.
#[must_use]
pub fn next_mapped(map: &AddressMap, va: GpuVa) -> Option<GpuVa> {
    let n = map.runs.list().partition_point(|r| r.end() <= va);
    map.runs.list().get(n).map(|r| r.va.max(va))
}

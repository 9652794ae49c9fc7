//! Summary of a full buffer: range, changes, shape of the values, histogram, picture. A long computation runs off the
//! interface thread; the pixels bound what is drawn.

use super::shape::Shape;
use egui::{Color32, ColorImage};
use kinescope_files::contents::{BufferContents, CHUNK};
use kinescope_files::values;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::ElementType;

/// Elements in a bucket of the finest level.
const FINEST: u64 = 64;
/// Buckets of a level that are merged into one of the next level.
const STEP: usize = 8;
/// Number of bars of the histogram.
pub const BARS: usize = 64;
/// Longest side of a picture, pixels.
const MAX_SIDE: u64 = 1024;

/// The inputs of a summary.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Name of the buffer.
    pub name: String,
    /// Type of the elements.
    pub element: ElementType,
    /// When its content changed last.
    pub stamp: u64,
    /// Shape of the picture.
    pub shape: Option<Shape>,
}

/// Minimum and maximum values of buckets of elements, in levels.
#[derive(Debug, Default)]
pub struct Pyramid {
    levels: Vec<Vec<[f64; 2]>>,
}

/// No value yet.
const NONE: [f64; 2] = [f64::INFINITY, f64::NEG_INFINITY];

fn widen(to: &mut [f64; 2], from: [f64; 2]) {
    to[0] = to[0].min(from[0]);
    to[1] = to[1].max(from[1]);
}

impl Pyramid {
    fn push(&mut self, index: u64, value: f64) {
        if self.levels.is_empty() {
            self.levels.push(Vec::new());
        }
        let Some(finest) = self.levels.first_mut() else { return };
        let at = (index / FINEST) as usize;
        if finest.len() <= at {
            finest.resize(at + 1, NONE);
        }
        if value.is_finite()
            && let Some(b) = finest.get_mut(at)
        {
            widen(b, [value; 2]);
        }
    }

    fn finish(&mut self) {
        while let Some(last) = self.levels.last().filter(|l| l.len() > 2 * STEP) {
            let next = last
                .chunks(STEP)
                .map(|part| {
                    let mut b = NONE;
                    part.iter().for_each(|p| widen(&mut b, *p));
                    b
                })
                .collect();
            self.levels.push(next);
        }
    }

    /// Returns the minimum and maximum of all values.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        let mut all = NONE;
        self.levels.last()?.iter().for_each(|b| widen(&mut all, *b));
        (all[0] <= all[1]).then_some((all[0], all[1]))
    }

    /// Returns the elements `from..to` as points of a line that keeps every extreme: at most `max` buckets of two
    /// points.
    #[must_use]
    pub fn line(&self, from: u64, to: u64, max: usize) -> Vec<[f64; 2]> {
        let mut size = FINEST;
        let mut chosen = None;
        for level in &self.levels {
            chosen = Some((size, level));
            if to.saturating_sub(from) / size <= max as u64 {
                break;
            }
            size = size.saturating_mul(STEP as u64);
        }
        let Some((size, level)) = chosen else { return Vec::new() };
        let first = (from / size) as usize;
        let last = (to.div_ceil(size) as usize).min(level.len());
        let part = level.get(first.min(last)..last).unwrap_or_default();
        let mut out = Vec::with_capacity(part.len() * 2);
        for (i, b) in part.iter().enumerate().filter(|(_, b)| b[0] <= b[1]) {
            let x = (first + i) as f64 * size as f64;
            out.push([x + size as f64 * 0.25, b[0]]);
            out.push([x + size as f64 * 0.75, b[1]]);
        }
        out
    }
}

/// Summary of a full buffer.
#[derive(Debug)]
pub struct Summary {
    /// The inputs that it was computed from.
    pub key: Key,
    /// Elements that differ from the recording.
    pub changed: u64,
    /// Bytes that the recording does not hold.
    pub unknown: u64,
    /// Values that are not finite.
    pub odd: u64,
    /// Values as the user left them.
    pub now: Pyramid,
    /// Values as recorded, where they differ.
    pub was: Option<Pyramid>,
    /// Minimum and maximum value, recorded ones included.
    pub range: Option<(f64, f64)>,
    /// Number of values in each of [`BARS`] equal parts of the range, as the user left them.
    pub bars: Vec<u64>,
    /// The same as recorded, where they differ.
    pub bars_was: Option<Vec<u64>>,
    /// The picture, and how many pixels of the shape one of its pixels stands for along each side.
    pub picture: Option<(ColorImage, u64)>,
}

impl Summary {
    /// Returns the values at both ends of the grey or colour scale.
    #[must_use]
    pub fn levels(&self) -> (f64, f64) {
        match self.now.range() {
            Some((a, b)) if a < b => (a, b),
            Some((a, _)) if a != 0.0 => (a.min(0.0), a.max(0.0)),
            _ => (0.0, 1.0),
        }
    }
}

/// Calls `each` with every element: index, current value, recorded value, whether the bytes differ.
fn pass(
    contents: &BufferContents,
    element: ElementType,
    progress: &Progress,
    mut each: impl FnMut(u64, f64, f64, bool),
) -> Result<u64, Cancelled> {
    let (size, total) = (element.bytes(), contents.buffer().bytes);
    let mut unknown = 0;
    let mut offset = 0;
    while offset < total {
        let len = CHUNK.min(total - offset) as usize;
        let mut was = vec![0; len];
        unknown += contents.read_recorded(offset, &mut was);
        let now = contents.edited().map(|e| {
            let mut now = was.clone();
            e.overlay(offset, &mut now);
            now
        });
        let first = offset / size as u64;
        for (i, old) in was.chunks_exact(size).enumerate() {
            let new = now
                .as_ref()
                .and_then(|n| n.get(i * size..(i + 1) * size))
                .unwrap_or(old);
            let value = |b| values::element_f64(element, b).unwrap_or(f64::NAN);
            let differs = new != old;
            let v = value(new);
            each(first + i as u64, v, if differs { value(old) } else { v }, differs);
        }
        progress.advance(len as u64)?;
        offset += CHUNK;
    }
    Ok(unknown)
}

/// Computes the summary of a buffer. The time grows with its size.
///
/// # Errors
/// Returns [`Cancelled`] if the work was cancelled.
pub fn compute(key: Key, contents: &BufferContents, progress: &Progress) -> Result<Summary, Cancelled> {
    let element = key.element;
    progress.set_total(contents.buffer().bytes.saturating_mul(2));
    let (mut now, mut was) = (Pyramid::default(), Pyramid::default());
    let (mut changed, mut odd) = (0, 0);
    let edited = contents.edited().is_some();
    let unknown = pass(contents, element, progress, |i, v, old, differs| {
        now.push(i, v);
        if edited {
            was.push(i, old);
        }
        changed += u64::from(differs);
        odd += u64::from(!v.is_finite());
    })?;
    now.finish();
    was.finish();
    let mut range = now.range();
    if let (Some(r), Some(w)) = (&mut range, was.range()) {
        *r = (r.0.min(w.0), r.1.max(w.1));
    }
    let (mut bars, mut bars_was) = (vec![0; BARS], vec![0; BARS]);
    if let Some((lo, hi)) = range {
        let place = |v: f64| {
            let part = if hi > lo { (v - lo) / (hi - lo) } else { 0.5 };
            ((part * BARS as f64) as usize).min(BARS - 1)
        };
        pass(contents, element, progress, |_, v, old, _| {
            if let Some(b) = bars.get_mut(place(v)).filter(|_| v.is_finite()) {
                *b += 1;
            }
            if let Some(b) = bars_was.get_mut(place(old)).filter(|_| edited && old.is_finite()) {
                *b += 1;
            }
        })?;
    }
    let mut summary = Summary {
        key,
        changed,
        unknown,
        odd,
        now,
        was: edited.then_some(was),
        range,
        bars,
        bars_was: edited.then_some(bars_was),
        picture: None,
    };
    if let Some(shape) = summary.key.shape {
        summary.picture = Some(picture(contents, element, &shape, summary.levels(), progress)?);
    }
    Ok(summary)
}

fn picture(
    contents: &BufferContents,
    element: ElementType,
    shape: &Shape,
    levels: (f64, f64),
    progress: &Progress,
) -> Result<(ColorImage, u64), Cancelled> {
    let [w, h] = shape.size();
    let every = w.max(h).div_ceil(MAX_SIDE).max(1);
    let (pw, ph) = (w.div_ceil(every) as usize, h.div_ceil(every) as usize);
    let size = element.bytes() as u64;
    let mut pixels = Vec::with_capacity(pw * ph);
    // A window of the content, so that neighbours share one page-table lookup.
    let mut window: [(u64, Vec<u8>); 3] = Default::default();
    let mut level = |channel: usize, index: u64| -> Option<u8> {
        let at = index.checked_mul(size).filter(|a| *a < contents.buffer().bytes)?;
        let (start, bytes) = window.get_mut(channel)?;
        if at < *start || at + size > *start + bytes.len() as u64 {
            *start = at;
            *bytes = contents.part(at, 4096);
        }
        let v = values::element_f64(element, bytes.get((at - *start) as usize..)?)?;
        let part = (v - levels.0) / (levels.1 - levels.0) * 255.0;
        Some(if part.is_nan() { 0 } else { part.clamp(0.0, 255.0) as u8 })
    };
    for y in 0..ph as u64 {
        progress.check()?;
        for x in 0..pw as u64 {
            let pixel = shape.elements(x * every, y * every);
            pixels.push(match pixel {
                None => Color32::TRANSPARENT,
                Some(e) if shape.is_colour() => match (level(0, e[0]), level(1, e[1]), level(2, e[2])) {
                    (Some(r), Some(g), Some(b)) => Color32::from_rgb(r, g, b),
                    _ => Color32::TRANSPARENT,
                },
                Some(e) => level(0, e[0]).map_or(Color32::TRANSPARENT, Color32::from_gray),
            });
        }
    }
    Ok((ColorImage::new([pw, ph], pixels), every))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plot_pyramid_keeps_extremes_and_is_bounded() {
        let mut p = Pyramid::default();
        let n = 1_000_000u64;
        for i in 0..n {
            let v = match i {
                777_777 => 99.0,
                5 => f64::NAN,
                _ => (i % 7) as f64,
            };
            p.push(i, v);
        }
        p.finish();
        assert_eq!(p.range(), Some((0.0, 99.0)));
        for max in [10, 300, 5000] {
            let line = p.line(0, n, max);
            assert!(line.len() <= 2 * (max + 1), "{} points for {max}", line.len());
            assert!(line.iter().any(|q| q[1] == 99.0), "the line keeps the peak");
        }
        let zoomed = p.line(777_000, 778_000, 300);
        assert!(zoomed.iter().any(|q| q[1] == 99.0) && zoomed.len() < 40);
        assert!(p.line(0, 700_000, 300).iter().all(|q| q[1] <= 6.0));
        assert!(Pyramid::default().line(0, 10, 10).is_empty());
    }
}

//! The camera of the map: the part of an address space in view, in a square or in strips, and its moves.

use egui::{Pos2, Rect, Vec2, pos2, vec2};
use kinescope_session::address_map::AddressMap;
use std::ops::Range;
use trace_core::GpuVa;
use trace_core::addresses::hilbert::{self, PAGES_ORDER};

/// Maximum size of a page, as the base-2 logarithm of points.
const CLOSEST: f64 = 6.5;
/// Height of a row of a strip with the space under it, points.
pub const STRIP: f64 = 18.0;
/// Height of the mark of a gap, points.
pub const MARK: f64 = 22.0;

/// The part of Hilbert's square that is in view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SquareCamera {
    /// Column and row of the middle, in pages.
    pub middle: (f64, f64),
    /// Base-2 logarithm of the points of a page's side.
    pub zoom: f64,
    /// Base-2 logarithm of the pages along a side of the square.
    pub order: u32,
}

impl Default for SquareCamera {
    fn default() -> Self {
        Self::new(48)
    }
}

impl SquareCamera {
    /// Creates a camera that shows all of an address space of this many bits, at least 48.
    #[must_use]
    pub fn new(address_bits: u32) -> Self {
        let order = address_bits.min(64).saturating_sub(12).div_ceil(2).max(PAGES_ORDER);
        let half = (1u64 << order) as f64 / 2.0;
        Self {
            middle: (half, half),
            zoom: f64::from(PAGES_ORDER) - f64::from(order) - 10.0,
            order,
        }
    }

    /// Returns the pages along a side of the square.
    #[must_use]
    pub fn side(&self) -> f64 {
        (1u64 << self.order) as f64
    }

    /// Returns the points of a page's side.
    #[must_use]
    pub fn page(&self) -> f64 {
        self.zoom.exp2()
    }

    /// Returns a square of pages on the screen. `at` is its first column and row, `side` its side in pages.
    #[must_use]
    pub fn rect_at(&self, view: Rect, at: (f64, f64), side: f64) -> Rect {
        let (px, c) = (self.page(), view.center());
        let x = f64::from(c.x) + (at.0 - self.middle.0) * px;
        let y = f64::from(c.y) + (at.1 - self.middle.1) * px;
        // What is far outside is not drawn, so 32-bit floats need not be exact there.
        let p = |x: f64, y: f64| pos2(x.clamp(-1e6, 1e6) as f32, y.clamp(-1e6, 1e6) as f32);
        Rect::from_min_max(p(x, y), p(x + side * px, y + side * px))
    }

    /// Returns the column and row under a point.
    #[must_use]
    pub fn point_at(&self, view: Rect, at: Pos2) -> (f64, f64) {
        let (px, by) = (self.page(), at - view.center());
        (
            self.middle.0 + f64::from(by.x) / px,
            self.middle.1 + f64::from(by.y) / px,
        )
    }

    /// Returns the page under a point.
    #[must_use]
    pub fn page_at(&self, view: Rect, at: Pos2) -> Option<u64> {
        let (x, y) = self.point_at(view, at);
        let inside = |v: f64| (0.0..self.side()).contains(&v);
        (inside(x) && inside(y)).then(|| hilbert::index(self.order, x as u64, y as u64))
    }

    /// Zooms by a power of two; what is under the point stays there.
    pub fn zoom(&mut self, view: Rect, about: Pos2, by: f64) {
        let (x, y) = self.point_at(view, about);
        let min = (f64::from(view.size().min_elem().max(16.0)) / self.side()).log2() - 0.5;
        self.zoom = (self.zoom + by).clamp(min, CLOSEST);
        let (a, b) = self.point_at(view, about);
        self.middle.0 += x - a;
        self.middle.1 += y - b;
        self.clamp();
    }

    /// Moves by points.
    pub fn pan(&mut self, by: Vec2) {
        self.middle.0 -= f64::from(by.x) / self.page();
        self.middle.1 -= f64::from(by.y) / self.page();
        self.clamp();
    }

    fn clamp(&mut self) {
        self.middle.0 = self.middle.0.clamp(0.0, self.side());
        self.middle.1 = self.middle.1.clamp(0.0, self.side());
    }

    /// Shows the smallest aligned square that holds a range of addresses.
    pub fn fit(&mut self, view: Rect, range: &Range<GpuVa>) {
        let (first, last) = (range.start.page(), range.end.saturating_sub(1).max(range.start).page());
        let level = (0..self.order)
            .find(|l| first >> (2 * l) == last >> (2 * l))
            .unwrap_or(self.order);
        let (x, y) = hilbert::place(self.order - level, first >> (2 * level));
        let side = (1u64 << level) as f64;
        self.middle = ((x as f64 + 0.5) * side, (y as f64 + 0.5) * side);
        let room = f64::from(view.size().min_elem().max(16.0)) * 0.94;
        self.zoom = (room / side).log2().min(CLOSEST);
    }

    /// Returns the middle of a page on the screen.
    #[must_use]
    pub fn point_of(&self, view: Rect, va: GpuVa) -> Pos2 {
        let (x, y) = hilbert::place(self.order, va.page());
        self.rect_at(view, (x as f64, y as f64), 1.0).center()
    }

    /// Centres a page.
    pub fn centre(&mut self, va: GpuVa) {
        let (x, y) = hilbert::place(self.order, va.page());
        self.middle = (x as f64 + 0.5, y as f64 + 0.5);
    }
}

/// The part of the strips that is in view.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StripsCamera {
    /// Base-2 logarithm of the points of a page.
    pub zoom: f64,
    /// Points from the start of the strips to the upper border of the view.
    pub top: f64,
}

/// Layout of the strips: each island in rows of its own.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Points of a page.
    pub page: f64,
    /// Pages of a row.
    pub per_row: u64,
    /// Start of the mark of each island, points.
    pub tops: Vec<f64>,
    /// End of the layout, points.
    pub total: f64,
}

impl Layout {
    /// Lays out strips of this width.
    #[must_use]
    pub fn new(map: &AddressMap, zoom: f64, width: f32) -> Self {
        let page = zoom.exp2();
        let per_row = (f64::from(width.max(16.0)) / page)
            .floor()
            .clamp(1.0, (1u64 << 36) as f64) as u64;
        let mut total = 0.0;
        let mut tops = Vec::with_capacity(map.islands.len());
        for i in &map.islands {
            tops.push(total);
            let pages = (i.range.end - i.range.start).div_ceil(4096);
            total += MARK + pages.div_ceil(per_row) as f64 * STRIP;
        }
        Self {
            page,
            per_row,
            tops,
            total,
        }
    }

    /// Returns the island and row of an address, and its offset in the row, pages. An address in no island gives the
    /// next island.
    #[must_use]
    pub fn row(&self, map: &AddressMap, va: GpuVa) -> Option<(usize, u64, u64)> {
        let n = map
            .islands
            .partition_point(|i| i.range.end <= va)
            .min(map.islands.len().checked_sub(1)?);
        let island = map.islands.get(n)?;
        let last = island.range.end.saturating_sub(1).max(island.range.start);
        let page = (va.clamp(island.range.start, last) - island.range.start) >> 12;
        Some((n, page / self.per_row, page % self.per_row))
    }

    /// Returns where a row of an island starts, points.
    #[must_use]
    pub fn row_top(&self, island: usize, row: u64) -> f64 {
        self.tops.get(island).copied().unwrap_or_default() + MARK + row as f64 * STRIP
    }

    /// Returns the address at a position: points from the left of the bars and from the start of the strips. A mark
    /// gives its island's first byte; right of a row's end and past all rows there is none.
    #[must_use]
    pub fn at(&self, map: &AddressMap, x: f64, y: f64) -> Option<GpuVa> {
        let n = self.tops.partition_point(|t| *t <= y).checked_sub(1)?;
        let island = map.islands.get(n)?;
        let row = (y - self.tops.get(n)? - MARK) / STRIP;
        if row < 0.0 {
            return Some(island.range.start);
        }
        let column = (x / self.page).floor();
        if column < 0.0 || column >= self.per_row as f64 {
            return None;
        }
        let page = (row as u64).checked_mul(self.per_row)?.checked_add(column as u64)?;
        let va = island.range.start.checked_add(page.checked_mul(4096)?)?;
        (va < island.range.end).then_some(va)
    }
}

/// Returns the zoom at which the longest island fills one row.
fn farthest(map: &AddressMap, bars: Rect) -> f64 {
    let lengths = map.islands.iter().map(|i| i.range.end - i.range.start);
    let pages = lengths.max().unwrap_or(4096) / 4096;
    (f64::from(bars.width().max(16.0)) / pages.max(1) as f64).log2()
}

impl StripsCamera {
    /// Zooms by a power of two; the row under the point stays at its height.
    pub fn zoom(&mut self, map: &AddressMap, bars: Rect, about: Pos2, by: f64) {
        let before = Layout::new(map, self.zoom, bars.width());
        let y = f64::from(about.y - bars.top()).clamp(0.0, f64::from(bars.height()));
        let x = f64::from((about.x - bars.left()).clamp(0.0, bars.width() - 1.0));
        let under = before
            .at(map, x, self.top + y)
            .or_else(|| before.at(map, 0.0, self.top + y));
        let min = farthest(map, bars).min(CLOSEST);
        self.zoom = (self.zoom + by).clamp(min, CLOSEST);
        let now = Layout::new(map, self.zoom, bars.width());
        if let Some((island, row, _)) = under.and_then(|va| now.row(map, va)) {
            self.top = now.row_top(island, row) + STRIP / 2.0 - y;
        }
        self.clamp(&now, bars);
    }

    /// Keeps the view where there is content.
    pub fn clamp(&mut self, layout: &Layout, bars: Rect) {
        let max = (layout.total - f64::from(bars.height())).max(0.0);
        self.top = self.top.clamp(0.0, max);
    }

    /// Shows all that is mapped: as close as all rows fit, or else from the start with every island in one row.
    pub fn fit(&mut self, map: &AddressMap, bars: Rect) {
        let min = farthest(map, bars).min(4.0);
        let (mut low, mut high) = (min, 4.0f64.max(min));
        for _ in 0..24 {
            let middle = (low + high) / 2.0;
            if Layout::new(map, middle, bars.width()).total <= f64::from(bars.height()) {
                low = middle;
            } else {
                high = middle;
            }
        }
        (self.zoom, self.top) = (low, 0.0);
    }

    /// Moves the view so that an address is in the upper third.
    pub fn centre(&mut self, map: &AddressMap, bars: Rect, va: GpuVa) {
        let layout = Layout::new(map, self.zoom, bars.width());
        if let Some((island, row, _)) = layout.row(map, va) {
            self.top = layout.row_top(island, row) - f64::from(bars.height()) / 3.0;
        }
        self.clamp(&layout, bars);
    }

    /// Returns the middle of a page on the screen.
    #[must_use]
    pub fn point_of(&self, map: &AddressMap, layout: &Layout, bars: Rect, va: GpuVa) -> Option<Pos2> {
        let (island, row, column) = layout.row(map, va)?;
        let x = f64::from(bars.left()) + (column as f64 + 0.5) * layout.page;
        let y = f64::from(bars.top()) + layout.row_top(island, row) - self.top + (STRIP - 4.0) / 2.0;
        Some(pos2(x as f32, y.clamp(-1e6, 1e6) as f32))
    }
}

/// Returns the zoom for a scroll of this many points: the room between pointer and border is not known here.
#[must_use]
pub fn wheel(points: f32) -> f64 {
    f64::from(points) / 120.0
}

/// Returns the rectangle of the bars, right of the addresses of their rows.
#[must_use]
pub fn bars(view: Rect) -> Rect {
    Rect::from_min_max(view.min + vec2(122.0, 4.0), view.max - vec2(10.0, 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::addresses::{MapRun, Pieces, find_islands};
    use trace_core::mmu::Rights;
    use trace_core::{GpuVa, PhysAddr};

    fn map(runs: &[(u64, u64)]) -> AddressMap {
        let run = |(va, pages): &(u64, u64)| MapRun {
            va: GpuVa::new(*va),
            pa: PhysAddr::new(*va),
            pages: *pages,
            rights: Rights::RW,
            attributes: 0,
            shared: 0,
        };
        let runs: Vec<MapRun> = runs.iter().map(run).collect();
        AddressMap {
            islands: find_islands(&runs, 512),
            runs: Pieces::new(runs),
            ..AddressMap::default()
        }
    }

    const VIEW: Rect = Rect {
        min: pos2(100.0, 50.0),
        max: pos2(900.0, 650.0),
    };

    #[test]
    fn square_map_zooms_about_the_pointer_to_one_page() {
        let mut s = SquareCamera::default();
        s.fit(VIEW, &GpuVa::new_range(0..1 << 48));
        for about in [pos2(400.0, 300.0), pos2(240.0, 600.0)] {
            s.fit(VIEW, &GpuVa::new_range(0..1 << 48));
            let (x, y) = s.point_at(VIEW, about);
            assert!(s.page_at(VIEW, about).is_some());
            for _ in 0..200 {
                s.zoom(VIEW, about, 0.17);
                let (a, b) = s.point_at(VIEW, about);
                assert!((a - x).abs() < 1e-3 && (b - y).abs() < 1e-3, "{s:?}");
            }
            assert!(s.page() > 64.0, "a page is {} points", s.page());
            for _ in 0..400 {
                s.zoom(VIEW, about, -0.17);
            }
            assert!(s.page() * s.side() < 600.0);
        }
        s.fit(VIEW, &GpuVa::new_range(0x4000_0000..0x4000_4000));
        assert_eq!(
            s.page_at(VIEW, s.point_of(VIEW, GpuVa::new(0x4000_2000))),
            Some(0x4_0002)
        );
        assert!((s.page() * 2.0 - 600.0 * 0.94).abs() < 600.0, "{}", s.page());
    }

    #[test]
    fn square_of_more_address_bits_shows_their_pages() {
        for bits in [49, 57, 64] {
            let mut s = SquareCamera::new(bits);
            let last = GpuVa::new((u64::MAX >> (64 - bits)) & !0xfff);
            s.fit(VIEW, &(last..last.saturating_add(4096)));
            assert_eq!(
                s.page_at(VIEW, s.point_of(VIEW, last)),
                Some(last.page()),
                "{bits} bits"
            );
            s.fit(VIEW, &(GpuVa::ZERO..last));
            assert!(s.page() * s.side() < 600.0);
        }
    }

    #[test]
    fn strips_zoom_about_the_pointer_and_map_to_addresses() {
        let m = map(&[(0x1000, 300), (0x7f00_0000_0000, 5000), (0xffff_0000_0000, 2)]);
        let bars = bars(VIEW);
        let mut s = StripsCamera::default();
        s.fit(&m, bars);
        let layout = Layout::new(&m, s.zoom, bars.width());
        assert!(layout.total <= f64::from(bars.height()));
        for va in [0x1000, 0x5000, 0x7f00_0000_0000, 0x7f00_0123_4000, 0xffff_0000_1000].map(GpuVa::new) {
            let at = s.point_of(&m, &layout, bars, va).unwrap();
            let (x, y) = (f64::from(at.x - bars.left()), f64::from(at.y - bars.top()) + s.top);
            let found = layout.at(&m, x, y).unwrap();
            assert!(found.get().abs_diff(va.get()) <= 4096, "{va:#x} is found as {found:#x}");
        }
        let about = s.point_of(&m, &layout, bars, GpuVa::new(0x7f00_0012_3000)).unwrap();
        let (x, y) = (f64::from(about.x - bars.left()), f64::from(about.y - bars.top()));
        for _ in 0..12 {
            let before = Layout::new(&m, s.zoom, bars.width());
            let under = before.at(&m, x, s.top + y).or(before.at(&m, 0.0, s.top + y)).unwrap();
            s.zoom(&m, bars, about, 0.25);
            let now = Layout::new(&m, s.zoom, bars.width());
            let (island, row, _) = now.row(&m, under).unwrap();
            let off = now.row_top(island, row) + STRIP / 2.0 - s.top - y;
            assert!(off.abs() < 1.0 || s.top == 0.0, "the row moved by {off} points");
        }
        for _ in 0..80 {
            s.zoom(&m, bars, about, -0.25);
        }
        let layout = Layout::new(&m, s.zoom, bars.width());
        assert!(layout.per_row >= 4999, "each island is one row: {}", layout.per_row);
        assert_eq!(
            layout.at(&m, 0.0, 0.0),
            Some(GpuVa::new(0x1000)),
            "a gap has the address that follows it"
        );
        assert_eq!(Layout::new(&map(&[]), 0.0, 800.0).at(&map(&[]), 0.0, 0.0), None);
    }
}

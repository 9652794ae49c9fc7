//! Tests of the timeline, events, jobs and outline by pointer and keyboard, on samples and on long synthetic
//! recordings. Each test asserts a changed document or something painted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::common;
use trace_core::{GpuVa, RegOffset};

use common::net::net;
use common::{HANG_LIMIT, Window, long};
use egui::{
    Event, Key, Modifiers, MouseWheelSource, MouseWheelUnit, PointerButton, Pos2, Rect, Shape, TouchPhase, pos2, vec2,
};
use egui_kittest::kittest::Queryable as _;
use kinescope::panels::recording::timeline::Measure;
use kinescope::theme::Palette;
use kinescope::theme::ThemeChoice;
use kinescope_files::changes::SavedFilter;
use kinescope_files::scene::Selection;
use kinescope_session::axis::AxisKind;
use kinescope_session::derived_data::Stage;
use kinescope_session::xref_trail::AccessFilter;
use trace_core::progress::Progress;
use trace_core::recording::{Access, EventsBuilder};
use trace_core::xref::AccessKind;

fn lanes(w: &Window) -> Rect {
    w.harness.get_by_label("Timeline lanes").rect()
}

fn minimap(w: &Window) -> Rect {
    w.harness.get_by_label("Minimap").rect()
}

/// Returns the row of a lane, without its name.
fn lane(w: &Window, name: &str) -> Rect {
    let row = w.harness.get_by_label(&format!("Lane {name}")).rect();
    Rect::from_x_y_ranges(lanes(w).x_range(), row.y_range())
}

fn wheel(w: &mut Window, at: Pos2, lines: f32, modifiers: Modifiers) {
    w.harness.hover_at(at);
    w.harness.step();
    let event = Event::MouseWheel {
        unit: MouseWheelUnit::Line,
        delta: vec2(0.0, lines),
        phase: TouchPhase::Move,
        source: MouseWheelSource::Unknown,
        modifiers,
    };
    w.harness.event_modifiers(event, modifiers);
    w.settle();
}

fn button(w: &mut Window, at: Pos2, button: PointerButton, pressed: bool) {
    let event = Event::PointerButton {
        pos: at,
        button,
        pressed,
        modifiers: Modifiers::NONE,
    };
    w.harness.event(event);
    w.harness.step();
}

fn click_at(w: &mut Window, at: Pos2) {
    w.harness.hover_at(at);
    w.harness.step();
    button(w, at, PointerButton::Primary, true);
    button(w, at, PointerButton::Primary, false);
    w.settle();
}

fn drag(w: &mut Window, from: Pos2, to: Pos2) {
    w.harness.hover_at(from);
    w.harness.step();
    button(w, from, PointerButton::Primary, true);
    for part in [0.3, 0.7, 1.0] {
        w.harness.hover_at(from + (to - from) * part);
        w.harness.step();
    }
    button(w, to, PointerButton::Primary, false);
    w.settle();
}

/// Returns the axis position under a horizontal position of the lanes.
fn position(w: &mut Window, x: f32) -> f64 {
    let r = lanes(w);
    let (a, b) = w.timeline_part();
    a + f64::from((x - r.left()) / r.width()) * (b - a)
}

/// Returns the horizontal position of an event in the lanes.
fn x_of(w: &mut Window, event: u64) -> f32 {
    let r = lanes(w);
    let (a, b) = w.timeline_part();
    let axis = w.views().timeline.axis;
    let at = w.doc().derived.axis.position(axis, event);
    r.left() + r.width() * ((at - a) / (b - a)) as f32
}

fn job_events(w: &mut Window, job: usize) -> (u64, u64) {
    let j = &w.doc().derived.jobs[job];
    (j.submit, j.done.expect("the job ended"))
}

fn current_measure(w: &mut Window) -> Option<Measure> {
    let context = w.app().panel_context()?;
    Measure::new(context.doc, &context.views.timeline)
}

#[test]
fn the_wheel_zooms_about_the_pointer() {
    let mut w = Window::open_sample("vecadd.kine");
    for axis in AxisKind::ALL {
        w.timeline_axis(axis);
        w.run("fit");
        let r = lanes(&w);
        let at = pos2(r.left() + r.width() * 0.7, r.center().y);
        let under = position(&mut w, at.x);
        let (a, b) = w.timeline_part();
        wheel(&mut w, at, 4.0, Modifiers::NONE);
        let (c, d) = w.timeline_part();
        assert!(d - c < (b - a) * 0.95, "{axis:?}: {c}..{d} of {a}..{b}");
        let now = position(&mut w, at.x);
        assert!(
            (now - under).abs() < (b - a) * 0.002,
            "{axis:?}: {under} moved to {now}"
        );
        wheel(&mut w, at, -40.0, Modifiers::NONE);
        assert_eq!(w.views().timeline.range, None, "the whole range is visible again");
    }
}

#[test]
fn the_wheel_with_shift_pans_and_keeps_the_width() {
    let mut w = Window::open_sample("vecadd.kine");
    w.run("first-event");
    for _ in 0..3 {
        w.run("zoom-in");
    }
    let (a, b) = w.timeline_part();
    let at = lanes(&w).center();
    wheel(&mut w, at, -3.0, Modifiers::SHIFT);
    let (c, d) = w.timeline_part();
    assert!(c > a, "panned to the right: {a} to {c}");
    assert!(((d - c) - (b - a)).abs() < 1e-6 * (b - a));
    wheel(&mut w, at, 3.0, Modifiers::SHIFT);
    assert!(w.timeline_part().0 < c);
}

#[test]
fn a_drag_measures_events_time_and_accesses() {
    let mut w = Window::open_sample("vecadd.kine");
    let (submit, done) = job_events(&mut w, 0);
    for axis in AxisKind::ALL {
        w.timeline_axis(axis);
        w.run("fit");
        let y = lanes(&w).center().y;
        let n = w.doc().len();
        let (x0, x1) = (x_of(&mut w, 0) + 2.0, x_of(&mut w, n - 1) - 2.0);
        let before = w.doc().current_event();
        drag(&mut w, pos2(x0, y), pos2(x1, y));
        let m = current_measure(&mut w).expect("something is measured");
        let end = m.first + m.events;
        let doc = w.doc();
        let accesses: Vec<_> = (m.first..end)
            .filter_map(|e| doc.recording.events.access(e as usize))
            .collect();
        assert_eq!(m.writes, accesses.iter().filter(|a| a.write).count() as u64, "{axis:?}");
        assert_eq!(m.reads, accesses.iter().filter(|a| !a.write).count() as u64, "{axis:?}");
        assert_eq!(m.ns, doc.ns(end - 1) - doc.ns(m.first), "{axis:?}");
        assert!(m.first <= submit && done < end && m.jobs >= 1, "{axis:?}: {m:?}");
        assert_eq!(
            doc.current_event(),
            before,
            "measuring does not change the current event"
        );
        assert!(
            w.has(&format!("Measured {}", m.describe())),
            "{axis:?}: the measurement is shown"
        );
    }
    // Escape and a click remove the measurement.
    w.harness.key_press(Key::Escape);
    w.settle();
    assert!(current_measure(&mut w).is_none());
    let at = lanes(&w).center();
    drag(&mut w, at, at + vec2(50.0, 0.0));
    assert!(current_measure(&mut w).is_some());
    click_at(&mut w, at);
    assert!(current_measure(&mut w).is_none());
}

/// Opens a recording with gaps between its events and without jobs. Each pair of events has one time.
fn open_spaced_events() -> Window {
    let mut b = EventsBuilder::new();
    for i in 0..40u64 {
        b.access(
            1_000_000 + i / 2 * 10_000,
            0,
            Access {
                space: 0,
                write: i % 4 == 0,
                width: 4,
                offset: RegOffset::new(0x24),
                value: i,
            },
        );
    }
    let mut r = trace_core::container::open(&common::sample()).unwrap();
    r.events = b.finish();
    Window::from_recording(r)
}

#[test]
fn drag_on_time_axes_measures_the_drawn_span() {
    let mut w = open_spaced_events();
    for axis in [AxisKind::Time, AxisKind::Compressed] {
        w.timeline_axis(axis);
        w.run("fit");
        let y = lanes(&w).center().y;
        // Pairs of events are 10 µs apart. Both edges of the drag lie between pairs and snap to no event.
        let per_us = lanes(&w).width() / (w.timeline_part().1 / 1_000.0) as f32;
        assert!(
            per_us * 5.0 > 10.0,
            "the edges are too far from events to snap: {per_us}"
        );
        let left = lanes(&w).left();
        let at = |us: f32| left + us * per_us;
        let (x0, x1) = (at(55.0), at(125.0));
        drag(&mut w, pos2(x0, y), pos2(x1, y));
        let m = current_measure(&mut w).unwrap();
        let span = m.span_ns.expect("an axis of time has a span");
        assert!(
            span.abs_diff(70_000) < 1_000,
            "{axis:?}: the span as drawn is {span} ns"
        );
        assert_eq!((m.ns, m.events), (60_000, 14), "{axis:?}: first to last event");
        assert!(m.describe().contains("first to last event 60 µs"), "{}", m.describe());
        // A drag inside a gap measures time but no event.
        drag(&mut w, pos2(at(142.0), y), pos2(at(147.0), y));
        let m = current_measure(&mut w).unwrap();
        assert_eq!(m.events, 0);
        assert!(m.span_ns.unwrap().abs_diff(5_000) < 1_000, "{m:?}");
        assert!(m.describe().contains("no events"), "{}", m.describe());
    }
}

#[test]
fn edges_of_a_measure_snap_to_events_and_both_ends_count() {
    let mut w = open_spaced_events();
    w.timeline_axis(AxisKind::Time);
    w.run("fit");
    let y = lanes(&w).center().y;
    let (x0, x1) = (x_of(&mut w, 10) + 4.0, x_of(&mut w, 20) - 4.0);
    drag(&mut w, pos2(x0, y), pos2(x1, y));
    let m = current_measure(&mut w).unwrap();
    assert_eq!((m.first, m.span_ns, m.ns), (10, Some(50_000), 50_000));
    assert_eq!(m.events, 12, "the pair at the right edge counts: events 10 to 21");
}

#[test]
fn edges_of_a_measure_snap_to_the_end_of_a_job() {
    let mut w = Window::open_sample("vecadd.kine");
    w.timeline_axis(AxisKind::Time);
    w.run("fit");
    let (submit, done) = job_events(&mut w, 0);
    let y = lanes(&w).center().y;
    let (x0, x1) = (x_of(&mut w, submit) - 3.0, x_of(&mut w, done) + 3.0);
    drag(&mut w, pos2(x0, y), pos2(x1, y));
    let (a, b) = w.views().timeline.measure.unwrap();
    let axis = &w.doc().derived.axis;
    assert_eq!(a, axis.position(AxisKind::Time, submit));
    assert_eq!(b, axis.position(AxisKind::Time, done));
}

#[test]
fn recording_without_times_shows_a_message() {
    let mut b = EventsBuilder::new();
    for i in 0..20u64 {
        b.access(
            0,
            0,
            Access {
                space: 0,
                write: true,
                width: 4,
                offset: RegOffset::new(0x24),
                value: i,
            },
        );
    }
    let mut r = trace_core::container::open(&common::sample()).unwrap();
    r.events = b.finish();
    let mut w = Window::from_recording(r);
    assert!(
        !w.run("axis-time") && !w.run("axis-compressed"),
        "only the order axis is available"
    );
    assert!(w.has("no times"), "the status bar shows that there are no times");
    assert!(!w.has("Width of time"), "the event table has no column for times");
    w.timeline_axis(AxisKind::Time);
    w.settle();
    assert_eq!(w.views().timeline.axis, AxisKind::Order);
    let r = lanes(&w);
    drag(&mut w, r.center(), r.center() + vec2(120.0, 0.0));
    let words = current_measure(&mut w).unwrap().describe();
    assert!(!words.contains("ns") && words.contains("event"), "{words}");
}

#[test]
fn cursors_are_set_by_mouse_and_moved_by_their_flags() {
    let mut w = Window::open_sample("vecadd.kine");
    let y = lanes(&w).bottom() - 6.0;
    let shift = Modifiers::SHIFT;
    let before = w.doc().current_event();
    for event in [10, 30] {
        let at = pos2(x_of(&mut w, event), y);
        w.harness.hover_at(at);
        w.harness.step();
        for pressed in [true, false] {
            let event = Event::PointerButton {
                pos: at,
                button: PointerButton::Primary,
                pressed,
                modifiers: shift,
            };
            w.harness.event_modifiers(event, shift);
            w.harness.step();
        }
        w.settle();
    }
    assert_eq!((w.doc().cursors.a, w.doc().cursors.b), (Some(10), Some(30)));
    assert_eq!(
        w.doc().current_event(),
        before,
        "setting a cursor does not move the current event"
    );
    let words = w.doc().cursor_span().unwrap().describe();
    assert!(words.ends_with("20 events"), "{words}");
    let reported = w.harness.query_all_by_label(&words).count();
    assert!(
        reported >= 2,
        "the timeline and the status bar show {words}: {reported}"
    );
    let flag = w.harness.get_by_label("Cursor B at event 30").rect();
    let to = x_of(&mut w, 40);
    let by = to - x_of(&mut w, 30);
    drag(&mut w, flag.center(), flag.center() + vec2(by, 0.0));
    assert_eq!(w.doc().cursors.b, Some(40));
    // A click on a flag goes to its event.
    let flag = w.harness.get_by_label("Cursor A at event 10").rect();
    click_at(&mut w, flag.center());
    assert_eq!(w.doc().current_event(), 10);
}

#[test]
fn a_lane_is_resized_by_its_edge_and_reset_by_a_double_click() {
    let mut w = Window::open_sample("vecadd.kine");
    let edge = w.harness.get_by_label("Height of jobs").rect().center();
    let before = lane(&w, "jobs");
    let below = lane(&w, "interrupts");
    drag(&mut w, edge, edge + vec2(0.0, 30.0));
    let after = lane(&w, "jobs");
    assert!(
        (after.height() - before.height() - 30.0).abs() < 2.0,
        "{before} to {after}"
    );
    assert!(lane(&w, "interrupts").top() > below.top() + 25.0, "lanes below move");
    let edge = w.harness.get_by_label("Height of jobs").rect().center();
    w.harness.hover_at(edge);
    w.settle();
    // Both clicks are in one frame, as in a fast double click.
    for pressed in [true, false, true, false] {
        w.harness.input_mut().events.push(Event::PointerButton {
            pos: edge,
            button: PointerButton::Primary,
            pressed,
            modifiers: Modifiers::NONE,
        });
    }
    w.settle();
    assert_eq!(lane(&w, "jobs").height(), before.height());
    assert!(w.views().timeline.heights.is_empty());
}

#[test]
fn measured_span_can_be_zoomed_to() {
    let mut w = Window::open_sample("vecadd.kine");
    let r = lanes(&w);
    let (from, to) = (
        pos2(r.left() + 100.0, r.center().y),
        pos2(r.left() + 200.0, r.center().y),
    );
    drag(&mut w, from, to);
    let measured = w.views().timeline.measure.unwrap();
    w.harness.hover_at(from);
    w.harness.step();
    button(&mut w, from, PointerButton::Secondary, true);
    button(&mut w, from, PointerButton::Secondary, false);
    w.settle();
    w.click("Zoom to the measured range");
    let (a, b) = w.timeline_part();
    assert!(
        (a - measured.0).abs() < 4.0 && (b - measured.1).abs() < 4.0,
        "{a}..{b}, {measured:?}"
    );
    assert_eq!(w.views().timeline.measure, None);
}

#[test]
fn click_selects_the_job_and_its_event() {
    let mut w = Window::open_sample("twopass.kine");
    let n = w.doc().derived.jobs.len();
    assert!(n >= 2, "the sample has {n} jobs");
    for job in [n - 1, 0] {
        w.run("fit");
        let (submit, _) = job_events(&mut w, job);
        let y = lane(&w, "jobs").center().y;
        let at = pos2(x_of(&mut w, submit) + 1.0, y);
        click_at(&mut w, at);
        assert_eq!(*w.doc().selection(), Selection::Job(job as u32));
        assert_eq!(w.doc().current_event(), submit);
    }
}

#[test]
fn a_click_on_a_lane_selects_an_event_of_that_lane() {
    let mut w = Window::open_sample("vecadd.kine");
    let interrupt = w.doc().derived.interrupts.last().unwrap().event;
    let at = pos2(x_of(&mut w, interrupt), lane(&w, "interrupts").center().y);
    click_at(&mut w, at);
    assert_eq!(w.doc().current_event(), interrupt);
    let all_lanes = w.doc().derived.pyramid.lanes().to_vec();
    for (i, name) in all_lanes.iter().enumerate() {
        // A click on an event of the lane selects an event of the same lane.
        let doc = w.doc();
        let some = doc
            .derived
            .pyramid
            .nearest(&doc.recording.events, i, doc.len() / 3)
            .unwrap();
        let at = pos2(x_of(&mut w, some), lane(&w, name).center().y);
        click_at(&mut w, at);
        let doc = w.doc();
        let current_event = doc.current_event();
        let mut hit = None;
        doc.derived
            .pyramid
            .each(&doc.recording.events, current_event..current_event + 1, |_, l, _| {
                hit = Some(l)
            });
        assert_eq!(hit, Some(i), "lane {name}, event {current_event}");
        let away = (x_of(&mut w, current_event) - x_of(&mut w, some)).abs();
        assert!(
            away <= 4.0,
            "lane {name}: event {current_event} is {away} points from {some}"
        );
    }
}

#[test]
fn keys_move_zoom_fit_and_step() {
    let mut w = Window::open_sample("vecadd.kine");
    w.doc().go(40);
    w.settle();
    let press = |w: &mut Window, key: Key| {
        w.harness.key_press(key);
        w.settle();
        w.timeline_part()
    };
    let whole = w.timeline_part();
    let near = press(&mut w, Key::W);
    assert!(near.1 - near.0 < whole.1 - whole.0, "W zooms in");
    let nearer = press(&mut w, Key::W);
    let right = press(&mut w, Key::D);
    assert!(right.0 > nearer.0, "D goes right");
    let left = press(&mut w, Key::A);
    assert!((left.0 - nearer.0).abs() < 1e-6, "A goes back left");
    let out = press(&mut w, Key::S);
    assert!(out.1 - out.0 > left.1 - left.0, "S zooms out");
    press(&mut w, Key::F);
    assert_eq!(w.views().timeline.range, None, "F fits");
    press(&mut w, Key::Period);
    assert_eq!(w.doc().current_event(), 41);
    press(&mut w, Key::Comma);
    press(&mut w, Key::Comma);
    assert_eq!(w.doc().current_event(), 39);
}

#[test]
fn key_zoom_ends_after_120_ms_and_repeats_from_its_position() {
    let mut w = Window::open_sample("vecadd.kine");
    w.run("first-event");
    w.harness.key_press(Key::W);
    w.harness.step();
    w.harness.key_press(Key::W);
    // A step of the harness is 250 ms of the window's time.
    w.harness.step();
    w.harness.step();
    w.harness.step();
    assert!(!w.views().timeline.is_animating(), "the animation has ended");
    let n = w.doc().len() as f64;
    let (a, b) = w.timeline_part();
    assert!(
        ((b - a) - n / 1.6 / 1.6).abs() < 1e-6 * n,
        "both zooms count: {a}..{b} of {n}"
    );
}

#[test]
fn axis_change_keeps_the_visible_range() {
    let mut w = Window::open_sample("vecadd.kine");
    let (submit, done) = job_events(&mut w, 0);
    w.doc().go(submit);
    w.views().timeline.range = Some((submit as f64 - 20.0, done as f64 + 20.0));
    w.settle();
    for (from, to) in [
        ("order", "true time"),
        ("true time", "compressed gaps"),
        ("compressed gaps", "order"),
    ] {
        w.click(&format!("Axis {from}"));
        w.click(&format!("by {to}"));
        assert!(w.has(&format!("Axis {to}")));
        let (a, b) = w.timeline_part();
        let axis = w.views().timeline.axis;
        assert_eq!(axis.name(), to);
        let at = |e: u64, w: &mut Window| w.doc().derived.axis.position(axis, e);
        let (x, y) = (at(submit, &mut w), at(done, &mut w));
        assert!(a <= x && y <= b, "{to}: {x} and {y} are in {a}..{b}");
        assert!(b < w.doc().derived.axis.end(axis), "{to}: only a part is visible");
    }
}

#[test]
fn the_minimap_moves_the_view_and_chooses_another() {
    let mut w = Window::open_sample("vecadd.kine");
    let n = w.doc().len() as f64;
    let m = minimap(&w);
    let y = m.center().y;
    let x = |part: f32| m.left() + m.width() * part;
    // A drag selects a part while the whole range is visible.
    drag(&mut w, pos2(x(0.2), y), pos2(x(0.4), y));
    let (a, b) = w.timeline_part();
    assert!(
        (a / n - 0.2).abs() < 0.02 && (b / n - 0.4).abs() < 0.02,
        "{a}..{b} of {n}"
    );
    // A drag inside the frame moves the view.
    drag(&mut w, pos2(x(0.3), y), pos2(x(0.6), y));
    let (c, d) = w.timeline_part();
    assert!(
        ((d - c) - (b - a)).abs() < 1e-6 * n && (c / n - 0.5).abs() < 0.02,
        "{c}..{d} of {n}"
    );
    // A click next to the frame centres the view there.
    click_at(&mut w, pos2(x(0.25), y));
    let (e, f) = w.timeline_part();
    assert!(((e + f) / 2.0 / n - 0.25).abs() < 0.02, "{e}..{f} of {n}");
    // A click goes to the event there while the whole range is visible.
    w.run("fit");
    click_at(&mut w, pos2(x(0.75), y));
    assert!((w.doc().current_event() as f64 / n - 0.75).abs() < 0.02);
}

/// Returns whether a shape of a colour is painted at a horizontal position of a row.
fn is_painted(w: &Window, row: Rect, x: f32, colour: egui::Color32) -> bool {
    // The opacity varies, but the hue does not.
    let is_same_hue = |c: egui::Color32| {
        let (c, k) = (c.to_normalized_gamma_f32(), colour.to_normalized_gamma_f32());
        c[3] > 0.3 && (0..3).all(|i| (c[i] / c[3] - k[i]).abs() < 0.04)
    };
    let spot = Rect::from_center_size(pos2(x, row.center().y), vec2(4.0, row.height()));
    fn any(s: &Shape, hit: &dyn Fn(Rect, egui::Color32) -> bool) -> bool {
        match s {
            Shape::Vec(list) => list.iter().any(|s| any(s, hit)),
            Shape::Rect(r) => hit(r.rect, r.fill) || hit(r.rect, r.stroke.color),
            Shape::LineSegment { points, stroke } => hit(Rect::from_two_pos(points[0], points[1]), stroke.color),
            Shape::Mesh(m) => m.indices.chunks(6).any(|quad| {
                let v: Vec<_> = quad.iter().map(|i| m.vertices[*i as usize]).collect();
                let rect = Rect::from_points(&v.iter().map(|v| v.pos).collect::<Vec<_>>());
                hit(rect, v[0].color)
            }),
            _ => false,
        }
    }
    let shapes = &w.harness.output().shapes;
    shapes.iter().any(|s| {
        any(&s.shape, &|r, c| {
            r.intersects(spot) && row.contains(r.center()) && is_same_hue(c)
        })
    })
}

#[test]
fn one_write_among_a_million_reads_is_painted_on_every_axis() {
    let at = 654_321;
    let mut w = Window::from_recording(long::quiet(1_000_000, at));
    let ink = Palette::for_theme(ThemeChoice::Dark).write;
    for axis in AxisKind::ALL {
        w.timeline_axis(axis);
        w.run("fit");
        w.settle();
        let row = lane(&w, "JS1");
        let x = x_of(&mut w, at);
        assert!(is_painted(&w, row, x, ink), "{axis:?}: nothing at {x} in {row:?}");
        assert!(
            !is_painted(&w, row, x - 100.0, ink),
            "{axis:?}: the write is painted at one position only"
        );
        let m = minimap(&w);
        assert!(is_painted(&w, m, x, ink), "{axis:?}: the minimap shows the write too");
    }
}

#[test]
fn lanes_with_nothing_in_view_collapse() {
    let at = 654_321;
    let mut w = Window::from_recording(long::quiet(1_000_000, at));
    assert!(w.has("Lane JS1"));
    w.views().timeline.range = Some((0.0, 100_000.0));
    w.settle();
    assert!(!w.has("Lane JS1") && w.has("Lane power"));
    w.views().timeline.range = Some((at as f64 - 5.0, at as f64 + 5.0));
    w.settle();
    assert!(w.has("Lane JS1"));
}

/// Opens a recording up to its first frame, before the derived data is complete.
fn show_first(w: &mut Window, path: std::path::PathBuf) {
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, path);
    let since = std::time::Instant::now();
    while w.app().doc.is_none() {
        w.harness.step();
        assert!(
            since.elapsed() < HANG_LIMIT,
            "the recording did not open: {:?}",
            w.app().last_error()
        );
    }
}

#[test]
fn stored_analyses_show_in_the_first_frame() {
    let mut w = Window::empty();
    let path = w.folder.path().join("long.kine");
    trace_core::timeline::write(&long::busy(60_000), &path, &Progress::new()).unwrap();
    show_first(&mut w, path);
    assert!(w.doc().derived.has_stage(Stage::Timeline), "jobs come from the file");
    assert!(!w.doc().derived.jobs.is_empty());
    assert!(
        w.has("Timeline lanes") && w.has("Lane jobs"),
        "the first frame shows the lanes"
    );
    w.settle();
    assert_eq!(w.doc().derived.pending, [], "the derived data is complete");
    let complete = kinescope_session::derive::derive(&w.doc().recording, &Progress::new()).unwrap();
    let derived = &w.doc().derived;
    assert_eq!(derived.jobs.len(), complete.jobs.len());
    assert_eq!(derived.polls.len(), complete.polls.len());
    assert_eq!(derived.registers.len(), complete.registers.len());
    assert_eq!(derived.findings, complete.findings);
}

#[test]
fn derivation_can_be_cancelled() {
    let mut w = Window::empty();
    let path = w.folder.path().join("long.kine");
    trace_core::container::write(&long::busy(200_000), &path, &Progress::new()).unwrap();
    show_first(&mut w, path);
    w.app().tasks.cancel_all();
    w.settle();
    assert!(!w.doc().derived.pending.is_empty() && w.doc().derivation.is_none());
    assert!(kinescope::log::text().contains("was stopped"));
    assert!(w.has("Timeline lanes"), "known data is still shown");
    w.run("reload");
    assert_eq!(w.doc().derived.pending, []);
}

/// Presses a key, and returns the current event after it.
fn press(w: &mut Window, key: Key) -> u64 {
    w.harness.key_press(key);
    w.settle();
    w.doc().current_event()
}

#[test]
fn arrow_and_page_keys_move_between_filtered_events() {
    let mut w = Window::open_sample("vecadd.kine");
    w.run("first-event");
    w.run("show-events");
    assert_eq!(press(&mut w, Key::ArrowDown), 1);
    assert_eq!(press(&mut w, Key::ArrowDown), 2);
    assert_eq!(press(&mut w, Key::ArrowUp), 1);
    let page = press(&mut w, Key::PageDown);
    assert!(page > 4, "a page is {page} rows");
    assert_eq!(press(&mut w, Key::PageUp), 1);
    let last = w.doc().len() - 1;
    assert_eq!(press(&mut w, Key::End), last);
    assert_eq!(press(&mut w, Key::Home), 0);
    w.views().events.filter = "write".into();
    w.settle();
    let rows = w.views().events.rows.clone().expect("the filter has rows");
    let row = |n: u64| rows.get(n).unwrap();
    assert_eq!(press(&mut w, Key::Home), row(0));
    assert_eq!(press(&mut w, Key::ArrowDown), row(1));
    assert_eq!(press(&mut w, Key::End), row(rows.len() - 1));
    // A clicked row keeps the focus.
    let label = format!("event {}", row(rows.len() - 3));
    w.click(&label);
    assert_eq!(press(&mut w, Key::ArrowDown), row(rows.len() - 2));
}

#[test]
fn invalid_filter_shows_why_and_an_example_fixes_it() {
    let mut w = Window::open_sample("vecadd.kine");
    w.views().events.filter = "job = cat".into();
    w.settle();
    let wrong = w.views().events.wrong.clone();
    assert_eq!(wrong.as_deref(), Some("`job` can only be compared with a number"));
    assert!(
        w.harness
            .query_all_by_label_contains("can only be compared with a number")
            .next()
            .is_some()
    );
    w.click("Filter examples");
    let example = w
        .harness
        .query_all_by_label_contains("value >= 0x1000")
        .next()
        .expect("the example is offered");
    example.click();
    w.settle();
    assert_eq!(w.views().events.filter, "value >= 0x1000");
    assert_eq!(w.views().events.wrong, None);
    assert!(w.views().events.rows.is_some());
    w.views().events.filter = "JS1_COMAND".into();
    w.settle();
    let wrong = w.views().events.wrong.clone().unwrap();
    assert!(wrong.ends_with("did you mean `JS1_COMMAND`?"), "{wrong}");
    w.views().events.filter = "value = 0x123456789".into();
    w.settle();
    w.click("Show all events");
    assert!(w.views().events.rows.is_none() && w.views().events.filter.is_empty());
}

#[test]
fn filter_completions_are_offered_and_accepted_by_keyboard() {
    let mut w = Window::open_sample("vecadd.kine");
    w.run("filter");
    w.settle();
    w.harness.get_by_label("Filter events").type_text("wri");
    w.settle();
    assert!(w.harness.query_all_by_label_contains("write").next().is_some());
    w.harness.key_press(Key::Tab);
    w.settle();
    assert_eq!(w.views().events.filter, "write");
    w.harness
        .get_by_label("Filter events")
        .type_text(" and reg = js1_command_n");
    w.settle();
    w.harness.key_press(Key::ArrowDown);
    w.settle();
    w.harness.key_press(Key::Enter);
    w.settle();
    assert_eq!(w.views().events.filter, "write and reg = JS1_COMMAND_NEXT");
    assert_eq!(w.views().events.wrong, None);
    let rows = w.views().events.rows.clone().expect("the filter has rows");
    let jobs = w.doc().derived.jobs.len() as u64;
    assert_eq!(rows.len(), jobs, "each job is started once");
}

#[test]
fn saved_filters_can_be_shown_as_timeline_lanes() {
    let mut w = Window::open_sample("vecadd.kine");
    w.views().events.filter = "submit".into();
    w.settle();
    w.click("Saved filters");
    w.click("Save as a lane of the timeline");
    w.settle();
    let jobs = w.doc().derived.jobs.len() as u64;
    let found = w.doc().lanes.rows("submit").map(|r| r.len());
    assert_eq!(found, Some(jobs));
    w.enter("Name of the filter", "starts");
    let saved = w.doc().changes().filter("submit").cloned().unwrap();
    assert_eq!(saved.name, "starts");
    assert!(w.has("Lane starts"));
    assert!(w.has("Filter starts"));
    w.harness.key_press(Key::Escape);
    w.settle();
    w.click("Clear filter");
    w.click("Lane starts");
    w.settle();
    assert!(!w.has("Lane starts"));
    let saved = w.doc().changes().filter("submit").cloned().unwrap();
    assert!(!saved.lane && saved.name == "starts");
    w.views().events.filter = "read".into();
    w.settle();
    w.run("save-filter");
    w.run("filter-lane");
    assert_eq!(w.doc().changes().filter("read").map(|s| s.lane), Some(true));
    w.run("save-filter");
    assert_eq!(w.doc().changes().filter("read"), None);
    for _ in 0..3 {
        w.run("undo");
    }
    // A click shows the filter again, and undo reverts every step.
    w.click("Saved filters");
    w.click("Filter starts");
    w.settle();
    assert_eq!(w.views().events.found_for, "submit");
    w.run("undo");
    assert!(w.has("Lane starts"));
    for _ in 0..3 {
        w.run("undo");
    }
    assert!(w.doc().changes().filters().is_empty());
}

#[test]
fn invalid_saved_filter_shows_its_error_in_the_lane() {
    let mut w = Window::open_sample("vecadd.kine");
    let lane = SavedFilter {
        name: String::new(),
        lane: true,
    };
    assert!(w.doc().save_filter("reg = NO_SUCH", Some(lane)));
    w.settle();
    assert!(w.doc().lanes.error("reg = NO_SUCH").is_some());
    assert!(w.has("Lane reg = NO_SUCH"));
}

#[test]
fn new_filter_replaces_the_running_search() {
    let mut w = Window::open_sample("vecadd.kine");
    for text in ["value = 1", "read", "interrupt", "write"] {
        w.views().events.filter = text.into();
        w.harness.run_steps(1);
    }
    w.settle();
    assert_eq!(w.views().events.found_for, "write");
    let rows = w.views().events.rows.clone().expect("the filter has rows");
    assert!(
        rows.iter()
            .all(|e| w.doc().recording.events.access(e as usize).is_some_and(|a| a.write))
    );
}

#[test]
fn accesses_of_a_register_are_highlighted_and_stepped() {
    let mut w = Window::open_sample("vecadd.kine");
    let polled = w.doc().derived.polls[0].first;
    let access = w.doc().recording.events.access(polled as usize).unwrap();
    let register = w.doc().derived.find_register(&access).expect("a register is polled");
    let name = w.doc().derived.register_name(register);
    let fact = w.doc().derived.registers[&register].clone();
    let first = fact.accesses.all().first().unwrap();
    w.doc().go_with(first, Selection::Register(register));
    w.settle();
    assert!(w.has(&format!("Trail of {name}")));
    let mut seen = vec![first];
    while press(&mut w, Key::CloseBracket) != *seen.last().unwrap() {
        let at = w.doc().current_event();
        seen.push(at);
    }
    // Every access is visited once, and a poll counts as one access.
    let derived = &w.doc().derived;
    let mut expected: Vec<u64> = Vec::new();
    for e in fact.accesses.all().iter() {
        let same = expected
            .last()
            .is_some_and(|b| derived.poll_at(*b).is_some_and(|p| e <= p.last));
        if !same {
            expected.push(e);
        }
    }
    assert_eq!(seen, expected);
    let mut back = vec![*seen.last().unwrap()];
    while press(&mut w, Key::OpenBracket) != *back.last().unwrap() {
        let at = w.doc().current_event();
        back.push(at);
    }
    back.reverse();
    assert_eq!(back, expected);
    assert_eq!(*w.doc().selection(), Selection::Register(register));
}

#[test]
fn jobs_are_last_writers_and_next_readers_of_bytes() {
    let mut w = Window::open_sample("vecadd.kine");
    let byte = |w: &mut Window, buffer: &str| {
        let va = w.doc().recording.buffer(buffer).unwrap().va.get() + 4;
        w.doc().select(Selection::Memory {
            space: 0,
            va: GpuVa::new(va),
            bytes: 1,
        });
        w.settle();
    };
    let submit = w.doc().derived.jobs[0].submit;
    w.doc().go(0);
    byte(&mut w, "a");
    assert!(w.has("Trail of a + 0x4"));
    w.run("next-reader");
    assert_eq!(w.doc().current_event(), submit);
    assert!(matches!(w.doc().selection(), Selection::Memory { .. }));
    let end = w.doc().len();
    w.doc().go(end);
    byte(&mut w, "c");
    let last = w
        .doc()
        .next_xref(false, AccessFilter::Writes)
        .expect("the byte has a writer");
    assert!(last >= submit);
    w.run("last-writer");
    assert_eq!(w.doc().current_event(), last);
    let xrefs = w.doc().xrefs.event_xrefs().to_vec();
    assert!(
        xrefs
            .iter()
            .any(|t| t.event == Some(submit) && t.access == AccessKind::Write)
    );
    assert!(xrefs.is_sorted_by_key(|t| t.event));
    // Without a selection, the trail follows the register of the current event.
    w.doc().go(submit);
    w.settle();
    assert!(w.has("Trail of JS1_COMMAND_NEXT") && w.doc().xrefs.event_xrefs().is_empty());
}

#[test]
fn an_event_is_copied_in_every_form() {
    let mut w = Window::open_sample("vecadd.kine");
    w.run("first-event");
    let event = 3u64;
    let a = w.doc().recording.events.access(event as usize).expect("an access");
    let name = w.doc().derived.register_name(a.offset);
    for (label, form) in [
        ("Copy event number", event.to_string()),
        ("Copy register", name),
        ("Copy offset", format!("{:#x}", a.offset)),
        ("Copy value", format!("{:#x}", a.value)),
        ("Copy value in decimal", a.value.to_string()),
        ("Copy value in binary", format!("{:#b}", a.value)),
    ] {
        w.harness.get_by_label(&format!("event {event}")).click_secondary();
        w.settle();
        w.harness.get_by_label(label).click();
        let mut copied = None;
        for _ in 0..3 {
            w.harness.step();
            for c in &w.harness.output().platform_output.commands {
                if let egui::OutputCommand::CopyText(t) = c {
                    copied = Some(t.clone());
                }
            }
        }
        assert_eq!(copied, Some(form), "{label}");
        w.settle();
    }
}

#[test]
fn outline_links_to_phases_jobs_buffers_spaces_and_notes() {
    let mut w = Window::open_sample("vecadd.kine");
    w.run("last-event");
    let first = w.doc().derived.phases[0].clone();
    w.click(&format!("phase {}", first.name));
    assert_eq!(w.doc().current_event(), first.first);
    let (submit, _) = job_events(&mut w, 0);
    w.doc().go(submit);
    w.settle();
    w.doc().select(Selection::Event);
    w.click("outline job 0");
    assert_eq!(*w.doc().selection(), Selection::Job(0));
    w.click("address space 0");
    assert!(w.is_panel_active("page-tables"));
    for e in 0..40 {
        assert!(w.doc().note(e * 3, Some(format!("note {e}"))));
    }
    w.doc().go(60);
    w.settle();
    let listed = (0..40).filter(|e| w.has(&format!("note at {}", e * 3))).count();
    assert!((1..=12).contains(&listed), "{listed} of 40 notes are listed");
    w.click("note at 60");
    assert_eq!(*w.doc().selection(), Selection::Note(60));
    w.click("more notes");
    assert!(matches!(w.doc().selection(), Selection::Note(e) if *e != 60));
}

#[test]
fn stream_lanes_show_launches_copies_and_waits() {
    let n = net(2);
    let mut w = Window::from_recording(n.recording.clone());
    for name in ["default stream", "stream 1", "stream 2", "memory", "failed"] {
        assert!(w.has(&format!("Lane {name}")), "{name}");
    }
    assert!(
        !w.has("Lane stream 0") && !w.has("Lane launches 2"),
        "the lanes of internal counts are hidden"
    );
    let p = Palette::for_theme(ThemeChoice::Dark);
    // Each launch is a coloured block in the lane of its own stream only.
    let blocks = |w: &Window, lane: Rect| {
        let job = p.job.gamma_multiply(kinescope::theme::SOFT);
        let shapes = w.harness.output().shapes.iter();
        let hit = |s: &&egui::epaint::ClippedShape| matches!(&s.shape, Shape::Rect(r) if r.fill == job && lane.contains(r.rect.center()));
        shapes.filter(hit).count()
    };
    assert_eq!(blocks(&w, lane(&w, "stream 2")), n.launches.len());
    assert_eq!(blocks(&w, lane(&w, "stream 1")), 0);
    // A line connects the event that stream 1 records with the wait of stream 2.
    let (from, to) = (lane(&w, "stream 1").center().y, lane(&w, "stream 2").center().y);
    let crosses = w.harness.output().shapes.iter().any(|s| match &s.shape {
        Shape::Path(path) if path.points.len() == 4 => path.points[0].y == from && path.points[3].y == to,
        _ => false,
    });
    assert!(crosses, "the order between streams is drawn");
    // A click on a block goes to its launch.
    let axis = w.views().timeline.axis;
    let launch_position = {
        let d = w.doc();
        d.derived.axis.position(axis, n.launches[2])
    };
    let part = w.timeline_part();
    let row = lane(&w, "stream 2");
    let x = row.left() + ((launch_position - part.0) / (part.1 - part.0)) as f32 * row.width() + 2.0;
    click_at(&mut w, pos2(x, row.center().y));
    w.settle();
    assert_eq!(w.doc().current_event(), n.launches[2]);
    // The trail of a byte marks its writes.
    w.doc().select(Selection::Memory {
        space: 0,
        va: GpuVa::new(n.image),
        bytes: 1,
    });
    w.settle();
    let writes = w
        .doc()
        .xrefs
        .event_xrefs()
        .iter()
        .filter(|t| t.access == AccessKind::Write)
        .count();
    assert_eq!(writes, 3, "the writes are one allocation and one copy per run");
}

#[test]
fn launches_share_pixels_and_a_single_failure_stays_visible() {
    let n = net(2000);
    let mut w = Window::from_recording(n.recording.clone());
    let row = lane(&w, "stream 2");
    let job = Palette::for_theme(ThemeChoice::Dark).job;
    let meshes = w.harness.output().shapes.iter().filter(|s| {
        matches!(&s.shape, Shape::Mesh(m) if m.vertices.iter().any(|v| row.contains(v.pos) && v.color == job.gamma_multiply(kinescope::theme::SOFT)))
    });
    assert_eq!(meshes.count(), 1, "one mesh for all launches of the lane");
    let failed = lane(&w, "failed");
    let mark = w.harness.output().shapes.iter().any(|s| {
        matches!(&s.shape, Shape::Text(t) if t.galley.text() == "▲" && failed.contains(t.visual_bounding_rect().center()))
    });
    assert!(mark, "the failed call is visible among {} events", w.doc().len());
}

//! Tests of Plots: registers and fields as lines and histograms, counts of filtered accesses, and times between
//! patterns.

use crate::common::{Window, find_busiest_register, long};
use egui_kittest::kittest::Queryable as _;
use kinescope::panels::recording::plots::{ByKind, Section};
use kinescope_files::changes::PlotLine;
use kinescope_files::scene::Selection;
use kinescope_session::lookup;
use std::collections::BTreeMap;
use trace_core::RegOffset;
use trace_core::filter::Query;
use trace_core::progress::Progress;
use trace_core::registers::AccessList;
use trace_core::values::{AccessFilter, collect};
use trace_query::GroupBy;

fn register_line(register: u32) -> PlotLine {
    PlotLine {
        register: RegOffset::new(register),
        field: None,
    }
}

/// Returns a register with a field whose values have names, and that field.
fn find_named_field(w: &mut Window) -> PlotLine {
    use trace_core::registers::FieldKind;
    let doc = w.doc();
    let found = doc.derived.registers.keys().find_map(|r| {
        let def = lookup::find_register(&doc.recording, *r)?;
        let named = |f: &&trace_core::registers::Field| matches!(f.kind, FieldKind::Enum(_));
        let field = def.layout.fields.iter().find(named)?.name.clone();
        Some(PlotLine {
            register: *r,
            field: Some(field),
        })
    });
    found.expect("a register has a field with names")
}

#[test]
fn empty_plots_panel_gives_a_hint_and_plots_on_click() {
    let mut w = Window::open();
    w.run("show-plots");
    assert!(w.has_part("Choose a register"));
    let busy = find_busiest_register(w.doc());
    let name = w.doc().derived.register_name(RegOffset::new(busy));
    w.enter("Find what to plot", &name);
    assert!(w.doc().is_plotted(&register_line(busy)) || w.doc().changes().plots().len() == 1);
    let line = w.doc().changes().plots()[0].1.clone();
    let shown = w.doc().derived.register_name(line.register);
    assert!(w.has(&format!("Plot of {shown}")));
    assert!(w.views().plots.values_of(&line).is_some_and(|v| !v.is_empty()));
    w.click(&format!("Remove {shown} from the plot"));
    assert!(w.doc().changes().plots().is_empty() && w.has_part("Choose a register"));
    w.run("undo");
    assert!(w.has(&format!("Plot of {shown}")));
}

#[test]
fn plot_values_match_the_register_panel() {
    for name in ["vecadd.kine", "matmul.kine"] {
        let mut w = Window::open_sample(name);
        let doc = w.doc();
        let mut reported = 0;
        for (register, fact) in &doc.derived.registers {
            let got = collect(
                &doc.recording,
                doc.derived.device,
                *register,
                None,
                &fact.accesses,
                AccessFilter::Both,
                &Progress::new(),
            )
            .unwrap();
            let events = |list: AccessList<'_>| list.iter().map(|e| e as u32).collect::<Vec<_>>();
            let expected: Vec<u64> = (fact.accesses.all().iter())
                .filter_map(|e| doc.derived.register_value(&doc.recording, *register, e))
                .map(|found| found.value)
                .collect();
            assert_eq!(
                (got.events(), got.values()),
                (events(fact.accesses.all()).as_slice(), expected.as_slice())
            );
            let writes = collect(
                &doc.recording,
                doc.derived.device,
                *register,
                None,
                &fact.accesses,
                AccessFilter::Writes,
                &Progress::new(),
            );
            assert_eq!(writes.unwrap().events(), events(fact.accesses.writes()));
            reported += got.len();
        }
        assert!(reported > 100, "{reported}");
    }
}

#[test]
fn legend_shows_values_at_the_current_event() {
    let mut w = Window::open_sample("vecadd.kine");
    let (busy, field) = (find_busiest_register(w.doc()), find_named_field(&mut w));
    assert!(w.doc().plot(&register_line(busy)) && w.doc().plot(&field));
    w.run("show-plots");
    let values = w.views().plots.values_of(&register_line(busy)).unwrap().clone();
    let mut seen = std::collections::BTreeSet::new();
    for n in [0, values.len() / 2, values.len() - 1] {
        let (event, value) = (u64::from(values.events()[n]), values.values()[n]);
        w.doc().go(event);
        w.settle();
        let name = w.doc().derived.register_name(RegOffset::new(busy));
        let message = format!("Line {name} {value:#010x}");
        assert!(w.has(&message), "{message}");
        seen.insert(message);
    }
    assert!(!seen.is_empty());
    let values = w.views().plots.values_of(&field).unwrap().clone();
    w.doc().go(u64::from(values.events()[0]));
    w.settle();
    let def = lookup::find_register(&w.doc().recording, field.register).unwrap();
    let layout_field = def.layout.field(field.field.as_deref().unwrap()).unwrap();
    let message = format!(
        "Line {}.{} {}",
        def.name,
        layout_field.name,
        layout_field.text(values.values()[0])
    );
    assert!(w.has(&message), "the legend names the value of the field: {message}");
    // A click on the row goes to the access with the value.
    w.run("last-event");
    let label = label_at_last_event(&mut w, &field);
    w.click(&label);
    let last = *values.events().last().unwrap();
    assert_eq!(w.doc().current_event(), u64::from(last));
    assert_eq!(*w.doc().selection(), Selection::Register(field.register));
}

/// Returns the label of a line's row at the last event.
fn label_at_last_event(w: &mut Window, line: &PlotLine) -> String {
    let values = w.views().plots.values_of(line).unwrap().clone();
    let def = lookup::find_register(&w.doc().recording, line.register).unwrap();
    let layout_field = def.layout.field(line.field.as_deref().unwrap()).unwrap();
    let value = *values.values().last().unwrap();
    format!("Line {}.{} {}", def.name, layout_field.name, layout_field.text(value))
}

#[test]
fn plot_click_sets_the_current_event_and_wheel_zooms() {
    let mut w = Window::open_sample("vecadd.kine");
    let busy = find_busiest_register(w.doc());
    w.doc().plot(&register_line(busy));
    w.run("show-plots");
    w.run("first-event");
    let name = w.doc().derived.register_name(RegOffset::new(busy));
    let label = format!("Plot of {name}");
    w.click(&label);
    let (current_event, len) = (w.doc().current_event(), w.doc().len());
    // The middle of the plot is about the middle of the recording.
    assert!(
        current_event > len / 3 && current_event < len * 2 / 3,
        "{current_event} of {len}"
    );
    assert!(w.views().plots.range.is_none());
    let at = w.harness.get_by_label(&label).rect().center();
    w.harness.hover_at(at);
    w.harness.event(egui::Event::MouseWheel {
        unit: egui::MouseWheelUnit::Point,
        delta: egui::vec2(0.0, 120.0),
        phase: egui::TouchPhase::Move,
        source: egui::MouseWheelSource::Unknown,
        modifiers: egui::Modifiers::NONE,
    });
    w.settle();
    let (from, to) = w.views().plots.range.expect("the plot shows a part");
    assert!(
        from > 0.0 && to < len as f64 && to - from < len as f64 * 0.9,
        "{from} to {to}"
    );
    w.click("Plot by time");
    assert!(w.views().plots.range.is_none(), "another axis shows the whole range");
}

#[test]
fn access_selection_replaces_plotted_values() {
    let mut w = Window::open_sample("vecadd.kine");
    let written = find_busiest_register(w.doc());
    let read = w
        .doc()
        .derived
        .registers
        .iter()
        .find(|(_, f)| f.accesses.writes().is_empty());
    let read = *read.expect("a register is only read").0;
    for register in [written, read.get()] {
        w.doc().plot(&register_line(register));
    }
    w.run("show-plots");
    for filter in [AccessFilter::Writes, AccessFilter::Reads, AccessFilter::Both] {
        w.views().plots.access_filter = filter;
        w.settle();
        for register in [written, read.get()] {
            let fact = w.doc().derived.registers[&RegOffset::new(register)].clone();
            let expected: Vec<u32> = match filter {
                AccessFilter::Both => fact.accesses.all().iter().map(|e| e as u32).collect(),
                AccessFilter::Writes => fact.accesses.writes().iter().map(|e| e as u32).collect(),
                AccessFilter::Reads => fact
                    .accesses
                    .iter()
                    .filter(|a| !a.write)
                    .map(|a| a.event as u32)
                    .collect(),
            };
            assert_eq!(
                w.views().plots.values_of(&register_line(register)).unwrap().events(),
                expected
            );
        }
    }
}

#[test]
fn the_histogram_counts_every_value_and_names_it() {
    let mut w = Window::open_sample("vecadd.kine");
    let field = find_named_field(&mut w);
    w.doc().plot(&field);
    w.run("show-plots");
    w.click("Section Histogram");
    let values = w.views().plots.values_of(&field).unwrap().clone();
    let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
    for v in values.values() {
        *expected.entry(*v).or_default() += 1;
    }
    let h = w.views().plots.histogram().expect("the histogram is computed").clone();
    assert_eq!((h.total, h.different), (values.len() as u64, expected.len() as u64));
    assert_eq!(h.common.iter().copied().collect::<BTreeMap<_, _>>(), expected);
    let def = lookup::find_register(&w.doc().recording, field.register).unwrap();
    let layout_field = def.layout.field(field.field.as_deref().unwrap()).unwrap();
    let (value, n) = h.common[0];
    assert!(w.has(&format!("Value {value:#x} {}, {n} times", layout_field.text(value))));
}

#[test]
fn plot_counts_apply_the_filter_for_every_grouping() {
    let mut w = Window::open_sample("vecadd.kine");
    w.views().events.filter = "write".into();
    w.run("show-plots");
    w.views().plots.section = Section::Counts;
    let filter_data = w.doc().derived.filter_data();
    for by in GroupBy::ALL {
        w.views().plots.by = ByKind(by);
        w.settle();
        let groups = w.views().plots.groups().expect("the groups are counted").to_vec();
        let recording = &w.doc().recording;
        let select = |text: &str| {
            let filter = Query::parse(text)
                .unwrap()
                .compile(recording, Some(&filter_data))
                .unwrap();
            filter.select(&recording.events, &Progress::new()).unwrap().len()
        };
        assert_eq!(
            groups.iter().map(|g| g.accesses).sum::<u64>(),
            select("write"),
            "{by:?}"
        );
        if by == GroupBy::Job {
            for g in &groups {
                let text = g
                    .name
                    .as_ref()
                    .map_or("write and not job".into(), |n| format!("write and job = {n}"));
                assert_eq!(g.accesses, select(&text), "{text}");
            }
        }
    }
    // A click on a group goes to its first access.
    let (name, accesses, first) = {
        let g = &w.views().plots.groups().unwrap()[0];
        (g.name.clone().unwrap(), g.accesses, g.first_event)
    };
    w.click(&format!("job {name}, {accesses} accesses"));
    assert_eq!(w.doc().current_event(), first);
    w.views().events.filter = "job = 123456".into();
    w.settle();
    assert!(w.has_part("No access passes the filter"));
    w.views().events.filter = "nonsense".into();
    w.settle();
    assert!(w.has_part("The filter cannot be read"));
}

#[test]
fn times_between_patterns_are_measured_and_errors_shown() {
    let mut w = Window::open_sample("vecadd.kine");
    w.run("show-plots");
    w.click("Section Times between");
    w.click("From submits to job interrupts");
    let jobs = w.doc().derived.jobs.len() as u64;
    let b = w.views().plots.intervals().expect("the intervals are measured").clone();
    assert!(b.count > 0 && b.count <= jobs);
    assert_eq!(b.bins.iter().map(|b| b.count).sum::<u64>(), b.count);
    assert!(w.has_part("median"));
    let to = b.times.unwrap().longest.to;
    let link = format!("  to event {to}");
    assert!(w.has(&link), "the events are links");
    w.views().plots.from = "offset = ".into();
    w.settle();
    w.click("Measure");
    assert!(w.has_part("▲ from"), "the error is shown");
}

#[test]
fn work_that_is_replaced_or_stopped_leaves_the_window_usable() {
    let mut w = Window::from_recording(long::busy(200_000));
    let busy = find_busiest_register(w.doc());
    w.doc().plot(&register_line(busy));
    let ctx = w.harness.ctx.clone();
    w.app().run(&ctx, "show-plots");
    w.harness.step();
    // The user chooses another filter before the first work ends.
    w.views().plots.access_filter = AccessFilter::Writes;
    w.harness.step();
    w.views().plots.access_filter = AccessFilter::Both;
    w.settle();
    let all = w.doc().derived.registers[&RegOffset::new(busy)].accesses.len();
    assert_eq!(w.views().plots.values_of(&register_line(busy)).unwrap().len(), all);
    assert!(
        w.views().plots.point_count() < 8000,
        "{} points for {all} values",
        w.views().plots.point_count()
    );
}

#[test]
fn a_memory_dump_has_nothing_to_plot() {
    let mut w = Window::from_recording(trace_core::recording::Recording::default());
    w.run("show-plots");
    assert!(w.has_part("no values over time"));
}

//! Memory traces in the window: Launches, Memory, the inspector and the last writer show what a target traced. The
//! target is the stand-in's device.

use crate::common::cuda::stand_in_targets;
use crate::common::{Window, samples};
use kinescope::panels::contents::memory::Side;
use kinescope::theme::ThemeChoice;
use kinescope_files::scene::Selection;
use trace_core::api_trace::ContentState;

/// Opens the sample of a CUDA program on a machine with the stand-in driver.
fn sample(theme: ThemeChoice) -> Window {
    let mut w = Window::open_file(&samples().join("cuda/net.kine"), theme, 1.0);
    let targets = stand_in_targets(w.folder.path());
    w.app().set_targets(targets);
    w
}

fn launches(w: &mut Window) -> Vec<u64> {
    let api_trace = w.doc().api_trace().unwrap();
    api_trace.launches().iter().map(|l| l.event).collect()
}

#[test]
fn launches_panel_lists_changed_memory() {
    let mut w = sample(ThemeChoice::Dark);
    w.run("show-launches");
    assert!(!w.has_part("changed memory"), "no target has traced memory yet");
    w.click("Trace the memory that each launch changed on cuda:0");
    let api_trace = w.doc().api_trace().unwrap();
    assert_eq!(
        (api_trace.memory_traces().len(), w.doc().memory_trace.failure.clone()),
        (1, None)
    );
    let change_counts: Vec<usize> = api_trace
        .launches()
        .iter()
        .map(|l| api_trace.launch_changes(l.event).unwrap().list.len())
        .collect();
    assert!(change_counts.iter().all(|n| *n == 1), "{change_counts:?}");
    assert!(
        !w.has("Trace the memory that each launch changed on cuda:0"),
        "all changes are known"
    );
    // The last column of the list shows the change.
    let events = launches(&mut w);
    for (n, row) in [(0, "launch 0 layer"), (3, "launch 3 matmul"), (5, "launch 5 layer")] {
        let change = &api_trace.launch_changes(events[n]).unwrap().list[0];
        let name = &api_trace.buffers().get(change.buffer.unwrap()).unwrap().name;
        let cells = w.row_texts(row);
        assert_eq!(cells.last(), Some(&format!("{name}: {} B", change.bytes)), "{cells:?}");
        assert_eq!(Some(cells[1].as_str()), row.split(' ').nth(2), "{cells:?}");
    }
    assert!(w.has("8 launches"));
    // The inspector shows the change and links to it in Memory, before and after the launch.
    let first = events[0];
    w.doc().go(first);
    w.settle();
    let first_change = api_trace.launch_changes(first).unwrap().list[0].clone();
    let name = api_trace
        .buffers()
        .get(first_change.buffer.unwrap())
        .unwrap()
        .name
        .clone();
    let link = format!("changed {name}, {} B", first_change.bytes);
    assert!(w.has(&link), "{link}");
    w.click(&link);
    assert!(w.is_panel_active("memory"));
    assert_eq!(w.views().memory.device.side, Side::Both);
    assert!(matches!(*w.doc().selection(), Selection::Memory { va, .. } if va == first_change.span.start));
    assert!(
        w.has("▲") || w.has_part("changed by launch"),
        "differing bytes are marked"
    );
}

#[test]
fn memory_around_a_launch_is_traced_and_shown() {
    let mut w = sample(ThemeChoice::Dark);
    let events = launches(&mut w);
    // This launch writes a buffer that no copy reads back.
    w.doc().go(events[5]);
    w.settle();
    let (api_trace, recording) = (w.doc().api_trace().unwrap(), std::sync::Arc::clone(&w.doc().recording));
    let row = kinescope_session::api_trace::launch(&recording, events[5]).unwrap();
    let arguments = api_trace.arguments(&recording, events[5], &row);
    let (to, pointer) = arguments[0].pointers().next().unwrap();
    // The test uses the second value, because every launch changes it.
    let (to, bytes) = (to + 4, api_trace.buffers().get(pointer.buffer).unwrap().bytes - 4);
    w.doc().select(Selection::Memory {
        space: 0,
        va: to,
        bytes: 1,
    });
    w.run("show-memory");
    w.click("Memory both");
    let known = |w: &mut Window, event: u64| {
        let api_trace = w.doc().api_trace().unwrap();
        api_trace
            .pieces(&recording, to..to + bytes, event)
            .iter()
            .all(|p| p.state.is_known())
    };
    assert!(!known(&mut w, events[5]) && !known(&mut w, events[5] + 1));
    assert!(w.has_part("unknown since the launch"));
    w.click("Trace memory before and after this launch, and all changes of the launch on cuda:0");
    assert!(known(&mut w, events[5]) && known(&mut w, events[5] + 1));
    assert!(
        !w.has_part("unknown since the launch"),
        "the bytes are shown in hex now"
    );
    // The last writer before this launch is still unknown, because the earlier launch was not traced.
    w.click("Memory before");
    assert!(w.has_part("candidate launch"));
    w.click("Trace the launch that changed this byte on cuda:0");
    assert!(!w.has_part("candidate launch"));
    let writer = w.doc().api_trace().unwrap().find_last_writer(&recording, to, events[5]);
    assert!(writer.launches.is_empty() && writer.byte.is_some(), "{writer:?}");
    assert!(matches!(writer.state, ContentState::Known(..)));
    assert!(w.has_part("content on cuda:0"), "the content names its target");
    if let Some(c) = writer.change {
        assert!(w.has_part("changed by launch"));
        assert!(events[..5].contains(&c.event));
        // The command for the last writer leads to the same launch.
        assert!(w.run("last-writer"));
        assert_eq!(w.doc().current_event(), c.event);
    } else {
        panic!("the earlier launch of the layer is not the last writer: {writer:?}");
    }
}

#[test]
fn launches_are_traced_by_shortcut_and_errors_reported() {
    let mut w = sample(ThemeChoice::Dark);
    let events = launches(&mut w);
    w.doc().go(events[1]);
    w.settle();
    w.harness.key_press_modifiers(egui::Modifiers::ALT, egui::Key::B);
    w.settle();
    let api_trace = w.doc().api_trace().unwrap();
    assert!(api_trace.launch_changes(events[1]).unwrap().complete);
    assert!(
        api_trace.launch_changes(events[2]).is_none(),
        "only the requested launch is traced"
    );
    assert!(w.run("watch-launches"));
    let before = w.doc().api_trace().unwrap();
    assert!(events.iter().all(|e| before.launch_changes(*e).is_some()));
    // A failed trace on an unreachable target keeps the known content.
    w.doc().replay.choose("cuda:7");
    assert!(w.run("watch-launch"));
    let failure = w.doc().memory_trace.failure.clone().unwrap();
    assert!(
        failure.contains("cuda:7") && failure.contains("no CUDA device 7"),
        "{failure}"
    );
    assert!(std::sync::Arc::ptr_eq(&before, &w.doc().api_trace().unwrap()));
    // A target without kernel launches cannot trace them.
    w.doc().replay.choose("software:mali-g71");
    w.settle();
    assert!(!w.run("watch-launch"));
}

#[test]
fn traced_memory_looks_right_in_the_light() {
    let mut w = sample(ThemeChoice::Light);
    w.run("show-launches");
    w.click("Trace the memory that each launch changed on cuda:0");
    let events = launches(&mut w);
    w.doc().go(events[5]);
    w.settle();
    let api_trace = w.doc().api_trace().unwrap();
    let change = api_trace.launch_changes(events[5]).unwrap().list[0].clone();
    assert!(!api_trace.memory_traces()[0].samples().is_empty());
    w.doc().select(Selection::Memory {
        space: 0,
        va: change.span.start,
        bytes: 1,
    });
    w.run("show-memory");
    w.click("Memory both");
    w.harness.snapshot("device_memory_watched_light");
}

#[test]
fn launches_are_measured_and_limits_reach_the_request() {
    let mut w = sample(ThemeChoice::Dark);
    w.run("show-launches");
    w.click("Limits");
    for (field, value) in [
        ("number of replays", "2"),
        ("size limit of a trace", "64"),
        ("time limit of a trace", "90"),
    ] {
        w.enter(field, value);
    }
    let limits = w.doc().memory_trace.limits;
    assert_eq!((limits.repeats, limits.max_bytes, limits.time_s), (2, 64 << 20, 90));
    let request = limits.limit(kinescope_session::memory_trace::request_for_launches(
        &w.doc().recording,
    ));
    assert_eq!((request.most, request.time_ns), (64 << 20, 90_000_000_000));
    w.harness.key_press(egui::Key::Escape);
    w.settle();
    w.click("Measure every launch on cuda:0");
    assert_eq!(w.doc().launch_times.failure, None);
    let events = launches(&mut w);
    let times = w.doc().launch_times.clone();
    assert!(events.iter().all(|e| times.find_duration_ns(*e).is_some()), "{times:?}");
    let shown = kinescope_session::text::duration(times.find_duration_ns(events[0]).unwrap());
    let cells = w.row_texts("launch 0 layer");
    assert!(cells.contains(&shown), "{shown} in {cells:?}");
}

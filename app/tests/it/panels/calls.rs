//! Tests of API traces in Launches, Kernel, Memory, the inspector and the outline, by pointer and keyboard. The other
//! panels explain that they have no content.

use crate::common::net::{Net, net};
use crate::common::{Window, samples};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use kinescope::panels::contents::memory::Side;
use kinescope_files::scene::Selection;
use kinescope_session::api_trace::{self, LaunchSort};
use kinescope_session::xref_trail::AccessFilter;
use trace_core::GpuVa;
use trace_core::recording::Recording;

fn open(times: u32) -> (Window, Net) {
    let n = net(times);
    let w = Window::from_recording(n.recording.clone());
    (w, n)
}

/// Returns the labels that start with `begin`, in drawing order.
fn labels(w: &Window, begin: &str) -> Vec<String> {
    let all = w.harness.query_all_by_label_contains(begin);
    all.filter_map(|n| n.accesskit_node().label())
        .filter(|l| l.starts_with(begin))
        .collect()
}

#[test]
fn api_trace_opens_at_its_first_launch() {
    let (mut w, n) = open(2);
    assert!(w.is_panel_active("launches") && !w.is_panel_active("register"));
    assert_eq!(w.doc().current_event(), n.launches[0]);
    assert_eq!(
        labels(&w, "launch ")[..5],
        [
            "launch 0 conv2d",
            "launch 1 relu",
            "launch 2 cutlass::Kernel<Gemm>",
            "launch 3 softmax",
            "launch 4 conv2d"
        ]
    );
    // The inspector shows the arguments of the launch, with addresses as buffers.
    for message in [
        "0 in2",
        "1 in0",
        "2 alloc 0",
        "3 784",
        "4 28",
        "grid 16",
        "stream stream 2",
    ] {
        assert!(w.has(message), "{message}");
    }
}

#[test]
fn a_row_of_a_launch_has_its_size_stream_arguments_and_changes() {
    let (mut w, n) = open(3);
    w.doc().go(n.around);
    w.settle();
    // The recording holds memory around this launch only.
    assert_eq!(
        w.row_texts("launch 3 softmax"),
        [
            "3",
            "softmax",
            "1",
            "32",
            "stream 2",
            "out0, out0, 10, 0.5",
            "out0: 40 B"
        ]
    );
    assert_eq!(
        w.row_texts("launch 0 conv2d"),
        [
            "0",
            "conv2d",
            "16",
            "256",
            "stream 2",
            "in2, in0, alloc 0, 784, 28",
            "–"
        ]
    );
    assert!(w.has("12 launches") && w.has("Filter launches by name"));
}

/// At each width, the filter field ends before the buttons begin.
#[test]
fn filter_of_launches_leaves_room_for_the_buttons() {
    let (mut w, _) = open(3);
    w.run("show-launches");
    for target in ["software:mali-g71", "cuda:0"] {
        w.doc().replay.choose(target);
        for width in [1280.0, 1100.0, 1000.0, 853.0, 700.0] {
            w.harness.set_size(egui::vec2(width, 800.0));
            w.settle();
            let field = w.harness.get_by_label("Filter launches by name").rect();
            let buttons = w.harness.query_all_by_label_contains("Trace ").map(|b| b.rect());
            let others = buttons.chain(w.harness.query_all_by_label("Limits").map(|b| b.rect()));
            let first = others
                .filter(|other| other.y_range().contains(field.center().y))
                .map(|other| other.left())
                .fold(f32::INFINITY, f32::min);
            assert!(
                first.is_finite() && field.right() + 8.0 <= first,
                "{target} at {width}: {field:?}, {first}"
            );
            assert!(field.width() >= 90.0, "{target} at {width}: {field:?}");
        }
    }
}

#[test]
fn launches_are_found_by_name_and_sorted() {
    let (mut w, n) = open(3);
    w.run("filter-launches");
    assert!(w.harness.get_by_label("Filter launches by name").is_focused());
    w.type_text("SOFT");
    let rows = w.views().launches.rows.clone().unwrap();
    assert_eq!(*rows, [3, 7, 11]);
    w.click("All launches");
    assert!(w.views().launches.rows.is_none());
    w.click("Sort by grid");
    let rows = w.views().launches.rows.clone().unwrap();
    let doc = w.doc();
    let api_trace = doc.api_trace().unwrap();
    let blocks = |l: &u32| {
        let event = api_trace.launches()[*l as usize].event;
        api_trace::launch(&doc.recording, event)
            .unwrap()
            .grid
            .iter()
            .product::<u32>()
    };
    let sizes: Vec<u32> = rows.iter().map(blocks).collect();
    assert!(sizes.windows(2).all(|w| w[0] >= w[1]) && sizes[0] == 32, "{sizes:?}");
    w.click("Sort by grid");
    assert!(!w.views().launches.falling);
    assert_eq!(w.views().launches.sort, LaunchSort::Grid);
    // A click goes to the launch. The arrow keys follow the sorted list.
    w.click("launch 3 softmax");
    assert_eq!(w.doc().current_event(), n.around);
    w.harness.key_press(egui::Key::ArrowDown);
    w.settle();
    let next = w.views().launches.rows.clone().unwrap();
    let at = next.iter().position(|l| *l == 3).unwrap();
    let event = n.launches[next[at + 1] as usize];
    assert_eq!(w.doc().current_event(), event);
    w.views().launches.filter = "nothing like it".into();
    w.settle();
    assert!(w.has_part("No kernel of that name"));
}

#[test]
fn kernel_panel_shows_code_and_links_to_launches() {
    let (mut w, n) = open(2);
    w.click("kernel of launch 1");
    assert!(w.is_panel_active("kernel"));
    assert_eq!(w.doc().current_event(), n.launches[1]);
    assert!(
        w.has_part(".visible .entry _Z4reluPfi("),
        "the code starts at the kernel"
    );
    assert!(w.has("registers 24 per thread") && w.has("form PTX") && w.has("compiled for sm_80"));
    w.click("launch 5 of the kernel");
    assert_eq!(w.doc().current_event(), n.launches[5]);
    // Another launch shows another kernel, whose module is not stored.
    w.doc().go(n.launches[2]);
    w.settle();
    assert!(w.has_part("its memory is gone"));
    assert!(w.has("registers 168 per thread"));
    w.doc().go(n.launches[0]);
    w.settle();
    w.harness.get_by_label("Search the PTX").focus();
    w.settle();
    w.type_text("ld.const");
    assert!(w.has("1 found"), "the matching lines are counted");
    let copied = w.run_and_copy("copy-ptx");
    assert!(copied.contains(".version 8.0") && copied.contains("_Z7softmaxPKfPfif"));
}

#[test]
fn memory_before_and_after_a_launch_is_shown() {
    let (mut w, n) = open(1);
    w.doc().go(n.around);
    w.settle();
    w.click("memory before and after the launch");
    assert!(w.is_panel_active("memory"));
    assert_eq!(w.views().memory.device.side, Side::Both);
    // The softmax writes this result, so its bytes differ and are marked.
    assert_eq!(
        *w.doc().selection(),
        Selection::Memory {
            space: 0,
            va: GpuVa::new(n.scores),
            bytes: 16
        }
    );
    assert!(w.has_part("out0 · 40 B"));
    let marks = |w: &Window| {
        let red = kinescope::theme::Palette::for_theme(kinescope::theme::ThemeChoice::Dark).error;
        w.harness.output().shapes.iter().filter(|s| matches!(&s.shape, egui::Shape::Text(t) if t.galley.text() != "▲" && t.galley.job.sections.iter().any(|x| x.format.color == red))).count()
    };
    assert!(marks(&w) > 10, "{}", marks(&w));
    w.click("Memory before");
    assert_eq!(marks(&w), 0);
    // The content of the features is unknown since a kernel wrote them. The line links to that kernel.
    w.click("device buffer alloc 0");
    assert!(w.has_part("unknown since event"));
    // A later kernel may also take an address in the features, so the content is unknown since its launch.
    let since = n.launches[2];
    w.click(&format!("unknown since event {since}"));
    assert_eq!(w.doc().current_event(), since);
    assert!(
        matches!(w.doc().selection(), Selection::Memory { .. }),
        "the selection stays"
    );
}

#[test]
fn last_writer_links_to_the_launch() {
    let (mut w, n) = open(1);
    w.run("last-event");
    let end = w.doc().current_event() - 2;
    w.doc().go_with(
        end,
        Selection::Memory {
            space: 0,
            va: GpuVa::new(n.scores + 8),
            bytes: 1,
        },
    );
    w.run("show-memory");
    // The recording holds memory before and after the last launch, which changed it.
    assert!(w.has("changed by launch 3 softmax"));
    assert!(!w.has("possibly launch 2 cutlass::Kernel<Gemm>"));
    w.click("changed by launch 3 softmax");
    assert_eq!(w.doc().current_event(), n.around);
    // Before that launch the writer is uncertain: another launch may have the address.
    assert!(w.has("possibly launch 2 cutlass::Kernel<Gemm>"));
    w.click("possibly launch 2 cutlass::Kernel<Gemm>");
    assert_eq!(w.doc().current_event(), n.launches[2]);
    // The keyboard follows the same references of the byte.
    w.doc().go_with(
        end,
        Selection::Memory {
            space: 0,
            va: GpuVa::new(n.image),
            bytes: 1,
        },
    );
    w.settle();
    assert!(w.has_part("written by event"));
    assert_eq!(w.doc().next_xref(false, AccessFilter::Writes), Some(n.image_in));
    w.run("last-writer");
    assert_eq!(w.doc().current_event(), n.image_in);
}

#[test]
fn the_outline_lists_kernels_streams_buffers_and_modules() {
    let (mut w, n) = open(2);
    for label in [
        "outline kernel conv2d",
        "outline stream 2",
        "outline buffer in0",
        "outline module 0",
        "outline device",
    ] {
        assert!(w.has(label), "{label}");
    }
    w.click("outline kernel softmax");
    assert!(w.is_panel_active("kernel"));
    assert_eq!(w.doc().current_event(), n.around);
    w.click("outline buffer in0");
    assert_eq!(
        *w.doc().selection(),
        Selection::Memory {
            space: 0,
            va: GpuVa::new(n.weights),
            bytes: 1
        }
    );
    assert!(w.is_panel_active("memory") && w.has_part("read back at event"));
    w.doc().go(0);
    w.settle();
    w.click("outline stream 1");
    assert_eq!(
        w.doc().current_event(),
        n.image_in,
        "the first event of the stream is current"
    );
}

#[test]
fn inspector_describes_every_kind_of_call() {
    let (mut w, n) = open(1);
    w.doc().go(n.image_in);
    w.settle();
    assert!(w.has("to in2") && w.has("size 3.1 KiB"));
    w.doc().go(n.image_in + 1);
    w.settle();
    assert!(w.has_part("an event after the work in the stream"));
    w.doc().go(n.image_in + 3);
    w.settle();
    let record = n.image_in + 1;
    w.click(&format!("waits for event {record}, stream 1"));
    assert_eq!(w.doc().current_event(), record);
    w.doc().go(4);
    w.settle();
    assert!(w.has("at in0"), "allocated memory has its name");
}

#[test]
fn the_palette_goes_to_kernels_and_buffers() {
    let (mut w, n) = open(1);
    w.run("palette");
    w.type_text("relu\n");
    assert!(w.is_panel_active("kernel"));
    assert_eq!(w.views().kernel.function, Some(1));
    w.run("palette");
    w.type_text("launch 3\n");
    assert_eq!(w.doc().current_event(), n.around);
    w.run("palette");
    w.type_text("alloc 0\n");
    assert_eq!(
        *w.doc().selection(),
        Selection::Memory {
            space: 0,
            va: GpuVa::new(n.features),
            bytes: 1
        }
    );
}

#[test]
fn panels_explain_when_the_recording_kind_does_not_fit() {
    let mut w = Window::from_recording(Recording::default());
    for (panel, text) in [
        ("show-launches", "kernel launches"),
        ("show-kernel", "kernels with their PTX"),
    ] {
        w.run(panel);
        assert!(w.has_part(text), "{panel} shows {text}");
        assert!(w.has_part("kinescope record --with cuda"));
    }
    let (mut w, _) = open(1);
    for (panel, text) in [
        ("show-register", "no register accesses"),
        ("show-page-tables", "no page tables"),
        ("show-jobs", "kernel launches"),
        ("show-shader", "kernels"),
    ] {
        w.run(panel);
        assert!(w.has_part(text), "{panel} shows {text}");
    }
}

/// Tests that the index of a program with two processes opens the recording of the process with more launches.
#[test]
fn other_processes_of_the_program_are_in_a_menu() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("run.kine"), folder.path().join("run-8.kine"));
    for file in [&first, &second] {
        std::fs::copy(samples().join("cuda/net.kine"), file).unwrap();
    }
    let process = |file: &str, process: u32, launches: u64| {
        serde_json::json!({ "file": file, "process": process, "launches": launches, "complete": process == 7,
            "command": ["python3", "serve.py", process.to_string()] })
    };
    let index = folder.path().join("run.processes.json");
    let text = serde_json::json!({ "kinescope_processes": 1,
        "processes": [process("run.kine", 7, 3), process("run-8.kine", 8, 8)] });
    std::fs::write(&index, text.to_string()).unwrap();
    let mut w = Window::empty();
    w.start(&index);
    assert!(w.has("process 8, one of 2"), "the process with more launches opens");
    w.click("process 8, one of 2");
    w.settle();
    assert!(w.has_part("python3 serve.py 8") && w.has_part("killed"));
    let other = w.harness.get_by_label_contains("python3 serve.py 7");
    other.click();
    w.settle();
    assert_eq!(w.doc().path, first);
    assert!(w.has("process 7, one of 2"), "the index next to the recording lists it");
    // A recording that no index lists has no process menu.
    let alone = folder.path().join("alone.kine");
    std::fs::copy(&first, &alone).unwrap();
    w.start(&alone);
    w.settle();
    assert!(!w.has_part("one of 2"));
}

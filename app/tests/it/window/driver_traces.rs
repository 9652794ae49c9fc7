//! Tests of the panels of driver traces: on a log of Gdev, and on logs of a CUDA program and of a small client.

use crate::common::Window;
use egui::{Key, Modifiers};
use egui_kittest::kittest::Queryable as _;
use kinescope::panels::common::actions::PanelAction;
use kinescope_files::scene::Selection;
use std::path::{Path, PathBuf};
use trace_core::progress::Progress;
use trace_core::xref::XrefTarget;
use whole_program_tests::joined;

/// A kernel log of Gdev: a program opens the device, and allocates two DMA buffers and three others.
const GDEV_LOG: &str = "\
gopen: opening minor device 0
gopen: creating a new virtual address space object. size: 0x8000000000
gdev_drv_vspace_alloc: creating a new vspace. size: 0x8000000000
nouveau_fifo_channel_create_: channel addr: 0xe0002000, len: 0x1000.
gopen: creating a new GPU context.
gdev_drv_chan_alloc: allocating a channel. push buffer addr: 0x203f5000, size: 0x10000. indirect buffer addr: 0x20405000
gdev_raw_ctx_new: fence buffer allocation with size: 0x10000
gdev_drv_bo_alloc: allocating a new buffer object. size: 0x10000
gdev_raw_ctx_new: notify buffer allocation with size: 0x8
gdev_drv_bo_alloc: allocating a new buffer object. size: 0x8
gopen: allocating static bounce bound buffer. size: 0x40000
gdev_drv_bo_alloc: allocating a new buffer object. size: 0x40000 (memory allocated at host for DMA)
gdev_drv_bo_alloc: allocating a new buffer object. size: 0x40000 (memory allocated at host for DMA)
[gdev] Opened gdev0
__malloc_dma: allocating 2 memory regions with size 0x40000
gdev_raw_mem_alloc_dma: allocating memory at host for DMA. size: 0x40000
gdev_drv_bo_alloc: allocating a new buffer object. size: 0x40000
gdev_raw_mem_alloc_dma: allocating memory at host for DMA. size: 0x40000
gdev_drv_bo_alloc: allocating a new buffer object. size: 0x40000
gmalloc: allocating device memory by calling gdev_mem_alloc. size: 0xd00000
gdev_raw_mem_alloc: allocing memory at device. size: 0xd00000
gdev_drv_bo_alloc: allocating a new buffer object. size: 0xd00000
gmalloc: allocating device memory by calling gdev_mem_alloc. size: 0x20300
gdev_raw_mem_alloc: allocating memory at device. size: 0x20300
gdev_drv_bo_alloc: allocating a new buffer object. size: 0x20300
gmalloc: allocating device memory by calling gdev_mem_alloc. size: 0x28
gdev_raw_mem_alloc: allocating memory at device. size: 0x28
gdev_drv_bo_alloc: allocating a new buffer object. size: 0x28
";

/// Event of the first launch of the CUDA program, and the name of its buffer.
const LAUNCH: (u64, &str) = (1215, "buffer 0x5c000098");

fn open_gdev() -> Window {
    let mut w = Window::empty();
    let file = w.folder.path().join("gdev.log");
    std::fs::write(&file, GDEV_LOG).unwrap();
    w.start(&file);
    w
}

/// Opens a copy of a log of requests to NVIDIA's driver.
fn open_log(name: &str) -> Window {
    let mut w = Window::empty();
    let from: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../trace-core/import/tests/nvidia")
        .join(name);
    let file = w.folder.path().join(name);
    std::fs::copy(from, &file).unwrap();
    w.start(&file);
    w
}

/// Returns the cells of a row of a buffer of the Gdev log: name, size, memory, caller.
fn buffer_row(w: &Window, n: usize) -> [String; 4] {
    let cells = w.row_texts(&format!("buffer #{n}"));
    let cell = |n: usize| cells.get(n).cloned().unwrap_or_default();
    let memory = cells.iter().find(|c| *c == "host" || *c == "video");
    [
        format!("{} {}", cell(0), cell(1)),
        cell(2),
        memory.cloned().unwrap_or_default(),
        cells.last().cloned().unwrap_or_default(),
    ]
}

#[test]
fn driver_traces_open_with_their_panels() {
    let mut w = open_gdev();
    assert!(w.is_panel_active("objects"));
    for title in ["Objects", "Address space", "Push buffer", "Events"] {
        assert!(w.has(title), "{title}");
    }
}

#[test]
fn buffers_of_a_gdev_log_have_their_callers() {
    let mut w = open_gdev();
    let rows: Vec<[String; 4]> = (5..14).map(|n| buffer_row(&w, n)).collect();
    let texts: Vec<String> = rows.iter().map(|r| r.join(" ").replace("  ", " ")).collect();
    assert_eq!(
        texts,
        [
            "buffer #5 0x10000 gdev_raw_ctx_new",
            "buffer #6 0x8 gdev_raw_ctx_new",
            "buffer #7 0x40000 host gopen",
            "buffer #8 0x40000 host gopen",
            "buffer #9 0x40000 host __malloc_dma",
            "buffer #10 0x40000 host __malloc_dma",
            "buffer #11 0xd00000 video gmalloc",
            "buffer #12 0x20300 video gmalloc",
            "buffer #13 0x28 video gmalloc",
        ]
    );
    assert!(w.has("14 objects"));
    // A click goes to the event that allocated the first of the two.
    w.click("buffer #9");
    let event = w.doc().current_event();
    assert!(
        w.has("Created buffer") && w.has("asked for by __malloc_dma"),
        "the inspector shows it"
    );
    w.click("allocation of buffer #10");
    assert!(w.doc().current_event() > event);
}

#[test]
fn filter_and_current_event_choose_objects() {
    let mut w = open_gdev();
    w.enter("Filter objects", "__malloc_dma 0x40000");
    assert!(w.has("buffer #9") && w.has("buffer #10") && !w.has("buffer #7"));
    assert!(w.has("2 of 14"));
    w.views().objects.filter.clear();
    w.settle();
    w.click("buffer #7");
    w.click("at the current event");
    assert!(
        w.has("buffer #7") && !w.has("buffer #8"),
        "the other one is allocated later"
    );
}

#[test]
fn address_space_says_what_has_no_address() {
    let mut w = open_gdev();
    w.run("show-address-space");
    assert!(w.has_part("9 buffers without address"));
    w.doc().go(20);
    w.settle();
    assert!(w.has("channel #4 at 0x203f5000"), "its push buffer");
}

#[test]
fn tree_of_a_client_shows_classes_and_folds() {
    let mut w = open_log("h100-rm-client.klog.gz");
    // The list goes to the object of the event.
    w.doc().go(79);
    w.settle();
    let cells = w.row_texts("engine 0xcaf0000f");
    assert_eq!(cells[..2], ["engine", "0xcaf0000f"]);
    assert!(w.has("class 0xcbc0 HOPPER_COMPUTE_A"), "the inspector shows it");
    assert!(w.has("channel 0xcaf0000e"));
    w.click("Hide children of channel group 0xcaf0000b");
    assert!(!w.has("channel 0xcaf0000e") && w.has("buffer 0xcaf00012"));
    w.click("Show children of channel group 0xcaf0000b");
    assert!(w.has("channel 0xcaf0000e"));
    // A buffer stands below its client and device.
    w.doc().go(27);
    w.settle();
    assert!(w.has("client 0xc1d00030") && w.has("device 0xcaf00000") && w.has("buffer 0xcaf00005"));
}

#[test]
fn address_space_lists_what_is_mapped_at_the_event() {
    let mut w = open_log("h100-rm-client.klog.gz");
    w.run("show-address-space");
    w.doc().go(60);
    w.settle();
    assert!(w.has("buffer 0xcaf00005 at 0x1000000000"));
    assert!(!w.has("buffer 0xcaf00013 at 0x1001e00000"), "it is mapped later");
    w.doc().go(110);
    w.settle();
    w.click("buffer 0xcaf00013 at 0x1001e00000");
    let selected = w.views().address_space.selected;
    assert!(selected.is_some());
    // The other panels request the addresses of an object.
    w.app().actions.push(PanelAction::ObjectAddresses(6));
    w.settle();
    assert_ne!(w.views().address_space.selected, selected);
}

#[test]
fn launch_of_a_cuda_program_shows_its_dimensions_and_pointers() {
    let (event, buffer) = LAUNCH;
    let mut w = open_log("h100-cuda-vadd.klog.gz");
    w.run("show-push-buffer");
    w.doc().go(event);
    w.settle();
    w.views().push_buffer.only_work = true;
    w.doc().go(event + 20);
    w.settle();
    w.doc().go(event);
    w.settle();
    assert!(w.has("Submission 221 of 632"));
    assert!(w.has("launch grid 4,1,1, block 256,1,1"));
    for (offset, at) in [
        ("0x0", "0x7f2bd0800000"),
        ("0x8", "0x7f2bd0801000"),
        ("0x10", "0x7f2bd0802000"),
    ] {
        assert!(w.has(&format!("parameter +{offset} {at}")), "{offset}");
        assert!(w.has_part(&format!("{at} points to {buffer}")), "{at}");
    }
    assert!(w.has("parameter +0x18 0x3e8 (1\u{2009}000)"));
    w.views().push_buffer.scroll_to_top();
    w.settle();
    assert!(w.has("upload 528 B to 0x7f2bd2290000"));
    assert!(!w.has_part("LOAD_INLINE_DATA"), "the words of an upload are no rows");
    // The bytes come on request.
    let paints = |w: &Window, offset: &str| w.painted_texts().iter().any(|t| t.text == offset);
    assert!(!paints(&w, "+0x10"));
    w.click("upload 528 B to 0x7f2bd2290000");
    assert!(paints(&w, "+0x10"));
    // Its doorbell and its job show the same submission.
    w.doc().go(event + 1);
    w.settle();
    assert!(w.has("Submission 221 of 632"));
    w.doc().go_with(event, Selection::Job(221));
    w.settle();
    assert!(w.has("Submission 221 of 632"));
    w.click("Next submission");
    assert!(w.has("Submission 222 of 632"));
}

#[test]
fn inspector_shows_the_fields_of_a_ring_entry() {
    let mut w = open_log("h100-cuda-vadd.klog.gz");
    w.doc().go(LAUNCH.0);
    w.settle();
    for part in [
        "Ring entry",
        "channel channel 0x5c00001c",
        "entry 0x00061a020083a404",
        "words 390",
        "commands 0x20083a404",
        "doorbell event 1\u{2009}216",
    ] {
        assert!(w.has(part), "{part}");
    }
}

#[test]
fn code_of_a_launch_comes_from_earlier_submissions() {
    let mut w = open_log("h100-cuda-vadd.klog.gz");
    w.run("show-push-buffer");
    w.doc().go(LAUNCH.0);
    w.settle();
    w.click("Show code");
    // Its first instruction is LDC, and the kernel ends at its jump to itself. The lines depend on the machine: they are
    // instructions if NVIDIA's disassembler is installed.
    assert!(w.has_part("336 B at 0x7f2bd37ac200"));
    let is_first = |text: &str| text.contains("82 7b 01 ff 00 0a 00 00") || text.contains("LDC R1");
    assert!(w.painted_texts().iter().any(|t| is_first(&t.text)));
    w.click("Close code");
    assert!(!w.has_part("336 B at"));
}

#[test]
fn arrows_and_enter_move_along_objects() {
    let mut w = open_gdev();
    // Tab stops at the row that was clicked last.
    w.click("buffer #9");
    w.harness.get_by_label("buffer #9").focus();
    w.settle();
    for key in [Key::ArrowDown, Key::Enter] {
        w.stroke(Modifiers::NONE, key, None);
        w.settle();
    }
    assert_eq!(w.views().objects.selected, Some(10));
    assert!(w.has("Created buffer"));
}

/// Opens the log of the CUDA program with a call around its launch. Returns the events of call and submission too.
pub fn open_joined() -> (Window, u64, u64) {
    let opened = trace_import::open(
        &joined::vadd_log(),
        &trace_import::OpenOptions::default(),
        &Progress::new(),
    );
    let Ok(trace_import::Opened::Recording(opened)) = opened else {
        panic!("the log is a recording");
    };
    let mut w = Window::from_recording(joined::add_launch(opened.recording));
    let data = w.doc().derived.driver.clone().unwrap();
    let submission = data.trace.submissions()[joined::SUBMISSION as usize];
    let call = data.call_of(&submission).unwrap();
    (w, call, submission.event)
}

#[test]
fn call_and_submission_lead_to_each_other() {
    let (mut w, call, submission) = open_joined();
    w.run("show-push-buffer");
    w.doc().go(call);
    w.settle();
    assert!(w.has("Submission 221 of 632"), "the one that the call made");
    // Keys.
    w.stroke(Modifiers::NONE, Key::Y, None);
    w.settle();
    assert_eq!(w.doc().current_event(), submission);
    assert!(w.has("Submission 221 of 632"));
    w.stroke(Modifiers::SHIFT, Key::Y, None);
    w.settle();
    assert_eq!(w.doc().current_event(), call);
    // Commands of references.
    assert_eq!(w.doc().xref_target(), Some(XrefTarget::Event { event: call }));
    w.run("previous-touch");
    w.settle();
    assert_eq!(w.doc().current_event(), submission);
    w.run("next-touch");
    w.settle();
    assert_eq!(w.doc().current_event(), call);
    // Links of the inspector.
    assert!(w.has("Submissions"));
    w.click("compute 0 submission 221: the launch");
    assert_eq!(w.doc().current_event(), submission);
    w.click("call launch of vadd");
    assert_eq!(w.doc().current_event(), call);
}

#[test]
fn launch_has_the_kernel_of_its_call_in_push_buffer() {
    let (mut w, call, submission) = open_joined();
    w.run("show-push-buffer");
    w.doc().go(submission);
    w.settle();
    assert!(w.has("launch vadd, grid 4,1,1, block 256,1,1"));
    assert!(w.has("kernel vadd") && w.has_part("channel") && w.has_part("compute 0 (0x5c00001c)"));
    w.click("Go to call");
    assert_eq!(w.doc().current_event(), call);
    w.doc().go(submission);
    w.settle();
    w.click("launch of vadd of the submission");
    assert_eq!(w.doc().current_event(), call);
}

#[test]
fn lanes_of_channels_have_names_that_say_what_they_do() {
    let mut w = open_log("h100-cuda-vadd.klog.gz");
    assert!(w.has("Lane compute 0") && w.has("Lane compute 1"));
    w.harness.get_by_label("Lane compute 0").hover();
    for _ in 0..4 {
        w.harness.run();
    }
    let shown = w.painted_texts();
    let description = "compute 0: channel 0x5c00001c, graphics and compute";
    assert!(shown.iter().any(|t| t.text == description), "{shown:?}");
    // No name is a guess.
    w.run("show-push-buffer");
    w.doc().go(LAUNCH.0);
    w.settle();
    assert!(w.has("launch grid 4,1,1, block 256,1,1") && !w.has_part("by the call"));
}

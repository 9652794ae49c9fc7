//! Tests of the WebAssembly panel: copies, lines of traps, active lanes, streams; by mouse and by keyboard.

use crate::common::Window;
use crate::common::wasm_run::{COLLATZ, collatz, inputs, numbers, record, stopped};
use crate::panels::hands;
use egui::Key;
use egui_kittest::kittest::Queryable as _;
use kinescope::panels::wasm::view::DetailsPage;
use kinescope_session::wasm_run::CopyState;
use trace_core::Recording;
use wasm_recording::CopyStream;

fn open(recording: Recording) -> Window {
    let mut w = Window::from_recording(recording);
    w.settle();
    assert!(w.run("show-wasm"));
    w
}

/// Returns the words of the selected line of the program.
fn selected_line(w: &mut Window) -> String {
    let view = &w.views().wasm;
    let text = view.data().unwrap().text();
    view.line
        .map(|line| text.line(line).trim().to_owned())
        .unwrap_or_default()
}

fn double_click(w: &mut Window, label: &str) {
    let pos = w.harness.get_by_label(label).rect().center();
    hands::double_click(w, pos);
    w.settle();
}

#[test]
fn first_trap_is_in_view_with_its_copy() {
    let mut w = open(collatz());
    assert_eq!(w.views().wasm.copy, Some(11));
    assert_eq!(selected_line(&mut w), "unreachable");
    for words in ["all 64", "✓ done 61", "▲ trapped 3"] {
        assert!(w.has_part(words), "{words}");
    }
    assert!(w.has_part("unreachable, 3 % of lanes active, 2 copies trapped"));
    assert!(w.has("copy 000012 trapped"));
    // The error output is empty, and the output too: the input says most.
    assert!(w.has_part("12a4"));
}

#[test]
fn mouse_goes_from_a_trap_to_its_line() {
    let mut w = open(collatz());
    w.click("▲ trapped 3");
    assert_eq!(w.views().wasm.state, Some(CopyState::Trapped));
    assert!(!w.has("copy 000001 done"));
    w.views().wasm.line = None;
    double_click(&mut w, "copy 000041 trapped");
    assert_eq!(w.views().wasm.copy, Some(40));
    assert_eq!(selected_line(&mut w), "unreachable");
    w.views().wasm.line = None;
    w.click("Go to the trap");
    assert_eq!(selected_line(&mut w), "unreachable");
    // The time limit has no place: the line stays.
    w.views().wasm.line = Some(0);
    double_click(&mut w, "copy 000052 trapped");
    assert_eq!((w.views().wasm.copy, w.views().wasm.line), (Some(51), Some(0)));
    assert!(w.has_part("the place in the program is unknown"));
    w.click("all 64");
    assert_eq!(w.views().wasm.state, None);
    w.enter("Filter copies by name", "00006");
    assert!(w.has("copy 000060 done") && !w.has("copy 000059 done"));
}

#[test]
fn keyboard_goes_from_copy_to_copy_and_to_the_trap() {
    let mut w = open(collatz());
    w.click("copy 000010 done");
    assert_eq!(w.views().wasm.copy, Some(9));
    let event = w.doc().current_event();
    for _ in 0..2 {
        w.harness.key_press(Key::ArrowDown);
        w.settle();
    }
    assert_eq!(w.views().wasm.copy, Some(11));
    assert!(w.doc().current_event() > event, "the event follows the copy");
    w.views().wasm.line = None;
    w.harness.key_press(Key::Enter);
    w.settle();
    assert_eq!(selected_line(&mut w), "unreachable");
    assert!(w.run("next-trap"));
    assert_eq!(w.views().wasm.copy, Some(40));
    assert!(w.run("next-trap") && w.run("next-trap"));
    assert_eq!(w.views().wasm.copy, Some(11), "after the last trap comes the first");
}

#[test]
fn copy_follows_the_current_event() {
    let mut w = open(collatz());
    let event = w.views().wasm.data().unwrap().copy(20).unwrap().events.start;
    w.doc().go(event);
    w.settle();
    assert_eq!(w.views().wasm.copy, Some(20));
}

#[test]
fn details_show_streams_and_calls() {
    let mut w = open(collatz());
    w.enter("Filter copies by name", "000001");
    w.click("copy 000001 done");
    // 27 is famous for its 111 steps.
    assert!(w.has_part("111"));
    assert!(w.has_part("exit code 0"));
    w.views().wasm.page = Some(DetailsPage::Stream(CopyStream::Input));
    w.settle();
    assert!(w.has("27"));
    w.click("hex");
    assert!(w.has_part("32 37 "));
    w.click("calls 2");
    assert!(w.has_part("fd_write"));
    let before = w.doc().current_event();
    let call = w.views().wasm.data().unwrap().run().call(0, 0).unwrap();
    let label = format!("call 0 {}", call.call);
    w.click(&label);
    assert_eq!(w.doc().current_event(), call.event);
    assert_ne!(before, call.event);
    assert_eq!(w.views().wasm.copy, Some(0));
}

#[test]
fn blocks_have_their_active_lanes() {
    let mut w = open(collatz());
    let data = std::sync::Arc::clone(w.views().wasm.data().unwrap());
    let text = data.text();
    let line = |words: &str| (0..text.lines()).find(|l| text.line(*l).contains(words)).unwrap();
    let share = |line: u32| {
        data.line_profile(line)
            .and_then(|(block, _)| block.active_share())
            .unwrap()
    };
    // All lanes of both warps start; odd and even numbers take different paths.
    assert_eq!(share(line("call $parse")), 1.0);
    for words in ["i32.const 3", "i32.shr_u"] {
        let share = share(line(words));
        assert!(share > 0.02 && share < 0.6, "{words}: {share}");
    }
    let (_, is_first) = data.line_profile(line("i32.shr_u")).unwrap();
    assert!(!is_first);
    assert_eq!(data.line_profile(0), None);
    assert!(w.has_part(" of lanes active"));
    assert!(!w.has_part("no profile"));
}

#[test]
fn run_on_the_cpu_has_no_profile() {
    let mut w = open(record(COLLATZ, &inputs(&numbers()[..4]), false));
    assert!(w.has_part("no profile: run with --profile on a GPU"));
    assert!(!w.has_part("▲ trapped"));
    // Without a trap the first function is in view.
    let view = &w.views().wasm;
    let copy = view.copy;
    assert!(copy.is_some() && view.line.is_none());
    assert!(w.run("next-trap"));
    assert_eq!(w.views().wasm.copy, copy, "there is no trap to go to");
}

#[test]
fn stopped_run_has_running_and_waiting_copies() {
    let mut w = open(stopped());
    for words in ["▶ running 1", "… waiting 3", "✓ done 1"] {
        assert!(w.has(words), "{words}");
    }
    w.click("… waiting 3");
    assert!(w.has("copy 000003 waiting") && !w.has("copy 000002 running"));
    w.click("copy 000003 waiting");
    // The input of a copy that never started is known.
    assert!(w.has("41"));
}

#[test]
fn run_without_inputs_says_so() {
    let w = open(record(COLLATZ, &[], false));
    assert!(w.has_part("The run had no input, so no copy ran."));
    assert!(w.has_part("Select a copy to see its input and output."));
    assert!(w.has_part("(func $parse"));
}

#[test]
fn program_is_searched_and_functions_are_listed() {
    let mut w = open(collatz());
    w.enter("Search the program", "rem_u");
    assert_eq!(selected_line(&mut w), "i32.rem_u");
    assert!(w.has_part("1 found"));
    w.enter("Search the program", "nowhere");
    assert!(w.has_part("not found"));
    w.click("Function");
    w.click("main");
    assert!(selected_line(&mut w).starts_with("(func $main"));
}

#[test]
fn other_recordings_say_what_the_panel_shows() {
    let mut w = Window::open();
    assert!(w.run("show-wasm"));
    assert!(w.has_part("This recording is not a WebAssembly run."));
    assert!(!w.run("next-trap"));
}

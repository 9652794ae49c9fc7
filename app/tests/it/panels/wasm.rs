//! Tests of WebAssembly runs in the window: copies, lines of traps, active lanes, streams, system calls, replays; by
//! mouse and by keyboard.

use crate::common::Window;
use crate::common::wasm_run::{COLLATZ, EXITS, collatz, inputs, numbers, record, stopped};
use crate::panels::hands;
use egui::Key;
use egui_kittest::kittest::Queryable as _;
use kinescope_session::wasm_run::{CopyPart, CopyState};
use trace_core::Recording;
use trace_core::progress::Progress;
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
    let event = w.views().wasm.data().unwrap().copies().copy(20).unwrap().events.start;
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
    w.views().wasm.part = Some(CopyPart::Stream(CopyStream::Input));
    w.settle();
    assert!(w.has("27"));
    w.click("hex");
    assert!(w.has_part("32 37 "));
    w.click("calls 2");
    assert!(w.has_part("fd_write"));
    let before = w.doc().current_event();
    let call = w.views().wasm.data().unwrap().copies().run().call(0, 0).unwrap();
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

/// Returns a run whose copies exit with the number in their input, divide by zero, or write to a closed descriptor.
fn exits() -> Recording {
    let texts = ["0", "3", "7", "/", "0", "9"].map(str::to_owned);
    record(EXITS, &inputs(&texts), false)
}

/// Goes to the event of a system call.
fn go_call(w: &mut Window, copy: u32, call: u64) {
    let data = std::sync::Arc::clone(w.views().wasm.data().unwrap());
    let call = data.copies().run().call(copy as usize, call).unwrap();
    w.doc().go(call.event);
    w.settle();
}

#[test]
fn failed_copies_have_their_own_state() {
    let mut w = open(exits());
    for words in ["all 6", "✓ done 2", "! failed 3", "▲ trapped 1"] {
        assert!(w.has(words), "{words}");
    }
    assert!(w.has("copy 000001 done") && w.has("copy 000002 failed") && w.has("copy 000004 trapped"));
    w.click("! failed 3");
    assert_eq!(w.views().wasm.state, Some(CopyState::Failed));
    assert!(w.has("copy 000003 failed") && !w.has("copy 000001 done") && !w.has("copy 000004 trapped"));
    // A failed exit is no trap.
    w.run("next-trap");
    assert_eq!(w.views().wasm.copy, Some(3));
}

#[test]
fn ends_of_copies_are_not_cut() {
    let w = open(exits());
    for end in ["▲ integer divide by zero", "! exit 7", "✓ exit 0"] {
        let shapes = w.harness.output().shapes.iter();
        let mut texts = shapes.filter_map(|s| match &s.shape {
            egui::Shape::Text(t) if t.galley.text() == end => Some(t),
            _ => None,
        });
        let text = texts.next().unwrap_or_else(|| panic!("{end}"));
        assert!(!text.galley.elided, "{end}");
    }
    // Cells do not overlap.
    let cells = w.row_texts("copy 000004 trapped");
    assert_eq!(cells[..2], ["000004", "▲ integer divide by zero"]);
}

#[test]
fn bars_of_active_lanes_are_next_to_their_numbers() {
    let w = open(collatz());
    let job = kinescope::theme::Palette::for_theme(kinescope::theme::ThemeChoice::Dark).job;
    let shapes = &w.harness.output().shapes;
    let edges: Vec<egui::Rect> = shapes
        .iter()
        .filter_map(|s| match &s.shape {
            egui::Shape::Rect(r) if r.fill == job && r.rect.width() == 2.0 => Some(r.rect),
            _ => None,
        })
        .collect();
    let numbers = w.painted_texts();
    let numbers: Vec<_> = numbers.iter().filter(|t| t.text.ends_with(" %")).collect();
    assert!(edges.len() > 5 && numbers.len() > 1, "{edges:?} {numbers:?}");
    for number in numbers {
        assert!(edges.iter().all(|edge| !edge.intersects(number.rect)), "{number:?}");
    }
}

#[test]
fn inspector_shows_a_system_call() {
    let mut w = open(collatz());
    go_call(&mut w, 0, 1);
    for words in [
        "copy 1 of 64",
        "input 000001",
        "call 2 of 2",
        "fd 1, standard output",
        "iovs 0x00000000",
        "result success",
        "moved 4 bytes",
        "bytes 0x0..0x4",
        "111",
    ] {
        assert!(w.has(words), "{words}");
    }
    assert!(w.has("fd_write") && w.has_part("0000 31 31 31 0a"));
    w.click("Previous call");
    for words in ["fd_read", "call 1 of 2", "fd 0, standard input", "bytes 0x0..0x2", "27"] {
        assert!(w.has(words), "{words}");
    }
    w.click("Next call");
    assert!(w.has("fd_write"));
}

#[test]
fn inspector_leads_to_the_copy_of_a_call() {
    let mut w = open(collatz());
    go_call(&mut w, 20, 0);
    assert!(w.run("show-events"));
    w.views().wasm.state = Some(CopyState::Trapped);
    w.click("input 000021");
    assert!(w.is_panel_active("wasm"));
    let view = &w.views().wasm;
    assert_eq!((view.copy, view.state), (Some(20), None), "the list has the copy");
    assert_eq!(view.part, Some(CopyPart::Stream(CopyStream::Input)));
    w.click("Show calls");
    assert_eq!(w.views().wasm.part, Some(CopyPart::Calls));
    // The event at which a copy ends leads to its line.
    let end = w.views().wasm.data().unwrap().copies().copy(11).unwrap().events.end - 1;
    w.doc().go(end);
    w.settle();
    w.views().wasm.line = None;
    assert!(w.has("end ▲ unreachable"));
    w.click("trapped in parse");
    assert_eq!(selected_line(&mut w), "unreachable");
    // The first event is the run.
    w.doc().go(0);
    w.settle();
    assert!(w.has("target interpreter") && w.has("at once 64 copies"));
    w.click("trapped 3");
    assert_eq!(w.views().wasm.state, Some(CopyState::Trapped));
}

#[test]
fn inspector_names_the_error_of_a_call() {
    let mut w = open(exits());
    go_call(&mut w, 5, 1);
    assert!(w.has("result ▲ EBADF (8)"));
    assert!(w.has("fd 9"));
    assert!(!w.has_part("moved"));
}

#[test]
fn link_opens_the_panel_before_the_run_is_printed() {
    let mut w = Window::from_recording(collatz());
    let mut views = kinescope::panels::wasm::View::default();
    std::mem::swap(&mut views, &mut w.views().wasm);
    w.doc().go(70);
    w.run("show-events");
    w.settle();
    let copy = w.doc().derived.run_copies().unwrap().find_copy_at(70).unwrap();
    w.click(&format!("input {:06}", copy + 1));
    assert_eq!(w.views().wasm.copy, Some(copy));
}

#[test]
fn window_says_what_holds_for_a_run() {
    let mut w = open(collatz());
    w.fix_targets();
    assert!(w.has("collatz.wasm · interpreter · 64 inputs · 379 events"));
    assert!(w.has("ran on interpreter") && !w.has_part("no target fits"));
    assert!(w.has("outline program") && !w.has_part("outline module"));
    w.click("outline copies trapped");
    assert_eq!(w.views().wasm.state, Some(CopyState::Trapped));
    w.click("outline target");
    assert!(w.is_panel_active("replay"));
}

#[test]
fn replay_panel_has_a_command_for_each_target() {
    let mut w = open(collatz());
    w.fix_targets();
    w.run("show-replay");
    let path = w.doc().path.display().to_string();
    for target in ["cpu", "cuda:0", "interpreter"] {
        assert!(w.has(&format!("target {target}")), "{target}");
        assert!(w.has(&format!("kinescope replay {path} --on {target}")), "{target}");
    }
    for other in [
        "as one graph",
        "Tolerance of outputs",
        "More options",
        "Make plan",
        "Use",
    ] {
        assert!(!w.has(other), "{other}");
    }
    w.harness.get_by_label("Copy the command for interpreter").click();
    w.harness.step();
    let commands = &w.harness.output().platform_output.commands;
    let copied = commands.iter().find_map(|c| match c {
        egui::OutputCommand::CopyText(t) => Some(t.clone()),
        _ => None,
    });
    assert_eq!(copied, Some(format!("kinescope replay {path} --on interpreter")));
    // A stopped run cannot be replayed.
    let mut w = open(stopped());
    w.run("show-replay");
    assert!(w.has_part("The run was stopped: 4 copies have no result."));
    assert!(!w.has_part("--on cpu"));
}

#[test]
fn inputs_panel_says_how_another_input_runs() {
    let mut w = open(collatz());
    w.run("show-inputs");
    w.click("input 000012");
    assert!(w.has("Copy the replay command"));
    assert!(w.has_part("run the program on it with kinescope replay --input"));
    assert!(!w.has("address of the buffer"));
}

#[test]
fn arrows_go_through_the_parts_of_a_copy() {
    let mut w = open(collatz());
    w.click("copy 000010 done");
    let part = |w: &mut Window| w.views().wasm.part;
    // The output says most at first.
    for (key, expected) in [
        (Key::ArrowRight, CopyPart::Stream(CopyStream::Error)),
        (Key::ArrowRight, CopyPart::Calls),
        (Key::ArrowRight, CopyPart::Stream(CopyStream::Input)),
        (Key::ArrowLeft, CopyPart::Calls),
    ] {
        w.harness.key_press(key);
        w.settle();
        assert_eq!(part(&mut w), Some(expected));
    }
    assert_eq!(w.views().wasm.copy, Some(9), "the copy is the same");
    w.harness.key_press(Key::ArrowDown);
    w.settle();
    assert_eq!(w.views().wasm.copy, Some(10));
    assert_eq!(part(&mut w), Some(CopyPart::Calls), "the part stays");
}

/// Opens a recording file whose end is missing.
fn open_truncated(bytes: &[u8]) -> Result<Window, String> {
    let mut w = Window::empty();
    let file = w.folder.path().join("cut.kine");
    std::fs::write(&file, bytes).unwrap();
    let opened = trace_import::open(&file, &trace_import::OpenOptions::default(), &Progress::new());
    opened.map_err(|e| e.to_string())?;
    w.start(&file);
    assert!(w.run("show-wasm"));
    Ok(w)
}

#[test]
fn truncated_file_says_what_is_missing() {
    let whole = trace_core::container::to_bytes(&collatz()).unwrap();
    for length in [
        100,
        whole.len() / 4,
        whole.len() / 2,
        whole.len() * 3 / 4,
        whole.len() - 1,
    ] {
        match open_truncated(&whole[..length]) {
            Ok(w) => assert!(w.has_part("truncated"), "{length} of {}", whole.len()),
            Err(message) => assert!(message.contains("truncated"), "{length}: {message}"),
        }
    }
}

#[test]
fn part_of_a_run_says_that_it_cannot_be_shown() {
    let mut part = collatz();
    part.extras.clear();
    let w = open(part);
    assert!(w.has_part("The run cannot be shown: the section `wasm-run` is missing"));
}

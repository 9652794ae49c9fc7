//! Tests of the Shader panel: the code of the selected job, moving along it, searching and copying it, and threads that
//! run next to it.

use crate::common::{Window, samples};
use crate::panels::hands::click_and_copied;
use egui::Key;
use egui_kittest::kittest::Queryable as _;
use kinescope::theme::ThemeChoice;
use kinescope_files::scene::Selection;
use trace_core::GpuVa;

/// Opens the shader of a matrix product: eight clauses with a loop.
fn loops() -> Window {
    let mut w = Window::open_sample("matmul.kine");
    w.doc().go_job(0);
    w.run("show-shader");
    w
}

fn press(w: &mut Window, key: Key) {
    w.harness.key_press(key);
    w.settle();
}

#[test]
fn shader_panel_shows_the_code_of_the_selected_job() {
    let mut w = loops();
    let listing = w.views().shader.listing.clone().expect("the code is read");
    assert_eq!((listing.begins.len(), listing.code.operations()), (8, 60));
    assert!(w.has("clause_0") && w.has("clause_5"));
    assert!(w.has_part("8 clauses · 60 operations"));
    // Another job shows another shader.
    let mut w = Window::open_sample("twopass.kine");
    w.run("show-shader");
    let mut entries = Vec::new();
    for job in 0..2 {
        w.doc().go_job(job);
        w.settle();
        entries.push(w.views().shader.listing.clone().unwrap().code.entry);
    }
    assert_ne!(entries[0], entries[1]);
}

#[test]
fn shader_branches_are_followed_by_click_and_key_with_history() {
    let mut w = loops();
    w.click("branch to clause_10");
    let at = |w: &mut Window| {
        let view = &w.views().shader;
        view.listing.as_ref().unwrap().label(view.clause)
    };
    assert_eq!(at(&mut w), "clause_10");
    press(&mut w, Key::Backspace);
    assert_eq!(at(&mut w), "clause_5");
    press(&mut w, Key::Enter);
    assert_eq!(at(&mut w), "clause_10");
    press(&mut w, Key::Backspace);
    press(&mut w, Key::ArrowDown);
    assert_eq!(at(&mut w), "clause_8");
    press(&mut w, Key::ArrowUp);
    press(&mut w, Key::ArrowUp);
    assert_eq!(at(&mut w), "clause_3");
    w.click("from clause_5 to clause_10");
    assert_eq!(at(&mut w), "clause_5");
    // Keys that move in the code do not change the current event.
    let current_event = w.doc().current_event();
    press(&mut w, Key::PageDown);
    assert_ne!(at(&mut w), "clause_5");
    assert_eq!(w.doc().current_event(), current_event);
}

#[test]
fn shader_search_goes_to_its_hits() {
    let mut w = loops();
    w.harness.get_by_label("Search the shader").focus();
    w.settle();
    w.harness.get_by_label("Search the shader").type_text("load.i32");
    w.settle();
    let found = w.views().shader.search_hits().to_vec();
    assert_eq!(found.len(), 2, "{found:?}");
    let first = w.views().shader.clause;
    w.click("Next hit in the shader");
    let second = w.views().shader.clause;
    assert_ne!(first, second);
    w.click("Next hit in the shader");
    assert_eq!(w.views().shader.clause, first);
    assert!(w.has("1 of 2"));
}

#[test]
fn the_code_is_copied_as_text() {
    let mut w = loops();
    let text = click_and_copied(&mut w, "Copy the code as text");
    assert!(
        text.starts_with("clause_0:  0xf7ffc000\nds(0) nbb r_uncond\n    *NOP t0\n"),
        "{text}"
    );
    assert_eq!(text.lines().filter(|l| l.starts_with("    *")).count(), 30);
}

#[test]
fn job_links_to_its_shader_or_reports_none() {
    let mut w = Window::open_sample("vecadd.kine");
    w.doc().go_job(0);
    w.run("show-jobs");
    let link = w
        .harness
        .query_all_by_label_contains("shader 0xf7ffc000")
        .next()
        .unwrap();
    link.click();
    w.settle();
    assert!(w.is_panel_active("shader"));
    assert_eq!(*w.doc().selection(), Selection::Job(0));
    let mut w = Window::open();
    w.doc().go_job(0);
    w.run("show-shader");
    assert!(w.has_part("runs no shader: it is a write-value job"));
    w.click("Show jobs");
    assert!(w.is_panel_active("jobs"));
}

#[test]
fn each_shader_of_a_chain_can_be_chosen() {
    let mut w = Window::open_file(&samples().join("triangle.kine"), ThemeChoice::Light, 1.5);
    w.run("show-shader");
    let jobs = w.doc().derived.jobs.clone();
    let job = jobs
        .iter()
        .find(|j| j.chain.iter().map(|c| c.shaders.len()).sum::<usize>() > 1);
    let job = job.expect("a chain runs two shaders").index;
    w.doc().go_job(job);
    w.settle();
    let first = w.views().shader.listing.clone().unwrap().code.entry;
    w.click("Shader of the job");
    let other = w.harness.query_all_by_label_contains("fragment 0x").next().unwrap();
    other.click();
    w.settle();
    assert_ne!(w.views().shader.listing.clone().unwrap().code.entry, first);
}

/// Opens the sum of two vectors and runs a thread next to its code.
fn follow_thread(workgroup: &str, thread: &str) -> Window {
    let mut w = Window::open_sample("vecadd.kine");
    w.doc().go_job(0);
    w.run("show-shader");
    w.click("Follow a thread");
    for (field, text) in [("Workgroup", workgroup), ("Thread", thread)] {
        w.harness.get_by_label(field).focus();
        w.settle();
        w.harness.get_by_label(field).type_text(text);
        w.settle();
    }
    w.click("Run the thread");
    w
}

#[test]
fn thread_steps_forward_and_back_next_to_the_code() {
    let mut w = follow_thread("1", "3");
    let run = w.views().shader.thread.run.clone().expect("the thread ran");
    assert_eq!((run.workgroup, run.followed.steps.len()), ([1, 0, 0], 3));
    assert!(w.has("1 of 3"));
    w.click("Step forward");
    w.click("Step forward");
    assert!(w.has("3 of 3") && w.has_part("writes 0x"));
    let view = &w.views().shader;
    assert_eq!(view.listing.as_ref().unwrap().label(view.clause), "clause_7");
    w.click("Step back");
    assert_eq!(w.views().shader.thread.step, 1);
    // The thread continues to a breakpoint.
    let last = run.followed.steps[2].clause;
    w.views().shader.thread.stops.toggle(last);
    w.settle();
    w.click("Forward to a breakpoint");
    assert_eq!(w.views().shader.thread.step, 2);
    // Registers that the clause changed are marked with their previous values.
    let changed = run.followed.changes(2)[0];
    let label = format!(
        "r{} {:#010x} was {:#010x}",
        changed.register, changed.after, changed.before
    );
    assert!(w.has(&label), "{label}");
}

#[test]
fn missing_thread_is_reported() {
    let mut w = follow_thread("0", "5000");
    assert!(w.has_part("there is no thread [5000, 0, 0]"));
    assert!(w.views().shader.thread.run.is_none());
}

/// Opens the first layer of the network that reads digits. Threads at the border diverge from the others.
fn layer() -> Window {
    let mut w = Window::open_sample("digits.kine");
    w.doc().go_job(0);
    w.run("follow-thread");
    w
}

#[test]
fn a_thread_is_chosen_by_a_click_and_run() {
    let mut w = layer();
    let rect = w.harness.get_by_label_contains("Choose a thread").rect();
    // The workgroup has 8 by 8 threads. The click hits the third column of the second row.
    let cell = rect.width() / 8.0;
    let at = rect.min + egui::vec2(2.5 * cell, 1.5 * cell);
    w.harness.hover_at(at);
    w.settle();
    for pressed in [true, false] {
        w.harness.input_mut().events.push(egui::Event::PointerButton {
            pos: at,
            button: egui::PointerButton::Primary,
            pressed,
            modifiers: egui::Modifiers::NONE,
        });
        w.harness.step();
    }
    w.settle();
    let run = w.views().shader.thread.run.clone().expect("the thread ran");
    assert_eq!((run.workgroup, run.thread), ([0; 3], [2, 1, 0]));
    assert!(w.has("Choose a thread, 2,1,0 of 8×8×1"));
}

#[test]
fn thread_runs_to_an_address_or_a_lane_divergence() {
    let mut w = layer();
    w.run("run-thread");
    let run = w.views().shader.thread.run.clone().expect("the thread ran");
    // The breakpoint address lies inside the last write of the thread.
    let steps = 0..run.followed.steps.len();
    let write = steps
        .clone()
        .flat_map(|n| run.followed.accesses(n).iter().map(move |a| (n, *a)))
        .rfind(|(_, a)| a.write)
        .expect("the thread writes memory");
    w.harness.get_by_label("Break at a memory address").focus();
    w.settle();
    let text = format!("{:#x}", write.1.va + 1);
    w.harness.get_by_label("Break at a memory address").type_text(&text);
    w.settle();
    w.click("Forward to a breakpoint");
    assert_eq!(w.views().shader.thread.step, write.0);
    assert!(
        w.has(&format!("writes {text}")),
        "the panel shows why the thread stopped"
    );
    // Thread 0 is in a corner of the image and thread 9 is not, so one skips what the other does.
    w.views().shader.thread.stops.memory.clear();
    w.views().shader.thread.stops.lane = Some(9);
    w.views().shader.thread.step = 0;
    w.settle();
    let with = |n: usize| run.followed.steps[n].lanes >> 9 & 1 == 1;
    let diverging_step = steps
        .skip(1)
        .find(|n| with(*n) != with(n - 1))
        .expect("the threads diverge");
    w.run("on-to-break");
    assert_eq!(w.views().shader.thread.step, diverging_step);
    assert!(w.has("thread 9 diverges here") || w.has("thread 9 rejoins here"));
    w.run("back-to-break");
    assert!(w.has("no breakpoint is reached before this step"));
}

#[test]
fn breakpoint_is_set_in_the_margin() {
    let mut w = layer();
    w.click("Breakpoint at clause_3");
    let at = w.views().shader.listing.as_ref().unwrap().address(1).unwrap();
    assert!(w.views().shader.thread.stops.clauses.contains(&at));
    w.click("Breakpoint at clause_3");
    assert!(w.views().shader.thread.stops.clauses.is_empty());
}

#[test]
fn thread_run_uses_edited_inputs_and_marks_itself_stale() {
    let mut w = layer();
    let reads = |w: &mut Window| {
        w.run("run-thread");
        let run = w.views().shader.thread.run.clone().expect("the thread ran");
        let image = w.doc().recording.buffer("image").unwrap().va.get();
        let mut all = (0..run.followed.steps.len()).flat_map(|n| run.followed.accesses(n).to_vec());
        all.find(|a| !a.write && a.va == GpuVa::new(image))
            .expect("the thread reads the first pixel")
            .value as u32
    };
    assert_eq!(f32::from_bits(reads(&mut w)), 0.0);
    assert!(w.doc().edit("image", 0, 0.75f32.to_le_bytes().to_vec()));
    w.settle();
    assert!(w.has_part("inputs were edited since"));
    assert_eq!(f32::from_bits(reads(&mut w)), 0.75);
    assert!(!w.has_part("inputs were edited since"));
}

/// Requests the last writer of a byte of a buffer in Memory, and returns the text.
fn find_last_writer(w: &mut Window, buffer: &str, at: u64) -> String {
    let b = w.doc().recording.buffer(buffer).unwrap().clone();
    let context = w.app().panel_context().expect("a recording is open");
    let memory = &mut context.views.memory;
    kinescope::panels::contents::memory::find_references(
        context.doc,
        memory,
        context.actions,
        b.address_space,
        b.va + at,
    );
    w.run("show-memory");
    w.click("find last writer");
    let t = w.views().memory.references.clone().unwrap();
    match t.writer {
        Some(kinescope::panels::contents::memory::view::WriterLookup::Ready(report, None)) => report.describe(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn last_writer_run_is_reused_until_an_input_is_edited() {
    let mut w = Window::open_sample("digits.kine");
    let first = find_last_writer(&mut w, "logits", 0);
    assert!(
        first.contains("written by job 3") && first.contains("read 0x"),
        "{first}"
    );
    let stored_run = |w: &mut Window| {
        let key = w.doc().edit_key();
        w.doc().writers.find_run(&key).expect("the run is stored")
    };
    let run = stored_run(&mut w);
    assert!(run.bytes() > 0);
    let second = find_last_writer(&mut w, "logits", 5);
    assert_ne!(first, second);
    assert!(
        std::sync::Arc::ptr_eq(&run, &stored_run(&mut w)),
        "no second run started"
    );
    // The same request starts only the search for references, because the last writer is stored.
    let started = w.app().tasks.latest();
    assert_eq!(find_last_writer(&mut w, "logits", 5), second);
    let reference_searches = 1;
    assert_eq!(w.app().tasks.latest(), started.map(|n| n + reference_searches));
    // An edited input needs another run and gives other values.
    assert!(w.doc().edit("image", 0, 1f32.to_le_bytes().to_vec()));
    w.settle();
    assert!(w.has_part("inputs were edited since"));
    let edited = find_last_writer(&mut w, "logits", 5);
    assert_ne!(edited, second);
    assert!(!std::sync::Arc::ptr_eq(&run, &stored_run(&mut w)));
}

#[test]
fn memory_panel_shows_the_last_writer_inside_a_job() {
    let mut w = Window::open_sample("vecadd.kine");
    let c = w.doc().recording.buffer("c").unwrap().clone();
    let context = w.app().panel_context().expect("a recording is open");
    kinescope::panels::contents::memory::find_references(
        context.doc,
        &mut context.views.memory,
        context.actions,
        c.address_space,
        c.va + 4 * 70,
    );
    w.run("show-memory");
    w.click("find last writer");
    let label = "last writer written by job 0, workgroup ";
    assert!(w.has_part(label), "the last writer is shown");
    let link = w.harness.query_all_by_label_contains(label).next().unwrap();
    link.click();
    w.settle();
    // The thread that wrote the byte runs, and the panel shows its writing clause.
    assert!(w.is_panel_active("shader"));
    let t = &w.views().shader.thread;
    let run = t.run.clone().expect("the thread ran");
    let accesses = run.followed.accesses(t.step);
    assert!(accesses.iter().any(|a| a.write && a.va == c.va + 4 * 70));
}

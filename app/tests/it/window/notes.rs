//! Tests that notes, the notebook and links lead back to what the user looked at.

use crate::common::{Window, sample};
use kinescope::window::{AfterOpen, Entry, Goal, Shot, Studio, list_entries};
use kinescope_files::link::Link;
use kinescope_files::scene::Selection;
use trace_core::progress::Progress;

fn follow(w: &mut Window, link: &str) {
    let ctx = w.harness.ctx.clone();
    w.app().follow(&ctx, link).unwrap();
    w.settle();
}

#[test]
fn notebook_lists_notes_and_restores_their_selection() {
    let mut w = Window::open();
    w.run("show-notebook");
    assert!(w.has_part("There are no notes yet"));
    let r = w.doc().current_register().unwrap();
    w.doc().go_with(7, Selection::Register(r));
    w.run("show-memory");
    w.run("add-note");
    w.doc().note(7, Some("why is this written twice?".into()));
    w.doc().go(3);
    w.run("show-notebook");
    assert!(
        w.has("note 7 why is this written twice?"),
        "the list shows the first line of the note"
    );
    w.click("note 7 why is this written twice?");
    assert_eq!(*w.doc().selection(), Selection::Note(7));
    w.click("Go there");
    assert_eq!(
        (w.doc().current_event(), w.doc().selection().clone()),
        (7, Selection::Register(r))
    );
    assert!(w.is_panel_active("memory"));
    w.run("show-notebook");
    w.click("Remove");
    assert!(w.doc().changes().notes().is_empty());
    w.run("undo");
    let note = &w.doc().changes().notes()[&7];
    assert_eq!(
        (note.text.as_str(), &note.selection),
        ("why is this written twice?", &Selection::Register(r))
    );
}

#[test]
fn notebook_text_appears_in_the_inspector() {
    let mut w = Window::open();
    w.doc().go(7);
    w.run("add-note");
    w.run("show-notebook");
    w.doc().note(7, Some("first".into()));
    w.doc().go(7);
    w.settle();
    assert!(
        w.has("Notebook text") && w.has("first"),
        "the inspector shows the note of the event"
    );
}

#[test]
fn link_opens_the_same_event_in_another_window() {
    let mut w = Window::open();
    w.doc().go_with(12, Selection::Job(0));
    w.run("show-jobs");
    let link = w.app().link().unwrap().to_string();
    let mut other = Window::empty();
    let text = format!(" {link}\n");
    follow(&mut other, &text);
    assert_eq!(
        (other.doc().current_event(), other.doc().selection().clone()),
        (12, Selection::Job(0))
    );
    assert!(other.is_panel_active("jobs"));
    // The recording is already open, so it is not read again.
    other.doc().go(1);
    let before = other.doc().changes().revision();
    other.doc().note(1, Some("kept".into()));
    follow(&mut other, &link);
    assert_eq!(other.doc().current_event(), 12);
    assert!(other.doc().changes().revision() > before && other.doc().changes().notes().contains_key(&1));
}

#[test]
fn the_palette_follows_a_link() {
    let mut w = Window::open();
    w.doc().go(9);
    let link = w.app().link().unwrap().to_string();
    w.doc().go(1);
    let first = list_entries(w.app(), &link).remove(0);
    assert_eq!(first.2, Entry::Link(link.clone()));
    assert!(first.0.contains("event 9"), "{}", first.0);
    w.run("palette");
    w.enter("Palette", &link);
    assert_eq!(w.doc().current_event(), 9);
}

#[test]
fn link_to_a_missing_target_is_reported() {
    let mut w = Window::open();
    let link = w.app().link().unwrap();
    let (path, events) = (w.doc().path.clone(), w.doc().len());
    let mut far = link.clone();
    far.scene.as_mut().unwrap().event = events;
    let at = w.doc().current_event();
    follow(&mut w, &far.to_string());
    let message = w.app().last_error().unwrap().to_owned();
    assert!(
        message.contains("has no event") && message.contains(&format!("0 to {}", events - 1)),
        "{message}"
    );
    assert_eq!(w.doc().current_event(), at, "the current event is unchanged");
    follow(&mut w, "kinescope:///nowhere/none.kine?event=1");
    assert!(
        w.app()
            .last_error()
            .unwrap()
            .contains("/nowhere/none.kine was not found")
    );
    // A link from another machine has the same file name in another folder.
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    follow(
        &mut w,
        &format!("kinescope:///elsewhere/{name}?event=2&events={}", events + 1),
    );
    assert_eq!(w.doc().current_event(), 2);
    assert!(kinescope::log::text().contains("it may show another event"));
}

#[test]
fn window_opens_at_the_requested_event() {
    let shot = Shot {
        size: [900.0, 600.0],
        scale: 1.0,
        theme: kinescope::theme::ThemeChoice::Dark,
        commands: kinescope::commands::COMMANDS,
    };
    let opened = |goal| {
        let mut studio = Studio::new(&shot, Progress::new()).unwrap();
        let done = studio.open(
            &sample(),
            AfterOpen {
                goal,
                ..AfterOpen::default()
            },
        );
        done.map(|()| studio.scene().unwrap().event)
    };
    assert_eq!(opened(Some(Goal::for_event(5))).unwrap(), 5);
    assert_ne!(opened(None).unwrap(), 5, "without a goal the first job is shown");
    let message = opened(Some(Goal::for_event(1 << 40))).unwrap_err().to_string();
    assert!(message.contains("has no event"), "{message}");
}

#[test]
fn notebook_export_has_a_picture_per_note() {
    let mut w = Window::open();
    for (event, panel) in [(40, "show-jobs"), (5, "show-register")] {
        w.doc().go(event);
        w.run(panel);
        w.run("add-note");
        w.doc().note(event, Some(format!("seen at *{event}*\n\n- one\n- two")));
    }
    let (at, current_event) = (w.folder.path().join("notes.md"), w.doc().current_event());
    w.will_choose(&at);
    w.run("export-notebook");
    let text = std::fs::read_to_string(&at).unwrap_or_else(|e| panic!("{e}: {:?}", w.app().last_error()));
    assert_eq!(
        w.doc().current_event(),
        current_event,
        "the current event is unchanged after the export"
    );
    let (first, second) = (text.find("## Event 5").unwrap(), text.find("## Event 40").unwrap());
    assert!(first < second, "the notes are in the order of events");
    let mut pictures = Vec::new();
    for event in [5, 40] {
        let name = format!("notes-pictures/event-{event}.png");
        assert!(text.contains(&format!("(<{name}>)")), "{text}");
        let picture = image::open(w.folder.path().join(&name)).unwrap().into_rgb8();
        assert_eq!(picture.dimensions(), (1280, 800));
        pictures.push(picture);
    }
    assert_ne!(pictures[0], pictures[1]);
    // Every link in the notebook parses.
    let links: Vec<&str> = text
        .match_indices("[open](")
        .filter_map(|(i, m)| text[i + m.len()..].split(')').next())
        .collect();
    let events: Vec<u64> = links
        .iter()
        .map(|l| Link::parse(l).unwrap().scene.unwrap().event)
        .collect();
    assert_eq!(events, [5, 40]);
    let wrong = w.folder.path().join("notes.txt");
    w.will_choose(&wrong);
    w.run("export-notebook");
    assert!(w.app().last_error().unwrap().contains("expected .md or .html"));
    assert!(!wrong.exists());
}

//! The steps of the tour: their text, their panels and the actions that they ask for.

use crate::window::app::App;
use crate::window::tour_state::Tour;
use kinescope_files::scene::Selection;
use kinescope_session::Document;
use trace_core::recording::BufferRole;

/// A step of the tour.
pub(super) struct Step {
    /// The panel that the step explains.
    pub panel: &'static str,
    /// Title that the user sees.
    pub title: &'static str,
    /// Description of the panel.
    pub words: &'static str,
    /// The command that the step asks for.
    pub goal: &'static str,
    /// Effect of the command; the text follows its key.
    pub instruction: &'static str,
    /// Description of what the user did, once it is done.
    pub did: &'static str,
    /// Selects what the step explains.
    pub prepare: fn(&mut App),
    /// Returns whether the requested action was done.
    pub done: fn(&App, &Tour) -> bool,
}

fn ran(_: &App, tour: &Tour) -> bool {
    tour.ran
}

fn with_document(app: &mut App, act: impl FnOnce(&mut Document)) {
    if let Some(d) = &mut app.doc {
        act(d);
    }
}

fn nothing(_: &mut App) {}

/// Selects the register that is polled first, or any register that is often read and written, at its first access.
fn register(app: &mut App) {
    with_document(app, |d| {
        let polled = d.derived.polls.first().map(|p| p.offset);
        let longest = || {
            d.derived
                .registers
                .iter()
                .max_by_key(|(_, f)| f.accesses.all().len())
                .map(|(r, _)| *r)
        };
        let Some(r) = polled.or_else(longest) else { return };
        let first = d.derived.registers.get(&r).and_then(|f| f.accesses.all().first());
        d.go_with(first.unwrap_or(0), Selection::Register(r));
    });
}

/// Returns the first bytes of the first input, before the first event.
fn input(d: &Document) -> Option<Selection> {
    let all = &d.recording.metadata.buffers;
    let b = all.iter().find(|b| b.role == BufferRole::Input).or(all.first())?;
    Some(Selection::Memory {
        space: b.address_space,
        va: b.va,
        bytes: b.element.bytes() as u64,
    })
}

fn memory(app: &mut App) {
    with_document(app, |d| {
        if let Some(s) = input(d) {
            d.go_with(0, s);
        }
    });
}

fn tables(app: &mut App) {
    with_document(app, |d| {
        if !matches!(d.selection(), Selection::Memory { .. })
            && let Some(s) = input(d)
        {
            d.select(s);
        }
    });
}

/// All steps, in order.
pub(super) static STEPS: &[Step] = &[
    Step {
        panel: "timeline",
        title: "Timeline",
        words: "Everything that the driver did to the GPU, from left to right: registers, interrupts, jobs. The wheel \
                zooms about the pointer, a drag measures.",
        goal: "next-job",
        instruction: "goes to the next job.",
        did: "You are at a job. Every panel shows the state at that event.",
        prepare: |app| {
            crate::window::layout::show(&mut app.dock, "events");
            with_document(app, |d| d.go(0));
        },
        done: ran,
    },
    Step {
        panel: "events",
        title: "Events",
        words: "Each access in order: its register, its value, and what the bits mean. A click goes there, and every \
                panel follows.",
        goal: "next-event",
        instruction: "goes to the next event.",
        did: "You are one event further. The timeline and the inspector followed.",
        prepare: nothing,
        done: ran,
    },
    Step {
        panel: "register",
        title: "Register",
        words: "What a register holds, field by field, and every access to it. The first lane of the timeline lights \
                up where the selection is read or written.",
        goal: "next-touch",
        instruction: "goes to the next reference to this register.",
        did: "That was the next access to the register.",
        prepare: register,
        done: ran,
    },
    Step {
        panel: "memory",
        title: "Memory",
        words: "The content of GPU memory at the current event. The selected bytes are the start of an input.",
        goal: "next-reader",
        instruction: "goes to their next reader.",
        did: "A job reads them. Its submit is now the current event.",
        prepare: memory,
        done: ran,
    },
    Step {
        panel: "page-tables",
        title: "Page tables",
        words: "Which addresses the GPU can reach and with which rights, and how an address is walked, level by level.",
        goal: "select-entry",
        instruction: "selects the entry behind the selection.",
        did: "The inspector shows the last writer of the entry, and the jobs that walk through it.",
        prepare: tables,
        done: ran,
    },
    Step {
        panel: "inputs",
        title: "Inputs",
        words: "The buffers of the jobs, as numbers, pictures and plots. Your edits do not change the recording.",
        goal: "edit-input",
        instruction: "edits a value: type a number, then Enter.",
        did: "Your edit is in the inspector. Undo takes it back.",
        // The entry stays selected, because the text describes it.
        prepare: nothing,
        done: |app, tour| {
            let changes = app.doc.as_ref().map_or(0, |d| d.changes().len());
            changes > tour.changes && app.doc.as_ref().is_some_and(|d| !d.changes().inputs().is_empty())
        },
    },
    Step {
        panel: "replay",
        title: "Replay",
        words: "Runs the recording again with your edits, on a simulator or on hardware, and compares the results \
                with the recording.",
        goal: "replay",
        instruction: "replays it.",
        did: "The replay is done. The panel shows its outcome.",
        prepare: nothing,
        done: |app, tour| {
            let over = |d: &Document| d.replay.running.is_none() && d.replay.outcome.is_some();
            tour.ran && app.doc.as_ref().is_some_and(over)
        },
    },
    Step {
        panel: "compare",
        title: "Compare",
        words: "The outcome of a replay is a recording too. Compare shows any two side by side: events, values, \
                memory, mappings.",
        goal: "compare-outcome",
        instruction: "compares the outcome with the recording.",
        did: "The list shows the differences, the earliest cause first.",
        prepare: nothing,
        done: |app, tour| tour.ran && app.doc.as_ref().is_some_and(|d| d.comparison.done.is_some()),
    },
];

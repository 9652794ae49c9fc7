//! The table of commands: it feeds palette, menus, shortcuts and the sheet of keys. A new command is a line here.

mod actions;

use crate::window::App;
use actions as a;
use egui::{Context, Key, Modifiers};

pub use actions::sample;

/// A menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Menu {
    /// Recordings and files.
    File,
    /// What the person made.
    Edit,
    /// Moving about.
    Go,
    /// What is shown.
    View,
    /// Panels.
    Panels,
    /// Replays.
    Replay,
    /// Help.
    Help,
}

impl Menu {
    /// All menus, in order.
    pub const ALL: [Self; 7] = [
        Self::File,
        Self::Edit,
        Self::Go,
        Self::View,
        Self::Panels,
        Self::Replay,
        Self::Help,
    ];

    /// The menu's name.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::File => "File",
            Self::Edit => "Edit",
            Self::Go => "Go",
            Self::View => "View",
            Self::Panels => "Panels",
            Self::Replay => "Replay",
            Self::Help => "Help",
        }
    }
}

/// A key with modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortcut {
    /// With Ctrl (Cmd on macOS).
    pub ctrl: bool,
    /// With Shift.
    pub shift: bool,
    /// With Alt.
    pub alt: bool,
    /// The key.
    pub key: Key,
}

impl Shortcut {
    /// The modifiers as egui wants them.
    #[must_use]
    pub fn modifiers(self) -> Modifiers {
        Modifiers {
            alt: self.alt,
            shift: self.shift,
            command: self.ctrl,
            ..Modifiers::NONE
        }
    }

    /// The shortcut as a person reads it.
    #[must_use]
    pub fn text(self) -> String {
        let mut out = String::new();
        for (on, word) in [(self.ctrl, "Ctrl "), (self.shift, "Shift "), (self.alt, "Alt ")] {
            if on {
                out += word;
            }
        }
        let key = match self.key {
            Key::ArrowLeft => "←",
            Key::ArrowRight => "→",
            Key::Period => ".",
            Key::Comma => ",",
            Key::OpenBracket => "[",
            Key::CloseBracket => "]",
            Key::Questionmark => "?",
            k => k.name(),
        };
        out + key
    }

    /// Whether it is a key alone, which a text field needs for itself.
    #[must_use]
    fn plain(self) -> bool {
        !self.ctrl && !self.alt
    }
}

const fn key(key: Key) -> Option<Shortcut> {
    Some(Shortcut {
        ctrl: false,
        shift: false,
        alt: false,
        key,
    })
}

const fn ctrl(key: Key) -> Option<Shortcut> {
    Some(Shortcut {
        ctrl: true,
        shift: false,
        alt: false,
        key,
    })
}

const fn ctrl_shift(key: Key) -> Option<Shortcut> {
    Some(Shortcut {
        ctrl: true,
        shift: true,
        alt: false,
        key,
    })
}

const fn alt(key: Key) -> Option<Shortcut> {
    Some(Shortcut {
        ctrl: false,
        shift: false,
        alt: true,
        key,
    })
}

const fn shift(key: Key) -> Option<Shortcut> {
    Some(Shortcut {
        ctrl: false,
        shift: true,
        alt: false,
        key,
    })
}

/// A command.
pub struct Command {
    /// Name in scripts, tests and panels.
    pub id: &'static str,
    /// Name for the person.
    pub title: &'static str,
    /// Menu that it is in.
    pub menu: Menu,
    /// Its key.
    pub shortcut: Option<Shortcut>,
    /// Whether it may run now.
    pub enabled: fn(&App) -> bool,
    /// Does it.
    pub run: fn(&mut App, &Context),
}

type Enabled = fn(&App) -> bool;
type Run = fn(&mut App, &Context);

const fn c(
    id: &'static str,
    title: &'static str,
    menu: Menu,
    shortcut: Option<Shortcut>,
    enabled: Enabled,
    run: Run,
) -> Command {
    Command {
        id,
        title,
        menu,
        shortcut,
        enabled,
        run,
    }
}

/// Every command.
pub static COMMANDS: &[Command] = &[
    c("open", "Open file…", Menu::File, ctrl(Key::O), a::always, a::open),
    c(
        "open-folder",
        "Open folder…",
        Menu::File,
        ctrl_shift(Key::O),
        a::always,
        a::open_folder,
    ),
    c(
        "open-sample",
        "Open the sample",
        Menu::File,
        None,
        a::has_sample,
        a::open_sample,
    ),
    c(
        "save-kine",
        "Save recording as .kine…",
        Menu::File,
        ctrl(Key::S),
        a::has_doc,
        a::save_kine,
    ),
    c(
        "save-outcome",
        "Save outcome…",
        Menu::File,
        None,
        a::has_outcome,
        a::save_outcome,
    ),
    c(
        "save-plan",
        "Save plan as text…",
        Menu::File,
        None,
        a::has_plan,
        a::save_plan,
    ),
    c("reload", "Read again", Menu::File, key(Key::F5), a::has_doc, a::reload),
    c(
        "close",
        "Close recording",
        Menu::File,
        ctrl(Key::W),
        a::has_doc,
        a::close,
    ),
    c("quit", "Quit", Menu::File, ctrl(Key::Q), a::always, a::quit),
    c("undo", "Undo", Menu::Edit, ctrl(Key::Z), a::can_undo, a::undo),
    c("redo", "Redo", Menu::Edit, ctrl_shift(Key::Z), a::can_redo, a::redo),
    c(
        "revert-input",
        "Buffer as recorded",
        Menu::Edit,
        None,
        a::input_edited,
        a::revert_input,
    ),
    c(
        "add-note",
        "Note at this event",
        Menu::Edit,
        key(Key::M),
        a::has_events,
        a::add_note,
    ),
    c(
        "remove-note",
        "Remove the note here",
        Menu::Edit,
        None,
        a::note_here,
        a::remove_note,
    ),
    c(
        "pin-register",
        "Pin or unpin register",
        Menu::Edit,
        key(Key::P),
        a::has_register,
        a::pin_register,
    ),
    c(
        "copy-selection",
        "Copy what is selected",
        Menu::Edit,
        None,
        a::has_doc,
        a::copy_selection,
    ),
    c(
        "restore-edits",
        "Take up the changes left behind",
        Menu::Edit,
        None,
        a::has_offer,
        a::restore_edits,
    ),
    c(
        "forget-edits",
        "Forget the changes left behind",
        Menu::Edit,
        None,
        a::has_offer,
        a::forget_edits,
    ),
    c(
        "palette",
        "Go to, find, do",
        Menu::Go,
        ctrl(Key::P),
        a::always,
        a::palette,
    ),
    c("back", "Back", Menu::Go, alt(Key::ArrowLeft), a::can_back, a::back),
    c(
        "forward",
        "Forward",
        Menu::Go,
        alt(Key::ArrowRight),
        a::can_forward,
        a::forward,
    ),
    c(
        "next-event",
        "Next event",
        Menu::Go,
        key(Key::Period),
        a::has_events,
        a::next_event,
    ),
    c(
        "previous-event",
        "Previous event",
        Menu::Go,
        key(Key::Comma),
        a::has_events,
        a::previous_event,
    ),
    c("next-job", "Next job", Menu::Go, key(Key::J), a::has_jobs, a::next_job),
    c(
        "previous-job",
        "Previous job",
        Menu::Go,
        key(Key::K),
        a::has_jobs,
        a::previous_job,
    ),
    c(
        "next-write",
        "Next write of this register",
        Menu::Go,
        key(Key::CloseBracket),
        a::has_next_write,
        a::next_write,
    ),
    c(
        "previous-write",
        "Previous write of this register",
        Menu::Go,
        key(Key::OpenBracket),
        a::has_previous_write,
        a::previous_write,
    ),
    c(
        "next-interrupt",
        "Next interrupt",
        Menu::Go,
        key(Key::I),
        a::has_interrupts,
        a::next_interrupt,
    ),
    c(
        "next-problem",
        "Next problem",
        Menu::Go,
        key(Key::F8),
        a::has_findings,
        a::next_problem,
    ),
    c(
        "next-divergence",
        "Next divergence",
        Menu::Go,
        shift(Key::F8),
        a::has_divergences,
        a::next_divergence,
    ),
    c(
        "first-event",
        "First event",
        Menu::Go,
        key(Key::Home),
        a::has_events,
        a::first_event,
    ),
    c(
        "last-event",
        "Last event",
        Menu::Go,
        key(Key::End),
        a::has_events,
        a::last_event,
    ),
    c(
        "go-address",
        "Go to address…",
        Menu::Go,
        ctrl(Key::G),
        a::has_spaces,
        a::go_address,
    ),
    c(
        "filter",
        "Filter events…",
        Menu::Go,
        ctrl(Key::F),
        a::has_events,
        a::filter,
    ),
    c(
        "clear-filter",
        "Clear filter",
        Menu::Go,
        None,
        a::has_filter,
        a::clear_filter,
    ),
    c(
        "fit",
        "Show the whole recording",
        Menu::View,
        key(Key::F),
        a::has_events,
        a::fit,
    ),
    c(
        "zoom-in",
        "Zoom timeline in",
        Menu::View,
        key(Key::W),
        a::has_events,
        a::zoom_in,
    ),
    c(
        "zoom-out",
        "Zoom timeline out",
        Menu::View,
        key(Key::S),
        a::has_events,
        a::zoom_out,
    ),
    c(
        "pan-left",
        "Move timeline left",
        Menu::View,
        key(Key::A),
        a::has_events,
        a::pan_left,
    ),
    c(
        "pan-right",
        "Move timeline right",
        Menu::View,
        key(Key::D),
        a::has_events,
        a::pan_right,
    ),
    c(
        "axis-order",
        "Timeline by order",
        Menu::View,
        key(Key::Num1),
        a::has_events,
        a::axis_order,
    ),
    c(
        "axis-compressed",
        "Timeline with gaps pressed",
        Menu::View,
        key(Key::Num2),
        a::has_events,
        a::axis_compressed,
    ),
    c(
        "axis-time",
        "Timeline by true time",
        Menu::View,
        key(Key::Num3),
        a::has_events,
        a::axis_time,
    ),
    c(
        "toggle-theme",
        "Light or dark",
        Menu::View,
        ctrl(Key::T),
        a::always,
        a::toggle_theme,
    ),
    c(
        "toggle-outline",
        "Outline on or off",
        Menu::View,
        ctrl(Key::B),
        a::always,
        a::toggle_outline,
    ),
    c(
        "toggle-inspector",
        "Inspector on or off",
        Menu::View,
        ctrl_shift(Key::B),
        a::always,
        a::toggle_inspector,
    ),
    c(
        "tear-off",
        "Panel into a window of its own",
        Menu::View,
        None,
        a::can_tear,
        a::tear_off,
    ),
    c(
        "dock-back",
        "Panels back into this window",
        Menu::View,
        None,
        a::has_torn,
        a::dock_back,
    ),
    c(
        "reset-layout",
        "Panels as at first",
        Menu::View,
        None,
        a::has_doc,
        a::reset_layout,
    ),
    c(
        "show-timeline",
        "Timeline",
        Menu::Panels,
        None,
        a::has_doc,
        a::show_timeline,
    ),
    c(
        "show-events",
        "Events",
        Menu::Panels,
        ctrl(Key::Num1),
        a::has_doc,
        a::show_events,
    ),
    c(
        "show-register",
        "Register",
        Menu::Panels,
        ctrl(Key::Num2),
        a::has_doc,
        a::show_register,
    ),
    c(
        "show-memory",
        "Memory",
        Menu::Panels,
        ctrl(Key::Num3),
        a::has_doc,
        a::show_memory,
    ),
    c(
        "show-page-tables",
        "Page tables",
        Menu::Panels,
        ctrl(Key::Num4),
        a::has_doc,
        a::show_page_tables,
    ),
    c(
        "show-jobs",
        "Jobs",
        Menu::Panels,
        ctrl(Key::Num5),
        a::has_doc,
        a::show_jobs,
    ),
    c(
        "show-inputs",
        "Inputs",
        Menu::Panels,
        ctrl(Key::Num6),
        a::has_doc,
        a::show_inputs,
    ),
    c(
        "show-replay",
        "Replay",
        Menu::Panels,
        ctrl(Key::Num7),
        a::has_doc,
        a::show_replay,
    ),
    c(
        "show-problems",
        "Problems",
        Menu::Panels,
        ctrl(Key::Num8),
        a::has_doc,
        a::show_problems,
    ),
    c(
        "show-log",
        "Log",
        Menu::Panels,
        ctrl(Key::Num9),
        a::has_doc,
        a::show_log,
    ),
    c(
        "replay",
        "Replay",
        Menu::Replay,
        ctrl(Key::Enter),
        a::can_replay,
        a::replay,
    ),
    c(
        "replay-ten",
        "Replay 10 times",
        Menu::Replay,
        None,
        a::can_replay,
        a::replay_ten,
    ),
    c(
        "plan",
        "Make the plan",
        Menu::Replay,
        ctrl_shift(Key::Enter),
        a::can_replay,
        a::plan,
    ),
    c(
        "cancel",
        "Stop what is running",
        Menu::Replay,
        key(Key::Escape),
        a::is_running,
        a::cancel,
    ),
    c(
        "toggle-pace",
        "Keep or skip idle time",
        Menu::Replay,
        None,
        a::has_doc,
        a::toggle_pace,
    ),
    c(
        "open-outcome",
        "Open outcome as a recording",
        Menu::Replay,
        None,
        a::has_outcome,
        a::open_outcome,
    ),
    c(
        "find-boards",
        "Look for boards",
        Menu::Replay,
        None,
        a::has_doc,
        a::find_boards,
    ),
    c(
        "pair",
        "Pair with the agent at the address…",
        Menu::Replay,
        None,
        a::has_address,
        a::pair,
    ),
    c(
        "help",
        "All keys",
        Menu::Help,
        shift(Key::Questionmark),
        a::always,
        a::help,
    ),
    c("copy-log", "Copy log", Menu::Help, None, a::always, a::copy_log),
    c("about", "About Kinescope", Menu::Help, None, a::always, a::about),
];

/// The command of this id.
#[must_use]
pub fn by_id(id: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|c| c.id == id)
}

/// Runs the commands whose keys were pressed.
pub fn keys(app: &mut App, ctx: &Context) {
    let typing = ctx.text_edit_focused();
    let mut run = Vec::new();
    for c in COMMANDS {
        let Some(s) = c.shortcut else { continue };
        if (typing && (s.plain() || matches!(s.key, Key::Z))) || app.palette.is_some() || !(c.enabled)(app) {
            continue;
        }
        let pressed = ctx.input_mut(|i| {
            // A question mark needs Shift on some keyboards and arrives as a key of its own on others.
            if s.key == Key::Questionmark {
                i.consume_key(Modifiers::SHIFT, Key::Questionmark)
                    || i.consume_key(Modifiers::NONE, Key::Questionmark)
                    || i.consume_key(Modifiers::SHIFT, Key::Slash)
            } else if s.shift || i.modifiers.shift == s.shift {
                i.consume_key(s.modifiers(), s.key)
            } else {
                false
            }
        });
        if pressed {
            run.push(c.id);
        }
    }
    for id in run {
        app.run(ctx, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_titles_and_keys_are_unique_and_every_panel_has_its_command() {
        let mut ids = HashSet::new();
        let mut keys = HashSet::new();
        for c in COMMANDS {
            assert!(ids.insert(c.id), "{} twice", c.id);
            if let Some(s) = c.shortcut {
                assert!(keys.insert(s.text()), "{} of {} twice", s.text(), c.id);
            }
        }
        for p in crate::panels::PANELS {
            assert!(by_id(&format!("show-{}", p.id)).is_some(), "{}", p.id);
        }
    }
}

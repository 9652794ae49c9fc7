//! The table of commands. A new command needs one line here.

use super::when::*;
use super::{compare, edit, export, file, go, help, notebook, replay, screen, shader, view};
use crate::window::App;
use crate::window::command::{Command, Menu};
use crate::window::shortcut::{alt, ctrl, ctrl_shift, key, shift};
use egui::Key::*;

macro_rules! table {
    ($($id:literal, $title:literal, $menu:ident, $keys:expr, $enabled:path, $run:path;)*) => {
        /// All commands.
        pub static COMMANDS: &[Command<App>] = &[$(Command {
            id: $id,
            title: $title,
            menu: Menu::$menu,
            shortcut: $keys,
            enabled: $enabled,
            run: $run,
        }),*];
    };
}

// One line per row, of any length.
table! {
    // id               title                                  menu    keys                 may run when        does
    "open",             "Open file…",                          File,   ctrl(O),             always,             file::open;
    "open-folder",      "Open folder…",                        File,   ctrl_shift(O),       always,             file::open_folder;
    "follow",           "Follow a recording…",                 File,   ctrl(R),             always,             file::follow;
    "follow-again",     "Follow again",                        File,   None,                is_partial,         file::follow_again;
    "stop-following",   "Stop following",                      File,   ctrl(Period),        is_following,       file::stop_following;
    "save-snapshot",    "Save a snapshot…",                    File,   ctrl_shift(R),       is_unfinished,      file::save_snapshot;
    "run-program",      "Run a program…",                      File,   ctrl(N),             can_run_program,    file::run_program;
    "show-program",     "Show the output of the program",      File,   None,                has_program,        file::show_program;
    "stop-program",     "Stop the program",                    File,   None,                is_program_running, file::stop_program;
    "compare-with",     "Compare with file…",                  File,   key(C),             has_stable_recording,            compare::with_file;
    "compare-folder",   "Compare with folder…",                File,   None,                has_stable_recording,            compare::with_folder;
    "open-rules",       "Open comparison rules…",              File,   None,                has_comparison,     compare::open_rules;
    "save-rules",       "Save comparison rules…",              File,   None,                has_comparison,     compare::save_rules;
    "end-compare",      "Close comparison",                    File,   None,                has_comparison,     compare::end;
    "open-sample",      "Open the sample",                     File,   None,                has_sample,         file::open_sample;
    "save-kine",        "Save a copy…",                        File,   ctrl(S),             has_recording,            file::save_kine;
    "trim",             "Trim recording…",                     File,   None,                can_trim,           file::trim;
    "save-outcome",     "Save outcome…",                       File,   None,                has_outcome,        file::save_outcome;
    "save-plan",        "Save plan…",                          File,   None,                has_plan,           file::save_plan;
    "export-table",     "Export the panel's table…",           File,   None,                has_recording,            export::table_of_panel;
    "export-panel",     "Save a picture of the panel…",        File,   None,                can_float,           export::picture_of_panel;
    "export-timeline",  "Save a picture of the timeline…",     File,   None,                is_timeline_shown,     export::picture_of_timeline;
    "export-notebook",  "Export the notebook…",                File,   None,                has_notes,          notebook::export;
    "export-screen",    "Save the screen as PNG…",             File,   None,                has_screen,         screen::save_picture;
    "export-film",      "Save the screen so far as a film…",   File,   None,                has_screen,         screen::save_animation;
    "reload",           "Reload",                              File,   key(F5),             has_complete_recording,            file::reload;
    "close",            "Close recording",                     File,   ctrl(W),             can_close,            file::close;
    "quit",             "Quit",                                File,   ctrl(Q),             always,             file::quit;

    "undo",             "Undo",                                Edit,   ctrl(Z),             can_undo,           edit::undo;
    "redo",             "Redo",                                Edit,   ctrl_shift(Z),       can_redo,           edit::redo;
    "edit-input",       "Edit the values of the buffer",       Edit,   key(E),              can_edit,        edit::edit_input;
    "revert-input",     "Reset buffer to recorded values",     Edit,   None,                is_input_edited,       edit::revert_input;
    "add-note",         "Add note at this event",              Edit,   key(M),              has_events,         edit::add_note;
    "remove-note",      "Remove the note here",                Edit,   None,                has_note_here,          edit::remove_note;
    "keep-view",        "Keep this view with the note",        Edit,   None,                has_selected_note,         notebook::keep_view;
    "name",             "Name…",                               Edit,   key(F2),             can_name,           edit::name;
    "pin-register",     "Pin or unpin register",               Edit,   key(P),              has_register,       edit::pin_register;
    "plot-register",    "Plot register, or remove its plot",   Edit,   key(V),              has_register,       edit::plot_register;
    "copy-selection",   "Copy selection",                      Edit,   None,                has_recording,            edit::copy_selection;
    "copy-as-c",        "Copy selection as C",                 Edit,   None,                has_c,              edit::copy_as_c;
    "copy-as-json",     "Copy selection as JSON",              Edit,   None,                has_recording,            edit::copy_as_json;
    "copy-ptx",         "Copy the PTX of the kernel",          Edit,   None,                has_ptx,            edit::copy_ptx;
    "copy-link",        "Copy link to this event",             Edit,   ctrl_shift(C),       has_events,         notebook::copy_link;
    "leave-out",        "Exclude this difference",             Edit,   None,                has_comparison,     compare::ignore_difference;
    "restore-edits",    "Restore unsaved edits",               Edit,   None,                has_left_edits,          edit::restore_edits;
    "forget-edits",     "Discard unsaved edits…",              Edit,   None,                has_left_edits,          edit::discard_edits;

    "palette",          "Command palette",                     Go,     ctrl(P),             always,             go::palette;
    "back",             "Back",                                Go,     alt(ArrowLeft),      can_back,           go::back;
    "forward",          "Forward",                             Go,     alt(ArrowRight),     can_forward,        go::forward;
    "next-event",       "Next event",                          Go,     key(Period),         has_events,         go::next_event;
    "previous-event",   "Previous event",                      Go,     key(Comma),          has_events,         go::previous_event;
    "next-job",         "Next job",                            Go,     key(J),              has_jobs,           go::next_job;
    "previous-job",     "Previous job",                        Go,     key(K),              has_jobs,           go::previous_job;
    "next-launch",      "Next launch",                         Go,     key(L),              has_launches,       go::next_launch;
    "previous-launch",  "Previous launch",                     Go,     shift(L),            has_launches,       go::previous_launch;
    "go-submission",    "Submission of this call",             Go,     key(Y),              has_submission_of_call, go::submission_of_call;
    "go-call",          "Call of this submission",             Go,     shift(Y),            has_call_of_submission, go::call_of_submission;
    "filter-launches",  "Find launches by name…",              Go,     ctrl(L),             has_launches,       go::filter_launches;
    "next-touch",       "Next reference to the selection",     Go,     key(CloseBracket),   has_next_xref,     go::next_xref;
    "previous-touch",   "Previous reference to the selection", Go,     key(OpenBracket), has_previous_xref, go::previous_xref;
    "last-writer",      "Last writer of the selection",        Go,     alt(OpenBracket),    has_last_writer,    go::last_writer;
    "next-reader",      "Next reader of the selection",        Go,     alt(CloseBracket),   has_next_reader,    go::next_reader;
    "select-entry",     "Page-table entry of the selection",   Go,     shift(E),           has_entry,          go::select_entry;
    "next-write",       "Next write of this register",         Go,     None,                has_next_write,     go::next_write;
    "previous-write",   "Previous write of this register",     Go,     None,                has_previous_write, go::previous_write;
    "next-interrupt",   "Next interrupt",                      Go,     key(I),              has_interrupts,     go::next_interrupt;
    "next-problem",     "Next finding",                        Go,     key(F8),             has_findings,       go::next_finding;
    "next-trap",        "Next trapped copy",                   Go,     alt(F8),             has_wasm_run,       go::next_trap;
    "next-divergence",  "Next divergence",                     Go,     shift(F8),           has_divergences,    go::next_divergence;
    "next-difference",  "Next difference",                     Go,     key(F3),            has_comparison,     compare::next;
    "previous-difference", "Previous difference",              Go,     shift(F3),          has_comparison,     compare::previous;
    "go-cause",         "Earliest cause of the difference",    Go,     alt(F3),             has_comparison,     compare::cause;
    "next-byte",        "Next bytes that differ",              Go,     None,                has_comparison,     compare::next_byte;
    "previous-byte",    "Previous bytes that differ",          Go,     None,                has_comparison,     compare::previous_byte;
    "next-note",        "Next note",                           Go,     alt(M),              has_notes,          notebook::next;
    "previous-note",    "Previous note",                       Go,     shift(M),            has_notes,          notebook::previous;
    "open-note",        "Restore the view of the note",        Go,     None,                has_selected_note,         notebook::open;
    "next-pixel-store", "Next store to the pixel",             Go,     key(N),              has_next_store,     screen::next_store;
    "previous-pixel-store", "Previous store to the pixel",     Go,     shift(N),            has_previous_store, screen::previous_store;
    "first-event",      "First event",                         Go,     key(Home),           has_events,         go::first_event;
    "last-event",       "Last event",                          Go,     key(End),            has_events,         go::last_event;
    "go-to-end",        "Go to the end",                       Go,     alt(End),            is_growing,         go::to_end;
    "cursor-a",         "Set cursor A at this event",          Go,     shift(A),            has_events,         go::cursor_a;
    "cursor-b",         "Set cursor B at this event",          Go,     shift(B),            has_events,         go::cursor_b;
    "go-cursor-a",      "Go to cursor A",                      Go,     key(G),              has_cursor_a,       go::go_cursor_a;
    "go-cursor-b",      "Go to cursor B",                      Go,     shift(G),            has_cursor_b,       go::go_cursor_b;
    "clear-cursors",    "Clear cursors A and B",               Go,     alt(G),              has_cursor,         go::clear_cursors;
    "go-address",       "Go to address…",                      Go,     ctrl(G),             has_memory,         go::go_address;
    "filter",           "Filter events…",                      Go,     ctrl(F),             has_events,         go::filter;
    "clear-filter",     "Clear filter",                        Go,     None,                has_filter,         go::clear_filter;
    "save-filter",      "Save filter, or remove it",           Edit,   None,                has_filter,         edit::save_filter;
    "filter-lane",      "Filter lane on or off",               Edit,   ctrl_shift(L),       has_filter,         edit::filter_lane;

    "fit",              "Show the whole recording",            View,   key(F),              has_events,         view::fit;
    "zoom-in",          "Zoom timeline in",                    View,   key(W),              has_events,         view::zoom_in;
    "zoom-out",         "Zoom timeline out",                   View,   key(S),              has_events,         view::zoom_out;
    "pan-left",         "Move timeline left",                  View,   key(A),              has_events,         view::pan_left;
    "pan-right",        "Move timeline right",                 View,   key(D),              has_events,         view::pan_right;
    "zoom-cursors",     "Zoom timeline to cursors A and B",    View,   key(Z),              has_cursor_span,    view::zoom_cursors;
    "reset-lanes",      "Reset heights of lanes",              View,   None,                has_heights,        view::reset_lanes;
    "reset-columns",    "Reset columns of tables",             View,   None,                has_columns,        view::reset_columns;
    "axis-order",       "Timeline by order",                   View,   key(Num1),           has_events,         view::axis_order;
    "axis-compressed",  "Timeline with compressed gaps",       View,   key(Num2),           has_times,          view::axis_compressed;
    "axis-time",        "Timeline by true time",               View,   key(Num3),           has_times,          view::axis_time;
    "numbers",          "Values in hex, decimal, float, binary", View, key(H),              has_recording,            view::numbers;
    "toggle-theme",     "Dark, light or high contrast",        View,   ctrl(T),             always,             view::toggle_theme;
    "high-contrast",    "High contrast on or off",             View,   None,                always,             view::high_contrast;
    "larger",           "Zoom in",                             View,   ctrl(Plus),          can_grow,           view::larger;
    "smaller",          "Zoom out",                            View,   ctrl(Minus),         can_shrink,         view::smaller;
    "first-size",       "Reset zoom",                          View,   ctrl(Num0),          is_scaled,          view::first_size;
    "next-pane",        "Focus the next pane",                 View,   key(F6),             has_recording,            view::next_pane;
    "previous-pane",    "Focus the previous pane",             View,   shift(F6),           has_recording,            view::previous_pane;
    "toggle-outline",   "Outline on or off",                   View,   ctrl(B),             always,             view::toggle_outline;
    "toggle-inspector", "Inspector on or off",                 View,   ctrl_shift(B),       always,             view::toggle_inspector;
    "page-map",         "Page tables as a map or a list",      View,   None,                has_spaces,         view::page_map;
    "structure",        "Structure over memory on or off",     View,   None,                has_spaces,         view::structure;
    "before-after",     "Memory before and after the event, or before", View, key(B),       has_buffers_of_calls, view::before_after;
    "tear-off",         "Move panel to new window",            View,   None,                can_float,           view::float_panel;
    "dock-back",        "Bring panels back",                   View,   None,                has_floating_panel,           view::dock_back;
    "reset-layout",     "Reset layout",                        View,   None,                has_recording,            view::reset_layout;

    "show-timeline",    "Timeline",                            Panels, None,                has_recording,            view::show_timeline;
    "show-events",      "Events",                              Panels, ctrl(Num1),          has_recording,            view::show_events;
    "show-launches",    "Launches",                            Panels, alt(L),              has_recording,            view::show_launches;
    "show-kernel",      "Kernel",                              Panels, alt(K),              has_recording,            view::show_kernel;
    "show-wasm",        "WebAssembly",                         Panels, alt(W),              has_recording,            view::show_wasm;
    "show-objects",     "Objects",                             Panels, alt(O),              has_recording,            view::show_objects;
    "show-address-space", "Address space",                     Panels, alt(A),              has_recording,            view::show_address_space;
    "show-push-buffer", "Push buffer",                         Panels, alt(P),              has_recording,            view::show_push_buffer;
    "show-register",    "Register",                            Panels, ctrl(Num2),          has_recording,            view::show_register;
    "show-plots",       "Plots",                               Panels, ctrl_shift(P),       has_recording,            view::show_plots;
    "show-memory",      "Memory",                              Panels, ctrl(Num3),          has_recording,            view::show_memory;
    "show-page-tables", "Page tables",                         Panels, ctrl(Num4),          has_recording,            view::show_page_tables;
    "show-jobs",        "Jobs",                                Panels, ctrl(Num5),          has_recording,            view::show_jobs;
    "show-shader",      "Shader",                              Panels, alt(S),             has_recording,            view::show_shader;
    "show-inputs",      "Inputs",                              Panels, ctrl(Num6),          has_recording,            view::show_inputs;
    "show-screen",      "Screen",                              Panels, ctrl_shift(S),       has_recording,            view::show_screen;
    "show-replay",      "Replay",                              Panels, ctrl(Num7),          has_recording,            view::show_replay;
    "show-tune",        "Tune",                                Panels, None,                has_recording,            view::show_tune;
    "show-pipeline",    "Pipeline",                            Panels, None,                has_recording,            view::show_pipeline;
    "show-campaign",    "Campaign",                            Panels, None,                has_recording,            view::show_campaign;
    "show-compare",     "Compare",                             Panels, None,                has_recording,            view::show_compare;
    "compare-rules",    "Comparison rules",                    Panels, None,                has_comparison,     compare::show_rules;
    "show-notebook",    "Notebook",                            Panels, ctrl_shift(M),       has_recording,            view::show_notebook;
    "show-problems",    "Findings",                            Panels, ctrl(Num8),          has_recording,            view::show_problems;
    "show-log",         "Log",                                 Panels, ctrl(Num9),          has_recording,            view::show_log;

    "replay",           "Replay",                              Replay, ctrl(Enter),         can_replay,         replay::replay;
    "replay-ten",       "Replay repeatedly",                   Replay, None,                can_replay,         replay::replay_ten;
    "watch-launch",     "Trace memory of this launch",         Replay, alt(B),            can_trace_launch,   replay::trace_launch;
    "watch-launches",   "Trace memory of every launch",        Replay, None,             can_trace_memory,          replay::trace_launches;
    "measure-launches", "Measure every launch",                Replay, None,             can_measure,          replay::measure_launches;
    "plan",             "Make plan",                           Replay, ctrl_shift(Enter),   can_plan,           replay::plan;
    "cancel",           "Stop what is running",                Replay, key(Escape),         is_running,         replay::cancel;
    "toggle-pace",      "Keep or skip idle time",              Replay, None,                has_recording,            replay::toggle_pace;
    "open-outcome",     "Open outcome as a recording",         Replay, None,                has_outcome,        replay::open_outcome;
    "compare-outcome",  "Compare outcome with the recording",  Replay, None,                has_outcome,        compare::outcome;
    "bisect",           "Bisect recording…",                   Replay, None,                can_bisect,         replay::bisect;
    "find-boards",      "Find targets",                        Replay, None,                has_recording,            replay::find_targets;
    "pair",             "Pair with agent…",                    Replay, None,                has_address,        replay::pair;

    "follow-thread",    "Follow thread on or off",             Shader, key(T),              has_shader,         shader::follow_thread;
    "run-thread",       "Run the thread",                      Shader, key(R),              has_shader,         shader::run_thread;
    "next-clause",      "Thread forward by a clause",          Shader, key(F10),            has_thread,         shader::next_clause;
    "previous-clause",  "Thread back by a clause",             Shader, shift(F10),          has_thread,         shader::previous_clause;
    "on-to-break",      "Thread forward to a breakpoint",      Shader, key(F11),            has_breaks,         shader::forward_to_break;
    "back-to-break",    "Thread back to a breakpoint",         Shader, shift(F11),          has_breaks,         shader::back_to_break;
    "toggle-break",     "Set or clear breakpoint",             Shader, key(F9),             has_code,           shader::toggle_break;
    "thread-to-clause", "Thread forward to the clause",        Shader, key(F7),             has_thread,         shader::thread_to_clause;
    "back-to-clause",   "Thread back to the clause",           Shader, shift(F7),           has_thread,         shader::back_to_clause;
    "search-shader",    "Search the shader…",                  Shader, ctrl_shift(F),       has_code,           shader::search;
    "next-unknown",     "Next unknown operation",              Shader, key(U),              has_unknown,        shader::next_unknown;
    "copy-shader",      "Copy the code",                       Shader, None,                has_code,           shader::copy;
    "show-clause-bytes","Show bytes of the clause",            Shader, None,                has_code,           shader::bytes;

    "help",             "All keys",                            Help,   key(Questionmark),   always,             help::help;
    "keys",             "Change keys…",                        Help,   None,                always,             help::keys;
    "tour",             "Take the tour",                       Help,   None,                has_sample,         help::tour;
    "copy-log",         "Copy log",                            Help,   None,                always,             help::copy_log;
    "about",            "About Kinescope",                     Help,   None,                always,             help::about;
}

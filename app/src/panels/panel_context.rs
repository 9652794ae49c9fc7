//! What panels work at: the open document, what each of them shows of it, and what they ask the window for.
//!
//! A panel changes the document and its own view. Whatever else it wants is an [`Ask`], which the window carries out
//! after the frame, so that no panel knows the window or another panel's state.

use super::views::Views;
use crate::document::Document;
use crate::document::comparison::ComparisonSource;
use crate::document::debug::WriterReport;
use crate::document::tuning::table::Columns;
use crate::theme::columns::Tables;
use crate::theme::palette;
use device_mali::debug::Writer;
use egui::{RichText, Ui};
use replay_engine::memory_trace::MemoryTraceRequest;
use replay_engine::tune::{TuneReport, TuneRequest};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use trace_core::progress::Progress;
use trace_core::recording::{Buffer, ElementType};
use trace_query::Format;

/// The open document and everything around it that panels see.
pub struct PanelContext<'a> {
    /// The document.
    pub doc: &'a mut Document,
    /// What each panel shows of it.
    pub views: &'a mut Views,
    /// What panels ask for.
    pub asks: &'a mut UiActions,
}

/// What a piece of work hands back: done at the desk, on the interface thread, if a document is open then.
pub type WorkCompletion = Box<dyn FnOnce(&mut PanelContext<'_>) + Send>;

/// A piece of work apart from the interface thread.
pub type Work = Box<dyn FnOnce(&Progress) -> WorkCompletion + Send>;

/// Something that a panel asks the window for.
pub enum UiAction {
    /// A command of the table, by its id.
    Command(&'static str),
    /// A recording to be opened.
    Open(PathBuf),
    /// The open recording to be compared with another.
    Compare(ComparisonSource),
    /// Work apart from the interface thread.
    Work {
        /// What it is, for the person.
        title: String,
        /// How far it is; cancels it too.
        progress: Progress,
        /// The work.
        work: Work,
    },
    /// Bytes to be selected and shown in Memory.
    Memory {
        /// Index of the address space; `None`: the one that Memory shows.
        space: Option<u32>,
        /// First byte.
        va: u64,
        /// How many.
        bytes: u64,
        /// Whether the first byte goes to the first line.
        first: bool,
    },
    /// Everything that touches a byte to be looked for.
    FindReferences {
        /// Index of the address space.
        space: u32,
        /// The byte.
        va: u64,
    },
    /// A shader of a job to be shown in Shader.
    Shader {
        /// The job.
        job: u32,
        /// Where the shader begins.
        entry: u64,
    },
    /// A thread of a job to be run and shown beside its code, at the step of this number.
    Thread {
        /// The job.
        job: u32,
        /// Where its shader begins.
        entry: u64,
        /// The workgroup.
        workgroup: [u32; 3],
        /// The thread within it.
        thread: [u32; 3],
        /// The step, counted from the thread's begin.
        step: u64,
    },
    /// A function of the device to be shown in Kernel, by its index.
    Kernel(u32),
    /// Memory of the device before and after the event at the moment, side by side.
    BeforeAfter,
    /// Pages to be shown in Page tables.
    Pages(PageTablesTarget),
    /// A file to be chosen and taken into a buffer.
    Load {
        /// The buffer, read as the person reads it.
        buffer: Buffer,
        /// Whether a picture goes into it plane by plane.
        planes: bool,
    },
    /// A place to be chosen and a buffer saved there as the person left it, its elements of this type.
    Save(String, ElementType),
    /// A launch to be tuned on a board.
    Tune {
        /// The board.
        board: String,
        /// What is tried.
        tune: Box<TuneRequest>,
    },
    /// A board to be asked for memory between launches.
    TraceMemory {
        /// The board.
        board: String,
        /// What it is asked.
        ask: MemoryTraceRequest,
    },
    /// A file with code to be chosen, which Tune tries in the place of what was recorded.
    TuneCode,
    /// A place to be chosen and what a tuning came to saved there.
    SaveTuned {
        /// What it came to.
        tuned: Arc<TuneReport>,
        /// Which columns the table has.
        columns: Columns,
        /// Its format.
        format: Format,
    },
    /// Every byte of a buffer to be made zero.
    Clear(String),
}

/// What Page tables is asked to show; what is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageTablesTarget {
    /// Index of the address space.
    pub space: Option<u32>,
    /// First address and number of pages of what fills the map.
    pub frame: Option<(u64, u64)>,
    /// Address whose walk is shown.
    pub at: Option<u64>,
}

/// Two persons comparing a pairing code.
pub struct Pairing {
    /// The code.
    pub code: String,
    /// Takes the answer; `None`: this person confirmed the code, and the agent waits for its own.
    pub answer: Option<Sender<bool>>,
}

/// A command as a menu of a panel names it.
#[derive(Clone, Debug)]
pub struct MenuCommand {
    /// Its id.
    pub id: &'static str,
    /// Its name for the person.
    pub title: String,
    /// Its keys, as a person reads them.
    pub keys: String,
}

/// A piece of work that a panel asked for.
struct PanelWork {
    panel: &'static str,
    title: String,
    progress: Progress,
}

/// What panels asked for in this frame.
#[derive(Default)]
pub struct UiActions {
    list: Vec<UiAction>,
    items: Vec<MenuCommand>,
    focus: Option<&'static str>,
    /// The panel that is being drawn.
    drawing: Option<&'static str>,
    /// Work that panels asked for and that did not end yet, or ended by an error of the program.
    panel_work: Vec<PanelWork>,
    /// Whether the inspector is in view, so that panels need not explain what is selected.
    pub inspector: bool,
    /// The pairing that is going on.
    pub pairing: Arc<Mutex<Option<Pairing>>>,
    /// Columns of tables as the person arranged them.
    pub tables: Tables,
}

impl UiActions {
    /// Nothing asked for yet; `items` are the commands that menus may name.
    #[must_use]
    pub fn new(items: Vec<MenuCommand>) -> Self {
        Self {
            items,
            ..Self::default()
        }
    }

    /// Asks for something.
    pub fn push(&mut self, ask: UiAction) {
        self.list.push(ask);
    }

    /// Asks for a command of the table.
    pub fn run_command(&mut self, id: &'static str) {
        self.push(UiAction::Command(id));
    }

    /// Asks for work apart from the interface thread.
    pub fn start_work(
        &mut self,
        title: impl Into<String>,
        work: impl FnOnce(&Progress) -> WorkCompletion + Send + 'static,
    ) -> Progress {
        let progress = Progress::new();
        let title = title.into();
        if let Some(panel) = self.drawing {
            self.panel_work
                .retain(|w| w.progress.is_lost() || !w.progress.has_ended());
            self.panel_work.push(PanelWork {
                panel,
                title: title.clone(),
                progress: progress.clone(),
            });
        }
        self.push(UiAction::Work {
            title,
            progress: progress.clone(),
            work: Box::new(work),
        });
        progress
    }

    /// A panel is being drawn: the work that it asks for is its own.
    pub(super) fn begin_panel(&mut self, panel: Option<&'static str>) {
        self.drawing = panel;
    }

    /// What of a panel's work ended by an error of the program and was not put away: what it was.
    pub(super) fn lost_work(&self, panel: &str) -> Option<&str> {
        let mut lost = self
            .panel_work
            .iter()
            .filter(|w| w.panel == panel && w.progress.is_lost());
        lost.next().map(|w| w.title.as_str())
    }

    /// The person has read what was lost of a panel.
    pub(super) fn dismiss_lost_work(&mut self, panel: &str) {
        self.panel_work.retain(|w| w.panel != panel || !w.progress.is_lost());
    }

    /// Asks for bytes to be selected and shown in Memory; `space` `None`: of the address space that it shows.
    pub fn show_memory(&mut self, space: Option<u32>, va: u64, bytes: u64) {
        let first = false;
        self.push(UiAction::Memory {
            space,
            va,
            bytes,
            first,
        });
    }

    /// As [`UiActions::memory`], with the first byte in the first line.
    pub fn show_memory_at_top(&mut self, space: Option<u32>, va: u64, bytes: u64) {
        let first = true;
        self.push(UiAction::Memory {
            space,
            va,
            bytes,
            first,
        });
    }

    /// Asks for a shader of a job to be shown.
    pub fn show_shader(&mut self, job: u32, entry: u64) {
        self.push(UiAction::Shader { job, entry });
        self.run_command("show-shader");
    }

    /// Asks for the thread that wrote a byte to be run and shown at the clause that wrote it.
    pub fn show_writer_thread(&mut self, report: &WriterReport) {
        let (Writer::Shader(place, shown), Some(w)) = (&report.writer, &report.location) else {
            return;
        };
        self.push(UiAction::Thread {
            job: place.chain,
            entry: w.shader,
            workgroup: shown.workgroup,
            thread: w.thread,
            step: w.step,
        });
        self.run_command("show-shader");
    }

    /// Keys of commands as a person reads them now.
    pub fn set_keys(&mut self, keys: impl Fn(&str) -> String) {
        for item in &mut self.items {
            item.keys = keys(item.id);
        }
    }

    /// Words about a command with its keys behind them: what a tooltip says.
    #[must_use]
    pub fn tooltip(&self, id: &str, words: &str) -> String {
        match self.items.iter().find(|i| i.id == id).map_or("", |i| i.keys.as_str()) {
            "" => words.to_owned(),
            keys => format!("{words} ({keys})"),
        }
    }

    /// A command of the table as an item of a menu.
    pub fn menu_item(&mut self, ui: &mut Ui, id: &'static str) {
        let Some(item) = self.items.iter().find(|i| i.id == id) else {
            return;
        };
        let keys = RichText::new(&item.keys).color(palette(ui).quiet);
        let button = egui::Button::new(&item.title).shortcut_text(keys);
        if ui.add(button).clicked() {
            self.run_command(id);
        }
    }

    /// Wants a field of this name to take the keyboard.
    pub fn give_focus(&mut self, name: &'static str) {
        self.focus = Some(name);
    }

    /// Whether the field of this name should take the keyboard now.
    pub fn take_focus(&mut self, name: &str) -> bool {
        let mine = self.focus == Some(name);
        if mine {
            self.focus = None;
        }
        mine
    }

    /// What was asked for, in order; what remains is empty.
    pub fn take_actions(&mut self) -> Vec<UiAction> {
        std::mem::take(&mut self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_ended_by_an_error_of_the_program_is_told_in_its_panel_until_it_is_put_away() {
        let mut asks = UiActions::default();
        asks.begin_panel(Some("plots"));
        let counting = asks.start_work("counting accesses", |_| Box::new(|_| {}));
        asks.begin_panel(Some("events"));
        let filtering = asks.start_work("filtering events", |_| Box::new(|_| {}));
        asks.begin_panel(None);
        assert_eq!((asks.lost_work("plots"), asks.lost_work("events")), (None, None));
        filtering.mark_ended();
        counting.mark_lost();
        assert_eq!(
            (asks.lost_work("plots"), asks.lost_work("events")),
            (Some("counting accesses"), None)
        );
        // What ended well is forgotten with the next piece of work, what was lost is not.
        asks.begin_panel(Some("events"));
        let _again = asks.start_work("filtering events", |_| Box::new(|_| {}));
        assert_eq!(asks.panel_work.len(), 2);
        assert!(asks.lost_work("plots").is_some());
        asks.dismiss_lost_work("plots");
        assert_eq!(asks.lost_work("plots"), None);
    }
}

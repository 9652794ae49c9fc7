//! The actions that panels request.
//!
//! A panel changes the document and its own state. For anything else it pushes a [`UiAction`], which the window carries
//! out after the frame, so that no panel knows the window or another panel's state.

use crate::log::{self, Level};
use crate::panels::common::campaign_run::CampaignRun;
use crate::theme::columns::Tables;
use crate::theme::palette;
use device_mali::debug::Writer;
use egui::{RichText, Ui};
use kinescope_pipeline::PipelineRun;
use kinescope_session::Document;
use kinescope_session::comparison::ComparisonSource;
use kinescope_session::debug::WriterReport;
use kinescope_session::tuning::table::Columns;
use kinescope_session::wasm_run::{CopyPart, CopyState};
use replay_engine::memory_trace::MemoryTraceRequest;
use replay_engine::tune::{TuneReport, TuneRequest};
use std::any::{Any, TypeId};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use trace_core::GpuVa;
use trace_core::progress::Progress;
use trace_core::recording::{Buffer, ElementType};
use trace_query::Format;

/// The states of all panels, found by type, so that work knows no state but that of its own panel.
pub trait PanelStates {
    /// Returns the state of this type, or `None` if no panel has it.
    fn state_mut(&mut self, of: TypeId) -> Option<&mut dyn Any>;
}

/// The completion of background work of the panel whose state is `S`. It runs on the interface thread, if a document is
/// open then.
pub type WorkCompletion<S> = Box<dyn FnOnce(&mut Document, &mut S, &mut UiActions) + Send>;

/// A completion that finds its panel's state itself.
pub type ErasedCompletion = Box<dyn FnOnce(&mut Document, &mut dyn PanelStates, &mut UiActions) + Send>;

/// Work that runs off the interface thread.
pub type Work = Box<dyn FnOnce(&Progress) -> ErasedCompletion + Send>;

/// Returns a completion that runs with its panel's state.
fn erase_completion<S: 'static>(completion: WorkCompletion<S>) -> ErasedCompletion {
    Box::new(move |doc, states, actions| {
        let state = states.state_mut(TypeId::of::<S>());
        let Some(state) = state.and_then(|s| s.downcast_mut::<S>()) else {
            let state = std::any::type_name::<S>();
            let message = format!("internal error: no panel has the state {state}, so a result is lost");
            return log::push(Level::Error, message);
        };
        completion(doc, state, actions);
    })
}

/// An action that a panel requests from the window.
pub enum UiAction {
    /// A command of the table, by its id.
    Command(&'static str),
    /// Open a recording.
    Open(PathBuf),
    /// Compare the open recording with another.
    Compare(ComparisonSource),
    /// Run work off the interface thread.
    Work {
        /// Title that the user sees.
        title: String,
        /// Its progress, which can also cancel it.
        progress: Progress,
        /// The work.
        work: Work,
    },
    /// An action of a panel.
    Panel(PanelAction),
    /// Choose a file and load it into a buffer.
    Load {
        /// The buffer, with the element type that the user chose.
        buffer: Buffer,
        /// Whether a picture is loaded plane by plane.
        planes: bool,
    },
    /// Choose a file and save a buffer with the user's edits, with elements of this type.
    Save(String, ElementType),
    /// Choose a file and save an output of the last replay there.
    SaveOutput(String),
    /// Tune a launch on a target.
    Tune {
        /// The target.
        target: String,
        /// The request.
        tune: Box<TuneRequest>,
    },
    /// Request a memory trace from a target: memory between launches.
    TraceMemory {
        /// The target.
        target: String,
        /// The request.
        request: MemoryTraceRequest,
    },
    /// Measure the launches of the recording on this target.
    MeasureLaunches(String),
    /// Choose the folder of a campaign, which Campaign shows.
    ChooseCampaign,
    /// Choose a description of a campaign, which Campaign can run.
    ChooseCampaignDescription,
    /// Read what was appended to the open campaign.
    ReadCampaign,
    /// Run a campaign.
    RunCampaign(Box<CampaignRun>),
    /// Open a recording at an event.
    OpenAt(PathBuf, u64),
    /// Choose a pipeline file, which Pipeline shows.
    ChoosePipeline,
    /// Choose a file for the input of this name of the pipeline.
    ChoosePipelineInput(String),
    /// Run a pipeline.
    RunPipeline(Box<PipelineRun>),
    /// Choose a file with code, which Tune tries instead of the recorded code.
    TuneCode,
    /// Choose a file and save the result of a tuning.
    SaveTuned {
        /// The result.
        tuned: Arc<TuneReport>,
        /// The columns of the table.
        columns: Columns,
        /// Its format.
        format: Format,
    },
    /// Set every byte of a buffer to zero.
    Clear(String),
    /// Choose a file for a replay option.
    ChooseReplayFile(ReplayFile),
}

/// A replay option that is a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayFile {
    /// The expected content of the output with this name.
    Output(String),
    /// The expected picture of the screen.
    Screen,
    /// The plan to replay.
    Plan,
}

/// An action that the panel concerned carries out.
pub enum PanelAction {
    /// Select bytes and show them in Memory.
    Memory {
        /// Index of the address space; `None`: the one that Memory shows.
        space: Option<u32>,
        /// First byte.
        va: GpuVa,
        /// How many.
        bytes: u64,
        /// Whether the first byte goes to the first line.
        first: bool,
    },
    /// Find all references to a byte.
    FindReferences {
        /// Index of the address space.
        space: u32,
        /// The byte.
        va: GpuVa,
    },
    /// Show a shader of a job in Shader.
    Shader {
        /// The job.
        job: u32,
        /// Start address of the shader.
        entry: GpuVa,
    },
    /// Run a thread of a job and show it next to its code, at the step with this number.
    Thread {
        /// The job.
        job: u32,
        /// Start address of its shader.
        entry: GpuVa,
        /// The workgroup.
        workgroup: [u32; 3],
        /// The thread within it.
        thread: [u32; 3],
        /// The step, counted from the start of the thread.
        step: u64,
    },
    /// Show a function of the device in Kernel, by its index.
    Kernel(u32),
    /// Show device memory before and after the current event, side by side.
    BeforeAfter,
    /// Select an object of the kernel driver in Objects, by its index.
    DriverObject(u32),
    /// Select the addresses of an object of the kernel driver in Address space, by its index.
    ObjectAddresses(u32),
    /// Show pages in Page tables.
    Pages(PageTablesTarget),
    /// Show something in WebAssembly.
    WasmCopies(CopyRequest),
}

impl From<PanelAction> for UiAction {
    fn from(action: PanelAction) -> Self {
        Self::Panel(action)
    }
}

/// What WebAssembly must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyRequest {
    /// A copy of the program by its position, and a part of it; `None`: the part that is shown.
    Copy(u32, Option<CopyPart>),
    /// The line of the program at which a copy trapped.
    Trap(u32),
    /// The copies in a state; `None`: all.
    State(Option<CopyState>),
}

/// A location that Page tables must show; `None` leaves a value as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageTablesTarget {
    /// Index of the address space.
    pub space: Option<u32>,
    /// First address and number of pages of the range that fills the map.
    pub frame: Option<(GpuVa, u64)>,
    /// Address whose walk is shown.
    pub at: Option<GpuVa>,
}

/// A pairing code that two users compare.
pub struct Pairing {
    /// The code.
    pub code: String,
    /// Channel for the answer; `None`: this user confirmed the code, and the agent waits for its own confirmation.
    pub answer: Option<Sender<bool>>,
}

/// A command in the menu of a panel.
#[derive(Clone, Debug)]
pub struct MenuCommand {
    /// Its id.
    pub id: &'static str,
    /// Name that the user sees.
    pub title: String,
    /// Its shortcut, as the user reads it.
    pub keys: String,
}

/// Background work that a panel requested.
struct PanelWork {
    panel: &'static str,
    title: String,
    progress: Progress,
}

/// The actions that panels requested in this frame.
#[derive(Default)]
pub struct UiActions {
    list: Vec<UiAction>,
    items: Vec<MenuCommand>,
    focus: Option<&'static str>,
    /// The panel that is being drawn.
    drawing: Option<&'static str>,
    /// Work of panels that did not end yet, or that ended by a program error.
    panel_work: Vec<PanelWork>,
    /// Whether the inspector is in view, so that panels need not explain the selection.
    pub inspector: bool,
    /// The running pairing.
    pub pairing: Arc<Mutex<Option<Pairing>>>,
    /// Columns of tables as the user arranged them.
    pub tables: Tables,
}

impl UiActions {
    /// Creates an empty list of actions; `items` are the commands that menus may name.
    #[must_use]
    pub fn new(items: Vec<MenuCommand>) -> Self {
        Self {
            items,
            ..Self::default()
        }
    }

    /// Requests an action.
    pub fn push(&mut self, action: impl Into<UiAction>) {
        self.list.push(action.into());
    }

    /// Requests a command of the table.
    pub fn run_command(&mut self, id: &'static str) {
        self.push(UiAction::Command(id));
    }

    /// Requests work off the interface thread. Its completion gets the state `S` of the panel.
    pub fn start_work<S: 'static>(
        &mut self,
        title: impl Into<String>,
        work: impl FnOnce(&Progress) -> WorkCompletion<S> + Send + 'static,
    ) -> Progress {
        self.push_work(title.into(), Box::new(|progress| erase_completion(work(progress))))
    }

    /// Requests work off the interface thread whose completion changes the document alone.
    pub fn start_document_work(
        &mut self,
        title: impl Into<String>,
        work: impl FnOnce(&Progress) -> Box<dyn FnOnce(&mut Document) + Send> + Send + 'static,
    ) -> Progress {
        let work: Work = Box::new(|progress| {
            let completion = work(progress);
            Box::new(|doc, _, _| completion(doc))
        });
        self.push_work(title.into(), work)
    }

    /// Adds work to the list, as that of the panel that is being drawn.
    fn push_work(&mut self, title: String, work: Work) -> Progress {
        let progress = Progress::new();
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
            work,
        });
        progress
    }

    /// Sets the panel that is being drawn: it owns the work that it requests.
    pub fn begin_panel(&mut self, panel: Option<&'static str>) {
        self.drawing = panel;
    }

    /// Returns the title of a panel's work that ended by a program error and was not dismissed.
    #[must_use]
    pub fn lost_work(&self, panel: &str) -> Option<&str> {
        let mut lost = self
            .panel_work
            .iter()
            .filter(|w| w.panel == panel && w.progress.is_lost());
        lost.next().map(|w| w.title.as_str())
    }

    /// Dismisses the message about a panel's lost work.
    pub fn dismiss_lost_work(&mut self, panel: &str) {
        self.panel_work.retain(|w| w.panel != panel || !w.progress.is_lost());
    }

    /// Requests that WebAssembly shows something, and brings the panel to the front.
    pub fn show_copy(&mut self, request: CopyRequest) {
        self.push(PanelAction::WasmCopies(request));
        self.run_command("show-wasm");
    }

    /// Requests that Memory selects and shows bytes; if `space` is `None`, in the address space that it shows.
    pub fn show_memory(&mut self, space: Option<u32>, va: GpuVa, bytes: u64) {
        let first = false;
        self.push(PanelAction::Memory {
            space,
            va,
            bytes,
            first,
        });
    }

    /// Does the same as [`UiActions::show_memory`], with the first byte in the first line.
    pub fn show_memory_at_top(&mut self, space: Option<u32>, va: GpuVa, bytes: u64) {
        let first = true;
        self.push(PanelAction::Memory {
            space,
            va,
            bytes,
            first,
        });
    }

    /// Requests that a shader of a job is shown.
    pub fn show_shader(&mut self, job: u32, entry: GpuVa) {
        self.push(PanelAction::Shader { job, entry });
        self.run_command("show-shader");
    }

    /// Requests that the thread that wrote a byte is run and shown at the clause that wrote it.
    pub fn show_writer_thread(&mut self, report: &WriterReport) {
        let (Writer::Shader(place, shown), Some(w)) = (&report.writer, &report.location) else {
            return;
        };
        self.push(PanelAction::Thread {
            job: place.chain,
            entry: w.shader,
            workgroup: shown.workgroup,
            thread: w.thread,
            step: w.step,
        });
        self.run_command("show-shader");
    }

    /// Sets the current shortcuts of commands, as the user reads them.
    pub fn set_keys(&mut self, keys: impl Fn(&str) -> String) {
        for item in &mut self.items {
            item.keys = keys(item.id);
        }
    }

    /// Returns the text of a tooltip: words about a command, then its shortcut.
    #[must_use]
    pub fn tooltip(&self, id: &str, words: &str) -> String {
        match self.items.iter().find(|i| i.id == id).map_or("", |i| i.keys.as_str()) {
            "" => words.to_owned(),
            keys => format!("{words} ({keys})"),
        }
    }

    /// Draws a command of the table as an item of a menu.
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

    /// Requests the keyboard for the field with this name.
    pub fn give_focus(&mut self, name: &'static str) {
        self.focus = Some(name);
    }

    /// Returns whether the field with this name should take the keyboard now.
    pub fn take_focus(&mut self, name: &str) -> bool {
        let mine = self.focus == Some(name);
        if mine {
            self.focus = None;
        }
        mine
    }

    /// Returns the requested actions, in order, and clears the list.
    pub fn take_actions(&mut self) -> Vec<UiAction> {
        std::mem::take(&mut self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashed_work_is_reported_in_its_panel_until_dismissed() {
        let mut actions = UiActions::default();
        actions.begin_panel(Some("plots"));
        let counting = actions.start_document_work("counting accesses", |_| Box::new(|_| {}));
        actions.begin_panel(Some("events"));
        let filtering = actions.start_document_work("filtering events", |_| Box::new(|_| {}));
        actions.begin_panel(None);
        assert_eq!((actions.lost_work("plots"), actions.lost_work("events")), (None, None));
        filtering.mark_ended();
        counting.mark_lost();
        assert_eq!(
            (actions.lost_work("plots"), actions.lost_work("events")),
            (Some("counting accesses"), None)
        );
        // Finished work is dropped when the next work starts, lost work is not.
        actions.begin_panel(Some("events"));
        let _again = actions.start_document_work("filtering events", |_| Box::new(|_| {}));
        assert_eq!(actions.panel_work.len(), 2);
        assert!(actions.lost_work("plots").is_some());
        actions.dismiss_lost_work("plots");
        assert_eq!(actions.lost_work("plots"), None);
    }
}

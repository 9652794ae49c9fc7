//! The window: on a screen, or rendered off-screen into a picture.

mod app;
mod arrange;
mod campaigns;
pub mod command;
mod comparing;
mod contents;
pub mod crash;
mod follow_bar;
mod followed_file;
mod following;
mod frame;
mod key_capture;
pub mod keymap;
mod keys_sheet;
pub mod layout;
mod links;
mod memory_trace;
mod name_form;
mod name_queue;
mod naming;
mod notebook;
mod notices;
pub mod offscreen;
mod opening;
mod palette;
mod panel_picture;
mod path_prompt;
mod pick;
mod pipelines;
mod program_state;
mod questions;
mod renderer;
mod replaying;
mod requests;
mod running;
mod saving;
mod settings;
mod sheets;
mod shell;
pub mod shortcut;
mod status;
mod studio;
mod svg;
pub mod tasks;
mod top;
mod tour;
mod tour_state;
mod trimming;
mod tuning;
mod unsaved_edits;
mod user_maps;
mod user_maps_watch;
mod welcome;
pub mod workspace_file;

pub use app::{App, Setup};
pub use followed_file::FollowedFile;
pub use key_capture::{KeyCapture, KeysSheet};
pub use name_form::{FieldForm, Form as NamingForm, NameSubject};
pub use name_queue::NameSheet;
pub use notebook::{NotebookError, NotebookFormat, NotebookSummary, write as write_notebook};
pub use offscreen::{Camera, NoAdapter};
pub use palette::{Entry, list_entries};
pub use panel_picture::UNKNOWN_FORMAT;
pub use pick::{Chooser, PathPrompt, Pick, PickResult};
pub use program_state::{ProgramSheet, ShownRun};
pub use requests::{AfterOpen, Goal, LeaveAction, PictureFormat as PictureForm, Question};
pub use settings::{MIN_WINDOW, SCALES, Settings, WindowPlace};
pub use studio::{Shot, Studio};
pub use tour_state::Tour;
pub use trimming::{TrimSheet, TrimTask};

use crate::theme::ThemeChoice;
use command::Command;
use kinescope_session::sample;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Options for opening the window.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Theme; `None` keeps the last choice.
    pub theme: Option<ThemeChoice>,
    /// Selected target, `software:mali-g71` if `None`.
    pub target: Option<String>,
    /// Actions to run once the recording is loaded.
    pub afterwards: AfterOpen,
    /// Whether the recording is followed while a recorder writes it.
    pub follow: bool,
}

struct EframeApp(App);

impl eframe::App for EframeApp {
    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        self.0.ui(ui);
    }

    fn on_exit(&mut self, _gl: Option<&eframe::glow::Context>) {
        self.0.settings.save();
        self.0.close();
    }
}

/// Minimum time in which a user can answer a dialog. A faster answer means that the dialog was not shown.
const MIN_ANSWER_TIME: Duration = Duration::from_millis(300);

/// Returns whether the desktop can show a file dialog: through a portal on the session bus, or zenity.
fn has_file_dialog() -> bool {
    let on_path = |name: &str| {
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|p| p.join(name).is_file()))
    };
    std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_some() || on_path("zenity")
}

fn system_chooser() -> Chooser {
    Arc::new(|what| {
        if cfg!(target_os = "linux") && !has_file_dialog() {
            return PickResult::NoDialog;
        }
        let since = Instant::now();
        let chosen = match what {
            Pick::Recording => rfd::FileDialog::new().set_title("Open file").pick_file(),
            Pick::Follow => rfd::FileDialog::new().set_title("Follow a recording").pick_file(),
            Pick::Second => rfd::FileDialog::new().set_title("Compare with file").pick_file(),
            Pick::Folder => rfd::FileDialog::new().set_title("Open folder").pick_folder(),
            Pick::Program => rfd::FileDialog::new().set_title("Program to run").pick_file(),
            Pick::Buffer => rfd::FileDialog::new()
                .set_title("Load into buffer")
                .add_filter("buffers", &["bin", "raw", "npy", "png", "csv"])
                .add_filter("all files", &["*"])
                .pick_file(),
            Pick::Rules => rfd::FileDialog::new().set_title("Open rules").pick_file(),
            Pick::Code => rfd::FileDialog::new()
                .set_title("Try other code")
                .add_filter("CUDA code", &["ptx", "cubin", "fatbin", "cu"])
                .pick_file(),
            Pick::ExpectedOutput => rfd::FileDialog::new()
                .set_title("Expected content of an output")
                .pick_file(),
            Pick::ExpectedScreen => rfd::FileDialog::new()
                .set_title("Expected screen")
                .add_filter("binary PPM", &["ppm"])
                .add_filter("all files", &["*"])
                .pick_file(),
            Pick::Plan => rfd::FileDialog::new()
                .set_title("Open plan")
                .add_filter("plans", &["txt", "plan"])
                .add_filter("all files", &["*"])
                .pick_file(),
            Pick::CampaignDescription => rfd::FileDialog::new()
                .set_title("Open description of a campaign")
                .add_filter("descriptions", &["toml"])
                .add_filter("all files", &["*"])
                .pick_file(),
            Pick::Pipeline => rfd::FileDialog::new()
                .set_title("Open pipeline")
                .add_filter("pipelines", &["kpipe"])
                .add_filter("all files", &["*"])
                .pick_file(),
            Pick::Save(offered) => {
                let offered = std::path::Path::new(offered);
                let name = offered.file_name().unwrap_or_default().to_string_lossy();
                let dialog = rfd::FileDialog::new().set_title("Save").set_file_name(name);
                match offered.parent() {
                    Some(folder) => dialog.set_directory(folder).save_file(),
                    None => dialog.save_file(),
                }
            }
        };
        match chosen {
            Some(path) => PickResult::Path(path),
            None if since.elapsed() < MIN_ANSWER_TIME => PickResult::NoDialog,
            None => PickResult::Cancelled,
        }
    })
}

/// Opens the window with these commands, and a recording if `path` names one. Returns when the window is closed.
///
/// # Errors
/// When neither wgpu nor OpenGL can open a window on this machine; the error says what to install.
pub fn run(path: Option<PathBuf>, options: Options, commands: &'static [Command<App>]) -> anyhow::Result<()> {
    let crashes = directories::ProjectDirs::from("", "", "kinescope").map(|f| f.data_local_dir().join("crashes"));
    if let Some(folder) = &crashes {
        crash::install(folder.clone());
    }
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("kinescope=warn"));
    // Keeps an existing subscriber, as in a test.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init();
    let kept = Settings::load(Settings::user_folder()).window();
    let mut viewport = egui::ViewportBuilder::default()
        .with_title("Kinescope")
        .with_app_id("kinescope")
        .with_inner_size(kept.size)
        .with_min_inner_size(MIN_WINDOW)
        .with_maximized(kept.maximized)
        .with_drag_and_drop(true);
    if let Some(at) = kept.at {
        viewport = viewport.with_position(at);
    }
    renderer::open(&viewport, |ctx| {
        let setup = Setup {
            settings: Settings::user_folder(),
            theme: options.theme,
            target: options.target.clone(),
            chooser: system_chooser(),
            commands,
        };
        let mut app = App::new(ctx, setup);
        app.after_open.clone_from(&options.afterwards);
        if let Some(folder) = &crashes {
            app.report_last_crash(folder);
        }
        // A user who starts the program for the first time without a file sees the sample.
        let sample = || sample::path().filter(|_| app.settings.is_first_run());
        match path.clone() {
            Some(path) if options.follow => app.follow_file(ctx, path),
            path => {
                if let Some(path) = path.or_else(sample) {
                    app.open(ctx, path);
                }
            }
        }
        Box::new(EframeApp(app))
    })
}

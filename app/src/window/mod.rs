//! The window: opens it on a screen, or renders it off-screen into a picture.

mod app;
mod arrange;
pub mod command;
mod comparing;
mod contents;
pub mod crash;
mod frame;
pub mod keep;
pub mod layout;
pub mod leaving;
mod notices;
mod offscreen;
mod opening;
mod own_maps;
mod palette;
mod pick;
mod questions;
mod renderer;
mod replaying;
mod settings;
mod sheets;
mod shell;
pub mod shortcut;
mod status;
pub mod tasks;
mod top;
mod typed;
mod welcome;

pub use app::{App, Setup};
pub use offscreen::{Camera, NoAdapter};
pub use palette::{Entry, entries};
pub use pick::{Chooser, Chosen, Pick, Typed};
pub use settings::Settings;

use crate::document::sample;
use crate::theme::ThemeChoice;
use command::Command;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How the window opens.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Theme; `None` keeps the one that was chosen last.
    pub theme: Option<ThemeChoice>,
    /// Board to have ready, `software:mali-g71` when `None`.
    pub board: Option<String>,
    /// A second recording to compare the first one with.
    pub compare: Option<PathBuf>,
}

struct Framed(App);

impl eframe::App for Framed {
    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        self.0.ui(ui);
    }

    fn on_exit(&mut self, _gl: Option<&eframe::glow::Context>) {
        self.0.close();
    }
}

/// No person answers a dialog as fast as this: it was not shown.
const NOBODY: Duration = Duration::from_millis(300);

/// Whether the desktop has something that can show a dialog: a portal on the session's bus, or zenity.
fn can_ask() -> bool {
    let on_path = |name: &str| {
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|p| p.join(name).is_file()))
    };
    std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_some() || on_path("zenity")
}

fn dialogs() -> Chooser {
    Arc::new(|what| {
        if cfg!(target_os = "linux") && !can_ask() {
            return Chosen::NoDialog;
        }
        let since = Instant::now();
        let chosen = match what {
            Pick::Recording => rfd::FileDialog::new().set_title("Open file").pick_file(),
            Pick::Folder => rfd::FileDialog::new().set_title("Open folder").pick_folder(),
            Pick::Buffer => rfd::FileDialog::new()
                .set_title("Load into buffer")
                .add_filter("buffers", &["bin", "raw", "npy", "png", "csv"])
                .add_filter("all files", &["*"])
                .pick_file(),
            Pick::Save(name) => rfd::FileDialog::new().set_title("Save").set_file_name(name).save_file(),
        };
        match chosen {
            Some(path) => Chosen::Path(path),
            None if since.elapsed() < NOBODY => Chosen::NoDialog,
            None => Chosen::Nothing,
        }
    })
}

/// Opens the window with these commands, and a recording when `path` names one, and comes back when it is closed.
///
/// # Errors
/// When neither wgpu nor OpenGL can open a window here; the error says what to install.
pub fn run(path: Option<PathBuf>, options: Options, commands: &'static [Command<App>]) -> anyhow::Result<()> {
    let crashes = directories::ProjectDirs::from("", "", "kinescope").map(|f| f.data_local_dir().join("crashes"));
    if let Some(folder) = &crashes {
        crash::install(folder.clone());
    }
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("kinescope=warn"));
    // A subscriber that is there already, as in a test, is kept.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init();
    let viewport = egui::ViewportBuilder::default()
        .with_title("Kinescope")
        .with_app_id("kinescope")
        .with_inner_size([1280.0, 800.0])
        .with_min_inner_size([800.0, 500.0])
        .with_drag_and_drop(true);
    renderer::open(&viewport, |ctx| {
        let setup = Setup {
            settings: Settings::folder_of_person(),
            theme: options.theme,
            board: options.board.clone(),
            chooser: dialogs(),
            commands,
        };
        let mut app = App::new(ctx, setup);
        app.compare_next.clone_from(&options.compare);
        if let Some(folder) = &crashes {
            app.tell_of_crash(folder);
        }
        // Who comes for the first time and brings nothing sees the sample.
        let sample = || sample::path().filter(|_| app.settings.first_run());
        if let Some(p) = path.clone().or_else(sample) {
            app.open(ctx, p);
        }
        Box::new(Framed(app))
    })
}

/// Longest time that a picture waits for the recording, its facts and its panels.
const SHOT_LIMIT: Duration = Duration::from_secs(300);

/// How a picture of the window is taken.
#[derive(Clone, Copy)]
pub struct Shot {
    /// Width and height, points.
    pub size: [f32; 2],
    /// Pixels a point.
    pub scale: f32,
    /// Colours.
    pub theme: ThemeChoice,
    /// Every command there is.
    pub commands: &'static [Command<App>],
}

/// Renders the window with the recording at `path`, compared with the one at `compare` if there is one, off-screen, once everything that it shows is there, and writes it
/// to `out_png`. Before that `steps` are taken one after another, each to its end: commands of the table, or
/// `filter=TEXT` sets the Events filter, `go=N` goes to an event, `job=N` to a job, `memory=ADDRESS` to an address.
///
/// # Errors
/// When the recording does not open, there is no adapter to render with, a step is none, or the picture cannot be
/// written.
pub fn screenshot(
    path: &Path,
    compare: Option<&Path>,
    out_png: &Path,
    shot: &Shot,
    steps: &[&str],
) -> anyhow::Result<()> {
    let ctx = egui::Context::default();
    let mut camera = Camera::new(shot.size, shot.scale)?;
    let setup = Setup {
        settings: None,
        theme: Some(shot.theme),
        board: None,
        chooser: Arc::new(|_| Chosen::Nothing),
        commands: shot.commands,
    };
    let mut app = App::new(&ctx, setup);
    app.compare_next = compare.map(Path::to_owned);
    app.open(&ctx, path.to_owned());
    settle(&ctx, &mut camera, &mut app)?;
    if let Some(e) = app.failed() {
        anyhow::bail!("{e}");
    }
    for step in steps {
        app.script(&ctx, step)?;
        settle(&ctx, &mut camera, &mut app)?;
    }
    let image = camera.shoot(&ctx)?;
    let mut png = std::io::Cursor::new(Vec::new());
    image.write_to(&mut png, image::ImageFormat::Png)?;
    Ok(kinescope_files::output::write(out_png, png.get_ref())?)
}

fn settle(ctx: &egui::Context, camera: &mut Camera, app: &mut App) -> anyhow::Result<()> {
    let since = Instant::now();
    let mut quiet = 0;
    while quiet < 4 {
        camera.frame(ctx, |ui| app.ui(ui));
        if app.tasks.running().is_empty() {
            quiet += 1;
        } else {
            quiet = 0;
            std::thread::sleep(Duration::from_millis(5));
        }
        if since.elapsed() > SHOT_LIMIT {
            anyhow::bail!("the window was not ready after {} s", SHOT_LIMIT.as_secs());
        }
    }
    Ok(())
}

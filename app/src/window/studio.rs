//! The window rendered off-screen step by step, for pictures of it.

use super::app::{App, Setup};
use super::command::Command;
use super::layout;
use super::offscreen::{Camera, NoAdapter};
use super::panel_picture::{UNKNOWN_FORMAT, crop_to_png};
use super::pick::PickResult;
use super::requests::{AfterOpen, PictureFormat};
use crate::theme::ThemeChoice;
use kinescope_files::scene::Scene;
use kinescope_session::Document;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

/// Maximum time that a picture waits for the recording, its derived data and its panels.
const SHOT_LIMIT: Duration = Duration::from_secs(300);

/// Options for a picture of the window.
#[derive(Clone, Copy)]
pub struct Shot {
    /// Width and height, points.
    pub size: [f32; 2],
    /// Pixels per point.
    pub scale: f32,
    /// Theme.
    pub theme: ThemeChoice,
    /// All commands.
    pub commands: &'static [Command<App>],
}

/// An invisible window. It saves no settings and asks no questions.
pub struct Studio {
    ctx: egui::Context,
    camera: Camera,
    app: App,
    /// Cancels the wait.
    progress: Progress,
}

impl Studio {
    /// Creates a window without a recording.
    ///
    /// # Errors
    /// [`NoAdapter`] if there is no adapter to render with.
    pub fn new(shot: &Shot, progress: Progress) -> Result<Self, NoAdapter> {
        let ctx = egui::Context::default();
        let camera = Camera::new(shot.size, shot.scale)?;
        let setup = Setup {
            settings: None,
            theme: Some(shot.theme),
            target: None,
            chooser: Arc::new(|_| PickResult::Cancelled),
            commands: shot.commands,
        };
        let app = App::new(&ctx, setup);
        Ok(Self {
            ctx,
            camera,
            app,
            progress,
        })
    }

    /// Opens a recording and completes the actions that follow it.
    ///
    /// # Errors
    /// When it does not open, or the following actions fail; as a message.
    pub fn open(&mut self, path: &Path, afterwards: AfterOpen) -> anyhow::Result<()> {
        self.app.after_open = afterwards;
        self.app.open(&self.ctx, path.to_owned());
        self.settle()?;
        match self.app.last_error() {
            Some(e) => anyhow::bail!("{e}"),
            None => Ok(()),
        }
    }

    /// Shows an open document.
    ///
    /// # Errors
    /// When its panels are not ready in time.
    pub fn show(&mut self, doc: Document) -> anyhow::Result<()> {
        self.app.doc = Some(doc);
        self.app.reset_arrangement();
        self.settle()
    }

    /// Runs a step: a command of the table, `filter=TEXT` to set the Events filter, `go=N` to go to an event, `job=N`
    /// to a job, or `memory=ADDRESS` to an address.
    ///
    /// # Errors
    /// When the step is unknown or cannot run now.
    pub fn step(&mut self, step: &str) -> anyhow::Result<()> {
        self.app.script(&self.ctx, step)?;
        self.settle()
    }

    /// Goes to a scene.
    ///
    /// # Errors
    /// When panels are not ready in time.
    pub fn show_scene(&mut self, scene: &Scene) -> anyhow::Result<()> {
        self.app.reset_arrangement();
        self.app.show_scene(scene);
        self.settle()
    }

    /// Returns the current scene; `None` without a recording.
    #[must_use]
    pub fn scene(&self) -> Option<Scene> {
        self.app.scene()
    }

    /// Returns the window as PNG.
    ///
    /// # Errors
    /// When the adapter fails.
    pub fn png(&mut self) -> anyhow::Result<Vec<u8>> {
        let image = self.camera.capture(&self.ctx)?;
        let mut png = std::io::Cursor::new(Vec::new());
        image.write_to(&mut png, image::ImageFormat::Png)?;
        Ok(png.into_inner())
    }

    /// Returns the window, or one of its panels, in the format of the file name.
    ///
    /// # Errors
    /// When the name has no known format, the panel is not shown, or the adapter fails.
    pub fn picture(&mut self, to: &Path, panel: Option<&str>) -> anyhow::Result<Vec<u8>> {
        let form = PictureFormat::from_path(to).ok_or_else(|| anyhow::anyhow!("{UNKNOWN_FORMAT}"))?;
        let region = panel
            .map(|p| {
                layout::panel_rect(&self.app.dock, p).ok_or_else(|| anyhow::anyhow!("the panel '{p}' is not shown"))
            })
            .transpose()?;
        Ok(match (form, region) {
            (PictureFormat::Svg, region) => self.camera.svg(region)?.into_bytes(),
            (PictureFormat::Png, None) => self.png()?,
            (PictureFormat::Png, Some(r)) => {
                let image = self.camera.capture(&self.ctx)?;
                crop_to_png(&image, r, self.ctx.pixels_per_point())?
            }
        })
    }

    /// Brings a panel to the front.
    ///
    /// # Errors
    /// When panels are not ready in time.
    pub fn show_panel(&mut self, panel: &str) -> anyhow::Result<()> {
        layout::show(&mut self.app.dock, panel);
        self.settle()
    }

    /// Draws frames until no task is running.
    fn settle(&mut self) -> anyhow::Result<()> {
        let since = Instant::now();
        let mut quiet = 0;
        while quiet < 4 {
            self.progress.check()?;
            self.camera.frame(&self.ctx, |ui| self.app.ui(ui));
            if self.app.tasks.running().is_empty() {
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
}

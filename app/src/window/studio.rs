//! The window drawn off-screen, step by step, for pictures of it.

use super::app::{App, Setup};
use super::command::Command;
use super::layout;
use super::links::AfterOpen;
use super::offscreen::{Camera, NoAdapter};
use super::panel_picture::{PictureFormat, UNKNOWN_FORMAT, crop_to_png};
use super::pick::PickResult;
use crate::document::Document;
use crate::theme::ThemeChoice;
use kinescope_files::scene::Scene;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

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

/// A window that nobody sees. It keeps no settings and asks nobody.
pub struct Studio {
    ctx: egui::Context,
    camera: Camera,
    app: App,
    /// Ends the waiting.
    progress: Progress,
}

impl Studio {
    /// A window without a recording.
    ///
    /// # Errors
    /// [`NoAdapter`] when there is nothing to draw with.
    pub fn new(shot: &Shot, progress: Progress) -> Result<Self, NoAdapter> {
        let ctx = egui::Context::default();
        let camera = Camera::new(shot.size, shot.scale)?;
        let setup = Setup {
            settings: None,
            theme: Some(shot.theme),
            board: None,
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

    /// Opens a recording, and does what comes afterwards to its end.
    ///
    /// # Errors
    /// When it does not open, or goes nowhere afterwards; in words.
    pub fn open(&mut self, path: &Path, afterwards: AfterOpen) -> anyhow::Result<()> {
        self.app.after_open = afterwards;
        self.app.open(&self.ctx, path.to_owned());
        self.settle()?;
        match self.app.last_error() {
            Some(e) => anyhow::bail!("{e}"),
            None => Ok(()),
        }
    }

    /// Shows a document that is open already.
    ///
    /// # Errors
    /// When its panels are not ready in time.
    pub fn show(&mut self, doc: Document) -> anyhow::Result<()> {
        self.app.doc = Some(doc);
        self.app.reset_arrangement();
        self.settle()
    }

    /// Takes a step: a command of the table, or `filter=TEXT` sets the Events filter, `go=N` goes to an event, `job=N` to
    /// a job, `memory=ADDRESS` to an address.
    ///
    /// # Errors
    /// When it is none, or may not be taken now.
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

    /// What is looked at; `None` without a recording.
    #[must_use]
    pub fn scene(&self) -> Option<Scene> {
        self.app.scene()
    }

    /// What is shown, as PNG.
    ///
    /// # Errors
    /// When the adapter fails.
    pub fn png(&mut self) -> anyhow::Result<Vec<u8>> {
        let image = self.camera.capture(&self.ctx)?;
        let mut png = std::io::Cursor::new(Vec::new());
        image.write_to(&mut png, image::ImageFormat::Png)?;
        Ok(png.into_inner())
    }

    /// What is shown, or one panel of it, in the form that the file's name says.
    ///
    /// # Errors
    /// When the name says no form, the panel is not shown, or the adapter fails.
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

    /// Draws until nothing is under way any more.
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

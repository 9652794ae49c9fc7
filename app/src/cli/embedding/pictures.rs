//! Pictures of a recording for another program: the window, or one of its panels, rendered off-screen.

use super::run_step;
use crate::cli::link_arguments::panel;
use crate::cli::{Failure, FailureKind};
use crate::commands::COMMANDS;
use crate::theme::ThemeChoice;
use crate::window::{AfterOpen, Shot, Studio};
use std::path::Path;

/// Minimum and maximum width and height of a picture, points.
const SIZES: std::ops::RangeInclusive<f32> = 64.0..=8192.0;
/// Minimum and maximum scale, pixels per point.
const SCALES: std::ops::RangeInclusive<f32> = 0.5..=4.0;

/// Options of a picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Name of the panel; `None` for the whole window.
    pub panel: Option<String>,
    /// The current event; `None` for the one after opening.
    pub event: Option<u64>,
    /// Width and height of the window, points.
    pub size: [f32; 2],
    /// Pixels per point.
    pub scale: f32,
    /// Whether the theme is light.
    pub is_light: bool,
}

/// Renders a picture of a recording as PNG.
///
/// # Errors
/// When an option is out of range, the recording does not open, or this machine cannot render.
pub fn render_picture(path: &Path, picture: &Picture) -> Result<Vec<u8>, Failure> {
    let refused = |message: String| Err(Failure::usage(message).with_kind(FailureKind::Arguments));
    if let Some(side) = picture.size.iter().find(|s| !SIZES.contains(s)) {
        return refused(format!("a side of {side} points is out of range (expected 64 to 8192)"));
    }
    if !SCALES.contains(&picture.scale) {
        return refused(format!("scale {} is out of range (expected 0.5 to 4)", picture.scale));
    }
    if let Some(name) = &picture.panel
        && let Err(message) = panel(name)
    {
        return refused(message);
    }
    let shot = Shot {
        size: picture.size,
        scale: picture.scale,
        theme: if picture.is_light {
            ThemeChoice::Light
        } else {
            ThemeChoice::Dark
        },
        commands: COMMANDS,
    };
    let png = run_step("rendering", |progress| {
        let render = || -> anyhow::Result<Vec<u8>> {
            let mut studio = Studio::new(&shot, progress.clone())?;
            studio.open(path, AfterOpen::default())?;
            if let Some(event) = picture.event {
                studio.step(&format!("go={event}"))?;
            }
            if let Some(name) = &picture.panel {
                studio.show_panel(name)?;
            }
            studio.picture(Path::new("picture.png"), picture.panel.as_deref())
        };
        render().map_err(|e| Failure::file(path, format!("{e:#}")))
    })?;
    Ok(png)
}

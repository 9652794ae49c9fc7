//! Pictures of a device's screen at the end of a replay: the expected one and the actual one.

use super::Failure;
use super::out::format_count;
use kinescope_files::output;
use kinescope_session::screen::read_replayed_picture;
use replay_engine::run::Outcome;
use serde::Serialize;
use std::path::Path;
use trace_core::Recording;
use trace_core::screen::{Picture, compare};

/// The screen at the end: the recorded one and the one that the device showed.
#[derive(Default)]
pub struct ReplayScreens {
    /// The expected picture.
    pub expected: Option<Picture>,
    /// The picture that the device showed.
    pub shown: Option<Picture>,
}

/// The pictures in figures. The engine has the pictures.
#[derive(Serialize)]
pub struct ScreenReport {
    /// Size of the picture that the device showed, pixels.
    width: Option<u32>,
    height: Option<u32>,
    /// Whether there was a picture to compare with.
    checked: bool,
    /// Number of pixels that differ; `null` if no picture, or one of another size, was expected.
    differing_pixels: Option<u64>,
}

impl ReplayScreens {
    /// Returns the pictures of a replay: the one that the user expects or the recorded one, and the one in the outcome.
    pub fn from_outcome(given: Option<&Picture>, recording: &Recording, outcome: &Outcome) -> Result<Self, Failure> {
        // An unreadable recorded picture stops the plan earlier. That of an outcome was written by the agent.
        let shown = read_replayed_picture(outcome).map_err(|e| Failure::usage(format!("the outcome: {e}")))?;
        let recorded = || recording.expected_screen().ok().flatten();
        Ok(Self {
            expected: given.cloned().or_else(recorded),
            shown,
        })
    }

    /// Returns the number of pixels that differ; `None` if a picture is missing, or they differ in size.
    pub fn differing_pixels(&self) -> Option<u64> {
        let (a, b) = (self.expected.as_ref()?, self.shown.as_ref()?);
        compare(a, b).ok().map(|c| c.differing)
    }

    /// Returns the JSON report; `None` if the device has no screen.
    pub fn report(&self) -> Option<ScreenReport> {
        let shown = self.shown.as_ref()?;
        Some(ScreenReport {
            width: Some(shown.width()),
            height: Some(shown.height()),
            checked: self.expected.is_some(),
            differing_pixels: self.differing_pixels(),
        })
    }

    /// Describes the result; `None` if the device has no screen.
    pub fn describe(&self) -> Option<String> {
        let shown = self.shown.as_ref()?;
        let size = format!("{} by {}", shown.width(), shown.height());
        let pixels = u64::from(shown.width()) * u64::from(shown.height());
        Some(match (&self.expected, self.differing_pixels()) {
            (None, _) => format!("{size}, not checked: no picture is expected"),
            (Some(_), Some(n)) => format!("{size}, {n} of {} differ", format_count(pixels, "pixel")),
            (Some(e), None) => format!("{size}, {} by {} was expected", e.width(), e.height()),
        })
    }

    /// Writes the picture that the device showed.
    pub fn write(&self, file: &Path) -> Result<(), Failure> {
        match &self.shown {
            Some(picture) => Ok(output::write(file, &picture.to_ppm())?),
            None => Err(Failure::file(file, "not written, the device showed no screen")),
        }
    }
}

//! Pictures of a device's screen at the end of a replay: the one to expect, and the one that was there.

use super::Failure;
use super::out::format_count;
use kinescope_files::output;
use replay_engine::run::Outcome;
use serde::Serialize;
use std::io::Read as _;
use std::path::Path;
use trace_core::Recording;
use trace_core::container;
use trace_core::screen::{Picture, compare};

/// Reads a picture to expect.
pub fn read_expected(file: &Path) -> Result<Picture, Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::file(file, e);
    let from = std::fs::File::open(file).map_err(|e| failed(&e))?;
    let mut bytes = Vec::new();
    let most = trace_core::screen::MAX_FILE;
    from.take(most + 1).read_to_end(&mut bytes).map_err(|e| failed(&e))?;
    if bytes.len() as u64 > most {
        return Err(failed(&format!("it is larger than a picture may be ({most} bytes)")));
    }
    Picture::from_ppm(&bytes).map_err(|e| failed(&e))
}

/// The screen at the end, as it was recorded and as the device showed it.
#[derive(Default)]
pub struct ReplayScreens {
    /// The picture that was expected.
    pub expected: Option<Picture>,
    /// The one that the device showed.
    pub shown: Option<Picture>,
}

/// What is told of them as JSON.
#[derive(Serialize)]
pub struct ScreenReport {
    width: Option<u32>,
    height: Option<u32>,
    /// Whether there was a picture to hold it against.
    checked: bool,
    /// Pixels that differ; absent where there was none, or of another size.
    differing_pixels: Option<u64>,
}

impl ReplayScreens {
    /// Those of a replay: what a person expects, or else the recording; and what the outcome shows.
    pub fn from_outcome(given: Option<&Picture>, recording: &Recording, outcome: &Outcome) -> Result<Self, Failure> {
        // One that cannot be read stops the plan before; an outcome's is what the agent wrote.
        let in_recording = |r: &Recording| r.expected_screen().ok().flatten();
        let shown = if outcome.recording.is_empty() {
            None
        } else {
            let left = container::from_bytes(outcome.recording.clone());
            in_recording(&left.map_err(|e| Failure::usage(format!("the outcome: {e}")))?)
        };
        Ok(Self {
            expected: given.cloned().or_else(|| in_recording(recording)),
            shown,
        })
    }

    /// Pixels that differ; `None` where one of the pictures is not there, or they differ in size.
    pub fn differing_pixels(&self) -> Option<u64> {
        let (a, b) = (self.expected.as_ref()?, self.shown.as_ref()?);
        compare(a, b).ok().map(|c| c.differing)
    }

    /// For JSON; `None` where the device has no screen.
    pub fn report(&self) -> Option<ScreenReport> {
        let shown = self.shown.as_ref()?;
        Some(ScreenReport {
            width: Some(shown.width()),
            height: Some(shown.height()),
            checked: self.expected.is_some(),
            differing_pixels: self.differing_pixels(),
        })
    }

    /// In words; `None` where the device has no screen.
    pub fn describe(&self) -> Option<String> {
        let shown = self.shown.as_ref()?;
        let size = format!("{} by {}", shown.width(), shown.height());
        let pixels = u64::from(shown.width()) * u64::from(shown.height());
        Some(match (&self.expected, self.differing_pixels()) {
            (None, _) => format!("{size}, not checked: nothing tells what it should show"),
            (Some(_), Some(n)) => format!("{size}, {n} of {} differ", format_count(pixels, "pixel")),
            (Some(e), None) => format!("{size}, {} by {} was expected", e.width(), e.height()),
        })
    }

    /// Writes what the device showed.
    pub fn write(&self, file: &Path) -> Result<(), Failure> {
        match &self.shown {
            Some(picture) => Ok(output::write(file, &picture.to_ppm())?),
            None => Err(Failure::file(file, "not written, the device showed no screen")),
        }
    }
}

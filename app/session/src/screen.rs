//! The screen of a recording at any event: the framebuffer stores, drawn in the format of the display registers or of
//! the user.

pub mod files;
mod manual_format;

pub use manual_format::{ManualFormat, parse};

use replay_engine::run::Outcome;
use std::fmt;
use trace_core::container::{self, ContainerError};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{Recording, SpaceKind};
use trace_core::screen::{
    Display, DisplayError, Framebuffer, FramebufferError, FramebufferState, Palette, Picture, RenderedScreen,
    ScreenFormat, framebuffer_spaces,
};

/// The data to draw the screen of a recording at any event.
#[derive(Debug)]
pub struct Screen {
    /// Framebuffer stores.
    pub framebuffer: Framebuffer,
    /// Name of the framebuffer space.
    pub space: String,
    /// Display controller, if it is known.
    pub display: Option<Display>,
    /// Recorded final picture of the device, if there is one; or why it cannot be read.
    pub expected: Option<Result<Picture, String>>,
}

/// Returns the picture that the device showed at the end of a replay, or `None` if it has no screen or the run left no
/// recording.
///
/// # Errors
/// Returns an error if the recording of the outcome, which the agent may have written, cannot be read.
pub fn read_replayed_picture(outcome: &Outcome) -> Result<Option<Picture>, ContainerError> {
    if outcome.recording.is_empty() {
        return Ok(None);
    }
    let recording = container::from_bytes(outcome.recording.clone())?;
    Ok(recording.expected_screen().ok().flatten())
}

/// Why there is no screen.
#[derive(Debug, thiserror::Error)]
pub enum ScreenError {
    /// There are no framebuffer accesses.
    #[error("the recording has no framebuffer space")]
    None,
    /// The stores could not be read.
    #[error(transparent)]
    Framebuffer(#[from] FramebufferError),
    /// The display registers could not be read.
    #[error(transparent)]
    Display(#[from] DisplayError),
    /// The operation was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// The source of the screen format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FormatSource {
    /// The display registers.
    #[default]
    Registers,
    /// The user.
    Manual(ScreenFormat),
}

/// The format and palette of the screen at an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenSettings {
    /// Screen format.
    pub format: ScreenFormat,
    /// Palette; greys if the recording has none.
    pub palette: Palette,
    /// Whether no palette colour is known, so that indices are shown as greys.
    pub grey: bool,
    /// Event of the register access that set this format; `None` if the user set it.
    pub since: Option<u64>,
    /// Whether the controller overlaid a cursor on the picture.
    pub cursor: bool,
}

/// Why the screen cannot be drawn at an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotDrawable {
    /// Description of the reason.
    pub why: String,
    /// First event with a screen, if it is known.
    pub first: Option<u64>,
}

impl fmt::Display for NotDrawable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// Whether a recording has accesses to a framebuffer.
#[must_use]
pub fn has_framebuffer(recording: &Recording) -> bool {
    let spaces = &recording.metadata.spaces;
    spaces.iter().any(|s| s.kind == SpaceKind::Framebuffer)
}

impl Screen {
    /// Reads stores and display registers. Takes time proportional to the number of events.
    ///
    /// # Errors
    /// Returns an error if there is no framebuffer, a limit is exceeded, or the operation was cancelled.
    pub fn read(recording: &Recording, progress: &Progress) -> Result<Self, ScreenError> {
        let display = Display::read(recording, progress)?;
        let shown = display.as_ref().and_then(Display::framebuffer);
        let space = match shown {
            Some(s) => s,
            None => *framebuffer_spaces(recording, progress)?
                .first()
                .ok_or(ScreenError::None)?,
        };
        let framebuffer = Framebuffer::build(recording, space, progress)?;
        let name = recording
            .metadata
            .spaces
            .get(usize::from(space))
            .map(|s| s.name.clone());
        Ok(Self {
            framebuffer,
            space: name.unwrap_or_default(),
            display,
            expected: recording.expected_screen().map_err(|e| e.to_string()).transpose(),
        })
    }

    /// Returns how the screen is drawn after an event.
    ///
    /// # Errors
    /// Why the screen cannot be drawn.
    pub fn screen_settings(&self, source: FormatSource, event: u64) -> Result<ScreenSettings, NotDrawable> {
        let shown = self.display.as_ref().map(|d| (d, d.after(event)));
        let (format, since) = match (source, &shown) {
            (FormatSource::Manual(f), _) => (f, None),
            (FormatSource::Registers, Some((d, s))) => match s.mode.screen {
                Ok(f) => (f, s.since),
                Err(e) => {
                    return Err(NotDrawable {
                        why: format!("{}: {e}", d.name()),
                        first: d.first_screen(),
                    });
                }
            },
            (FormatSource::Registers, None) => {
                return Err(NotDrawable {
                    why: "the display registers of this device are not known".into(),
                    first: None,
                });
            }
        };
        if let Err(e) = format.check(self.framebuffer.bytes()) {
            return Err(NotDrawable {
                why: e.to_string(),
                first: None,
            });
        }
        let cursor = shown.as_ref().is_some_and(|(_, s)| s.mode.cursor);
        let palette = shown.map(|(_, s)| s.palette).unwrap_or_default();
        let grey = palette.is_unknown();
        Ok(ScreenSettings {
            format,
            palette: if grey { Palette::grey() } else { palette },
            grey,
            since,
            cursor,
        })
    }

    /// Returns how often a drawing engine, not a store, drew up to and including an event.
    #[must_use]
    pub fn engine_runs(&self, event: u64) -> usize {
        self.display.as_ref().map_or(0, |d| d.engine_runs(event))
    }

    /// Returns an initial format for manual editing: that of the registers at or before an event, or a common one.
    #[must_use]
    pub fn propose_format(&self, event: u64) -> ScreenFormat {
        let format = self
            .display
            .as_ref()
            .and_then(|d| d.last_screen(event).or_else(|| d.last_screen(u64::MAX)));
        format.unwrap_or_else(|| manual_format::guess_format(self.framebuffer.end()))
    }

    /// Draws the screen after an event.
    ///
    /// # Errors
    /// Why the screen cannot be drawn.
    pub fn draw(&self, source: FormatSource, event: u64) -> Result<(ScreenSettings, RenderedScreen), NotDrawable> {
        let look = self.screen_settings(source, event)?;
        let drawn = RenderedScreen::new(&self.framebuffer.after(event), &look.format, &look.palette);
        Ok((look, drawn))
    }

    /// Returns the events of a picture sequence: `count` evenly spaced events from the first with a screen or a store
    /// to `last`.
    #[must_use]
    pub fn frame_events(&self, last: u64, count: u32) -> Vec<u64> {
        let registers = self.display.as_ref().and_then(Display::first_screen);
        let first = registers.unwrap_or(0).min(last);
        let (span, gaps) = (last - first, u64::from(count.max(2)) - 1);
        let at = |i: u64| first + (u128::from(span) * u128::from(i) / u128::from(gaps)) as u64;
        let mut all: Vec<u64> = (0..=gaps).map(at).collect();
        all.dedup();
        all
    }

    /// Draws the pictures of a sequence and passes each to `take` with red, green, blue and opacity of each pixel. All
    /// pictures have the screen format of the last event. `take` returns `false` to stop the sequence.
    ///
    /// # Errors
    /// Why the screen cannot be drawn at the last event.
    pub fn frames(
        &self,
        source: FormatSource,
        events: &[u64],
        mut take: impl FnMut(&ScreenSettings, Vec<u8>) -> bool,
    ) -> Result<(), NotDrawable> {
        let Some(last) = events.last() else { return Ok(()) };
        let mut look = self.screen_settings(source, *last)?;
        let mut state = FramebufferState::default();
        for event in events {
            state.seek(&self.framebuffer, event.saturating_add(1));
            if let (Some(d), false) = (&self.display, look.grey) {
                look.palette = d.after(*event).palette;
            }
            let drawn = RenderedScreen::new(&state, &look.format, &look.palette);
            if !take(&look, drawn.to_rgba()) {
                break;
            }
        }
        Ok(())
    }
}

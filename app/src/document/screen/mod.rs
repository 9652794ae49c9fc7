//! The screen of a recording at any event: what its stores left in the framebuffer, drawn as the display registers
//! tell, or as a person says.

pub mod files;
mod manual_format;

pub use manual_format::{ManualFormat, parse};

use std::fmt;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{Recording, SpaceKind};
use trace_core::screen::{
    Display, DisplayError, Framebuffer, FramebufferError, FramebufferState, Palette, Picture, RenderedScreen,
    ScreenFormat, framebuffer_spaces,
};

/// What is needed to draw the screen of a recording at any event.
#[derive(Debug)]
pub struct Screen {
    /// The stores.
    pub framebuffer: Framebuffer,
    /// Name of their space.
    pub space: String,
    /// The display controller, where it is known.
    pub display: Option<Display>,
    /// The picture that the device showed at the end, where the recording has one; or why it cannot be read.
    pub expected: Option<Result<Picture, String>>,
}

/// Why there is no screen.
#[derive(Debug, thiserror::Error)]
pub enum ScreenError {
    /// There are no framebuffer accesses.
    #[error("the recording has no framebuffer: no space of its accesses is one")]
    None,
    /// The stores were not read.
    #[error(transparent)]
    Framebuffer(#[from] FramebufferError),
    /// The display registers were not read.
    #[error(transparent)]
    Display(#[from] DisplayError),
    /// Nobody wants it any more.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Where the form of the screen comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FormatSource {
    /// From the display registers.
    #[default]
    Registers,
    /// A person says it.
    Manual(ScreenFormat),
}

/// How the screen is to be drawn at an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenSettings {
    /// The form.
    pub format: ScreenFormat,
    /// Colours of indices; greys where the recording tells none.
    pub palette: Palette,
    /// Whether no colour of the palette is known, so that indices are shown as greys.
    pub grey: bool,
    /// The event whose register access made the form so; `None`: a person said it.
    pub since: Option<u64>,
    /// Whether the controller laid a cursor over the picture.
    pub cursor: bool,
}

/// Why nothing can be drawn at an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotDrawable {
    /// In words.
    pub why: String,
    /// The first event with which there is a screen, where that is known.
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
    let spaces = &recording.facts.spaces;
    spaces.iter().any(|s| s.kind == SpaceKind::Framebuffer)
}

impl Screen {
    /// Reads stores and display registers. Takes time by the events.
    ///
    /// # Errors
    /// When there is no framebuffer, too much of something, or nobody wants it any more.
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
        let name = recording.facts.spaces.get(usize::from(space)).map(|s| s.name.clone());
        Ok(Self {
            framebuffer,
            space: name.unwrap_or_default(),
            display,
            expected: recording.expected_screen().map_err(|e| e.to_string()).transpose(),
        })
    }

    /// How the screen is drawn after an event and all before it.
    ///
    /// # Errors
    /// Why it cannot be.
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

    /// How often something that is no store drew, up to and with an event.
    #[must_use]
    pub fn engine_runs(&self, event: u64) -> usize {
        self.display.as_ref().map_or(0, |d| d.engine_runs(event))
    }

    /// A form to begin with by hand: what the registers tell at an event or told before, or a common one.
    #[must_use]
    pub fn propose_format(&self, event: u64) -> ScreenFormat {
        let format = self
            .display
            .as_ref()
            .and_then(|d| d.last_screen(event).or_else(|| d.last_screen(u64::MAX)));
        format.unwrap_or_else(|| manual_format::guess_format(self.framebuffer.end()))
    }

    /// The screen after an event and all before it.
    ///
    /// # Errors
    /// Why it cannot be drawn.
    pub fn draw(&self, source: FormatSource, event: u64) -> Result<(ScreenSettings, RenderedScreen), NotDrawable> {
        let look = self.screen_settings(source, event)?;
        let drawn = RenderedScreen::new(&self.framebuffer.after(event), &look.format, &look.palette);
        Ok((look, drawn))
    }

    /// Events for the pictures of a sequence: `count` of them from the first with which there is a screen, or a store,
    /// to `last`, as far from each other as can be.
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

    /// The pictures of a sequence, red, green, blue and opacity of each pixel, in the form that the screen has at the
    /// last of its events: what differs from it has no place in one film.
    ///
    /// # Errors
    /// Why the last one cannot be drawn; `Ok(None)` from the closure's side stops the sequence.
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

//! The current state of a device's display controller: its registers are followed as accesses happen, and read again
//! before a picture is taken.

use super::ControllerKind;
use super::controller::{Controller, Effect, Mode};
use crate::recording::Hardware;
use crate::screen::format::{FormatError, Palette};
use crate::screen::{ModeError, Picture, PictureError, RenderedScreen, StoreState};

/// The display controller of a live device. The same controllers are used for recordings.
pub struct LiveDisplay {
    kind: ControllerKind,
    controller: Box<dyn Controller + Send>,
    palette: Palette,
}

impl std::fmt::Debug for LiveDisplay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LiveDisplay({})", self.kind.name)
    }
}

/// The reason why a device's picture cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum LiveError<E> {
    /// The registers describe no screen.
    #[error("{0}")]
    NoScreen(#[from] ModeError),
    /// The registers describe a screen that does not fit the framebuffer.
    #[error("the display registers describe an invalid screen: {0}")]
    Format(#[from] FormatError),
    /// Palette colours are unknown: they were set before anything followed the registers, and cannot be read back.
    #[error(
        "{pixels} pixels have palette colours that were set before the device was opened, and the palette cannot be \
         read back"
    )]
    Colors {
        /// Number of such pixels.
        pixels: u64,
    },
    /// The picture has an invalid size.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// The device could not be read.
    #[error("{0}")]
    Device(E),
}

impl LiveDisplay {
    /// Creates the controller of a device, or returns `None` if it is unknown.
    #[must_use]
    pub fn new(hardware: &Hardware) -> Option<Self> {
        ControllerKind::for_hardware(hardware).map(|kind| Self {
            controller: kind.controller(),
            palette: Palette::default(),
            kind,
        })
    }

    /// Returns the name of its register window.
    #[must_use]
    pub fn registers(&self) -> &'static str {
        self.kind.map.space()
    }

    /// Returns the name of the window that it shows.
    #[must_use]
    pub fn framebuffer(&self) -> &'static str {
        self.kind.framebuffer
    }

    /// Handles a register write.
    pub fn write(&mut self, offset: u32, width: u8, value: u64) {
        if let Effect::Color(index, color) = self.controller.write(offset, width, value) {
            self.palette.set(index, color);
        }
    }

    /// Returns the current mode. First reads every register that is readable without side effects; `read` takes an
    /// offset and a width.
    ///
    /// # Errors
    ///
    /// The errors of `read`.
    pub fn read_mode<E>(&mut self, mut read: impl FnMut(u32, u8) -> Result<u64, E>) -> Result<Mode, E> {
        for (offset, width) in self.controller.readable() {
            let value = read(offset, width)?;
            self.controller.read(offset, width, value);
        }
        Ok(self.controller.mode())
    }

    /// Returns the current picture. `mode` comes from [`LiveDisplay::read_mode`]; `load` reads the `bytes` bytes of the
    /// framebuffer by rows. The controller's hardware cursor is not included.
    ///
    /// # Errors
    ///
    /// When the registers describe no screen or one that does not fit the framebuffer, colours are unknown, or `load`
    /// fails.
    pub fn picture<E>(
        &self,
        mode: &Mode,
        bytes: u64,
        mut load: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<Picture, LiveError<E>> {
        let format = mode.screen?;
        format.check(bytes)?;
        let drawn = RenderedScreen::from_rows(&format, &self.palette, |at, row, states| {
            states.fill(StoreState::Stored);
            load(at, row)
        });
        let drawn = drawn.map_err(LiveError::Device)?;
        match drawn.counts().never {
            0 => Ok(drawn.to_picture([0; 3])?),
            pixels => Err(LiveError::Colors { pixels }),
        }
    }
}

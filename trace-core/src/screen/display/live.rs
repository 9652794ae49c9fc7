//! What the display controller of a device shows now: its registers followed as accesses go by, and read anew before a
//! picture is taken.

use super::{Controller, ControllerKind, Effect, Mode};
use crate::recording::Hardware;
use crate::screen::format::{FormatError, Palette};
use crate::screen::{ModeError, Picture, PictureError, RenderedScreen, StoreState};

/// The display controller of a device that is there. The same controllers tell the screens of recordings.
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

/// Why a device's picture cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum LiveError<E> {
    /// The registers tell no screen.
    #[error("{0}")]
    NoScreen(#[from] ModeError),
    /// They tell one that the framebuffer does not have.
    #[error("the display registers tell {0}")]
    Format(#[from] FormatError),
    /// Colours of the palette are not known: they were set before anything followed the registers, and do not read back.
    #[error(
        "{pixels} pixels have colours that nothing has set since the device was opened, and the palette cannot be read back"
    )]
    Colors {
        /// How many pixels.
        pixels: u64,
    },
    /// The picture has a size that no picture has.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// The device could not be read.
    #[error("{0}")]
    Device(E),
}

impl LiveDisplay {
    /// The controller of a device; `None` where it is none that is known.
    #[must_use]
    pub fn new(hardware: &Hardware) -> Option<Self> {
        ControllerKind::for_hardware(hardware).map(|kind| Self {
            controller: kind.controller(),
            palette: Palette::default(),
            kind,
        })
    }

    /// Name of the window that its registers are in.
    #[must_use]
    pub fn registers(&self) -> &'static str {
        self.kind.map.space()
    }

    /// Name of the window that it shows.
    #[must_use]
    pub fn framebuffer(&self) -> &'static str {
        self.kind.framebuffer
    }

    /// A register was written.
    pub fn write(&mut self, offset: u32, width: u8, value: u64) {
        if let Effect::Color(index, color) = self.controller.write(offset, width, value) {
            self.palette.set(index, color);
        }
    }

    /// What it shows: every register that reads as it stands is read with `read` first, which takes an offset and a
    /// width.
    ///
    /// # Errors
    /// What `read` says.
    pub fn read_mode<E>(&mut self, mut read: impl FnMut(u32, u8) -> Result<u64, E>) -> Result<Mode, E> {
        for (offset, width) in self.controller.readable() {
            let value = read(offset, width)?;
            self.controller.read(offset, width, value);
        }
        Ok(self.controller.mode())
    }

    /// The picture that it shows: `mode` of [`LiveDisplay::look`], the `bytes` bytes of the framebuffer read with `load`
    /// by rows. A cursor of the controller's own is not in it.
    ///
    /// # Errors
    /// When the registers tell no screen or one that the framebuffer does not have, colours are not known, or what
    /// `load` says.
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

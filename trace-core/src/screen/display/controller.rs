//! The model of a display controller: the mode that it shows, and what an access changes.

use crate::screen::format::ScreenFormat;

/// The reason why the registers describe no screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// No access has shown a register yet.
    #[error("the driver has neither written nor read {0} yet")]
    Unset(&'static str),
    /// The controller does not show the framebuffer.
    #[error("{0}")]
    Off(&'static str),
    /// The controller is in a mode that this program cannot draw.
    #[error("{what} is {value}, which is not supported")]
    Unsupported {
        /// The unsupported property.
        what: &'static str,
        /// Its value.
        value: u32,
    },
}

/// The mode at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The screen, or the reason why there is none.
    pub screen: Result<ScreenFormat, ModeError>,
    /// Whether the controller overlays a hardware cursor, which is not drawn.
    pub cursor: bool,
}

/// The effect of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// No visible effect.
    None,
    /// The mode may have changed.
    Mode,
    /// A colour of the palette was set.
    Color(u8, [u8; 3]),
    /// Something other than a store draws.
    Draws,
}

/// A model of a display controller, driven by register accesses.
pub(super) trait Controller {
    /// Handles a register write.
    fn write(&mut self, offset: u32, width: u8, value: u64) -> Effect;
    /// Handles a register read.
    fn read(&mut self, offset: u32, width: u8, value: u64) -> Effect;
    /// Returns the current mode.
    fn mode(&self) -> Mode;
    /// Returns registers that are readable without side effects, each with its access width: they give the mode of a
    /// live device.
    fn readable(&self) -> Vec<(u32, u8)>;
}

//! The display interface of Bochs and of QEMU's `bochs-display` and `VGA`, in its memory window: behaviour that its
//! register map cannot express.
//!
//! Checked against QEMU's `bochs-display` under Linux' `bochs` driver.

use super::controller::{Controller, Effect, Mode};
use super::mapped::{MapScreen, ScreenGeometry};
use crate::registers::{RegisterMap, ScreenFact};

/// Zero after reset, so a driver need not write them.
const OPTIONAL: [ScreenFact; 4] = [ScreenFact::Pitch, ScreenFact::X, ScreenFact::Y, ScreenFact::BigEndian];

/// The controller.
#[derive(Debug)]
pub(super) struct Bochs {
    screen: MapScreen,
}

impl Bochs {
    /// Creates the controller of a map.
    pub fn new(map: &'static RegisterMap) -> Self {
        Self {
            screen: MapScreen::new(map, &[]),
        }
    }
}

impl Controller for Bochs {
    fn write(&mut self, offset: u32, width: u8, value: u64) -> Effect {
        self.screen.written(offset, width, value, true)
    }

    fn read(&mut self, offset: u32, width: u8, value: u64) -> Effect {
        self.screen.was_read(offset, width, value)
    }

    fn mode(&self) -> Mode {
        Mode {
            screen: self.screen.geometry(&OPTIONAL).map(ScreenGeometry::format),
            cursor: false,
        }
    }

    fn readable(&self) -> Vec<(u32, u8)> {
        self.screen.readable(&[])
    }
}

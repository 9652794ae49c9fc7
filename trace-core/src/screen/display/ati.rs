//! The first display controller of ATI's Rage 128 and of the first Radeons: behaviour that their register maps cannot
//! express.
//!
//! That is the access behind the index register, the start of the drawing engine, and the bits that must be set for the
//! framebuffer to be shown. The locations of the bits are in the maps. Checked against QEMU's Rage 128 Pro and RV100:
//! recordings of both stock drivers, and the resulting pictures. On a Radeon the framebuffer is assumed to start at the
//! display's base address, as `radeonfb` sets it.

use super::controller::{Controller, Effect, Mode, ModeError};
use super::mapped::{Bits, MapScreen, ScreenGeometry};
use crate::registers::RegisterMap;

/// The register behind [`AtiField::Index`]: it accesses the offset in the index register.
const MM_DATA: u32 = 0x4;

/// Registers whose write makes the engine draw: the last size or the length of a rectangle or line, and the write
/// pointer of the command processor's ring, whose packets may draw.
const STARTS: [u32; 10] = [
    0x714, 0x140c, 0x143c, 0x1588, 0x158c, 0x1598, 0x159c, 0x15b4, 0x1604, 0x1634,
];

/// Fields that the controller uses besides the screen facts.
#[derive(Clone, Copy, Debug)]
enum AtiField {
    /// Offset that [`MM_DATA`] accesses.
    Index,
    /// Whether the indexed access goes to the framebuffer instead.
    IntoMemory,
    /// Shows the framebuffer and not VGA.
    Extended,
    DoubleScan,
    Interlace,
    Cursor,
    DisplayOff,
    Tiled,
    /// The palette registers access the second controller's palette. Only Radeons have it.
    SecondPalette,
}

/// Their names in the maps, in the order of [`AtiField`].
const OWN: [(&str, &str); 9] = [
    ("MM_INDEX", "offset"),
    ("MM_INDEX", "memory"),
    ("CRTC_GEN_CNTL", "extended"),
    ("CRTC_GEN_CNTL", "double_scan"),
    ("CRTC_GEN_CNTL", "interlace"),
    ("CRTC_GEN_CNTL", "cursor"),
    ("CRTC_EXT_CNTL", "display_off"),
    ("CRTC_OFFSET_CNTL", "tiled"),
    ("DAC_CNTL2", "second_palette"),
];

/// The controller.
#[derive(Debug)]
pub(super) struct Ati {
    screen: MapScreen,
    own: [Option<Bits>; OWN.len()],
}

impl Ati {
    /// Creates the controller of a map.
    pub fn new(map: &'static RegisterMap) -> Self {
        let own = OWN.map(|(register, field)| Bits::find(map, register, field));
        Self {
            screen: MapScreen::new(map, &own),
            own,
        }
    }

    fn own(&self, what: AtiField) -> Option<u32> {
        self.screen.bits(self.own.get(what as usize).copied().flatten())
    }

    fn screen(&self) -> Result<ScreenGeometry, ModeError> {
        match self.own(AtiField::Extended) {
            None => return Err(ModeError::Unset("CRTC_GEN_CNTL")),
            Some(0) => return Err(ModeError::Off("the controller shows VGA instead of the framebuffer")),
            Some(_) => {}
        }
        let set = |what| self.own(what) == Some(1);
        if set(AtiField::DoubleScan) || set(AtiField::Interlace) {
            return Err(ModeError::Unsupported {
                what: "double scan or interlace in CRTC_GEN_CNTL",
                value: 1,
            });
        }
        if set(AtiField::DisplayOff) {
            return Err(ModeError::Off("the display is turned off in CRTC_EXT_CNTL"));
        }
        if set(AtiField::Tiled) {
            return Err(ModeError::Unsupported {
                what: "the tile bit of CRTC_OFFSET_CNTL",
                value: 1,
            });
        }
        self.screen.geometry(&[])
    }
}

impl Controller for Ati {
    fn write(&mut self, offset: u32, width: u8, value: u64) -> Effect {
        // A write behind the index register goes to another register.
        if (MM_DATA..MM_DATA + 4).contains(&offset) {
            return match (self.own(AtiField::IntoMemory), self.own(AtiField::Index)) {
                (Some(1), _) => Effect::Draws,
                (_, Some(to)) if to > MM_DATA + 3 => self.write(to.saturating_add(offset - MM_DATA), width, value),
                _ => Effect::None,
            };
        }
        let end = u64::from(offset) + u64::from(width);
        if STARTS.iter().any(|s| u64::from(*s) < end && offset < s + 4) {
            return Effect::Draws;
        }
        let shown = self.own(AtiField::SecondPalette) != Some(1);
        self.screen.written(offset, width, value, shown)
    }

    fn read(&mut self, offset: u32, width: u8, value: u64) -> Effect {
        // The index register reads as another, and the selected register is read behind it.
        if offset < MM_DATA + 4 {
            return Effect::None;
        }
        self.screen.was_read(offset, width, value)
    }

    fn mode(&self) -> Mode {
        Mode {
            screen: self.screen().map(ScreenGeometry::format),
            cursor: self.own(AtiField::Cursor) == Some(1),
        }
    }

    fn readable(&self) -> Vec<(u32, u8)> {
        let (_, behind) = self.own.split_at(2);
        self.screen.readable(behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ati_maps_have_all_display_fields() {
        for (map, missing) in [("rv100", 0), ("rage128", 1)] {
            let map = RegisterMap::by_name(map).unwrap();
            let ati = Ati::new(map);
            assert_eq!(
                ati.own.iter().filter(|b| b.is_none()).count(),
                missing,
                "{}",
                map.name()
            );
            assert!(ati.own.iter().take(OWN.len() - 1).all(Option::is_some));
            assert!(MapScreen::is_whole(map));
        }
    }
}

//! The first display controller of ATI's Rage 128 and of the first Radeons.
//!
//! Offsets and fields as Linux' `aty128fb` and `radeonfb`, X's `r128` and `radeon` drivers and QEMU's `ati-vga` use
//! them. Checked against QEMU's Rage 128 Pro and RV100: recordings of both stock drivers, and the pictures they gave.
//! Of the Radeon the framebuffer is taken to begin where the display's base address does, as `radeonfb` sets it.

use super::registers::Registers;
use super::{Controller, Effect, Mode, NoScreen};
use crate::screen::format::{ByteOrder, PixelFormat, ScreenFormat};

/// Offset that [`MM_DATA`] goes to; bit 31: in the framebuffer.
const MM_INDEX: u32 = 0x0;
const MM_DATA: u32 = 0x4;
/// Bits 8 to 10: form of a pixel; 16: cursor; 24: shows the framebuffer and not VGA; 25: enabled; 0, 1: double scan,
/// interlaced.
const CRTC_GEN_CNTL: u32 = 0x50;
/// Bit 10: display off.
const CRTC_EXT_CNTL: u32 = 0x54;
/// Bit 8: colours of 8 bits instead of 6.
const DAC_CNTL: u32 = 0x58;
/// Radeon, bit 5: the palette's registers reach the second controller's.
const DAC_CNTL2: u32 = 0x7c;
/// Bits 0 to 7: index that the next write of [`PALETTE_DATA`] sets.
const PALETTE_INDEX: u32 = 0xb0;
/// Blue, green and red from the lowest byte.
const PALETTE_DATA: u32 = 0xb4;
/// Bits 16 to 24: units of 8 pixels less one.
const CRTC_H_TOTAL_DISP: u32 = 0x200;
/// Bits 16 to 27: rows less one.
const CRTC_V_TOTAL_DISP: u32 = 0x208;
/// Bits 0 to 26: first byte.
const CRTC_OFFSET: u32 = 0x224;
/// Bit 15: tiled.
const CRTC_OFFSET_CNTL: u32 = 0x228;
/// Bits 0 to 10: units of 8 pixels.
const CRTC_PITCH: u32 = 0x22c;

/// Of these, those that do not read as they were written, or that reading changes.
const QUIET: [u32; 3] = [MM_INDEX, PALETTE_INDEX, PALETTE_DATA];

const FOLLOWED: [u32; 12] = [
    MM_INDEX,
    CRTC_GEN_CNTL,
    CRTC_EXT_CNTL,
    DAC_CNTL,
    DAC_CNTL2,
    PALETTE_INDEX,
    PALETTE_DATA,
    CRTC_H_TOTAL_DISP,
    CRTC_V_TOTAL_DISP,
    CRTC_OFFSET,
    CRTC_OFFSET_CNTL,
    CRTC_PITCH,
];

/// Registers whose write makes the engine draw: the last size or the length of a rectangle or line, and the write
/// pointer of the command processor's ring, whose packets may draw.
const STARTS: [u32; 10] = [
    0x714, 0x140c, 0x143c, 0x1588, 0x158c, 0x1598, 0x159c, 0x15b4, 0x1604, 0x1634,
];

/// The controller.
#[derive(Debug)]
pub(super) struct Ati {
    radeon: bool,
    registers: Registers,
    /// Index that the next write of the palette's data sets.
    index: u8,
}

impl Ati {
    /// That of a Rage 128.
    pub fn rage128() -> Self {
        Self {
            radeon: false,
            registers: Registers::new(&FOLLOWED),
            index: 0,
        }
    }

    /// That of a Radeon of the R100 family.
    pub fn radeon() -> Self {
        Self {
            radeon: true,
            ..Self::rage128()
        }
    }

    /// A colour was given. A narrow write gives a part and leaves the rest as it was.
    fn color(&mut self) -> Effect {
        let byte = |at: u32| self.registers.bits(PALETTE_DATA, at, at + 7);
        let (Some(b), Some(g), Some(r)) = (byte(0), byte(8), byte(16)) else {
            return Effect::None;
        };
        let index = self.index;
        self.index = index.wrapping_add(1);
        if self.radeon && self.registers.bits(DAC_CNTL2, 5, 5) == Some(1) {
            return Effect::None;
        }
        let eight = self.registers.bits(DAC_CNTL, 8, 8) == Some(1);
        let stretched = |v: u32| if eight { v } else { (v & 63) << 2 | (v & 63) >> 4 };
        Effect::Color(index, [r, g, b].map(|v| stretched(v) as u8))
    }
}

impl Controller for Ati {
    fn write(&mut self, offset: u32, width: u8, value: u64) -> Effect {
        // What is written behind the index register goes elsewhere.
        if (MM_DATA..MM_DATA + 4).contains(&offset) {
            return match self.registers.bits(MM_INDEX, 0, 31) {
                Some(to) if to >> 31 == 1 => Effect::Draws,
                Some(to) if to > MM_DATA + 3 => self.write(to.saturating_add(offset - MM_DATA), width, value),
                _ => Effect::None,
            };
        }
        let end = u64::from(offset) + u64::from(width);
        if STARTS.iter().any(|s| u64::from(*s) < end && offset < s + 4) {
            return Effect::Draws;
        }
        if !self.registers.take(offset, width, value) {
            return Effect::None;
        }
        match offset & !3 {
            PALETTE_INDEX => {
                if let Some(i) = self
                    .registers
                    .bits(PALETTE_INDEX, 0, 7)
                    .filter(|_| offset == PALETTE_INDEX)
                {
                    self.index = i as u8;
                }
                Effect::None
            }
            PALETTE_DATA => self.color(),
            MM_INDEX | DAC_CNTL | DAC_CNTL2 => Effect::None,
            _ => Effect::Mode,
        }
    }

    fn read(&mut self, offset: u32, width: u8, value: u64) -> Effect {
        // The palette steps on when it is read, and the index register reads as another.
        let quiet = QUIET.contains(&(offset & !3));
        if quiet || !self.registers.take(offset, width, value) {
            return Effect::None;
        }
        Effect::Mode
    }

    fn mode(&self) -> Mode {
        Mode {
            screen: self.screen(),
            cursor: self.registers.bits(CRTC_GEN_CNTL, 16, 16) == Some(1),
        }
    }

    fn readable(&self) -> Vec<(u32, u8)> {
        let all = FOLLOWED.iter().filter(|r| !QUIET.contains(r));
        all.map(|r| (*r, 4)).collect()
    }
}

impl Ati {
    fn screen(&self) -> Result<ScreenFormat, NoScreen> {
        let get = |register, low, high, name| self.registers.bits(register, low, high).ok_or(NoScreen::Unset(name));
        let control = |low, high| get(CRTC_GEN_CNTL, low, high, "CRTC_GEN_CNTL");
        if control(24, 24)? == 0 {
            return Err(NoScreen::Off("the controller shows VGA and not the framebuffer"));
        }
        if control(25, 25)? == 0 {
            return Err(NoScreen::Off("the display controller is off"));
        }
        let unsupported = |what, value| Err(NoScreen::Unsupported { what, value });
        let pixel = match control(8, 10)? {
            2 => PixelFormat::Indexed8,
            3 => PixelFormat::Rgb555,
            4 => PixelFormat::Rgb565,
            5 => PixelFormat::Rgb888,
            6 => PixelFormat::Xrgb8888,
            other => return unsupported("the pixel width field of CRTC_GEN_CNTL", other),
        };
        match control(0, 1)? {
            0 => {}
            other => return unsupported("double scan or interlace in CRTC_GEN_CNTL", other),
        }
        if self.registers.bits(CRTC_EXT_CNTL, 10, 10) == Some(1) {
            return Err(NoScreen::Off("the display is turned off in CRTC_EXT_CNTL"));
        }
        if self.registers.bits(CRTC_OFFSET_CNTL, 15, 15) == Some(1) {
            return unsupported("the tile bit of CRTC_OFFSET_CNTL", 1);
        }
        let width = (get(CRTC_H_TOTAL_DISP, 16, 24, "CRTC_H_TOTAL_DISP")? + 1) * 8;
        let height = get(CRTC_V_TOTAL_DISP, 16, 27, "CRTC_V_TOTAL_DISP")? + 1;
        let pitch = get(CRTC_PITCH, 0, 10, "CRTC_PITCH")? * 8 * pixel.bytes();
        let base = u64::from(get(CRTC_OFFSET, 0, 26, "CRTC_OFFSET")?);
        Ok(ScreenFormat {
            base,
            pitch,
            width,
            height,
            pixel,
            order: ByteOrder::Little,
        })
    }
}

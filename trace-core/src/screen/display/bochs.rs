//! The display interface of Bochs and of QEMU's `bochs-display` and `VGA`, in its memory window.
//!
//! Registers of 16 bits at 0x500, byte order at 0x604, as QEMU's documentation of its standard VGA and Linux' `bochs`
//! driver have them. Checked against QEMU's `bochs-display` under that driver.

use super::registers::Registers;
use super::{Controller, Effect, Mode, NoScreen};
use crate::screen::format::{ByteOrder, PixelFormat, ScreenFormat};

/// The first register; each has 2 bytes.
const FIRST: u32 = 0x500;
const XRES: u32 = 1;
const YRES: u32 = 2;
const BPP: u32 = 3;
/// Bit 0: enabled.
const ENABLE: u32 = 4;
/// Pixels from row to row; less than the width means the width.
const VIRT_WIDTH: u32 = 6;
/// First pixel of a row, and first row, that are shown.
const X_OFFSET: u32 = 8;
const Y_OFFSET: u32 = 9;
/// Which byte of a pixel is first in memory.
const BYTE_ORDER: u32 = 0x604;
const BIG_ENDIAN: u32 = 0xbebe_bebe;

/// The controller.
#[derive(Debug)]
pub(super) struct Bochs {
    registers: Registers,
}

impl Default for Bochs {
    fn default() -> Self {
        let mut offsets: Vec<u32> = (0..5).map(|i| FIRST + 4 * i).collect();
        offsets.push(BYTE_ORDER);
        Self {
            registers: Registers::new(&offsets),
        }
    }
}

impl Bochs {
    fn take(&mut self, offset: u32, width: u8, value: u64) -> Effect {
        match self.registers.take(offset, width, value) {
            true => Effect::Mode,
            false => Effect::None,
        }
    }

    fn get(&self, index: u32, name: &'static str) -> Result<u32, NoScreen> {
        let (word, half) = (FIRST + 4 * (index / 2), 16 * (index % 2));
        self.registers.bits(word, half, half + 15).ok_or(NoScreen::Unset(name))
    }

    fn screen(&self) -> Result<ScreenFormat, NoScreen> {
        if self.get(ENABLE, "the enable register")? & 1 == 0 {
            return Err(NoScreen::Off("the display is not enabled"));
        }
        let pixel = match self.get(BPP, "the bits per pixel")? {
            15 => PixelFormat::Rgb555,
            16 => PixelFormat::Rgb565,
            24 => PixelFormat::Rgb888,
            32 => PixelFormat::Xrgb8888,
            value => {
                return Err(NoScreen::Unsupported {
                    what: "the number of bits per pixel",
                    value,
                });
            }
        };
        let width = self.get(XRES, "the width")?;
        let height = self.get(YRES, "the height")?;
        let row = self.get(VIRT_WIDTH, "the virtual width").unwrap_or(0).max(width);
        let pitch = row * pixel.bytes();
        let x = self.get(X_OFFSET, "the offset in the row").unwrap_or(0);
        let y = self.get(Y_OFFSET, "the first row").unwrap_or(0);
        let order = match self.registers.bits(BYTE_ORDER, 0, 31) {
            Some(BIG_ENDIAN) => ByteOrder::Big,
            _ => ByteOrder::Little,
        };
        Ok(ScreenFormat {
            base: u64::from(x * pixel.bytes()) + u64::from(y) * u64::from(pitch),
            pitch,
            width,
            height,
            pixel,
            order,
        })
    }
}

impl Controller for Bochs {
    fn write(&mut self, offset: u32, width: u8, value: u64) -> Effect {
        self.take(offset, width, value)
    }

    fn read(&mut self, offset: u32, width: u8, value: u64) -> Effect {
        // The first register reads as the interface's version and is not followed; the others read as written.
        self.take(offset, width, value)
    }

    fn mode(&self) -> Mode {
        Mode {
            screen: self.screen(),
            cursor: false,
        }
    }

    fn readable(&self) -> Vec<(u32, u8)> {
        let shown = [XRES, YRES, BPP, ENABLE, VIRT_WIDTH, X_OFFSET, Y_OFFSET];
        let mut all: Vec<(u32, u8)> = shown.iter().map(|i| (FIRST + 2 * i, 2)).collect();
        all.push((BYTE_ORDER, 4));
        all
    }
}

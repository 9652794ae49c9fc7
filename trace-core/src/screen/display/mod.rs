//! What the display controller showed at an event: its registers followed through the recording.
//!
//! Which device it is, where its registers lie and what they tell of the picture stands in the register maps (`screen`
//! in `docs/register-map.md`); a map that tells a size and the bits of a pixel needs nothing here. What no map can say
//! of a controller, such as what makes its engine draw, is a file here and a line in [`CONTROLLERS`]. Registers count
//! from the first access that tells their value, a write or a read: a mode that was set before the recording is known
//! as far as the driver read it back.

mod ati;
mod bochs;
mod live;
mod mapped;
mod registers;
#[cfg(test)]
mod tests;

pub use live::{LiveDisplay, LiveError};

use super::format::{Palette, ScreenFormat};
use crate::progress::{Cancelled, Progress};
use crate::recording::{Hardware, Recording, SpaceKind};
use crate::registers::RegisterMap;
use mapped::MapScreen;

/// Maximum number of changes of mode, changes of colours, or drawing commands that are followed.
const MAX_CHANGES: usize = 1 << 22;
/// Changes of colours between two palettes that are kept.
const COLORS: usize = 512;
/// Events between two looks at whether anybody still wants the work.
const STEP: usize = 1 << 14;

/// Why the registers tell no screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// No access has told a register yet.
    #[error("the driver has neither written nor read {0} yet")]
    Unset(&'static str),
    /// The controller does not show the framebuffer.
    #[error("{0}")]
    Off(&'static str),
    /// The controller is in a mode that this program does not draw.
    #[error("{what} is {value}, which is not drawn")]
    Unsupported {
        /// What cannot be drawn.
        what: &'static str,
        /// Its value.
        value: u32,
    },
}

/// What the registers tell at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The screen, or why there is none.
    pub screen: Result<ScreenFormat, ModeError>,
    /// Whether the controller lays a cursor of its own over the picture, which is not drawn.
    pub cursor: bool,
}

/// What an access did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Nothing that shows.
    None,
    /// The mode may have changed.
    Mode,
    /// A colour of the palette was set.
    Color(u8, [u8; 3]),
    /// Something other than a store draws.
    Draws,
}

/// A display controller as its registers tell it.
trait Controller {
    /// A register was written.
    fn write(&mut self, offset: u32, width: u8, value: u64) -> Effect;
    /// A register was read.
    fn read(&mut self, offset: u32, width: u8, value: u64) -> Effect;
    /// What it shows.
    fn mode(&self) -> Mode;
    /// Registers that read as they stand and that reading does not change, each with the width of an access to it:
    /// what tells the mode of a device that is there.
    fn readable(&self) -> Vec<(u32, u8)>;
}

/// Makes a controller of a map.
type Make = fn(&'static RegisterMap) -> Box<dyn Controller + Send>;

/// The display controller of a device.
struct ControllerKind {
    map: &'static RegisterMap,
    name: &'static str,
    /// Name of the space that it shows.
    framebuffer: &'static str,
    make: Make,
}

impl ControllerKind {
    /// The controller of a device, where its register map tells one.
    fn for_hardware(hardware: &Hardware) -> Option<Self> {
        let map = RegisterMap::for_hardware(hardware).filter(|m| MapScreen::is_whole(m))?;
        let plain: Make = |map| Box::new(MapScreen::new(map, &[]));
        let known = CONTROLLERS.iter().find(|(of, ..)| *of == map.name());
        Some(Self {
            map,
            name: known.map_or_else(|| map.hardware_name(hardware).unwrap_or_default(), |k| k.1),
            framebuffer: map.framebuffers().first()?,
            make: known.map_or(plain, |k| k.2),
        })
    }

    fn controller(&self) -> Box<dyn Controller + Send> {
        (self.make)(self.map)
    }
}

/// Maps of whose controllers something stands in code: the name of the map, that of the controller for a person, and
/// the code.
static CONTROLLERS: &[(&str, &str, Make)] = &[
    ("rage128", "Rage 128 Pro", |map| Box::new(ati::Ati::new(map))),
    ("rv100", "Radeon RV100", |map| Box::new(ati::Ati::new(map))),
    ("bochs-display", "Bochs display", |map| Box::new(bochs::Bochs::new(map))),
];

/// Why the display registers were not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisplayError {
    /// There is too much of something.
    #[error("event {event}: more than {MAX_CHANGES} {what}")]
    TooMany {
        /// The event with which it became too many.
        event: u64,
        /// What.
        what: &'static str,
    },
    /// Nobody wants it any more.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// What a display controller showed through a recording.
#[derive(Clone, Debug)]
pub struct Display {
    name: &'static str,
    space: Option<u8>,
    /// From an event on, in order.
    modes: Vec<(u64, Mode)>,
    /// Colours that were set, in order, and the palette before each [`COLORS`] of them.
    colors: Vec<(u64, u8, [u8; 3])>,
    palettes: Vec<Palette>,
    /// Events at which something other than a store drew.
    draws: Vec<u64>,
}

/// What a display controller shows at an event.
#[derive(Clone, Debug)]
pub struct DisplayState {
    /// What its registers tell.
    pub mode: Mode,
    /// The event that set it so; `None`: none did so far.
    pub since: Option<u64>,
    /// The palette.
    pub palette: Palette,
}

impl Display {
    /// Follows the registers of a recording's display controller. `None`: the recording does not tell its device, or
    /// it is none that is known.
    ///
    /// # Errors
    /// [`DisplayError`] when there is too much of something, or nobody wants it any more.
    pub fn read(recording: &Recording, progress: &Progress) -> Result<Option<Self>, DisplayError> {
        let Some(kind) = recording.hardware().as_ref().and_then(ControllerKind::for_hardware) else {
            return Ok(None);
        };
        let space = |name: &str, kind: SpaceKind| {
            let spaces = recording.facts.spaces.iter().zip(0..=u8::MAX);
            spaces
                .filter(|(s, _)| s.name == name && s.kind == kind)
                .map(|(_, i)| i)
                .next()
        };
        let mut display = Self {
            name: kind.name,
            space: space(kind.framebuffer, SpaceKind::Framebuffer),
            modes: Vec::new(),
            colors: Vec::new(),
            palettes: Vec::new(),
            draws: Vec::new(),
        };
        let mut controller = kind.controller();
        display.modes.push((0, controller.mode()));
        if let Some(registers) = space(kind.map.space(), SpaceKind::Registers) {
            display.follow(recording, registers, &mut *controller, progress)?;
        }
        Ok(Some(display))
    }

    fn follow(
        &mut self,
        recording: &Recording,
        registers: u8,
        controller: &mut dyn Controller,
        progress: &Progress,
    ) -> Result<(), DisplayError> {
        let mut palette = Palette::default();
        let n = recording.events.len();
        progress.set_total(n as u64);
        for from in (0..n).step_by(STEP) {
            for (event, a) in recording.events.accesses(from..(from + STEP).min(n)) {
                if a.space != registers {
                    continue;
                }
                let event = event as u64;
                let effect = match a.write {
                    true => controller.write(a.offset, a.width, a.value),
                    false => controller.read(a.offset, a.width, a.value),
                };
                match effect {
                    Effect::None => {}
                    Effect::Mode => {
                        let mode = controller.mode();
                        if self.modes.last().is_none_or(|(_, m)| *m != mode) {
                            check_room(&self.modes, event, "changes of the mode")?;
                            self.modes.push((event, mode));
                        }
                    }
                    Effect::Color(index, color) => {
                        check_room(&self.colors, event, "changes of colours")?;
                        if self.colors.len().is_multiple_of(COLORS) {
                            self.palettes.push(palette.clone());
                        }
                        palette.set(index, color);
                        self.colors.push((event, index, color));
                    }
                    Effect::Draws => {
                        check_room(&self.draws, event, "drawing commands")?;
                        self.draws.push(event);
                    }
                }
            }
            progress.advance(STEP as u64)?;
        }
        Ok(())
    }

    /// Name of the controller, for the person.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The space that it shows, where the recording has it.
    #[must_use]
    pub fn framebuffer(&self) -> Option<u8> {
        self.space
    }

    /// What it shows after an event and all before it.
    #[must_use]
    pub fn after(&self, event: u64) -> DisplayState {
        let at = self.modes.partition_point(|(e, _)| *e <= event).saturating_sub(1);
        let (since, mode) = self.modes.get(at).copied().unwrap_or((
            0,
            Mode {
                screen: Err(ModeError::Off("no mode is known")),
                cursor: false,
            },
        ));
        DisplayState {
            mode,
            since: (at > 0).then_some(since),
            palette: self.palette(event),
        }
    }

    fn palette(&self, event: u64) -> Palette {
        let end = self.colors.partition_point(|(e, ..)| *e <= event);
        let kept = (end / COLORS).min(self.palettes.len().saturating_sub(1));
        let mut palette = self.palettes.get(kept).cloned().unwrap_or_default();
        for (_, index, color) in self.colors.get(kept * COLORS..end).unwrap_or_default() {
            palette.set(*index, *color);
        }
        palette
    }

    /// The last screen up to an event, also where the controller was turned off since.
    #[must_use]
    pub fn last_screen(&self, event: u64) -> Option<ScreenFormat> {
        let end = self.modes.partition_point(|(e, _)| *e <= event);
        self.modes.get(..end)?.iter().rev().find_map(|(_, m)| m.screen.ok())
    }

    /// The first event with which there is a screen.
    #[must_use]
    pub fn first_screen(&self) -> Option<u64> {
        self.modes.iter().find(|(_, m)| m.screen.is_ok()).map(|(e, _)| *e)
    }

    /// Events at which the mode changed, in order.
    #[must_use]
    pub fn changes(&self) -> impl ExactSizeIterator<Item = (u64, Mode)> + '_ {
        self.modes.iter().skip(1).copied()
    }

    /// How often, up to and with an event, something other than a store was told to draw: the drawing engine, its
    /// command processor, or the aperture behind an index register. None of it is in the picture.
    #[must_use]
    pub fn engine_runs(&self, event: u64) -> usize {
        self.draws.partition_point(|e| *e <= event)
    }
}

fn check_room<T>(list: &[T], event: u64, what: &'static str) -> Result<(), DisplayError> {
    match list.len() < MAX_CHANGES {
        true => Ok(()),
        false => Err(DisplayError::TooMany { event, what }),
    }
}

//! Screens: pictures that a device showed, and the framebuffer that a recording's stores made.
//!
//! A [`Framebuffer`] tells the bytes of a framebuffer space at any event, a [`Display`] which of them the display
//! controller showed then and how, a [`RenderedScreen`] is the picture that follows from both. Bytes that no store of the
//! recording set are unknown, never black. What a drawing engine or another program drew is in no store: the picture
//! is what the stores tell, and [`Display::engine_runs`] tells how often something else drew.

mod compare;
mod display;
mod expected;
mod format;
mod framebuffer;
mod page;
mod picture;
mod rendered;
mod stores;
#[cfg(test)]
mod tests;

pub use compare::{CompareError, Comparison, compare, compare_where};
pub use display::{Display, DisplayError, DisplayState, LiveDisplay, LiveError, Mode, ModeError};
pub use expected::SCREEN_AT_END;
pub use format::{ByteOrder, FormatError, MAX_PIXELS, MAX_SIDE, Palette, PixelFormat, ScreenFormat};
pub use framebuffer::{Framebuffer, FramebufferError, FramebufferState, MAX_PAGES, framebuffer_spaces};
pub use page::StoreState;
pub use picture::{MAX_FILE, Picture, PictureError};
pub use rendered::{PixelCounts, RenderedScreen};
pub use stores::{Store, Stores};

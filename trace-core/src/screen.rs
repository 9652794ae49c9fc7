//! Screens: pictures that a device showed, and the framebuffer contents from a recording's stores.
//!
//! A [`Framebuffer`] gives the bytes of a framebuffer space at any event. A [`Display`] gives the part of them that the
//! display controller showed then, and its format. A [`RenderedScreen`] is the resulting picture. Bytes without a store
//! in the recording are unknown, never black. Output of a drawing engine or another program is in no store. The picture
//! shows only stores; [`Display::engine_runs`] returns how often something else drew.

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

pub use compare::{CompareError, Comparison, PixelBounds, compare, compare_where};
pub use display::{Display, DisplayError, DisplayState, LiveDisplay, LiveError, Mode, ModeError};
pub use format::{ByteOrder, FormatError, MAX_PIXELS, MAX_SIDE, Palette, PixelFormat, ScreenFormat};
pub use framebuffer::{Framebuffer, FramebufferError, FramebufferState, MAX_PAGES, framebuffer_spaces};
pub use page::StoreState;
pub use picture::{MAX_FILE, Picture, PictureError};
pub use rendered::{PixelCounts, RenderedScreen};
pub use stores::{Store, Stores};

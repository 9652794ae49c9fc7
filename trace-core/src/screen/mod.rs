//! Screens: pictures that a device showed, and the framebuffer that a recording's stores made.

mod expected;
mod picture;

pub use expected::SCREEN_AT_END;
pub use picture::{Picture, PictureError};

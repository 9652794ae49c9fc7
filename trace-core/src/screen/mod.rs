//! Screens: pictures that a device showed, and the framebuffer that a recording's stores made.

mod picture;

pub use picture::{Picture, PictureError};

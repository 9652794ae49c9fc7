//! Tests of panels on a small screen, and of what they list. A laptop's screen has 1280 by 800 pixels at a scale of one
//! and a half.

mod folds;
mod jobs;
mod narrow;

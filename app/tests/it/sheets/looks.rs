//! How panels look where room is scarce, and what stands in them: a laptop's screen of 1280 by 800 at one and a half.

mod folds;
mod jobs;
mod narrow;

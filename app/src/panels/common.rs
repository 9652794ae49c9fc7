//! What panels share: the actions that they request, and parts that several of them draw.

pub mod actions;
pub mod campaign_run;
pub mod code_listing;
pub mod copy_menu;
pub mod copy_state;
pub mod locations;
pub mod memory_trace_buttons;
pub mod severity;

//! The six rules of plans, as far as all families share them: reasons of a refusal, limits, work, images, actions.

mod actions;
mod images;
mod limits;
mod reason;
mod work;

pub(crate) use actions::{check_count, describe_allowed, each_action};
pub(crate) use images::{check_image_digests, check_images, hex};
pub use limits::{
    MAX_BUDGETS, MAX_CHANGED, MAX_EVENTS, MAX_IMAGES, MAX_OUTPUT_BYTES, MAX_OUTPUTS, MAX_SPACES, budget_exceeded,
};
pub(crate) use limits::{check_allowed_ranges, check_envelope};
pub use reason::{Reason, Refusal, VerificationReport, refuse};
pub(crate) use work::{HEADER, OUTPUT_PAGE, TABLE};
pub use work::{MAX_STEPS, Work};

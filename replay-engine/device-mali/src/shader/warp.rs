//! Exchanges between the lanes of a warp: values of other lanes, and ballots.

use super::block::Message;
use super::lanes::{LANES, RegisterFile};
use super::mods::LaneOp;
use super::wave::{Mask, lane_indices};

/// Executes an exchange between lanes. Returns `false` if the message is not an exchange.
pub(crate) fn exchange(file: &mut RegisterFile, message: &Message, lanes: Mask) -> bool {
    match *message {
        Message::Permute {
            value,
            lane,
            op,
            width,
            inactive,
            to,
        } => {
            let (values, asked) = (*file.at(value), *file.at(lane));
            let width = u32::from(width).clamp(1, LANES as u32);
            let out = file.at_mut(to);
            for own in lane_indices(lanes) {
                let (base, place) = (own as u32 / width * width, own as u32 % width);
                let asked = asked[own] & 0xff;
                let other = match op {
                    LaneOp::None => asked,
                    LaneOp::Xor => place ^ asked,
                    LaneOp::Accumulate => place + asked,
                    LaneOp::Shift => place.wrapping_sub(asked),
                };
                let there = other < width && lanes >> (base + other) & 1 == 1;
                out[own] = if there {
                    values[(base + other) as usize % LANES]
                } else {
                    inactive
                };
            }
        }
        Message::Ballot { value, width, to } => {
            let values = *file.at(value);
            let width = usize::from(width).clamp(1, LANES);
            let set = lane_indices(lanes).fold(0u32, |m, i| m | u32::from(values[i] != 0) << i);
            let out = file.at_mut(to);
            for own in lane_indices(lanes) {
                let base = own / width * width;
                out[own] = set >> base & ((1u64 << width) - 1) as u32;
            }
        }
        _ => return false,
    }
    true
}

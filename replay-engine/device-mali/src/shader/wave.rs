//! State of a wave's lanes: the clause of each lane, and the group that runs next.
//!
//! Lanes that diverge at a branch run as separate groups, one after another. The group whose clause has the lowest
//! address runs first. In structured code this is where the other groups arrive later, so they converge there.

use super::lanes::{LANES, Vector};
use crate::compute::stop::Fuel;

/// Set of lanes, one bit each.
pub(crate) type Mask = u32;

/// Lanes at the same clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Number of the clause.
    pub at: u32,
    pub lanes: Mask,
}

/// Wave of threads.
#[derive(Debug)]
pub(crate) struct Wave {
    /// Registers of the wave while another wave runs.
    pub saved: Option<Box<[Vector; 64]>>,
    /// Whether the wave has run before.
    pub begun: bool,
    /// Number of the wave's first thread in the workgroup.
    pub first: u32,
    /// Groups that can continue. No two are at the same clause.
    pub ready: Vec<Group>,
    /// Groups that wait for the whole workgroup, with the clause after the barrier.
    pub waiting: Vec<Group>,
    /// Remaining fuel of the wave.
    pub fuel: Fuel,
}

impl Wave {
    /// Adds lanes to the group at a clause.
    pub(crate) fn add(groups: &mut Vec<Group>, at: u32, lanes: Mask) {
        if lanes == 0 {
            return;
        }
        match groups.iter_mut().find(|g| g.at == at) {
            Some(g) => g.lanes |= lanes,
            None => groups.push(Group { at, lanes }),
        }
    }

    /// Removes and returns the group whose clause has the lowest address.
    pub(crate) fn next(&mut self) -> Option<Group> {
        let (n, _) = self.ready.iter().enumerate().min_by_key(|(_, g)| g.at)?;
        Some(self.ready.swap_remove(n))
    }

    /// Lets the waiting groups continue.
    pub(crate) fn release(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        for g in waiting {
            Self::add(&mut self.ready, g.at, g.lanes);
        }
    }
}

/// Returns all bits for the lanes of a mask, and none for the others.
pub(crate) fn expand_mask(lanes: Mask) -> Vector {
    std::array::from_fn(|i| if lanes >> i & 1 == 1 { u32::MAX } else { 0 })
}

/// Returns the lane numbers of a mask.
#[inline(always)]
pub(crate) fn lane_indices(mut lanes: Mask) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if lanes == 0 {
            return None;
        }
        let n = lanes.trailing_zeros() as usize;
        lanes &= lanes - 1;
        Some(n % LANES)
    })
}

//! The lanes of a wave: where each of them is, and which of them go next.
//!
//! Lanes that part at a branch go on one group after another, always the one whose clause stands first in memory. In
//! code whose loops and choices are nested that is where the others will come to, so they meet again there.

use super::lanes::{LANES, Vector};
use crate::compute::stop::Fuel;

/// Lanes, a bit each.
pub(crate) type Mask = u32;

/// Lanes at a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Number of the clause.
    pub at: u32,
    pub lanes: Mask,
}

/// A wave of threads.
#[derive(Debug)]
pub(crate) struct Wave {
    /// Its registers while another wave runs.
    pub saved: Option<Box<[Vector; 64]>>,
    /// Whether it ran before.
    pub begun: bool,
    /// Number of its first thread within the workgroup.
    pub first: u32,
    /// Groups that can go on; no two are at the same clause.
    pub ready: Vec<Group>,
    /// Groups that wait for the whole workgroup, with the clause behind the barrier.
    pub waiting: Vec<Group>,
    /// What it may still execute.
    pub fuel: Fuel,
}

impl Wave {
    /// Adds lanes to those at a clause.
    pub(crate) fn add(groups: &mut Vec<Group>, at: u32, lanes: Mask) {
        if lanes == 0 {
            return;
        }
        match groups.iter_mut().find(|g| g.at == at) {
            Some(g) => g.lanes |= lanes,
            None => groups.push(Group { at, lanes }),
        }
    }

    /// Takes the group whose clause stands first.
    pub(crate) fn next(&mut self) -> Option<Group> {
        let (n, _) = self.ready.iter().enumerate().min_by_key(|(_, g)| g.at)?;
        Some(self.ready.swap_remove(n))
    }

    /// Lets those that waited go on.
    pub(crate) fn release(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        for g in waiting {
            Self::add(&mut self.ready, g.at, g.lanes);
        }
    }
}

/// All bits for the lanes of a mask, none for the others.
pub(crate) fn expand_mask(lanes: Mask) -> Vector {
    std::array::from_fn(|i| if lanes >> i & 1 == 1 { u32::MAX } else { 0 })
}

/// The lanes of a mask, by number.
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

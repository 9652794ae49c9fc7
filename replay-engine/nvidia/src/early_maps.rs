//! Memory that a worker maps before its request comes: the parent still verifies what the plan does with it.

use crate::sealed_file::SealedMap;
use nvidia_client::steps::{Step, Steps};
use nvidia_client::{Kernel, Player};
use std::time::{Duration, Instant};

/// Memory that was mapped early.
#[derive(Debug, Default)]
pub(crate) struct EarlyMaps {
    /// The steps that map it, or `None` if nothing was mapped.
    steps: Option<SealedMap>,
    /// Number of mapped ranges.
    pub ranges: usize,
    /// Mapped memory, bytes.
    pub bytes: u64,
    /// Time that mapping it took.
    pub time: Duration,
    /// Why a step was not played.
    pub failure: Option<String>,
}

impl EarlyMaps {
    /// Plays steps, all of which map.
    pub fn new<K: Kernel>(player: &mut Player<'_, K>, steps: SealedMap) -> Self {
        let begin = Instant::now();
        let mut maps = Self::default();
        for step in Steps::new(&steps) {
            if let Err(why) = maps.play(player, step) {
                maps.failure = Some(why);
                break;
            }
        }
        maps.time = begin.elapsed();
        maps.steps = Some(steps);
        maps
    }

    fn play<K: Kernel>(
        &mut self,
        player: &mut Player<'_, K>,
        step: Result<Step<'_>, nvidia_client::steps::StepError>,
    ) -> Result<(), String> {
        let step = step.map_err(|e| e.to_string())?;
        let bytes = match step {
            Step::Map { bytes, .. } => Some(bytes),
            Step::MapScheduler { .. } => None,
            _ => return Err("the memory of the plan has other steps".to_owned()),
        };
        player.play(&step, |_| None).map_err(|e| e.to_string())?;
        if let Some(bytes) = bytes {
            self.ranges += 1;
            self.bytes = self.bytes.saturating_add(bytes);
        }
        Ok(())
    }

    /// Returns the encoded steps. A plan with other first steps cannot use the memory.
    pub fn steps(&self) -> &[u8] {
        self.steps.as_deref().unwrap_or_default()
    }
}

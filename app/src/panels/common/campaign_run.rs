//! A campaign to run: its checked description, its folder, and what it gave until now.

use kinescope_campaign::{Campaign, CampaignReader, Matrix, Snapshot};
use kinescope_session::targets::is_simulator;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// A description that was checked: its campaign and the runs that it makes.
#[derive(Clone, Debug)]
pub struct CheckedDescription {
    /// The file.
    pub path: PathBuf,
    /// The campaign.
    pub campaign: Campaign,
    /// Its runs.
    pub matrix: Matrix,
}

impl CheckedDescription {
    /// Whether a target may be hardware, so that the user has to confirm it.
    #[must_use]
    pub fn may_be_hardware(&self) -> bool {
        let is_harmless = |name: &&str| is_simulator(name) || matches!(*name, "cpu" | "interpreter");
        !self.matrix.targets().iter().all(is_harmless)
    }
}

/// The reader of an open folder. A thread in the background holds it while it reads.
pub type SharedReader = Arc<Mutex<CampaignReader>>;

/// The last reading of a campaign that this process runs.
pub type LiveSnapshot = Arc<Mutex<Option<Arc<Snapshot>>>>;

/// A campaign to run, or that runs.
#[derive(Clone, Debug)]
pub struct CampaignRun {
    /// The description.
    pub description: Arc<CheckedDescription>,
    /// Folder for the queue and the results.
    pub folder: PathBuf,
    /// What it gave until now.
    pub live: LiveSnapshot,
}

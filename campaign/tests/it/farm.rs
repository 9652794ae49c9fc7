//! A folder with a campaign on simulators in this process.

use kinescope_campaign::{
    Campaign, CampaignEnd, CampaignFolder, CampaignOptions, FolderQueue, Matrix, RunNotice, RunQueue as _, RunResult,
    run_campaign,
};
use kinescope_session::targets::Targets;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trace_core::progress::Progress;

pub const G71: &str = "software:mali-g71";

pub fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../sample-traces")
        .join(name)
}

/// A folder with copies of samples, and a campaign on them.
pub struct Farm {
    pub folder: tempfile::TempDir,
    pub campaign: Campaign,
    pub matrix: Matrix,
}

impl Farm {
    pub fn new(samples: &[&str], text: &str) -> Self {
        Self::with_files(samples, text, |_| {})
    }

    /// Creates a farm whose folder has other files too, which `write` writes.
    pub fn with_files(samples: &[&str], text: &str, write: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in samples {
            std::fs::copy(sample(name), folder.path().join(name)).unwrap();
        }
        write(folder.path());
        let file = folder.path().join("c.toml");
        std::fs::write(&file, format!("version = 1\n{text}")).unwrap();
        let campaign = Campaign::read(&file).unwrap();
        let matrix = Matrix::expand(&campaign, &Progress::new()).unwrap();
        Self {
            folder,
            campaign,
            matrix,
        }
    }

    pub fn open(&self, name: &str) -> (CampaignFolder, FolderQueue) {
        let folder = CampaignFolder::create(&self.folder.path().join(name), &self.campaign.name).unwrap();
        let queue = folder.open_queue().unwrap();
        queue.add(&mut self.matrix.runs()).unwrap();
        (folder, queue)
    }

    pub fn run(
        &self,
        folder: &CampaignFolder,
        queue: &FolderQueue,
        stop: &Progress,
        notice: &(dyn Fn(&RunNotice<'_>) + Sync),
    ) -> CampaignEnd {
        let targets: Vec<String> = self.matrix.targets().into_iter().map(str::to_owned).collect();
        let options = CampaignOptions {
            worker: "tester".into(),
            max_workers: 0,
            target_wait: Duration::ZERO,
            outcomes: folder.outcomes_path(),
            targets: Targets::new(Some(self.folder.path().join("keys"))),
        };
        let run = || run_campaign(queue, &targets, &options, stop, notice);
        queue.lease_ahead_during(run).unwrap().unwrap()
    }

    pub fn results(queue: &FolderQueue) -> Vec<(String, String, RunResult)> {
        let mut all = Vec::new();
        queue
            .results(&mut |run, result| {
                all.push((run.work.recording().name.clone(), run.target, result));
                true
            })
            .unwrap();
        all
    }
}

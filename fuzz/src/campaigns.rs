//! Fuzz targets for campaigns: descriptions, entries of their queues and of brokers, requests for metrics.

use kinescope_campaign::{Campaign, DescriptionError};
use std::path::Path;

/// Fuzzes the description of a campaign. An error's line is in the text. No file is opened.
pub fn campaign_description(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    match Campaign::parse(text, Path::new("/campaign")) {
        Ok(campaign) => {
            assert!(campaign.entries.iter().all(|e| e.repeats > 0 && !e.targets.is_empty()));
            assert!(
                campaign
                    .entries
                    .iter()
                    .all(|e| e.line >= 1 && e.line <= text.lines().count())
            );
            true
        }
        Err(DescriptionError::Line { line, .. }) => {
            assert!(line >= 1 && line <= text.lines().count().max(1) + 1);
            false
        }
        Err(_) => false,
    }
}

/// Fuzzes an entry of a campaign's queue.
pub fn campaign_entry(data: &[u8]) -> bool {
    kinescope_campaign::parse_entry(data)
}

/// Fuzzes what workers read of the broker and of their folder.
pub fn worker_entry(data: &[u8]) -> bool {
    kinescope_worker::parse_entry(data)
}

/// Fuzzes an HTTP request for metrics: its path is a part of its first line.
pub fn metrics_request(data: &[u8]) -> bool {
    let Some(path) = replay_engine::metrics::find_path(data) else {
        return false;
    };
    assert!(!path.contains(['\r', ' ', '?']));
    true
}

//! A run of a campaign: one work item on one target, once. Its id is a digest of that.

use crate::work::WorkItem;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// Maximum number of attempts of a run. The run is reported as failed after that.
pub const MAX_ATTEMPTS: u32 = 5;

/// Reasons of attempts that the user ended. They do not count against [`MAX_ATTEMPTS`].
pub(crate) const CAMPAIGN_STOPPED: &str = "the campaign was stopped";
pub(crate) const WORKER_STOPPED: &str = "the worker was stopped";

/// The id of a run: a digest of its work, its target and its repeat. It does not depend on paths or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId([u8; 16]);

impl RunId {
    /// Parses an id, 32 lower-case hex digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        let is_sound = digits.len() == 32 && digits.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_sound)?;
        Some(Self(number.to_be_bytes()))
    }

    /// Returns the bytes of the id.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Creates an id from its bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl Display for RunId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl Serialize for RunId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not the id of a run (expected 32 hex digits)"))
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Target as `--on` takes it.
    pub target: String,
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// What it does.
    pub work: WorkItem,
}

impl Run {
    /// Creates a run.
    #[must_use]
    pub fn new(work: WorkItem, target: &str, repeat: u32) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"kinescope run 1\0");
        work.hash_into(&mut hasher);
        hasher.update(&(target.len() as u64).to_le_bytes());
        hasher.update(target.as_bytes());
        hasher.update(&repeat.to_le_bytes());
        let mut id = [0; 16];
        hasher.finalize_xof().fill(&mut id);
        Self {
            id: RunId(id),
            target: target.to_owned(),
            repeat,
            work,
        }
    }

    /// Whether the id is the one that its work, target and repeat give.
    #[must_use]
    pub fn has_own_id(&self) -> bool {
        Self::new(self.work.clone(), &self.target, self.repeat).id == self.id
    }
}

/// A run that a worker has, until a deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedRun {
    /// The run.
    pub run: Run,
    /// When it was queued, milliseconds since 1970.
    pub queued_ms: u64,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Why earlier attempts had no result, oldest first.
    pub earlier_attempts: Vec<String>,
    /// The lease's own number, which no other lease of the queue has.
    pub token: u64,
}

impl LeasedRun {
    /// Returns the number of earlier attempts that ended without a result, those that the user ended left out.
    #[must_use]
    pub fn lost_attempts(&self) -> u32 {
        let lost = |reason: &&String| ![CAMPAIGN_STOPPED, WORKER_STOPPED].contains(&reason.as_str());
        u32::try_from(self.earlier_attempts.iter().filter(lost).count()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{KeptOutcomes, RecordingFile, ReplayWork};

    fn work(path: &str, digest: &str, tolerance: &[&str]) -> WorkItem {
        WorkItem::Replay(ReplayWork {
            recording: RecordingFile {
                path: path.into(),
                name: path.into(),
                digest: digest.into(),
            },
            inputs: Default::default(),
            tolerance: tolerance.iter().map(|t| (*t).to_owned()).collect(),
            time_limit_s: None,
            without_containment: false,
            keep_outcomes: KeptOutcomes::None,
        })
    }

    #[test]
    fn ids_depend_on_contents_and_not_on_paths() {
        let id = |w: WorkItem, target: &str, repeat| Run::new(w, target, repeat).id;
        let first = id(work("/a.kine", "00", &[]), "cuda:0", 0);
        assert_eq!(first, id(work("/b.kine", "00", &[]), "cuda:0", 0));
        assert_ne!(first, id(work("/a.kine", "01", &[]), "cuda:0", 0));
        assert_ne!(first, id(work("/a.kine", "00", &["exact"]), "cuda:0", 0));
        assert_ne!(first, id(work("/a.kine", "00", &[]), "cuda:1", 0));
        assert_ne!(first, id(work("/a.kine", "00", &[]), "cuda:0", 1));
        assert_eq!(RunId::parse(&first.to_string()), Some(first));
    }

    #[test]
    fn a_worker_can_withdraw_the_consent_of_a_description() {
        let mut all = vec![work("/a.kine", "00", &[])];
        for text in [
            r#"{"kind":"pipeline","pipeline":FILE}"#,
            r#"{"kind":"tuning","recording":FILE,"options":{"values":{"block":"64"}}}"#,
            r#"{"kind":"fuzz","recording":FILE,"inputs":["a"],"first_seed":1,"seeds":2,"mutations":["bits"]}"#,
            r#"{"kind":"bisect","recording":FILE,"max_candidates":9}"#,
        ] {
            let text = text.replace("FILE", r#"{"path":"/a","name":"a","digest":"00"}"#);
            all.push(serde_json::from_str(&text).unwrap());
        }
        for contained in all {
            assert!(!contained.accepts_no_containment(), "{contained:?}");
            let text = serde_json::to_string(&contained).unwrap();
            let (head, tail) = text.split_once("\"without_containment\":false").unwrap();
            let accepting: WorkItem =
                serde_json::from_str(&format!("{head}\"without_containment\":true{tail}")).unwrap();
            assert!(accepting.accepts_no_containment() && accepting != contained);
            assert_eq!(accepting.with_containment(), contained);
        }
    }

    #[test]
    fn ids_stay_the_same_in_later_versions() {
        let run = Run::new(work("/a.kine", &"ab".repeat(32), &["exact"]), "software:mali-g71", 2);
        assert_eq!(run.id.to_string(), "dc9848c397309cd63e7bdfe5a17c810f");
        let text = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), run);
        assert!(run.has_own_id() && RunId::parse("0").is_none() && RunId::parse(&"G".repeat(32)).is_none());
    }

    #[test]
    fn ids_of_every_kind_stay_the_same_in_later_versions() {
        let file = r#"{"path":"/a","name":"a","digest":"00"}"#;
        let works = [
            format!(r#"{{"kind":"pipeline","pipeline":{file},"labels":{{"x":"cuda:1"}}}}"#),
            format!(r#"{{"kind":"tuning","recording":{file},"options":{{"values":{{"block":"64"}}}}}}"#),
            format!(r#"{{"kind":"wasm","program":{file},"inputs":{{"i":{{"path":"/i","digest":"01"}}}}}}"#),
            format!(
                r#"{{"kind":"fuzz","recording":{file},"inputs":["a"],"first_seed":1,"seeds":2,"mutations":["bits"]}}"#
            ),
            format!(r#"{{"kind":"bisect","recording":{file},"max_candidates":9}}"#),
        ];
        let id = |text: &String| {
            let work: WorkItem = serde_json::from_str(text).unwrap();
            let stored = serde_json::to_string(&work).unwrap();
            assert_eq!(serde_json::from_str::<WorkItem>(&stored).unwrap(), work);
            Run::new(work, "cuda:0", 0).id.to_string()
        };
        let ids: Vec<String> = works.iter().map(id).collect();
        let expected = [
            "30aae1899c8d42c8cfb60ff5475c9087",
            "b2486900e337d65b5f573e0ff7cf7c68",
            "377052bb6685fd2ea7296931806d024d",
            "2f40c511d96deb7021bfd8795b0df410",
            "190d41a37491bdccf1b250b63cbe7d8c",
        ];
        assert_eq!(ids, expected);
    }
}

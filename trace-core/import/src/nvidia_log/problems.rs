//! What a log holds that an import cannot use, counted by kind, and the findings about it.

use std::collections::BTreeMap;
use trace_core::finding::{Finding, FindingKind};

/// A kind of problem with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Problem {
    /// The type of the record is unknown.
    UnknownRecord,
    /// The content does not have the form of its type.
    MalformedRecord,
    /// An argument of a request for objects does not have the size of a known version.
    UnknownArgument,
    /// Parameters of a request do not have the size of a known version.
    UnknownParameters,
    /// A request that may make objects in a way that the importer does not follow.
    UnfollowedRequest,
    /// A free of an object whose creation the log does not hold.
    UnknownObject,
    /// A ring entry whose push buffer is missing.
    MissingCommands,
    /// A ring entry that has more words than its push buffer record.
    CutCommands,
    /// A push buffer that belongs to no ring entry.
    StrayCommands,
    /// A saved page of an object that has no GPU address.
    UnmappedPage,
    /// A doorbell in a page whose mapping the log does not hold.
    UnknownDoorbellPage,
    /// A name beyond the maximum number of names.
    RefusedName,
    /// A copy from video memory that the program can write through a mapping.
    MappedVideoMemory,
    /// A copy from memory that the recorder could not read.
    UnreadableSource,
    /// A ring entry whose commands the recorder could not read.
    UnreadableCommands,
    /// A launch descriptor or a constant bank that the recorder did not save.
    LaunchMemory,
}

impl Problem {
    fn kind(self) -> FindingKind {
        match self {
            Self::MissingCommands | Self::CutCommands => FindingKind::MappedWithoutContent,
            Self::UnknownDoorbellPage => FindingKind::Assumed,
            Self::MappedVideoMemory | Self::UnreadableSource | Self::UnreadableCommands | Self::LaunchMemory => {
                FindingKind::NotRecorded
            }
            _ => FindingKind::NotUsed,
        }
    }

    fn describe(self, count: u64) -> String {
        let rest = match self {
            Self::UnknownRecord => "records have an unknown type; they are not used",
            Self::MalformedRecord => "records do not have the form of their type; they are not used",
            Self::UnknownArgument => {
                "requests for objects have an argument of an unknown size; they are calls, and their objects are missing"
            }
            Self::UnknownParameters => {
                "allocations or control requests have parameters of an unknown size; what they say is unknown"
            }
            Self::UnfollowedRequest => {
                "requests may make objects in a way that is not followed; they are calls, and their objects are missing"
            }
            Self::UnknownObject => {
                "requests free objects whose creation the log does not hold; they are calls, and no object is freed"
            }
            Self::MissingCommands => "ring entries have no commands in the log",
            Self::CutCommands => "ring entries have more commands than the log holds; the first ones are used",
            Self::StrayCommands => "push buffers do not follow a ring entry that names them; they are not used",
            Self::UnmappedPage => "saved pages belong to memory without a GPU address; they are not used",
            Self::UnknownDoorbellPage => {
                "doorbell accesses go to pages whose mapping the log does not hold; their offsets are the low 16 bits \
                 of their addresses"
            }
            Self::MappedVideoMemory => {
                "copies read video memory that the program can also write through a mapping; such writes are not recorded"
            }
            Self::UnreadableSource => "copies read memory that the recorder could not read; its content is missing",
            Self::UnreadableCommands => "ring entries have commands that the recorder could not read",
            Self::LaunchMemory => {
                "launch descriptors or constant banks are missing: the recorder could not read them, or a doorbell has too many"
            }
            Self::RefusedName => "calls have a name beyond the maximum number of names; their names are unknown",
        };
        format!("{count} {rest}")
    }
}

/// Number of problems by kind.
#[derive(Debug, Default)]
pub(super) struct Problems {
    /// Count and position of the first one, unpacked bytes.
    counts: BTreeMap<Problem, (u64, u64)>,
}

impl Problems {
    /// Counts a problem of the record at a position.
    pub fn add(&mut self, problem: Problem, at: u64) {
        self.counts.entry(problem).or_insert((0, at)).0 += 1;
    }

    /// Returns a finding for each kind of problem, at the position of the first one.
    pub fn findings(&self) -> impl Iterator<Item = Finding> + '_ {
        let all = self.counts.iter();
        all.map(|(problem, (count, at))| {
            Finding::new(problem.kind(), format!("byte {at:#x}"), problem.describe(*count))
        })
    }
}

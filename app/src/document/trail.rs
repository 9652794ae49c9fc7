//! The trail of what is selected: every event that read or wrote it, and the way along them.

use super::Document;
use super::moment::Selection;
use super::touches::Touch;
use std::sync::Arc;
use trace_core::progress::{Cancelled, Progress};
use trace_core::registers::Accessed;

/// Accesses that are passed in search of a read, so that a frame stays short.
const FAR: usize = 1 << 16;

/// What is followed through the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// The accesses to a register, by its offset.
    Register(u32),
    /// What touches a byte.
    Byte {
        /// Index of the address space.
        space: u32,
        /// The byte.
        va: u64,
    },
}

/// Which events of a trail are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deeds {
    /// All of them.
    All,
    /// Those behind which it may be another.
    Writes,
    /// Those that may depend on it.
    Reads,
}

/// What touches the byte that is followed.
#[derive(Default)]
pub struct Trail {
    /// The byte, and what touches it; `None`: not known yet.
    of: Option<(u32, u64)>,
    list: Option<Arc<Vec<Touch>>>,
    asked: Option<Progress>,
}

impl Trail {
    /// What happened to the byte, in the order of events.
    #[must_use]
    pub fn touches(&self) -> &[Touch] {
        let all = self.list.as_deref().map_or(&[][..], Vec::as_slice);
        // How it stands comes behind what happened.
        let happened = all.partition_point(|t| t.event.is_some());
        all.get(..happened).unwrap_or_default()
    }

    /// Whether it is being looked for.
    #[must_use]
    pub fn is_looked_for(&self) -> bool {
        self.of.is_some() && self.list.is_none() && self.asked.is_some()
    }

    /// What touches a byte is being looked for; what was looked for before is not wanted any more.
    pub fn asked(&mut self, space: u32, va: u64, progress: Progress) {
        self.forget();
        self.of = Some((space, va));
        self.asked = Some(progress);
    }

    /// A search came to its end.
    pub fn found(&mut self, space: u32, va: u64, found: Result<Vec<Touch>, Cancelled>) {
        if self.of == Some((space, va)) {
            self.asked = None;
            if let Ok(list) = found {
                self.list = Some(Arc::new(list));
            }
        }
    }

    /// Nothing is followed any more.
    pub fn forget(&mut self) {
        if let Some(p) = self.asked.take() {
            p.cancel();
        }
        self.of = None;
        self.list = None;
    }

    /// Whether the trail is that of a byte.
    #[must_use]
    pub fn is_of(&self, space: u32, va: u64) -> bool {
        self.of == Some((space, va))
    }
}

impl Document {
    /// What is followed: the selected bytes, or the register that is meant.
    #[must_use]
    pub fn followed(&self) -> Option<Followed> {
        match self.selection() {
            Selection::Memory { space, va, .. } => Some(Followed::Byte { space: *space, va: *va }),
            Selection::Buffer(name) => {
                let b = self.recording.buffer(name)?;
                Some(Followed::Byte {
                    space: b.address_space,
                    va: b.va.0,
                })
            }
            _ => self.register().map(Followed::Register),
        }
    }

    /// Its name for the person: a register, a place in a buffer, an address.
    #[must_use]
    pub fn followed_name(&self) -> Option<String> {
        Some(match self.followed()? {
            Followed::Register(r) => self.facts.register_name(r),
            Followed::Byte { space, va } => {
                let holds = |b: &&trace_core::recording::Buffer| {
                    b.address_space == space && va.checked_sub(b.va.0).is_some_and(|by| by < b.bytes)
                };
                let buffers = self.recording.facts.buffers.iter().filter(holds);
                match buffers.min_by_key(|b| b.bytes) {
                    Some(b) if va == b.va.0 => b.name.clone(),
                    Some(b) => format!("{} + {:#x}", b.name, va - b.va.0),
                    None => format!("{va:#x}"),
                }
            }
        })
    }

    /// The next event of the trail behind the moment, or the one before it. A poll counts once.
    #[must_use]
    pub fn along(&self, forward: bool, deeds: Deeds) -> Option<u64> {
        match self.followed()? {
            Followed::Register(r) => self.along_register(r, forward, deeds),
            Followed::Byte { space, va } => {
                let list = Some(self.trail.touches()).filter(|_| self.trail.is_of(space, va))?;
                let wanted = |t: &&Touch| match deeds {
                    Deeds::All => true,
                    Deeds::Writes => t.deed.writes(),
                    Deeds::Reads => t.deed.reads(),
                };
                let now = self.moment();
                let (before, behind) = (
                    list.partition_point(|t| t.event < Some(now)),
                    list.partition_point(|t| t.event <= Some(now)),
                );
                let found = if forward {
                    list.get(behind..).unwrap_or_default().iter().find(wanted)
                } else {
                    list.get(..before).unwrap_or_default().iter().rev().find(wanted)
                };
                found.and_then(|t| t.event)
            }
        }
    }

    fn along_register(&self, register: u32, forward: bool, deeds: Deeds) -> Option<u64> {
        let accesses = &self.facts.registers.get(&register)?.accesses;
        let poll = self.facts.poll_at(self.moment());
        let (first, last) = poll.map_or((self.moment(), self.moment()), |p| (p.first, p.last));
        let read = |a: &Accessed| !a.write;
        if forward {
            return match deeds {
                Deeds::Writes => accesses.writes().get(accesses.writes().upto(last)),
                Deeds::All => accesses.all().get(accesses.all().upto(last)),
                Deeds::Reads => {
                    let mut behind = accesses.iter_from(accesses.all().upto(last)).take(FAR);
                    behind.find(read).map(|a| a.event)
                }
            };
        }
        let to = match deeds {
            Deeds::Writes => accesses.writes().around(first)[0],
            Deeds::All => accesses.all().around(first)[0],
            Deeds::Reads => {
                let n = accesses.all().before(first);
                let before = accesses.iter_from(n.saturating_sub(FAR)).take(n.min(FAR));
                before.filter(read).last().map(|a| a.event)
            }
        }?;
        // The first read of a poll stands for all.
        let begin = accesses.all().first().unwrap_or(0);
        Some(self.facts.poll_at(to).map_or(to, |p| p.first.max(begin)))
    }

    /// Goes along the trail; what is followed stays selected. `false`: there is nothing that way.
    pub fn go_along(&mut self, forward: bool, deeds: Deeds) -> bool {
        let (Some(to), Some(followed)) = (self.along(forward, deeds), self.followed()) else {
            return false;
        };
        let selection = match followed {
            Followed::Register(r) => Selection::Register(r),
            Followed::Byte { .. } => self.selection().clone(),
        };
        self.go_with(to, selection);
        true
    }
}

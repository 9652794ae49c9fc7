//! The live programs of a server: their number, their tokens and their connections.

use crate::live::{EndReport, LiveBudgets, LiveRunner, LiveSession};
use crate::wire::{PublicKey, Sender};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What runs live programs, and those that run.
#[derive(Debug)]
pub(crate) struct LiveService {
    /// What starts workers.
    pub runner: Arc<dyn LiveRunner>,
    programs: Mutex<Vec<Arc<LiveProgram>>>,
}

/// A live program, from the check of its request to its last message.
pub(super) struct LiveProgram {
    /// Key of the client.
    key: PublicKey,
    token: [u8; 32],
    /// Name of the program, without control characters.
    name: String,
    /// Its worker, after the start.
    pub session: OnceLock<Arc<dyn LiveSession>>,
    /// The first error that the worker or a connection reports.
    pub report: EndReport,
    has_ended: AtomicBool,
    lanes: Mutex<LaneList>,
}

/// The further connections of a program.
#[derive(Debug, Default)]
struct LaneList {
    /// Number of the last one.
    last: u32,
    open: Vec<(u32, Sender)>,
}

impl std::fmt::Debug for LiveProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LiveProgram({})", self.name)
    }
}

impl LiveProgram {
    /// Describes the program for lists.
    pub fn describe(&self) -> String {
        const MAX_CHARACTERS: usize = 400;
        let text = self.session.get().map(|session| session.describe());
        let text = text.unwrap_or_else(|| self.name.clone());
        let text = text.chars().take(MAX_CHARACTERS);
        text.map(|c| if c.is_control() { ' ' } else { c }).collect()
    }

    fn lanes(&self) -> MutexGuard<'_, LaneList> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection and returns its number, or `None` if there are `max` or the program has ended.
    pub fn add_lane(&self, sender: &Sender, max: u32) -> Option<u32> {
        let mut lanes = self.lanes();
        if self.has_ended() || lanes.open.len() as u64 >= u64::from(max) {
            return None;
        }
        lanes.last = lanes.last.checked_add(1)?;
        let lane = lanes.last;
        lanes.open.push((lane, sender.clone()));
        Some(lane)
    }

    /// Removes a connection.
    pub fn remove_lane(&self, lane: u32) {
        self.lanes().open.retain(|(number, _)| *number != lane);
    }

    /// Returns whether the program has ended.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Kills the worker, and closes the further connections. Later calls have no effect.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        if let Some(session) = self.session.get() {
            session.end();
        }
        for (_, sender) in std::mem::take(&mut self.lanes().open) {
            sender.close();
        }
    }
}

impl LiveService {
    /// Creates the service of a runner.
    pub fn new(runner: Arc<dyn LiveRunner>) -> Self {
        Self {
            runner,
            programs: Mutex::default(),
        }
    }

    fn programs(&self) -> MutexGuard<'_, Vec<Arc<LiveProgram>>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a program runs.
    pub fn is_busy(&self) -> bool {
        !self.programs().is_empty()
    }

    /// Gives a program a place.
    ///
    /// # Errors
    /// The budget that is exceeded, for the user.
    pub(super) fn enter(
        self: &Arc<Self>,
        key: PublicKey,
        token: [u8; 32],
        name: String,
        budgets: &LiveBudgets,
    ) -> Result<LivePlace, String> {
        let mut programs = self.programs();
        if programs.len() >= budgets.sessions {
            return Err(format!(
                "this agent already runs {} live programs, which is its maximum; try again when one has ended",
                programs.len()
            ));
        }
        let of_client = programs.iter().filter(|program| program.key == key).count();
        if of_client >= budgets.sessions_per_client {
            return Err(format!(
                "this client already runs {of_client} live programs on the agent, which is the maximum of one client; \
                 end one, then try again"
            ));
        }
        let program = Arc::new(LiveProgram {
            key,
            token,
            name,
            session: OnceLock::new(),
            report: EndReport::for_session(),
            has_ended: AtomicBool::new(false),
            lanes: Mutex::default(),
        });
        programs.push(Arc::clone(&program));
        Ok(LivePlace {
            service: Arc::clone(self),
            program,
        })
    }

    /// Returns the program with a token, if it belongs to the client.
    pub(super) fn find(&self, token: &[u8; 32], key: &PublicKey) -> Option<Arc<LiveProgram>> {
        // The comparison of hashes takes the same time for every token.
        let token = blake3::Hash::from(*token);
        let programs = self.programs();
        let mut found = programs.iter().filter(|p| p.key == *key && token == p.token);
        found.find(|p| p.session.get().is_some() && !p.has_ended()).cloned()
    }
}

/// The place of a program. Dropping it ends the program and frees the place.
#[derive(Debug)]
pub(super) struct LivePlace {
    service: Arc<LiveService>,
    /// The program.
    pub program: Arc<LiveProgram>,
}

impl Drop for LivePlace {
    fn drop(&mut self) {
        self.program.end();
        let mut programs = self.service.programs();
        programs.retain(|program| !Arc::ptr_eq(program, &self.program));
    }
}

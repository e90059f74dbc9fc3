//! The parameter servers of a job: who keeps which partition, as a sequence of maps.
//!
//! Servers come, leave and are lost; the controller says how many there should be. What is decided is always a whole
//! map with the next number, written down before anybody hears of it. Between two maps partitions are copied while
//! training goes on ([`moves`]); what was lost comes back from its copy, or from a checkpoint ([`losses`]).
//!
//! It is *not* for parameters: a partition is a number here, and which keys are in it nobody asks. Nor does it decide
//! how many servers there are.

#[cfg(test)]
mod absence;
mod balance;
mod fact;
pub mod invariants;
mod losses;
mod map;
mod moves;
mod orders;
mod saving;
mod server;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod updates_lost;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flexor_model::{PsEpoch, Reason};
use serde::{Deserialize, Serialize};

use crate::active_clock::ActiveClock;
pub use crate::cause::Cause;
pub use fact::Fact;
pub use map::{Map, Origin, Partition, Seat, Source};
use moves::Move;
pub use orders::CopyOrder;
use saving::Saving;
pub use saving::{Checkpoint, SaveOrder, Seal};
use server::Present;
pub use server::{ServerId, Wanted};
use updates_lost::{KeptAnswer, Versions};

/// How servers of a master that was started again come back: until then nothing is given up.
const AFTER_RESTART: Duration = Duration::from_secs(10);
/// Without a controller the first map is made when nobody else has come for this long.
const LAST_TO_COME: Duration = Duration::from_secs(1);

/// How updates are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Each as it comes. What a lost server had learnt since the last checkpoint is lost, the rest goes on.
    Async,
    /// In steps. All partitions are always at the same one, so that they go back together.
    Sync,
}

/// What can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How many partitions there are.
    pub partitions: u32,
    /// On how many servers each is kept: 1 or 2.
    pub copies: u32,
    /// How updates are applied.
    pub mode: Mode,
    /// How long a copy may make no progress.
    pub copy_limit: Duration,
    /// How many checkpoints are kept, 0 for all; nothing where none are made.
    pub keep: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { partitions: 256, copies: 1, mode: Mode::Async, copy_limit: Duration::from_secs(30), keep: None }
    }
}

/// The servers of a job.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PsMembers {
    #[serde(skip)]
    settings: Settings,
    model: Option<Arc<str>>,
    map: Map,
    /// Those that are complete and can be read.
    checkpoints: Vec<Checkpoint>,
    /// The highest number that a checkpoint has, or had when it was begun.
    last_save: u64,
    /// The map by which everything last went back together.
    #[serde(default)]
    rewound: PsEpoch,
    /// How often partitions had to begin again, and what was said of it last.
    #[serde(default)]
    restorations: (u64, Option<Cause>),
    /// How many updates were lost with each beginning of a partition.
    lost: BTreeMap<Partition, BTreeMap<u64, u64>>,
    /// What clients were answered with, as it was last written down.
    #[serde(default)]
    kept_answers: BTreeMap<Partition, KeptAnswer>,
    #[serde(skip)]
    present: BTreeMap<Arc<str>, Present>,
    #[serde(skip)]
    wanted: Wanted,
    #[serde(skip)]
    moves: BTreeMap<Partition, Move>,
    /// Partitions whose last move failed, and until when they stay.
    #[serde(skip)]
    resting: BTreeMap<Partition, Duration>,
    #[serde(skip)]
    last_move: u64,
    /// Nothing new is moved while a checkpoint is on its way.
    #[serde(skip)]
    saving: Option<Saving>,
    /// Why the last checkpoint could not be.
    #[serde(skip)]
    unsaved: Option<Cause>,
    /// A server has looked which checkpoints there are.
    #[serde(skip)]
    has_looked: bool,
    #[serde(skip)]
    versions: Versions,
    /// Since when there are partitions that nobody keeps.
    #[serde(skip)]
    orphaned_at: Option<Duration>,
    /// By when all servers that a master before this one knew have come, if they are alive.
    #[serde(skip)]
    all_known_at: Duration,
    /// When the last newcomer came.
    #[serde(skip)]
    came_at: Duration,
    #[serde(skip)]
    clock: ActiveClock,
}

impl PsMembers {
    /// No servers yet.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Puts servers that were read back, or whose facts were replayed, to work: those in the map have a while to come
    /// back. `life` is that of the journal: numbers of moves are never used again.
    pub fn resume(mut self, settings: Settings, life: u64, now: Duration) -> Self {
        self.settings = settings;
        self.clock = ActiveClock::since(now);
        self.recall_answers();
        // The master before this one may have kept more.
        self.forget_old_checkpoints();
        self.last_move = life << 32;
        self.all_known_at = if self.map.epoch.0 > 0 { now + AFTER_RESTART } else { now };
        let keepers = self.map.seats.iter().flat_map(|seat| [seat.owner.as_ref(), seat.backup.as_ref()]).flatten();
        for server in keepers {
            let away = Present {
                incarnation: server.incarnation,
                address: Arc::from(""),
                away_until: Some(now + AFTER_RESTART),
                is_leaving: false,
            };
            self.present.entry(server.name.clone()).or_insert(away);
        }
        self.orphaned_at = self.map.seats.iter().any(|seat| seat.owner.is_none()).then_some(now);
        self
    }

    /// The job trains this model: every worker may say so.
    pub fn declare(&mut self, model: &str, facts: &mut Vec<Fact>) -> Result<(), Cause> {
        match &self.model {
            Some(known) if **known == *model => Ok(()),
            Some(known) => {
                let detail = format!("the job trains another model: {known}; start another job for {model}");
                Err(Cause::new(Reason::ModelDiffers, detail))
            }
            None => {
                self.decide(Fact::Declared { model: model.into() }, facts);
                Ok(())
            }
        }
    }

    /// A server has come, or has come back.
    pub fn came(
        &mut self,
        server: &ServerId,
        address: impl Into<Arc<str>>,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) -> Result<(), Cause> {
        self.clock.advance(now);
        let known = self.present.get(&server.name).map(|present| present.incarnation);
        if let Some(life) = known.filter(|life| *life > server.incarnation) {
            let detail = format!("{} has begun a later life ({life})", server.name);
            return Err(Cause::new(Reason::ServerReplaced, detail));
        }
        let is_leaving = self
            .present
            .get(&server.name)
            .is_some_and(|present| present.incarnation == server.incarnation && present.is_leaving);
        let present =
            Present { incarnation: server.incarnation, address: address.into(), away_until: None, is_leaving };
        self.present.insert(server.name.clone(), present);
        if known.is_some_and(|life| life < server.incarnation) {
            let detail = format!("{} came again in a later life", server.name);
            self.replace_lost(&Cause::new(Reason::ServerReplaced, detail), facts);
        }
        if known != Some(server.incarnation) {
            self.came_at = self.clock.now();
        }
        self.settle(facts);
        Ok(())
    }

    /// A server was told to end, by whomever: it gives away what it keeps, and ends when it is released.
    pub fn leaves(&mut self, server: &ServerId, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        let present = self.present.get_mut(&server.name);
        if let Some(present) = present.filter(|present| present.incarnation == server.incarnation) {
            present.is_leaving = true;
        }
        self.settle(facts);
    }

    /// Takes over what the controller wants.
    pub fn follow(&mut self, wanted: &Wanted, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        self.wanted = wanted.clone();
        self.settle(facts);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        self.settle(facts);
    }

    /// Takes over a fact that was decided before, from a journal.
    pub fn replay(&mut self, fact: &Fact) {
        self.apply(fact);
    }

    /// The map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The model, once a worker has said which.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The map by which everything last went back together; 0 where nothing did.
    pub fn rewound(&self) -> PsEpoch {
        self.rewound
    }

    /// How often partitions of which no copy was left had to begin again, and what was said of it last.
    pub fn restorations(&self) -> (u64, Option<&Cause>) {
        (self.restorations.0, self.restorations.1.as_ref())
    }

    /// How updates are applied, as the data says.
    pub fn set_mode(&mut self, mode: Mode) {
        self.settings.mode = mode;
    }

    /// Every server that has come and is not gone.
    pub fn present(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.present.iter().map(|(name, present)| ServerId { name: name.clone(), incarnation: present.incarnation })
    }

    /// Where a server that is here is reached.
    pub fn address(&self, server: &ServerId) -> Option<Arc<str>> {
        let present = self.present.get(&server.name).filter(|present| present.incarnation == server.incarnation)?;
        Some(present.address.clone()).filter(|address| !address.is_empty())
    }

    /// Whether the session of a server broke, and it is waited for.
    pub fn is_away(&self, server: &ServerId) -> bool {
        let present = self.present.get(&server.name).filter(|present| present.incarnation == server.incarnation);
        present.is_some_and(|present| present.away_until.is_some())
    }

    /// Servers that are to go and keep nothing any more.
    pub fn released(&self) -> impl Iterator<Item = &Arc<str>> {
        self.wanted.leaving.iter().filter(|name| self.map.epoch.0 > 0 && self.keeps_nothing(name))
    }

    /// Whether a server that has said that it is to end may do so: it keeps nothing, and will not be given anything.
    pub fn is_released(&self, server: &ServerId) -> bool {
        let is_leaving = self
            .present
            .get(&server.name)
            .is_some_and(|present| present.incarnation == server.incarnation && present.is_leaving);
        is_leaving && self.keeps_nothing(&server.name)
    }

    fn keeps_nothing(&self, name: &Arc<str>) -> bool {
        let mut keepers = self.map.seats.iter().flat_map(|seat| [&seat.owner, &seat.backup]).flatten();
        keepers.all(|id| id.name != *name) && self.moves.values().all(|step| step.to.name != *name)
    }

    /// Whether a server is to go, as its controller or it itself says.
    fn is_leaving(&self, name: &str) -> bool {
        self.wanted.leaving.contains(name) || self.present.get(name).is_some_and(|present| present.is_leaving)
    }

    /// Whether every partition has an owner and as many copies as it should, on servers that are here.
    pub fn is_redundant(&self) -> bool {
        let wanted = self.settings.copies > 1;
        let is_here = |server: &Option<ServerId>| server.as_ref().is_some_and(|server| self.is_here(server));
        !self.map.seats.is_empty()
            && self.map.seats.iter().all(|seat| is_here(&seat.owner) && (is_here(&seat.backup) || !wanted))
    }

    /// Whether nothing is on its way and nothing is to be: every partition is where it should be.
    pub fn is_settled(&self) -> bool {
        let aims = self.aims();
        self.moves.is_empty()
            && !aims.is_empty()
            && self.map.seats.len() == aims.len()
            && self.map.seats.iter().zip(&aims).all(|(seat, aim)| {
                seat.owner.as_ref() == Some(&aim.owner) && (aim.backup.is_none() || seat.backup == aim.backup)
            })
    }

    fn settle(&mut self, facts: &mut Vec<Fact>) {
        self.give_up_the_absent(facts);
        self.form(facts);
        self.adopt_orphans(facts);
        self.roll_back();
        self.begin_moves();
        while self.finish_moves(facts) {
            // What has arrived may have others wait for it.
            self.begin_moves();
        }
        self.let_go(facts);
        self.look_after_saving();
        debug_assert_eq!(invariants::broken(self), None, "after {facts:?}");
    }

    /// Makes the first map when all who are expected have come.
    fn form(&mut self, facts: &mut Vec<Fact>) {
        let servers = self.usable();
        if self.map.epoch.0 > 0 || servers.is_empty() || self.has_to_look() {
            return;
        }
        let are_all = match self.wanted.expected {
            Some(expected) => servers.len() >= expected as usize,
            None => self.clock.now() >= self.came_at + LAST_TO_COME,
        };
        if !are_all {
            return;
        }
        let (origin, since) = (Origin { number: 1, source: self.source() }, PsEpoch(0));
        let empty = Seat { owner: None, backup: None, origin, since };
        let blank = Map { epoch: PsEpoch(0), seats: vec![empty; self.settings.partitions as usize] };
        // Nothing has been learnt, so that a backup has everything from the start.
        let aims = balance::aims(&blank, &servers, self.settings.copies);
        let seat = |(seat, aim): (Seat, balance::Aim)| Seat { owner: Some(aim.owner), backup: aim.backup, ..seat };
        let seats = (0..).map(Partition).zip(blank.seats.into_iter().zip(aims).map(seat)).collect();
        let cause = Cause::new(Reason::ServersFormed, format!("{} servers are here", servers.len()));
        self.map_anew(seats, cause, facts);
    }

    fn map_anew(&mut self, seats: Vec<(Partition, Seat)>, cause: Cause, facts: &mut Vec<Fact>) {
        let epoch = PsEpoch(self.map.epoch.0 + 1);
        let owner = |partition: Partition| self.map.seat(partition).and_then(|seat| seat.owner.as_ref());
        let dated = |(partition, seat): (Partition, Seat)| {
            let since = if owner(partition) == seat.owner.as_ref() { seat.since } else { epoch };
            (partition, Seat { since, ..seat })
        };
        let seats = seats.into_iter().map(dated).collect();
        self.decide(Fact::Mapped { epoch, seats, cause }, facts);
    }

    fn decide(&mut self, fact: Fact, facts: &mut Vec<Fact>) {
        self.apply(&fact);
        facts.push(fact);
    }

    fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::Declared { model } => self.model = Some(model.clone()),
            Fact::Mapped { epoch, seats, cause } => {
                self.map.epoch = *epoch;
                if cause.reason == Reason::PartitionsRestored {
                    self.restorations = (self.restorations.0 + 1, Some(cause.clone()));
                }
                for (partition, seat) in seats {
                    match self.map.seat_mut(*partition) {
                        Some(known) => *known = seat.clone(),
                        // The first map names all, in order.
                        None => self.map.seats.push(seat.clone()),
                    }
                }
            }
            Fact::Saving { checkpoint } => self.last_save = self.last_save.max(*checkpoint),
            Fact::Saved { checkpoint, ledger, oldest } => self.apply_saved(*checkpoint, ledger, *oldest),
            Fact::Spoiled { checkpoint, .. } => self.checkpoints.retain(|known| known.number != *checkpoint),
            Fact::Lost { partition, origin, updates } => self.apply_lost(*partition, *origin, *updates),
            Fact::Answered { answered } => self.apply_answered(answered),
            Fact::Rewound { .. } => self.rewound = self.map.epoch,
        }
    }

    fn knows(&self, server: &ServerId) -> bool {
        self.present.get(&server.name).is_some_and(|present| present.incarnation == server.incarnation)
    }

    fn is_here(&self, server: &ServerId) -> bool {
        self.knows(server) && self.present[&server.name].away_until.is_none()
    }

    fn present_mut(&mut self, server: &ServerId) -> Option<&mut Present> {
        self.present.get_mut(&server.name).filter(|present| present.incarnation == server.incarnation)
    }
}

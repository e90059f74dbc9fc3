//! The parameter servers of the job: the machine that maps them, with the journal behind it.
//!
//! What is decided is told only when it is durable, and whole: the map together with what is to be copied, so that an
//! owner never hears that it need not be frozen any more before it hears that it is not the owner any more.
//!
//! Of the two locks, the servers' state comes before the ledger: nobody asks for the servers with the data in hand.

mod closed;
mod load;
mod saving;
mod steps;
#[cfg(test)]
mod tests;
mod updates;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flexor_engine::Cause;
use flexor_engine::ledger::WorkerId;
use flexor_engine::psmembers::{
    CopyOrder, Fact, Map, Mode, Partition, PsMembers, Seat, ServerId, Settings, Source, Wanted,
};
use flexor_model::{Generation, PsEpoch, Reason};
use flexor_wire::master::v1 as wire;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

pub(crate) use self::closed::Closed;
pub use self::load::LoadStatus;
use self::load::Loads;
use self::saving::Schedule;
pub use self::saving::{CheckpointStatus, Checkpoints};
use self::updates::Updates;
pub use self::updates::UpdatesStatus;
use crate::clock::Clock;
use crate::data::Data;
use crate::journal::{Journal, JournalError, Lsn};
use crate::records;

/// How often it is looked whether somebody did not come back, or a copy makes no progress.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Shared by everything that serves parameter servers and their clients.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Moves on whenever something may have to be told.
    stirred: watch::Sender<u64>,
    told: watch::Sender<Arc<Told>>,
    closed: watch::Sender<Arc<Closed>>,
    data: Data,
    /// Where checkpoints are kept, if they are made.
    checkpoints: Option<Checkpoints>,
    journal: Arc<Journal>,
    clock: Clock,
    refused: watch::Sender<Option<JournalError>>,
    generation: Generation,
}

struct State {
    members: PsMembers,
    /// How many sessions each server has: two for a moment, when one breaks and the next has come.
    sessions: HashMap<ServerId, u32>,
    loads: Loads,
    updates: Updates,
    schedule: Schedule,
    /// Whose pods were alive when the controller last told.
    observed: BTreeSet<String>,
    /// Where the last decision stands in the journal.
    lsn: Lsn,
}

impl State {
    /// A session of a server is over; whether it was its last.
    fn session_over(&mut self, server: &ServerId) -> bool {
        let left = self.sessions.get_mut(server).map_or(0, |sessions| {
            *sessions -= 1;
            *sessions
        });
        if left == 0 {
            self.sessions.remove(server);
        }
        left == 0
    }
}

/// What everybody is told at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Told {
    pub(crate) map: wire::ServerMap,
    copies: BTreeMap<ServerId, Vec<wire::CopyOrder>>,
    checkpoints: Option<wire::CheckpointPlace>,
    saves: BTreeMap<ServerId, wire::SaveOrder>,
    /// Told by itself, since it changes with every step.
    pub(crate) steps: Option<wire::StepsTaken>,
    /// Servers that their controller lets go, and that keep nothing any more.
    pub(crate) released: Vec<String>,
    /// Servers that have said themselves that they are to end, and may.
    free: BTreeSet<ServerId>,
}

impl Told {
    /// What a server is told.
    pub(crate) fn to(&self, server: &ServerId) -> wire::ServerPlan {
        let copies = self.copies.get(server).cloned().unwrap_or_default();
        let (checkpoints, save) = (self.checkpoints.clone(), self.saves.get(server).cloned());
        let released = self.free.contains(server);
        wire::ServerPlan { map: Some(self.map.clone()), copies, checkpoints, save, released }
    }
}

/// What `/api/status` shows of the servers.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServersStatus {
    /// The number of the map; 0 while there is none.
    pub epoch: PsEpoch,
    /// Each server that is here or keeps something.
    pub servers: Vec<ServerStatus>,
    /// Partitions that nobody keeps at present.
    pub unowned: usize,
    /// How often partitions of which no copy was left had to begin again.
    pub restorations: u64,
    /// Why they last did.
    pub last_restoration: Option<String>,
    /// Every partition is kept as often as it should be.
    pub redundant: bool,
    /// Every partition is where it should be.
    pub settled: bool,
    /// Checkpoints, where they are made.
    pub checkpoints: Option<CheckpointStatus>,
    /// What came of the pushes of workers; nothing while none has said so.
    pub updates: Option<UpdatesStatus>,
}

/// What there is to tell about a server.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// Which life.
    pub incarnation: u64,
    /// Where it is reached; nothing while it is away.
    pub address: Option<String>,
    /// How many partitions it answers for, and of how many it keeps a copy.
    pub partitions: usize,
    /// Of how many it keeps a copy.
    pub copies: usize,
    /// How much it keeps and does.
    #[serde(flatten)]
    pub load: LoadStatus,
}

impl Servers {
    pub(crate) fn new(
        members: PsMembers,
        (settings, checkpoints): (Settings, Option<Checkpoints>),
        data: Data,
        journal: Arc<Journal>,
        clock: Clock,
        refused: watch::Sender<Option<JournalError>>,
    ) -> Self {
        let generation = if journal.is_durable() { journal.generation() } else { Generation(clock.wall().0) };
        let keep = checkpoints.as_ref().map(|checkpoints| checkpoints.keep as usize);
        let members = members.resume(Settings { keep, ..settings }, generation.0, clock.now());
        let state = State {
            members,
            sessions: HashMap::new(),
            loads: Loads::default(),
            updates: Updates::default(),
            schedule: Schedule::default(),
            observed: BTreeSet::new(),
            lsn: journal.last(),
        };
        let (stirred, told) = (watch::Sender::new(0), watch::Sender::new(Arc::default()));
        let (state, closed) = (Mutex::new(state), watch::Sender::new(Arc::default()));
        Self(Arc::new(Inner { state, stirred, told, closed, data, checkpoints, journal, clock, refused, generation }))
    }

    /// What everybody is told, as it changes.
    pub(crate) fn told(&self) -> watch::Receiver<Arc<Told>> {
        self.0.told.subscribe()
    }

    /// Servers that were to go and keep nothing any more, as everybody was told.
    pub fn released(&self) -> Vec<String> {
        self.0.told.borrow().released.clone()
    }

    /// Which records no update comes of any more, as it changes.
    pub(crate) fn closed(&self) -> watch::Receiver<Arc<Closed>> {
        self.0.closed.subscribe()
    }

    /// The job trains this model.
    pub(crate) async fn declare(&self, model: &str) -> Result<(), Cause> {
        self.looked().await?;
        self.decide(|members, _, facts| members.declare(model, facts))??;
        let lsn = self.lock().lsn;
        let durable = self.0.journal.durable(lsn).await;
        durable.map_err(|error| Cause::new(Reason::JournalFull, error.to_string()))
    }

    /// A server has come, or has come back.
    pub(crate) fn session_begun(&self, server: &ServerId, address: &str) -> Result<(), Cause> {
        // Counted first, so that a session of it that ends meanwhile is not its last.
        *self.lock().sessions.entry(server.clone()).or_default() += 1;
        let came = self.decide(|members, now, facts| members.came(server, address, now, facts)).flatten();
        if came.is_err() {
            self.lock().session_over(server);
        }
        came
    }

    /// A session of a server has ended. With the last one it has a while to come back.
    pub(crate) fn session_ended(&self, server: &ServerId) {
        let now = self.0.clock.now();
        let mut state = self.lock();
        if state.session_over(server) {
            state.members.session_lost(server, now);
        }
    }

    /// A server was told to end.
    pub(crate) fn leaves(&self, server: &ServerId) -> Result<(), Cause> {
        self.decide(|members, now, facts| members.leaves(server, now, facts))
    }

    /// A server says something about a copy that it makes, or about one that it cannot reach.
    pub(crate) fn report(&self, act: impl FnOnce(&mut PsMembers, Duration, &mut Vec<Fact>)) -> Result<(), Cause> {
        self.decide(act)
    }

    /// A server says what it has done.
    pub(crate) fn load(&self, server: &ServerId, load: wire::ServerLoad) {
        let now = self.0.clock.now();
        self.lock().loads.take(server, load, now);
    }

    /// A worker says what came of its pushes so far.
    pub fn updates(&self, worker: &WorkerId, said: &wire::WorkerUpdates) -> Result<(), Cause> {
        self.lock().updates.take(worker, said.repeats);
        self.decide(|members, now, facts| {
            for wire::AnsweredVersion { partition, origin, version } in &said.answered {
                members.answered(Partition(*partition), *origin, *version, facts);
            }
            members.keep_answers(now, facts);
        })
    }

    /// Takes over what somebody wants who looks after the servers: how many, of these, without those that are to leave.
    pub fn observe(&self, expected: u32, alive: &[&str], leaving: &[&str]) -> Result<(), Cause> {
        let leaving = leaving.iter().map(|name| Arc::from(*name)).collect();
        let alive = alive.iter().map(ToString::to_string).collect();
        self.follow(&Wanted { expected: Some(expected), leaving }, alive)
    }

    /// Takes over what the controller wants, and whose pods are alive.
    pub(crate) fn follow(&self, wanted: &Wanted, alive: BTreeSet<String>) -> Result<(), Cause> {
        // A server may be here before its controller has told of its pod: only a pod that was there can go, or one of a
        // server that is not here.
        let before = self.lock().observed.clone();
        self.decide(|members, now, facts| {
            let is_gone = |server: &ServerId| {
                !alive.contains(&*server.name) && (before.contains(&*server.name) || members.is_away(server))
            };
            let gone: Vec<ServerId> = members.present().filter(is_gone).collect();
            for server in gone {
                let cause = Cause::new(Reason::ServerLost, format!("{server} is gone, as its controller says"));
                members.gone(&server, &cause, now, facts);
            }
            members.follow(wanted, now, facts);
        })?;
        // Behind the decision: of a pod that went while nothing could be written down it is known that it was there.
        self.lock().observed = alive;
        Ok(())
    }

    /// Looks out for what takes too long, and tells what is durable, until the master ends.
    pub(crate) async fn keep(&self) {
        let (mut stirred, mut changes) = (self.0.stirred.subscribe(), self.0.data.changes());
        let mut pulse = tokio::time::interval(LOOK_AGAIN);
        pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            stirred.borrow_and_update();
            changes.borrow_and_update();
            let (told, lsn) = {
                let state = self.lock();
                // What the ledger has decided is told too.
                (self.look(&state), self.0.journal.last())
            };
            if self.0.journal.durable(lsn).await.is_err() {
                return;
            }
            self.0.told.send_if_modified(|known| {
                let is_news = **known != told;
                if is_news {
                    *known = Arc::new(told);
                }
                is_news
            });
            tokio::select! {
                changed = stirred.changed() => if changed.is_err() {
                    return;
                },
                changed = changes.changed(), if self.0.checkpoints.is_some() || self.mode() == Mode::Sync => {
                    if changed.is_err() {
                        return;
                    }
                },
                _ = pulse.tick() => self.look_again(),
            }
            if let Err(cause) = self.go_on_saving() {
                tracing::warn!(%cause, "no checkpoint can be written");
            }
        }
    }

    fn look_again(&self) {
        if let Err(cause) = self.decide(PsMembers::tick) {
            tracing::warn!(%cause, "nothing can be decided about parameter servers");
        }
        if let Err(cause) = self.save_when_due() {
            tracing::warn!(%cause, "no checkpoint can be begun");
        }
        if self.0.closed.receiver_count() > 0 {
            // With everything in hand, so that nothing is wound back between the look and the word.
            let _state = self.lock();
            let closed = self.0.data.with_ledger(|ledger| Closed::of(&ledger.position()));
            self.0.closed.send_if_modified(|known| {
                let is_news = **known != closed;
                if is_news {
                    *known = Arc::new(closed);
                }
                is_news
            });
        }
    }

    /// What there is to tell; nothing while there are no servers.
    pub fn status(&self) -> Option<ServersStatus> {
        let now = self.0.clock.now();
        let state = self.lock();
        let members = &state.members;
        let mut servers: BTreeMap<ServerId, ServerStatus> = BTreeMap::new();
        let status = |server: &ServerId| ServerStatus {
            name: server.name.to_string(),
            incarnation: server.incarnation,
            address: members.address(server).filter(|_| !members.is_away(server)).map(|address| address.to_string()),
            load: state.loads.of(server, now),
            ..ServerStatus::default()
        };
        for server in members.present() {
            servers.insert(server.clone(), status(&server));
        }
        for seat in &members.map().seats {
            if let Some(owner) = &seat.owner {
                servers.entry(owner.clone()).or_insert_with(|| status(owner)).partitions += 1;
            }
            if let Some(backup) = &seat.backup {
                servers.entry(backup.clone()).or_insert_with(|| status(backup)).copies += 1;
            }
        }
        (!servers.is_empty()).then(|| ServersStatus {
            epoch: members.map().epoch,
            servers: servers.into_values().collect(),
            unowned: members.map().seats.iter().filter(|seat| seat.owner.is_none()).count(),
            restorations: members.restorations().0,
            last_restoration: members.restorations().1.map(|cause| cause.message.clone()),
            redundant: members.is_redundant(),
            settled: members.is_settled(),
            checkpoints: self.checkpoint_status(&state),
            // Looked at behind the servers: no answer is of a step that the ledger has not taken yet.
            updates: state.updates.status(members, self.0.data.with_ledger(updates::Most::of)),
        })
    }

    /// The map by which all servers last went back together; 0 where they never did.
    pub fn rewound(&self) -> u64 {
        self.lock().members.rewound().0
    }

    /// Does something with the servers while nothing is decided.
    pub(crate) fn with_members<R>(&self, act: impl FnOnce(&PsMembers) -> R) -> R {
        act(&self.lock().members)
    }

    /// Decides something and writes it into the journal, before anybody else decides.
    fn decide<T>(&self, act: impl FnOnce(&mut PsMembers, Duration, &mut Vec<Fact>) -> T) -> Result<T, Cause> {
        self.decide_and_write(|members, now, facts| {
            let answer = act(members, now, facts);
            let written = (!facts.is_empty()).then(|| self.append(members, facts)).transpose();
            (answer, written)
        })
    }

    /// The same where what is decided is written in a way of its own; where it then stands, if there was anything.
    fn decide_and_write<T>(
        &self,
        act: impl FnOnce(&mut PsMembers, Duration, &mut Vec<Fact>) -> (T, Result<Option<Lsn>, JournalError>),
    ) -> Result<T, Cause> {
        let inner = &self.0;
        if !inner.journal.has_room() {
            let detail = "nothing can be written down at present; try again when the disk has room";
            return Err(Cause::new(Reason::JournalFull, detail));
        }
        let mut facts = Vec::new();
        let mode = self.mode();
        let mut state = self.lock();
        state.members.set_mode(mode);
        let (answer, written) = act(&mut state.members, inner.clock.now(), &mut facts);
        // What cannot be written down is decided all the same: this master ends, and the next one knows nothing of it.
        let written = written.map_err(|error| {
            let detail = error.to_string();
            inner.refused.send_if_modified(|refused| refused.replace(error).is_none());
            Cause::new(Reason::JournalFull, detail)
        })?;
        state.lsn = written.unwrap_or(state.lsn);
        drop(state);
        self.stir();
        tell(&facts);
        Ok(answer)
    }

    /// Writes facts down; where all servers go back, the data goes back in the same record.
    fn append(&self, members: &PsMembers, facts: &[Fact]) -> Result<Lsn, JournalError> {
        let journal = &self.0.journal;
        let rewound = facts.iter().find_map(|fact| match fact {
            Fact::Rewound { checkpoint, .. } => Some(*checkpoint),
            _ => None,
        });
        let Some(to) = rewound else { return journal.append(&records::encode_servers(facts)) };
        let ledger = to.and_then(|to| members.checkpoints().iter().find(|checkpoint| checkpoint.number == to));
        let ledger = ledger.map(|checkpoint| &*checkpoint.ledger);
        // What was closed before is open again, and nobody may hear otherwise behind the map that says so.
        self.0.closed.send_replace(Arc::default());
        let write = |data: &[_], skipped: Option<&_>| journal.append(&records::encode_both(facts, data, skipped));
        let wound = self.0.data.rewind_with(ledger, write);
        wound.map_err(|cause| JournalError::Contradiction(cause.to_string()))?
    }

    /// Something may have to be told.
    fn stir(&self) {
        self.0.stirred.send_modify(|count| *count += 1);
    }

    fn look(&self, state: &State) -> Told {
        let members = &state.members;
        let copies = members.present().map(|server| {
            let orders = members.orders(&server).into_iter().map(copy_order).collect();
            (server, orders)
        });
        let saves = members.present().filter_map(|server| {
            let order = members.save_order(&server)?;
            let known = members.checkpoints().last().map(|checkpoint| checkpoint.number);
            Some((server, saving::save_order(order, known)))
        });
        Told {
            steps: self.steps(state),
            saves: saves.collect(),
            checkpoints: self.checkpoint_place(members.has_to_look()),
            map: self.map(members),
            copies: copies.filter(|(_, orders): &(_, Vec<_>)| !orders.is_empty()).collect(),
            released: members.released().map(ToString::to_string).collect(),
            free: members.present().filter(|server| members.is_released(server)).collect(),
        }
    }

    fn map(&self, members: &PsMembers) -> wire::ServerMap {
        let Map { epoch, seats } = members.map();
        let mut places: BTreeMap<ServerId, u32> = BTreeMap::new();
        let mut servers = Vec::new();
        let mut place = |server: &ServerId| {
            *places.entry(server.clone()).or_insert_with(|| {
                servers.push(server_of(server, &members.address(server).unwrap_or_default()));
                (servers.len() - 1) as u32
            })
        };
        let mut seat = |seat: &Seat| wire::Seat {
            owner: seat.owner.as_ref().map(&mut place),
            backup: seat.backup.as_ref().map(&mut place),
            origin: seat.origin.number,
            since: seat.since.0,
            checkpoint: match seat.origin.source {
                Source::Initial => None,
                Source::Checkpoint(number) => Some(number),
            },
        };
        let seats = seats.iter().map(&mut seat).collect();
        let model = members.model().unwrap_or_default().to_owned();
        let (generation, rewound) = (self.0.generation.0, members.rewound().0);
        wire::ServerMap { generation, epoch: epoch.0, servers, seats, model, rewound }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn server_of(server: &ServerId, address: &str) -> wire::Server {
    wire::Server { name: server.name.to_string(), incarnation: server.incarnation, address: address.to_owned() }
}

fn copy_order(order: CopyOrder) -> wire::CopyOrder {
    let CopyOrder { partition, number, to, address, freeze } = order;
    wire::CopyOrder { partition: partition.0, number, to: Some(server_of(&to, &address)), freeze }
}

fn tell(facts: &[Fact]) {
    let (mut partitions, mut lost) = (0, 0);
    for fact in facts {
        match fact {
            Fact::Declared { model } => tracing::info!(model = model.len(), "the model is declared"),
            Fact::Mapped { epoch, seats, cause } => {
                tracing::info!(%epoch, partitions = seats.len(), %cause, "mapped");
            }
            Fact::Rewound { checkpoint, cause } => tracing::warn!(?checkpoint, %cause, "wound back"),
            Fact::Saving { checkpoint } => tracing::debug!(checkpoint, "is begun"),
            Fact::Saved { checkpoint, .. } => tracing::info!(checkpoint, "saved"),
            Fact::Spoiled { checkpoint, cause } => tracing::warn!(checkpoint, %cause, "is not used any more"),
            Fact::Answered { answered } => tracing::debug!(partitions = answered.len(), "answers are written down"),
            Fact::Lost { updates, .. } => (partitions, lost) = (partitions + 1, lost + updates),
        }
    }
    if lost > 0 {
        tracing::warn!(partitions, updates = lost, "lost updates");
    }
}

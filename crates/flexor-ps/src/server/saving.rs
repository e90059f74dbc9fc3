//! Checkpoints, the server's side: looking what there is, writing its part, sealing.
//!
//! The master says when; a server writes what it answers for and tells what it has written. Files are written on a
//! thread of their own, partition after partition, while training goes on.

mod telling;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flexor_wire::master::v1 as master;
use flexor_wire::master::v1::save_report::Result as Saved;
use flexor_wire::ps::v1 as wire;

use self::telling::Telling;
use super::Server;
use super::file_thread::on_a_file_thread;
use super::post::Role;
use super::restoring::TRIES;
use crate::checkpoint::{Checkpoint, CheckpointError, CheckpointId, Folder, Moment, Part, Storage};
use crate::checkpoint::{delete_unfinished, keep_last, list, write_manifest, write_part};
use crate::hosted::Hosted;
use crate::placement::PartitionId;

/// What training may change of a moment that is held until it is written, in bytes put aside.
const HELD: usize = 1 << 30;
/// How often it is said that writing gets on, before it begins.
const SAY_EVERY: Duration = Duration::from_secs(1);

impl Server {
    /// Takes over where checkpoints lie, and looks which there are.
    pub(super) fn look_for_checkpoints(&self, plan: &master::ServerPlan) {
        let Some(place) = &plan.checkpoints else { return };
        self.0.checkpoints.lock().get_or_insert_with(|| Arc::from(Path::new(&place.folder)));
        if place.look && !self.0.has_looked.swap(true, Ordering::AcqRel) {
            tokio::spawn(self.clone().look());
        }
    }

    async fn look(self) {
        let Some(folder) = self.checkpoint_folder() else { return };
        for attempt in 1.. {
            let folder = Folder::new(&*folder);
            let Some(found) = on_a_file_thread("list", "the checkpoints", move || look(&folder)).await else { return };
            let found = match found {
                Err(error) if attempt < TRIES.0 => {
                    tracing::warn!(%error, "it cannot be looked which checkpoints there are; tries again");
                    tokio::time::sleep(TRIES.1).await;
                    continue;
                }
                Err(error) => master::CheckpointsFound { unusable: error.to_string(), ..Default::default() },
                Ok(found) => found,
            };
            return self.report(master::from_server::Message::Found(found));
        }
    }

    /// Takes over what is to be written, since all servers last went back by the map `rewound`. Each order is carried out
    /// once, and one that is not in the plan any more was given up.
    pub(super) fn follow_saving(&self, hosted: &Arc<Hosted>, plan: &master::ServerPlan, rewound: u64) {
        self.0.wanted_save.store(plan.save.as_ref().map_or(0, |order| order.number), Ordering::Release);
        let (Some(order), Some(place)) = (&plan.save, &plan.checkpoints) else { return };
        let step = (order.number, order.seal.is_some());
        if self.0.saved.lock().replace(step) == Some(step) {
            return;
        }
        let (number, steps, hosted, keep) = (order.number, order.steps, Arc::clone(hosted), place.keep as usize);
        match order.seal.clone() {
            None => {
                let server = self.clone();
                tokio::spawn(async move {
                    server.when_begun(number).await;
                    // The step is told right behind the order, and no further one before the moment is held.
                    if let Some(steps) = steps
                        && server.when_taken(wire::AtStep { steps, rewound }).await.is_err()
                    {
                        let late = CheckpointError::NotThere { id: CheckpointId(number), steps };
                        return server.report(report(number, Err(late)));
                    }
                    server.on_a_thread(number, move |server, folder| {
                        server.write_part(folder, number, steps, &hosted).map(Saved::Part)
                    });
                });
            }
            Some(seal) => self.on_a_thread(number, move |_, folder| {
                write_seal(folder, number, &hosted, seal, keep).map(|()| Saved::Sealed(true))
            }),
        }
    }

    /// Waits until everything is here that is to be written: what is still being read from a checkpoint cannot be. Tells
    /// meanwhile that it gets on.
    async fn when_begun(&self, number: u64) {
        let is_here = || PartitionId::all().all(|id| !self.0.posts.lock(id).is_beginning);
        while tokio::time::timeout(SAY_EVERY, self.until(|| is_here() || !self.wants(number))).await.is_err() {
            self.report(save_report(number, Saved::Writing(true)));
        }
    }

    /// The folder for checkpoints.
    pub(super) fn checkpoint_folder(&self) -> Option<Arc<Path>> {
        self.0.checkpoints.lock().clone()
    }

    /// Does something for a checkpoint with files, and tells the master what came of it.
    fn on_a_thread(
        &self,
        number: u64,
        work: impl FnOnce(&Self, &Folder) -> Result<Saved, CheckpointError> + Send + 'static,
    ) {
        let Some(folder) = self.checkpoint_folder() else { return };
        let (server, worker) = (self.clone(), self.clone());
        tokio::spawn(async move {
            let work = move || work(&worker, &Folder::new(&*folder));
            if let Some(result) = on_a_file_thread("write", &CheckpointId(number).folder(), work).await {
                server.report(report(number, result));
            }
        });
    }

    /// Writes what this server answers for, as long as it is wanted.
    fn write_part(
        &self,
        storage: &dyn Storage,
        number: u64,
        steps: Option<u64>,
        hosted: &Hosted,
    ) -> Result<String, CheckpointError> {
        let given_up = || CheckpointError::GivenUp { id: CheckpointId(number) };
        if !self.wants(number) {
            return Err(given_up());
        }
        let written = self.write_all(storage, number, steps, hosted);
        written.map_err(|error| if self.wants(number) { error } else { given_up() })
    }

    fn wants(&self, number: u64) -> bool {
        self.0.wanted_save.load(Ordering::Acquire) == number
    }

    fn write_all(
        &self,
        storage: &dyn Storage,
        number: u64,
        steps: Option<u64>,
        hosted: &Hosted,
    ) -> Result<String, CheckpointError> {
        if let Err(error) = delete_unfinished(storage, CheckpointId(number)) {
            tracing::warn!(%error, "what is left of other attempts cannot be deleted");
        }
        let mine: Vec<PartitionId> =
            PartitionId::all().filter(|id| self.0.posts.lock(*id).role == Role::Owner).collect();
        let moment = match steps {
            None => Moment::Of(mine),
            Some(steps) => {
                let moment = Moment::hold(hosted, &mine, HELD);
                if moment.versions() != vec![steps; mine.len()] {
                    moment.release(hosted);
                    return Err(CheckpointError::NotThere { id: CheckpointId(number), steps });
                }
                self.report(save_report(number, Saved::Held(true)));
                moment
            }
        };
        let tell = || self.report(save_report(number, Saved::Writing(true)));
        let telling = Telling { storage, tell, is_wanted: || self.wants(number) };
        let part = write_part(&telling, CheckpointId(number), &self.name().name, hosted, moment)?;
        // Numbers, names and lists.
        Ok(serde_json::to_string(&part).unwrap_or_default())
    }
}

fn write_seal(
    folder: &Folder,
    number: u64,
    hosted: &Hosted,
    seal: master::Seal,
    keep: usize,
) -> Result<(), CheckpointError> {
    let id = CheckpointId(number);
    let parts: Result<Vec<Part>, serde_json::Error> =
        seal.parts.iter().map(|part| serde_json::from_str(part)).collect();
    let parts = parts.map_err(|error| CheckpointError::part(id, error))?;
    write_manifest(folder, id, hosted.layout().spec(), parts, seal.ledger.into_bytes())?;
    // The checkpoint is there, whether or not old ones can be deleted. The one that the master knows of stays until it has
    // heard of this one: it is what a lost server begins with.
    if let Err(error) = keep_last(folder, keep, seal.known.map(CheckpointId)) {
        tracing::warn!(%error, "checkpoints that are not needed any more cannot be deleted");
    }
    tracing::info!(checkpoint = number, "is whole");
    Ok(())
}

fn report(number: u64, result: Result<Saved, CheckpointError>) -> master::from_server::Message {
    let result = result.unwrap_or_else(|error| {
        if matches!(error, CheckpointError::GivenUp { .. }) {
            tracing::info!("{error}");
        } else {
            tracing::warn!(checkpoint = number, %error, "cannot be written");
        }
        Saved::Failure(error.to_string())
    });
    save_report(number, result)
}

fn save_report(number: u64, result: Saved) -> master::from_server::Message {
    master::from_server::Message::Save(master::SaveReport { number, result: Some(result) })
}

/// Looks for the latest checkpoint of which every byte is as it was written. One that the storage does not give is not
/// passed over: nobody knows what is in it.
fn look(folder: &Folder) -> Result<master::CheckpointsFound, CheckpointError> {
    let whole = list(folder)?;
    let mut found = master::CheckpointsFound { highest: highest(folder), ..master::CheckpointsFound::default() };
    for id in whole.into_iter().rev() {
        let read = Checkpoint::open(folder, id).and_then(|checkpoint| {
            checkpoint.verify()?;
            Ok((serde_json::to_string(&checkpoint.manifest().model), checkpoint.manifest().ledger.clone()))
        });
        match read {
            Ok((Ok(model), ledger)) => {
                let ledger = String::from_utf8_lossy(&ledger).into_owned();
                return Ok(master::CheckpointsFound { latest: Some(id.0), model, ledger, ..found });
            }
            Err(error) if error.may_pass() => return Err(error),
            Ok((Err(error), _)) => found.damaged.push(error.to_string()),
            Err(error) => found.damaged.push(error.to_string()),
        }
    }
    // To begin anew is for whoever runs the job to decide: what cannot be read here may be read elsewhere.
    if let Some(latest) = found.damaged.first() {
        found.unusable = format!("of {} checkpoints none can be read: {latest}", found.damaged.len());
    }
    Ok(found)
}

/// The highest number that a folder has, whether there is a checkpoint in it or not.
fn highest(folder: &Folder) -> u64 {
    let names = folder.list().unwrap_or_default();
    let numbers = names.iter().filter_map(|name| CheckpointId::of_folder(name.split_once('/')?.0));
    numbers.map(|id| id.0).max().unwrap_or(0)
}

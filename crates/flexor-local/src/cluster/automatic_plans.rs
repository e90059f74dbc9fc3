//! Plans that a job's master proposes: created like those of people, and kept for a while.

use flexor_control::Machines;
use flexor_dialects::dialect;
use flexor_engine::Cause;
use flexor_engine::controller::PlanStatus;
use flexor_model::{Plan, Quantity, Reason, Resources};

use super::job::PlanRecord;
use super::{Cluster, JobKey, State, now};
use crate::state_dir::StateDir;

/// So many automatic plans are kept.
const KEPT: u32 = 10;

impl Cluster {
    /// The cores and the room that all pods share.
    pub(crate) fn machines(&self) -> Machines {
        let cpus = self.0.options.cpus;
        let here = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64) * 1000;
        Machines {
            shared_millicores: Some(cpus.map_or(here, |cpus| super::scheduler::millis(cpus).min(here))),
            largest_node: cpus.map(|cpus: Quantity| ("cpu", cpus)).into_iter().collect::<Resources>(),
        }
    }
}

impl State {
    /// Creates a plan of a job's master. Nothing is done if it exists.
    pub(super) fn add_automatic_plan(&mut self, state_dir: &StateDir, key: &JobKey, number: u32, mut plan: Plan) {
        let Some(record) = self.jobs.get_mut(key) else { return };
        plan.namespace = Some(key.namespace.clone());
        let manifest = dialect(&record.job.dialect).and_then(|dialect| dialect.plan_manifest(&plan, &key.namespace));
        let Some(manifest) = manifest.filter(|_| record.plans.iter().all(|known| known.plan.name != plan.name)) else {
            return;
        };
        let oldest =
            number.checked_sub(KEPT).map(|number| flexor_control::automatic_plan_name(key.name.as_str(), number));
        let plan = PlanRecord { manifest, plan, created_at: now(), status: PlanStatus::default() };
        let added = record.change(state_dir, |record| {
            record.plans.retain(|known| Some(known.plan.name.as_str()) != oldest.as_deref());
            record.plans.push(plan);
        });
        if let Err(error) = added {
            tracing::warn!(job = %key, %error, "a plan of the master cannot be written down; it is proposed again");
        }
    }

    /// Writes into an automatic plan what it has brought.
    pub(super) fn note_plan_result(&mut self, state_dir: &StateDir, key: &JobKey, number: u32, message: String) {
        let name = flexor_control::automatic_plan_name(key.name.as_str(), number);
        let Some(record) = self.jobs.get_mut(key) else { return };
        let cause = Cause::new(Reason::PlanMeasured, format!("{name}: {message}"));
        let is_new =
            |known: &&PlanRecord| known.plan.name.as_str() == name && known.status.cause.as_ref() != Some(&cause);
        if record.plans.iter().find(is_new).is_none() {
            return;
        }
        let noted = record.change(state_dir, |record| {
            let of_name = record.plans.iter_mut().find(|known| known.plan.name.as_str() == name);
            of_name.into_iter().for_each(|known| known.status.cause = Some(cause.clone()));
        });
        if noted.is_ok() {
            self.record_event(key, None, cause);
        }
    }
}

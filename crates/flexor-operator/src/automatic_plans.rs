//! Plans that a job's master proposes: created as objects like those of people, and kept for a while.

use flexor_control::automatic_plan_name;
use flexor_dialects::PlanStatusInput;
use flexor_engine::Cause;
use flexor_engine::controller::{ObservedPlan, PlanStatus};
use flexor_model::{Plan, PlanOrigin, Reason};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, PostParams};

use crate::executor::JobExecutor;
use crate::refusal;
use crate::status_patch;

/// So many automatic plans are kept.
const KEPT: u32 = 10;
/// So many are deleted in one pass. What is left follows in the pass that these deletions cause.
const MOST_DELETED: usize = 10;

/// What the master of a job has said of its plans.
#[derive(Debug, Clone, Default)]
pub(crate) struct MasterPlans {
    /// The plan that it wants, by its number.
    pub(crate) proposed: Option<(u32, Plan)>,
    /// What the plan of a number has brought.
    pub(crate) result: Option<(u32, String)>,
}

/// Creates the plan that the master wants, unless it exists, writes down what the last one has brought, and deletes
/// those that are too old.
pub(crate) async fn carry_out(executor: &JobExecutor<'_>, plans: MasterPlans) -> Result<(), kube::Error> {
    let Some(resource) = executor.plan_resource else { return Ok(()) };
    let api = Api::namespaced_with(executor.shared.client.clone(), executor.namespace.as_str(), resource);
    if let Some((number, message)) = plans.result {
        note_result(executor, &api, number, &message).await?;
    }
    if let Some((_, plan)) = &plans.proposed {
        create(executor, &api, plan).await?;
    }
    let known = executor.plans.iter().map(|(plan, _, _)| plan);
    for name in outdated(&executor.name, plans.proposed.map(|(number, _)| number), known) {
        match api.delete(&name, &DeleteParams::default()).await {
            // The cache is behind.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted?),
        }
    }
    Ok(())
}

async fn create(executor: &JobExecutor<'_>, api: &Api<DynamicObject>, plan: &Plan) -> Result<(), kube::Error> {
    let exists = executor.plans.iter().any(|(known, _, _)| known.plan.name == plan.name);
    let manifest = executor.events.dialect.plan_manifest(plan, &executor.namespace);
    let Some(manifest) = manifest.filter(|_| !exists) else { return Ok(()) };
    let object: DynamicObject = serde_json::from_value(manifest).map_err(kube::Error::SerdeError)?;
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if refusal::is_conflict(&status) => {}
        created => {
            created?;
            tracing::info!(job = executor.name, namespace = %executor.namespace, plan = %plan.name, "creates a plan of the master");
        }
    }
    Ok(())
}

/// The names of a job's automatic plans that are over and are not among the last ones, the oldest first. Decided from
/// all plans that exist: an operator that was killed between a plan and a deletion leaves none for ever.
fn outdated<'a>(job: &str, proposed: Option<u32>, known: impl Iterator<Item = &'a ObservedPlan>) -> Vec<String> {
    let automatic = known.filter(|plan| plan.plan.origin == PlanOrigin::Auto);
    let mut numbered: Vec<(u32, &ObservedPlan)> =
        automatic.filter_map(|plan| Some((number_of(job, plan.plan.name.as_str())?, plan))).collect();
    numbered.sort_unstable_by_key(|(number, _)| *number);
    let Some(newest) = numbered.last().map(|(number, _)| *number).max(proposed) else { return Vec::new() };
    let is_outdated = |number: u32, plan: &ObservedPlan| newest - number >= KEPT && plan.status.phase.is_over();
    let outdated = numbered.into_iter().filter(|(number, plan)| is_outdated(*number, plan));
    outdated.take(MOST_DELETED).map(|(number, _)| automatic_plan_name(job, number)).collect()
}

/// The number of a job's automatic plan.
fn number_of(job: &str, plan: &str) -> Option<u32> {
    let number = plan.strip_prefix(job)?.strip_prefix("-auto-")?.parse().ok()?;
    (automatic_plan_name(job, number) == plan).then_some(number)
}

async fn note_result(
    executor: &JobExecutor<'_>,
    api: &Api<DynamicObject>,
    number: u32,
    message: &str,
) -> Result<(), kube::Error> {
    let name = automatic_plan_name(&executor.name, number);
    let Some((plan, version, generation)) =
        executor.plans.iter().find(|(plan, _, _)| plan.plan.name.as_str() == name && plan.status.phase.is_over())
    else {
        return Ok(());
    };
    let cause = Cause::new(Reason::PlanMeasured, format!("{name}: {message}"));
    if plan.status.cause.as_ref() == Some(&cause) {
        return Ok(());
    }
    let status = PlanStatus { cause: Some(cause.clone()), ..plan.status.clone() };
    let input = PlanStatusInput { status: &status, created_at: plan.created_at, generation: *generation };
    let Some(json) = executor.events.dialect.plan_status(input) else { return Ok(()) };
    status_patch::write(api, &name, version, &json).await?;
    let event = flexor_engine::controller::Event { pod: None, cause };
    executor.events.record(executor.shared, &event);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use flexor_engine::controller::PlanPhase;
    use flexor_model::UnixTime;

    use super::*;

    fn plan(name: &str, origin: PlanOrigin, phase: PlanPhase) -> ObservedPlan {
        let plan = Plan {
            name: name.parse().unwrap(),
            namespace: None,
            job: "j".parse().unwrap(),
            origin,
            roles: BTreeMap::new(),
            create: Vec::new(),
            remove: Vec::new(),
            migrate: Vec::new(),
            gives_back: false,
            message: String::new(),
            server_addresses: Vec::new(),
        };
        let status = PlanStatus { phase, ..PlanStatus::default() };
        ObservedPlan { plan, created_at: UnixTime::default(), status }
    }

    fn done(numbers: impl IntoIterator<Item = u32>) -> Vec<ObservedPlan> {
        let plan = |number: u32| plan(&format!("j-auto-{number}"), PlanOrigin::Auto, PlanPhase::Succeeded);
        numbers.into_iter().map(plan).collect()
    }

    fn names(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
        numbers.into_iter().map(|number| format!("j-auto-{number}")).collect()
    }

    #[test]
    fn the_last_ten_plans_are_kept() {
        assert_eq!(outdated("j", None, [].iter()), names([]));
        assert_eq!(outdated("j", None, done(0..10).iter()), names([]));
        // The cache does not have the plan yet that was just created.
        assert_eq!(outdated("j", Some(10), done(0..10).iter()), names([0]));
        assert_eq!(outdated("j", Some(10), done(0..11).iter()), names([0]));
    }

    #[test]
    fn plans_that_an_operator_left_are_deleted_in_bounded_passes_the_oldest_first() {
        let mut known = done((0..40).rev());
        let mut passes = Vec::new();
        loop {
            let deleted = outdated("j", Some(39), known.iter());
            if deleted.is_empty() {
                break;
            }
            known.retain(|plan| !deleted.contains(&plan.plan.name.to_string()));
            passes.push(deleted);
        }
        assert_eq!(passes, [names(0..10), names(10..20), names(20..30)]);
        // With gaps it is the number that counts.
        assert_eq!(outdated("j", None, done([3, 17, 26]).iter()), names([3]));
        // A proposal that was carried out long ago.
        assert_eq!(outdated("j", Some(2), done(0..10).iter()), names([]));
    }

    #[test]
    fn plans_that_run_and_plans_of_people_are_left_alone() {
        let (auto, manual) = (PlanOrigin::Auto, PlanOrigin::Manual);
        let known = [
            plan("j-auto-0", auto, PlanPhase::Scaling),
            plan("j-auto-1", auto, PlanPhase::Pending),
            plan("j-auto-2", manual, PlanPhase::Succeeded),
            plan("j-auto-03", auto, PlanPhase::Succeeded),
            plan("jj-auto-4", auto, PlanPhase::Succeeded),
            plan("mine", auto, PlanPhase::Succeeded),
            plan("j-auto-5", auto, PlanPhase::Failed),
            plan("j-auto-90", manual, PlanPhase::Succeeded),
        ];
        assert_eq!(outdated("j", None, known.iter()), names([]), "the newest is number 5");
        assert_eq!(outdated("j", Some(30), known.iter()), names([5]));
    }
}

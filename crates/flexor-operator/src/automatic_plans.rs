//! Plans that a job's master proposes: created as objects like those of people, and kept for a while.

use flexor_control::automatic_plan_name;
use flexor_dialects::PlanStatusInput;
use flexor_engine::Cause;
use flexor_engine::controller::PlanStatus;
use flexor_model::{Plan, Reason};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, PostParams};

use crate::executor::JobExecutor;
use crate::refusal;
use crate::status_patch;

/// So many automatic plans are kept.
const KEPT: u32 = 10;

/// What the master of a job has said of its plans.
#[derive(Debug, Clone, Default)]
pub(crate) struct MasterPlans {
    /// The plan that it wants, by its number.
    pub(crate) proposed: Option<(u32, Plan)>,
    /// What the plan of a number has brought.
    pub(crate) result: Option<(u32, String)>,
}

/// Creates the plan that the master wants, unless it exists, and writes down what the last one has brought.
pub(crate) async fn carry_out(executor: &JobExecutor<'_>, plans: MasterPlans) -> Result<(), kube::Error> {
    let Some(resource) = executor.plan_resource else { return Ok(()) };
    let api = Api::namespaced_with(executor.shared.client.clone(), executor.namespace.as_str(), resource);
    if let Some((number, message)) = plans.result {
        note_result(executor, &api, number, &message).await?;
    }
    let Some((number, plan)) = plans.proposed else { return Ok(()) };
    let exists = executor.plans.iter().any(|(known, _, _)| known.plan.name == plan.name);
    let manifest = executor.events.dialect.plan_manifest(&plan, &executor.namespace);
    let Some(manifest) = manifest.filter(|_| !exists) else { return Ok(()) };
    let object: DynamicObject = serde_json::from_value(manifest).map_err(kube::Error::SerdeError)?;
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if refusal::is_conflict(&status) => {}
        created => {
            created?;
            tracing::info!(job = executor.name, namespace = %executor.namespace, plan = %plan.name, "creates a plan of the master");
        }
    }
    let Some(oldest) = number.checked_sub(KEPT) else { return Ok(()) };
    match api.delete(&automatic_plan_name(&executor.name, oldest), &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.map(|_| ()),
    }
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

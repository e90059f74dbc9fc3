//! The job or the plan of a document in the text output: a table of roles, or the steps of the plan.

use comfy_table::{Table, presets};
use flexor_model::{Job, Plan, PlanOrigin, Resources, Role, RoleChange, Sizing};

use super::{on_one_line, plural};

/// A line about the job and a table of its roles.
pub fn job(job: &Job) -> String {
    let strategy = job.strategy.as_str();
    let sizing = match job.sizing {
        Sizing::Manual => "sized by the user",
        Sizing::Job => "sized by its master",
        Sizing::Cluster => "sized by the cluster planner",
    };
    let ceiling = quantities(&job.ceiling).map(|ceiling| format!(", at most {ceiling} in total")).unwrap_or_default();
    let suspended = if job.suspended { ", suspended" } else { "" };
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["ROLE", "KIND", "REPLICAS", "RANGE", "AUTO", "REQUESTS", "IMAGE"]);
    for role in &job.roles {
        table.add_row([
            role.name.to_string(),
            role.kind.as_str().to_owned(),
            role.size.initial().to_string(),
            role.size.allowed().to_string(),
            role.size.automatically().map_or_else(nothing, |range| range.to_string()),
            quantities(&role.template.requests()).unwrap_or_else(nothing),
            image(role),
        ]);
    }
    let rows: String = table.lines().map(|line| format!("   {}\n", line.trim_end())).collect();
    format!("{strategy} job, {sizing}{ceiling}{suspended}\n{rows}")
}

/// A line about the plan and one for each step.
pub fn plan(plan: &Plan) -> String {
    let origin = match plan.origin {
        PlanOrigin::Manual => "manual",
        PlanOrigin::Auto => "automatic",
    };
    let mut steps = Vec::new();
    for (role, change) in &plan.roles {
        steps.push(format!("{role}: {}", size(change)));
    }
    for pod in &plan.create {
        let name = pod.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        steps.push(format!("create {} pod{name}{}", pod.role, with(&pod.resources)));
    }
    for pod in &plan.remove {
        steps.push(format!("remove pod {pod}"));
    }
    for migration in &plan.migrate {
        let size = quantities(&migration.resources).map(|quantities| format!(" to {quantities}")).unwrap_or_default();
        steps.push(format!("migrate pod {}{size}", migration.pod));
    }
    if !plan.server_addresses.is_empty() {
        steps.push(format!("parameter servers: {}", on_one_line(&plan.server_addresses.join(", "))));
    }
    if steps.is_empty() {
        steps.push("changes nothing".to_owned());
    }
    let steps: String = steps.iter().map(|step| format!("    {step}\n")).collect();
    format!("{origin} plan for job {}\n{steps}", plan.job)
}

/// The image that the pods of a role run.
fn image(role: &Role) -> String {
    if role.has_rendered_command() {
        return "flexor".to_owned();
    }
    role.template.main().image().map_or_else(nothing, on_one_line)
}

fn size(change: &RoleChange) -> String {
    let replicas = change.replicas.map(|n| plural(n as usize, "replica"));
    match (replicas, quantities(&change.resources)) {
        (Some(replicas), Some(each)) => format!("{replicas} with {each} each"),
        (Some(replicas), None) => replicas,
        (None, Some(each)) => format!("{each} for each replica"),
        (None, None) => "unchanged".to_owned(),
    }
}

fn with(resources: &Resources) -> String {
    quantities(resources).map(|quantities| format!(" with {quantities}")).unwrap_or_default()
}

fn quantities(resources: &Resources) -> Option<String> {
    (!resources.is_empty()).then(|| on_one_line(&resources.to_string()))
}

fn nothing() -> String {
    "-".to_owned()
}

//! The variables that programs written for PaddlePaddle EDL read.

use flexor_model::{EnvRule, MainContainer, Quantity, env};

use super::{TrainingJobSpec, image, naming};

/// The variables of all pods. `trainer` is the trainers' main container.
pub(super) fn of(spec: &TrainingJobSpec, trainer: MainContainer<'_>) -> Vec<EnvRule> {
    let entry = spec.trainer.entrypoint.as_deref().unwrap_or_default();
    let gpus = trainer.limits().gpu().map_or(0, |(_, count)| count.ceil());
    let cores = trainer.requests().cpu().map_or(1, Quantity::ceil);
    vec![
        EnvRule::text("PADDLE_JOB_NAME", "{job}"),
        EnvRule::literal("TRAINERS", spec.trainer.min_instance),
        EnvRule::literal("PSERVERS", spec.pserver.as_ref().map_or(0, |pserver| pserver.min_instance)),
        EnvRule::literal("ENTRY", entry),
        EnvRule::literal("TOPOLOGY", entry),
        EnvRule::literal("TRAINER_PACKAGE", spec.trainer.workspace.as_deref().unwrap_or_default()),
        EnvRule::literal("PADDLE_INIT_PORT", naming::first_port(spec)),
        EnvRule::literal("PADDLE_INIT_TRAINER_COUNT", if gpus > 0 { gpus } else { cores }),
        EnvRule::literal("PADDLE_INIT_PORTS_NUM", spec.ports_num.unwrap_or(1)),
        EnvRule::literal("PADDLE_INIT_PORTS_NUM_FOR_SPARSE", spec.ports_num_for_sparse.unwrap_or(1)),
        EnvRule::literal("PADDLE_INIT_NUM_GRADIENT_SERVERS", spec.trainer.min_instance),
        EnvRule::literal("PADDLE_INIT_NUM_PASSES", passes(spec).unwrap_or(1)),
        EnvRule::literal("PADDLE_INIT_USE_GPU", i32::from(gpus > 0)),
        EnvRule::literal("LD_LIBRARY_PATH", "/usr/local/cuda/lib64"),
        EnvRule::pod_field("NAMESPACE", "metadata.namespace"),
        EnvRule::pod_field("POD_IP", "status.podIP"),
    ]
}

/// What trainers that are `flexor worker` take for `--epochs`, where the job says it.
pub(super) fn epochs(spec: &TrainingJobSpec) -> Option<EnvRule> {
    let passes = passes(spec).filter(|_| !image::has_paddle_k8s(spec));
    passes.map(|passes| EnvRule::literal(env::EPOCHS.name, passes))
}

fn passes(spec: &TrainingJobSpec) -> Option<i32> {
    spec.passes.or(spec.trainer.passes)
}

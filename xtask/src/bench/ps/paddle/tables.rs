//! The tables of PaddlePaddle's server in protobuf text format, as its own trainers describe them.

use super::super::case::{Case, Optimizer};

/// Rows without a push.
pub(super) const NEW: u32 = 0;
/// Rows that pulls and pushes go to.
pub(super) const PRESENT: u32 = 1;

/// The number of shards of a table. A request is a task for each, whatever it asks for: measured with one client, the
/// 1,000 that fleet sets cost the server three to twelve times as much CPU per row; fewer than 8 gained nothing clear.
const SHARDS: u32 = 8;

/// The server's configuration at its start.
pub(super) fn description(case: &Case) -> String {
    let (dim, rule) = (case.dim, rule(case.optimizer));
    let table = |id: u32| {
        format!(
            r#"downpour_table_param {{
                table_id: {id} table_class: "MemorySparseTable" type: PS_SPARSE_TABLE shard_num: {SHARDS}
                accessor {{
                    accessor_class: "SparseAccessor" fea_dim: {} embedx_dim: {} embedx_threshold: 0
                    embed_sgd_param {{ {rule} }} embedx_sgd_param {{ {rule} }}
                }}
            }}"#,
            dim + 2,
            dim - 1
        )
    };
    format!(
        r#"server_param {{ downpour_server_param {{
            {} {}
            service_param {{
                server_class: "BrpcPsServer" client_class: "BrpcPsClient" service_class: "BrpcPsService"
            }}
        }} }}"#,
        table(NEW),
        table(PRESENT)
    )
}

/// The rule by its name: fleet's own choice is Adam whatever the trainer asks for.
fn rule(optimizer: Optimizer) -> String {
    let (name, of, arguments) = match optimizer {
        Optimizer::Sgd => ("SparseNaiveSGDRule", "naive", "learning_rate: 0.1"),
        // One sum for each weight; that of the plain name has one for the row.
        Optimizer::Adagrad => ("StdAdaGradSGDRule", "adagrad", "learning_rate: 0.1"),
        Optimizer::Adam => (
            "SparseAdamSGDRule",
            "adam",
            "learning_rate: 0.001 beta1_decay_rate: 0.9 beta2_decay_rate: 0.999 ada_epsilon: 1e-7",
        ),
    };
    // The bounds are fleet's.
    format!(r#"name: "{name}" {of} {{ {arguments} initial_range: 0.05 weight_bounds: -10 weight_bounds: 10 }}"#)
}

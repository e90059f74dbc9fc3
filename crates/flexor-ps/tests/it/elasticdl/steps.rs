//! Application of gradients: asynchronous, synchronous, and with optimizer slots.

use flexor_ps::elasticdl::Mode;
use flexor_ps::spec::Optimizer;
use flexor_wire::ps::v1::parameter_server_client::ParameterServerClient;

use super::loopback_server::{ASYNC, LoopbackServer, dense, rows, sync, tensor};

fn ones(sides: &[i64]) -> flexor_wire::elasticdl::TensorProto {
    tensor(sides, &vec![1.0; sides.iter().product::<i64>() as usize])
}

#[tokio::test]
async fn four_pushes_are_one_step() {
    let mut server = LoopbackServer::new(Optimizer::sgd(0.1), sync(4, 0)).await;
    assert!(!server.pull_dense(-1).await.initialized);
    server.push_model(dense("w:0", ones(&[2, 2]))).await.unwrap();
    for _ in 0..3 {
        assert_eq!(server.push(0, dense("w:0", ones(&[2, 2]))).await.unwrap(), (true, 0));
        assert_eq!(server.variable("w:0").await, [1.0; 4]);
    }
    assert_eq!(server.push(0, dense("w:0", ones(&[2, 2]))).await.unwrap(), (true, 1));
    assert_eq!(server.variable("w:0").await, [0.9; 4]);
    assert_eq!(server.push(-100, dense("w:0", ones(&[2, 2]))).await.unwrap(), (false, 1));
    assert_eq!(server.push(0, dense("w:0", ones(&[2, 2]))).await.unwrap(), (false, 1));
    assert_eq!(server.variable("w:0").await, [0.9; 4]);
    // The next step starts empty.
    for version in [1, 1, 1, 2] {
        assert_eq!(server.push(1, dense("w:0", ones(&[2, 2]))).await.unwrap(), (true, version));
    }
    assert_eq!(server.variable("w:0").await, [0.9 - 0.1; 4]);
}

#[tokio::test]
async fn a_step_averages_variables_and_adds_rows() {
    let mut server = LoopbackServer::new(Optimizer::sgd(0.5), sync(2, 3)).await;
    server.push_infos(&[("e", 2, "zeros")]).await.unwrap();
    server.push_model(dense("w:0", ones(&[2]))).await.unwrap();
    let mut first = rows("e", &[5, 6], tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0]));
    first.dense_parameters = dense("w:0", tensor(&[2], &[1.0, 3.0])).dense_parameters;
    let mut second = rows("e", &[6], tensor(&[1, 2], &[10.0, 20.0]));
    second.dense_parameters = dense("w:0", tensor(&[2], &[3.0, 5.0])).dense_parameters;
    assert_eq!(server.push(0, first).await.unwrap(), (true, 0));
    assert_eq!(server.push(-3, second).await.unwrap(), (true, 1));
    assert_eq!(server.variable("w:0").await, [1.0 - 0.5 * 2.0, 1.0 - 0.5 * 4.0]);
    assert_eq!(server.rows("e", &[5, 6]).await.unwrap(), [vec![-0.5, -1.0], vec![-6.5, -12.0]]);
}

#[tokio::test]
async fn the_first_model_wins_and_an_up_to_date_worker_is_sent_nothing() {
    let mut server = LoopbackServer::new(Optimizer::sgd(0.1), ASYNC).await;
    server.push_model(dense("w:0", ones(&[2]))).await.unwrap();
    server.push_model(dense("w:0", tensor(&[2], &[7.0, 7.0]))).await.unwrap();
    let pulled = server.pull_dense(-1).await;
    assert!(pulled.initialized && pulled.version == 0 && pulled.dense_parameters.len() == 1);
    assert_eq!(server.variable("w:0").await, [1.0, 1.0]);
    assert!(server.pull_dense(0).await.dense_parameters.is_empty());
    assert_eq!(server.push(0, dense("w:0", ones(&[2]))).await.unwrap(), (true, 1));
    // A worker ahead of a restarted server gets all values too.
    assert_eq!(server.pull_dense(9).await.dense_parameters.len(), 1);
    let mut brought = LoopbackServer::new(Optimizer::sgd(0.1), ASYNC).await;
    let model = flexor_wire::elasticdl::Model { version: 12, ..dense("w:0", ones(&[2])) };
    brought.push_model(model).await.unwrap();
    assert_eq!(brought.pull_dense(-1).await.version, 12);
}

#[tokio::test]
async fn staleness_divides_the_learning_rate_of_asynchronous_pushes_if_modulated() {
    let mut server = LoopbackServer::new(Optimizer::sgd(1.0), Mode::Async { modulates_rate: true }).await;
    server.push_model(dense("w:0", tensor(&[1], &[0.0]))).await.unwrap();
    for version in 0..4 {
        assert_eq!(server.push(version, dense("w:0", ones(&[1]))).await.unwrap(), (true, version + 1));
    }
    assert_eq!(server.variable("w:0").await, [-4.0]);
    server.push(0, dense("w:0", ones(&[1]))).await.unwrap();
    assert_eq!(server.variable("w:0").await, [-4.25]);
    server.push_at_rate(0, 10.0, dense("w:0", ones(&[1]))).await.unwrap();
    assert_eq!(server.variable("w:0").await, [-6.25]);
}

#[tokio::test]
async fn rows_of_a_variable_move_alone() {
    let mut server = LoopbackServer::new(Optimizer::sgd(1.0), ASYNC).await;
    // Rows of 48,000 elements: the second lies in two slices.
    let (rows_of, width) = (3, 48_000);
    server.push_model(dense("small:0", tensor(&[rows_of, width], &vec![0.0; 3 * 48_000]))).await.unwrap();
    let gradient: Vec<f32> = (0..2 * 48_000).map(|i| if i < 48_000 { 1.0 } else { 2.0 }).collect();
    server.push(0, rows("small:0", &[1, 1], tensor(&[2, width], &gradient))).await.unwrap();
    let moved = server.variable("small:0").await;
    assert!(moved[..48_000].iter().chain(&moved[96_000..]).all(|value| *value == 0.0));
    assert!(moved[48_000..96_000].iter().all(|value| *value == -3.0));
}

/// The change of a weight after `steps` steps with the same gradient, in double precision.
fn closed_form(optimizer: Optimizer, gradient: f64, steps: i32) -> f64 {
    let (mut weight, mut m, mut v) = (0.0, 0.0, 0.0);
    for t in 1..=steps {
        match optimizer {
            Optimizer::Adam { learning_rate, beta1, beta2, epsilon } => {
                let [rate, beta1, beta2, epsilon] = [learning_rate, beta1, beta2, epsilon].map(f64::from);
                m = beta1 * m + (1.0 - beta1) * gradient;
                v = beta2 * v + (1.0 - beta2) * gradient * gradient;
                weight -= rate * (1.0 - beta2.powi(t)).sqrt() / (1.0 - beta1.powi(t)) * m / (v.sqrt() + epsilon);
            }
            Optimizer::Adagrad { learning_rate, epsilon, initial_accumulator } => {
                v += gradient * gradient;
                let root = (f64::from(initial_accumulator) + v).sqrt();
                weight -= f64::from(learning_rate) * gradient / (root + f64::from(epsilon));
            }
            Optimizer::Sgd { learning_rate, momentum, nesterov } => {
                let [rate, momentum] = [learning_rate, momentum].map(f64::from);
                v = momentum * v + gradient;
                weight -= rate * if nesterov { gradient + momentum * v } else { v };
            }
        }
    }
    weight
}

#[tokio::test]
async fn slots_of_rows_start_at_their_initial_value_and_steps_are_exact() {
    const COUNT: usize = 1000;
    let ids: Vec<i64> = (0..COUNT as i64).collect();
    let optimizers = [
        ("Adam", "learning_rate=0.1;beta_1=0.9;beta_2=0.999;epsilon=1e-07;amsgrad=False;"),
        ("Adagrad", "learning_rate=0.1;epsilon=1e-07;"),
        ("Adagrad", "learning_rate=0.1;epsilon=1e-07;initial_accumulator_value=0.1;"),
        ("SGD", "learning_rate=0.1;momentum=0.9;nesterov=True;"),
    ];
    for (kind, arguments) in optimizers {
        let optimizer = Optimizer::from_elasticdl(kind, arguments).unwrap();
        let mut server = LoopbackServer::new(optimizer, ASYNC).await;
        server.push_infos(&[("e", 8, "uniform")]).await.unwrap();
        let began = server.rows("e", &ids).await.unwrap();
        for steps in 1..=5 {
            let gradients = rows("e", &ids, tensor(&[COUNT as i64, 8], &vec![0.01; COUNT * 8]));
            server.push(steps - 1, gradients).await.unwrap();
            let wanted = closed_form(optimizer, 0.01, steps);
            for (row, began) in server.rows("e", &ids).await.unwrap().iter().zip(&began) {
                for (value, began) in row.iter().zip(began) {
                    let moved = f64::from(*value) - f64::from(*began);
                    assert!((moved - wanted).abs() < 2e-7 * f64::from(steps), "{arguments} {steps}: {moved} {wanted}");
                }
            }
        }
    }
}

#[tokio::test]
async fn five_steps_of_adam_match_elasticdl() {
    let mut server = LoopbackServer::new(Optimizer::adam(0.1), ASYNC).await;
    server.push_infos(&[("e", 4, "zeros")]).await.unwrap();
    for version in 0..5 {
        server.push(version, rows("e", &[3], ones(&[1, 4]))).await.unwrap();
    }
    for value in &server.rows("e", &[3]).await.unwrap()[0] {
        assert!((value + 0.499_999_02).abs() < 1e-6, "{value}");
    }
}

#[tokio::test]
async fn native_calls_are_rejected_with_the_reason() {
    let server = LoopbackServer::new(Optimizer::sgd(0.1), ASYNC).await;
    let mut native = ParameterServerClient::connect(server.address()).await.unwrap();
    let refused = native.replicate(tokio_stream::empty()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    assert!(
        refused.message().contains("no partition can move") && refused.message().contains("--checkpoint-dir-for-init")
    );
    let refused = native.work(tokio_stream::empty()).await.unwrap_err();
    assert!(refused.message().contains("native workers cannot train with it"));
}

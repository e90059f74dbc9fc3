//! Pulls of variables and of rows.

use flexor_ps::spec::Optimizer;

use super::served::{ASYNC, Served, dense, tensor};

#[tokio::test]
async fn a_pull_is_counted_once_whatever_it_is_of() {
    let mut served = Served::new(Optimizer::sgd(0.1), ASYNC).await;
    served.push_infos(&[("e", 4, "zeros"), ("f", 2, "zeros")]).await.unwrap();
    served.pull_dense(-1).await;
    assert_eq!(served.server.parameters().load().pulls, 0, "there is nothing to be pulled yet");
    let mut model = dense("w:0", tensor(&[2], &[1.0; 2]));
    model.dense_parameters.extend(dense("v:0", tensor(&[3], &[1.0; 3])).dense_parameters);
    served.push_model(model).await.unwrap();
    served.pull_dense(-1).await;
    served.rows("e", &[1, 2, 3]).await.unwrap();
    served.rows("f", &[1]).await.unwrap();
    let load = served.server.parameters().load();
    assert_eq!((load.pulls, load.rows_pulled), (3, 4));
}

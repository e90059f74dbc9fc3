//! Pulls of variables and of rows.

use flexor_ps::spec::{MAX_DIM, Optimizer};
use tonic::Code;

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

#[tokio::test]
async fn rows_that_no_message_could_carry_are_refused_and_none_is_made() {
    let mut served = Served::new(Optimizer::sgd(0.1), ASYNC).await;
    served.push_infos(&[("wide", MAX_DIM.into(), "zeros")]).await.unwrap();
    let ids: Vec<i64> = (0..1024).collect();
    let status = served.rows("wide", &ids).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert!(status.message().contains("and a message has at most 268435456"), "{status:?}");
    assert_eq!(served.server.parameters().load().rows, 0);
    assert_eq!(served.rows("wide", &ids[..1]).await.unwrap(), [vec![0.0; MAX_DIM as usize]]);
}

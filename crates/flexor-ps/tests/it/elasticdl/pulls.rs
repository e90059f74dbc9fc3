//! Pulls of variables and of rows.

use flexor_ps::spec::{MAX_DIM, Optimizer};
use tonic::Code;

use super::loopback_server::{ASYNC, LoopbackServer, dense, tensor};

#[tokio::test]
async fn every_kind_of_pull_is_counted_once() {
    let mut server = LoopbackServer::new(Optimizer::sgd(0.1), ASYNC).await;
    server.push_infos(&[("e", 4, "zeros"), ("f", 2, "zeros")]).await.unwrap();
    server.pull_dense(-1).await;
    assert_eq!(server.server.parameters().load().pulls, 0, "the model is not initialized yet");
    let mut model = dense("w:0", tensor(&[2], &[1.0; 2]));
    model.dense_parameters.extend(dense("v:0", tensor(&[3], &[1.0; 3])).dense_parameters);
    server.push_model(model).await.unwrap();
    server.pull_dense(-1).await;
    server.rows("e", &[1, 2, 3]).await.unwrap();
    server.rows("f", &[1]).await.unwrap();
    let load = server.server.parameters().load();
    assert_eq!((load.pulls, load.rows_pulled), (3, 4));
}

#[tokio::test]
async fn a_pull_above_the_message_limit_is_rejected_and_creates_no_rows() {
    let mut server = LoopbackServer::new(Optimizer::sgd(0.1), ASYNC).await;
    server.push_infos(&[("wide", MAX_DIM.into(), "zeros")]).await.unwrap();
    let ids: Vec<i64> = (0..1024).collect();
    let status = server.rows("wide", &ids).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert!(status.message().contains("and a message has at most 268435456"), "{status:?}");
    assert_eq!(server.server.parameters().load().rows, 0);
    assert_eq!(server.rows("wide", &ids[..1]).await.unwrap(), [vec![0.0; MAX_DIM as usize]]);
}

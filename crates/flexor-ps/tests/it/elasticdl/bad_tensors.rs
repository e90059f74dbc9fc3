//! Tensors that crash ElasticDL's own server, or that it applies partly, are rejected here and change nothing.

use flexor_ps::spec::Optimizer;
use flexor_wire::elasticdl as wire;
use tonic::Code;

use super::loopback_server::{ASYNC, LoopbackServer, dense, raw_tensor, rows, sync, tensor};

/// Pushes gradients that must be rejected, and asserts that `w:0` and row 1 of `e` are unchanged. Returns the message.
async fn refused(what: &str, gradients: impl Fn() -> wire::Model) -> String {
    let mut message = String::new();
    for mode in [ASYNC, sync(1, 0)] {
        let mut server = LoopbackServer::new(Optimizer::sgd(0.1), mode).await;
        server.push_infos(&[("e", 4, "zeros")]).await.unwrap();
        server.push_model(dense("w:0", tensor(&[4, 2], &[1.0; 8]))).await.unwrap();
        // Valid gradients in the same push must not be applied either.
        let mut both = gradients();
        let good = rows("e", &[1], tensor(&[1, 4], &[1.0; 4])).embedding_tables;
        for (name, rows) in good {
            both.embedding_tables.entry(name).or_insert(rows);
        }
        let status = server.push(0, both).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{what}: {status:?}");
        assert_eq!(server.pull_dense(-1).await.version, 0, "{what}");
        assert_eq!(server.variable("w:0").await, [1.0; 8], "{what}");
        assert_eq!(server.rows("e", &[1]).await.unwrap(), [[0.0; 4]], "{what}");
        // The server still accepts valid pushes.
        assert_eq!(server.push(0, dense("w:0", tensor(&[4, 2], &[1.0; 8]))).await.unwrap(), (true, 1), "{what}");
        assert_eq!(server.variable("w:0").await, [0.9; 8], "{what}");
        message = status.message().to_owned();
    }
    message
}

#[tokio::test]
async fn content_that_does_not_match_the_shape_is_rejected() {
    let message = refused("shape [8] with 3 bytes", || dense("w:0", raw_tensor(&[8], &[0; 3]))).await;
    assert!(message.contains("'w:0'") && message.contains("needs 32 bytes, but there are 3"), "{message}");
}

#[tokio::test]
async fn gradients_that_are_too_short_or_too_long_are_rejected() {
    for floats in [2, 9, 1_000_000] {
        let message = refused("another length", || dense("w:0", tensor(&[floats], &vec![1.0; floats as usize]))).await;
        assert!(message.contains("'w:0' has the shape [4, 2]"), "{message}");
    }
}

#[tokio::test]
async fn an_empty_tensor_is_rejected() {
    refused("no tensor at all", || dense("w:0", wire::TensorProto::default())).await;
    refused("a shape without elements", || dense("w:0", tensor(&[0], &[]))).await;
}

#[tokio::test]
async fn a_row_of_another_width_is_rejected() {
    let message = refused("width 3", || rows("e", &[1], tensor(&[1, 3], &[1.0; 3]))).await;
    assert!(message.contains("1 ids of rows with 4 values"), "{message}");
    refused("two rows for one id", || rows("e", &[1], tensor(&[2, 4], &[1.0; 8]))).await;
}

#[tokio::test]
async fn a_row_outside_its_variable_is_rejected() {
    for id in [99, 4, -1, i64::MIN] {
        let message = refused("a sparse row", || rows("w:0", &[id], tensor(&[1, 2], &[1.0; 2]))).await;
        assert!(message.contains(&format!("'w:0' has 4 rows, so there is no row {id}")), "{message}");
    }
}

#[tokio::test]
async fn an_undeclared_name_is_rejected() {
    let message = refused("unknown variable", || dense("v:0", tensor(&[1], &[1.0]))).await;
    assert!(message.contains("no variable or table 'v:0'"), "{message}");
    refused("unknown table", || rows("f", &[1], tensor(&[1, 4], &[1.0; 4]))).await;
}

#[tokio::test]
async fn values_that_are_not_finite_floats_are_rejected() {
    refused("NaN", || dense("w:0", tensor(&[4, 2], &[f32::NAN; 8]))).await;
    refused("infinity", || rows("e", &[1], tensor(&[1, 4], &[f32::INFINITY; 4]))).await;
    let integers = || wire::TensorProto { dtype: 3, ..tensor(&[4, 2], &[1.0; 8]) };
    let message = refused("integers", || dense("w:0", integers())).await;
    assert!(message.contains("type 3"), "{message}");
}

#[tokio::test]
async fn invalid_models_and_tables_are_rejected() {
    let mut server = LoopbackServer::new(Optimizer::sgd(0.1), ASYNC).await;
    let code = |done: Result<(), tonic::Status>| done.unwrap_err().code();
    assert_eq!(code(server.push_model(dense("w:0", raw_tensor(&[8], &[0; 3]))).await), Code::InvalidArgument);
    assert_eq!(code(server.push_model(dense("w:0", raw_tensor(&[0], &[]))).await), Code::InvalidArgument);
    assert_eq!(code(server.push_infos(&[("e", 0, "zeros")]).await), Code::InvalidArgument);
    assert_eq!(code(server.push_infos(&[("e", i64::MAX, "zeros")]).await), Code::InvalidArgument);
    let unknown = server.push_infos(&[("e", 4, "orthogonal")]).await.unwrap_err();
    assert!(unknown.message().contains("table 'e': no initializer 'orthogonal'; there are zeros"), "{unknown:?}");
    assert_eq!(server.rows("e", &[1]).await.unwrap_err().code(), Code::InvalidArgument);
    assert!(!server.pull_dense(-1).await.initialized);
    server.push_infos(&[("e", 4, "zeros")]).await.unwrap();
    assert_eq!(code(server.push_infos(&[("e", 5, "zeros")]).await), Code::InvalidArgument);
    assert_eq!(server.rows("e", &[]).await.unwrap(), [[0.0; 4]; 0]);
}

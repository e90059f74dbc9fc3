//! The HTTP API for people and probes.

use crate::serving::{Node, Serving};

#[tokio::test]
async fn probes_metrics_and_status_show_the_state() {
    let serving = Serving::start(1, 1).await;
    let mut node = Node::connect(&serving, "a", 1).await;
    node.join().await;
    node.complete().await;
    for path in ["/live", "/ready"] {
        assert_eq!(Serving::http(serving.http, &format!("GET {path} HTTP/1.1")).await, (200, "ok\n".to_owned()));
    }
    let (_, metrics) = Serving::http(serving.http, "GET /metrics HTTP/1.1").await;
    for line in [
        "flexor_world_size{job=\"mnist\",run=\"mnist\"} 1",
        "flexor_members{job=\"mnist\",run=\"mnist\",state=\"in_world\"} 1",
        "flexor_rounds_completed_total 1",
        "# EOF",
    ] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
    let (code, status) = Serving::http(serving.grpc, "GET /api/status HTTP/1.1").await;
    assert_eq!(code, 200);
    for text in ["\"job\":\"mnist\"", "\"reason\":\"WorldStands\"", "\"rank\":0", "\"journal\":\"memory\""] {
        assert!(status.contains(text), "{text} is missing in {status}");
    }
    let (_, events) = Serving::http(serving.grpc, "GET /api/events?limit=1 HTTP/1.1").await;
    assert!(events.contains("roundComplete") && events.contains("MaximumReached"), "{events}");
}

#[tokio::test]
async fn the_api_changes_the_state() {
    let serving = Serving::start(1, 4).await;
    let mut node = Node::connect(&serving, "a", 1).await;
    node.join().await;
    let expected = "POST /api/expected HTTP/1.1\nContent-Type: application/json\n\n{\"nodes\": 1}";
    assert_eq!(Serving::http(serving.grpc, expected).await.0, 200);
    node.complete().await;
    let wrong = "POST /api/expected HTTP/1.1\nContent-Type: application/json\n\n{\"node\": 1}";
    assert_eq!(Serving::http(serving.grpc, wrong).await.0, 422);
    assert_eq!(Serving::http(serving.grpc, "POST /api/gone/nobody HTTP/1.1").await.0, 404);
    assert_eq!(Serving::http(serving.grpc, "POST /api/gone/a HTTP/1.1").await.0, 200);
}

#[tokio::test]
async fn requests_without_the_token_are_refused() {
    let serving = Serving::with(1, 1, None, Some("s3cret")).await.unwrap();
    assert_eq!(Serving::http(serving.grpc, "GET /api/status HTTP/1.1").await.0, 401);
    let carried = "GET /api/status HTTP/1.1\nAuthorization: Bearer s3cret";
    assert_eq!(Serving::http(serving.grpc, carried).await.0, 200);
    assert_eq!(Serving::http(serving.http, "GET /live HTTP/1.1").await.0, 200);
    let request = flexor_wire::master::v1::Request::default();
    let status = serving.client().await.call(request).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unauthenticated);
}

#[tokio::test]
async fn an_unknown_path_is_answered_with_a_hint() {
    let serving = Serving::start(1, 1).await;
    for path in ["/", "/api", "/api/dataset", "/api/datasets/a/b/c"] {
        let (code, text) = Serving::http(serving.grpc, &format!("GET {path} HTTP/1.1")).await;
        assert_eq!(code, 404, "{path}: {text}");
        assert!(text.contains("/api/status"), "{text}");
    }
}

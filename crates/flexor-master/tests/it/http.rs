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
    let gone = |name: &str| format!("POST /api/gone/{name} HTTP/1.1\nContent-Type: application/json");
    assert_eq!(Serving::http(serving.grpc, &gone("nobody")).await.0, 404);
    assert_eq!(Serving::http(serving.grpc, &gone("a")).await.0, 200);
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

/// Every path below `/api` that changes something.
const CHANGES: [&str; 9] = [
    "/api/expected",
    "/api/gone/a",
    "/api/retry",
    "/api/nodes/a/metrics",
    "/api/datasets",
    "/api/datasets/d/lease",
    "/api/datasets/d/acknowledge",
    "/api/restore",
    "/api/workers/a/ended",
];

#[tokio::test]
async fn a_page_in_a_browser_changes_nothing() {
    for token in [None, Some("s3cret")] {
        let serving = Serving::with(1, 4, None, token).await.unwrap();
        let carried = token.map(|token| format!("\nAuthorization: Bearer {token}")).unwrap_or_default();
        let body = "{\"name\":\"d\",\"records\":1,\"batch\":1}";
        for path in CHANGES {
            for kind in ["", "\nContent-Type: text/plain", "\nContent-Type: application/x-www-form-urlencoded"] {
                let request = format!("POST {path} HTTP/1.1{carried}{kind}\n\n{body}");
                let (code, text) = Serving::http(serving.grpc, &request).await;
                assert_eq!(code, 415, "{request}: {text}");
                assert!(text.contains("application/json"), "{text}");
            }
            for host in ["evil.example", "127.0.0.1.evil.example:50001", "10.9.8.7"] {
                let head = format!("POST {path} HTTP/1.1\nHost: {host}{carried}\nContent-Type: application/json");
                let (code, text) = Serving::http(serving.grpc, &format!("{head}\n\n{body}")).await;
                assert_eq!(code, 403, "{head}: {text}");
                assert!(text.contains("--allowed-host"), "{text}");
            }
        }
        let (_, datasets) = Serving::http(serving.grpc, &format!("GET /api/datasets HTTP/1.1{carried}")).await;
        assert_eq!(datasets, "{\"datasets\":[]}");
        for host in ["localhost:50001", "127.0.0.1", "[::1]:50001", "job-master.svc:50001"] {
            let head = format!("POST /api/datasets HTTP/1.1\nHost: {host}{carried}\nContent-Type: application/json");
            let (code, text) = Serving::http(serving.grpc, &format!("{head}\n\n{body}")).await;
            assert_eq!(code, 200, "{head}: {text}");
        }
    }
}

#[tokio::test]
async fn a_page_whose_name_leads_here_reads_nothing_from_a_master_without_a_token() {
    let read = |carried: &str| format!("GET /api/status HTTP/1.1\nHost: evil.example{carried}");
    let open = Serving::start(1, 1).await;
    assert_eq!(Serving::http(open.grpc, &read("")).await.0, 403);
    let guarded = Serving::with(1, 1, None, Some("s3cret")).await.unwrap();
    assert_eq!(Serving::http(guarded.grpc, &read("")).await.0, 401);
    assert_eq!(Serving::http(guarded.grpc, &read("\nAuthorization: Bearer s3cret")).await.0, 200);
}

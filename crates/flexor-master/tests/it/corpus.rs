//! The checked-in inputs of the fuzz target `shard_api`, checked against its claims over a real port.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::serving::Serving;

#[tokio::test]
async fn the_records_add_up_after_every_request_of_the_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/shard_api");
    let mut requests = 0;
    for seed in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(seed.unwrap().path()).unwrap();
        let serving = Serving::start(1, 1).await;
        let mut position = String::new();
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            let [method, path, body] = [(); 3].map(|()| words.next().unwrap_or_default());
            if !path.starts_with('/') && method != "RESTORE" {
                // The line is no HTTP request.
                continue;
            }
            let (method, path, body) = match method {
                "RESTORE" => ("POST", "/api/restore", json!({ "position": token(body) }).to_string()),
                method => (method, path, body.replace("POSITION", &position)),
            };
            let (status, answer) = ask(&serving, &format!("{method} {path} HTTP/1.1"), &body).await;
            assert!(status < 500, "{line}: {status} {answer}");
            if let Some(now) = answer["position"].as_str() {
                now.clone_into(&mut position);
            }
            assert_records_add_up(&serving).await;
            requests += 1;
        }
    }
    assert!(requests > 20, "{requests} requests in the corpus");
}

async fn assert_records_add_up(serving: &Serving) {
    let (_, answer) = ask(serving, "GET /api/datasets HTTP/1.1", "").await;
    for dataset in answer["datasets"].as_array().unwrap() {
        let of = |name: &str| dataset["totals"][name].as_u64().unwrap();
        assert_eq!(of("expected"), of("accounted") + of("quarantined") + of("outstanding"), "{dataset}");
    }
}

async fn ask(serving: &Serving, line: &str, body: &str) -> (u16, Value) {
    let (status, text) =
        Serving::http(serving.grpc, &format!("{line}\nContent-Type: application/json\n\n{body}")).await;
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// A position token with a valid checksum around any JSON.
fn token(json: &str) -> String {
    let mut bytes = crc32fast::hash(json.as_bytes()).to_le_bytes().to_vec();
    bytes.extend(json.as_bytes());
    format!("v1.{}", URL_SAFE_NO_PAD.encode(bytes))
}

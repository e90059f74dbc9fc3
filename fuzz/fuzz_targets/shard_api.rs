//! Any requests about the data, in any order, are answered or refused with a reason, and the records add up after each.
//!
//! An input is lines of `METHOD PATH BODY`. `POSITION` in a body stands for the last position that was asked for, and
//! the method `RESTORE` makes a position with a right checksum of its body, which no mutation would find.
#![no_main]

use std::net::Ipv4Addr;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flexor_engine::rendezvous::Settings;
use flexor_master::faults::Faults;
use flexor_master::{Config, Master, Ports};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::ServiceExt as _;

fuzz_target!(|text: &str| {
    // Time leaps to whatever is waited for.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(play(text));
});

async fn play(text: &str) {
    let master = master().await;
    let api = master.api();
    let mut position = String::new();
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        let [method, path, body] = [(); 3].map(|()| words.next().unwrap_or_default());
        let (method, path, body) = match method {
            "RESTORE" => ("POST", "/api/restore", json!({ "position": token(body) }).to_string()),
            method => (method, path, body.replace("POSITION", &position)),
        };
        let Some((status, answer)) = ask(&api, method, path, body).await else { continue };
        assert!(status < 500 || status == 503, "{line}: {status} {answer:?}");
        if let Some(Value::String(now)) = answer.as_ref().and_then(|answer| answer.get("position")) {
            position.clone_from(now);
        }
        add_up(&api).await;
    }
}

/// Expected = accounted + quarantined + outstanding, of every dataset.
///
/// The ledger checks the rest of its invariants itself, after each call of a build with debug assertions.
async fn add_up(api: &Router) {
    let (status, answer) = ask(api, "GET", "/api/datasets", String::new()).await.expect("the request is well formed");
    let datasets = answer.expect("the answer is JSON");
    assert_eq!(status, 200, "{datasets}");
    for dataset in datasets["datasets"].as_array().expect("a list") {
        let of = |name: &str| dataset["totals"][name].as_u64().expect("a number");
        assert_eq!(of("expected"), of("accounted") + of("quarantined") + of("outstanding"), "{dataset}");
        assert!(of("granted") + of("inDoubt") <= of("outstanding"), "{dataset}");
    }
}

async fn ask(api: &Router, method: &str, path: &str, body: String) -> Option<(u16, Option<Value>)> {
    let request = Request::builder().method(method).uri(path).header("Content-Type", "application/json");
    let request = request.body(Body::from(body)).ok()?;
    let answer = api.clone().oneshot(request).await.expect("a router always answers");
    let status = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), usize::MAX).await.expect("the body is in memory");
    Some((status, serde_json::from_slice(&body).ok()))
}

/// A position of what somebody made up.
fn token(json: &str) -> String {
    let mut bytes = crc32fast::hash(json.as_bytes()).to_le_bytes().to_vec();
    bytes.extend(json.as_bytes());
    format!("v1.{}", URL_SAFE_NO_PAD.encode(bytes))
}

async fn master() -> Master {
    let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let (grpc, store, http) = tokio::try_join!(free(), free(), free()).expect("there are free ports");
    let config = Config {
        job: "fuzz".parse().expect("a name"),
        uid: "fuzz".into(),
        settings: Settings::new(1, 1).expect("a size"),
        state: None,
        token: None,
        journal_loss: flexor_master::LossPolicy::Refuse,
        hosts: Vec::new(),
        plain_store: false,
        servers: flexor_engine::ps_membership::Settings::default(),
        checkpoints: None,
    };
    Master::open(config, Ports { grpc, store, http }, &Faults::off()).expect("nothing is read")
}

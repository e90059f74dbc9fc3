//! A proxy between the operator and the API server that disturbs watches.
//!
//! The operator reaches it by plain HTTP in the cluster's network; the token of its service account passes through. All
//! requests but watches pass as they are.

mod open_watches;

use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use flexor_testbed::Cluster;
use http::{StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

pub use self::open_watches::Expiry;
use self::open_watches::{OpenWatches, Watched};

/// No request of the operator is larger.
const LARGEST_REQUEST: usize = 16 << 20;

/// How the events of watches reach the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    Once,
    Twice,
    /// Those of this resource wait.
    AllBut(&'static str),
    /// All wait.
    Nothing,
}

impl Delivery {
    fn holds(self, resource: &str) -> bool {
        match self {
            Self::Once | Self::Twice => false,
            Self::AllBut(held) => held == resource,
            Self::Nothing => true,
        }
    }
}

/// How open watches end.
#[derive(Debug, Clone, Copy)]
pub enum Ending {
    /// As when their time is over.
    Complete,
    /// In the middle of an answer.
    Cut,
}

/// The proxy; it refuses connections once it is dropped.
pub struct WatchProxy {
    shared: Arc<Shared>,
    server: String,
    task: JoinHandle<()>,
}

struct Shared {
    api_server: kube::Client,
    delivery: watch::Sender<Delivery>,
    /// How open watches end; each value that is sent ends those that are open then.
    ending: watch::Sender<Ending>,
    watches: Mutex<OpenWatches>,
    ended: AtomicUsize,
    repeated: AtomicUsize,
}

impl WatchProxy {
    /// Starts a proxy that changes nothing yet.
    pub async fn start(cluster: &Cluster) -> Self {
        let anonymous = changed(cluster, cluster.kubeconfig(), "anonymous", |config| {
            config["users"][0]["user"] = json!({});
        });
        let shared = Arc::new(Shared {
            api_server: cluster.client_of(&anonymous).await.unwrap(),
            delivery: watch::Sender::new(Delivery::Once),
            ending: watch::Sender::new(Ending::Complete),
            watches: Mutex::default(),
            ended: AtomicUsize::new(0),
            repeated: AtomicUsize::new(0),
        });
        let listener = cluster.listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let service = Router::new().fallback(forward).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
        Self { shared, server, task }
    }

    /// A kubeconfig with the rights of a service account that leads to the proxy.
    pub async fn kubeconfig_of(&self, cluster: &Cluster, namespace: &str, account: &str) -> PathBuf {
        let direct = cluster.kubeconfig_of(namespace, account).await.unwrap();
        changed(cluster, &direct, "proxied", |config| {
            config["clusters"][0]["cluster"]["server"] = self.server.clone().into();
        })
    }

    /// Delivers events like this from here on, those that wait included.
    pub fn deliver(&self, delivery: Delivery) {
        self.shared.delivery.send_replace(delivery);
    }

    /// Ends all watches that are open.
    pub fn end_watches(&self, ending: Ending) {
        self.shared.ending.send_replace(ending);
    }

    /// Ends all watches that are open, and answers the next so many requests for each of them that it has expired.
    pub fn expire(&self, expiry: Expiry, times: u32) {
        self.shared.watches().expire(expiry, times);
        self.end_watches(Ending::Complete);
    }

    /// Whether every watch was refused as often as was asked for.
    pub fn all_have_expired(&self) -> bool {
        self.shared.watches().all_have_expired()
    }

    /// Whether an event of this resource waits.
    pub fn holds_back(&self, resource: &str) -> bool {
        self.shared.watches().waiting.iter().any(|watch| watch.resource == resource)
    }

    /// How many watches it has ended.
    pub fn ended(&self) -> usize {
        self.shared.ended.load(Ordering::Relaxed)
    }

    /// How many events it has delivered twice.
    pub fn repeated(&self) -> usize {
        self.shared.repeated.load(Ordering::Relaxed)
    }
}

impl Drop for WatchProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A kubeconfig like another one. Kubeconfigs of a test cluster are JSON.
fn changed(cluster: &Cluster, kubeconfig: &Path, name: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
    let mut config: Value = serde_json::from_slice(&std::fs::read(kubeconfig).unwrap()).unwrap();
    change(&mut config);
    let path = cluster.folder().join(format!("kubeconfig-{name}"));
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

async fn forward(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let watched = Watched::of(request.uri());
    if let Some(expiry) = watched.as_ref().and_then(|watched| shared.watches().refuse(watched)) {
        return expired(expiry);
    }
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, LARGEST_REQUEST).await.unwrap();
    let mut forwarded = http::Request::new(kube::client::Body::from(body));
    (*forwarded.method_mut(), *forwarded.uri_mut(), *forwarded.headers_mut()) =
        (parts.method, parts.uri, parts.headers);
    forwarded.headers_mut().remove(header::HOST);
    let (mut head, body) = match shared.api_server.send(forwarded).await {
        Ok(answer) => answer.into_parts(),
        Err(error) => return answer(StatusCode::BAD_GATEWAY, error.to_string()),
    };
    // This connection has its own framing.
    for name in [header::TRANSFER_ENCODING, header::CONNECTION] {
        head.headers.remove(name);
    }
    let body = match watched {
        Some(watched) if head.status.is_success() => shared.pass_on(watched, Body::new(body)),
        Some(_) | None => Body::new(body),
    };
    Response::from_parts(head, body)
}

fn answer(status: StatusCode, body: String) -> Response {
    let answer = Response::builder().status(status).header(header::CONTENT_TYPE, "application/json");
    answer.body(body.into()).unwrap()
}

fn expired(expiry: Expiry) -> Response {
    let message = "too old resource version: 1 (2)";
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "message": message, "reason": "Expired", "code": 410,
    });
    match expiry {
        Expiry::Event => answer(StatusCode::OK, format!("{}\n", json!({ "type": "ERROR", "object": status }))),
        Expiry::Status => answer(StatusCode::GONE, status.to_string()),
    }
}

impl Shared {
    fn watches(&self) -> MutexGuard<'_, OpenWatches> {
        self.watches.lock().unwrap()
    }

    /// The body that the operator reads in place of the API server's.
    fn pass_on(self: Arc<Self>, watched: Watched, events: Body) -> Body {
        let (operator, receiver) = mpsc::channel(1);
        let mut ending = self.ending.subscribe();
        self.watches().open.insert(watched.clone());
        tokio::spawn(async move {
            let (queue, queued) = mpsc::unbounded_channel();
            let passing = async { tokio::join!(read(events, queue), self.send(&watched, queued, &operator)) };
            tokio::select! {
                _ = passing => {}
                () = operator.closed() => {}
                changed = ending.changed() => {
                    let ending = *ending.borrow();
                    if let (Ok(()), Ending::Cut) = (changed, ending) {
                        // The operator may have left meanwhile.
                        let _ = operator.send(Err(io::Error::other("the watch is cut"))).await;
                    }
                    self.ended.fetch_add(1, Ordering::Relaxed);
                }
            }
            let mut watches = self.watches();
            watches.open.remove(&watched);
            watches.waiting.remove(&watched);
        });
        Body::from_stream(ReceiverStream::new(receiver))
    }

    /// Sends what is queued, as often and as late as it is to be.
    async fn send(
        &self,
        watched: &Watched,
        mut queued: mpsc::UnboundedReceiver<Bytes>,
        operator: &mpsc::Sender<io::Result<Bytes>>,
    ) {
        let mut delivery = self.delivery.subscribe();
        while let Some(event) = queued.recv().await {
            if delivery.borrow().holds(&watched.resource) {
                self.watches().waiting.insert(watched.clone());
            }
            let Ok(delivery) = delivery.wait_for(|now| !now.holds(&watched.resource)).await.map(|now| *now) else {
                return;
            };
            self.watches().waiting.remove(watched);
            let copies = if delivery == Delivery::Twice { 2 } else { 1 };
            self.repeated.fetch_add(copies - 1, Ordering::Relaxed);
            for _ in 0..copies {
                if operator.send(Ok(event.clone())).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Queues the events of a watch, one per line.
async fn read(events: Body, queue: mpsc::UnboundedSender<Bytes>) {
    let mut chunks = events.into_data_stream();
    let mut unread = Vec::new();
    while let Some(Ok(chunk)) = chunks.next().await {
        unread.extend_from_slice(&chunk);
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            if queue.send(line.into()).is_err() {
                return;
            }
        }
    }
}

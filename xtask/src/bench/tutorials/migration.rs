//! The last step of the tutorial on parameter servers: the server moves to a larger pod while the chief trains.
//!
//! The job's master is asked every few milliseconds how many records are accounted for. The longest time in which that
//! number stands still is the stall of the training.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::site::{NAMESPACE, Site, object};
use crate::bench::operator::api::pods;
use crate::bench::row::Row;

const MASTER_PORT: u16 = 50001;
const ASK_EVERY: Duration = Duration::from_millis(10);
/// How long the training is watched without a change, for comparison, and after one.
const AT_REST: Duration = Duration::from_secs(5);
const AFTERWARDS: Duration = Duration::from_secs(3);
const GONE_MARK: f64 = 10.0;
const STALL_MARK: f64 = 0.5;

pub(super) async fn run(site: &Site, repeats: u32) -> Result<Vec<Row>> {
    let (mut gone, mut started, mut stall, mut rest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for repeat in 0..repeats {
        let job = format!("deepctr-{repeat}");
        site.create("elasticjobs", &object("ElasticJob", &job, &spec())).await?;
        let master = Master::of(site, &job).await?;
        site.eventually("the job to train", async || Ok(master.accounted(site).await.unwrap_or(0) > 50_000)).await?;

        let mut watched = Watched::new();
        while watched.began.elapsed() < AT_REST {
            watched.look(master.accounted(site).await?);
            tokio::time::sleep(ASK_EVERY).await;
        }
        rest.push(watched.longest.as_secs_f64());

        let server = |number: u32| format!("{job}-edljob-ps-{number}");
        let mut watched = Watched::new();
        let plan = format!("{job}-migrate");
        site.create("scaleplans", &migration(&plan, &job, &server(0))).await?;
        let (mut running_after, mut gone_after) = (None, None);
        while gone_after.is_none_or(|gone: Duration| watched.began.elapsed() < gone + AFTERWARDS) {
            watched.look(master.accounted(site).await?);
            if running_after.is_none() && phase(site, &server(1)).await.as_deref() == Some("Running") {
                running_after = Some(watched.began.elapsed());
            }
            if gone_after.is_none() && running_after.is_some() && phase(site, &server(0)).await.is_none() {
                gone_after = Some(watched.began.elapsed());
            }
            anyhow::ensure!(watched.began.elapsed() < Duration::from_secs(120), "the old server is still there");
            tokio::time::sleep(ASK_EVERY).await;
        }
        let (running_after, gone_after) = running_after.zip(gone_after).context("both have happened")?;
        started.push(running_after.as_secs_f64());
        gone.push((gone_after - running_after).as_secs_f64());
        stall.push(watched.longest.as_secs_f64());
        site.await_phase("scaleplans", &plan, "Succeeded").await?;
        site.delete_job(&job).await?;
    }
    Ok(vec![
        Row::within("server migrates: until its successor runs", "s", &started, f64::NAN)?.for_information(),
        Row::within("server migrates: from then until the old pod is gone", "s", &gone, GONE_MARK)?,
        Row::cost_within(
            "server migrates: longest stall of the training",
            "s",
            &stall,
            "the same job at rest",
            &rest,
            STALL_MARK,
        )?,
    ])
}

/// The longest time without progress.
struct Watched {
    began: Instant,
    accounted: u64,
    changed: Instant,
    longest: Duration,
}

impl Watched {
    fn new() -> Self {
        let now = Instant::now();
        Self { began: now, accounted: 0, changed: now, longest: Duration::ZERO }
    }

    fn look(&mut self, accounted: u64) {
        if accounted != self.accounted {
            (self.accounted, self.changed) = (accounted, Instant::now());
        }
        self.longest = self.longest.max(self.changed.elapsed());
    }
}

/// The API of a job's master, with the job's token.
struct Master {
    address: SocketAddr,
    token: String,
}

impl Master {
    async fn of(site: &Site, job: &str) -> Result<Self> {
        let pod = format!("elasticjob-{job}-dlrover-master");
        let path = format!("{}/{pod}", pods(NAMESPACE));
        let has_address = async || Ok(site.api.get(&path).await.is_ok_and(|pod| pod["status"]["podIP"].is_string()));
        site.eventually("the master's address", has_address).await?;
        let pod = site.api.get(&path).await?;
        let address = pod["status"]["podIP"].as_str().context("the master has no address")?;
        let volumes = pod["spec"]["volumes"].as_array().context("the master has no volumes")?;
        let secret = volumes.iter().find_map(|volume| volume["secret"]["secretName"].as_str());
        let secret = secret.context("the master has no token")?;
        let token =
            site.kubectl(&["get", "secret", secret, "-o", "go-template={{range .data}}{{. | base64decode}}{{end}}"])?;
        let address = SocketAddr::new(address.parse()?, MASTER_PORT);
        Ok(Self { address, token: token.trim().to_owned() })
    }

    /// The records that are accounted for, of all data.
    async fn accounted(&self, site: &Site) -> Result<u64> {
        let Self { address, token } = self;
        let mut stream = site.connect(*address).await?;
        let request = format!(
            "GET /api/datasets HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).context("an answer without a body")?;
        let answer: Value = serde_json::from_str(body).with_context(|| answer.clone())?;
        let accounted = |dataset: &Value| dataset["totals"]["accounted"].as_u64().unwrap_or(0);
        Ok(answer["datasets"].as_array().context("a list of data")?.iter().map(accounted).sum())
    }
}

async fn phase(site: &Site, pod: &str) -> Option<String> {
    let pod = site.api.get(&format!("{}/{pod}", pods(NAMESPACE))).await.ok()?;
    pod["status"]["phase"].as_str().map(str::to_owned)
}

fn spec() -> Value {
    let flexor = |name: &str, words: &[&str]| {
        json!({ "name": name, "image": "flexor:latest", "imagePullPolicy": "IfNotPresent", "command": words,
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }] })
    };
    let make = ["flexor", "data", "gen", "clicks", "--out=/data/train.csv", "--records=100000"];
    let train = ["flexor", "worker", "--model=deepfm", "--data=/data/train.csv", "--epochs=100000"];
    let volumes = json!([{ "name": "data", "emptyDir": {} }]);
    json!({
        "distributionStrategy": "ParameterServerStrategy",
        "optimizeMode": "manual",
        "replicaSpecs": {
            "ps": { "replicas": 1, "autoScale": false, "template": { "spec": {
                "containers": [flexor("main", &["flexor", "ps"])], "volumes": volumes } } },
            "worker": { "replicas": 1, "autoScale": false, "template": { "spec": {
                "initContainers": [flexor("data", &make)],
                "containers": [flexor("main", &train)], "volumes": volumes } } },
        },
    })
}

fn migration(plan: &str, job: &str, server: &str) -> Value {
    let mut object = object(
        "ScalePlan",
        plan,
        &json!({ "ownerJob": job, "migratePods": [{ "name": server, "resource": { "cpu": "500m", "memory": "1Gi" } }] }),
    );
    object["metadata"]["labels"] = json!({ "elasticjob-name": job, "scale-type": "manual" });
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_lasts_from_one_change_to_the_next() {
        let mut watched = Watched::new();
        watched.look(10);
        std::thread::sleep(Duration::from_millis(20));
        watched.look(10);
        let stall = watched.longest;
        assert!(stall >= Duration::from_millis(20));
        watched.look(11);
        watched.look(12);
        assert_eq!(watched.longest, stall);
    }
}

//! The script of an experiment, second by second, in real time.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use flexor_sched::sim::{Experiment, Report};
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::account::Account;
use super::stage::Stage;
use super::{manifests, requests};

const SECOND: Duration = Duration::from_secs(1);
/// Seconds between two lines of progress.
const PROGRESS: u32 = 10;
/// How long jobs may take to succeed once their trainers complete.
const END_LIMIT: Duration = Duration::from_secs(300);
/// How many pods are annotated side by side.
const IN_FLIGHT: usize = 16;

/// Plays the script. Afterwards all jobs have succeeded.
pub(super) async fn run(script: &Experiment, stage: &mut Stage) -> Result<Report> {
    let mut account = Account::of(script);
    let mut ending = Ending::default();
    // Seconds that were missed are caught up with, so that the script keeps its length.
    let mut ticks = tokio::time::interval(SECOND);
    for second in 0..=script.end {
        ticks.tick().await;
        stage.check_alive()?;
        resize_online(script, stage, second).await?;
        submit(script, stage, &mut account, second).await?;
        account.sample(second, &stage.pods);
        for job in account.done() {
            ending.advance(stage, &mut account, job, second).await?;
        }
        if second.is_multiple_of(PROGRESS) {
            eprintln!("{}", account.progress());
        }
    }
    let mut report = account.report(&stage.pods);
    eprintln!("the published time is over: the trainers of all jobs complete");
    let began = Instant::now();
    for second in script.end + 1.. {
        ticks.tick().await;
        stage.check_alive()?;
        for job in account.unfinished() {
            ending.advance(stage, &mut account, job, second).await?;
        }
        let left = account.unfinished().len();
        if left == 0 {
            break;
        }
        ensure!(
            began.elapsed() < END_LIMIT,
            "{left} jobs have not succeeded {END_LIMIT:?} after their trainers completed"
        );
    }
    eprintln!("all jobs have succeeded, {:.0} s later", began.elapsed().as_secs_f64());
    report.jobs = account.fates(&stage.pods);
    Ok(report)
}

async fn resize_online(script: &Experiment, stage: &Stage, second: u32) -> Result<()> {
    let steps = script.online.iter().flat_map(|online| &online.steps);
    let Some((_, replicas)) = steps.into_iter().find(|(at, _)| *at == second) else { return Ok(()) };
    eprintln!("{second} s: Nginx is set to {replicas} pods");
    let path = format!("{}/{}", requests::DEPLOYMENTS, manifests::ONLINE.1);
    requests::merge(&stage.client, &path, &manifests::resized(*replicas)).await
}

async fn submit(script: &Experiment, stage: &Stage, account: &mut Account<'_>, second: u32) -> Result<()> {
    let due = script.jobs.iter().enumerate().filter(|(_, job)| job.second == second);
    for (job, submission) in due {
        account.submitted(job, Instant::now());
        let manifest = manifests::job(&manifests::job_name(job), &submission.shape);
        requests::create(&stage.client, requests::JOBS, &manifest).await?;
    }
    Ok(())
}

/// Jobs whose work is done.
#[derive(Default)]
struct Ending {
    /// Pods that were told to complete.
    told: HashSet<String>,
}

impl Ending {
    /// Lets the running trainers of a job complete, and looks whether it has succeeded.
    async fn advance(&mut self, stage: &Stage, account: &mut Account<'_>, job: usize, second: u32) -> Result<()> {
        let trainers: Vec<String> =
            stage.pods.finish(job).into_iter().filter(|pod| self.told.insert(pod.clone())).collect();
        let annotation = manifests::completed();
        let annotations =
            trainers.iter().map(|pod| {
                let annotation = &annotation;
                // The planner may have ended it meanwhile.
                async move {
                    requests::merge_if_there(&stage.client, &format!("{}/{pod}", requests::PODS), annotation).await
                }
            });
        stream::iter(annotations).buffer_unordered(IN_FLIGHT).try_for_each(|()| async { Ok(()) }).await?;
        let name = manifests::job_name(job);
        let status = requests::get(&stage.client, &format!("{}/{name}", requests::JOBS)).await?["status"].take();
        match status["phase"].as_str() {
            Some("succeeded") => account.succeeded(job, second),
            Some("failed") => bail!("{name} has failed: {status}"),
            Some(_) | None => {}
        }
        Ok(())
    }
}

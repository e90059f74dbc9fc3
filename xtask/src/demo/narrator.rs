//! Prints a story line by line, each with the time since its start.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use flexor_testbed::flexor_processes::{Decision, Member, RunStatus};

/// The voice of a demo.
pub(super) struct Narrator {
    begun: Instant,
    chapters: u32,
    /// Readable names of the nodes, by the master's names.
    nodes: BTreeMap<String, String>,
}

impl Narrator {
    pub(super) fn begin(title: &str) -> Narrator {
        println!("{title}\n");
        Narrator { begun: Instant::now(), chapters: 0, nodes: BTreeMap::new() }
    }

    /// Begins a new chapter.
    pub(super) fn chapter(&mut self, title: &str) {
        self.chapters += 1;
        println!("\n{}. {title}", self.chapters);
    }

    /// Prints one event.
    pub(super) fn tell(&self, text: &str) {
        println!("{:>7.1} s  {text}", self.begun.elapsed().as_secs_f64());
    }

    /// Prints an explanation of the line before.
    pub(super) fn aside(&self, text: &str) {
        println!("           {text}");
    }

    /// Learns the names of the nodes.
    pub(super) fn meet(&mut self, status: &RunStatus) {
        let named = |member: &Member| Some((member.node.clone(), member.pod.clone()?));
        self.nodes.extend(status.members.iter().filter_map(named));
    }

    /// Prints the master's decisions after `moment`, in its own words.
    pub(super) fn decisions(&self, decisions: &[Decision], moment: SystemTime) {
        self.aside("what the master decided (/api/events):");
        // A node that leaves a world to join the next is shown by its join.
        for decision in decisions.iter().filter(|decision| decision.what != "left") {
            if let Ok(after) = decision.at.duration_since(moment) {
                lines(decision, after).iter().for_each(|line| self.aside(&self.with_names(line)));
            }
        }
    }

    /// The text with the names that people know.
    fn with_names(&self, text: &str) -> String {
        self.nodes.iter().fold(text.to_owned(), |text, (node, pod)| text.replace(node, pod))
    }
}

/// A decision in one line, and one more for each important detail.
fn lines(decision: &Decision, after: Duration) -> Vec<String> {
    let what = match decision.what.as_str() {
        "roundComplete" => "new world",
        what => what,
    };
    let node = decision.node.as_deref().map(|node| format!("{node} ")).unwrap_or_default();
    let reason = decision.reason.as_deref().map(|reason| format!("{reason}: ")).unwrap_or_default();
    let mut details = decision.detail.split("; ");
    let first = format!("  +{:.2} s  {what:<9}  {node}{reason}", after.as_secs_f64());
    let indent = " ".repeat("  +0.00 s  new world  ".len());
    let first = first + details.next().unwrap_or_default();
    std::iter::once(first).chain(details.map(|detail| format!("{indent}{detail}"))).collect()
}

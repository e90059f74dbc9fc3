//! The services of a job: created before the pods that connect to them, and kept until the job is over.

use std::collections::{BTreeMap, BTreeSet};

use flexor_model::{NodeId, PodIdentity, Rank, Role, ServiceScope};

use super::{Action, DesiredService, Reconciler};

impl Reconciler<'_> {
    pub(super) fn reconcile_services(&mut self) {
        let observed = self.observed;
        let (mut desired, replicas) = (BTreeSet::new(), self.all_replicas());
        for role in &observed.job.roles {
            let Some(rule) = &role.service else { continue };
            let ranks = match rule.scope {
                ServiceScope::Role => vec![Rank(0)],
                ServiceScope::Rank | ServiceScope::Pod => self.ranks(role),
            };
            for rank in ranks {
                let id = self.status.roles.get(&role.name).and_then(|slots| slots.slots.get(&rank)).map(|slot| slot.id);
                let identity = self.identity(role, id.unwrap_or(NodeId(rank.0)), rank, 0, &replicas);
                let name = rule.name.fill(&identity);
                let selector = rule.selector.iter().filter_map(|key| Some((key.clone(), role.naming.labels.get(key)?)));
                let selector: BTreeMap<String, String> =
                    selector.map(|(key, pattern)| (key, pattern.fill(&identity))).collect();
                let retry_at = observed.executor.refused_services.get(&name).map(|refused| {
                    self.service_is_refused = true;
                    self.show_refusal(&format!("service {name}"), refused)
                });
                if let Some(at) = retry_at.filter(|at| *at > self.now) {
                    self.requeue(at);
                } else if !observed.services.contains(&name) {
                    let role = role.name.clone();
                    self.act(Action::CreateService(DesiredService { name: name.clone(), role, selector }));
                }
                desired.insert(name);
            }
        }
        for name in observed.services.difference(&desired) {
            self.act(Action::DeleteService { name: name.clone() });
        }
    }

    /// The target replicas of all roles.
    pub(super) fn all_replicas(&self) -> BTreeMap<flexor_model::RoleName, u32> {
        self.status.targets.iter().map(|(role, target)| (role.clone(), target.replicas)).collect()
    }

    pub(super) fn identity<'b>(
        &'b self,
        role: &'b Role,
        id: NodeId,
        rank: Rank,
        relaunches: u32,
        replicas: &'b BTreeMap<flexor_model::RoleName, u32>,
    ) -> PodIdentity<'b> {
        let observed = self.observed;
        PodIdentity {
            job: &observed.job.name,
            namespace: observed.namespace,
            uid: observed.uid,
            role: &role.name,
            id,
            rank,
            relaunches,
            replicas,
        }
    }
}

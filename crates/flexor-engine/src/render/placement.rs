//! Pods that the cluster's planner places: on which node, and how easily others displace them.
//!
//! A base pod prefers its node, because elsewhere it only costs packing. A surplus pod requires it: elsewhere the plan
//! does not hold, and it is cheap to make again.

use serde_json::{Map, Value, json};

use crate::controller::Place;

/// The priority class of pods that their job cannot do without, and that of the others.
pub const BASE_CLASS: &str = "flexor-base";
pub const SURPLUS_CLASS: &str = "flexor-surplus";

/// The node that the planner has chosen for a pod.
pub const NODE_ANNOTATION: &str = "flexor.dev/node";

/// The planner's node counts as much as this of 100.
const WEIGHT: u32 = 100;

/// Adds the place to a pod's spec. A priority class and rules of the template's own stay.
pub(super) fn add(place: Option<&Place>, spec: &mut Value) {
    let Some(place) = place else { return };
    if spec["priorityClassName"].is_null() {
        spec["priorityClassName"] = if place.is_base { BASE_CLASS } else { SURPLUS_CLASS }.into();
    }
    let named = json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [place.node] }] });
    let affinity = object(object(spec, "affinity"), "nodeAffinity");
    if place.is_base {
        let preferred = list(affinity, "preferredDuringSchedulingIgnoredDuringExecution");
        preferred.push(json!({ "weight": WEIGHT, "preference": named }));
    } else {
        // Terms are alternatives; what one of them says holds at once.
        let required = object(affinity, "requiredDuringSchedulingIgnoredDuringExecution");
        let terms = list(required, "nodeSelectorTerms");
        if terms.is_empty() {
            terms.push(json!({}));
        }
        for term in terms {
            list(term, "matchFields").extend(named["matchFields"].as_array().into_iter().flatten().cloned());
        }
    }
}

fn object<'a>(parent: &'a mut Value, key: &str) -> &'a mut Value {
    if !parent[key].is_object() {
        parent[key] = Map::new().into();
    }
    &mut parent[key]
}

fn list<'a>(parent: &'a mut Value, key: &str) -> &'a mut Vec<Value> {
    if !parent[key].is_array() {
        parent[key] = json!([]);
    }
    parent[key].as_array_mut().expect("it was made a list")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(is_base: bool, mut spec: Value) -> Value {
        add(Some(&Place { node: "n7".to_owned(), is_base }), &mut spec);
        spec
    }

    #[test]
    fn base_prefers_and_surplus_requires_its_node() {
        let base = placed(true, json!({}));
        assert_eq!(base["priorityClassName"], BASE_CLASS);
        let preferred = &base["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(preferred["preference"]["matchFields"][0]["values"][0], "n7");
        let surplus = placed(false, json!({}));
        assert_eq!(surplus["priorityClassName"], SURPLUS_CLASS);
        let required = &surplus["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0], "n7");
    }

    #[test]
    fn rules_of_the_template_hold_beside_the_place() {
        let term = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
        let own = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
        let spec = placed(false, json!({"priorityClassName": "mine", "affinity": {"nodeAffinity": own}}));
        assert_eq!(spec["priorityClassName"], "mine");
        let terms = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let [term] = &terms["nodeSelectorTerms"].as_array().unwrap()[..] else { panic!("{terms}") };
        assert!(term["matchExpressions"].is_array() && term["matchFields"].is_array());
    }
}

//! Where a pod's own sidecar listens.
//!
//! Pods with a network of their own all use 127.0.0.1. Pods on the network of their node share it, so each takes another
//! address of the loopback range, which follows from its job and name: one name is used by one pod at a time.

use flexor_model::Role;

use super::{FlexorProgram, RenderContext};
use crate::controller::DesiredPod;

/// `HOST:PORT` of the sidecar's store; none if the pod has no sidecar.
pub(super) fn of_pod(context: &RenderContext<'_>, role: &Role, desired: &DesiredPod) -> Option<String> {
    let address = context.addresses.of_sidecar().filter(|_| role.has_sidecar())?;
    let shares_network = role.template.json()["spec"]["hostNetwork"] == true;
    match context.flexor {
        FlexorProgram::Image(_) if shares_network => {
            let (_, port) = address.rsplit_once(':')?;
            Some(format!("{}:{port}", loopback(&context.uid.to_string(), &desired.name)))
        }
        FlexorProgram::Image(_) | FlexorProgram::Machine(_) => Some(address),
    }
}

/// An address of 127.0.0.0/8 beyond 127.0.0.255, by a hash of the job's uid and the pod's name.
fn loopback(uid: &str, pod: &str) -> String {
    // FNV-1a, which stays the same in every version: a replacement may meet the sidecar of an older operator's pod.
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = uid.bytes().chain(*b"/").chain(pod.bytes()).fold(0x811c_9dc5, step);
    let [a, b, c, d] = hash.to_be_bytes();
    format!("127.{}.{}.{}", 1 + (a ^ b) % 254, c, 1 + d % 254)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_on_one_network_have_addresses_of_their_own() {
        let addresses: std::collections::BTreeSet<String> =
            (0..200).map(|pod| loopback("u-1", &format!("j-worker-{pod}"))).collect();
        assert_eq!(addresses.len(), 200);
        assert_ne!(loopback("u-1", "j-worker-0"), loopback("u-2", "j-worker-0"));
        for address in addresses {
            let address: std::net::Ipv4Addr = address.parse().unwrap();
            assert!(address.is_loopback() && address.octets()[1] > 0, "{address}");
        }
    }
}

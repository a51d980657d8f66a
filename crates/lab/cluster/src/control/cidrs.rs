//! ServiceCIDRs: a finalizer keeps one while Services have its addresses (`pkg/controller/servicecidrs`).

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Value, json};
use sluice_api::{Status, Store};

use super::refusals::{Refusals, id_of};
use super::writes::MANAGER;

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

/// Keeps the finalizer and the condition Ready of each ServiceCIDR. `addresses` are those of Services.
pub(super) fn reconcile(store: &Store, addresses: &[IpAddr], refusals: &mut Refusals) {
    let all = store.list("ServiceCIDR");
    for cidr in &all {
        let is_held = !cidr["metadata"]["deletionTimestamp"].is_null();
        let is_held = is_held.then(|| is_needed(cidr, &all, addresses));
        let ready = match is_held {
            None => {
                json!({"status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready"})
            }
            Some(_) => json!({
                "status": "False", "reason": "Terminating",
                "message": "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new \
                            ServiceCIDR",
            }),
        };
        refusals.attempt(id_of("write", cidr), || {
            finalize(store, cidr, is_held != Some(false))?;
            match is_held {
                Some(false) => Ok(()),
                _ => report(store, cidr, ready),
            }
        });
    }
}

/// Whether a Service has an address that no other ServiceCIDR covers.
fn is_needed(cidr: &Arc<Value>, all: &[Arc<Value>], addresses: &[IpAddr]) -> bool {
    let others: Vec<IpNet> = all
        .iter()
        .filter(|it| !Arc::ptr_eq(it, cidr) && it["metadata"]["deletionTimestamp"].is_null())
        .flat_map(|it| ranges(it))
        .collect();
    let own = ranges(cidr);
    let in_any = |all: &[IpNet], ip: &IpAddr| all.iter().any(|it| it.contains(ip));
    let mut addresses = addresses.iter();
    addresses.any(|it| in_any(&own, it) && !in_any(&others, it))
}

fn ranges(cidr: &Value) -> Vec<IpNet> {
    let texts = cidr["spec"]["cidrs"].as_array().into_iter().flatten();
    texts.filter_map(|it| it.as_str()?.parse().ok()).collect()
}

/// Adds or removes the finalizer.
fn finalize(store: &Store, cidr: &Value, wanted: bool) -> Result<(), Status> {
    let all = cidr["metadata"]["finalizers"].as_array();
    let mut all = all.cloned().unwrap_or_default();
    if all.iter().any(|it| it == FINALIZER) == wanted {
        return Ok(());
    }
    // A ServiceCIDR that is being deleted gets no finalizer.
    if wanted && !cidr["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    all.retain(|it| it != FINALIZER);
    if wanted {
        all.push(FINALIZER.into());
    }
    let mut new = cidr.clone();
    new["metadata"]["finalizers"] = all.into();
    if let Some(metadata) = new["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    store.by(MANAGER).update(new).map(drop)
}

/// Writes the condition Ready, if it differs.
fn report(store: &Store, cidr: &Value, ready: Value) -> Result<(), Status> {
    let mut ready = ready;
    ready["type"] = "Ready".into();
    let old = &cidr["status"]["conditions"][0];
    let is_same = |field: &str| old[field] == ready[field];
    if is_same("status") && is_same("message") {
        return Ok(());
    }
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
    ready["lastTransitionTime"] = now.to_string().into();
    let mut new = cidr.clone();
    new["status"]["conditions"] = json!([ready]);
    if let Some(metadata) = new["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    store.by(MANAGER).update_status(new).map(drop)
}

#[cfg(test)]
mod tests {
    use sluice_api::{DeleteOptions, Settings};

    use super::*;

    #[test]
    fn a_range_stays_while_services_have_its_addresses() {
        let store = Store::new(Settings::default());
        let cidr = |name: &str, range: &str| {
            json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
                "metadata": {"name": name}, "spec": {"cidrs": [range]},
            })
        };
        let settle = |addresses: &[IpAddr]| {
            let mut before = 0;
            while before != store.revision() {
                before = store.revision();
                let mut refusals = Refusals::default();
                reconcile(&store, addresses, &mut refusals);
                assert_eq!(refusals.end(), None);
            }
        };
        let get = |name: &str| store.get("ServiceCIDR", "", name);
        let delete = |name: &str| {
            let options = DeleteOptions::default();
            store.delete("ServiceCIDR", "", name, options).unwrap();
        };
        let held: [IpAddr; 1] = ["10.96.0.9".parse().unwrap()];
        store.create(cidr("a", "10.96.0.0/16")).unwrap();
        store.create(cidr("b", "10.96.0.0/24")).unwrap();
        settle(&held);
        let made = get("a").unwrap();
        assert_eq!(made["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(made["status"]["conditions"][0]["status"], "True");
        // The other range covers the address.
        delete("b");
        settle(&held);
        assert!(get("b").is_none());
        delete("a");
        settle(&held);
        let waits = get("a").unwrap();
        assert_eq!(waits["status"]["conditions"][0]["reason"], "Terminating");
        settle(&[]);
        assert!(get("a").is_none());
    }
}

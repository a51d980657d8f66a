//! The ServiceAccounts of Pods (`plugin/pkg/admission/serviceaccount`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use serde_json::Value;
use sluice_api::{KINDS, Status};
use sluice_controller::Typed as _;
use sluice_controller::workloads::{account_of, mount_token};
use sluice_model::NamespacedName;

use crate::object::{key_of, typed};

/// The ServiceAccounts that exist.
#[derive(Default)]
pub(super) struct Accounts(BTreeMap<NamespacedName, ServiceAccount>);

impl Accounts {
    pub(super) fn set(&mut self, account: &Value) -> Result<(), Status> {
        self.0.insert(key_of(account), typed(account)?);
        Ok(())
    }

    pub(super) fn remove(&mut self, account: &Value) {
        self.0.remove(&key_of(account));
    }

    /// Gives a new Pod its ServiceAccount and a token. One that does not exist is refused, but for `default`, which the
    /// controllers make: kube-apiserver waits for it, here the kubelet does.
    pub(super) fn admit(&self, pod: &mut Value) -> Result<(), Status> {
        let mut typed: Pod = typed(pod)?;
        let namespace = key_of(pod).namespace;
        let name = account_of(&typed).to_owned();
        let account = self
            .0
            .get(&NamespacedName::new(namespace.clone(), name.as_str()));
        if account.is_none() && name != "default" {
            let why = format!(
                "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
            );
            let pods = KINDS.iter().find(|it| it.kind == "Pod");
            let pods = pods.expect("Pods are served");
            return Err(Status::forbidden(pods, &key_of(pod).name, &why));
        }
        mount_token(&mut typed, account);
        *pod = typed.write();
        Ok(())
    }
}

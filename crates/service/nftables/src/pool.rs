//! Pool chains: one per kind of frontend and number of endpoints, shared by all Services.

use std::sync::Arc;

use sluice_model::IpFamily;

use crate::name::{
    CLUSTER_IP_CLIENTS, ChainName, MARK_FOR_MASQUERADE, NEAR_CLIENTS, NEAR_NODE_PORT_CLIENTS,
    PoolKind,
};
use crate::object::{Chain, Key, Object, Rules};
use crate::rule::{Action, Field, Rule, SetRef};
use crate::set::SetName;

/// Pool sizes of ClusterIPs that a large plan prepares for. A rule that binds a map makes the
/// kernel walk all its elements (`nf_tables_bind_set`), so these are bound while the maps are
/// small. Not more of them: adding an element walks all rules that bind its map
/// (`nft_add_set_elem`).
const RESERVED_SIZES: u32 = 16;

/// The pool chains that a large plan creates before they are needed.
pub(crate) fn reserved_pools() -> impl Iterator<Item = (PoolKind, u32)> {
    (1..=RESERVED_SIZES).map(|size| (PoolKind::ClusterIp, size))
}

/// The map that holds the endpoints of a kind.
pub(crate) fn endpoints_of(kind: PoolKind) -> SetName {
    match kind {
        PoolKind::ClusterIp | PoolKind::External | PoolKind::Near => SetName::Endpoints,
        PoolKind::Local => SetName::LocalEndpoints,
        PoolKind::NodePort | PoolKind::NearNodePort => SetName::NodePortEndpoints,
        PoolKind::LocalNodePort => SetName::LocalNodePortEndpoints,
    }
}

/// The chain of a kind and size. Size 0 exists for Local policies without an endpoint on this node: clients on this
/// node still get through, all others are dropped.
pub(crate) fn pool_chain(family: IpFamily, kind: PoolKind, size: u32) -> (Key, Object) {
    let first = match kind {
        PoolKind::ClusterIp => Some(CLUSTER_IP_CLIENTS),
        PoolKind::External | PoolKind::NodePort => Some(MARK_FOR_MASQUERADE),
        PoolKind::Local => Some(NEAR_CLIENTS),
        PoolKind::LocalNodePort => Some(NEAR_NODE_PORT_CLIENTS),
        PoolKind::Near | PoolKind::NearNodePort => None,
    };
    let first = first.map(|chain| Rule::always(Action::Jump(ChainName::Standing(chain))));
    let balance = (size > 0).then(|| balance(endpoints_of(kind), size));
    let rules: Arc<[Rule]> = first.into_iter().chain(balance).collect();
    let chain = Chain {
        hook: None,
        comment: "".into(),
        rules: Rules::Ours(family, rules),
    };
    (
        Key::Chain(family, ChainName::Pool(kind, size)),
        Object::Chain(chain),
    )
}

/// A rule that sends packets to a random one of this many endpoints, which are in the map under a frontend and slots.
fn balance(map: SetName, size: u32) -> Rule {
    let mut key = map.key().fields().to_vec();
    if let Some(Field::Random { modulus, .. }) = key.last_mut() {
        *modulus = size;
    }
    Rule::always(Action::DestinationOf(key.into(), SetRef::Standing(map)))
}

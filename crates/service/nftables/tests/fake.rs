//! The data plane on the fake of nf_tables, which takes the same transactions as the kernel.

use sluice_lab::require_netns;
use sluice_nft::testing::Fake;
use sluice_nftables::Nftables;
use sluice_plan::testing::endpoints;
use sluice_plane::{Proxy, ServiceBackend};
use sluice_scenarios::{Drive as _, golden};

use crate::common::in_namespace;

/// Syncs all examples and a change of them, and finds in the kernel what was written.
fn reports<B: ServiceBackend>(plane: B) -> Vec<(usize, usize, usize)> {
    let mut node = Proxy::new(golden::settings(), plane);
    node.tell(golden::events(&golden::folder()));
    let first = node.synced();
    let found = node.resync();
    assert!(found.full && found.is_empty(), "{found:?}");
    node.tell(endpoints("default/web", "10.244.0.99:8080@"));
    let change = node.synced();
    assert!(node.resync().is_empty());
    [first, change]
        .map(|it| (it.added, it.replaced, it.deleted))
        .into()
}

#[test]
fn the_fake_and_the_kernel_take_the_same_changes() {
    let fake = reports(Nftables::on(Fake::new()));
    assert!(fake[0].0 > 100 && fake[1].1 + fake[1].2 > 0, "{fake:?}");
    require_netns!();
    in_namespace(|| assert_eq!(reports(Nftables::connect().unwrap()), fake));
}

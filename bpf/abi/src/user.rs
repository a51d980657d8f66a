//! The types of maps as bytes, for the agent.

use aya::Pod;

use crate::{
    Addr, AddressKey, Affinity, AffinityKey, Allowance, Dns, Endpoint, EndpointKey, Event, Flow,
    Fragment, FragmentKey, Frontend, FrontendKey, Interface, MaglevChunk, MaglevKey, MemberKey,
    Node, Peer, PeerKey, Ports, RoutedKey, SourceKey, Tuple,
};

macro_rules! pod {
    ($($type:ident)*) => {
        $(
            // SAFETY: it is `repr(C)` without padding, and every pattern of bits is a value.
            #[expect(unsafe_code, reason = "maps are copied byte by byte")]
            unsafe impl Pod for $type {}
        )*
    };
}

pod! {
    Addr AddressKey Affinity AffinityKey Allowance Dns Endpoint EndpointKey Event Flow Fragment FragmentKey Frontend
    FrontendKey Interface MaglevChunk MaglevKey MemberKey Node Peer PeerKey Ports RoutedKey SourceKey Tuple
}

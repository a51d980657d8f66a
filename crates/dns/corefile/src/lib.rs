//! Corefiles: CoreDNS's configuration, read and checked.

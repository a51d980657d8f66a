//! A cluster of network namespaces on one machine, for tests and demonstrations

//! A small Kubernetes API server in memory, for tests and benchmarks.

//! Where Services come from: a folder of manifests

//! Answers of other servers: forwarding, the cache of answers, detection of loops.

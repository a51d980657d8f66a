//! What a cluster's DNS answers: a pure function of the cluster's objects and a question.

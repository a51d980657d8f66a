//! What the kernel says about a folder, in the words of [`super::settle`].

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// Somebody opened a new file, or wrote to a file, and has not closed it yet.
    Writing(String),
    /// A file has other rights or times: often the last thing a writer does before it closes.
    Touched(String),
    /// A file is complete, renamed or gone.
    Settled(String),
    /// Anything may have changed: a hidden link was swapped, or the kernel lost count.
    Everything,
    /// The folder itself may be another one now, or gone.
    Folder,
}

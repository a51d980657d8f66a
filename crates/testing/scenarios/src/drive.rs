//! A proxy as kernel tests and benchmarks drive it: no agent, no clock.

use sluice_model::Event;
use sluice_plane::{Proxy, ServiceBackend};
use sluice_reconcile::{BackendError, Report};

/// Steps of a proxy, each in the network namespace of the calling thread.
pub trait Drive {
    /// Takes in events and plans. Nothing is written.
    fn tell(&mut self, events: Vec<Event>);

    /// Makes the kernel hold the plan.
    ///
    /// # Errors
    ///
    /// As of [`Proxy::sync`].
    fn try_sync(&mut self) -> Result<Report, BackendError>;

    /// Reads the kernel and repairs what differs.
    ///
    /// # Panics
    /// When the kernel cannot be read or written.
    fn resync(&mut self) -> Report;

    /// Takes in events and writes.
    ///
    /// # Errors
    ///
    /// As of [`Proxy::sync`].
    fn try_change(&mut self, events: Vec<Event>) -> Result<Report, BackendError> {
        self.tell(events);
        self.try_sync()
    }

    /// Makes the kernel hold the plan.
    ///
    /// # Panics
    /// When the kernel cannot be read or written.
    fn synced(&mut self) -> Report {
        self.try_sync().expect("the kernel takes the rules")
    }

    /// Takes in events and writes.
    ///
    /// # Panics
    /// When the kernel cannot be read or written.
    fn change(&mut self, events: Vec<Event>) -> Report {
        self.tell(events);
        self.synced()
    }
}

impl<P: ServiceBackend> Drive for Proxy<P> {
    fn tell(&mut self, events: Vec<Event>) {
        events.into_iter().for_each(|it| self.absorb(it));
        self.replan();
    }

    fn try_sync(&mut self) -> Result<Report, BackendError> {
        self.sync().map(|it| it.report)
    }

    fn resync(&mut self) -> Report {
        self.reconciler_mut().forget();
        self.synced()
    }
}

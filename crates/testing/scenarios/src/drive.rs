//! Runs a proxy in kernel tests step by step, without the agent and its clock.

use sluice_plan::Event;
use sluice_plane::{Proxy, ServiceBackend};
use sluice_reconcile::{BackendError, Report};

/// Steps of a proxy, each in the network namespace of the calling thread.
pub trait Drive {
    /// Absorbs events and plans; writes nothing.
    fn tell(&mut self, events: Vec<Event>);

    /// Writes the plan to the kernel.
    ///
    /// # Errors
    ///
    /// Those of [`Proxy::sync`].
    fn try_sync(&mut self) -> Result<Report, BackendError>;

    /// Reads the kernel and writes the differences from the plan.
    ///
    /// # Panics
    /// When the kernel cannot be read or written.
    fn resync(&mut self) -> Report;

    /// Absorbs events, plans and writes.
    ///
    /// # Errors
    ///
    /// Those of [`Proxy::sync`].
    fn try_change(&mut self, events: Vec<Event>) -> Result<Report, BackendError> {
        self.tell(events);
        self.try_sync()
    }

    /// Writes the plan to the kernel.
    ///
    /// # Panics
    /// When the kernel cannot be read or written.
    fn synced(&mut self) -> Report {
        self.try_sync().expect("the kernel takes the rules")
    }

    /// Absorbs events, plans and writes.
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
        let mut all = Report::default();
        loop {
            let part = self.sync()?.report;
            all.full |= part.full;
            all.added += part.added;
            all.replaced += part.replaced;
            all.deleted += part.deleted;
            if !self.is_any_left() {
                return Ok(all);
            }
            self.replan();
        }
    }

    fn resync(&mut self) -> Report {
        self.reconciler_mut().forget();
        self.synced()
    }
}

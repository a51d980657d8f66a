//! What is served of the two families.

use sluice_model::IpFamily;
use sluice_plane::{DataPlane, Unserved};

use super::Agent;

impl<P: DataPlane> Agent<P> {
    /// What is served of no Service.
    pub(super) fn unserved(&self) -> Option<Unserved> {
        self.proxy.reconciler().backend().unserved()
    }

    /// The families that are written.
    pub(super) fn served(&self) -> Vec<IpFamily> {
        let unserved = self.unserved().map(|it| it.family);
        let mut served = IpFamily::ALL.to_vec();
        served.retain(|it| Some(*it) != unserved);
        served
    }

    /// The families of which no Service is without its rules: one that is not served is among them
    /// while no Service has it.
    pub(super) fn complete(&self) -> Vec<IpFamily> {
        let served = self.served();
        let mut complete = IpFamily::ALL.to_vec();
        complete.retain(|it| served.contains(it) || self.tally.service_ports_of(*it) == 0);
        complete
    }

    /// Lets go what others left of families that are served. A family that we cannot serve yet is
    /// better served by old rules than by nobody.
    pub(super) fn take_over(&mut self) {
        let served = self.served();
        let mut taken_over = IpFamily::ALL.to_vec();
        taken_over.retain(|it| served.contains(it) || self.taken_over.contains(it));
        if taken_over != self.taken_over {
            (self.outputs.take_over)(&taken_over);
            self.taken_over = taken_over;
        }
    }
}

//! A value of each address family.

use sluice_model::IpFamily;

/// One value for each family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerFamily<T>([T; 2]);

impl<T> PerFamily<T> {
    /// Makes the value of each family.
    pub fn new(make: impl FnMut(IpFamily) -> T) -> Self {
        Self(IpFamily::ALL.map(make))
    }

    /// The value of a family.
    pub fn of(&self, family: IpFamily) -> &T {
        match family {
            IpFamily::V4 => &self.0[0],
            IpFamily::V6 => &self.0[1],
        }
    }

    /// The value of a family, to change it.
    pub fn of_mut(&mut self, family: IpFamily) -> &mut T {
        match family {
            IpFamily::V4 => &mut self.0[0],
            IpFamily::V6 => &mut self.0[1],
        }
    }
}

//! Attaching of programs to interfaces.
//!
//! Where the kernel has TCX (Linux 6.6), a program is attached by a link, which is pinned: the link stays when the
//! agent ends, and the next agent gives it its own program. Elsewhere it is a filter of clsact with a priority and
//! handle of ours, which the next agent replaces.
//!
//! A program that says `TCX_PASS` is the last that runs, so those behind it ([`Order::Last`]) might never run.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use aya::Ebpf;
use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::tc::{
    self, NlOptions, SchedClassifierLink, TcAttachOptions, TcAttachType, TcError, TcHandle,
};
use aya::programs::{Link as _, LinkOrder, ProgramError};
use sluice_reconcile::causes;
use sluice_route::Link;
use tracing::{debug, warn};

use crate::object::classifier;
use crate::{BpfError, Direction, Filter, Object, Order, Pins};

/// The error of a program that was refused.
type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Filter {
    fn handle(self) -> TcHandle {
        TcHandle::new(0, self.handle)
    }
}

impl Direction {
    fn hook(self) -> TcAttachType {
        match self {
            Self::In => TcAttachType::Ingress,
            Self::Out => TcAttachType::Egress,
        }
    }
}

/// The loaded programs, and where they are attached.
#[derive(Debug)]
pub(crate) struct Attacher {
    object: Object,
    loaded: Ebpf,
    links: PathBuf,
    /// Names of the interfaces that have our programs, by number.
    attached: BTreeMap<u32, String>,
    /// The kernel has TCX; `None` before the first interface.
    has_tcx: Option<bool>,
}

impl Attacher {
    pub(crate) fn new(object: Object, loaded: Ebpf, pins: &Pins) -> Self {
        Self {
            object,
            loaded,
            links: pins.links(),
            attached: BTreeMap::new(),
            has_tcx: None,
        }
    }

    /// The loaded programs.
    pub(crate) fn loaded(&mut self) -> &mut Ebpf {
        &mut self.loaded
    }

    /// Replaces the attached programs by other programs with the same entries. An interface where that fails is tried
    /// again when interfaces change, so that all others have the same maps.
    pub(crate) fn replace(&mut self, loaded: Ebpf) {
        self.loaded = loaded;
        self.attach_again();
    }

    /// Attaches the programs wherever they are wanted: another program may have detached them.
    pub(crate) fn attach_again(&mut self) {
        let attached = std::mem::take(&mut self.attached);
        for (index, name) in attached {
            if let Err(error) = self.attach(index, &name) {
                warn!(%error, "{}", self.object.losses.old_interface);
            }
        }
    }

    /// Removes the filters of an earlier agent from interfaces that are not wanted now; [`follow`](Self::follow)
    /// removes links.
    pub(crate) fn forget<'a>(&self, unwanted: impl Iterator<Item = &'a Link>) {
        for link in unwanted {
            detach_filters_of(&self.object, &link.name);
        }
    }

    /// Sets the interfaces that have our programs. An interface that is deleted meanwhile is no error.
    pub(crate) fn follow(&mut self, wanted: &BTreeMap<u32, Link>) {
        // An interface with another name keeps its programs until `attach` has replaced them.
        let is_same =
            |index: &u32, name: &mut String| wanted.get(index).is_some_and(|it| it.name == *name);
        self.attached.retain(is_same);
        remove_pins_except(&self.links, wanted);
        for link in wanted.values() {
            if self.attached.contains_key(&link.index) {
                continue;
            }
            match self.attach(link.index, &link.name) {
                Ok(()) => debug!(interface = link.name, "programs attached"),
                Err(error) => warn!(%error, "{}", self.object.losses.interface),
            }
        }
    }

    /// Whether an interface has our programs.
    pub(crate) fn has(&self, link: &Link) -> bool {
        self.attached.get(&link.index) == Some(&link.name)
    }

    fn attach(&mut self, index: u32, name: &str) -> Result<(), BpfError> {
        for (program, direction) in self.object.packets {
            self.attach_one(index, name, program, direction.hook())
                .map_err(|source| BpfError::Attach {
                    program,
                    target: name.to_owned(),
                    source,
                })?;
        }
        self.attached.insert(index, name.to_owned());
        Ok(())
    }

    fn attach_one(
        &mut self,
        index: u32,
        name: &str,
        program: &'static str,
        at: TcAttachType,
    ) -> Result<(), Failure> {
        let pin = self.links.join(format!("{program}-{index}"));
        if self.has_tcx != Some(false) {
            match self.attach_link(&pin, name, program, at) {
                Err(error) if self.has_tcx.is_none() && lacks_tcx(&error) => {}
                result => {
                    self.has_tcx = Some(true);
                    return result;
                }
            }
        }
        self.has_tcx = Some(false);
        self.attach_filter(name, program, at)
    }

    fn attach_link(
        &mut self,
        pin: &Path,
        name: &str,
        program: &'static str,
        at: TcAttachType,
    ) -> Result<(), Failure> {
        let program = classifier(&mut self.loaded, program)?;
        if let Ok(old) = PinnedLink::from_pin(pin) {
            let link = SchedClassifierLink::try_from(FdLink::from(old))?;
            if let Ok(id) = program.attach_to_link(link) {
                // The descriptor is closed; the pin holds the link.
                drop(program.take_link(id)?);
                return Ok(());
            }
            // The link's interface was deleted, and another one has its number.
            fs::remove_file(pin).ok();
        }
        let order = TcAttachOptions::TcxOrder(match self.object.order {
            Order::First => LinkOrder::first(),
            Order::Last => LinkOrder::last(),
        });
        let id = program.attach_with_options(name, at, order)?;
        let link = FdLink::try_from(program.take_link(id)?)?;
        let pinned = link.pin(pin);
        pinned.map_err(|error| io::Error::other(format!("pin the link: {error}")))?;
        Ok(())
    }

    fn attach_filter(
        &mut self,
        name: &str,
        program: &'static str,
        at: TcAttachType,
    ) -> Result<(), Failure> {
        match tc::qdisc_add_clsact(name) {
            Ok(()) | Err(TcError::AlreadyAttached) => {}
            Err(TcError::NetlinkError(error)) if is_there(&error) => {}
            Err(error) => return Err(error.into()),
        }
        let filter = self.object.filter;
        let program = classifier(&mut self.loaded, program)?;
        let ours = SchedClassifierLink::attached(name, at, filter.priority, filter.handle(), None)?;
        let id = program.attach_to_link(ours).or_else(|_| {
            let options = NlOptions {
                priority: filter.priority,
                handle: filter.handle(),
                classid: None,
            };
            program.attach_with_options(name, at, TcAttachOptions::Netlink(options))
        })?;
        // A link of this kind detaches its filter when it is dropped.
        #[expect(
            clippy::disallowed_methods,
            reason = "the program stays attached without us"
        )]
        std::mem::forget(program.take_link(id)?);
        Ok(())
    }
}

/// Removes our filters of clsact from every interface of the calling thread's network namespace.
pub(crate) fn detach_filters(object: &Object) {
    let Ok(links) = sluice_route::links() else {
        return;
    };
    for link in links {
        detach_filters_of(object, &link.name);
    }
}

fn detach_filters_of(object: &Object, interface: &str) {
    let filter = object.filter;
    for (_, direction) in object.packets {
        // The error of an interface without such a filter is ignored: there is nothing to remove.
        let at = direction.hook();
        if let Ok(ours) =
            SchedClassifierLink::attached(interface, at, filter.priority, filter.handle(), None)
        {
            ours.detach().ok();
        }
    }
}

/// Removes the pins of interfaces that are deleted or not wanted, also of those that an earlier agent knew.
fn remove_pins_except(links: &Path, wanted: &BTreeMap<u32, Link>) {
    let Ok(pins) = fs::read_dir(links) else {
        return;
    };
    for pin in pins.flatten() {
        let name = pin.file_name();
        let index = name
            .to_str()
            .and_then(|it| it.rsplit_once('-')?.1.parse().ok());
        if index.is_some_and(|it| !wanted.contains_key(&it)) {
            fs::remove_file(pin.path()).ok();
        }
    }
}

/// The error is `EINVAL`: the kernel has no link of this type.
fn lacks_tcx(error: &Failure) -> bool {
    match error.downcast_ref() {
        Some(ProgramError::SyscallError(error)) => {
            error.io_error.raw_os_error() == Some(nix::libc::EINVAL)
        }
        _ => false,
    }
}

/// The queue discipline exists already.
fn is_there(error: &(dyn std::error::Error + 'static)) -> bool {
    causes(error)
        .find_map(|it| it.downcast_ref::<io::Error>())
        .is_some_and(|it| it.raw_os_error() == Some(nix::libc::EEXIST))
}

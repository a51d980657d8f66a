//! A program of somebody else at one interface, in one direction, which counts packets.

use std::os::fd::OwnedFd;

use aya::Ebpf;
use aya::programs::tc::{NlOptions, TcAttachOptions, TcAttachType, TcHandle, qdisc_add_clsact};
use aya::programs::{LinkOrder, SchedClassifier};
use aya::sys::{Stats, enable_stats};
use object::write::{Object, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
};

/// Its name in the kernel.
pub(crate) const NAME: &str = "neighbour";

/// What the program says of every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// `TC_ACT_UNSPEC`: the next program decides.
    Next = -1,
    /// `TC_ACT_OK`: the packet passes, and no other program sees it.
    Pass = 0,
}

/// How the program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// By TCX, before those that are there.
    First,
    /// By TCX, behind those that are there.
    Last,
    /// As a filter of clsact, with this priority.
    Filter(u16),
}

/// The program; it goes with the value.
pub(crate) struct Neighbour {
    object: Ebpf,
    /// The kernel counts runs while this is open.
    _counting: OwnedFd,
}

impl Neighbour {
    /// Attaches it to an interface of the calling thread's network namespace.
    pub(crate) fn attach(
        interface: &str,
        at: TcAttachType,
        place: Attachment,
        verdict: Verdict,
    ) -> Self {
        let counting = enable_stats(Stats::RunTime).unwrap();
        let object = Ebpf::load(&elf(verdict)).unwrap();
        let mut neighbour = Self {
            object,
            _counting: counting,
        };
        let options = match place {
            Attachment::First => TcAttachOptions::TcxOrder(LinkOrder::first()),
            Attachment::Last => TcAttachOptions::TcxOrder(LinkOrder::last()),
            Attachment::Filter(priority) => {
                // It is there after the first.
                qdisc_add_clsact(interface).ok();
                TcAttachOptions::Netlink(NlOptions {
                    priority,
                    handle: TcHandle::new(0, 1),
                    classid: None,
                })
            }
        };
        let program = neighbour.program();
        program.load().unwrap();
        program.attach_with_options(interface, at, options).unwrap();
        neighbour
    }

    /// How many packets it has seen.
    pub(crate) fn packets(&mut self) -> u64 {
        self.program().info().unwrap().run_count()
    }

    fn program(&mut self) -> &mut SchedClassifier {
        let program = self.object.program_mut(NAME).unwrap();
        program.try_into().unwrap()
    }
}

/// `r0 = verdict; exit`, as a compiler would write it.
fn elf(verdict: Verdict) -> Vec<u8> {
    let mut code = vec![0xb7, 0, 0, 0];
    code.extend((verdict as i32).to_le_bytes());
    code.extend([0x95, 0, 0, 0, 0, 0, 0, 0]);
    let mut object = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
    let section = object.add_section(Vec::new(), b"classifier".to_vec(), SectionKind::Text);
    object.append_section_data(section, &code, 8);
    object.add_symbol(Symbol {
        name: NAME.into(),
        value: 0,
        size: code.len().try_into().unwrap(),
        kind: SymbolKind::Text,
        scope: SymbolScope::Dynamic,
        weak: false,
        section: SymbolSection::Section(section),
        flags: SymbolFlags::None,
    });
    object.write().unwrap()
}

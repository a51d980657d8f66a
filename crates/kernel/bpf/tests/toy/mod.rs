//! An object with one program of packets and three maps.
//!
//! The program drops packets that arrive through an interface in BLOCKED (hash), or from an IPv4 address outside
//! ADMITTED (trie), and counts the other packets in PASSED (array).

use object::elf::R_BPF_64_64;
use object::write::{Object, Relocation, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind, SymbolFlags, SymbolKind,
    SymbolScope,
};

/// The program's name.
pub(crate) const NAME: &str = "toy_ingress";

/// Types of maps in `enum bpf_map_type`, and the flag that a trie needs.
const HASH: u32 = 1;
const ARRAY: u32 = 2;
const LPM_TRIE: u32 = 11;
const NO_PREALLOC: u32 = 1;

/// Offsets in `struct __sk_buff` and in a frame of IPv4.
const IFINDEX: i16 = 40;
const SOURCE: i32 = 26;

/// Functions of `enum bpf_func_id`.
const MAP_LOOKUP: i32 = 1;
const SKB_LOAD_BYTES: i32 = 26;

/// One instruction: operation, destination and source register, offset, number.
type Instruction = (u8, u8, u8, i16, i32);

fn encoded((operation, to, from, offset, number): Instruction) -> [u8; 8] {
    let [a, b] = offset.to_le_bytes();
    let [c, d, e, f] = number.to_le_bytes();
    [operation, from << 4 | to, a, b, c, d, e, f]
}

/// Loads the address of a map into register 1: two instructions, the first with a relocation.
const LOAD_MAP: [Instruction; 2] = [(0x18, 1, 0, 0, 0), (0, 0, 0, 0, 0)];

/// The program, and the maps by the numbers of the instructions that load them.
fn program() -> (Vec<Instruction>, [(usize, &'static str); 3]) {
    let mut code = vec![
        (0xbf, 6, 1, 0, 0),       // r6 = context
        (0x61, 1, 6, IFINDEX, 0), // r1 = interface
        (0x63, 10, 1, -4, 0),     // stack[-4] = r1
        (0xbf, 2, 10, 0, 0),      // r2 = stack
        (0x07, 2, 0, 0, -4),      // r2 -= 4
    ];
    let blocked = code.len();
    code.extend(LOAD_MAP);
    code.extend([
        (0x85, 0, 0, 0, MAP_LOOKUP),
        (0x55, 0, 0, 24, 0),     // found: drop
        (0x62, 10, 0, -8, 32),   // stack[-8] = 32, the length of the prefix
        (0xbf, 1, 6, 0, 0),      // r1 = context
        (0xb7, 2, 0, 0, SOURCE), // r2 = offset
        (0xbf, 3, 10, 0, 0),     // r3 = stack
        (0x07, 3, 0, 0, -4),     // r3 -= 4
        (0xb7, 4, 0, 0, 4),      // r4 = length
        (0x85, 0, 0, 0, SKB_LOAD_BYTES),
        (0xbf, 2, 10, 0, 0), // r2 = stack
        (0x07, 2, 0, 0, -8), // r2 -= 8
    ]);
    let admitted = code.len();
    code.extend(LOAD_MAP);
    code.extend([
        (0x85, 0, 0, 0, MAP_LOOKUP),
        (0x15, 0, 0, 11, 0),  // not found: drop
        (0x62, 10, 0, -4, 0), // stack[-4] = 0
        (0xbf, 2, 10, 0, 0),  // r2 = stack
        (0x07, 2, 0, 0, -4),  // r2 -= 4
    ]);
    let passed = code.len();
    code.extend(LOAD_MAP);
    code.extend([
        (0x85, 0, 0, 0, MAP_LOOKUP),
        (0x15, 0, 0, 2, 0),  // not found: next
        (0xb7, 1, 0, 0, 1),  // r1 = 1
        (0xdb, 0, 1, 0, 0),  // *r0 += r1, atomically
        (0xb7, 0, 0, 0, -1), // next: r0 = TC_ACT_UNSPEC
        (0x95, 0, 0, 0, 0),  // return
        (0xb7, 0, 0, 0, 2),  // drop: r0 = TC_ACT_SHOT
        (0x95, 0, 0, 0, 0),  // return
    ]);
    let loads = [
        (blocked, "BLOCKED"),
        (admitted, "ADMITTED"),
        (passed, "PASSED"),
    ];
    (code, loads)
}

/// The ELF file.
pub(crate) fn elf() -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
    let license = object.add_section(Vec::new(), b"license".to_vec(), SectionKind::Data);
    object.append_section_data(license, b"GPL\0", 1);
    let maps = object.add_section(Vec::new(), b"maps".to_vec(), SectionKind::Data);
    let map = |object: &mut Object<'_>, name: &str, definition: [u32; 5]| {
        let bytes: Vec<u8> = definition.iter().flat_map(|it| it.to_le_bytes()).collect();
        let at = object.append_section_data(maps, &bytes, 4);
        let size = bytes.len();
        symbol(object, name, SymbolKind::Data, maps, at, size)
    };
    // Type, bytes of a key, bytes of a value, entries, flags.
    let symbols = [
        ("BLOCKED", map(&mut object, "BLOCKED", [HASH, 4, 4, 16, 0])),
        (
            "ADMITTED",
            map(&mut object, "ADMITTED", [LPM_TRIE, 8, 4, 16, NO_PREALLOC]),
        ),
        ("PASSED", map(&mut object, "PASSED", [ARRAY, 4, 8, 1, 0])),
    ];
    let (code, loads) = program();
    let bytes: Vec<u8> = code.into_iter().flat_map(encoded).collect();
    let section = object.add_section(Vec::new(), b"classifier".to_vec(), SectionKind::Text);
    object.append_section_data(section, &bytes, 8);
    symbol(&mut object, NAME, SymbolKind::Text, section, 0, bytes.len());
    for (instruction, map) in loads {
        let (_, symbol) = symbols.iter().find(|(name, _)| *name == map).unwrap();
        let relocation = Relocation {
            offset: 8 * u64::try_from(instruction).unwrap(),
            symbol: *symbol,
            addend: 0,
            flags: RelocationFlags::Elf {
                r_type: R_BPF_64_64,
            },
        };
        object.add_relocation(section, relocation).unwrap();
    }
    object.write().unwrap()
}

fn symbol(
    object: &mut Object<'_>,
    name: &str,
    kind: SymbolKind,
    section: object::write::SectionId,
    value: u64,
    size: usize,
) -> SymbolId {
    object.add_symbol(Symbol {
        name: name.into(),
        value,
        size: size.try_into().unwrap(),
        kind,
        scope: SymbolScope::Dynamic,
        weak: false,
        section: SymbolSection::Section(section),
        flags: SymbolFlags::None,
    })
}

use super::*;

/// What the programs of 1.8.9 print.
#[test]
fn refusals_are_read() {
    for (said, line, reason) in [
        (
            "iptables-nft-restore v1.8.9 (nf_tables): unknown option \"--bogus\"\nError occurred at line: 3\nTry `iptables-nft-restore -h' or 'iptables-nft-restore --help' for more information.\n",
            3,
            "unknown option \"--bogus\"",
        ),
        (
            "iptables-restore v1.8.9 (legacy): Couldn't load target `NOSUCH':No such file or directory\n\nError occurred at line: 3\n",
            3,
            "Couldn't load target `NOSUCH':No such file or directory",
        ),
        (
            "iptables-nft-restore: line 3 failed: No chain/target/match by that name.\n",
            3,
            "No chain/target/match by that name.",
        ),
        (
            "iptables-restore: line 12 failed\n",
            12,
            "the kernel gave no reason",
        ),
        (
            "iptables-nft-restore v1.8.9 (nf_tables): \nline 5: CHAIN_DEL failed (Device or resource busy): chain B\n",
            5,
            "CHAIN_DEL failed (Device or resource busy): chain B",
        ),
        (
            "Warning: Extension ipvs revision 0 not supported, missing kernel module?\niptables-restore: line 4 failed\n",
            4,
            "the kernel gave no reason",
        ),
        (
            "iptables-nft-restore v1.8.9 (nf_tables): \nThe \"nat\" table is not intended for filtering, the use of DROP is therefore inhibited.\n\n\nError occurred at line: 6\n",
            6,
            "The \"nat\" table is not intended for filtering, the use of DROP is therefore inhibited.",
        ),
        (
            "Bad argument `hello'\nError occurred at line: 2\n",
            2,
            "Bad argument `hello'",
        ),
        (
            "iptables-nft-restore v1.8.9 (nf_tables): iptables-nft-restore: line 1 table name 'foo' invalid\nError occurred at line: 1\n",
            1,
            "line 1 table name 'foo' invalid",
        ),
    ] {
        let reason = reason.to_owned();
        assert_eq!(refused(said), Some(Refused { line, reason }), "{said}");
    }
}

#[test]
fn other_failures_are_none_of_a_line() {
    for said in [
        "",
        "iptables-restore: COMMIT expected at line 3\n",
        "Fatal: can't open lock file /nosuch/x: No such file or directory\n",
        "iptables-nft-restore v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)\n",
    ] {
        assert_eq!(refused(said), None, "{said}");
    }
    let said = "iptables v1.8.9 (nf_tables): Could not fetch\n";
    assert_eq!(first_words(said).as_deref(), Some("Could not fetch"));
    assert_eq!(first_words("\nWarning: x\n"), None);
}

#[test]
fn incompatible_tables_are_found() {
    let harmless =
        "# Table `nat' contains incompatible base-chains, use 'nft' tool to list them.\n*nat\n";
    assert_eq!(incompatible(harmless), []);
    let table = "*filter\nCOMMIT\n# Table `nat' is incompatible, use 'nft' tool.\n";
    assert_eq!(incompatible(table), [Table::Nat]);
}

//! The texts of ipset's own error numbers.

/// `IPSET_ERR_EXIST`: of a test, that the member is not there.
pub(super) const NOT_THERE: i32 = 4103;

/// The text of an error number above 4096 (`enum ipset_errno`), which no C library knows.
pub(super) fn reason(code: i32) -> String {
    let words = match code {
        4097 => "another protocol version",
        4098 => "the kernel does not know sets of this type",
        4099 => "there are too many sets",
        4100 => "the set is in use",
        4101 => "there is no second set",
        4102 => "the sets are of different types",
        NOT_THERE => "the member is there already, or is not there",
        4104 => "the prefix length is out of range",
        4105 => "the netmask is out of range",
        4106 => "the family does not fit the type",
        4107 => "the set has no timeouts",
        4108 => "the set is in use",
        4109 => "the address is not IPv4",
        4110 => "the address is not IPv6",
        4111 => "the set has no counters",
        4112 => "the set has no comments",
        4113 => "the mark's mask is out of range",
        4114 => "the set has no marks",
        4352 => "the set is full, or the member out of its range",
        4353 => "the member is null, or the range too large",
        4354 => "the set does not know the protocol",
        4355 => "the protocol is missing",
        code => return format!("ipset error {code}"),
    };
    words.to_owned()
}

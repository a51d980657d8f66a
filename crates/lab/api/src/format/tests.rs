use super::*;

#[test]
fn the_first_form_that_is_served_is_chosen() {
    const META: &str = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table_format = Format::Table(Include::None);
    for (accept, expect) in [
        ("", Some((Format::Plain, Encoding::Json))),
        ("*/*", Some((Format::Plain, Encoding::Json))),
        (table, Some((table_format, Encoding::Json))),
        (
            // As client-go/metadata asks.
            &format!(
                "application/vnd.kubernetes.protobuf;{META},application/json;{META},application/json"
            ),
            Some((Format::Metadata, Encoding::Json)),
        ),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Some((Format::MetadataList, Encoding::Json)),
        ),
        (
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json",
            Some((Format::Plain, Encoding::Json)),
        ),
        ("application/json;as=Table", None),
        ("application/yaml", Some((Format::Plain, Encoding::Yaml))),
        (
            "application/yaml;q=0.3, application/json;q=0.7",
            Some((Format::Plain, Encoding::Json)),
        ),
        (
            "text/html, application/json; stream=watch",
            Some((Format::Plain, Encoding::Json)),
        ),
        ("application/json;stream=other", None),
        ("application/vnd.kubernetes.protobuf", None),
    ] {
        let found = clauses(Some(accept), Include::None).next();
        assert_eq!(found, expect, "{accept}");
    }
}

#[test]
fn what_is_not_served_is_refused_in_kubernetes_words() {
    let refused = |it: Result<Format, Status>| it.unwrap_err().to_string();
    assert_eq!(
        refused(Format::of(Some("text/html"), Include::None)),
        "only the following media types are accepted: application/json, application/yaml"
    );
    assert_eq!(
        refused(Format::of_watch(Some("application/yaml"), Include::None)),
        "only the following media types are accepted: application/json;stream=watch"
    );
}

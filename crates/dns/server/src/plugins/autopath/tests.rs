use super::*;

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn completed(asked: &str) -> Vec<String> {
    let path = [
        "shop.svc.cluster.local.",
        "svc.cluster.local.",
        "cluster.local.",
        "corp.",
    ];
    let path: Vec<_> = path.iter().map(|it| name(it)).collect();
    completions(&name(asked), &path)
        .iter()
        .map(Name::to_ascii)
        .collect()
}

#[test]
fn the_path_is_followed_to_the_name_itself() {
    assert_eq!(
        completed("www.Example.org.SHOP.svc.cluster.local."),
        [
            "www.Example.org.svc.cluster.local.",
            "www.Example.org.cluster.local.",
            "www.Example.org.corp.",
            "www.Example.org.",
        ]
    );
}

#[test]
fn names_of_other_paths_are_not_completed() {
    assert!(completed("www.example.org.").is_empty());
    assert!(completed("www.example.org.svc.cluster.local.").is_empty());
    assert!(completed("shop.svc.cluster.local.").is_empty());
    assert!(completions(&name("a.b."), &[]).is_empty());
    assert!(completions(&name("a.b."), &[Name::root()]).is_empty());
}

#[test]
fn a_name_that_is_too_long_is_left_out() {
    let label = "a".repeat(60);
    let asked = format!("{label}.{label}.{label}.shop.svc.cluster.local.");
    let long = format!("{label}.{label}.");
    let path = [name("shop.svc.cluster.local."), name(&long)];
    assert_eq!(completions(&name(&asked), &path).len(), 1);
}

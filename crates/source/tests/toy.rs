//! A kind that this crate does not know, defined in this file only, from both feeds to a consumer.

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use sluice_miniapi::{Cut, MiniApi, Options};
use sluice_model::{Change, KindName, Labels, Model, NamespacedName, Selector, Service};
use sluice_source::apiserver::{Access, Client, Timeouts, connect};
use sluice_source::kind::{
    AllLabels, At, Converted, Faults, Fields, Identity, Interner, Kind, ObjectMeta, labels,
    namespaced,
};
use sluice_source::{FieldTest, Hub, Need, Notice, Selection, Subscription, Wants, kinds};

/// Long enough for a loaded machine, short enough for a person.
const DEADLINE: Duration = Duration::from_secs(30);

/// A ConfigMap (v1), cut to one of its values.
#[derive(Debug, PartialEq)]
struct Config {
    name: NamespacedName,
    labels: Labels,
    holder: Arc<str>,
}

impl Model for Config {
    const KIND: &'static KindName = &KindName {
        name: "ConfigMap",
        version: "v1",
    };

    fn name(&self) -> NamespacedName {
        self.name.clone()
    }

    fn labels(&self) -> Option<&Labels> {
        Some(&self.labels)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WrittenConfig {
    metadata: ObjectMeta<AllLabels>,
    data: Data,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Data {
    holder: String,
}

static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: apiVersion binaryData data immutable kind metadata",
    )
});

impl Kind for WrittenConfig {
    type Model = Config;
    const PLURAL: &'static str = "configmaps";
    const OBJECTS: &'static str = "ConfigMaps";

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Config> {
        let mut faults = Faults::new(names);
        let name = namespaced(&self.metadata, |it| Ok(it), &mut faults);
        let labels = labels(&self.metadata, &mut faults);
        let holder = match &*self.data.holder {
            "" => Err("is required".to_owned()),
            text => Ok(text),
        };
        let holder = faults.text(At::top("data.holder"), holder);
        let config = name.zip(holder).map(|(name, holder)| Config {
            name,
            labels,
            holder,
        });
        faults.finish(config)
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }
}

fn config(name: &str, holder: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "kube-system", "labels": {"app": app}},
        "data": {"holder": holder},
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]},
    })
}

/// A consumer of ConfigMaps: it has no arm for any other kind.
#[derive(Debug)]
enum Held {
    Config(Change<Config>),
    Notice(Notice),
}

/// Events of another consumer: of ConfigMaps by label, and of Services.
#[derive(Debug)]
enum Both {
    Config(Change<Config>),
    Service(Change<Service>),
    Notice(Notice),
}

fn configs() -> Wants<Held> {
    let all = Selection::default();
    Wants::new(Held::Notice).want::<WrittenConfig>(all, Need::Required, Held::Config)
}

fn both() -> Wants<Both> {
    let of_web = Selection {
        labels: Selector::parse("app=web").unwrap(),
        ..Selection::default()
    };
    Wants::new(Both::Notice)
        .want::<WrittenConfig>(of_web, Need::Required, Both::Config)
        .want::<kinds::Service>(Selection::default(), Need::Required, Both::Service)
}

/// The state of a consumer: objects by name, problems by origin, and the number of `Synced` events.
struct View<E> {
    _subscription: Subscription,
    batches: Receiver<Vec<E>>,
    known: BTreeMap<String, String>,
    tell: fn(E) -> (String, Option<String>),
}

impl<E: 'static + Send> View<E> {
    fn of(hub: &Hub, wants: Wants<E>, tell: fn(E) -> (String, Option<String>)) -> Self {
        let (sender, batches) = channel();
        let subscription = hub.subscribe(wants, move |batch| {
            let _ = sender.send(batch);
        });
        Self {
            _subscription: subscription,
            batches,
            known: BTreeMap::new(),
            tell,
        }
    }

    #[track_caller]
    fn expect(&mut self, expected: &str) {
        loop {
            let known = self
                .known
                .iter()
                .map(|(key, value)| format!("{key}={value}"));
            let known = known.collect::<Vec<_>>().join("; ");
            if known == expected {
                return;
            }
            let batch = self.batches.recv_timeout(DEADLINE);
            for event in batch.unwrap_or_else(|_| panic!("{known}, wanted: {expected}")) {
                match (self.tell)(event) {
                    (key, Some(value)) => self.known.insert(key, value),
                    (key, None) => self.known.remove(&key),
                };
            }
        }
    }
}

fn of_config(change: Change<Config>) -> (String, Option<String>) {
    let key = change.reference().to_string();
    match change {
        Change::Set(config) => (key, Some(config.holder.to_string())),
        Change::Delete(_) => (key, None),
    }
}

fn of_notice(notice: Notice) -> (String, Option<String>) {
    match notice {
        Notice::Synced => ("synced".to_owned(), Some("yes".to_owned())),
        Notice::Problems { origin, problems } => {
            let problems = problems.join("|");
            (
                origin.to_string(),
                Some(problems).filter(|it| !it.is_empty()),
            )
        }
    }
}

fn held(event: Held) -> (String, Option<String>) {
    match event {
        Held::Config(change) => of_config(change),
        Held::Notice(notice) => of_notice(notice),
    }
}

fn of_both(event: Both) -> (String, Option<String>) {
    match event {
        Both::Config(change) => of_config(change),
        Both::Service(Change::Set(it)) => ("web".to_owned(), Some(it.ports[0].port.to_string())),
        Both::Service(Change::Delete(_)) => ("web".to_owned(), None),
        Both::Notice(notice) => of_notice(notice),
    }
}

const A: &str = "ConfigMap kube-system/a";
const B: &str = "ConfigMap kube-system/b";

#[test]
fn from_a_folder() {
    let temp = tempfile::tempdir().unwrap();
    let write = |name: &str, objects: &[Value]| {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let new = temp.path().join(".new");
        fs::write(&new, list.to_string()).unwrap();
        fs::rename(new, temp.path().join(name)).unwrap();
    };
    write(
        "a.json",
        &[config("a", "n1", "web"), config("b", "n2", "db"), service()],
    );
    let hub = Hub::default();
    let mut first = View::of(&hub, configs(), held);
    let _watch = hub.watch(temp.path()).unwrap();
    first.expect(&format!("{A}=n1; {B}=n2; synced=yes"));
    // A later consumer gets the known objects, and those of a kind that no consumer wanted before.
    let mut second = View::of(&hub, both(), of_both);
    second.expect(&format!("{A}=n1; synced=yes; web=80"));
    // The same for topics that exist already.
    View::of(&hub, configs(), held).expect(&format!("{A}=n1; {B}=n2; synced=yes"));
    // An object that is no longer selected is deleted for the consumers with this selection.
    write(
        "a.json",
        &[config("a", "n3", "db"), config("b", "n2", "db"), service()],
    );
    first.expect(&format!("{A}=n3; {B}=n2; synced=yes"));
    second.expect("synced=yes; web=80");
    let mut wrong = config("b", "", "db");
    wrong["date"] = json!("n2");
    write("a.json", &[config("a", "n3", "db"), wrong]);
    let problems = [
        "date: is no field of the API and is ignored: write data",
        "data.holder: is required",
        "refused: its last good version stays in force",
    ];
    let problems = problems.map(|it| format!("a.json:1: {B}: {it}")).join("|");
    first.expect(&format!("{A}=n3; {B}=n2; a.json={problems}; synced=yes"));
    second.expect(&format!("a.json={problems}; synced=yes"));
}

fn api() -> (MiniApi, Client, tempfile::TempDir) {
    let api = MiniApi::start(Options::default()).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("kubeconfig");
    fs::write(&path, api.kubeconfig()).unwrap();
    let access = Access {
        kubeconfig: Some(path),
        ..Access::default()
    };
    let client = connect(&access).unwrap();
    (api, client, temp)
}

#[test]
fn from_an_api_server() {
    let (api, client, _files) = api();
    api.put_all([config("a", "n1", "web"), config("b", "n2", "db"), service()])
        .unwrap();
    let hub = Hub::default();
    let mut first = View::of(&hub, configs(), held);
    let _follow = hub
        .follow(&client, Timeouts::default(), Arc::new(|_| {}))
        .unwrap();
    first.expect(&format!("{A}=n1; {B}=n2; synced=yes"));
    let mut second = View::of(&hub, both(), of_both);
    second.expect(&format!("{A}=n1; synced=yes; web=80"));
    let before = api.requests().len();
    // A consumer of an existing topic causes no request.
    let mut third = View::of(&hub, configs(), held);
    third.expect(&format!("{A}=n1; {B}=n2; synced=yes"));
    assert_eq!(api.requests().len(), before);
    api.put_all([config("a", "n3", "db"), config("b", "", "db")])
        .unwrap();
    let problems = [
        "data.holder: is required",
        "refused: its last good version stays in force",
    ];
    let problems = problems.map(|it| format!("{B}: {it}")).join("|");
    // The object and its problems have one name here: the later one is seen.
    first.expect(&format!("{A}=n3; {B}={problems}; synced=yes"));
    third.expect(&format!("{A}=n3; {B}={problems}; synced=yes"));
    second.expect("synced=yes; web=80");
}

#[test]
fn what_nobody_requires_is_not_waited_for() {
    let (api, client, _files) = api();
    api.put_all([config("a", "n1", "web"), service()]).unwrap();
    let hub = Hub::default();
    // The server refuses the field: the list never comes.
    let refused = Selection {
        fields: vec![FieldTest::equal("spec.colour", "blue")],
        ..Selection::default()
    };
    let wants = configs().want::<kinds::Pod>(refused, Need::Optional("nothing"), |_| {
        unreachable!("no list of Pods comes")
    });
    let mut view = View::of(&hub, wants, held);
    let timeouts = Timeouts {
        node: Duration::from_millis(300),
        ..Timeouts::default()
    };
    let _follow = hub.follow(&client, timeouts, Arc::new(|_| {})).unwrap();
    while !view.known.contains_key("synced") {
        for event in view.batches.recv_timeout(DEADLINE).unwrap() {
            let (key, value) = held(event);
            view.known.insert(key, value.unwrap_or_default());
        }
    }
    assert_eq!(view.known[A], "n1");
    // A consumer that does not want Pods gets no problem of Pods.
    View::of(&hub, configs(), held).expect(&format!("{A}=n1; synced=yes"));
}

fn services() -> Wants<Both> {
    Wants::new(Both::Notice).want_all::<kinds::Service>(Both::Service)
}

fn service_at(port: u16) -> Value {
    let mut service = service();
    service["spec"]["ports"][0]["port"] = json!(port);
    service
}

#[test]
fn a_watch_ends_with_the_last_subscription_that_wants_it() {
    let (api, client, _files) = api();
    api.put_all([config("a", "n1", "web"), service()]).unwrap();
    let hub = Hub::default();
    let [mut first, mut second] = [(); 2].map(|()| View::of(&hub, configs(), held));
    let mut rest = View::of(&hub, services(), of_both);
    let _follow = hub
        .follow(&client, Timeouts::default(), Arc::new(|_| {}))
        .unwrap();
    first.expect(&format!("{A}=n1; synced=yes"));
    second.expect(&format!("{A}=n1; synced=yes"));
    rest.expect("synced=yes; web=80");
    let asked = || {
        let asked = api.requests();
        let asked = asked.iter().filter(|it| it.path.ends_with("/configmaps"));
        asked.count()
    };
    let before = asked();
    drop(first);
    // Another consumer wants the objects.
    api.put(config("a", "n2", "web")).unwrap();
    second.expect(&format!("{A}=n2; synced=yes"));
    drop(second);
    // The hub takes in its consumers in their order: the other one is gone when this one is there.
    View::of(&hub, services(), of_both).expect("synced=yes; web=80");
    api.cut_connections(Cut::Close).unwrap();
    api.put(service_at(81)).unwrap();
    rest.expect("synced=yes; web=81");
    assert_eq!(asked(), before, "the others are watched again");
    View::of(&hub, configs(), held).expect(&format!("{A}=n2; synced=yes"));
    assert!(asked() > before);
}

#[test]
fn a_folder_is_read_for_the_consumers_that_are_left() {
    let temp = tempfile::tempdir().unwrap();
    let write = |objects: &[Value]| {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let new = temp.path().join(".new");
        fs::write(&new, list.to_string()).unwrap();
        fs::rename(new, temp.path().join("a.json")).unwrap();
    };
    write(&[config("a", "n1", "web"), service()]);
    let hub = Hub::default();
    let mut first = View::of(&hub, configs(), held);
    let mut rest = View::of(&hub, services(), of_both);
    let _watch = hub.watch(temp.path()).unwrap();
    first.expect(&format!("{A}=n1; synced=yes"));
    rest.expect("synced=yes; web=80");
    drop(first);
    View::of(&hub, services(), of_both).expect("synced=yes; web=80");
    // Nobody hears that the object is wrong.
    write(&[config("a", "", "web"), service_at(81)]);
    rest.expect("synced=yes; web=81");
    write(&[config("a", "n2", "web"), service_at(81)]);
    View::of(&hub, configs(), held).expect(&format!("{A}=n2; synced=yes"));
}

/// One consumer reports for the process, whatever kinds the others want.
#[test]
fn problems_of_other_consumers_are_heard_by_the_one_that_reports() {
    let (api, client, _files) = api();
    api.put_all([config("b", "", "db"), service()]).unwrap();
    let hub = Hub::default();
    let mut reports = View::of(&hub, services().with_every_problem(), of_both);
    let other = View::of(&hub, configs(), held);
    let _follow = hub
        .follow(&client, Timeouts::default(), Arc::new(|_| {}))
        .unwrap();
    let problem = format!("{B}={B}: data.holder: is required");
    reports.expect(&format!("{problem}; synced=yes; web=80"));
    View::of(&hub, services(), of_both).expect("synced=yes; web=80");
    let later = services().with_every_problem();
    View::of(&hub, later, of_both).expect(&format!("{problem}; synced=yes; web=80"));
    drop(other);
    reports.expect("synced=yes; web=80");
}

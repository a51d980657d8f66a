//! Somebody else's addresses, ports and names.

use serde_json::{Value, json};
use sluice_lab::Outcome;

use crate::hostile::attack::Attack;
use crate::hostile::objects::{endpoints, load_balancer, port_80, served, service, slice, younger};
use crate::hostile::world::{BYSTANDER, HEALTH_CHECK, Mode, NODE_PORT, VICTIM, World};

/// Address of the node `node-a` of the lab.
const NODE: &str = "192.168.100.10";
/// Address of the pod `thief` of the lab, which is the fourth.
const THIEF: &str = "10.244.0.5";
/// Address of the victim's first pod.
const POD: &str = "10.244.0.2";

pub(crate) fn attacks(_: Mode) -> Vec<Attack> {
    let mut all = addresses();
    all.extend(node_ports());
    all.extend(endpoints_of_others());
    all.extend(names());
    all
}

/// Ports 80 to 82 that lead to the thief.
fn stolen(number: usize, fields: Value) -> Vec<Value> {
    let ports = json!([
        {"name": "a", "port": 80, "targetPort": 8080},
        {"name": "b", "port": 81, "targetPort": 8080},
    ]);
    let service = service("thief", number, &ports, fields);
    let on_pod = json!([{"name": "a", "port": 8080}, {"name": "b", "port": 8080}]);
    vec![service, slice("thief", 0, &on_pod, &[THIEF.to_owned()])]
}

fn assert_not_stolen(world: &World) {
    for port in [80, 81] {
        for ip in [VICTIM, BYSTANDER] {
            let answer = world.ask(ip, port);
            assert_ne!(answer.name(), Some("thief"), "{ip}:{port}");
        }
    }
    assert_eq!(
        world.ask(VICTIM, 81),
        Outcome::Refused,
        "an unknown port of a ClusterIP"
    );
}

fn addresses() -> Vec<Attack> {
    let both = json!([VICTIM.to_string(), BYSTANDER.to_string()]);
    let balanced = |ip: &str, ports: Value| {
        let balancer = load_balancer(1, &ports, &[ip.to_owned()], json!({}));
        served(balancer, &[THIEF.to_owned()])
    };
    let cidr = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "more"}, "spec": {"cidrs": ["203.0.113.0/24"]},
    });
    let mut outside = stolen(1, json!({"externalIPs": ["203.0.113.7"]}));
    outside.push(cidr);
    vec![
        Attack::new("the victim's ClusterIP as external IP")
            .objects(stolen(1, json!({"externalIPs": both})))
            .said("is the ClusterIP of Service victim/web")
            .check(assert_not_stolen),
        Attack::new("the victim's ClusterIP as load balancer")
            .objects(balanced(&VICTIM.to_string(), port_80()))
            .said("is the ClusterIP of Service victim/web")
            .check(assert_not_stolen),
        Attack::new("the victim's ClusterIP as ClusterIP")
            .objects(
                stolen(1, json!({"clusterIP": VICTIM.to_string()}))
                    .into_iter()
                    .map(younger),
            )
            .said("is also the ClusterIP of Service victim/web")
            .check(|world| assert_ne!(world.ask(VICTIM, 80).name(), Some("thief"))),
        Attack::new("an address of the node as load balancer")
            .objects(balanced(NODE, port_80()))
            .said("is an address of this node"),
        Attack::new("the agent's own ports on an address of the node")
            .objects(balanced(
                NODE,
                json!([{"name": "a", "port": 10256}, {"name": "b", "port": 10249}]),
            ))
            .said("is an address of this node"),
        Attack::new("the address of the victim's pod as external IP")
            .objects(stolen(1, json!({"externalIPs": [POD]}))),
        Attack::new("an external IP within a ServiceCIDR, which nobody has")
            .objects(outside)
            .said("lies in the ServiceCIDR 203.0.113.0/24"),
    ]
}

/// A NodePort Service with these ports on the node.
fn on_node(wanted: &[u16]) -> Vec<Value> {
    let port = |it: &u16| json!({"name": format!("p{it}"), "port": it, "nodePort": it});
    let all: Value = wanted.iter().map(port).collect();
    let service = service("node-ports", 1, &all, json!({"type": "NodePort"}));
    served(service, &[THIEF.to_owned()])
}

fn health_check(number: usize, port: u16) -> Value {
    let fields = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": port});
    younger(load_balancer(
        number,
        &port_80(),
        &["203.0.113.9".to_owned()],
        fields,
    ))
}

fn node_ports() -> Vec<Attack> {
    let mut taken = on_node(&[NODE_PORT]);
    taken[0] = younger(taken[0].clone());
    vec![
        Attack::new("NodePorts of the agent and of the node")
            .objects(on_node(&[10256, 22, 10249, 10250]))
            .said("10256 ")
            .said("10250 "),
        Attack::new("the victim's NodePort")
            .objects(taken)
            .check(|world| {
                let answer = world.ask(world.node(), NODE_PORT);
                assert!(
                    ["one", "two"].map(Some).contains(&answer.name()),
                    "{answer}"
                );
            }),
        Attack::new("health check node ports of the agent and of a neighbour")
            .objects([
                health_check(1, 10256),
                health_check(2, 10249),
                health_check(3, HEALTH_CHECK),
            ])
            .said("10256 ")
            .check(|world| {
                let prober = world.cluster.client("prober").netns();
                let answer = world.get(prober, HEALTH_CHECK, "/");
                assert!(answer.contains("\"bystander\""), "{answer}");
            }),
    ]
}

fn endpoints_of_others() -> Vec<Attack> {
    let odd = [
        VICTIM.to_string(),
        NODE.to_owned(),
        "127.0.0.1".to_owned(),
        "169.254.169.254".to_owned(),
        "224.0.0.1".to_owned(),
        "255.255.255.255".to_owned(),
        "0.0.0.0".to_owned(),
    ];
    let each = odd.into_iter().enumerate().flat_map(|(number, address)| {
        let service = service(&format!("odd-{number}"), number, &port_80(), json!({}));
        served(service, &[address])
    });
    let foreign = slice(
        "web",
        0,
        &json!([{"name": "", "port": 8080}]),
        &[THIEF.to_owned()],
    );
    let cycle = || {
        let one = service("one", 1, &port_80(), json!({}));
        let two = service("two", 2, &port_80(), json!({}));
        let ips = ["10.96.64.2".to_owned(), "10.96.64.1".to_owned()];
        served(one, &ips[..1])
            .into_iter()
            .chain(served(two, &ips[1..]))
    };
    vec![
        Attack::new("endpoints that are no pods")
            .objects(each)
            .said("127.0.0.1 is a loopback address")
            .said("169.254.169.254 is a link-local address")
            .said("224.0.0.1 is a multicast address"),
        Attack::new("ClusterIPs as endpoints of each other").objects(cycle()),
        Attack::new("a slice of the victim's name from another namespace")
            .objects([foreign.clone()])
            .said("no file has a Service hostile/web")
            .check(assert_not_stolen),
        Attack::new("a Service of the victim's name in another namespace")
            .objects([service("web", 1, &port_80(), json!({})), foreign])
            .check(assert_not_stolen),
    ]
}

fn names() -> Vec<Attack> {
    let long = format!("hostile-{}", "x".repeat(55));
    let port = json!([{"name": "p".repeat(15), "port": 80}]);
    let mut longest = served(service(&long, 1, &port, json!({})), &endpoints(3));
    for object in &mut longest {
        object["metadata"]["namespace"] = json!(long);
    }
    longest[1]["metadata"]["name"] = json!("x".repeat(253));
    let external = |name: &str, text: &str| {
        let fields = json!({"type": "ExternalName", "clusterIP": "", "externalName": text});
        service(name, 1, &json!([]), fields)
    };
    let mut injected = service("comment", 2, &port_80(), json!({}));
    injected["metadata"]["name"] = json!("\"; flush ruleset; #");
    let double =
        json!([{"name": "a", "port": 80}, {"name": "b", "port": 80}, {"name": "a", "port": 81}]);
    vec![
        Attack::new("names of the greatest length").objects(longest),
        Attack::new("external names of odd text")
            .objects([
                external("a", "\u{202e}moc.elpmaxe\n\r\u{1b}[2J"),
                external("b", &"a.".repeat(100_000)),
                external("c", &VICTIM.to_string()),
            ])
            .said("spec.externalName"),
        Attack::new("rules in names").objects([injected]).said("metadata.name"),
        Attack::new("ports twice in one Service")
            .objects(served(service("double", 1, &double, json!({})), &endpoints(2)))
            .said("spec.ports"),
        Attack::new("names that cannot be seen")
            .file(
                "hostile-bidi.yaml",
                "\u{feff}# \u{202e}gnihton\u{2066}\napiVersion: v1\nkind: Service\nmetadata: \
                 {name: \"\u{202e}bew\u{200b}\", namespace: hostile}\nspec: {ports: [{port: 80}]}\n",
            )
            .said("metadata.name")
            .check(|world| {
                let hidden = ['\u{202e}', '\u{2066}', '\u{200b}', '\u{1b}', '\u{feff}'];
                assert!(!world.log(0).contains(hidden), "the log is as it looks");
            }),
    ]
}

/// The lab's addresses are what the constants say.
pub(crate) fn assert_addresses(world: &World) {
    let pod = |it| world.cluster.pod(it).ipv4().to_string();
    let found = [world.node().to_string(), pod("one"), pod("thief")];
    assert_eq!(found, [NODE, POD, THIEF]);
}

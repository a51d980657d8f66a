"""A good object of each kind, without its name."""

CONTAINER = {"name": "c", "image": "i"}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
WORKLOAD = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
JOB = {"template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}

# By group version and resource.
KINDS = {
    "v1 pods": {"spec": {"containers": [CONTAINER]}},
    "apps/v1 deployments": {"spec": WORKLOAD},
    "apps/v1 statefulsets": {"spec": {**WORKLOAD, "serviceName": "s"}},
    "apps/v1 daemonsets": {"spec": WORKLOAD},
    "apps/v1 replicasets": {"spec": WORKLOAD},
    "apps/v1 controllerrevisions": {"revision": 1, "data": {"a": "b"}},
    "batch/v1 jobs": {"spec": JOB},
    "batch/v1 cronjobs": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}},
    "v1 services": {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
    "discovery.k8s.io/v1 endpointslices": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]},
    "v1 configmaps": {"data": {"a": "b"}},
    "v1 secrets": {"data": {"a": "Yg=="}},
    "v1 namespaces": {},
    "v1 serviceaccounts": {},
    "networking.k8s.io/v1 ingresses": {
        "spec": {
            "rules": [
                {
                    "http": {
                        "paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}],
                    },
                },
            ],
        },
    },
    "networking.k8s.io/v1 ingressclasses": {"spec": {"controller": "a.b/c"}},
    "networking.k8s.io/v1 networkpolicies": {"spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}]}},
    "networking.k8s.io/v1 ipaddresses": {"metadata": {"name": "10.1.1.1"}, "spec": {"parentRef": {"resource": "services", "name": "x", "namespace": "default"}}},
    "networking.k8s.io/v1 servicecidrs": {"spec": {"cidrs": ["10.50.0.0/16"]}},
    "autoscaling/v2 horizontalpodautoscalers": {
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}}}],
        },
    },
    "autoscaling/v1 horizontalpodautoscalers": {"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}}},
    "v1 persistentvolumeclaims": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    "v1 persistentvolumes": {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}},
    "rbac.authorization.k8s.io/v1 roles": {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    "rbac.authorization.k8s.io/v1 clusterroles": {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    "rbac.authorization.k8s.io/v1 rolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "d", "namespace": "x"}],
    },
    "rbac.authorization.k8s.io/v1 clusterrolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "d"}],
    },
    "coordination.k8s.io/v1 leases": {"spec": {"holderIdentity": "a"}},
    "v1 events": {"involvedObject": {"namespace": "default", "kind": "Pod", "name": "x"}, "reason": "R", "type": "Normal"},
    "events.k8s.io/v1 events": {
        "regarding": {"namespace": "default", "kind": "Pod", "name": "x"},
        "reason": "R",
        "type": "Normal",
        "action": "A",
        "reportingController": "a.b/c",
        "reportingInstance": "i",
        "eventTime": "2026-11-28T00:00:00.000000Z",
    },
    "v1 endpoints": {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    "v1 nodes": {},
    "policy/v1 poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    "scheduling.k8s.io/v1 priorityclasses": {"value": 5},
    "storage.k8s.io/v1 storageclasses": {"provisioner": "a.b/c"},
    "storage.k8s.io/v1 csidrivers": {"spec": {}},
    "storage.k8s.io/v1 csinodes": {"spec": {"drivers": [{"name": "a", "nodeID": "n"}]}},
    "v1 limitranges": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}},
    "v1 resourcequotas": {"spec": {"hard": {"cpu": "1"}}},
    "v1 replicationcontrollers": {"spec": {"selector": {"a": "b"}, "template": TEMPLATE}},
    "v1 podtemplates": {"template": TEMPLATE},
    "node.k8s.io/v1 runtimeclasses": {"handler": "h"},
    "apiextensions.k8s.io/v1 customresourcedefinitions": {
        "metadata": {"name": "foos.ex.com"},
        "spec": {
            "group": "ex.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
                        },
                    },
                },
            ],
        },
    },
    "certificates.k8s.io/v1 certificatesigningrequests": {"spec": {"request": "Yg==", "signerName": "a.b/c", "usages": ["client auth"]}},
    "admissionregistration.k8s.io/v1 validatingwebhookconfigurations": {
        "webhooks": [
            {
                "name": "a.b.c",
                "clientConfig": {"url": "https://a.b/c"},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
            },
        ],
    },
}

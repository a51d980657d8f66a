"""Dry runs of updates: a stored object of each kind, and merge patches that change one field."""

import json

from creations import Kinds
from objects import CONTAINER, JOB, KINDS, TEMPLATE

IMAGE = {"containers": [{"name": "c", "image": "j"}]}

# By resource: what replaces fields of the good object, and the patches.
CHANGES = {
    "v1 pods": (
        {"spec": {"containers": [CONTAINER], "schedulingGates": [{"name": "a/b"}], "terminationGracePeriodSeconds": 5}},
        [
            {"spec": IMAGE}, {"spec": {"containers": [{"name": "c", "image": ""}]}},
            {"spec": {"containers": [{"name": "d", "image": "j"}]}}, {"spec": {"activeDeadlineSeconds": 5}},
            {"spec": {"activeDeadlineSeconds": -5}}, {"spec": {"terminationGracePeriodSeconds": 1}},
            {"spec": {"hostname": "x"}}, {"spec": {"tolerations": []}},
            {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}}, {"spec": {"nodeName": "n"}},
            {"spec": {"schedulingGates": None}}, {"spec": {"schedulingGates": [{"name": "c/d"}]}},
            {"spec": {"nodeSelector": {"a": "b"}}}, {"spec": {"serviceAccountName": "x"}},
            {"metadata": {"labels": {"a b": "c"}}}, {"metadata": {"generateName": "x"}},
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"}]}},
            {"metadata": {"creationTimestamp": None}}, {"metadata": {"deletionGracePeriodSeconds": 5}},
            {"metadata": {"generation": 7}}, {"status": {"phase": "Failed"}},
        ],
    ),
    "apps/v1 deployments": (
        {"spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
        [
            {"spec": {"selector": {"matchLabels": {"a": "c"}}}}, {"spec": {"selector": {"matchLabels": {"c": "d"}}}},
            {"spec": {"template": {"metadata": {"labels": {"a": "z"}}}}}, {"spec": {"replicas": -1}},
            {"spec": {"replicas": None}}, {"spec": {"strategy": {"type": "Recreate"}}}, {"spec": {"strategy": None}},
            {"spec": {"template": {"spec": {"containers": []}}}}, {"spec": {"paused": True}},
            {"spec": {"template": {"spec": {"hostNetwork": True}}}},
        ],
    ),
    "apps/v1 statefulsets": (
        {"spec": {"replicas": 0, "serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
        [
            {"spec": {"serviceName": "t"}}, {"spec": {"selector": {"matchLabels": {"a": "c"}}}},
            {"spec": {"podManagementPolicy": "Parallel"}}, {"spec": {"minReadySeconds": 4}},
            {"spec": {"ordinals": {"start": 3}}}, {"spec": {"updateStrategy": {"type": "OnDelete"}}},
            {"spec": {"revisionHistoryLimit": 3}},
        ],
    ),
    "apps/v1 daemonsets": (
        {},
        [
            {"spec": {"selector": {"matchLabels": {"a": "c"}}}}, {"spec": {"template": {"spec": IMAGE}}},
            {"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}},
        ],
    ),
    "batch/v1 jobs": (
        {"spec": {"suspend": True, **JOB}},
        [
            {"spec": {"parallelism": 3}}, {"spec": {"completions": 3}}, {"spec": {"template": {"spec": IMAGE}}},
            {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}, {"spec": {"suspend": False}},
            {"spec": {"backoffLimit": 1}}, {"spec": {"selector": None}}, {"spec": {"completionMode": "Indexed"}},
            {"spec": {"ttlSecondsAfterFinished": 5}}, {"spec": {"podReplacementPolicy": "Failed"}},
            {"spec": {"manualSelector": True}},
        ],
    ),
    "batch/v1 cronjobs": (
        {"spec": {"schedule": "* * * * *", "suspend": True, "jobTemplate": {"spec": JOB}}},
        [
            {"spec": {"schedule": "x"}}, {"spec": {"timeZone": "UTC"}}, {"spec": {"timeZone": "x"}},
            {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Always"}}}}}},
        ],
    ),
    "v1 services": (
        {"spec": {"type": "NodePort", "ports": [{"port": 80}], "selector": {"a": "b"}}},
        [
            {"spec": {"type": "ClusterIP"}}, {"spec": {"type": "ExternalName", "externalName": "a.b"}},
            {"spec": {"type": "LoadBalancer"}}, {"spec": {"clusterIP": "10.96.3.3"}}, {"spec": {"clusterIP": None}},
            {"spec": {"clusterIP": "None"}}, {"spec": {"ipFamilies": ["IPv6"]}},
            {"spec": {"ipFamilyPolicy": "PreferDualStack"}}, {"spec": {"ports": []}},
            {"spec": {"sessionAffinity": "ClientIP"}}, {"spec": {"externalTrafficPolicy": "Local"}},
            {"spec": {"externalTrafficPolicy": None}}, {"spec": {"internalTrafficPolicy": "Local"}},
            {"spec": {"selector": None}}, {"spec": {"ports": [{"port": 80}, {"port": 81}]}},
            {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}},
            {"spec": {"loadBalancerClass": "a/b"}}, {"spec": {"allocateLoadBalancerNodePorts": True}},
            {"spec": {"healthCheckNodePort": 30333}}, {"spec": {"externalIPs": ["1.2.3.4"]}},
        ],
    ),
    "v1 configmaps": (
        {"immutable": True},
        [
            {"data": {"a": "c"}}, {"immutable": False}, {"immutable": None}, {"binaryData": {"x": "Yg=="}},
            {"metadata": {"labels": {"a": "b"}}},
        ],
    ),
    "v1 secrets": ({}, [{"type": "x"}, {"stringData": {"a": "z"}}, {"data": {"a": None}}]),
    "v1 persistentvolumeclaims": (
        {},
        [
            {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}, {"spec": {"accessModes": ["ReadWriteMany"]}},
            {"spec": {"volumeName": "v"}}, {"spec": {"volumeMode": "Block"}},
        ],
    ),
    "discovery.k8s.io/v1 endpointslices": (
        {},
        [
            {"addressType": "IPv6"}, {"ports": [{"port": 5}, {"port": 6}]},
            {"endpoints": [{"addresses": ["10.0.0.300"]}]},
        ],
    ),
    "rbac.authorization.k8s.io/v1 rolebindings": ({}, [{"roleRef": {"name": "s"}}]),
    "coordination.k8s.io/v1 leases": (
        {},
        [
            {"spec": {"leaseTransitions": -1}}, {"spec": {"holderIdentity": None}}, {"spec": {"strategy": "x"}},
            {"spec": {"renewTime": "2026-11-28T00:00:00.000000Z"}},
        ],
    ),
    "autoscaling/v2 horizontalpodautoscalers": (
        {},
        [
            {"spec": {"maxReplicas": 0}}, {"spec": {"metrics": []}},
            {"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}},
        ],
    ),
    "v1 namespaces": (
        {},
        [
            {"spec": {"finalizers": []}}, {"metadata": {"labels": None}}, {"status": {"phase": "Terminating"}},
            {"metadata": {"labels": {"kubernetes.io/metadata.name": "z"}}},
        ],
    ),
    "networking.k8s.io/v1 networkpolicies": (
        {},
        [{"spec": {"egress": [{}]}}, {"spec": {"policyTypes": None}}, {"spec": {"podSelector": None}}],
    ),
}  # fmt: skip


def run(asked, only):
    kinds = Kinds(asked.judge)
    for name, (fields, patches) in CHANGES.items():
        version, resource = name.split()
        if only and resource not in only:
            continue
        _, path = kinds.path(version, resource)
        asked.each("POST", path, {**KINDS[name], **fields, "metadata": {"name": "update"}})
        path += "/update"
        # Controllers of the lab may have been there already.
        base = asked.both(f"update {name}", "GET", path)
        for patch in patches:
            where = f"update {name} {json.dumps(patch)}"
            asked.both(where, "PATCH", path + "?dryRun=All", patch, base, content_type="application/merge-patch+json")
        asked.each("DELETE", path + "?gracePeriodSeconds=0")

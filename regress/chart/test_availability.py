"""How proxies are spread, kept and scaled, and which pods and clients reach them."""

from conftest import named, of_kind, pods, render

BUNDLED = {"database": {"type": "bundled"}}


def proxy_pod(objects):
    return named(objects, "Deployment", "kube-reports")["spec"]["template"]


def selects(selector, pod):
    """Whether a selector with matchLabels alone selects a pod."""
    assert list(selector) == ["matchLabels"]
    return selector["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_spread():
    """By default, proxies are spread over hosts and zones; only proxies are counted"""
    objects = render()
    pod = proxy_pod(objects)
    constraints = pod["spec"]["topologySpreadConstraints"]
    assert [one["topologyKey"] for one in constraints] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    for one in constraints:
        # A cluster of a single node runs all replicas, too.
        assert (one["maxSkew"], one["whenUnsatisfiable"]) == (1, "ScheduleAnyway")
        assert [other["metadata"]["name"] for other, made in pods(objects) if selects(one["labelSelector"], made)] == [
            "kube-reports"
        ]


def test_disruption():
    """By default there are several proxies, and a drain evicts one at a time; the budget can be switched off"""
    objects = render()
    budget = named(objects, "PodDisruptionBudget", "kube-reports")["spec"]
    assert budget["maxUnavailable"] == 1 and "minAvailable" not in budget
    assert selects(budget["selector"], proxy_pod(objects))
    assert named(objects, "Deployment", "kube-reports")["spec"]["replicas"] > 1
    assert of_kind(render({"podDisruptionBudget": {"enabled": False}}), "PodDisruptionBudget") == []


def test_autoscaling():
    """Autoscaling is off by default; if it is on, only the autoscaler sets the number of replicas"""
    assert of_kind(render(), "HorizontalPodAutoscaler") == []
    objects = render({"autoscaling": {"enabled": True, "minReplicas": 3, "maxReplicas": 5,
                                      "targetMemoryUtilizationPercentage": 70}})
    scaler = named(objects, "HorizontalPodAutoscaler", "kube-reports")["spec"]
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "kube-reports"}
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (3, 5)
    assert {one["resource"]["name"]: one["resource"]["target"]["averageUtilization"] for one in scaler["metrics"]} == {
        "cpu": 80, "memory": 70
    }
    assert "replicas" not in named(objects, "Deployment", "kube-reports")["spec"]


def test_rolling_update():
    """A rolling update ends no replica before another one is ready"""
    assert named(render(), "Deployment", "kube-reports")["spec"]["strategy"] == {
        "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}
    }


def test_who_reaches_the_proxies():
    """By default all clients reach the API port, pods the metrics, and nothing another port; egress is not limited"""
    objects = render()
    policy = named(objects, "NetworkPolicy", "kube-reports")["spec"]
    assert selects(policy["podSelector"], proxy_pod(objects))
    assert policy["policyTypes"] == ["Ingress"]
    rules = {port["port"]: rule.get("from") for rule in policy["ingress"] for port in rule["ports"]}
    # kube-apiserver has an address of its own, which no selector matches.
    assert rules == {"https": None, "metrics": [{"namespaceSelector": {}}]}
    ports = {port["name"] for container in proxy_pod(objects)["spec"]["containers"] for port in container["ports"]}
    assert set(rules) == ports


def test_who_reaches_the_database():
    """Only those of the chart's pods that need the database reach it, by its only port"""
    objects = render(BUNDLED)
    policy = named(objects, "NetworkPolicy", "kube-reports-database")["spec"]
    (rule,) = policy["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": "postgresql"}]
    reached = {made["metadata"]["labels"]["app.kubernetes.io/component"] for _, made in pods(objects)
               if any(selects(peer["podSelector"], made) for peer in rule["from"])}
    asking = {made["metadata"]["labels"]["app.kubernetes.io/component"] for _, made in pods(objects)
              if "kube-reports-database" in str(made)} - {"database"}
    assert reached == asking == {"proxy", "setup", "apiservices"}

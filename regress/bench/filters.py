"""The filters whose first pages the row analytics-filters measures."""

# What the filters name is there: one that everybody has, one that few have, one that nobody has.
FILTERS = [
    {}, {"cluster": "test"}, {"cluster": "nobody"}, {"namespace": "ns-10"}, {"namespace": "nobody"},
    {"report": "scan-210"}, {"report": "nobody"}, {"source": "kyverno"}, {"source": "Trivy Vulnerability"},
    {"source": "nobody"}, {"policy": "disallow-capabilities-strict"}, {"policy": "CVE-2018-1003"},
    {"policy": "nobody"}, {"rule": "autogen-check-seccomp"}, {"category": "Vulnerability Scan"},
    {"severity": "critical"}, {"status": "pass"}, {"status": "fail"}, {"status": "warn"}, {"status": "error"},
    {"native_status": "error"}, {"native_status": "MANUAL"}, {"subject_kind": "Pod"}, {"subject_kind": "Deployment"},
    {"subject_kind": "CronJob"}, {"subject_namespace": "ns-7"}, {"subject_namespace": "nobody"},
    {"subject_name": "app-210"}, {"subject_name": "nobody"}, {"subject_uid": "nobody"}, {"exception": "exception-7"},
    {"exception": "nobody"}, {"exempted": True}, {"exempted": False}, {"score_from": 9.8},
    {"score_from": 3, "score_to": 3.1}, {"score_to": 1}, {"score_from": 9.95},
    {"properties": {"resource": "package-7"}}, {"properties": {"artifact.tag": "v1"}},
    {"properties": {"resource": "nobody"}}, {"text": "image could not be read"}, {"text": "seccomp"},
    {"text": "validation"}, {"text": "pod-14"}, {"text": "app-210"}, {"text": "nobody says this"}, {"text": "ab"},
    {"since_from": "yesterday"}, {"since_to": "yesterday"}, {"since_from": "infinity"},
    {"first_seen_from": "yesterday"}, {"first_seen_from": "infinity"},
    {"namespace": ["ns-7", "ns-8", "ns-10"], "severity": "high", "status": ["fail", "error"]},
    {"namespace": "ns-10", "score_from": 8, "text": "package-7"}, {"status": "fail", "since_from": "yesterday"},
    {"status": "error", "subject_kind": "Deployment"}, {"status": "fail", "exempted": True},
    {"severity": "critical", "text": "package-8", "status": "fail"}]

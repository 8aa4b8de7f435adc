"""
The API groups of the Compliance Operator and of the Trivy Operator: CustomResourceDefinitions with the same names,
columns, subresources, defaults and embedded objects as theirs, and objects like those of the operators.
"""

import copy

COMPLIANCE = "compliance.openshift.io"
TRIVY = "aquasecurity.github.io"
VERSION = "v1alpha1"

TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
NUMBER = {"type": "integer"}
TIME = {"type": "string", "format": "date-time"}
TEXTS = {"type": "array", "items": TEXT}
# A schema that allows any content, as in the schemas of the operators.
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = {**OPEN, "x-kubernetes-embedded-resource": True}


def with_default(schema, value):
    return {**schema, "default": value}


def fields(required=(), **properties):
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def several(schema):
    return {"type": "array", "items": schema}


def crd(group, kind, properties, scope="Namespaced", short=(), status=False, columns=(), required=(), **more):
    plural = kind.lower() + "s"
    schema = {"apiVersion": TEXT, "kind": TEXT, "metadata": {"type": "object"}, **properties}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": {"controller-gen.kubebuilder.io/version": "v0.18.0"}},
        "spec": {"group": group, "scope": scope,
                 "names": {"kind": kind, "listKind": kind + "List", "plural": plural, "singular": kind.lower(),
                           **({"shortNames": list(short)} if short else {})},
                 "versions": [{
                     "name": VERSION, "served": True, "storage": True,
                     "schema": {"openAPIV3Schema": {**fields(required, **schema), **more}},
                     "subresources": {"status": {}} if status else {},
                     "additionalPrinterColumns": [{"name": name, "type": form, "jsonPath": path}
                                                  for name, form, path in columns]}]}}


# --- the Compliance Operator ---

STORAGE = fields(
    enabled=with_default(FLAG, True), size=with_default(TEXT, "1Gi"), rotation=with_default(NUMBER, 3),
    storageClassName={**TEXT, "nullable": True}, nodeSelector={"type": "object", "additionalProperties": TEXT},
    pvAccessModes=with_default(TEXTS, ["ReadWriteOnce"]), tolerations=several(OPEN))
SETTINGS = {
    "debug": FLAG, "noExternalResources": FLAG, "httpsProxy": TEXT, "remediationEnforcement": TEXT,
    "priorityClass": TEXT, "rawResultStorage": STORAGE,
    "scanTolerations": with_default(several(OPEN), [{"operator": "Exists"}]),
    "scanLimits": {"type": "object", "additionalProperties": {
        "anyOf": [NUMBER, TEXT], "x-kubernetes-int-or-string": True}},
    "strictNodeScan": with_default(FLAG, True), "showNotApplicable": with_default(FLAG, False),
    "timeout": with_default(TEXT, "30m"), "maxRetryOnTimeout": with_default(NUMBER, 3)}
SCAN = {
    **SETTINGS, "scanType": TEXT, "scannerType": {**TEXT, "enum": ["OpenSCAP", "CEL"]}, "contentImage": TEXT,
    "content": TEXT, "profile": TEXT, "rule": TEXT, "nodeSelector": {"type": "object", "additionalProperties": TEXT},
    "tailoringConfigMap": fields(["name"], name=TEXT)}
CONDITIONS = several(fields(["type", "status"], type=TEXT, status=TEXT, reason=TEXT, message=TEXT,
                            lastTransitionTime=TIME))
SCAN_STATUS = {
    "phase": TEXT, "result": TEXT, "errormsg": TEXT, "warnings": TEXT, "currentIndex": {**NUMBER, "format": "int64"},
    "remainingRetries": NUMBER, "startTimestamp": TIME, "endTimestamp": TIME, "conditions": CONDITIONS,
    "resultsStorage": fields(apiVersion=TEXT, kind=TEXT, namespace=TEXT, name=TEXT)}
SUITE_SETTINGS = {"autoApplyRemediations": FLAG, "autoUpdateRemediations": FLAG, "schedule": TEXT,
                  "suspend": with_default(FLAG, False)}
REFERENCE = fields(apiGroup=TEXT, kind=TEXT, name=TEXT)
RULE = {"id": TEXT, "title": TEXT, "description": TEXT, "rationale": TEXT, "warning": TEXT, "severity": TEXT,
        "instructions": TEXT, "checkType": TEXT}
PHASES = (("Phase", "string", ".status.phase"), ("Result", "string", ".status.result"))
AGE = ("Age", "date", ".metadata.creationTimestamp")


def compliance_crds():
    """Returns the CustomResourceDefinitions of the 12 kinds of the group."""
    def kind(name, properties, **more):
        return crd(COMPLIANCE, name, properties, **more)

    return [
        kind("ComplianceCheckResult", {"id": TEXT, "status": TEXT, "severity": TEXT, "description": TEXT,
                                       "rationale": TEXT, "instructions": TEXT, "valuesUsed": TEXTS,
                                       "warnings": {**TEXTS, "nullable": True}},
             short=["ccr", "checkresults", "checkresult"], required=["id", "severity", "status"],
             columns=[("Status", "string", ".status"), ("Severity", "string", ".severity")]),
        kind("ComplianceRemediation", {
            "spec": fields(["apply"], apply=FLAG, current=fields(object=EMBEDDED), outdated=fields(object=EMBEDDED),
                           type={**TEXT, "enum": ["Configuration", "Enforcement"], "default": "Configuration"}),
            "status": fields(applicationState=with_default(TEXT, "NotApplied"), errorMessage=TEXT)},
             short=["cr", "remediations", "remediation", "rems"], status=True,
             columns=[("State", "string", ".status.applicationState")]),
        kind("ComplianceScan", {"spec": fields(**SCAN), "status": fields(**SCAN_STATUS)}, short=["scans", "scan"],
             status=True, columns=PHASES),
        kind("ComplianceSuite", {
            "spec": fields(["scans"], **SUITE_SETTINGS, scans={**several(fields(["name"], name=TEXT, **SCAN)),
                                                               "x-kubernetes-list-type": "atomic"}),
            "status": fields(phase=TEXT, result=TEXT, errorMessage=TEXT, conditions=CONDITIONS, scanStatuses={
                **several(fields(["name"], name=TEXT, **SCAN_STATUS)), "x-kubernetes-list-type": "atomic"})},
             short=["suites", "suite"], status=True, columns=PHASES),
        kind("ScanSetting", {**SETTINGS, **SUITE_SETTINGS, "roles": TEXTS, "status": OPEN}, short=["ss"], status=True),
        kind("ScanSettingBinding", {"spec": OPEN, "profiles": several(REFERENCE),
                                    "settingsRef": with_default(REFERENCE, {
                                        "apiGroup": f"{COMPLIANCE}/{VERSION}", "kind": "ScanSetting",
                                        "name": "default"}),
                                    "status": fields(phase=TEXT, conditions=CONDITIONS, outputRef=fields(
                                        apiGroup=TEXT, kind=TEXT, name=TEXT))},
             short=["ssb"], status=True, columns=[("Status", "string", ".status.phase")]),
        kind("ProfileBundle", {
            "spec": fields(["contentFile", "contentImage"], contentFile=TEXT, contentImage=TEXT, celContentFile=TEXT),
            "status": fields(dataStreamStatus=with_default(TEXT, "PENDING"), errorMessage=TEXT,
                             conditions=CONDITIONS)},
             short=["pb"], status=True,
             columns=[("ContentImage", "string", ".spec.contentImage"),
                      ("ContentFile", "string", ".spec.contentFile"),
                      ("CELContentFile", "string", ".spec.celContentFile"),
                      ("Status", "string", ".status.dataStreamStatus")]),
        kind("Profile", {"id": TEXT, "title": TEXT, "description": TEXT, "version": TEXT,
                         "rules": {**TEXTS, "nullable": True}, "values": {**TEXTS, "nullable": True}},
             short=["profs", "prof"], required=["description", "id", "title"],
             columns=[AGE, ("Version", "string", ".version")]),
        kind("Rule", {**RULE, "availableFixes": {**several(fields(platform=TEXT, disruption=TEXT, fixObject=EMBEDDED)),
                                                 "nullable": True}},
             required=["id", "title"], columns=[AGE]),
        kind("CustomRule", {"spec": fields(["id", "title"], **RULE, expression=TEXT, inputs=several(OPEN)),
                            "status": fields(phase=TEXT, errorMessage=TEXT)},
             status=True, columns=[("Status", "string", ".status.phase"), AGE]),
        kind("TailoredProfile", {
            "spec": fields(["description", "title"], extends=TEXT, title=TEXT, description=TEXT,
                           enableRules=several(fields(["name", "rationale"], name=TEXT, rationale=TEXT)),
                           disableRules=several(fields(["name", "rationale"], name=TEXT, rationale=TEXT)),
                           setValues=several(fields(["name", "value"], name=TEXT, value=TEXT, rationale=TEXT))),
            "status": fields(id=TEXT, state=TEXT, warnings=TEXT, errorMessage=TEXT,
                             outputRef=fields(["name", "namespace"], name=TEXT, namespace=TEXT))},
             short=["tp", "tprof"], status=True, columns=[("State", "string", ".status.state")]),
        kind("Variable", {"id": TEXT, "title": TEXT, "description": TEXT, "type": TEXT, "value": TEXT,
                          "selections": {**several(fields(description=TEXT, value=TEXT)), "nullable": True}},
             short=["var"], required=["id", "title", "type"])]


def check_result(name, status, severity="medium", scan="ocp4-cis", suite="cis", **more):
    """Returns a ComplianceCheckResult like those of the operator's aggregator."""
    labels = {f"{COMPLIANCE}/scan-name": scan, f"{COMPLIANCE}/suite": suite, f"{COMPLIANCE}/check-status": status,
              f"{COMPLIANCE}/check-severity": severity, f"{COMPLIANCE}/profile-guid": "108268c9-af42-5b04"}
    if status == "FAIL":
        labels[f"{COMPLIANCE}/automated-remediation"] = ""
    return {
        "apiVersion": f"{COMPLIANCE}/{VERSION}", "kind": "ComplianceCheckResult",
        "metadata": {"name": f"{scan}-{name}", "namespace": "openshift-compliance", "labels": labels,
                     "annotations": {f"{COMPLIANCE}/rule": name,
                                     f"{COMPLIANCE}/last-scanned-timestamp": "2026-01-05T01:06:10Z"},
                     "ownerReferences": [{"apiVersion": f"{COMPLIANCE}/{VERSION}", "kind": "ComplianceScan",
                                          "name": scan, "uid": "6d9e8b6c-5ed8-4e5e-8a12-0f7f5f3e7f01",
                                          "controller": True, "blockOwnerDeletion": True}]},
        "id": f"xccdf_org.ssgproject.content_rule_{name.replace('-', '_')}", "status": status, "severity": severity,
        "description": f"what {name} does", "rationale": "why", "instructions": "how to look", **more}


def remediation(name, scan="ocp4-cis", suite="cis"):
    return {
        "apiVersion": f"{COMPLIANCE}/{VERSION}", "kind": "ComplianceRemediation",
        "metadata": {"name": f"{scan}-{name}", "namespace": "openshift-compliance",
                     "labels": {f"{COMPLIANCE}/scan-name": scan, f"{COMPLIANCE}/suite": suite},
                     "ownerReferences": [{"apiVersion": f"{COMPLIANCE}/{VERSION}", "kind": "ComplianceCheckResult",
                                          "name": f"{scan}-{name}", "uid": "6d9e8b6c-5ed8-4e5e-8a12-0f7f5f3e7f02",
                                          "controller": True, "blockOwnerDeletion": True}]},
        "spec": {"apply": False, "current": {"object": {
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"name": f"75-{name}"}, "spec": {"config": {"ignition": {"version": "3.1.0"}}}}}},
        "status": {"applicationState": "Applied"}}


# The findings of a scan of one role of nodes with the profile "moderate": the scan selects 235 of its 464 rules.
MODERATE = {"FAIL": 193, "PASS": 32, "ERROR": 4, "MANUAL": 3, "INFO": 2, "NOT-APPLICABLE": 1}
FAMILIES = ("audit-rules", "sysctl-net", "kubelet", "file-permissions", "service", "sshd", "package")


class ModerateScan:
    """
    The objects of such a scan: the suite, the scan, a check result for each rule, and remediations. Two of three
    failures have a remediation, and about one of twenty has a second one.
    """

    def __init__(self, suite="moderate"):
        self.name = "moderate-node-master"
        kind = {"apiVersion": f"{COMPLIANCE}/{VERSION}"}
        spec = {"scanType": "Node", "profile": "xccdf_org.ssgproject.content_profile_moderate",
                "content": "ssg-rhcos4-ds.xml", "contentImage": "openscap-ocp4:latest", "showNotApplicable": True,
                "nodeSelector": {"node-role.kubernetes.io/master": ""}}
        self.suite = {**kind, "kind": "ComplianceSuite",
                      "metadata": {"name": suite, "namespace": "openshift-compliance"},
                      "spec": {"scans": [{"name": self.name, **spec}]}}
        self.scan = {**kind, "kind": "ComplianceScan", "spec": spec,
                     "metadata": {"name": self.name, "namespace": "openshift-compliance",
                                  "labels": {f"{COMPLIANCE}/suite": suite}}}
        self.checks = {}
        self.remediations = {}
        statuses = [status for status, count in MODERATE.items() for _ in range(count)]
        for number, status in enumerate(statuses):
            rule = f"{FAMILIES[number % len(FAMILIES)]}-{number:03}"
            about = f"{rule} is set as the profile wants it. " * 20
            document = check_result(rule, status, ("medium", "low", "high")[number % 3], self.name, suite,
                                    description=about, rationale=about, instructions=about,
                                    warnings=None if number % 2 else ["only for nodes with a console"],
                                    **({"valuesUsed": ["var-sshd-timeout"]} if number % 10 == 0 else {}))
            if status == "FAIL" and number % 3:
                names = [rule] + ([f"{rule}-1"] if number % 20 == 1 else [])
                for name in names:
                    made = remediation(name, self.name, suite)
                    made["metadata"]["ownerReferences"][0]["name"] = document["metadata"]["name"]
                    self.remediations[name] = made
            elif status == "FAIL":
                del document["metadata"]["labels"][f"{COMPLIANCE}/automated-remediation"]
            self.checks[rule] = document

    def set_status(self, rule, status):
        """Sets the status of a rule in the next run."""
        self.checks[rule]["status"] = status
        self.checks[rule]["metadata"]["labels"][f"{COMPLIANCE}/check-status"] = status

    def forget(self, rule):
        """Removes a rule and its remediations: the next run does not have them."""
        del self.checks[rule]
        for name in [name for name in self.remediations if name in (rule, f"{rule}-1")]:
            del self.remediations[name]


# --- the Trivy Operator ---

SEVERITIES = {**TEXT, "enum": ["CRITICAL", "HIGH", "MEDIUM", "LOW", "UNKNOWN"]}
COUNTS = ("critical", "high", "medium", "low")
SUMMARY = fields([f"{name}Count" for name in COUNTS], **{f"{name}Count": {**NUMBER, "minimum": 0} for name in COUNTS},
                 noneCount=NUMBER, unknownCount=NUMBER)
ARTIFACT = fields(repository=TEXT, tag=TEXT, digest=TEXT, mimeType=TEXT)
SCANNER = fields(["name", "vendor", "version"], name=TEXT, vendor=TEXT, version=TEXT)
CHECK = fields(["checkID", "severity", "success"], checkID=TEXT, title=TEXT, description=TEXT, category=TEXT,
               severity=SEVERITIES, success=FLAG, messages=TEXTS, remediation=TEXT, target=TEXT,
               scope=fields(["type", "value"], type=TEXT, value=TEXT))
IMAGE = {"registry": fields(server=TEXT), "artifact": ARTIFACT, "scanner": SCANNER, "updateTimestamp": TIME}
VULNERABILITY = fields(
    ["vulnerabilityID", "resource", "installedVersion", "fixedVersion", "severity", "title"], vulnerabilityID=TEXT,
    resource=TEXT, installedVersion=TEXT, fixedVersion=TEXT, severity=SEVERITIES, title=TEXT, description=TEXT,
    publishedDate=TEXT, lastModifiedDate=TEXT, score={"type": "number"}, primaryLink=TEXT, links=TEXTS, target=TEXT,
    cvss=OPEN, **{"class": TEXT}, packageType=TEXT, packagePath=TEXT, packagePURL=TEXT)
SECRET = fields(["category", "match", "ruleID", "severity", "target", "title"], category=TEXT, match=TEXT, ruleID=TEXT,
                severity=SEVERITIES, target=TEXT, title=TEXT)
IMAGE_COLUMNS = [("Repository", "string", ".report.artifact.repository"), ("Tag", "string", ".report.artifact.tag"),
                 ("Scanner", "string", ".report.scanner.name"), AGE]
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}


def trivy_crds():
    """Returns the CustomResourceDefinitions of all report kinds of the group."""
    def kind(name, properties, **more):
        return crd(TRIVY, name, properties, **{"required": ["report"], **PRESERVE, **more})

    def of_image(required, **more):
        return {"report": fields([*required, "artifact", "scanner", "updateTimestamp"], **IMAGE, **more)}

    vulnerabilities = of_image(["vulnerabilities", "summary"], os=fields(family=TEXT, name=TEXT), summary=SUMMARY,
                               vulnerabilities=several(VULNERABILITY))
    checks = {"report": fields(["checks", "scanner", "summary"], checks=several(CHECK), scanner=SCANNER,
                               summary=SUMMARY, updateTimestamp=TIME)}
    bom = of_image(["components", "summary"], summary=fields(componentsCount=NUMBER), components=OPEN)
    made = [
        kind("VulnerabilityReport", vulnerabilities, short=["vuln", "vulns"], columns=IMAGE_COLUMNS),
        kind("ClusterVulnerabilityReport", vulnerabilities, scope="Cluster", short=["clustervuln"],
             columns=IMAGE_COLUMNS),
        kind("ExposedSecretReport", of_image(["secrets", "summary"], summary=SUMMARY, secrets=several(SECRET)),
             short=["exposedsecret", "exposedsecrets"], columns=IMAGE_COLUMNS),
        kind("SbomReport", bom, short=["sbom", "sboms"], columns=IMAGE_COLUMNS),
        kind("ClusterSbomReport", bom, scope="Cluster", short=["clustersbom"], columns=IMAGE_COLUMNS)]
    for name, short in (("ConfigAudit", "configaudit"), ("InfraAssessment", "infraassessment"),
                        ("RbacAssessment", "rbacassessment")):
        columns = [("Scanner", "string", ".report.scanner.name"), AGE]
        made += [kind(f"{name}Report", checks, short=[short], columns=columns),
                 kind(f"Cluster{name}Report", checks, scope="Cluster", short=[f"cluster{short}"], columns=columns)]
    control = fields(id=TEXT, name=TEXT, severity=TEXT, totalFail=NUMBER)
    detail = fields(["checks"], id=TEXT, name=TEXT, description=TEXT, severity=TEXT, status=TEXT,
                    checks={**several(CHECK), "nullable": True})
    made.append(kind("ClusterComplianceReport", {
        "spec": fields(["compliance", "cron", "reportType"], compliance=OPEN, reportType=TEXT, cron={
            **TEXT,
            "pattern": r"^(((([\*]{1}){1})|((\*\/){0,1}(([0-9]{1}){1}|(([1-5]{1}){1}([0-9]{1}){1}){1})))( |$))"}),
        "status": fields(["updateTimestamp"], updateTimestamp=TIME, summary=fields(failCount=NUMBER, passCount=NUMBER),
                         summaryReport={**fields(id=TEXT, title=TEXT, controlCheck=several(control)), **PRESERVE},
                         detailReport={**fields(id=TEXT, title=TEXT, results=several(detail)), **PRESERVE})},
        scope="Cluster", short=["compliance"], status=True, required=(),
        columns=[AGE, ("Fail", "integer", ".status.summary.failCount"),
                 ("Pass", "integer", ".status.summary.passCount")]))
    return made


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "storefront-7d998c79c4",
         "uid": "04a744fe-1126-42d5-bb8b-0917bdb51a28", "controller": True, "blockOwnerDeletion": False}
SCANNED_BY = {"name": "Trivy", "vendor": "Aqua Security", "version": "0.72.0"}


def trivy_report(kind, name, namespace=None, owner=True, **report):
    """Returns a report about a ReplicaSet; without an owner, labels name the ReplicaSet."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": {
        "resource-spec-hash": "8495697ff5", "trivy-operator.resource.kind": OWNER["kind"],
        "trivy-operator.resource.name": OWNER["name"], "trivy-operator.resource.namespace": namespace or ""}}
    if owner:
        metadata["ownerReferences"] = [copy.deepcopy(OWNER)]
    counts = {f"{level}Count": 0 for level in COUNTS}
    return {"apiVersion": f"{TRIVY}/{VERSION}", "kind": kind, "metadata": metadata,
            "report": {"scanner": SCANNED_BY, "summary": counts, "updateTimestamp": "2026-01-05T14:29:37Z", **report}}


def image(**more):
    return {"registry": {"server": "index.docker.io"},
            "artifact": {"repository": "shop/storefront", "tag": "v1.2.3", "digest": "sha256:0a1b"}, **more}


def vulnerability(name, severity="HIGH", **more):
    return {"vulnerabilityID": name, "resource": "openssl", "installedVersion": "3.0.1", "fixedVersion": "3.0.2",
            "severity": severity, "title": f"about {name}", "primaryLink": f"https://avd.example/{name}", **more}


def check(name, success, severity="MEDIUM", **more):
    return {"checkID": name, "title": f"about {name}", "category": "Kubernetes Security Check", "severity": severity,
            "success": success, "messages": [] if success else [f"{name} fails"], "remediation": "mend it", **more}


def compliance_report(name, **status):
    return {"apiVersion": f"{TRIVY}/{VERSION}", "kind": "ClusterComplianceReport", "metadata": {"name": name},
            "spec": {"cron": "0 */6 * * *", "reportType": "summary", "compliance": {
                "id": name, "title": "NSA Kubernetes Hardening", "controls": []}},
            "status": {"updateTimestamp": "2026-01-05T14:29:37Z", **status}}

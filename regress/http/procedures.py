"""
The tests that run the blocks of pages for users. Every fenced block has a line here, with its tests or the reason why
no test can run it; so has every command that stands in a sentence.

A line is a text that only that block of the page has, or "```language" for all blocks of a language that have no line
of their own, and the tests: FILE::FUNCTION, a function of Python or of a shell script.
"""


class Reason(str):
    """The reason why no test runs a block."""


SHOWN = Reason("shows something; nothing is to be typed")

# The test runs make with -n: the commands of a goal take too long, or run this test themselves.
GOALS = "regress/http/test_procedures.py::test_goals"
DOCS = "regress/http/test_docs.py"
MAKE_UP = "regress/http/test_make_up.py"
RUNBOOK = "regress/http/test_runbook.py"
PAGES = "regress/http/test_pages.py"
GROUPS = "regress/http/test_groups.py"
KUBESCAPE = "regress/http/test_forward_kubescape.py"
HOWTO = "regress/http/test_howto.py"
MOVING_PAGE = "regress/http/test_moving_page.py"
MOVING = "regress/cluster/test_moving.py"
MOVE_BY_HELM = "regress/cluster/test_move_by_helm.py"
INSTALL_PAGE = "regress/cluster/test_install_page.py"
CHART_PAGES = "regress/chart/test_pages.py"
CHART_DATABASE = "regress/chart/test_database.py"
CHART_FORWARDING = "regress/chart/test_forwarding.py"
CHECK_DEB = ".ci/check-deb"
FAILOVER = "regress/http/test_failover.py"
UPDATE = "regress/http/test_update.py"
SENTENCES = "regress/http/test_sentences.py"
BAD_DAYS = "regress/cluster/test_bad_days.py"
FIRST_FLEET = "regress/http/test_first_fleet.py::test_the_page regress/cluster/test_first_fleet.py::test_the_page"

NO_LIBH2O = Reason("make check-debian13 builds no proxy: it would need packages of Debian 12 in its Debian 13")

PROCEDURES = {
    "README.md": {
        "make up ": f"{DOCS}::test_what_make_up_prints",
        "kubectl get polr -n shop": f"{MAKE_UP}::test_first_look_of_the_readme",
        "failing_by_policy_namespace": f"{MAKE_UP}::test_readme_shows_what_make_up_gives",
        "patch_report": f"{DOCS}::test_a_write_of_the_readme",
        "sudo make install": f"{RUNBOOK}::test_install_by_the_readme",
        "sudo make uninstall": f"{RUNBOOK}::test_remove_everything",
    },
    "docs/aggregation.md": {"```": f"{PAGES}::test_aggregation"},
    "docs/analytics.md": {
        "dashboard_html": f"{MAKE_UP}::test_first_look_of_the_readme",
        "```sql": f"{MAKE_UP}::test_every_question_has_an_answer regress/http/test_analytics.py::test_question",
    },
    "docs/api.md": {"```sql": f"{PAGES}::test_api"},
    "docs/architecture.md": {"```": SHOWN},
    "docs/architecture/store.md": {"```": SHOWN},
    "docs/contributing.md": {"```": GOALS},
    "docs/evidence.md": {
        "evidence.volume.size": f"{CHART_FORWARDING}::test_commands_render {INSTALL_PAGE}::test_evidence",
        "evidence.store=s3": f"{CHART_FORWARDING}::test_commands_render "
                             "regress/http/test_evidence.py::test_secret_of_the_page "
                             "regress/evidence/test_s3.py::test_release_of_the_page",
        "--store=s3": "regress/evidence/test_s3.py::test_page",
        "```json": "regress/http/test_forward.py::test_metadata_of_evidence",
        "```sql": "regress/http/test_evidence.py::test_page",
        "```": "regress/http/test_evidence.py::test_page",
    },
    "docs/export.md": {
        "curl": f"{PAGES}::test_export",
        "```sql": f"{PAGES}::test_export",
        "policy_report_result{": SHOWN,
    },
    "docs/first-fleet.md": {
        "```": FIRST_FLEET,
        "```sql": FIRST_FLEET,
    },
    "docs/fleet.md": {
        "```sql": "regress/http/test_fleet.py::test_the_page regress/http/test_fleet.py::test_grants_by_label",
        "```": "regress/http/test_fleet.py::test_the_commands_of_the_page",
    },
    "docs/forwarding.md": {
        "kube-reports-grpc --port": "regress/http/test_forward_grpc.py::test_page",
        "protoc ": "regress/http/test_forward_grpc.py::test_page",
        "```python": "regress/http/test_forward_grpc.py::test_page",
        "```": "regress/http/test_forward.py::test_page",
        "```json": "regress/http/test_forward.py::test_page",
        "receiver.enabled=true": f"{CHART_FORWARDING}::test_commands_render {INSTALL_PAGE}::test_receiver",
        "grpc.enabled=true": f"{CHART_FORWARDING}::test_commands_render {INSTALL_PAGE}::test_grpc",
        "sender.enabled=true": f"{CHART_FORWARDING}::test_commands_render {INSTALL_PAGE}::test_sender",
    },
    "docs/groups.md": {
        "register trivy --kubeconfig": f"{GROUPS}::test_register_with_api_services",
        "register trivy --service": f"{GROUPS}::test_register_with_api_services",
        "```": f"{GROUPS}::test_the_page",
        "```yaml": f"{GROUPS}::test_the_page {KUBESCAPE}::test_kubescape",
    },
    "docs/howto.md": {
        "kubectl annotate --local": f"{HOWTO}::test_a_type_from_yaml",
        "enable aquasecurity.github.io": f"{GROUPS}::test_register_with_api_services",
        "```yaml": f"{HOWTO}::test_a_type_from_yaml regress/cluster/test_takeover.py::test_manifest_of_the_page",
        "apiservice status": "regress/http/test_api_service_command.py::test_commands_of_the_page",
        "--read-database": "regress/http/test_standby_reads.py::test_lists",
        "--cascade=orphan": f"{HOWTO}::test_cascade",
        "dry_run": f"{HOWTO}::test_statements_of_the_page",
        "import_report": f"{HOWTO}::test_statements_of_the_page",
    },
    "docs/install.md": {
        "--create-namespace": f"{CHART_PAGES}::test_commands_render {INSTALL_PAGE}::test_five_minutes",
        "create secret generic db-owner": f"{CHART_PAGES}::test_commands_render "
        f"{INSTALL_PAGE}::test_a_database_of_your_own",
        "files/database.sql": f"{CHART_DATABASE}::test_by_the_pages {INSTALL_PAGE}::test_a_database_of_your_own",
        "```yaml": f"{CHART_PAGES}::test_values_render",
        "--reset-then-reuse-values\n": f"{INSTALL_PAGE}::test_five_minutes",
        "scale deployment": f"{INSTALL_PAGE}::test_to_another_database",
        "pg_restore": f"{INSTALL_PAGE}::test_to_another_database",
        "leaveExisting": f"{INSTALL_PAGE}::test_to_another_database",
        "helm uninstall": f"{INSTALL_PAGE}::test_five_minutes",
    },
    "docs/managed.md": {
        "pg_tle && cd": Reason("clones a repository from GitHub; with PG_TLE, tests use what these commands build"),
        "kube_reports--tle.sql": "regress/variant_sql/test_page.py::test_the_package",
        "```": "regress/variant_sql/test_page.py::test_the_plain_script_and_rows_of_another_install",
    },
    "docs/moving-in.md": {
        "export DATABASE": f"{MOVING_PAGE}::test_in_by_the_page",
        "import --from-cluster --kubeconfig": f"{MOVING_PAGE}::test_in_by_the_page {MOVE_BY_HELM}::test_with_a_gap",
        "import --from-cluster --prune": f"{MOVING_PAGE}::test_in_by_the_page {MOVE_BY_HELM}::test_with_a_gap",
        "helm install": f"{MOVE_BY_HELM}::test_with_a_gap {MOVE_BY_HELM}::test_without_a_gap",
        "apiServices.enabled=true": f"{MOVE_BY_HELM}::test_with_a_gap {MOVE_BY_HELM}::test_without_a_gap",
        "apiServices.enabled=false\n": f"{MOVE_BY_HELM}::test_with_a_gap {MOVE_BY_HELM}::test_without_a_gap",
        "apiservice enable": f"{MOVING}::test_in_with_one_version",
        '"op": "copy"': f"{MOVING}::test_in_and_out {MOVE_BY_HELM}::test_without_a_gap",
        "--version=etcd": f"{MOVING_PAGE}::test_in_by_the_page {MOVE_BY_HELM}::test_without_a_gap",
        '"op": "remove"': f"{MOVING}::test_in_and_out",
        "REPORTS_SERVER": f"{MOVING_PAGE}::test_reports_server_by_the_page",
        "for_import": "regress/http/test_import_altered.py::test_a_view_of_the_page",
        '"categories"': f"{MOVING}::test_in_with_one_version",
        "cleanup --dry-run": f"{MOVING_PAGE}::test_in_by_the_page",
        "cleanup --also-gone": f"{MOVING_PAGE}::test_in_by_the_page {MOVING}::test_in_with_one_version",
        "psql -X -A -t": f"{MOVING_PAGE}::test_in_by_the_page",
        "apiservice disable": f"{MOVING}::test_in_and_out",
        "kubectl apply --server-side": f"{MOVING}::test_in_and_out",
        "kubectl delete crd": f"{MOVING}::test_without_the_crds",
        "managed-by=kyverno": f"{MOVING_PAGE}::test_results_that_count_twice",
    },
    "docs/operations.md": {
        "DROP OWNED BY kube_reports_proxy": f"{RUNBOOK}::test_remove_a_cluster",
        "COPY kube_reports.arriving_row": "regress/http/test_move.py::test_a_cluster_moves",
        "ALTER EXTENSION kube_reports UPDATE": f"{UPDATE}::test_dump_into_its_own_version",
        "pg_restore -f -": f"{UPDATE}::test_dump_into_its_own_version",
        "pg_restore -j 4": f"{RUNBOOK}::test_dump_and_restore",
        "archive_command": "regress/http/test_backup.py::test_point_in_time",
        "pg_basebackup": "regress/http/test_backup.py::test_point_in_time",
        "recovery.signal": "regress/http/test_backup.py::test_point_in_time",
        "restore_command": "regress/http/test_backup.py::test_point_in_time",
        "target_session_attrs": f"{FAILOVER}::test_promotion_loses_the_last_writes",
        "pg_promote": f"{FAILOVER}::test_promotion_loses_the_last_writes",
        "TEMPLATE": f"{FAILOVER}::test_a_copy_takes_the_name",
        "RENAME TO original": f"{FAILOVER}::test_a_copy_takes_the_name",
        "REASSIGN OWNED": "regress/http/test_owner_roles.py::test_another_owner",
        "pg_upgrade -b": "regress/http/test_upgrade.py::test_pg_upgrade",
        "vacuumdb": "regress/http/test_upgrade.py::test_pg_upgrade",
        "CREATE PUBLICATION": "regress/http/test_replication.py::test_subscriber",
        "CREATE SUBSCRIPTION": "regress/http/test_replication.py::test_subscriber",
        "DROP SUBSCRIPTION": "regress/http/test_replication.py::test_subscriber",
        "backend_xmin": f"{RUNBOOK}::test_who_keeps_dead_rows",
        "made by": "regress/http/test_dba.py::test_parts_are_dropped",
        "as superuser": "regress/http/test_dba.py::test_the_extension_forgets_a_table",
    },
    "docs/packages.md": {
        "ls build/deb": ".ci/check-images::by_the_page",
        "pki_kubeconfig": f"{PAGES}::test_service_behind_a_kube_apiserver",
        "kube-reports-postgresql:15": ".ci/check-images::by_the_page",
        "PG_MAJOR=18": ".ci/check-images::by_the_page",
        "extensions:": "regress/http/test_extension_image.py::test_image_volume",
        "make WITHOUT=proxy install": ".ci/check-debian13::by_the_page",
        "make deb WITHOUT=proxy": ".ci/check-debian13::package",
        "```": f"{CHECK_DEB}::blocks",
    },
    "docs/performance.md": {
        "make bench-peers": "regress/cluster/test_peers.py::test_bench_peers",
        "make bench-relief": "regress/cluster/test_relief.py::test_bench_relief",
        "```": GOALS,
    },
    "docs/policy-reporter.md": {
        "kind: ServiceAccount": "regress/cluster/test_identity.py::test_account_of_policy_reporter",
        "create secret generic": "regress/cluster/test_identity.py::test_account_of_policy_reporter",
        "```yaml": "regress/http/test_policy_reporter.py::test_the_page",
    },
    "docs/security.md": {
        "```sql": f"{PAGES}::test_advisory_locks",
        "name: kube-reports-takeover": "regress/http/test_api_service_command.py::test_rights_of_the_page "
                                       "regress/chart/test_security.py::test_roles_are_those_of_the_page",
        "name: kube-reports-import": f"{MOVING}::test_in_and_out",
        "name: kube-reports-sender": "regress/chart/test_forwarding.py::test_rights_are_those_of_the_page",
        "name: kube-reports-export-shop": "regress/cluster/test_identity.py::test_rights_of_the_page",
        "kind: FlowSchema": "regress/cluster/test_fairness.py::test_questions_of_the_proxy "
                            "regress/chart/test_security.py::test_flow_schema",
        "```yaml": "regress/chart/test_security.py::test_roles_are_those_of_the_page",
    },
    "docs/versions.md": {
        "dpkg-source": NO_LIBH2O,
    },
    "helm/kube-reports/README.md": {
        "files/database.sql": f"{CHART_DATABASE}::test_by_the_pages",
        "create secret generic db-proxy": f"{CHART_PAGES}::test_secrets_of_the_readme "
        f"{CHART_DATABASE}::test_client_certificate_and_standby",
    },
}

# Code in sentences that begins with the name of a program. What calls make is not here: the goals of all pages are
# run with -n.
NO_KUBELET = Reason("kubectl enters a pod through its kubelet, and the control plane of the tests has none")
NO_CERT_MANAGER = Reason("no test has cert-manager")
NO_DEPLOYMENT = Reason("the tests run Kyverno's reports-controller as a process, without a Deployment")
BY_A_BLOCK = Reason("a block of docs/install.md is the same command")
TOLD = Reason("says what a command would do; nothing is to be typed")

COMMANDS = {
    "README.md": {
        'psql -X -A -t -c "SELECT kube_reports.dashboard_html()" >dashboard.html': f"{SENTENCES}::test_page_for_people",
        "kubectl get polr -A --watch": f"{SENTENCES}::test_watch",
        "kube-reports-proxy --help": f"{SENTENCES}::test_help_and_version",
    },
    "docs/analytics.md": {
        "psql -c \"\\copy (...) TO 'events.csv' CSV HEADER\"": f"{SENTENCES}::test_spreadsheet",
    },
    "docs/contributing.md": {
        "kube-reports-proxy --version": f"{SENTENCES}::test_help_and_version",
    },
    "docs/first-fleet.md": {
        "kubectl --kubeconfig east.conf get namespace kube-system -o jsonpath={.metadata.uid}":
            "regress/cluster/test_first_fleet.py::test_the_page",
    },
    "docs/forwarding.md": {
        r'printf %s "$TOKEN" \| sha256sum': "regress/http/test_forward.py::test_page",
        "kube-reports-grpc --help": f"{SENTENCES}::test_help_and_version",
    },
    "docs/groups.md": {
        "kube-reports-proxy apiservice disable aquasecurity.github.io/v1alpha1 --service=kube-reports/kube-reports "
        "--kubeconfig=admin.conf": f"{GROUPS}::test_register_with_api_services",
    },
    "docs/howto.md": {
        "kubectl get crd NAME -o json >crd.json": "regress/cluster/test_takeover.py::test_manifest_of_the_page",
        "kubectl get apiservice v1alpha1.aquasecurity.github.io":
            "regress/cluster/test_takeover.py::test_manifest_of_the_page",
        "kubectl port-forward service/kube-reports 8443:443": NO_KUBELET,
    },
    "docs/install.md": {
        "kubectl scale --replicas=0": Reason("is about reports-server, whose Deployment has a name of its own"),
        "helm uninstall --wait": TOLD,
        "kubectl apply --server-side --force-conflicts -f install.yaml": f"{INSTALL_PAGE}::test_manifest",
        "kubectl delete -f install.yaml": f"{INSTALL_PAGE}::test_manifest",
        "kubectl -n kube-reports delete pvc data-kube-reports-database-0": f"{INSTALL_PAGE}::test_five_minutes",
        "kubectl delete apiservice v1alpha2.wgpolicyk8s.io v1alpha1.openreports.io v1.reports.kyverno.io":
            f"{BAD_DAYS}::test_uninstall_without_hooks",
    },
    "docs/managed.md": {
        "pg_dump --extension=kube_reports --schema=kube_reports": "regress/variant_sql/test_tle.py::test_dump",
    },
    "docs/moving-in.md": {
        "kubectl -n kyverno scale deployment kyverno-reports-controller --replicas=0": NO_DEPLOYMENT,
        "kubectl -n NAMESPACE delete policyreports.etcd.wgpolicyk8s.io NAME":
            Reason("decides between two copies of one report, which no test on a control plane makes differ"),
        "kubectl -n kube-reports scale deployment kube-reports --replicas=0": BY_A_BLOCK,
        "etcdctl defrag": Reason("the tests ask etcd over HTTP for the same, control_plane.py::defragment"),
    },
    "docs/operations.md": {
        "kubectl events -n kube-reports": f"{INSTALL_PAGE}::test_to_another_database",
        "kubectl get apiservices | grep False": f"{INSTALL_PAGE}::test_to_another_database",
        "kubectl -n kube-reports get pods": f"{INSTALL_PAGE}::test_to_another_database",
        "kubectl get polr -A --chunk-size=1": f"{SENTENCES}::test_list_by_chunks",
        "kubectl -n kube-reports describe certificate": NO_CERT_MANAGER,
        "kubectl -n kube-reports get pod,pvc -l app.kubernetes.io/component=sender": f"{INSTALL_PAGE}::test_sender",
        "kubectl -n kube-reports get pods -l app.kubernetes.io/component=grpc": f"{INSTALL_PAGE}::test_grpc",
        "kubectl -n kube-reports get pod,pvc -l app.kubernetes.io/component=evidence": f"{INSTALL_PAGE}::test_evidence",
    },
    "docs/packages.md": {
        "systemctl restart kube-reports-proxy": f"{CHECK_DEB}::restarts",
        "systemd-analyze security kube-reports-proxy": f"{CHECK_DEB}::unit",
        "systemctl edit kube-reports-proxy": Reason("opens an editor"),
    },
    "docs/performance.md": {
        "etcdctl defrag": TOLD,
        "pg_dump -Fd -j 2": Reason("names what a row of make bench measured"),
        "perf record": TOLD,
    },
    "docs/versions.md": {
        "apt-get install ./libh2o*.deb": NO_LIBH2O,
    },
}
# What a sentence may say on any page without being a command to type: it names a program's command or option.
NAMES = {
    "apt-get remove", "helm install", "helm rollback", "helm template", "helm uninstall", "helm upgrade",
    "initdb --no-data-checksums", "kube-reports-proxy apiservice", "kube-reports-proxy forward",
    "kube-reports-proxy import", "kube-reports-proxy register", "kubectl --as", "kubectl apply", "kubectl get",
    "pg_checksums --enable", "pg_ctl -m fast", "pg_dump --data-only", "pg_dump -n", "pg_restore --clean",
    "pg_restore --data-only", "pg_restore --exit-on-error", "pg_restore --no-tablespaces", "pg_restore --role=<owner>",
    "pg_restore -j",
}
# This page says what has changed; the other pages have the commands.
PAGES_WITHOUT_COMMANDS = {"docs/changelog.md"}

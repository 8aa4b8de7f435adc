"""
The tests that run the blocks of pages for users. Every fenced block has a line here, with its tests or the reason why
no test can run it.

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
FIRST_FLEET = "regress/http/test_first_fleet.py::test_the_page regress/cluster/test_first_fleet.py::test_the_page"

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
        "WITHOUT=proxy": ".ci/check-debian13::by_the_page",
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
        "dpkg-source": Reason("needs a Debian 13 and a source package of Debian 12; no check makes such a root"),
    },
    "helm/kube-reports/README.md": {
        "files/database.sql": f"{CHART_DATABASE}::test_by_the_pages",
        "create secret generic db-proxy": f"{CHART_PAGES}::test_secrets_of_the_readme",
    },
}

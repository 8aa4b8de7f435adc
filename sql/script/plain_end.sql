
SELECT kube_reports_internal.settle_here();
COMMIT;

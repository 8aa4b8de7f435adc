-- 43_aggregation_tables.sql
--	  What the aggregation of reports is told, and what waits for it.
--
-- Nothing here is on unless somebody turns it on.  Options are dumped; the
-- queue is not: after a restore it is made again from the objects, so that
-- nothing is merged twice or forgotten.

CREATE TABLE kube_reports.summary_type (
	resource_type integer PRIMARY KEY REFERENCES kube_reports.resource_type ON DELETE CASCADE
);
COMMENT ON TABLE kube_reports.summary_type IS 'types whose summaries are filled in where a producer leaves them out: see set_summaries()';

---- what pg_dump takes along ----

SELECT pg_catalog.pg_extension_config_dump('kube_reports.summary_type', '');


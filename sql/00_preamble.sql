-- 00_preamble.sql
--	  Guard against a plain psql run.

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION kube_reports" to load this file. \quit

COMMENT ON SCHEMA kube_reports IS 'Kubernetes policy reports: storage, Kubernetes API semantics and analytics';


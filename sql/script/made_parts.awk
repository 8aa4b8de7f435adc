# made_parts.awk
#	  Writes the function made_parts() from the parts of the install script:
#	  every index and trigger, with the statement that makes it.

BEGIN {
	print "CREATE FUNCTION kube_reports_internal.made_parts()"
	print "\tRETURNS TABLE (kind text, relation text, name text, statement text)"
	print "LANGUAGE sql IMMUTABLE"
	print "SET search_path = pg_catalog, pg_temp"
	print "AS $parts$"
	print "\tSELECT p.kind, p.relation, p.name, p.statement FROM (VALUES"
}

/^CREATE (UNIQUE )?INDEX / || /^CREATE (CONSTRAINT )?TRIGGER / {
	statement = ""
	inside = 1
}

inside {
	sub(/^[ \t]+/, "")
	statement = statement (statement == "" ? "" : " ") $0
}

inside && /;$/ {
	inside = 0
	sub(/;$/, "", statement)
	words = split(statement, word, " ")
	for (n = 2; word[n] != "INDEX" && word[n] != "TRIGGER"; n++)
		;
	kind = tolower(word[n])
	name = word[n + 1]
	for (; word[n] != "ON"; n++)
		;
	printf "%s\t\t('%s', '%s', '%s', $made$%s$made$)", separator, kind, word[n + 1], name, statement
	separator = ",\n"
}

END {
	print ") p(kind, relation, name, statement)"
	print "$parts$;"
	print "COMMENT ON FUNCTION kube_reports_internal.made_parts()"
	print "\tIS 'the indexes and triggers that tables of this version have, with the statements that make them; '"
	print "\t\t'those of constraints are not among them';"
	print ""
}

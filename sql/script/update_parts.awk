# update_parts.awk
#	  From an install script, or its parts: what an update script says again.
#
# Functions, procedures, aggregates, views and triggers are made anew in the
# place of what is there, and comments are written again.  Tables and whatever
# else holds rows or is referred to by its number are left to migrations, and
# rows to after_update().
#
# A statement begins in the first column.  Whatever else stands there is inside
# of a statement, between dollar quotes, or is a clause that is known here.

function flush()
{
	if (kept)
		print statement
	statement = ""
	kept = 0
	ended = 1
}

# Follows dollar quotes through a line.
function follow(line)
{
	sub(/^--.*/, "", line)
	while (match(line, /\$[a-z_]*\$/)) {
		tag = substr(line, RSTART, RLENGTH)
		if (quote == "")
			quote = tag
		else if (quote == tag)
			quote = ""
		line = substr(line, RSTART + RLENGTH)
	}
}

quote == "" && /^[A-Z]/ && !/^(AS|LANGUAGE|SET [a-z_]+ =|RETURNS?|BEGIN ATOMIC|END;)/ {
	flush()
	if (/^CREATE (FUNCTION|PROCEDURE|AGGREGATE|VIEW|TRIGGER) /) {
		sub(/^CREATE/, "CREATE OR REPLACE")
		kept = 1
	} else if (/^COMMENT ON /)
		kept = 1
	else if (!/^CREATE (TABLE|SEQUENCE|INDEX|UNIQUE INDEX|TYPE|DOMAIN|CAST|SCHEMA|STATISTICS) / &&
			!/^(ALTER TABLE|ALTER INDEX|INSERT|UPDATE|SELECT|DO|SET LOCAL) /) {
		print FILENAME ":" FNR ": an update script cannot tell what to do with: " $0 > "/dev/stderr"
		exit failed = 1
	}
}

quote == "" && !atomic && ended && /^(--|\\|$)/ {
	flush()
	next
}

{
	if (quote == "" && /^BEGIN ATOMIC/)
		atomic = 1
	if (quote == "" && /^END;/)
		atomic = 0
	statement = statement (statement == "" ? "" : "\n") $0
	follow($0)
	ended = quote == "" && /;$/
}

END {
	if (!failed)
		flush()
}

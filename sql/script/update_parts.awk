# update_parts.awk
#	  Selects the statements of an install script, or of its parts, that an
#	  update script repeats.
#
# Functions, procedures, aggregates, views and triggers are replaced, and
# comments are written again.  Tables, and other objects that hold rows or that
# are referred to by their OIDs, are left to migrations; rows are left to
# after_update().
#
# A statement begins in the first column.  Any other text in the first column
# is inside a statement, between dollar quotes, or is a clause that is known
# here.

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
	else if (!/^CREATE (TABLE|UNLOGGED TABLE|SEQUENCE|INDEX|UNIQUE INDEX|TYPE|DOMAIN|CAST|SCHEMA|STATISTICS) / &&
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

# SPDX-License-Identifier: GPL-2.0
#
# compare.awk: the results of run.sh for C and for Rust, case by case.
#
#	awk [-v partial=1] -f compare.awk differences C.log RUST.log
#
# partial: only some scripts were run, so that not all of the list of differences can be there.
# Prints what failed, with what the test said about it, and what C and Rust do not have in common.
# The last line is "N passed, N failed, N skipped". What is missing has failed: cases that a script
# has planned, scripts that the runner has planned, or a whole guest.

function trim(s)
{
	sub(/^[ \t]+/, "", s)
	sub(/[ \t\r]+$/, "", s)
	return s
}

function complain(line)
{
	failed++
	print "FAILED  " line
}

# The case has a result; of cases with the same name, the second is another one.
function result(impl, script, name, state,	key)
{
	key = script " | " name
	if ((impl, key) in state_of) {
		repeated[impl, key]++
		key = key " #" (repeated[impl, key] + 1)
	}
	state_of[impl, key] = state
	said[impl, key] = notes
	if (!(key in known)) {
		known[key] = 1
		order[++keys] = key
		script_of[key] = script
	}
	cases[impl, script]++
	if (state == "fails")
		failures[impl, script]++
	notes = ""
}

# A script is over: was everything there?
function close_script(state,	problem)
{
	if (script == "")
		return
	scripts[impl]++
	ran[impl, script] = 1
	if (!((impl, script) in planned))
		problem = "it has no plan"
	else if (planned[impl, script] + 0 != cases[impl, script] + 0)
		problem = "planned " planned[impl, script] " cases, and did " \
			(cases[impl, script] + 0)
	else if (state != "ok" && !failures[impl, script])
		problem = state
	if (problem != "")
		trouble[++troubles] = impl ": " script ": " problem "\n" notes
	script = notes = ""
}

BEGIN {
	impls[1] = "C"
	impls[2] = "Rust"
	passed = failed = skipped = 0
}

# By name, as an empty file has no first line.
FILENAME != current {
	close_script("no result")
	current = FILENAME
	for (file = 1; ARGV[file] != current; file++)
		;
	impl = impls[file - 1]
	script = notes = ""
}

# ---- the list of differences ----

file == 1 && (/^#/ || /^[ \t]*$/) { next }

file == 1 {
	if (split($0, field, "|") < 5) {
		complain("differences: not five fields: " $0)
		next
	}
	key = trim(field[1]) " | " trim(field[2])
	named[key] = trim(field[3]) ", " trim(field[4])
	next
}

# ---- the logs ----

/^# selftests: / {
	close_script("no result")
	script = $3
	next
}

/^1\.\.[0-9]+/ && script == "" {
	total[impl] = substr($1, 4)
	next
}

/^vmtest: FAILED/ {
	trouble[++troubles] = impl ": " $0 "\n"
	next
}

/^Bail out!/ {
	trouble[++troubles] = impl ": " $0 "\n"
	next
}

/^(not )?ok [0-9]+ selftests: / {
	if ($0 !~ /^not/ && $0 ~ /# SKIP/) {
		# The whole script: one case.
		planned[impl, script] = 1
		cases[impl, script] = 0
		result(impl, script, "(all of it)", "skips")
		close_script("ok")
	} else if ($0 ~ /^not/) {
		sub(/.*# /, "")
		close_script($0)
	} else {
		close_script("ok")
	}
	next
}

script == "" { next }

/^# 1\.\.[0-9]+/ {
	planned[impl, script] = substr($2, 4)
	next
}

/^# ok [0-9]+ / {
	line = trim($0)
	state = "passes"
	if (line ~ /# SKIP/)
		state = "skips"
	sub(/^# ok [0-9]+ /, "", line)
	sub(/ *# (SKIP|XFAIL).*/, "", line)
	result(impl, script, line, state)
	next
}

/^# not ok [0-9]+ / {
	line = trim($0)
	sub(/^# not ok [0-9]+ /, "", line)
	result(impl, script, line, "fails")
	next
}

/^# (TAP version|# Totals)/ { next }

{
	# What was said since the last case is about the next one.
	notes = notes "            " substr($0, 3) "\n"
}

# ---- the sum ----

END {
	close_script("no result")

	for (i = 1; i <= 2; i++) {
		impl = impls[i]
		if (!(impl in total) || total[impl] == 0)
			complain(impl ": no tests were run")
		else if (total[impl] + 0 != scripts[impl] + 0)
			complain(impl ": " total[impl] " scripts planned, " (scripts[impl] + 0) \
				" have a result")
	}
	for (i = 1; i <= troubles; i++) {
		line = trouble[i]
		sub(/\n.*/, "", line)
		complain(line)
		sub(/^[^\n]*\n/, "", trouble[i])
		printf "%s", trouble[i]
	}

	for (i = 1; i <= keys; i++) {
		key = order[i]
		c = (("C", key) in state_of) ? state_of["C", key] : "absent"
		r = (("Rust", key) in state_of) ? state_of["Rust", key] : "absent"
		if (key in named) {
			used[key] = 1
			if (named[key] == c ", " r) {
				passed += 2
				different++
				continue
			}
			complain(key ": by the list of differences C and Rust are " named[key] \
				", but they are " c ", " r)
			continue
		}
		# A script that only Rust has runs there alone.
		alone = !(("C", script_of[key]) in ran)
		for (j = 1; j <= 2; j++) {
			impl = impls[j]
			state = impl == "C" ? c : r
			if (state == "passes") {
				passed++
			} else if (state == "skips") {
				skipped++
				print "skipped " impl ": " key
			} else if (state == "fails") {
				complain(impl ": " key)
				printf "%s", said[impl, key]
			} else if (!(impl == "C" && alone)) {
				complain(impl ": " key ": no result")
			}
		}
		if (c != r && (c == "skips" || r == "skips") && !alone)
			complain(key ": C " c ", Rust " r)
	}
	for (key in named)
		if (!(key in used) && !partial)
			complain(key ": in the list of differences, but there is no such case")

	if (different)
		print different " differences between C and Rust, all in the list"
	if (passed + failed == 0)
		complain("no tests were run")
	printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
	exit failed > 0
}

# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the scripts of this directory share: they need a kernel whose allocations can be made to fail,
# which the debug kernel is.

if [ ! -d /sys/kernel/debug/failslab ]; then
	ktap_print_header
	ktap_skip_all "no failslab in this kernel"
	exit "$KSFT_SKIP"
fi
export PYTHONPATH=$selftests/faults:$PYTHONPATH

# Others are to find them as they were.
faults_saved=
for file in failslab/{ignore-gfp-wait,cache-filter} \
	    {failslab,fail_page_alloc}/{verbose,{require,reject}-{start,end},stacktrace-depth}; do
	faults_saved+="$file $(cat /sys/kernel/debug/$file)"$'\n'
done
faults_put_back()
{
	local file value

	while read -r file value; do
		[ -z "$file" ] || echo "$value" >"/sys/kernel/debug/$file"
	done <<<"$faults_saved"
}
cleanup_hooks+=(faults_put_back)

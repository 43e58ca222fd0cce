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
faults_saved=$(head -n 1 /sys/kernel/debug/failslab/{ignore-gfp-wait,cache-filter,verbose} \
	/sys/kernel/debug/fail_page_alloc/verbose | awk '
	/^==>/ { file = $2 }
	!/^==>/ && NF { print file, $1 }')
faults_put_back()
{
	local file value

	while read -r file value; do
		echo "$value" >"$file"
	done <<<"$faults_saved"
}
cleanup_hooks+=(faults_put_back)

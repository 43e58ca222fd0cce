# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# BASH_ENV of mptcp_connect.sh: of its tests leave the transparent proxy, which is about nftables.
# A function that exists and is read-only is not defined again, and the script goes on; so it runs
# as it is, and what is not wanted does nothing.

case $0 in
*/mptcp_connect.sh|mptcp_connect.sh)
	run_tests() { :; }
	run_tests_lo() { :; }
	run_tests_peekmode() { :; }
	run_tests_mptfo() { :; }
	run_tests_disconnect() { :; }
	readonly -f run_tests run_tests_lo run_tests_peekmode run_tests_mptfo run_tests_disconnect
	;;
esac

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# hostile.sh [SECONDS]: mutated packets at C and Rust, answers compared. SEED=N repeats a run.

exec "$(dirname "$(readlink -e "$0")")/run.sh" "${1:-60}"

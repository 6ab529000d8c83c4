#!/usr/bin/env bash
# The long form of the test of load: 64 clients, a stub of a model, 10 % of the clients leave, 5 % ask for what there
# is not. Sums of the metrics match, no answer is wrong, anonymous memory does not grow.
#   bench/serve_soak.sh [BUILD_FOLDER=build] [REQUESTS=20000]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
TRIREME_SOAK_REQUESTS=${2:-20000} "${1:-build}/tests/recipes/test_api" --gtest_filter='LoadTest.*'

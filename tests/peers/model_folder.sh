# shellcheck shell=bash disable=SC2034  # its variables are for those who source it
# Sourced by the scripts beside it with their own words: FOLDER [PYTHON], else the environment's TRIREME_SMOLLM2 and TRIREME_PYTHON.
# Sets folder, python and top; `needs MODULE, MODULE` ends with "skipped: ..." (exit 0) where the folder or a module is not there.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${1:-${TRIREME_SMOLLM2:-}} python=${2:-${TRIREME_PYTHON:-python3}}

needs() {
  [[ -e $folder/config.json ]] || { echo "skipped: no model folder (../shared/peers/make_smollm2.py makes it)"; exit 0; }
  "$python" -c "import $1" 2>/dev/null || { echo "skipped: $python lacks one of: $1"; exit 0; }
}

#!/usr/bin/env bash
# Makes the reference files of parity/testdata again and says of each whether it moved; then
# loads what firstbit writes with transformers and compares logits. The virtual environment lies
# outside the repository, in PARITY_VENV or the user's cache, and is kept: torch is large.
# With --rewrite the new files take the place of the old.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${PARITY_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/firstbit-parity}
packages=(torch==2.15.0 transformers==5.24.0 safetensors==0.8.0 numpy==2.4.6 ml_dtypes==0.6.0)

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
echo "reference: ${packages[*]}"
python() { # quiet about fast kernels that are absent on purpose, and about shards
  PYTHONDONTWRITEBYTECODE=1 TRANSFORMERS_VERBOSITY=error HF_HUB_OFFLINE=1 TQDM_DISABLE=1 CUDA_VISIBLE_DEVICES= "$venv/bin/python" "$@"
}

python parity/nemotron_h.py "$dir/testdata"
python parity/reference.py "$dir/testdata"
python parity/replicas.py "$dir/testdata" # two processes
python parity/packed.py "$dir/testdata"
python parity/schedule.py "$dir/testdata/schedule"
python parity/loss_scale.py "$dir/testdata/loss_scale"
python parity/lowprecision.py "$dir/testdata/lowprecision" # a minute: every float32
python parity/tensorcores.py "$dir/testdata/tensorcores" 40

status=0
if [ "${1:-}" = --rewrite ]; then
  rm -rf parity/testdata
  cp -r "$dir/testdata" parity/testdata
else
  echo "parity/testdata against what was made now:"
  python parity/compare.py parity/testdata "$dir/testdata" || status=1
  # The negative control: one tensor of one file, off by 1e-9 of itself.
  cp -r "$dir/testdata" "$dir/off"
  python - "$dir/off/losses/gradients.safetensors" <<'PYTHON'
import sys
from safetensors.torch import load_file, save_file
x = load_file(sys.argv[1])
x["embed.w"] *= 1 + 1e-9
save_file(x, sys.argv[1])
PYTHON
  if python parity/compare.py parity/testdata "$dir/off" >/dev/null; then
    echo "the comparison cannot fail: a moved file passed"
    status=1
  fi
fi

echo "fused sums of tensor cores, 100,000 of each architecture and format:" # ten minutes
python parity/tensorcores.py "$dir/tensorcores" 100000
go test ./lowp -count=1 -run FusedSumsOfTensorCores -vectors "$dir/tensorcores" || status=1

go test ./parity -count=1 -run Export -export "$dir/written"
echo "what firstbit wrote, in transformers:"
python parity/loads.py "$dir/written"/* || status=1
exit $status

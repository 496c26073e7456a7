#!/usr/bin/env bash
# Executes every lesson and compares what it prints, in which the bits are, with what is committed;
# then runs it with each change of its knobs that it suggests. Pictures are not compared: fonts differ.
# With --rewrite the outputs are written into the notebooks instead. The virtual environment lies
# outside the repository, in NOTEBOOKS_VENV or the user's cache, and is kept.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${NOTEBOOKS_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/firstbit-notebooks}
packages=(nbconvert==7.17.2 ipykernel==7.4.0 numpy==2.4.6 pandas==3.1.1 matplotlib==3.11.2)
atonce=2 # a lesson waits for the command most of the time

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
go build -o "$dir/firstbit" ./cmd/firstbit

# With no setting of the user's.
export FIRSTBIT=$dir/firstbit PYTHONDONTWRITEBYTECODE=1 IPYTHONDIR=$dir/ipython JUPYTER_CONFIG_DIR=$dir/jupyter JUPYTER_PATH= \
  MPLCONFIGDIR=$dir/matplotlib MPLBACKEND=
python=$venv/bin/python

mkdir "$dir/fresh"
printf '%s\0' notebooks/*.ipynb | xargs -0 -P "$atonce" -n 1 "$python" -m nbconvert --log-level ERROR --to notebook --execute \
  --ExecutePreprocessor.timeout=300 --ExecutePreprocessor.record_timing=False --output-dir "$dir/fresh"

status=0
for notebook in notebooks/*.ipynb; do
  fresh=$dir/fresh/$(basename "$notebook")
  if [ "${1:-}" = --rewrite ]; then
    "$python" scripts/notebooks.py rewrite "$notebook" "$fresh"
    continue
  fi
  "$python" scripts/notebooks.py compare "$notebook" "$fresh" || status=1
  # The negative control: one digit of what was printed.
  "$python" scripts/notebooks.py alter "$fresh" "$dir/altered.ipynb"
  if "$python" scripts/notebooks.py compare "$notebook" "$dir/altered.ipynb" >/dev/null; then
    echo "the comparison cannot fail: an altered digit was not seen"
    status=1
  fi
done

lines=$(wc -l <notebooks/lesson.py)
[ "$lines" -le 100 ] || { echo "notebooks/lesson.py: $lines lines: must be at most 100, lessons have no logic"; status=1; }
printf '%s\0' notebooks/*.ipynb | MPLBACKEND=agg xargs -0 -P "$atonce" -n 1 "$python" scripts/notebooks.py try || status=1
exit $status

export PYTHONUNBUFFERED=1 INTERLOCK_CACHE=/tmp/kcache
s() { echo "--- $1 at $SECONDS s"; }
python3 -m pip install -q --no-build-isolation --no-deps . 2>&1 | tail -2; s installed
timeout 60 python3 diag.py time 2>&1 | tail -8; s parts
timeout 60 python3 -m pytest -q -n 0 tests/gpu/test_moe.py 2>&1 | tail -8; s moe

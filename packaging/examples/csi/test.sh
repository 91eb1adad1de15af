#!/usr/bin/env bash
# What the test of a CSI driver or of a database does with a target that fails by a script: the path
# is lost and comes back, the pool is full, and room is made. The initiator is drumfire, in user
# space, so the test needs neither root nor a module of the kernel; put your driver in its place.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
drumfire=${DRUMFIRE:-drumfire}
folder=$(mktemp -d)
cd "$folder"

cp "$here/path-loss.toml" faults.toml
"$drumfire" serve --iscsi 127.0.0.1:0 --volume "pvc-1=fault:./faults.toml(ram:64m)" \
  > ready 2> serve.log < /dev/null &
target=$!
trap 'kill "$target" 2> /dev/null || true; rm -r "$folder"' EXIT

for _ in $(seq 100); do
  if grep -q '^ready ' ready; then break; fi
  sleep 0.1
done
address=$(sed -n 's/^ready iscsi=\([^ ]*\).*/\1/p' ready)
# The URI says that the volume is emulated: bounds are missed otherwise.
uri="fault:none(iscsi://$address/iqn.2026-11.io.drumfire:pvc-1/1?reconnect=20s)"

echo "1. the path is lost and comes back: no error, no data lost"
"$drumfire" run "$uri" --size 4k --read 50 --outstanding 4 --seconds 10 --ramp 0 --verify --destroy \
  --fail-if 'errors>0' --fail-if 'max>15s' --out loss > loss.txt
# The sum of a column of the rows.
"$drumfire" report loss --as csv --rows second | awk -F, '
  NR == 1 { for (i = 1; i <= NF; i++) if ($i == "reconnects") at = i; next }
  { sum += $at }
  END { print "   reconnects: " sum; exit sum < 1 }'

echo "2. the pool is full: writes fail, reads do not"
cp "$here/full.toml" faults.toml
sleep 1
if "$drumfire" run "$uri" --size 4k --read 0 --seconds 1 --ramp 0 --destroy --out full > full.txt; then
  echo "writes went through"
  exit 1
fi
"$drumfire" run "$uri" --size 4k --read 100 --seconds 1 --ramp 0 --fail-if 'errors>0' --out read > read.txt

echo "3. there is room again: everything goes through"
: > faults.toml
sleep 1
"$drumfire" run "$uri" --size 4k --read 50 --seconds 2 --ramp 0 --verify --destroy \
  --fail-if 'errors>0' --out again > again.txt
echo "passed"

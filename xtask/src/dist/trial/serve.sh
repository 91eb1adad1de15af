# Serves a volume in a root without any other file, and drives the volume from there. The root is $1.
set -eu
cd "$1"
fail() { echo "$1" >&2; cat said >&2; exit 1; }
inside="chroot $1 /drumfire"

$inside serve --iscsi 127.0.0.1:0 --nvme-tcp 127.0.0.1:0 --volume disk=ram:16m >ready 2>said &
server=$!
until grep -q '^ready ' ready; do
    kill -0 $server 2>/dev/null || fail "serve ended"
    sleep 0.1
done
iscsi=$(sed -n 's/^ready iscsi=\([^ ]*\).*/\1/p' ready)
nvme=$(sed -n 's/^ready .*nvme-tcp=\([^ ]*\).*/\1/p' ready)
for uri in "iscsi://$iscsi/iqn.2026-11.io.drumfire:disk/1" \
    "nvme+tcp://$nvme/nqn.2026-11.io.drumfire:disk/1"; do
    $inside run "$uri" --size 4k --seconds 0.5 --ramp 0 --fail-if 'errors>0' >run 2>&1 ||
        { cat run >&2; fail "a client of $uri"; }
    grep -m 1 IOPS run
done
kill -TERM $server
wait $server || fail "serve was stopped, and failed"

# Uses the installed package as its users do. Runs in the root; its network has loopback only.
set -eu
fail() { echo "$1" >&2; shift; [ $# = 0 ] || cat "$@" >&2; exit 1; }
as_nobody="setpriv --reuid 65534 --regid 65534 --clear-groups"
folder=$(mktemp -d)
chown 65534:65534 "$folder"
cd "$folder"
export HOME="$folder" TERM=dumb

drumfire --version

# One target: the memory of ten is for a machine of its own.
$as_nobody drumfire race --targets 1 --seconds 1 --ramp 1 >race 2>&1 || fail "race:" race
grep -q IOPS race || fail "race printed no rate:" race

# What the service manager would do, without it.
line=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/drumfire.service \
    /lib/systemd/system/drumfire.service 2>/dev/null | head -n 1)
[ -n "$line" ] || fail "the unit has no command"
mkfifo said
# RuntimeDirectory.
mkdir -p /run/drumfire
chown 65534:65534 /run/drumfire
STATE_DIRECTORY="$folder" $as_nobody $line >said 2>served &
server=$!
read -r ready <said || fail "the unit's command ended:" served
case $ready in "ready iscsi=127.0.0.1:3260 "*) ;; *) fail "not ready: $ready" served ;; esac
drumfire run iscsi://127.0.0.1:3260/iqn.2026-11.io.drumfire:disk/1 --seconds 1 >run 2>&1 ||
    fail "a client of the unit's command:" run
kill -TERM $server
wait $server || fail "the unit's command was stopped, and failed:" served
rmdir /run/drumfire || fail "the unit's command left a file in its runtime directory"

bash -c '
    . /usr/share/bash-completion/bash_completion
    _completion_loader drumfire
    COMP_WORDS=(drumfire rac) COMP_CWORD=1
    $(complete -p drumfire | sed "s/.*-F \([^ ]*\).*/\1/") drumfire rac drumfire
    [ "${COMPREPLY[*]}" = race ]
' || fail "bash does not complete drumfire rac"
[ -s /usr/share/zsh/vendor-completions/_drumfire ] || fail "no completion of zsh"
[ -s /usr/share/fish/vendor_completions.d/drumfire.fish ] || fail "no completion of fish"

# Not as root, whose pages man saves in its cache.
$as_nobody man drumfire-run >page 2>&1 || fail "man drumfire-run:" page
grep -q EXAMPLES page || fail "the page has no examples:" page
[ -s /usr/share/doc/drumfire/copyright ] || fail "no copyright"

grep -m 1 'IOPS measured' race
cd /
rm -rf "$folder"

#!/bin/busybox sh
# The guest's only program. It uses both protocols as the administrator of a Linux host would and
# says what held: "drumfire: passed NAME" or "drumfire: failed NAME: WHY" on the console.
#
# From its environment: iscsi_port and nvme_port, where the target listens on the host's loopback;
# iqn and nqn, the names of its one volume. Below /host is our program, with its libraries.

/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev

# What is asked is done sooner than this, in seconds, on any host: also on one that stands still for
# a minute, which the guest's clock counts.
LIMIT=600

say() { echo "drumfire: $*"; }

# check NAME COMMAND…: says whether the command succeeded, and what it noted; if not, what it said.
check() {
    local name=$1 noted
    shift
    if "$@" >/tmp/said 2>&1; then
        noted=$(sed -n 's/^noted//p' /tmp/said | tail -n 1)
        say "passed $name$noted"
    else
        say "failed $name: exit code $?: $(grep -v '^+' /tmp/said | tail -n 3 | tr '\n' ';')"
        # Not what our program begins its own lines with.
        sed 's/^drumfire: //' /tmp/said
        dmesg | tail -n 5
    fi
}

# await COMMAND…: repeats it until it succeeds and says something; that is what is returned.
await() {
    local found
    for _ in $(seq $((LIMIT * 5))); do
        found=$("$@" 2>/dev/null) && [ -n "$found" ] && echo "$found" && return 0
        sleep 0.2
    done
    echo "nothing came of: $*" >&2
    return 1
}

bounded() { timeout $LIMIT "$@"; }

# The target tells initiators to come to the address where they found it. There, 127.0.0.1 is the
# host's: qemu's network carries it as any address, if the guest takes it for none of its own.
set_up() {
    for module in /modules/*; do
        case $module in
            *-nvme.ko) insmod "$module" poll_queues=1 ;;
            *-nvme_core.ko) insmod "$module" io_timeout=$LIMIT ;;
            *-null_blk.ko | *-ublk_drv.ko) ;; # Later.
            *) insmod "$module" ;;
        esac || return 1
    done
    echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet
    ip addr add 10.0.2.15/24 dev eth0 && plug_in || return 1
    # The initiator's daemon takes orders only from a user with a name.
    echo root:x:0:0::/:/bin/sh >/etc/passwd
    mkdir -p /run/lock
    echo "InitiatorName=$iqn-guest" >/etc/iscsi/initiatorname.iscsi
    mkdir -p /etc/nvme
    echo "$nqn-guest" >/etc/nvme/hostnqn
    echo 6ad83e5e-1ba8-44a6-9c1a-3a2e7b9a0001 >/etc/nvme/hostid
    iscsid -f &
    # Where it takes orders.
    await grep ISCSI /proc/net/unix
}

plug_in() { ip link set eth0 up && ip route add default via 10.0.2.2; }

# --- Files, on whichever block device there is

# make_files DEVICE TAG: a new file system with files of odd lengths; remembers their sums. MD5 tells
# as well as any sum what a device mixed up, and takes an emulated processor the least.
make_files() {
    bounded mkfs.ext4 -q -F "$1" && bounded mount -t ext4 "$1" /mnt || return 1
    for len in 0 1 511 4096 65537 1048576 5000001; do
        head -c $len /dev/urandom >/mnt/$2-$len
    done
    # Several at a time, so that both of the initiator's queues have work.
    local writers=
    for i in 1 2 3 4; do
        head -c 2000000 /dev/urandom >/mnt/$2-together-$i &
        writers="$writers $!"
    done
    wait $writers
    (cd /mnt && md5sum $2-*) >/tmp/sums-$2
    [ "$(wc -l </tmp/sums-$2)" = 11 ] && bounded umount /mnt
}

# check_files DEVICE TAG: the files of that tag are as they were, and so is the file system.
check_files() {
    bounded mount -t ext4 -o ro "$1" /mnt || return 1
    (cd /mnt && md5sum -c /tmp/sums-$2)
    local same=$?
    bounded umount /mnt && [ $same = 0 ] && bounded e2fsck -fn "$1"
}

# Whether the kernel waits for an I/O of any device: there is but one, perhaps behind a path.
waits_for_io() { cat /sys/block/*/inflight | awk '{ sum += $1 + $2 } END { exit !sum }'; }

# await_io PID: waits until I/Os are under way; not longer than that process lives.
await_io() {
    while kill -0 $1; do
        waits_for_io && return 0
    done
    return 1
}

# survives DEVICE TAG COMMAND…: makes files and does the command meanwhile, each time with I/Os under
# way, three times at least. They are bounded and the pauses grow, so that a slow guest gets its
# files written too, and no command that was lost can hide behind the next reset.
survives() {
    local device=$1 tag=$2 resets=0 writer
    shift 2
    for _ in 1 2 3 4 5; do
        make_files "$device" $tag &
        writer=$!
        for pause in 0.3 0.3 0.3 0.5 1 2 4 8; do
            sleep $pause
            await_io $writer || break
            "$@" || return 1
            resets=$((resets + 1))
        done
        wait $writer || return 1
        [ $resets -ge 3 ] && echo "noted: $resets times with I/Os under way" && return 0
    done
    echo "only $resets times with I/Os under way" && return 1
}

# survives_cut DEVICE TAG: makes files while the network is away for longer than both ends wait.
survives_cut() {
    make_files "$1" $2 &
    local writer=$!
    sleep 1
    ip link set eth0 down && sleep 9 && plug_in && wait $writer
}

# --- NVMe/TCP

nvme_device() { ls -d /dev/nvme[0-9]*n1; }

nvme_discover() { bounded nvme discover -t tcp -a 127.0.0.1 -s $nvme_port | grep "subnqn: *$nqn\$"; }

nvme_connect() {
    bounded nvme connect-all -t tcp -a 127.0.0.1 -s $nvme_port $nvme_flags && await nvme_device
}

nvme_disconnect() {
    bounded nvme disconnect -n $nqn && ! nvme_device
}

# One that just comes back by itself, because the host stood still, takes no reset.
nvme_reset() { await nvme_reset_once; }

nvme_reset_once() { bounded nvme reset "$(ls -d /dev/nvme[0-9])" && echo reset; }

nvme_reconnect() { nvme_disconnect && nvme_connect; }

# --- iSCSI

iscsi_device() {
    local disk
    disk=$(ls /sys/class/iscsi_session/session*/device/target*/*/block) && ls /dev/$disk
}

iscsi_discover() {
    bounded iscsiadm -m discovery -t sendtargets -p 127.0.0.1:$iscsi_port | grep " $iqn\$"
}

iscsi_set() { bounded iscsiadm -m node -T $iqn -o update -n "$1" -v "$2"; }

iscsi_login() {
    iscsi_set node.conn[0].iscsi.HeaderDigest $iscsi_digest &&
        iscsi_set node.conn[0].iscsi.DataDigest $iscsi_digest &&
        iscsi_set node.conn[0].timeo.login_timeout $login &&
        iscsi_set node.conn[0].timeo.noop_out_interval $silence &&
        iscsi_set node.conn[0].timeo.noop_out_timeout $silence &&
        bounded iscsiadm -m node -T $iqn --login && await iscsi_device &&
        echo $answer >/sys/block/"$(basename "$(iscsi_device)")"/device/timeout
}

iscsi_reset() { await iscsi_reset_once $1; }

iscsi_reset_once() { bounded sg_reset $1 "$(iscsi_device)" && echo reset; }

iscsi_logout() { bounded iscsiadm -m node -T $iqn --logout && ! iscsi_device; }

iscsi_relogin() { iscsi_logout && iscsi_login; }

# Whether the session speaks as it was told to.
iscsi_speaks() {
    [ "$(cat /sys/class/iscsi_connection/connection*/header_digest)" = $1 ] &&
        [ "$(cat /sys/class/iscsi_connection/connection*/data_digest)" = $1 ]
}

# --- Our program, on devices that it polls for completions

drumfire() {
    timeout $LIMIT /host/lib/ld-linux-x86-64.so.2 --library-path /host/lib /host/drumfire "$@"
}

# Reads and writes that a disk has finished.
ios() { awk '{ print $1 + $5 }' /sys/block/$1/stat; }

# Interrupts of the NVMe disk's queues for I/O, on both processors.
interrupts() { awk '/nvme0q[1-9]/ { sum += $2 + $3 } END { print sum + 0 }' /proc/interrupts; }

# counted COMMAND…: does it, and tells in $ios and $interrupts what the NVMe disk did meanwhile.
counted() {
    ios=$(ios nvme0n1) interrupts=$(interrupts)
    "$@" || return 1
    ios=$(($(ios nvme0n1) - ios)) interrupts=$(($(interrupts) - interrupts))
    echo "noted: $interrupts interrupts for $ios I/Os"
}

mix='--size 4k --rw randrw --outstanding 8 --seconds 4 --ramp 0'

# Stamped, and compared where it is read. Only the flushes go with interrupts, and some I/Os before
# and after: without polling there would be one for eight at least, as so many are outstanding. How
# many there are in its seconds is the host's business: 400 a second on a busy one.
polls_and_verifies() {
    counted drumfire run 'file:/dev/nvme0n1?iopoll' $mix --verify --destroy=/dev/nvme0n1 \
        --out /tmp/polled && [ $ios -ge 600 ] && [ $((interrupts * 8)) -lt $ios ]
}

# The same data, compared once more by reads that are not polled for, of 256 KiB each. Nothing but
# an interrupt ends those, but one may tell of many: 3 for 33 were seen on a busy host, 25 on others.
verifies_unpolled() {
    sed 's/?iopoll[^"]*//' /tmp/polled/job.toml >/tmp/polled/unpolled.toml &&
        ! grep iopoll /tmp/polled/unpolled.toml &&
        counted drumfire run /tmp/polled/unpolled.toml --verify-only --out /tmp/unpolled &&
        [ $ios -ge 32 ] && [ $interrupts -ge 1 ]
}

# --- NVMe commands past the block layer

with_fio() { timeout $LIMIT /host/lib/ld-linux-x86-64.so.2 --library-path /host/lib /host/fio "$@"; }

# written VOLUME ARGUMENT…: writes to it what found VOLUME finds by another way, all of it.
written() {
    local volume=$1
    shift
    rm -rf /tmp/written
    drumfire run "$volume" "$@" --seconds 1 --ramp 0 --verify --destroy="${volume%%\?*}" \
        --out /tmp/written
}

found() {
    sed "s#^volumes = .*#volumes = [\"$1\"]#" /tmp/written/job.toml >/tmp/written/other.toml &&
        ! cmp /tmp/written/job.toml /tmp/written/other.toml >/dev/null 2>&1 || return 1
    rm -rf /tmp/found
    drumfire run /tmp/written/other.toml --verify-only --out /tmp/found >/tmp/compared 2>&1
    local ended=$?
    cat /tmp/compared
    [ $ended = 0 ] && grep 'all acknowledged writes are there' /tmp/compared
}

# An I/O of 1 MiB is more than one command moves.
written_and_read() {
    written $1 --size 4k --rw randrw --outstanding 8 && found $2 &&
        written $1 --size 1m --rw write --outstanding 2 && found $2
}

# thrice COMMAND…: up to three tries, for a busy host does few I/Os in some seconds.
thrice() { "$@" || "$@" || "$@"; }

# revived COMMAND…: again, up to three tries, if commands had to be ended by a reset. On a busy host
# qemu's NVMe disk stops now and then: commands of fio and of the block layer never end. A failure
# without a reset is final.
revived() {
    local tried ended rescue
    for tried in 1 2 3; do
        rm -f /tmp/reset
        { sleep 200 && touch /tmp/reset && echo 1 >/sys/class/nvme/nvme0/reset_controller; } &
        rescue=$!
        "$@"
        ended=$?
        kill $rescue 2>/dev/null
        [ $ended != 0 ] && [ -e /tmp/reset ] || break
    done
    [ $tried = 1 ] || echo "noted: try $tried"
    return $ended
}

# No counter of the system tells of commands, but for interrupts: only our own does. The block device
# is looked at before, 64 times. Without polling there would be one for eight of the 2,000 that write
# every place first, and of all that follow.
commands_are_polled() {
    interrupts=$(interrupts)
    written '/dev/ng0n1?iopoll' --size 4k --rw randrw --outstanding 8 >/tmp/wrote 2>&1
    local ended=$?
    cat /tmp/wrote
    [ $ended = 0 ] || return 1
    interrupts=$(($(interrupts) - interrupts))
    ios=$(sed -n 's|.* \([0-9,]*\) I/Os in .*|\1|p' /tmp/wrote | tr -d ,)
    echo "noted: $interrupts interrupts for $ios I/Os"
    [ "$ios" -ge 300 ] && [ $((interrupts * 20)) -lt $((ios + 2000)) ] && found /dev/nvme0n1
}

# Who would write a namespace is asked as with its block device.
commands_are_guarded() {
    ! drumfire run /dev/ng0n1 --rw write --seconds 1 >/tmp/refused 2>&1 &&
        grep 'give --destroy=/dev/ng0n1' /tmp/refused
}

# counts_of FILE: jobs, I/Os and bytes in a document of fio's.
counts_of() { grep -E '"(jobname|error|total_ios|io_bytes)"' "$1" | tr -d ' ,'; }

# One command line for both programs: as many I/Os and bytes, of reads, writes and trims.
commands_are_counted_as_by_fio() {
    set -- --name=a --ioengine=io_uring_cmd --cmd_type=nvme --filename=/dev/ng0n1 --bs=4k \
        --iodepth=8 --size=4m --output-format=json
    local rw
    for rw in write randread randwrite read; do
        with_fio "$@" --rw=$rw --output=/tmp/theirs.json &&
            drumfire fio "$@" --rw=$rw --destroy=/dev/ng0n1 --output=/tmp/ours.json || return 1
        counts_of /tmp/theirs.json >/tmp/theirs && counts_of /tmp/ours.json >/tmp/ours &&
            [ "$(grep -c . /tmp/ours)" -ge 8 ] && diff /tmp/theirs /tmp/ours || return 1
    done
}

# --- Zones of a device

# A null disk of zones of 4 MiB, of which 3 MiB can be written, at most three open at once.
zoned_disk() {
    insmod /modules/*-null_blk.ko nr_devices=1 gb=1 zoned=1 zone_size=4 zone_capacity=3 \
        zone_max_open=3 memory_backed=1
}

in_zones='--filename=/dev/nullb0 --direct=1 --zonemode=zbd --bs=64k --output-format=json'

# pointers FILE: how many blocks of each of the first eight zones fio can read: its write pointer.
pointers() {
    local jobs= zone
    for zone in 0 1 2 3 4 5 6 7; do
        jobs="$jobs --name=zone-$zone --rw=read --offset=$((zone * 4))m --size=4m"
    done
    with_fio $in_zones --ioengine=psync --output=/tmp/pointers.json $jobs &&
        grep '"total_ios"' /tmp/pointers.json | awk 'NR % 4 == 1 { print $3 + 0 }' >"$1" &&
        [ "$(wc -l <"$1")" = 8 ]
}

# zoned_alike ARGUMENT…: a job of fio's and the same of ours, each on a fresh disk: as many I/Os and
# bytes. What they left behind stands in /tmp/pointers-theirs and /tmp/pointers-ours.
zoned_alike() {
    zoned_disk && with_fio $in_zones --ioengine=libaio --name=a "$@" --output=/tmp/theirs.json &&
        pointers /tmp/pointers-theirs && rmmod null_blk &&
        zoned_disk && drumfire fio $in_zones --ioengine=libaio --name=a "$@" \
        --output=/tmp/ours.json --destroy=/dev/nullb0 &&
        pointers /tmp/pointers-ours && rmmod null_blk || return 1
    counts_of /tmp/theirs.json >/tmp/theirs && counts_of /tmp/ours.json >/tmp/ours &&
        [ "$(grep -c . /tmp/ours)" -ge 8 ] && diff /tmp/theirs /tmp/ours
}

same_pointers() { diff /tmp/pointers-theirs /tmp/pointers-ours; }

# Within zones, through all of them, and once more through those that are full by then.
zones_are_written_as_by_fio() {
    zoned_alike --rw=write --size=10m --iodepth=4 && same_pointers &&
        zoned_alike --rw=write --size=32m && same_pointers &&
        zoned_alike --rw=write --size=32m --io_size=7m && same_pointers &&
        zoned_alike --rw=write --size=32m --io_size=44m && same_pointers
}

# Where random writes go is chance: as many, and of zones no more are open than may be.
zones_at_random_as_by_fio() {
    zoned_alike --rw=randwrite --size=32m --io_size=20m --iodepth=8 --max_open_zones=2 &&
        cat /tmp/pointers-ours &&
        [ "$(awk '$1 > 0 && $1 < 48' /tmp/pointers-ours | wc -l)" -le 2 ]
}

# With flushes between, with resets before zones are full, and compared at the end.
zones_with_more_words_as_by_fio() {
    zoned_alike --rw=write --size=16m --fsync=16 && same_pointers &&
        zoned_alike --rw=write --size=32m --io_size=20m --zone_reset_threshold=0.3 \
            --zone_reset_frequency=0.1 && same_pointers &&
        zoned_alike --rw=write --size=16m --verify=crc32c && same_pointers
}

# A disk without zones says so.
zones_are_wanted() {
    ! drumfire fio --name=a --filename=/dev/nvme0n1 --direct=1 --zonemode=zbd --rw=read \
        --size=4m >/tmp/refused 2>&1 && grep 'set zonesize=SIZE' /tmp/refused
}

null_disk() { insmod /modules/*-null_blk.ko nr_devices=1 gb=1 poll_queues=$1; }

# Nothing else ends an I/O of its poll queue.
polls_null_disk() {
    null_disk 1 && [ "$(cat /sys/block/nullb0/queue/io_poll)" = 1 ] &&
        drumfire run 'file:/dev/nullb0?iopoll' $mix --destroy=/dev/nullb0 --out /tmp/null &&
        [ "$(ios nullb0)" -ge 100 ] && rmmod null_blk
}

refuses_without_queues() {
    null_disk 0 && ! drumfire run 'file:/dev/nullb0?iopoll' --seconds 1 >/tmp/refused 2>&1 &&
        grep 'nullb0 has no poll queues' /tmp/refused && rmmod null_blk
}

# The disk goes away behind it, so that there is one of a name as before.
polls() {
    check disk-has-poll-queues await grep 1 /sys/block/nvme0n1/queue/io_poll
    check disk-is-polled-and-verified revived polls_and_verifies
    check disk-is-verified-without-polling revived verifies_unpolled
    check commands-write-and-blocks-read revived written_and_read /dev/ng0n1 /dev/nvme0n1
    check blocks-write-and-commands-read revived written_and_read /dev/nvme0n1 /dev/ng0n1
    check commands-are-polled revived thrice commands_are_polled
    check commands-are-guarded commands_are_guarded
    if [ -e /host/fio ]; then
        check commands-are-counted-as-by-fio revived commands_are_counted_as_by_fio
        check zones-are-written-as-by-fio zones_are_written_as_by_fio
        check zones-at-random-as-by-fio zones_at_random_as_by_fio
        check zones-with-more-words-as-by-fio zones_with_more_words_as_by_fio
    fi
    check zones-are-wanted zones_are_wanted
    check null-disk-is-polled polls_null_disk
    check disk-without-poll-queues-is-refused refuses_without_queues
    check disk-goes rmmod nvme
}

# --- Two servers of one name, both in the guest

# serve_here NAME PORT ARGUMENT…: starts our target, and waits until it listens.
serve_here() {
    local name=$1 port=$2
    shift 2
    rm -f /tmp/$name.said
    /host/lib/ld-linux-x86-64.so.2 --library-path /host/lib /host/drumfire serve \
        --nvme-tcp $here:$port "$@" >/tmp/$name.said 2>&1 &
    echo $! >/tmp/$name.pid
    await grep ^ready /tmp/$name.said
}

end_here() { kill -9 "$(cat /tmp/$1.pid)"; }

# Takes away what a check left behind that failed.
fresh() {
    [ -z "$(disks)$(ways)" ] || bounded nvme disconnect -n $nqn
    end_here a
    end_here b
    rm -f /tmp/*.img /tmp/enough
    true
} >/dev/null 2>&1

connect_here() {
    bounded nvme connect -t tcp -a $here -s $1 -n $nqn --keep-alive-tmo=$LIMIT --reconnect-delay=1
}

# disconnect_here COUNT: gives up all controllers and disks, and ends the servers.
disconnect_here() {
    bounded nvme disconnect -n $nqn | grep "disconnected $1 " && await none disks &&
        end_here a && end_here b
}

# Disks that the kernel made, and the ways to them where it made a disk of several.
disks() { ls /sys/block | grep -E '^nvme[0-9]+n[0-9]+$'; }
ways() { ls /sys/block | grep -E '^nvme[0-9]+c[0-9]+n[0-9]+$'; }
live() { grep -l ^live /sys/class/nvme/nvme*/state; }

# counts NUMBER COMMAND…: whether it says so many lines. none COMMAND…: that it says nothing.
counts() {
    local number=$1
    shift
    [ "$("$@" | wc -l)" = "$number" ] && echo "$number"
}
none() { [ -z "$("$@" 2>/dev/null)" ] && echo none; }

# sum FILE: of the first megabyte; that of a disk around the cache.
sum() {
    case $1 in
        /dev/*) dd if="$1" bs=64k count=16 iflag=direct ;;
        *) dd if="$1" bs=64k count=16 ;;
    esac | md5sum
}
write_random() {
    head -c 1048576 /dev/urandom >/tmp/random && dd if=/tmp/random of="$1" bs=64k oflag=direct
}

local_network() {
    here=10.0.2.15
    # The host's loopback is reached as before.
    ip link set lo up && ip addr del 127.0.0.1/8 dev lo
}

# What is written to one of two strangers is not in the other.
strangers_are_two_disks() {
    fresh
    serve_here a 4421 --volume disk=ram:16m && serve_here b 4422 --volume disk=ram:16m &&
        connect_here 4421 && await counts 1 disks && connect_here 4422 &&
        await counts 2 disks || return 1
    set -- $(disks)
    echo "uuids: $(cat /sys/block/$1/uuid) $(cat /sys/block/$2/uuid)"
    [ "$(cat /sys/block/$1/uuid)" != "$(cat /sys/block/$2/uuid)" ] || return 1
    local empty
    empty=$(sum /dev/$2)
    write_random /dev/$1 && [ "$(sum /dev/$1)" = "$(sum /tmp/random)" ] &&
        [ "$(sum /dev/$2)" = "$empty" ] && disconnect_here 2
}

# Where each has several addresses the kernel joins those of one, and leaves the other out.
strangers_with_several_ways_stay_apart() {
    fresh
    serve_here a 4421 --nvme-tcp $here:4431 --volume disk=file:/tmp/a.img?size=16m &&
        serve_here b 4422 --nvme-tcp $here:4432 --volume disk=file:/tmp/b.img?size=16m ||
        return 1
    connect_here 4421 && connect_here 4431 && await counts 2 ways &&
        connect_here 4422 && connect_here 4432 && await counts 4 live || return 1
    write_random /dev/"$(disks)" || return 1
    counts 1 disks && counts 2 ways && [ "$(sum /tmp/a.img)" = "$(sum /tmp/random)" ] &&
        [ "$(sum /tmp/b.img)" != "$(sum /tmp/random)" ] && disconnect_here 4
}

serve_one() { serve_here $1 $2 --id both "--volume=disk=file:/tmp/one.img?size=16m&lock=off"; }

one_id_is_one_disk() {
    fresh
    serve_one a 4421 && serve_one b 4422 && connect_here 4421 && connect_here 4422 &&
        await counts 2 ways && counts 1 disks && write_random /dev/"$(disks)" &&
        [ "$(sum /tmp/one.img)" = "$(sum /tmp/random)" ]
}

# Writes and reads until it shall end, or fails.
write_on() {
    while [ ! -e /tmp/enough ]; do
        write_random $1 && [ "$(sum $1)" = "$(sum /tmp/random)" ] || return 1
        echo >>/tmp/rounds
    done
}

# Waits until two more rounds were written, one of them from its beginning; not longer than the
# writer lives.
more_rounds() {
    local want=$(($(wc -l </tmp/rounds) + 2))
    while [ "$(wc -l </tmp/rounds)" -lt $want ]; do
        kill -0 $1 || return 1
        sleep 0.2
    done
}

# Either server may go, as long as the other is there.
one_id_survives_either_server() {
    : >/tmp/rounds
    write_on /dev/"$(disks)" &
    local writer=$!
    more_rounds $writer && end_here a && more_rounds $writer && serve_one a 4421 &&
        await counts 2 live && end_here b && more_rounds $writer && serve_one b 4422 &&
        await counts 2 live && touch /tmp/enough && wait $writer || return 1
    echo "noted: $(wc -l </tmp/rounds) rounds"
    disconnect_here 2
}

# Nobody here is asked over a network: a minute in which the host stands still, and some.
# restart COMMAND…: what is written to its disk, by a server that is then killed and started again.
restart() {
    fresh
    "$@" && connect_here 4421 && await counts 1 disks && write_random /dev/"$(disks)" &&
        end_here a && "$@" && await live
}

# The host goes on with what it wrote; memory, which has lost it, is no longer the same disk.
a_restart_keeps_files_and_drops_memory() {
    restart serve_here a 4421 --volume disk=file:/tmp/a.img?size=16m && counts 1 disks &&
        [ "$(sum /dev/"$(disks)")" = "$(sum /tmp/random)" ] &&
        restart serve_here a 4421 --volume disk=ram:16m && await none disks && fresh
}

ctl_here() { drumfire ctl /tmp/socket "$@"; }

# The kernel hears of a second volume, and of its end, while the first one is written to.
namespaces_come_and_go() {
    # A controller without disks may be left.
    bounded nvme disconnect -n $nqn >/dev/null 2>&1
    fresh
    rm -f /tmp/socket
    serve_here a 4421 --volume disk=ram:16m --control /tmp/socket && connect_here 4421 &&
        await counts 1 disks || return 1
    local first second
    first=$(disks)
    : >/tmp/rounds
    write_on /dev/$first &
    local writer=$!
    ctl_here add disk/2=ram:16m && await counts 2 disks || return 1
    second=$(disks | grep -v "^$first\$")
    echo "the second: $second $(cat /sys/block/$second/nsid)"
    dd if=/dev/$second of=/dev/null bs=64k iflag=direct && more_rounds $writer &&
        ctl_here remove disk/2 && await counts 1 disks && [ "$(disks)" = "$first" ] &&
        more_rounds $writer && touch /tmp/enough && wait $writer && counts 1 live &&
        bounded nvme disconnect -n $nqn | grep "disconnected 1 " && await none disks && end_here a
}

two_servers() {
    LIMIT=150
    check network-is-local local_network
    check strangers-are-two-disks strangers_are_two_disks
    check strangers-with-several-ways-stay-apart strangers_with_several_ways_stay_apart
    check one-id-is-one-disk one_id_is_one_disk
    check one-id-survives-either-server one_id_survives_either_server
    check a-restart-keeps-files-and-drops-memory a_restart_keeps_files_and_drops_memory
    check namespaces-come-and-go namespaces_come_and_go
}

# --- The order of things

# both_protocols NAME: each makes a file system, and reads it after it came back and as the other.
both_protocols() {
    check $1-nvme-discovers nvme_discover
    check $1-nvme-connects nvme_connect
    check $1-nvme-writes make_files "$(nvme_device)" nvme
    check $1-nvme-reconnects nvme_reconnect
    check $1-nvme-reads-its-own check_files "$(nvme_device)" nvme
    check $1-nvme-disconnects nvme_disconnect
    check $1-iscsi-discovers iscsi_discover
    check $1-iscsi-logs-in iscsi_login
    check $1-iscsi-reads-what-nvme-wrote check_files "$(iscsi_device)" nvme
    check $1-iscsi-writes make_files "$(iscsi_device)" iscsi
    check $1-iscsi-logs-in-again iscsi_relogin
    check $1-iscsi-reads-its-own check_files "$(iscsi_device)" iscsi
    check $1-iscsi-digests iscsi_speaks $iscsi_bit
    check $1-iscsi-logs-out iscsi_logout
    check $1-nvme-connects-again nvme_connect
    check $1-nvme-reads-what-iscsi-wrote check_files "$(nvme_device)" iscsi
    check $1-nvme-disconnects-again nvme_disconnect
}

# What breaks while data is written: the controller or the unit is reset, the network goes away.
# Both come back by themselves, and nothing is lost.
breaks() {
    check nvme-connects-to-break nvme_connect
    check nvme-survives-resets survives "$(nvme_device)" nvme nvme_reset
    check nvme-survives-a-cut survives_cut "$(nvme_device)" nvme
    check nvme-reconnects-whole nvme_reconnect
    check nvme-lost-nothing check_files "$(nvme_device)" nvme
    check nvme-disconnects-whole nvme_disconnect
    check iscsi-logs-in-to-break iscsi_login
    check iscsi-survives-unit-resets survives "$(iscsi_device)" iscsi iscsi_reset --device
    check iscsi-survives-target-resets survives "$(iscsi_device)" iscsi iscsi_reset --target
    check iscsi-survives-a-cut survives_cut "$(iscsi_device)" iscsi
    check iscsi-logs-in-whole iscsi_relogin
    check iscsi-lost-nothing check_files "$(iscsi_device)" iscsi
    check iscsi-logs-out-whole iscsi_logout
}

# The kernel found nothing wrong with the target.
kernel_is_content() {
    ! dmesg | grep -iE 'digest (error|mismatch)|i/o error|i/o timeout|timed out|call trace|conn error'
}

check sets-up set_up
polls
# Nobody gives up a connection or a command while the host stands still.
silence=$LIMIT login=$LIMIT answer=$LIMIT patient="--keep-alive-tmo=$LIMIT"
nvme_flags=$patient iscsi_digest=None iscsi_bit=0
both_protocols plain
digests='--hdr-digest --data-digest'
nvme_flags="$patient $digests" iscsi_digest=CRC32C iscsi_bit=1
both_protocols digests
check kernel-is-content kernel_is_content
# From here on they shall; what is not said here is the initiator's own default.
silence=2 login=15 answer=30 nvme_flags="$digests --keep-alive-tmo=4 --reconnect-delay=1"
breaks
two_servers
# Where the kernel has the driver. The host says what was skipped.
[ ! -e /modules/*-ublk_drv.ko ] || . /ublk.sh
say ended
poweroff -f

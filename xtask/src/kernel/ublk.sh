# Where the guest's kernel has ublk: our program makes its volumes block devices, and the guest uses
# them. The guest's script reads this at its end, with its tools and its network as they are then.

# What the kernel said before is not of ublk, and nothing that it would still say of a server that
# ended.
ublk_set_up() {
    LIMIT=600
    bounded nvme disconnect -n $nqn
    dmesg -c >/dev/null && none ls /dev/ublk-control
}

# attach NAME ARGUMENT…: attaches a volume in the background, and waits until its device is there;
# that is $device, whoever serves it $server, and what it says in /tmp/NAME.said.
attach() {
    local name=$1
    shift
    # Without a process between, so that it can be killed.
    /host/lib/ld-linux-x86-64.so.2 --library-path /host/lib /host/drumfire attach --ublk "$@" \
        >/tmp/$name.said 2>&1 &
    server=$!
    servers="$servers $server"
    device=
    for _ in $(seq $((LIMIT * 5))); do
        device=$(sed -n 's/^ready //p' /tmp/$name.said)
        [ -n "$device" ] || ! kill -0 $server && break
        sleep 0.2
    done
    [ -b "$device" ] && return 0
    cat /tmp/$name.said
    return 1
}

# alone COMMAND…: does it with none of the devices that a check left behind that failed.
alone() {
    {
        umount /mnt
        kill -9 $servers
        for left in $(ls /dev/ublkc*); do
            drumfire detach /dev/ublkb${left#/dev/ublkc}
        done
        servers=
    } >/dev/null 2>&1
    "$@"
}

# ends CODE: whoever served the device ends so, and nothing is left of it.
ends() {
    wait $server
    local code=$?
    [ $code = $1 ] || { echo "it ended with $code" && return 1; }
    none ls -d /dev/ublk[bc]*
}

detach() { drumfire detach "$1"; }

queue_of() { cat /sys/block/"$(basename $device)"/queue/$1; }
# is NAME VALUE: whether the device has it so.
is() { [ "$(queue_of $1)" = "$2" ] || { echo "$1 is $(queue_of $1)" && return 1; }; }

refuses_without_driver() {
    drumfire attach --ublk ram:16m >/tmp/refused 2>&1
    [ $? = 1 ] && grep '/dev/ublk-control is missing: modprobe ublk_drv' /tmp/refused &&
        [ "$(wc -l </tmp/refused)" = 1 ]
}

null_is_read() {
    insmod /modules/*-ublk_drv.ko && attach null null:64m && [ $device = /dev/ublkb0 ] &&
        dd if=$device bs=4096 count=1 iflag=direct of=/tmp/read && [ "$(wc -c </tmp/read)" = 4096 ] &&
        [ "$(blockdev --getsize64 $device)" = 67108864 ] && detach $device && ends 0
}

# What the geometry says: blocks, the longest I/O, discards, a write cache.
says_what_it_is() {
    attach shape ram:64m /dev/ublkb3 && [ $device = /dev/ublkb3 ] && is logical_block_size 512 &&
        is physical_block_size 4096 && is max_hw_sectors_kb 128 && is write_cache 'write back' &&
        is fua 1 && is discard_max_bytes 1073741824 && is discard_granularity 4096 &&
        is write_zeroes_max_bytes 1073741824 && is rotational 0 && [ "$(blockdev --getro $device)" = 0 ] &&
        detach $device && ends 0 || return 1
    attach shape 'ram:64m?block=4k' && is logical_block_size 4096 &&
        detach $device && ends 0
}

# random COUNT FILE: so many pieces of 64 KiB.
random() { head -c $(($1 * 65536)) /dev/urandom >$2; }

# The same bytes by I/Os of each length, around the cache and through it.
direct_is_the_same() {
    random 16 /tmp/random && attach direct ram:1m || return 1
    local wanted
    wanted=$(md5sum </tmp/random)
    for length in 512 4096 65536 1048576; do
        blkdiscard $device && dd if=/tmp/random of=$device bs=$length oflag=direct &&
            [ "$(dd if=$device bs=1M iflag=direct | md5sum)" = "$wanted" ] &&
            [ "$(dd if=$device bs=$length iflag=direct | md5sum)" = "$wanted" ] || return 1
    done
    [ "$(md5sum <$device)" = "$wanted" ] && detach $device && ends 0
}

# Stamped, and compared where it is read, 32 at a time from two threads.
is_verified() {
    attach verified ram:16m &&
        drumfire run file:$device --size 4k --rw randrw --outstanding 32 --workers 2 --seconds 2 \
            --ramp 0 --verify --destroy=$device --out /tmp/verified && detach $device && ends 0
}

keeps_files() {
    attach ext4 ram:128m && make_files $device local && check_files $device local &&
        detach $device && ends 0
}

# struck NAME NUMBER: how many I/Os the fault of that number has struck.
struck() { sed -n "s/.*slow (fault $2) \([0-9]*\).*/\1/p" /tmp/$1.said; }

# As many flushes as a program asked for, counted by the volume, discards and zeroes.
flushes_arrive() {
    cat >/tmp/count.toml <<'END'
name = "count"
[[fault]]
verb = "slow"
op = "flush"
add_s = 0.0001
[[fault]]
verb = "slow"
op = "trim"
add_s = 0.0001
END
    attach flushes 'fault:/tmp/count.toml(ram:64m)' || return 1
    for i in 1 2 3 4 5 6 7; do
        dd if=/dev/urandom of=$device bs=4096 count=1 seek=$i conv=fsync || return 1
    done
    kill -TERM $server && ends 0 || return 1
    # Two threads flush when they leave, and the one that stops them before.
    local flushes
    flushes=$(struck flushes 1)
    echo "noted: $flushes flushes"
    [ "$flushes" -ge 9 ] && [ "$flushes" -le 11 ] && [ -z "$(struck flushes 2)" ]
}

zeroes_arrive() {
    attach zeroes 'fault:/tmp/count.toml(ram:64m)' && random 256 /tmp/random &&
        dd if=/tmp/random of=$device bs=64k oflag=direct &&
        mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 $device &&
        e2fsck -fn $device && detach $device && ends 0 && [ "$(struck zeroes 2)" -ge 1 ]
}

# Memory of whoever serves, in KiB.
memory() { awk '/^VmRSS:/ { print $2 }' /proc/$server/status; }

discard_gives_back() {
    attach discard ram:32m && random 384 /tmp/random || return 1
    local before full after
    before=$(memory)
    dd if=/tmp/random of=$device bs=1M oflag=direct || return 1
    full=$(memory)
    blkdiscard $device || return 1
    after=$(memory)
    echo "noted: $before KiB, $full written, $after discarded"
    [ $((full - before)) -ge 22500 ] && [ $((full - after)) -ge 22500 ] &&
        [ "$(md5sum <$device)" = "$(head -c 33554432 /dev/zero | md5sum)" ] &&
        detach $device && ends 0
}

errors_are_eio() {
    cat >/tmp/errors.toml <<'END'
name = "errors"
[[fault]]
verb = "error"
op = "read"
range = ["1m", "1028k"]
[[fault]]
verb = "error"
op = "write"
fault = "no-space"
range = ["2m", "2052k"]
[[fault]]
verb = "error"
op = "flush"
count = 1
END
    attach errors 'fault:/tmp/errors.toml(ram:16m)' || return 1
    ! dd if=$device of=/dev/null bs=4k skip=256 count=1 iflag=direct 2>/tmp/said.read &&
        grep 'Input/output error' /tmp/said.read &&
        ! dd if=/dev/zero of=$device bs=4k seek=512 count=1 oflag=direct 2>/tmp/said.write &&
        grep 'No space left' /tmp/said.write &&
        dd if=$device of=/dev/null bs=4k skip=257 count=255 iflag=direct &&
        ! dd if=/dev/zero of=$device bs=4k count=1 conv=fsync 2>/tmp/said.flush &&
        grep 'Input/output error' /tmp/said.flush &&
        dd if=/dev/zero of=$device bs=4k count=1 conv=fsync && detach $device && ends 0
}

read_only_is() {
    attach readonly ram:16m --read-only && [ "$(blockdev --getro $device)" = 1 ] &&
        ! dd if=/dev/zero of=$device bs=4k count=1 oflag=direct &&
        dd if=$device of=/dev/null bs=4k count=1 iflag=direct && detach $device && ends 0
}

names_are_looked_at() {
    ! drumfire attach --ublk ram:16m /tmp/disk 2>/tmp/said.name && grep /dev/ublkb0 /tmp/said.name &&
        ! drumfire detach /dev/ublkb9 2>/tmp/said.none &&
        grep 'no volume is attached there' /tmp/said.none && attach first ram:16m || return 1
    ! drumfire attach --ublk ram:16m $device 2>/tmp/said.twice &&
        grep 'already attached there' /tmp/said.twice && detach $device && ends 0
}

# Two at once, each with its own data.
two_are_two() {
    attach one ram:16m || return 1
    local one=$device first=$server
    attach two ram:16m || return 1
    [ $one != $device ] && random 16 /tmp/random && dd if=/tmp/random of=$one bs=64k oflag=direct &&
        [ "$(dd if=$device bs=64k count=16 | md5sum)" != "$(md5sum </tmp/random)" ] &&
        [ "$(dd if=$one bs=64k count=16 iflag=direct | md5sum)" = "$(md5sum </tmp/random)" ] &&
        detach $one && wait $first && detach $device && ends 0
}

detach_spares_who_uses_it() {
    attach used ram:64m && mkfs.ext4 -q -F $device && mount -t ext4 $device /mnt || return 1
    ! detach $device 2>/tmp/said.used && grep 'in use' /tmp/said.used && date >/mnt/file &&
        umount /mnt && detach $device && ends 0
}

# A file system on a partition keeps the disk, too.
partitions_are_found() {
    attach parts ram:64m && printf 'n\np\n1\n\n\nw\n' | fdisk $device >/dev/null &&
        await ls ${device}p1 && mkfs.ext4 -q -F ${device}p1 && mount -t ext4 ${device}p1 /mnt ||
        return 1
    ! detach $device 2>/tmp/said.parts && grep 'in use' /tmp/said.parts && umount /mnt &&
        detach $device && ends 0
}

# What is dirty is written first, for the file below has it when a signal ends it.
signals_end_it() {
    for signal in TERM INT; do
        random 16 /tmp/random
        attach signal file:/tmp/signal.img?size=16m && cp /tmp/random $device &&
            kill -$signal $server && ends 0 &&
            [ "$(head -c 1048576 /tmp/signal.img | md5sum)" = "$(md5sum </tmp/random)" ] ||
            return 1
    done
    # A file system that is still mounted does not keep it.
    attach signal ram:64m && mkfs.ext4 -q -F $device && mount -t ext4 $device /mnt &&
        kill -TERM $server && wait $server && grep 'still in use' /tmp/signal.said && umount /mnt
    await none ls -d /dev/ublk[bc]*
}

# A program that writes is told, and the next one may have the name.
killed_leaves_nothing_stuck() {
    attach killed ram:64m || return 1
    local node=$device writer
    dd if=/dev/zero of=$node bs=4k count=16384 oflag=direct 2>/tmp/said.killed &
    writer=$!
    sleep 0.5
    kill -9 $server
    wait $server
    ! wait $writer && grep 'error' /tmp/said.killed && await none ls -d $node || return 1
    ! drumfire attach --ublk ram:64m $node 2>/tmp/said.dead &&
        grep 'process died: run .drumfire detach' /tmp/said.dead && detach $node &&
        await none ls -d /dev/ublkc* && attach again ram:64m $node && [ $device = $node ] &&
        dd if=$device of=/dev/null bs=4k count=1 iflag=direct && detach $device && ends 0
}

# Held back by a volume that hangs, and killed: nobody waits for ever.
killed_while_it_hangs() {
    cat >/tmp/hang.toml <<'END'
name = "hang"
[[fault]]
verb = "hang"
op = "write"
END
    attach hangs 'fault:/tmp/hang.toml(ram:16m)' || return 1
    local node=$device writer
    dd if=/dev/zero of=$node bs=4k count=1 oflag=direct 2>/tmp/said.hangs &
    writer=$!
    sleep 1
    kill -0 $writer && kill -9 $server
    wait $server
    ! wait $writer && grep 'error' /tmp/said.hangs && await none ls -d $node && detach $node &&
        none ls -d /dev/ublk[bc]*
}

# remote NAME URI: a volume of the host's target as a block device.
remote() {
    attach $1 "$2" && make_files $device $1 && check_files $device $1 && detach $device && ends 0
}

remote_comes_back() {
    attach back "nvme+tcp://127.0.0.1:$nvme_port/$nqn/1?reconnect=60s" || return 1
    make_files $device back &
    local writer=$!
    sleep 1
    ip link set eth0 down && sleep 3 && plug_in && wait $writer && check_files $device back &&
        detach $device && ends 0
}

nothing_is_left() { none ls -d /dev/ublk[bc]*; }

ublk_kernel_is_content() {
    ! dmesg | grep -iE 'call trace|warning:|bug:|blocked for more|oops'
}

check ublk-sets-up ublk_set_up
check ublk-is-refused-without-driver refuses_without_driver
check ublk-null-is-read null_is_read
check ublk-says-what-it-is alone says_what_it_is
check ublk-direct-is-the-same alone direct_is_the_same
check ublk-is-verified alone is_verified
check ublk-keeps-files alone keeps_files
check ublk-flushes-arrive alone flushes_arrive
check ublk-zeroes-arrive alone zeroes_arrive
check ublk-discard-gives-back alone discard_gives_back
check ublk-errors-are-eio alone errors_are_eio
check ublk-read-only-is alone read_only_is
check ublk-names-are-looked-at alone names_are_looked_at
check ublk-two-are-two alone two_are_two
check ublk-detach-spares-who-uses-it alone detach_spares_who_uses_it
check ublk-partitions-are-found alone partitions_are_found
check ublk-signals-end-it alone signals_end_it
check ublk-killed-leaves-nothing-stuck alone killed_leaves_nothing_stuck
check ublk-killed-while-it-hangs alone killed_while_it_hangs
check ublk-nvme-tcp alone remote nvme "nvme+tcp://127.0.0.1:$nvme_port/$nqn/1"
check ublk-iscsi alone remote iscsi "iscsi://127.0.0.1:$iscsi_port/$iqn/1"
check ublk-remote-comes-back alone remote_comes_back
check ublk-nothing-is-left nothing_is_left
check ublk-kernel-is-content ublk_kernel_is_content

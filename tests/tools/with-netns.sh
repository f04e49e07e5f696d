#!/usr/bin/env bash
# Runs a command among N network namespaces that stand for N hosts on a network of their own:
#
#   with-netns.sh [-n hosts] [-2] [-D] [-v] -- command [arg...]
#
#   -n  number of hosts, n1..nN (default 2).  Host i has eth0 with 10.77.0.i/24 and fd77::i/64,
#       joined by the bridge sw0
#   -2  a second network: eth1 with 10.77.1.i/24 and fd77:1::i/64, joined by the bridge sw1
#   -D  two interfaces that lead nowhere, listed before eth0: docker0 with 172.17.0.1/16, the
#       same on every host and without a carrier, and dead0 with 10.78.0.i/24, up, whose packets
#       to the other hosts vanish without an error
#   -v  show the hosts' addresses first
#
# The command runs in the "switch": the namespace of the bridges and of the hosts' cables, n1a is
# the other end of n1's eth0 and n1b that of its eth1.  It has no address, so that hosts reach
# nothing but each other.  It finds in the environment
#   NETNS="n1 n2"  NETNS_ADDRS="10.77.0.1 10.77.0.2"  NETNS_ADDRS2="10.77.1.1 ..." (with -2)
#   NETNS_NETEM=1 or 0: has the kernel tc's netem (delay, loss, reordering)?
# and in PATH the commands
#   on HOST command...       runs a command on a host, with the host's name as its host name
#   unplug HOST [eth1]       pulls the cable: the host sees the carrier go
#   unplug -s HOST [eth1]    silently, as a switch further away would: packets vanish, nobody is told
#   plug HOST [eth1]         undoes either
# n1..nN resolve to the 10.77.0.x addresses.  All of it lives in private network, mount and PID
# namespaces: nothing is seen outside, concurrent runs don't meet, and the kernel removes it with
# the last process, even after SIGKILL.  Root isn't needed where user namespaces are allowed.
# Exit status: the command's; 64 usage; 77 namespaces aren't allowed here; 128+n after signal n.
# shellcheck disable=SC2317  # functions that traps run
set -u
self=${0##*/}
die() { local rc=$1; shift; echo "$self: $*" >&2; exit "$rc"; }

hosts=2 second=0 dead=0 verbose=0 given=("$@")
while getopts n:2Dv opt; do
    case $opt in
        n) hosts=$OPTARG ;; 2) second=1 ;; D) dead=1 ;; v) verbose=1 ;;
        *) die 64 "usage: $self [-n hosts] [-2] [-D] [-v] -- command [arg...]" ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || die 64 "no command given"
[[ $hosts =~ ^[1-9][0-9]?$ ]] || die 64 "-n takes 1 to 99"
export PATH="$PATH:/usr/sbin:/sbin"

if [ -z "${NETNS_INSIDE-}" ]; then
    for tool in ip tc unshare setpriv; do
        command -v $tool >/dev/null || die 77 "skipped: no $tool here (Debian: apt-get install iproute2 util-linux)"
    done
    how=(setpriv --pdeathsig KILL unshare --net --mount --pid --fork --kill-child --mount-proc)
    [ "$(id -u)" = 0 ] || how+=(--user --map-root-user)
    why=$("${how[@]}" true 2>&1) || die 77 "skipped: no namespaces here: $why"
    dir=$(mktemp -d "${TMPDIR:-/tmp}/with-netns.XXXXXX") || exit 70
    made='' child=''
    [ -d /run/netns ] || ! mkdir /run/netns 2>/dev/null || made=/run/netns
    finish() {
        trap '' INT TERM HUP
        # unshare itself holds back signals; its child, the inner script, passes them on.
        read -r child </proc/"$pid"/task/"$pid"/children    # one, without a line end
        [ -z "$child" ] || kill -TERM "$child"
        for ((i = 0; i < 60; i++)); do kill -0 "$pid" 2>/dev/null || break; sleep 0.05; done
        kill -KILL "$pid" 2>/dev/null
        exit "$1"
    }
    trap 'rm -rf "$dir"; [ -z "$made" ] || rmdir "$made" 2>/dev/null' EXIT
    trap 'finish 129' HUP; trap 'finish 130' INT; trap 'finish 143' TERM
    (trap : INT QUIT; trap - INT QUIT; NETNS_INSIDE=$dir exec "${how[@]}" "$BASH" "$0" "${given[@]}") <&0 &
    pid=$!
    wait $pid
    exit
fi

dir=$NETNS_INSIDE command=''
unset NETNS_INSIDE
[ $$ = 1 ] || die 70 "not alone in a PID namespace"
finish() {                          # TERM to all in this PID namespace; the end of process 1 ends the rest
    trap '' INT TERM HUP
    kill -TERM -1 2>/dev/null
    for ((i = 0; i < 40; i++)); do kill -0 -1 2>/dev/null || break; sleep 0.05; done
    exit "$1"
}
trap 'finish 129' HUP; trap 'finish 130' INT; trap 'finish 143' TERM
set -e
if [ -d /run/netns ]; then mount -t tmpfs netns /run/netns; else mount -t tmpfs run /run; mkdir /run/netns; fi
ip link set lo up
for f in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 >"$f"; done    # of the switch only
cable() {                           # cable HOST NAME END SWITCH ADDRESS ADDRESS6
    ip link add "$3" type veth peer name "$2" netns "$1"
    ip link set "$3" ${4:+master "$4"} up
    ip -n "$1" addr add "$5" dev "$2"
    [ -z "$6" ] || ip -n "$1" addr add "$6" dev "$2" nodad
    ip -n "$1" link set "$2" up
}
ip link add sw0 type bridge mcast_snooping 0
ip link set sw0 up
[ $second = 0 ] || { ip link add sw1 type bridge mcast_snooping 0; ip link set sw1 up; }
NETNS='' NETNS_ADDRS='' NETNS_ADDRS2=''
cat /etc/hosts >"$dir/hosts"
for ((i = 1; i <= hosts; i++)); do
    ip netns add n$i
    ip -n n$i link set lo up
    if [ $dead = 1 ]; then
        ip -n n$i link add docker0 type bridge
        ip -n n$i addr add 172.17.0.1/16 dev docker0
        ip -n n$i link set docker0 up
        ip -n n$i link add gone type veth peer name gone2   # a port that never came up takes
        ip -n n$i link set gone master docker0              # the bridge's carrier away
        ip -n n$i link del gone
        cable n$i dead0 n${i}x '' 10.78.0.$i/24 ''
        for ((j = 1; j <= hosts; j++)); do
            [ $j = $i ] || ip -n n$i neigh add 10.78.0.$j lladdr "02:00:00:00:00:$(printf %02x $j)" dev dead0
        done
    fi
    cable n$i eth0 n${i}a sw0 10.77.0.$i/24 fd77::$i/64
    [ $second = 0 ] || { cable n$i eth1 n${i}b sw1 10.77.1.$i/24 fd77:1::$i/64; NETNS_ADDRS2+=" 10.77.1.$i"; }
    NETNS+=" n$i" NETNS_ADDRS+=" 10.77.0.$i"
    echo "10.77.0.$i n$i" >>"$dir/hosts"
done
mount --bind "$dir/hosts" /etc/hosts
mkdir "$dir/bin"
cat >"$dir/bin/on" <<'ON'
#!/bin/sh
host=$1; shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$host" "$@"
ON
cat >"$dir/bin/plug" <<'PLUG'
#!/bin/sh
# Also called "unplug". A cable that delays, n1aw-n1as, may sit between n1a and the switch.
ip() { nsenter --net=/proc/1/ns/net ip "$@"; }      # in the switch, even when called on a host
silent=''; [ "$1" != -s ] || { silent=1; shift; }
case ${2:-eth0} in eth0) end=$1a switch=sw0 ;; eth1) end=$1b switch=sw1 ;; *) exit 64 ;; esac
port=$end; ! ip link show "${end}s" >/dev/null 2>&1 || port=${end}s
case ${0##*/} in
    plug) ip link set "$end" up; ip link set "$port" master $switch ;;
    *) if [ $silent ]; then ip link set "$port" nomaster; else ip link set "$end" down; fi ;;
esac
PLUG
cp "$dir/bin/plug" "$dir/bin/unplug"
chmod +x "$dir/bin/"*
NETNS_NETEM=0
if tc qdisc add dev lo root netem delay 1ms 2>/dev/null; then NETNS_NETEM=1; tc qdisc del dev lo root; fi
export NETNS=${NETNS# } NETNS_ADDRS=${NETNS_ADDRS# } NETNS_ADDRS2=${NETNS_ADDRS2# } NETNS_NETEM PATH="$dir/bin:$PATH"
[ $verbose = 0 ] || for h in $NETNS; do ip -n "$h" -br addr | sed "s/^/$self: $h: /" >&2; done
set +e
(trap : INT QUIT; trap - INT QUIT HUP TERM; exec "$@") <&0 &
command=$!
wait $command
finish $?

#!/bin/sh
# Installs the worker of deskgrid on this PC, for one grid: the program, its service and account, settings and a token to join by.
# Made by `deskgrid package`. Whoever can read this file can let PCs join.
#
#     sudo sh FILE                 install, or upgrade
#     sudo sh FILE --root DIR      into the root of an image; the PC made from it joins at its first start
#     sudo sh FILE --uninstall     remove everything, with the identity of this PC
set -eu
VERSION=@VERSION@
ARCH=@ARCH@
TEXT_LINES=@LINES@
fail() { printf 'error: %s\ntry: %s\n' "$1" "$2" >&2; exit 1; }

ROOT="" REMOVE=""
while [ $# -gt 0 ]; do
    case $1 in
        --root) [ $# -gt 1 ] && [ -d "$2" ] || fail "--root needs a directory" "sh $0 --root DIR"
            ROOT=$(cd "$2" && pwd) && shift 2 ;;
        --uninstall) REMOVE=yes && shift ;;
        *) fail "there is no option $1" "sh $0, with --root DIR or --uninstall" ;;
    esac
done
[ "$ROOT" != / ] || ROOT=""
[ "$(id -u)" = 0 ] || [ -n "$ROOT" ] || fail "only root can install a service" "sudo sh $0"
[ -n "$ROOT" ] || [ "$(uname -s) $(uname -m)" = "Linux $ARCH" ] || fail "this is for Linux on $ARCH" "make one for this PC: deskgrid package --arch"
for tool in tar xz systemctl; do
    command -v $tool >/dev/null || fail "there is no $tool" "install it, then run this again"
done
packaged() {
    if command -v dpkg >/dev/null && dpkg -S /usr/bin/deskgrid-worker >/dev/null 2>&1; then return 0; fi
    command -v rpm >/dev/null && rpm -qf /usr/bin/deskgrid-worker >/dev/null 2>&1
}
if [ -z "$ROOT" ] && packaged; then
    fail "the worker here is a package of the distribution" "upgrade or remove that package first"
fi
if head -n 1 "$ROOT/etc/systemd/system/deskgrid-worker.service" 2>/dev/null | grep -q '^# Written by `deskgrid worker install`'; then
    fail "the worker here is that of an earlier \`deskgrid worker install\`, whose unit would hide the one of this file" \
        "keep a copy of $ROOT/etc/deskgrid/worker.toml, then remove that first, with its settings, its identity (this PC joins as a new host) and results not yet delivered: sudo $ROOT/usr/local/lib/deskgrid/deskgrid worker uninstall${ROOT:+ --root '$ROOT'} --yes"
fi
live() { [ -z "$ROOT" ] && [ -d /run/systemd/system ]; }

UNPACKED=$(mktemp -d)
trap 'rm -rf "$UNPACKED"' EXIT
umask 022
tail -n +$((TEXT_LINES + 1)) "$0" | tar -xJ -C "$UNPACKED" --no-same-owner --strip-components=1
cd "$UNPACKED"
FILES=$(find lib share -type f)

if [ -n "$REMOVE" ]; then
    if live; then systemctl disable --now deskgrid-worker.service || true
    else rm -f "$ROOT"/etc/systemd/system/*.wants/deskgrid-worker.service; fi
    printf '%s\n' "$FILES" | while read -r file; do rm -f "$ROOT/usr/$file"; done
    rm -rf "$ROOT/usr/bin/deskgrid-worker" "$ROOT/usr/share/doc/deskgrid-worker" "$ROOT/var/lib/deskgrid/worker" \
        "$ROOT/var/lib/deskgrid/join.toml" "$ROOT/etc/deskgrid/join.toml" "$ROOT/etc/deskgrid/join.toml.new" \
        "$ROOT/etc/deskgrid/worker.toml" "$ROOT/etc/deskgrid/worker.toml.before" "$ROOT/etc/deskgrid/worker.toml.site" \
        "$ROOT/etc/deskgrid/worker.unfinished"
    rmdir "$ROOT/var/lib/deskgrid" "$ROOT/etc/deskgrid" 2>/dev/null || true
    if live; then systemctl daemon-reload; fi
    if [ -n "$ROOT" ]; then
        ! grep -qs '^deskgrid:' "$ROOT/etc/passwd" || userdel --prefix "$ROOT" deskgrid || true
    elif getent passwd deskgrid >/dev/null; then
        userdel deskgrid || true
    fi
    echo "the worker is removed"
    exit 0
fi

# Another run changes only what is not the same, and says what that was.
PROGRAM=$ROOT/usr/bin/deskgrid-worker SETTINGS=$ROOT/etc/deskgrid/worker.toml JOIN=$ROOT/etc/deskgrid/join.toml
HAD="" CHANGED="" REPLACED="" JOINED="" TOKEN=""
[ ! -e "$PROGRAM" ] || HAD=yes
# A run that did not come to its end is made up for: of a first one nobody has disabled anything, and another one owes a restart.
UNFINISHED=$ROOT/etc/deskgrid/worker.unfinished
case $(cat "$UNFINISHED" 2>/dev/null || true) in
    first) HAD="" ;;
    upgrade) CHANGED=yes ;;
esac
# Who has disabled the service that was here, or masked any, goes before this file.
OFF=""
case $(systemctl ${ROOT:+--root "$ROOT"} is-enabled deskgrid-worker.service 2>/dev/null || true) in
    disabled) OFF=$HAD ;;
    masked*) OFF=yes ;;
esac
[ ! -e "$ROOT/var/lib/deskgrid/worker/identity/link.toml" ] || JOINED=yes
put() { # FILE PLACE MODE: put in place at once, since the old one may be in use
    ! cmp -s "$1" "$2" || return 0
    mkdir -p "$(dirname "$2")"
    cp "$1" "$2.new"
    chmod "$3" "$2.new"
    mv -f "$2.new" "$2"
    CHANGED=yes
}
mkdir -p "$ROOT/etc/deskgrid"
if [ -n "$HAD" ]; then echo upgrade; else echo first; fi >"$UNFINISHED.new"
mv -f "$UNFINISHED.new" "$UNFINISHED"
put deskgrid-worker "$PROGRAM" 755
for file in $FILES; do put "$file" "$ROOT/usr/$file" 644; done

# The site's settings. What somebody else has written there is kept aside, and not what an earlier file like this one brought.
cat >settings <<'END_OF_SETTINGS'
@SETTINGS@
END_OF_SETTINGS
if [ -n "$(tr -d ' \n' <settings)" ]; then
    if ! cmp -s settings "$SETTINGS"; then
        if grep -qs '^[^#]' "$SETTINGS" && ! cmp -s "$SETTINGS" "$SETTINGS.site"; then
            cp -p "$SETTINGS" "$SETTINGS.before"
            REPLACED=yes
        fi
        cp settings "$SETTINGS"
        CHANGED=yes
    fi
    cp settings "$SETTINGS.site"
fi
[ -e "$SETTINGS" ] || : >"$SETTINGS"

# The token: for root alone from its first byte on. A PC that has joined needs none.
if [ -z "$JOINED" ]; then
    (umask 077; cat >"$JOIN.new" <<'END_OF_JOIN'
@JOIN@
END_OF_JOIN
    )
    cmp -s "$JOIN.new" "$JOIN" || TOKEN=yes
    mv -f "$JOIN.new" "$JOIN"
fi

told() { # WHEN: what was done, and when the PC joins
    rm -f "$UNFINISHED"
    if [ -n "$HAD" ] && [ -z "$CHANGED" ]; then
        what="nothing was changed"
        [ -z "$TOKEN" ] || what="only the token was replaced"
        echo "deskgrid-worker $VERSION was installed${ROOT:+ in $ROOT} before, as it is here: $what"
    else
        echo "deskgrid-worker $VERSION is installed${ROOT:+ in $ROOT}${HAD:+, over the one before}"
    fi
    [ -z "$REPLACED" ] || echo "the settings in $SETTINGS were others: these are in $SETTINGS.before now"
    if [ -n "$OFF" ]; then
        echo "somebody has disabled its service, and that stays so: to take it back, as root: systemctl unmask deskgrid-worker; systemctl enable --now deskgrid-worker"
    elif [ -n "$JOINED" ]; then
        echo "this PC has joined before, and goes on with that: the token in this file was not used"
    else
        echo "$1"
    fi
}
if [ -n "$ROOT" ]; then
    # A PC that has started before looks for new accounts only where its /usr is newer than its last look.
    systemd-sysusers --root="$ROOT" deskgrid-worker.conf || touch "$ROOT/usr"
    [ -n "$OFF" ] || systemctl --root "$ROOT" enable deskgrid-worker.service
    told "the PC joins at its first start"
    exit 0
fi
systemd-sysusers deskgrid-worker.conf
if ! live; then
    [ -n "$OFF" ] || systemctl enable deskgrid-worker.service
    told "it joins at the next start of this PC"
    exit 0
fi
systemctl daemon-reload
[ -n "$OFF" ] || systemctl enable deskgrid-worker.service
# One that runs as it should goes on with its tasks. One that has not joined yet takes the new token as it starts.
if [ -n "$OFF" ]; then [ -z "$CHANGED" ] || systemctl try-restart deskgrid-worker.service || true
elif [ -n "$CHANGED" ] || [ -z "$JOINED" ]; then systemctl restart deskgrid-worker.service
else systemctl start deskgrid-worker.service; fi
told "\`journalctl -u deskgrid-worker\` says when this PC has joined"
exit 0

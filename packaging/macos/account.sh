#!/bin/sh
# Makes the account of the worker on a Mac, unless it is there: nobody can log on with it, and it has no home. For root.
set -eu
NAME=_deskgrid
if dscl . -read "/Users/$NAME" UniqueID >/dev/null 2>&1; then exit 0; fi

taken=$({ dscl . -list /Users UniqueID; dscl . -list /Groups PrimaryGroupID; } | awk '{ print $NF }')
id=300
while echo "$taken" | grep -qx "$id"; do
    id=$((id + 1))
    [ "$id" -lt 400 ] || { echo "error: no number between 300 and 399 is free for the account $NAME: make it by hand" >&2; exit 1; }
done

dscl . -create "/Groups/$NAME"
dscl . -create "/Groups/$NAME" PrimaryGroupID "$id"
dscl . -create "/Groups/$NAME" Password '*'
dscl . -create "/Users/$NAME"
dscl . -create "/Users/$NAME" UniqueID "$id"
dscl . -create "/Users/$NAME" PrimaryGroupID "$id"
dscl . -create "/Users/$NAME" UserShell /usr/bin/false
dscl . -create "/Users/$NAME" NFSHomeDirectory /var/empty
dscl . -create "/Users/$NAME" RealName 'deskgrid worker'
dscl . -create "/Users/$NAME" Password '*'
dscl . -create "/Users/$NAME" IsHidden 1

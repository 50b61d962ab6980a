#!/usr/bin/env bash
# Prints where Giveway's cache is, if nobody but root and the user can put something there; else one
# line and exit code 3. The rule of testbed/cache.py: scripts install what they find in the cache.
set -euo pipefail

instead='set GIVEWAY_CACHE to a folder of your own'
refuse() { printf 'giveway: %s\n' "$*" >&2; exit 3; }

place=${GIVEWAY_CACHE:-'~'/.cache/giveway}
case $place in
    '~' | '~/'*)
        home=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
        [ -n "$home" ] || refuse "$place: there is no such home folder: $instead"
        place=$home${place#'~'}
        ;;
    '~'*)
        user=${place%%/*}
        home=$(getent passwd "${user#'~'}" | cut -d: -f6) || true
        [ -n "$home" ] || refuse "$place: there is no such home folder: $instead"
        place=$home${place#"$user"}
        ;;
esac
[[ $place == /* ]] || place=$PWD/$place
while [[ $place == */ && $place != / ]]; do place=${place%/}; done

# A group is the user's private one if it has the user's name and nobody else in it.
only_ours() {
    local me entry
    me=$(id -un) entry=$(getent group "$1") || return 1
    [[ ${entry%%:*} == "$me" && ( ${entry##*:} == '' || ${entry##*:} == "$me" ) ]]
}

check() {
    local owner group mode
    read -r owner group mode < <(stat -c '%u %g %f' -- "$1" 2> /dev/null) || return 0 # not there yet
    mode=$((16#$mode))
    [[ $owner == 0 || $owner == "$(id -u)" ]] ||
        refuse "$place: $1 belongs to $(id -un "$owner" 2> /dev/null || echo "user $owner"), who could" \
            "have put there whatever would be started from it: $instead"
    [ -L "$1" ] && return
    if ((mode & 8#2)) || { ((mode & 8#20)) && ! only_ours "$group"; }; then
        [ "$2" = way ] && ((mode & 8#1000)) && return # sticky
        refuse "$place: others may write to $1, so what would be started from it may be theirs:" \
            "look at what is there, then \`chmod go-w $1\`, or $instead"
    fi
}

# Every folder and link that the kernel passes on its way there.
at='' left=$place links=0
check / way
while [ -n "$left" ]; do
    left=${left#/} part=${left%%/*}
    if [[ $left == */* ]]; then left=${left#*/}; else left=''; fi
    case $part in '' | .) continue ;; ..) at=${at%/*}; continue ;; esac
    check "$at/$part" way
    if [ ! -L "$at/$part" ]; then
        at=$at/$part
        continue
    fi
    links=$((links + 1))
    [ "$links" -le 40 ] || refuse "$place: its links lead in a circle: $instead"
    target=$(readlink -- "$at/$part")
    [[ $target == /* ]] && at=''
    left=$target/$left
done
check "$(realpath -m -- "$place")" end
printf '%s\n' "$place"

#!/bin/sh
# A worker with nothing but curl: leases batches of a dataset, writes a line per record, acknowledges.
# Usage: worker.sh FOLDER [RECORDS [BATCH [SECONDS_PER_BATCH]]]
set -eu
folder=$1 records=${2:-1000} batch=${3:-10} seconds=${4:-0}
who="\"worker\":\"${FLEXOR_WORKER:-sh-$$}\",\"incarnation\":${FLEXOR_INCARNATION:-0}"
post() { # PATH JSON; while the master is away it is asked again
    curl -sS --retry 60 --retry-delay 1 --retry-all-errors -H 'Content-Type: application/json' \
        ${FLEXOR_TOKEN_FILE:+-H "Authorization: Bearer $(cat "$FLEXOR_TOKEN_FILE")"} \
        -d "$2" "http://${FLEXOR_MASTER:-127.0.0.1:50001}/api/$1"
}
number() { printf %s "$1" | sed -n "s/.*\"$2\":\([0-9]*\).*/\1/p"; }

mkdir -p "$folder"
answer=$(post datasets "{\"name\":\"numbers\",\"records\":$records,\"batch\":$batch,\"shuffle\":\"batches\"}")
case $answer in *'"totals":'*) ;; *) echo "$answer" >&2 && exit 1 ;; esac
while answer=$(post datasets/numbers/lease "{$who,\"holds\":[],\"waitMs\":5000}"); do
    case $answer in
        *'"batches":'*) ;;
        *'"wait":'*) continue ;; # others hold the rest
        *'"finished":true'*) exit 0 ;;
        *) echo "$answer" >&2 && exit 1 ;;
    esac
    one=$(printf %s "$answer" | sed 's/.*"batches":\[{\([^}]*\)}\].*/\1/') # the records of the batch
    lease=$(printf %s "$answer" | sed 's/"batches":\[[^]]*\]//')           # what to acknowledge it with
    sleep "$seconds" # the work
    seq "$(number "$one" first)" $(($(number "$one" first) + $(number "$one" count) - 1)) >>"$folder/${RANK:-0}.txt"
    post datasets/numbers/acknowledge "{$who,\"lease\":$(number "$lease" lease),\"first\":$(number "$lease" first)}"
done >/dev/null # what the master says to an acknowledgement; a refusal means that others have the batch
exit 1

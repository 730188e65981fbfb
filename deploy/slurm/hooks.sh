# Shared by prolog-slurmctld.sh and epilog-slurmctld.sh, which source it from their own folder.
# shellcheck shell=sh disable=SC2034  # what is set here is used there

conf=${SLURM_POD_SCHEDULER_HOOKS_CONF:-/etc/slurm/slurm-pod-scheduler-hooks.conf}
URL='' TOKEN_FILE='' CA_FILE='' POLICY=open WAIT_SECONDS=300 UNREACHABLE_SECONDS=30
status='' text=''
newline='
'

# Reads the settings. Fails if they name no scheduler, or if it cannot be asked. That is said, unless
# the file is not there at all, because this is how a site switches the hooks off.
configured() {
    [ -e "$conf" ] || return 1
    [ -r "$conf" ] || { say "$conf cannot be read"; return 1; }
    trap 'say "$conf cannot be used: expected lines of shell"' EXIT
    # shellcheck disable=SC1090
    . "$conf"
    trap - EXIT
    [ -n "$URL" ] || { say "$conf: URL is empty"; return 1; }
    command -v curl >/dev/null || { say "curl is not there"; return 1; }
    [ -r "$TOKEN_FILE" ] || { say "TOKEN_FILE $TOKEN_FILE cannot be read"; return 1; }
    is_seconds WAIT_SECONDS "$WAIT_SECONDS" 300 || WAIT_SECONDS=300
    is_seconds UNREACHABLE_SECONDS "$UNREACHABLE_SECONDS" 30 || UNREACHABLE_SECONDS=30
    case $POLICY in
    open) ;;
    drain) command -v scontrol >/dev/null || say "scontrol is not there: set PATH in $conf" ;;
    *)
        say "POLICY is '$POLICY': expected open or drain; open counts"
        POLICY=open
        ;;
    esac
}

# A shell ends at a number that it cannot read, and the guard would end with it.
is_seconds() {
    case $2 in
    '' | 0* | *[!0-9]* | ??????*)
        say "$1 is '$2': expected whole seconds from 1 to 99999; $3 counts"
        return 1
        ;;
    esac
}

# A syslog daemon that hangs would hold each job for ever.
say() {
    timeout 2 logger -t slurm-pod-scheduler "${0##*/}: job ${SLURM_JOB_ID:-?}: $*" 2>/dev/null ||
        printf '%s\n' "slurm-pod-scheduler: $*" >&2
}

# post URL SECONDS [NAME=VALUE]...: sets `status` (000 without an answer) and `text`, the first line
# of the answer: curl prints several lines about a wrong certificate. The token goes through a pipe,
# because everybody on this host can see arguments. It is no here-document: bash before 5.1 writes
# those to a file in /tmp, where the token may stay, and starts no curl if that fails.
#
# curl reads no .curlrc, because a home folder on a server that hangs would hold each job for ever.
# Of the answer only so much is read as a scheduler may say: another program may answer without end,
# and a shell takes minutes for a text of a megabyte.
post() {
    url=$1 seconds=$2
    shift 2
    for field; do
        set -- "$@" --data-urlencode "$field"
        shift
    done
    IFS= read -r token <"$TOKEN_FILE" || [ -n "$token" ] || token=''
    [ -z "$CA_FILE" ] || set -- --cacert "$CA_FILE" "$@"
    text=$(
        printf 'Authorization: Bearer %s\n' "$token" |
            curl --disable --silent --show-error --noproxy '*' --connect-timeout 5 \
                --max-time "$seconds" --header @- --write-out '\n%{http_code}' "$@" "$url" 2>&1 |
            head -c 16384
    )
    status=${text##*"$newline"}
    text=${text%%"$newline"*}
}

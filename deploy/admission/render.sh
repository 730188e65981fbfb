#!/bin/sh
# Prints the admission policies with a site's own settings, for `kubectl apply -f -`:
#
#   sh deploy/admission/render.sh scheduler-name=tenant-slurm-scheduler slurm-kill-wait=60s
#
# Keys are flags of the scheduler, which must have the same values there (docs/settings.md), and
# three more. scheduler-user is the user that writes the scheduler's records. scheduler-account is
# the user as which the scheduler authenticates. tolerate has the keys of the taints that its pods
# shall tolerate. Several values are joined by commas. FILES replaces the five manifests by others.
set -eu
files=${FILES:-}
if [ -z "$files" ]; then  # by their names alone, because the path may have blanks
  CDPATH='' cd -- "$(dirname -- "$0")"
  files="account.yaml mutating.yaml records.yaml resize.yaml validating.yaml"
fi
newline='
'
script=
for setting in "$@"; do
  key=${setting%%=*}
  case $setting in
    *"'"* | *'|'* | *\\* | *'&'*) echo "render.sh: $setting: expected no quotes, |, & or \\" >&2; exit 2 ;;
    *"$newline"*) echo "render.sh: $setting: expected one line" >&2; exit 2 ;;
    *=*) ;;
    *) echo "render.sh: $setting: expected KEY=VALUE" >&2; exit 2 ;;
  esac
  # The API server, too, reads these, and it wants a unit.
  value=${setting#*=}
  case $key in
    '' | *[!a-z-]*) key="'$key'" ;;  # so that it matches no setting, and is no pattern
    scheduler-name | scheduler-user | scheduler-account)
      [ -n "$value" ] || { echo "render.sh: $setting: expected a name" >&2; exit 2; } ;;
    grace-policy)
      case $value in
        strict | auto | guarded) ;;
        *) echo "render.sh: $setting: expected strict, auto or guarded" >&2; exit 2 ;;
      esac ;;
    slurm-kill-wait | termination-offset)
      printf '%s\n' "$value" | grep -Eqx '[0-9]+(\.[0-9]+)?|([0-9]+(\.[0-9]+)?(ms|s|m|h))+' || {
        echo "render.sh: $setting: expected a duration such as 30s, 500ms or 1m30s" >&2
        exit 2
      }
      case $value in *[0-9]) value=${value}s ;; esac ;;
  esac
  # shellcheck disable=SC2086
  grep -q "'$key': '" $files || {
    echo "render.sh: $key is no setting of the policies; expected one of" \
      "$(sed -n "s/^ *'\\([a-z-]*\\)': '.*/\\1/p" $files | sort -u | tr '\n' ' ')" >&2
    exit 2
  }
  script="$script;s|'$key': '[^']*'|'$key': '$value'|"
done
for file in $files; do
  echo "---"
  sed -e "${script#;}" "$file"
done

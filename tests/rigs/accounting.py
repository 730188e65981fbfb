"""slurmdbd and the MariaDB under it, for a rig whose Slurm knows accounts and QoS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

# slurmdbd runs as this user; so does its MariaDB, which lets in whom the kernel says it is.
OWNER: Final = "slurm"
# Made when the chroot is, for it takes 3 s; an instance starts from a copy.
EMPTY_DATABASE: Final = "/var/lib/rig-database"
_INNODB: Final = "--innodb-log-file-size=4M"
# The places where Debian's two releases have the server's socket, which slurmdbd looks for.
RUN_DIRECTORIES: Final = ("/run/mysqld", "/run/mariadbd", "/run/slurmdbd")

_NAME: Final = "slurm_accounting"

# For the making of a chroot, with its directory as $1. The packages' own database is not used. In
# MariaDB a database is a folder; it is there because a slurmdbd that has to create it dies with
# libmariadb 3.4.10 (sid: a second connect by the same handle then allows results of 0 columns).
CUSTOMIZE: Final = (
    f'chroot "$1" install -d -o {OWNER} -g {OWNER} {EMPTY_DATABASE}',
    f'chroot "$1" mariadb-install-db --user={OWNER} --datadir={EMPTY_DATABASE} {_INNODB} '
    f"--auth-root-socket-user={OWNER} --skip-test-db",
    f'chroot "$1" install -d -o {OWNER} -g {OWNER} {EMPTY_DATABASE}/{_NAME}',
    'rm -rf "$1/var/lib/mysql" "$1/var/lib/mariadb"',
)

MARIADBD: Final = (
    "mariadbd",
    "--no-defaults",
    "--datadir=/rig/database",
    "--skip-networking",
    _INNODB,
    "--innodb-buffer-pool-size=32M",
    # With it on, slurmdbd ends at a conflict of two writes (its own warning on 26.05).
    "--innodb-snapshot-isolation=OFF",
    # The data outlives a process here, never the machine.
    "--innodb-flush-log-at-trx-commit=0",
)


def slurmdbd_conf(*, port: int) -> str:
    """The text of slurmdbd.conf."""
    return f"""\
AuthType=auth/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
DbdHost=rig
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={OWNER}
LogFile=/rig/log/slurmdbd.log
PidFile=/rig/state/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser={OWNER}
StorageLoc={_NAME}
"""


def accounting_conf(*, port: int) -> str:
    """What slurm.conf says of it."""
    return f"""\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStorageEnforce=associations,limits,qos
AccountingStoreFlags=job_comment
AccountingStorageTRES=gres/gpu
"""


def first_accounts(cluster: str, *, users: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """What sacctmgr is told at the start: root has the account root, the users have `staff`."""
    yield "add", "cluster", cluster
    yield "add", "account", "staff"
    yield "add", "user", ",".join(users), "account=staff"

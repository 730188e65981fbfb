"""slurmdbd and the MariaDB under it, for a rig whose Slurm knows accounts and QoS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

# slurmdbd and MariaDB run as this user. MariaDB authenticates it by its uid on the unix socket.
OWNER: Final = "slurm"
# Made with the chroot, because it takes 3 s; each instance starts from a copy.
EMPTY_DATABASE: Final = "/var/lib/rig-database"
_INNODB: Final = "--innodb-log-file-size=4M"
# Where the packages of Debian's two releases expect the socket of the server.
RUN_DIRECTORIES: Final = ("/run/mysqld", "/run/mariadbd", "/run/slurmdbd")

_NAME: Final = "slurm_accounting"

# Runs when a chroot is made, with its directory as $1. The packages' own database is not used. In
# MariaDB a database is a folder. It is made here, because slurmdbd crashes with libmariadb 3.4.10
# if it has to create it (sid: after a second connect, results of 0 columns are allowed).
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
    # With it on, slurmdbd exits at a conflict of two writes (it warns of this on 26.05).
    "--innodb-snapshot-isolation=OFF",
    # The data need not survive a crash of the machine.
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
    """The lines of slurm.conf about accounting."""
    return f"""\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStorageEnforce=associations,limits,qos
AccountingStoreFlags=job_comment
AccountingStorageTRES=gres/gpu
"""


def first_accounts(cluster: str, *, users: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Arguments of sacctmgr at the start: root gets the account root, the users get `staff`."""
    yield "add", "cluster", cluster
    yield "add", "account", "staff"
    yield "add", "user", ",".join(users), "account=staff"

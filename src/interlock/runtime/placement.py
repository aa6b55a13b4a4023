"""Which rank of a process group sits on which server."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.runtime.peers import gather_bytes
from interlock.topology import Cluster

if TYPE_CHECKING:
    import torch.distributed as dist

__all__ = ["GroupPlacement", "find_hosts", "group_or_default"]


def group_or_default(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    """The group, or the default one."""
    import torch.distributed as dist

    chosen = dist.group.WORLD if group is None else group
    if chosen is None:
        raise InvalidInput("there is no default process group; call torch.distributed.init_process_group first")
    return chosen


@dataclass(frozen=True, slots=True)
class GroupPlacement:
    """Ranks of a group and the cluster's ranks they play. Cluster ranks without a member stay empty."""

    server_of: tuple[int, ...]  # by rank of the group
    rank_of: tuple[int, ...]  # cluster rank, by rank of the group
    num_places: int  # ranks of the cluster

    @classmethod
    def in_order(cls, num_ranks: int, ranks_per_server: int) -> GroupPlacement:
        """Ranks server by server, every server full."""
        if num_ranks % ranks_per_server:
            raise InvalidInput(
                f"the group has {num_ranks} ranks, which is not a multiple of {ranks_per_server} per server; "
                "name the server of each rank, or start the same number on every server"
            )
        ranks = range(num_ranks)
        return cls(tuple(rank // ranks_per_server for rank in ranks), tuple(ranks), num_ranks)

    @classmethod
    def by_host(cls, hosts: Sequence[str]) -> GroupPlacement:
        """Ranks that name the same host share a server; servers are numbered by their first rank."""
        server_by_host = {host: server for server, host in enumerate(dict.fromkeys(hosts))}
        server_of = [server_by_host[host] for host in hosts]
        width = max(np.bincount(server_of).tolist())
        seen = [0] * len(server_by_host)
        rank_of = []
        for server in server_of:
            rank_of.append(server * width + seen[server])
            seen[server] += 1
        return cls(tuple(server_of), tuple(rank_of), len(server_by_host) * width)

    @property
    def ranks_per_server(self) -> int:
        """Of the fullest server."""
        return self.num_places // (max(self.server_of) + 1)

    @property
    def group_rank(self) -> list[int]:
        """Rank of the group by cluster rank; empty places name rank 0 and are never used."""
        made = [0] * self.num_places
        for member, rank in enumerate(self.rank_of):
            made[rank] = member
        return made

    @property
    def empty(self) -> list[int]:
        """Cluster ranks that no member plays."""
        return sorted(set(range(self.num_places)) - set(self.rank_of))

    def to_cluster_order(self, bytes_matrix: NDArray[np.int64]) -> NDArray[np.int64]:
        """A matrix by ranks of the group as a matrix by ranks of the cluster."""
        if self.rank_of == tuple(range(self.num_places)):
            return bytes_matrix
        made = np.zeros((self.num_places, self.num_places), np.int64)
        made[np.ix_(self.rank_of, self.rank_of)] = bytes_matrix
        return made

    def check_cluster(self, cluster: Cluster) -> None:
        """Raise unless the cluster has this shape."""
        servers = max(self.server_of) + 1
        if (cluster.servers, cluster.gpus_per_server) != (servers, self.ranks_per_server):
            raise InvalidInput(
                f"the cluster is {cluster.servers} servers x {cluster.gpus_per_server} GPUs, but the group runs on "
                f"{servers} x {self.ranks_per_server}; they must match"
            )


def find_hosts(group: dist.ProcessGroup) -> list[str]:
    """The host of every rank of the group; ranks that share a LOCAL_RANK never share a host."""
    mine = (os.environ.get("INTERLOCK_HOST") or socket.gethostname(), os.environ.get("LOCAL_RANK"))
    told: list[tuple[str, str | None]] = [json.loads(one) for one in gather_bytes(group, json.dumps(mine).encode())]
    seen: dict[tuple[str, str | None], int] = {}
    hosts = []
    for host, local_rank in told:
        # Two ranks with one name and one LOCAL_RANK are on machines that happen to be called the same.
        copy = seen.get((host, local_rank), 0) if local_rank is not None else 0
        seen[host, local_rank] = copy + 1
        hosts.append(f"{host}#{copy}")
    return hosts

"""Machines and networks of other tools: what is understood, what is guessed, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.interchange.identify import identify

import interlock as il
from interlock.interchange import import_topology

# Cluster shape: servers' GPUs, NICs, scale-up kind and GB/s, NICs per GPU, Gb/s of a GPU's port.
SERVERS = {
    "nccl_topo_hgx_h100_8gpu_8nic.xml": (8, 8, "switch", 370.8, 1, 400.0),
    "ncv4-topo.xml": (4, 1, "switch", 240.0, 1, 25.0),
    "ndv4-topo.xml": (8, 8, "switch", 240.0, 1, 200.0),
    "ndv5-topo.xml": (8, 8, "switch", 370.8, 1, 400.0),
    "nvidia_smi_topo_m_hgx_h100.txt": (8, 8, "switch", 370.8, 1, 400.0),
    "p4d-24xl-topo.xml": (8, 4, "switch", 240.0, 1, 50.0),
    "p5.48xl-topo.xml": (8, 32, "switch", 370.8, 4, 400.0),
    "rccl_topo_4p3l.xml": (4, 1, "mesh", 72.0, 1, 2.5),
    "rccl_topo_8p_940.xml": (8, 8, "mesh", 336.0, 1, 400.0),
    "rccl_topo_8p_pcie.xml": (8, 1, "switch", 24.0, 1, 12.5),
}
GRAPHS = {
    "rccl_topo_16p1h.xml": (16, 120),
    "rccl_topo_8p1h.xml": (8, 56),
    "rccl_topo_8p_rome_4nics.xml": (8, 56),
    "rccl_topo_collnet_n4.xml": (8, 56),
}


@pytest.mark.parametrize("name", SERVERS)
def test_real_servers_become_clusters(name: str, shared_data: Path) -> None:
    gpus, nics, scale_up, rate, per_gpu, port = SERVERS[name]
    found = import_topology([shared_data / "nccl_topo" / name], servers=2)
    assert found.cluster is not None
    assert (len(found.servers[0].gpus), len(found.servers[0].nics)) == (gpus, nics)
    assert found.cluster.scale_up == scale_up and found.cluster.nics_per_gpu == per_gpu
    assert found.cluster.scale_up_bandwidth_bytes_per_s == pytest.approx(rate * 1e9)
    assert found.cluster.nic_bandwidth_bytes_per_s == pytest.approx(np.full(2 * gpus, port * 1e9 / 8))
    assert all(found.servers[0].nics_of_gpu)
    traffic = il.traffic.uniform(found.cluster, "1 MB")
    assert il.plan(found.cluster, traffic, "direct").certificate().valid


@pytest.mark.parametrize("name", GRAPHS)
def test_real_servers_of_uneven_links_become_graphs(name: str, shared_data: Path) -> None:
    ranks, links = GRAPHS[name]
    found = import_topology([shared_data / "nccl_topo" / name])
    assert found.cluster is None and (found.topology.num_ranks, found.topology.num_links) == (ranks, links)
    assert il.synthesize(found.topology, il.all_gather("1 MB"), "direct").certificate().valid


def test_every_shared_file_is_read(shared_data: Path) -> None:
    files = [file for file in sorted(shared_data.rglob("*")) if file.is_file()]
    assert len(files) >= 50
    assert all(identify(file) for file in files)


def test_affinity_is_the_nearest_nic(shared_data: Path) -> None:
    h100 = import_topology([shared_data / "nccl_topo/nccl_topo_hgx_h100_8gpu_8nic.xml"])
    smi = import_topology([shared_data / "nccl_topo/nvidia_smi_topo_m_hgx_h100.txt"])
    for found in (h100, smi):
        server = found.servers[0]
        assert [[server.nics[p.nic].name for p in parts] for parts in server.nics_of_gpu] == [
            [f"mlx5_{k}"] for k in range(8)
        ]


def gpu(dev: int, busid: str, links: str = "", sm: int = 90) -> str:
    """A GPU behind its PCI device."""
    return (
        f'<pci busid="{busid}" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">'
        f'<gpu dev="{dev}" sm="{sm}" rank="{dev}" gdr="1">{links}</gpu></pci>'
    )


def net(name: str, speed: str = "400000", extra: str = "") -> str:
    """A NIC behind its PCI device."""
    return f'<pci busid="{name}" class="0x020000"><nic><net name="{name}" dev="0" speed="{speed}" {extra}/></nic></pci>'


def system(tmp_path: Path, *cpus: str, name: str = "a.xml") -> Path:
    text = "".join(f'<cpu numaid="{k}">{cpu}</cpu>' for k, cpu in enumerate(cpus))
    (tmp_path / name).write_text(f'<system version="1"><!-- a comment -->{text}</system>')
    return tmp_path / name


def test_hidden_switches_of_virtual_machines_are_switches(tmp_path: Path) -> None:
    hidden = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
    file = system(tmp_path, gpu(0, "0:1:0.0", hidden) + gpu(1, "0:2:0.0", hidden) + net("n0") + net("n1"))
    found = import_topology([file])
    assert found.cluster is not None and found.cluster.scale_up_bandwidth_bytes_per_s == pytest.approx(18 * 20.6e9)


def test_direct_links_between_pairs_become_a_mesh(tmp_path: Path) -> None:
    def to(busid: str) -> str:
        return f'<nvlink target="{busid}" count="4" tclass="0x030200"/>'

    file = system(tmp_path, gpu(0, "0:1:0.0", to("0:2:0.0"), 80) + gpu(1, "0:2:0.0", to("0:1:0.0"), 80))
    found = import_topology([file])
    assert found.cluster is not None and found.cluster.scale_up == "mesh"
    assert found.cluster.scale_up_bandwidth_bytes_per_s == pytest.approx(80e9)


@pytest.mark.parametrize(
    ("speed", "gbit"), [("0", 10), ("-1", 10), ("", 10), ("fast", 10), ("200000", 200), ("1e5", 100)]
)
def test_odd_speeds_fall_back_as_nccl_does_and_are_listed(speed: str, gbit: float, tmp_path: Path) -> None:
    link = '<nvlink target="x" count="18" tclass="0x068000"/>'
    found = import_topology([system(tmp_path, gpu(0, "0:1:0.0", link) + net("n0", speed))], servers=2)
    assert found.cluster is not None
    assert found.cluster.nic_bandwidth_bytes_per_s.tolist() == pytest.approx([gbit * 1e9 / 8] * 2)
    assert any("counted as 10 Gb/s" in text for text in found.guesses) == (gbit == 10)


def test_several_files_are_several_servers_and_differences_become_faults(tmp_path: Path) -> None:
    link = '<nvlink target="s" count="18" tclass="0x068000"/>'
    whole = system(tmp_path, *(gpu(k, f"0:{k}:0.0", link) + net(f"n{k}") for k in range(2)), name="a.xml")
    slow = system(
        tmp_path,
        *(gpu(k, f"0:{k}:0.0", link) + net(f"n{k}", "400000" if k else "200000") for k in range(2)),
        name="b.xml",
    )
    half = system(tmp_path, gpu(0, "0:0:0.0", link) + net("n0"), name="c.xml")
    found = import_topology([whole, slow, half, whole])
    assert found.cluster is not None and found.cluster.servers == 4
    port = found.cluster.nic_bandwidth_bytes_per_s.reshape(4, 2) * 8 / 1e9
    assert port.tolist() == [[400, 400], [200, 400], [400, 0], [400, 400]]
    assert found.cluster.present.tolist() == [True] * 5 + [False] + [True] * 2


def test_rails_come_from_their_numbers(tmp_path: Path) -> None:
    link = '<nvlink target="s" count="18" tclass="0x068000"/>'
    file = system(tmp_path, *(gpu(k, f"0:{k}:0.0", link) + net(f"n{k}", extra=f'rail="{k}"') for k in range(2)))
    found = import_topology([file], servers=2)
    assert found.cluster is not None and found.cluster.scale_out == "rail-spine"
    assert any("`rail` numbers" in text for text in found.guesses)


def test_hosts_of_one_dump_are_one_nvlink_domain(tmp_path: Path) -> None:
    link = '<nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>'
    text = "".join(
        f'<cpu numaid="0" host_hash="0x{host}">{gpu(host, f"{host}:1:0.0", link)}{net(f"n{host}")}</cpu>'
        for host in (1, 2)
    )
    (tmp_path / "a.xml").write_text(f'<system version="1">{text}</system>')
    found = import_topology([tmp_path / "a.xml"])
    assert found.cluster is not None and (found.cluster.servers, found.cluster.gpus_per_server) == (1, 2)
    assert [[found.servers[0].nics[p.nic].name for p in parts] for parts in found.servers[0].nics_of_gpu] == [
        ["n1"],
        ["n2"],
    ]
    assert any("one NVLink domain of 2 GPUs" in text for text in found.guesses)


REFUSED = {
    "<graphs version='1'/>": "holds NCCL's graphs",
    "<algo/>": "not <system>",
    "<system/>": "names no GPU",
    "<system><cpu><pci class='0x030200' busid='1'/><pci class='0x030200' busid='1'/></cpu></system>": "given twice",
    "<system><cpu><gpu dev='0'/><gpu dev='0'/></cpu></system>": "is given on line 1 and on line 1",
    "<system><cpu><gpu dev='0'><nvlink target='x' count='many'/></gpu></cpu></system>": "is not a number of links",
    "<!DOCTYPE a [<!ENTITY b 'c'>]><system>&b;</system>": "document types are not read",
    "<system>" + "<cpu>" * 100: "nested more than 64 deep",
    "GPU0 GPU1\nGPU0 X NV1\nGPU0 X NV1\n": "row GPU0 is given twice",
    "GPU0 GPU1\nGPU0 X\nGPU1 X\n": "row GPU0 has 1 entries",
    "topology: [ Ring ]\nnpus_count: [ 4, 4 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]": "one entry per dimension",
    "topology: [ Klein ]\nnpus_count: [ 4 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]": "is not Ring",
    "topology: [ Ring ]\nnpus_count: [ -4 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]": "npus_count '-4'",
    "topology: [ Ring ]\ntopology: [ Ring ]": "topology is given twice",
    "hello": "is no topology",
    "": "is no topology",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_topology_is_refused_with_the_reason(text: str, tmp_path: Path) -> None:
    ending = ".yml" if text.startswith("topology") else ".txt"
    (tmp_path / f"a{ending}").write_text(text)
    with pytest.raises(il.InvalidInput, match=REFUSED[text]):
        import_topology([tmp_path / f"a{ending}"])


SMI = """\x1b[4m\tGPU0\tGPU1\tGPU2\tGPU3\tmlx5_0\tmlx5_1\tCPU Affinity\tNUMA Affinity\x1b[0m
GPU0\t X \tNV4\tNV4\tNV4\tPIX\tSYS\t0-31\t0
GPU1\tNV4\t X \tNV4\tNV4\tPXB\tSYS\t0-31\t0
GPU2\tNV4\tNV4\t X \tNV4\tSYS\tPIX
\t32-63\t1
GPU3\tNV4\tNV4\tNV4\t X
\tSYS\tPHB\t32-63\t1
mlx5_0\tPIX\tPXB\tSYS\tSYS\t X \tSYS
mlx5_1\tSYS\tSYS\tPIX\tPHB\tSYS\t X

Legend:
  X    = Self
"""


def test_smi_matrices_with_colours_wraps_and_old_names_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(SMI)
    found = import_topology([tmp_path / "a.txt"])
    server = found.servers[0]
    assert found.cluster is not None and found.cluster.scale_up == "mesh"
    names = [[(server.nics[p.nic].name, p.distance.name) for p in parts] for parts in server.nics_of_gpu]
    assert names == [[("mlx5_0", "PIX")], [("mlx5_0", "PXB")], [("mlx5_1", "PIX")], [("mlx5_1", "PHB")]]


def test_networks_of_astra_sim_keep_their_units_and_order(tmp_path: Path) -> None:
    text = "topology: [ Ring, Switch ]  # first\nnpus_count: [ 2, 3 ]\nbandwidth: [ 100.0, 50 ]\nlatency: [ 500, 9 ]\n"
    (tmp_path / "a.yml").write_text(text)
    graph = import_topology([tmp_path / "a.yml"]).topology
    assert graph.num_ranks == 6
    direct = {(int(a), int(b)) for a, b in zip(graph.link_src, graph.link_dst, strict=True) if a < 6 and b < 6}
    assert direct == {(0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4)}
    assert set(graph.bandwidth_bytes_per_s.tolist()) == {100 * 2**30, 50 * 2**30}
    older = '{"topologies-per-dim": ["Ring"], "units-count": [4], "link-bandwidth": [25], "link-latency": [100]}'
    (tmp_path / "a.json").write_text(older)
    assert import_topology([tmp_path / "a.json"]).topology.num_links == 8

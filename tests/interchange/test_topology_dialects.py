"""Files of servers as they are found in the field: providers, virtual machines, older drivers, reports around them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from interlock.interchange import import_topology
from interlock.interchange.machines.join import ImportedTopology
from interlock.interchange.machines.server import Distance, share_nics

LEGEND = "\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\nNIC Legend:\n\n"


def matrix(gpus: list[list[str]], nics: dict[str, list[str]], tail: str = "", separator: str = "\t") -> str:
    """What `nvidia-smi topo -m` prints: codes between GPUs, and of each NIC to the GPUs."""
    names = [f"GPU{k}" for k in range(len(gpus))]
    lines = [separator.join(["", *names, *nics, *([tail] if tail else [])])]
    for k, row in enumerate(gpus):
        codes = [" X " if code == "X" else code for code in [*row, *(codes[k] for codes in nics.values())]]
        lines.append(separator.join([names[k], *codes, "0-23,48-71", "0", "", "N/A"]))
    for name, codes in nics.items():
        lines.append(separator.join([name, *codes, *(" X " if other == name else "SYS" for other in nics), "", ""]))
    return "\n".join(lines) + "\n" + LEGEND


def full(count: int, code: str) -> list[list[str]]:
    return [["X" if a == b else code for b in range(count)] for a in range(count)]


def read(tmp_path: Path, text: str, name: str = "a.txt") -> ImportedTopology:
    (tmp_path / name).write_text(text)
    return import_topology([tmp_path / name])


def affinity(found: ImportedTopology) -> list[list[str]]:
    server = found.servers[0]
    return [[server.nics[part.nic].name for part in parts] for parts in server.nics_of_gpu]


@pytest.mark.parametrize(
    ("count", "code", "kind", "gb"),
    [
        (16, "NV6", "switch", 120.0),  # DGX-2
        (8, "NV12", "switch", 240.0),  # DGX A100
        (8, "NV8", "switch", 160.0),  # A800
        (4, "NV4", "mesh", 240.0),  # four A100, no switch
        (4, "NV6", "mesh", 370.8),  # four GH200
        (4, "NV18", "switch", 370.8),  # GB200 tray
        (2, "PHB", "switch", 12.0),  # two cards, no NVLink
    ],
)
def test_matrices_of_many_machines_are_read(count: int, code: str, kind: str, gb: float, tmp_path: Path) -> None:
    found = read(tmp_path, matrix(full(count, code), {}, "CPU Affinity\tNUMA Affinity\tGPU NUMA ID"))
    assert found.cluster is not None and found.cluster.scale_up == kind
    assert found.cluster.scale_up_bandwidth_bytes_per_s == pytest.approx(gb * 1e9)


@pytest.mark.parametrize(
    "name", ["mlx5_bond_0", "bnxt_re0", "rdmap16s27", "rocep43s0f0", "xscale_0", "ibp24s0", "cxi0"]
)
def test_nics_may_have_any_name(name: str, tmp_path: Path) -> None:
    found = read(tmp_path, matrix(full(2, "NV12"), {name: ["PIX", "SYS"], "mlx5_1": ["SYS", "PIX"]}, "CPU Affinity"))
    assert affinity(found) == [[name], ["mlx5_1"]]


def test_a_report_around_the_matrix_is_passed_over(tmp_path: Path) -> None:
    before = "GPU0 is fine\nGPU models and configuration:\nGPU 0: NVIDIA H100\n\nGPU Topology:\n\n"
    text = matrix(full(2, "NV18"), {"NIC0": ["PIX", "NODE"], "NIC1": ["NODE", "PIX"]}, "CPU Affinity", "    ")
    found = read(tmp_path, before + text + "  NIC0: mlx5_3\n  NIC1: mlx5_4\n\nulimit soft: 1048576\nGPU0 X Y\n")
    assert affinity(found) == [["mlx5_3"], ["mlx5_4"]]


def test_nics_for_storage_serve_no_gpu(tmp_path: Path) -> None:
    """Each GPU has a NIC on its own switch; two more hang on a host bridge."""
    nics = {f"NIC{k}": ["PXB" if k == gpu else "SYS" for gpu in range(4)] for k in range(4)}
    nics |= {"NIC4": ["NODE"] * 4, "NIC5": ["SYS"] * 4}
    found = read(tmp_path, matrix(full(4, "NV12"), nics, "CPU Affinity"))
    assert affinity(found) == [["NIC0"], ["NIC1"], ["NIC2"], ["NIC3"]]
    assert [text for text in found.guesses if "left out" in text] == [
        "NIC4 is farther from every GPU than another NIC, and left out",
        "NIC5 is farther from every GPU than another NIC, and left out",
    ]


def test_uneven_links_become_a_graph(tmp_path: Path) -> None:
    """Four GPUs of a DGX-1: one or two links to each other."""
    codes = [
        ["X", "NV1", "NV1", "NV2"],
        ["NV1", "X", "NV2", "NV1"],
        ["NV1", "NV2", "X", "NV2"],
        ["NV2", "NV1", "NV2", "X"],
    ]
    (tmp_path / "a.txt").write_text(matrix(codes, {"mlx5_0": ["PIX", "PIX", "PHB", "SOC"]}, "CPU Affinity"))
    found = import_topology([tmp_path / "a.txt"], gpu="v100")
    assert found.cluster is None and found.topology.num_ranks == 4


@pytest.mark.parametrize("change", [("\tNODE", "\tMPB"), ("\tPIX", "\t")])
def test_unknown_and_missing_codes_are_refused(change: tuple[str, str], tmp_path: Path) -> None:
    text = matrix(full(2, "NV12"), {"a0": ["PIX", "NODE"], "a1": ["NODE", "PIX"]}, "CPU Affinity")
    with pytest.raises(ValueError, match="row GPU0 has 3 entries; there are 4 columns"):
        read(tmp_path, text.replace(*change, 1))


def test_the_nearest_nic_is_the_gpus_nearest_not_the_nics() -> None:
    near, far = Distance.PIX, Distance.NODE
    shares = share_nics([[near, far], [Distance.SYS, far]], 2)
    assert [[part.nic for part in parts] for parts in shares] == [[0], [1]]


def system(tmp_path: Path, inside: str) -> ImportedTopology:
    return read(tmp_path, f'<system version="1">{inside}</system>', "a.xml")


def test_gpus_and_links_that_a_file_does_not_name_are_asked_for(tmp_path: Path) -> None:
    """Files of AWS (eight A10G over PCIe) and of Azure (eight V100, one NIC) name neither."""
    cpus = "".join(
        f'<cpu numaid="{n}">' + "".join(f'<pci busid="0000:{n}{k}:00.0"/>' for k in range(4)) + "</cpu>" for n in (0, 1)
    )
    with pytest.raises(ValueError, match="lists 8 PCI devices and says neither which are GPUs nor how"):
        system(tmp_path, cpus)
    found = import_topology([tmp_path / "a.xml"], 2, gpu="a10g", nic_bytes_per_s=12.5e9)
    assert found.cluster is not None and found.cluster.gpus_per_server == 8
    assert found.cluster.nic_bandwidth_bytes_per_s.max() == pytest.approx(12.5e9 / 8)
    stated = {field.name: field.is_stated for field in found.fields}
    assert stated["scale_up"] and stated["scale_out_bandwidth"] and not stated["message_overhead"]
    assert not stated["scale_up_bandwidth"], "no slot's speed is in the file"
    with pytest.raises(ValueError, match=r"names no NIC, and 2 servers need one: say --nic"):
        import_topology([tmp_path / "a.xml"], 2, gpu="a10g")
    pci = '<pci busid="{}:00:00.0" class="{}" link_speed="16 GT/s" link_width="16"/>'
    azure = "".join(pci.format(f"000{k}", "0x030200") for k in range(8)) + pci.format("0101", "0x020700")
    with pytest.raises(ValueError, match="says neither what its 8 GPUs are nor how they are joined"):
        system(tmp_path, f'<cpu numaid="0">{azure}</cpu>')
    with pytest.raises(ValueError, match=r"v100 .--gpu. is joined by a switch in some servers and by links between"):
        import_topology([tmp_path / "a.xml"], gpu="v100")
    said = {field.name: field for field in import_topology([tmp_path / "a.xml"], gpu="a10g").fields}
    assert said["scale_up_bandwidth"].is_stated and said["scale_up_bandwidth"].value == "24 GB/s"  # 16 x 16 GT/s
    assert not said["scale_out_bandwidth"].is_stated
    with pytest.raises(ValueError, match="unknown GPU 'a11'; known: v100, a100"):
        import_topology([tmp_path / "a.xml"], gpu="a11")


def test_the_cube_of_eight_v100_is_a_graph_of_its_links(tmp_path: Path) -> None:
    """Two quads of all links, each GPU with its twin in the other one: six links per GPU."""
    codes = full(8, "SYS")
    for a, b, links in ((0, 1, 1), (0, 2, 1), (0, 3, 2), (1, 2, 2), (1, 3, 1), (2, 3, 1)):
        for quad in (0, 4):
            codes[quad + a][quad + b] = codes[quad + b][quad + a] = f"NV{links}"
    for k in range(4):
        codes[k][k + 4] = codes[k + 4][k] = "NV2"
    (tmp_path / "a.txt").write_text(matrix(codes, {"mlx5_0": ["NODE"] * 4 + ["SYS"] * 4}, "CPU Affinity"))
    found = import_topology([tmp_path / "a.txt"], gpu="v100", nic_bytes_per_s=12.5e9)
    assert found.cluster is None
    graph = found.topology
    direct = (graph.link_src < 8) & (graph.link_dst < 8)
    assert [graph.bandwidth_bytes_per_s[direct & (graph.link_src == k)].sum() for k in range(8)] == [120e9] * 8
    nics = found.servers[0].nic_bytes_per_s
    assert sum(nics(k) for k in range(8)) == pytest.approx(12.5e9)
    said = {field.name: field for field in found.fields}
    assert said["message_overhead"].value == "200 ns" and not said["message_overhead"].is_stated
    assert said["stage_overhead"].value == "10 us" and said["bandwidth"].is_stated


def test_links_that_no_known_gpu_has_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="GPUs with 14 NVLinks are not known; say --gpu"):
        read(tmp_path, matrix(full(8, "NV14"), {}, "CPU Affinity"))
    found = import_topology([tmp_path / "a.txt"], gpu="h100")
    assert found.cluster is not None
    assert found.cluster.scale_up_bandwidth_bytes_per_s == pytest.approx(14 * 20.6e9)
    (tmp_path / "b.txt").write_text(matrix(full(2, "PHB"), {}, "CPU Affinity"))
    with pytest.raises(ValueError, match="gpu=h100 has no effect"):
        import_topology([tmp_path / "b.txt"], gpu="h100")
    with pytest.raises(ValueError, match=r"shows NVLinks, which l4 .--gpu. does not have"):
        import_topology([tmp_path / "a.txt"], gpu="l4")


def test_every_field_of_a_cluster_is_stated_or_guessed_with_a_reason(shared_data: Path) -> None:
    found = import_topology([shared_data / "nccl_topo/nccl_topo_hgx_h100_8gpu_8nic.xml"], 2)
    assert found.cluster is not None and found.cluster.stage_overhead_s == 10e-6
    names = {field.name.removesuffix("_bytes_per_s").removesuffix("_s") for field in dataclasses.fields(found.cluster)}
    assert {field.name for field in found.fields} == names - {"name", "faults", "nic_rates", "scale_up_rates"}
    assert all(field.why and field.value for field in found.fields)
    said = {field.name: field for field in found.fields}
    assert said["scale_up_bandwidth"].is_stated and "below the nominal" in said["scale_up_bandwidth"].why
    assert not said["message_overhead"].is_stated and not said["fabric"].is_stated


def test_both_ports_of_a_nic_behind_one_switch_serve_its_gpu(tmp_path: Path) -> None:
    def branch(k: int) -> str:
        ports = "".join(
            f'<net name="p{k}{port}" dev="{2 * k + port}" speed="200000" port="{port}"/>' for port in (0, 1)
        )
        gpu = f'<gpu dev="{k}" sm="90" rank="{k}"><nvlink target="s" count="18" tclass="0x068000"/></gpu>'
        bridge = 'class="0x060400"'
        return (
            f'<pci busid="{k}:0" {bridge}>'
            f'<pci busid="{k}:1" {bridge}><pci busid="{k}:2" class="0x030200">{gpu}</pci></pci>'
            f'<pci busid="{k}:3" {bridge}><pci busid="{k}:4" class="0x020000"><nic>{ports}</nic></pci></pci>'
            "</pci>"
        )

    found = system(tmp_path, f'<cpu numaid="0">{branch(0)}{branch(1)}</cpu>')
    assert affinity(found) == [["p00", "p01"], ["p10", "p11"]]
    assert {part.distance for parts in found.servers[0].nics_of_gpu for part in parts} == {Distance.PXB}
    assert found.cluster is not None and found.cluster.nic_bandwidth_bytes_per_s.tolist() == pytest.approx([50e9] * 2)


def test_speeds_in_kilobits_are_recognised(tmp_path: Path) -> None:
    gpu = '<pci busid="1" class="0x120000"><gpu dev="0" sm="228" gcn="942" rank="0"/></pci>'
    nic = '<pci busid="2" class="0x020000"><nic><net name="cxi0" dev="0" speed="200000000"/></nic></pci>'
    found = system(tmp_path, f'<cpu numaid="0">{gpu}{nic}</cpu>')
    assert found.servers[0].nics[0].bandwidth_bytes_per_s == 25e9
    assert "speed='200000000' cannot be Mb/s; counted as kb/s" in found.guesses


def test_nics_may_hang_on_the_host_itself(tmp_path: Path) -> None:
    gpu = '<pci busid="1" class="0x030200"><gpu dev="0" sm="80" rank="0"/></pci>'
    found = system(tmp_path, f'<cpu numaid="0">{gpu}<nic><net name="eth0" dev="0" speed="100000"/></nic></cpu>')
    assert affinity(found) == [["eth0"]]


def test_hosts_of_one_domain_may_use_the_same_pci_addresses(tmp_path: Path) -> None:
    link = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
    cpus = "".join(
        f'<cpu numaid="0" host_hash="0x{host}"><pci busid="0008:01:00.0" class="0x030200">'
        f'<gpu dev="0" sm="100" rank="{host}">{link}<c2c bw="44712" count="1"/></gpu></pci></cpu>'
        for host in (0, 1)
    )
    found = system(tmp_path, cpus)
    assert found.cluster is not None and found.cluster.gpus_per_server == 2


def test_other_tools_descriptions_of_machines_are_named(tmp_path: Path) -> None:
    text = '<!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0"/>'
    with pytest.raises(ValueError, match="<!DOCTYPE topology …>"):
        read(tmp_path, text, "a.xml")

# SPDX-License-Identifier: Apache-2.0
"""Emulated NICs: their rate and latency are what was asked for, whatever this machine does meanwhile.

A NIC's clocks are virtual, so what they say does not depend on when its process gets a core. What may be read when is
compared with the time at which it was read, which is never too early to judge by.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gpu_host_library
from emulated_network import HOST, host_of, network, open_emulated
from lanecast import _core
from lanecast.cluster.gpu_nics import Network, command, parse
from ranks import Rank, in_processes
from transport_endpoint import Endpoint, Item, payload

BYTES = 4_000_000
STAND_IN = {"LANECAST_CUDA_LIBRARY": str(gpu_host_library.library())}


def puts_of(me: Rank, folder: Path, hosts: list[str]) -> _core.PlainPuts:
    os.environ.update(STAND_IN)
    return _core.PlainPuts(me.rank, me.size, me.all_gather, str(folder), hosts[me.rank], me.rank, BYTES)


def run_puts(main: Callable[[_core.PlainPuts, Rank], object], size: int, nics: str, hosts: int = 2) -> Network:
    """Ranks on that many hosts, each with a GPU of the stand-in."""
    net = network(nics, hosts, -(-size // hosts), STAND_IN)
    in_processes(size, functools.partial(_puts_main, main, net.folder, [host_of(rank, net) for rank in range(size)]))
    return net


def _puts_main(main: Callable[[_core.PlainPuts, Rank], object], folder: Path, hosts: list[str], me: Rank) -> None:
    puts = puts_of(me, folder, hosts)
    me.barrier()
    main(puts, me)
    me.barrier()


SIZES = (1, 7, 4096, 65_537, 1_000_001)


def _everywhere(puts: _core.PlainPuts, me: Rank) -> None:
    peers = [peer for peer in range(me.size) if peer != me.rank]
    for serial, size in enumerate(SIZES):
        share = 1_000_001  # of what comes from each rank
        content = payload(me.rank, 0, serial, size).tobytes()
        puts.fill(content)
        for peer in peers:
            puts.put(peer, me.rank * share, size, word=serial + 1)
        puts.wait()
        me.barrier()
        for peer in peers:
            assert puts.come(peer * share, size) == payload(peer, 0, serial, size).tobytes()
            assert puts.word_of(peer) == serial + 1
        me.barrier()


def test_puts_and_words_arrive() -> None:
    run_puts(_everywhere, 3, "10GBps,10us", hosts=3)


def _word_alone(puts: _core.PlainPuts, me: Rank) -> None:
    if me.rank == 0:
        puts.put(1, 0, 0, word=7)
        puts.wait()
    me.barrier()
    assert me.rank != 1 or puts.word_of(0) == 7


def test_a_word_needs_no_bytes() -> None:
    run_puts(_word_alone, 2, "1GBps,10us")


def _timed(counts: tuple[int, ...], size: int, puts: _core.PlainPuts, me: Rank) -> None:
    """Rank r sends counts[r] puts to the next one, and all see how long the wires were busy."""
    to = (me.rank + 1) % me.size
    puts.fill(bytes(size))
    me.barrier()
    before = time.monotonic()
    for _ in range(counts[me.rank]):
        puts.put(to, 0, size)
    after = time.monotonic()
    puts.wait()
    begun, posted, nics = (np.frombuffer(me.all_gather(np.float64(t).tobytes())) for t in (before, after, puts.nic))
    for rank, count in enumerate(counts):
        if count == 0:
            continue
        folder = os.environ["NETWORK"]
        until = _core.emulated_traffic(folder)[int(nics[(rank + 1) % me.size])]["receives_until_s"]
        least = count * size / _core.emulated_network(folder)["bytes_per_s"]
        assert until - begun[rank] >= 0.999 * least, "faster than the wire"
        assert until - posted[rank] <= 1.03 * least, "slower than the wire"


@pytest.mark.parametrize(
    ("counts", "size"),
    [((1, 0), 4_000_000), ((50, 0), 20_000), ((1, 1), 4_000_000), ((40, 40), 20_000), ((1, 1, 1), 2_000_000)],
    ids=["one long", "many short", "both directions", "both, short", "all NICs"],
)
def test_plain_puts_take_the_nominal_rate(counts: tuple[int, ...], size: int) -> None:
    net = network("10MBps,1us", 1, 3, STAND_IN)
    os.environ["NETWORK"] = str(net.folder)
    body = functools.partial(_timed, counts, size)
    in_processes(len(counts), functools.partial(_with_network, str(net.folder), body))


def _with_network(folder: str, body: Callable[[_core.PlainPuts, Rank], object], me: Rank) -> None:
    os.environ["NETWORK"] = folder
    _puts_main(body, Path(folder), [f"{HOST}0"] * me.size, me)


def _long_and_short(folder: str, puts: _core.PlainPuts, me: Rank) -> None:
    """A put to rank 2 is posted while a long one to rank 1 is under way, which would take the wire for 0.4 s."""
    if me.rank == 0:
        puts.put(1, 0, 4_000_000)
        puts.put(2, 0, 8)
        posted = time.monotonic()
        puts.wait()
    nics = np.frombuffer(me.all_gather(np.float64(puts.nic).tobytes()))
    if me.rank == 0:
        assert _core.emulated_traffic(folder)[int(nics[2])]["receives_until_s"] <= posted + 0.2


def test_a_long_put_holds_up_no_other() -> None:
    net = network("10MBps,1us", 1, 3, STAND_IN)
    body = functools.partial(_long_and_short, str(net.folder))
    in_processes(3, functools.partial(_with_network, str(net.folder), body))


RATE, LATENCY_S = 20e6, 0.05


def _early(puts: _core.PlainPuts, me: Rank) -> None:
    size = 3_000_000
    if me.rank == 0:
        puts.fill(b"\1" * size)
        me.barrier()
        me.all_gather(np.float64(time.monotonic()).tobytes())  # before the put
        puts.put(1, 0, size, word=9)
        puts.wait()
        return
    me.barrier()
    posted = np.frombuffer(me.all_gather(np.float64(0).tobytes()))[0]
    seen, word = 0, 0
    while seen < size:
        word = puts.word_of(0)
        seen = puts.come(0, size).count(1)
        may = max(0.0, time.monotonic() - posted - LATENCY_S) * RATE
        assert seen <= may, f"{seen} bytes could be read when {may} were due"
        assert word == 0 or seen == size, "the word came before the bytes"


def test_bytes_that_are_not_due_cannot_be_read() -> None:
    run_puts(_early, 2, "20MBps,50ms")


def _messages_take_time(end: Endpoint) -> None:
    """Messages of the hosts' memory are held to the same."""
    for size in (0, 8, 300_000):
        before = time.monotonic()
        end.barrier()
        if end.rank == 0:
            end.send(1, Item(1, size, size))
        else:
            end.receive(0, Item(1, size, size))
        end.wait()
        if end.rank == 1:
            assert time.monotonic() - before >= LATENCY_S + size / RATE
        end.barrier()


def _endpoint_main(folder: Path, body: Callable[[Endpoint], object], me: Rank) -> None:
    transport = open_emulated(folder, me)
    try:
        body(Endpoint(transport, me))
    finally:
        transport.close()


def test_messages_take_the_wires_time() -> None:
    net = network("20MBps,50ms", 1, 2)
    in_processes(2, functools.partial(_endpoint_main, net.folder, _messages_take_time))


def _waits_while_its_nic_dies(pid: int, end: Endpoint) -> None:
    if end.rank == 0:
        end.receive(1, Item(1, 0, 8))
        os.kill(pid, signal.SIGKILL)
        why = end.wait_until_lost(1)
        assert f"the NIC process of this rank's host {HOST}0 (process {pid}) has ended" in why
    end.barrier()


def test_a_killed_nic_process_is_named() -> None:
    with Network(parse("1GBps,10us"), [f"{HOST}0"], 2) as net:
        net.start()
        body = functools.partial(_waits_while_its_nic_dies, net.processes[0].pid)
        in_processes(2, functools.partial(_endpoint_main, net.folder, body))


def test_traffic_counts_what_went_through_each_nic() -> None:
    net = run_puts(_word_and_bytes, 2, "1GBps,9us")
    rows = net.traffic()
    assert [row["sent_bytes"] for row in rows] == [123_456, 0]
    assert [row["received_bytes"] for row in rows] == [0, 123_456]
    assert [row["messages"] for row in rows] == [1, 0]


def _word_and_bytes(puts: _core.PlainPuts, me: Rank) -> None:
    if me.rank == 0:
        puts.put(1, 0, 123_456, word=1)
        puts.wait()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("50GBps", "expected a rate and a latency such as 50GBps,12us"),
        ("50Gbit,12us", "expected a rate and a latency"),
        ("50GBps,12", "expected a rate and a latency"),
        ("0GBps,12us", "the rate is not between 1MBps and 1000GBps"),
        ("5000GBps,12us", "the rate is not between"),
        ("1GBps,2s", "the latency is not between 0us and 1s"),
    ],
)
def test_nics_that_make_no_sense_are_refused(text: str, words: str) -> None:
    with pytest.raises(_core.UsageError, match=words):
        parse(text)


def _more_ranks_than_nics(folder: Path, me: Rank) -> None:
    with pytest.raises(_core.UsageError, match="NICs all have a rank's process already"):
        open_emulated(folder, me)


def test_more_ranks_than_nics_are_refused_on_all_ranks() -> None:
    with Network(parse("1GBps,10us"), [f"{HOST}0"], 2) as net:
        net.start()
        in_processes(3, functools.partial(_more_ranks_than_nics, net.folder))


def test_gpus_without_peer_access_are_refused() -> None:
    with Network(parse("1GBps,10us"), [HOST], 1) as net, pytest.MonkeyPatch.context() as patch:
        for name, value in {**STAND_IN, "GPU_HOST_NO_PEERS": "1"}.items():
            patch.setenv(name, value)
        with pytest.raises(_core.TransportError, match="GPU 0 has no peer access to GPU 1"):
            net.start()
    assert not net.folder.exists()


def test_a_network_that_does_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(_core.UsageError, match=r"LANECAST_GPU_NICS: .*fabric"):
        _core.open_emulated(0, 1, lambda mine: mine, str(tmp_path), HOST)
    _core.make_emulated_network(str(tmp_path), 1, 1, 1e9, 1e-5)
    with pytest.raises(_core.UsageError, match=f"no NIC process of host {HOST} answers"):
        _core.open_emulated(0, 1, lambda mine: mine, str(tmp_path), HOST)


def test_who_answers_is_seen(tmp_path: Path) -> None:
    """By what removes networks that a crash has left: it must not take one that runs, nor one that it cannot judge."""
    assert _core.emulated_network_may_answer(str(tmp_path / "nowhere"))
    assert not _core.emulated_network_may_answer(str(tmp_path))
    with Network(parse("1GBps,10us"), [HOST], 1) as net:
        assert not _core.emulated_network_may_answer(str(net.folder))
        net.start()
        assert _core.emulated_network_may_answer(str(net.folder))
        assert _core.emulated_host_answers(str(net.folder), HOST)
        assert not _core.emulated_host_answers(str(net.folder), "another")
        for process in net.processes:
            process.kill()
            process.wait()
        assert not _core.emulated_network_may_answer(str(net.folder))  # whose socket is still there


def test_nic_processes_end_with_who_has_started_them() -> None:
    program = (
        "import os, sys; from lanecast.cluster.gpu_nics import Network, parse\n"
        "net = Network(parse('1GBps,1us'), ['a', 'b'], 1); net.start()\n"
        "print(net.folder, *(p.pid for p in net.processes), flush=True); os.kill(os.getpid(), 9)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        folder, *pids = job.stdout.readline().split()
        job.wait()
    end = time.monotonic() + 200
    while Path(folder).exists() or any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end, "a NIC process, or its folder, has outlived who started it"
        time.sleep(0.05)


def _idle(folder: Path, nic_process: int, me: Rank) -> None:
    transport = open_emulated(folder, me)
    me.barrier()
    time.sleep(0.2)  # for a while NICs look for work
    if me.rank == 0:
        before, began = _cpu_s(nic_process), time.monotonic()
        time.sleep(0.5)
        used, took = _cpu_s(nic_process) - before, time.monotonic() - began
        assert used < 0.2 * took, f"the NICs of two ranks that do nothing took {used:.2f} s of {took:.2f} s"
    me.barrier()
    transport.close()


def _cpu_s(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_nics_without_work_take_no_core() -> None:
    net = network("10GBps,10us")
    in_processes(2, functools.partial(_idle, net.folder, net.processes[0].pid))


def _leaves_amid_puts(folder: Path, me: Rank) -> None:
    puts = puts_of(me, folder, [f"{HOST}0"] * me.size)
    me.barrier()
    if me.rank == 0:
        puts.put(1, 0, 4_000_000)  # 0.4 s
        puts.put(1, 0, 8, word=3)
    me.barrier()
    if me.rank == 1:
        del puts  # its memory with it
    me.barrier()
    if me.rank == 0:
        puts.put(2, 0, 8, word=7)
        puts.wait()
    me.barrier()
    assert me.rank != 2 or puts.word_of(0) == 7


def test_who_withdraws_memory_amid_puts_stops_those_to_itself_alone() -> None:
    net = network("10MBps,1us", 1, 3, STAND_IN)
    in_processes(3, functools.partial(_leaves_amid_puts, net.folder))


def _many_letters(end: Endpoint) -> None:
    """3 MB that take a wire of 1 MB/s 3 s; where they are sent, the last are done before the wire has them."""
    for serial in range(200):
        item = Item(1, serial, 15_000)
        if end.rank == 0:
            end.send(1, item)
        else:
            end.receive(0, item)
    end.wait()


def test_a_rank_that_closes_leaves_no_message_behind() -> None:
    net = network("1MBps,1us", 1, 2)
    in_processes(2, functools.partial(_endpoint_main, net.folder, _many_letters))


FORKS = """
import os, sys, time
from lanecast import _core
transport = _core.open_emulated(0, 1, lambda mine: mine, sys.argv[1], sys.argv[2])
child = os.fork()
if child == 0:
    os.close(1)
    time.sleep(60)
print(child, flush=True)
os._exit(0)
"""


def test_a_forked_process_keeps_no_nic() -> None:
    with Network(parse("1GBps,10us"), [f"{HOST}0"], 1) as net:
        net.start()
        program = [sys.executable, "-c", FORKS, str(net.folder), f"{HOST}0"]
        found = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        try:
            _core.open_emulated(0, 1, lambda mine: mine, str(net.folder), f"{HOST}0").close()
        finally:
            os.kill(int(found[0]), signal.SIGKILL)


def test_a_second_process_takes_the_place_of_one_that_was_killed() -> None:
    with Network(parse("1GBps,10us"), [f"{HOST}0"], 1) as net:
        net.start()
        net.processes[0].kill()
        net.processes[0].wait()
        again = subprocess.Popen(command(net.folder, f"{HOST}0", 0), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        net.processes.append(again)  # type: ignore[arg-type]
        assert again.stdout is not None
        assert again.stdout.readline() == b"ready\n"
        transport = _core.open_emulated(0, 1, lambda mine: mine, str(net.folder), f"{HOST}0")
        transport.close()

"""Tests of the programs that can step boards, and of the interface between XLA and the library."""

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="`make trainers` has it")

import jax
import jax.numpy as jnp
from jax import export
from jax.experimental import serialize_executable
from jax_runs import GAME2048
from servers import PATIENCE

import twofold.jax
from twofold.errors import InvalidArgument

HEADERS = Path(__file__).resolve().parents[3] / "Sources/CTwofold"


def test_a_program_for_another_platform_is_refused_with_its_name() -> None:
    env = twofold.jax.make(GAME2048, 3)
    state, _ = env.reset(seeds=0)
    actions = jnp.zeros(3, jnp.int32)
    calls = [
        (jax.jit(env.step), (state, actions)),
        (jax.jit(env.reset), (jax.random.key(0),)),
        (jax.jit(env.afterstates), (state.board,)),
        (jax.jit(lambda key: env.spawn(state.board, key)), (jax.random.key(0),)),
    ]
    for function, arguments in calls:
        traced = function.trace(*arguments)
        for platforms in (("cuda",), ("cpu", "cuda")):
            with pytest.raises(InvalidArgument, match="compiled for cuda") as caught:
                traced.lower(lowering_platforms=platforms)
            assert caught.value.field == "platform"
        with pytest.raises(InvalidArgument, match="compiled for tpu"):
            export.export(function, platforms=["tpu"])(*arguments)
        traced.lower(lowering_platforms=("cpu",)).compile()


def ran(program: str, **variables: str) -> str:
    """Runs a program in a new process; returns its output."""
    completed = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | variables,
        cwd=Path(__file__).parent,
        timeout=PATIENCE,
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


RELOADED = """
import pickle, jax, jax.numpy as jnp
from jax.experimental import serialize_executable
env, program = pickle.load(open("{path}", "rb"))
run = serialize_executable.deserialize_and_load(*program)
print(run(jnp.uint32([[0, 0], [7, 0]])).tolist() == {boards})
"""


def test_a_compiled_program_runs_in_another_process_without_being_traced(tmp_path: Path) -> None:
    env = twofold.jax.make(GAME2048, 2)

    def boards(seeds: jax.Array) -> jax.Array:
        return env.reset(seeds=seeds)[1].observation

    seeds = jnp.uint32([[0, 0], [7, 0]])
    compiled = jax.jit(boards).lower(seeds).compile()
    path = tmp_path / "program"
    path.write_bytes(pickle.dumps((env, serialize_executable.serialize(compiled))))
    program = RELOADED.format(path=path, boards=compiled(seeds).tolist())
    assert ran(program) == "True\n"


MEMORY = """
import jax, twofold.jax
for lanes in (150_000, 150_001, 200_000):
    env = twofold.jax.make("twofold/Game2048-v0", lanes, size=8)
    try: jax.block_until_ready(env.reset(seeds=0))
    except (ValueError, jax.errors.JaxRuntimeError) as error: print(lanes, error)
"""


def test_the_working_memory_of_calls_has_the_limit_of_this_process() -> None:
    output = ran(MEMORY, TWOFOLD_MAX_BYTES="20000000")  # 112 bytes for each board
    assert output.startswith("200000 RESOURCE_EXHAUSTED: no memory for the boards: 22400000 more")


SHARDED = """
import jax, jax.numpy as jnp, numpy as np, twofold.jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from jax_runs import GAME2048, assert_same

env = twofold.jax.make(GAME2048, 6, size=3)
actions = np.random.default_rng(0).integers(0, 4, (50, 6), np.int32)

def play(state, actions):
    return jax.lax.scan(env.step, state, actions)

def play_constants(state):
    # These actions do not vary over the devices.
    return jax.lax.scan(lambda state, _: env.step(state, jnp.ones(3, jnp.int32)), state, None, 5)

start, first = env.reset(seeds=0)
expected = play(start, actions)
words = np.stack([np.arange(6), np.zeros(6)], -1).astype(np.uint32)
for axis_type in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((2,), ("boards",), axis_types=(axis_type,))
    boards, steps = P("boards"), P(None, "boards")
    state = jax.device_put(start, NamedSharding(mesh, boards))
    for place in (state, jax.device_put(start, NamedSharding(mesh, P()))):
        try:
            jax.jit(env.step)(place, jax.device_put(actions[0], place.phase.sharding))
        except twofold.errors.InvalidArgument as error:
            assert "sharded over 2 devices" in str(error) and error.field == "sharding"
        else:
            raise AssertionError("not refused")

    def split(function, *specs, out):
        return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=out))

    put = jax.device_put(actions, NamedSharding(mesh, steps))
    assert_same(split(play, boards, steps, out=(boards, steps))(state, put), expected)
    constants = split(play_constants, boards, out=(boards, steps))(state)
    ones = jnp.ones((5, 6), jnp.int32)
    assert_same(constants, play(start, ones))
    put = jax.device_put(words, NamedSharding(mesh, boards))
    reset = split(lambda words: env.reset(seeds=words), boards, out=boards)(put)
    assert_same(reset, (start, first))

for sizes in ((2, 1), (1, 2)):
    mesh = jax.make_mesh(sizes, ("boards", "others"), axis_types=(AxisType.Auto,) * 2)
    specs = P("boards"), P(None, "boards")
    part = jax.shard_map(play, mesh=mesh, in_specs=specs, out_specs=specs, axis_names={"boards"})
    state = jax.device_put(start, NamedSharding(mesh, P(("boards", "others"))))
    put = jax.device_put(actions, NamedSharding(mesh, P(None, "others")))
    assert_same(jax.jit(part)(state, put), expected)
print("done")
"""


def test_a_program_over_two_devices_is_refused_and_shard_map_splits_it() -> None:
    devices = "--xla_force_host_platform_device_count=2"
    assert ran(SHARDED, XLA_FLAGS=devices, JAX_PLATFORMS="cpu") == "done\n"


def test_a_pickled_environment_plays_the_same_game_in_another_process(tmp_path: Path) -> None:
    env = twofold.jax.make(GAME2048, 3, dialect="pgx")
    start, first = env.reset(seeds=0)
    path = tmp_path / "env.pickle"
    path.write_bytes(pickle.dumps((env, start, first, env.step(start, jnp.ones(3, jnp.int32)))))
    program = f"""
import jax.numpy as jnp, pickle
from jax_runs import assert_same

env, start, first, next = pickle.load(open({str(path)!r}, "rb"))
assert_same(env.step(start, jnp.ones(3, jnp.int32)), next)
assert_same(env.reset(seeds=0), (start, first))
"""
    assert ran(program) == ""


THREADS = """
import hashlib, jax, numpy as np, twofold.jax
from jax_runs import CONCENTRATION, GAME2048

digest = hashlib.sha256()
for name in (GAME2048, CONCENTRATION):
    env = twofold.jax.make(name, 20_000, max_episode_steps=15, extra_infos=("reward_terms",))
    actions = np.random.default_rng(0).integers(0, 4, (30, 20_000), np.int32)
    play = jax.jit(lambda state, actions: jax.lax.scan(env.step, state, actions))
    for leaf in jax.tree.leaves(play(env.reset(seeds=0)[0], actions)):
        digest.update(np.asarray(leaf).tobytes())
print(digest.hexdigest())
"""


def test_the_number_of_threads_changes_nothing() -> None:
    assert len({ran(THREADS, TWOFOLD_THREADS=threads) for threads in ("1", "2", "5")}) == 1


def test_importing_twofold_does_not_import_jax() -> None:
    assert ran("import sys, twofold; print('jax' in sys.modules)") == "False\n"


# ---- the header ----------------------------------------------------------------------------------

# XLA's names of Twofold's structures, and of the fields whose names differ.
STRUCTURES = {
    "extension": "Extension_Base",
    "version": "Api_Version",
    "buffer": "Buffer",
    "buffers": "Args",
    "span": "ByteSpan",
    "array": "Array",
    "attributes": "Attrs",
    "error_args": "Error_Create_Args",
    "api": "Api",
    "frame": "CallFrame",
    "metadata": "Metadata",
    "metadata_extension": "Metadata_Extension",
}
FIELDS = {
    "Args": {"buffers": "args"},
    "Rets": {"buffers": "rets"},
    "Attrs": {"values": "attrs"},
    "Error_Create_Args": {"code": "errc"},
    "Api": {"version": "api_version", "create_error": "XLA_FFI_Error_Create"},
    "CallFrame": {
        "context": "ctx",
        "arguments": "args",
        "results": "rets",
        "attributes": "attrs",
    },
    "Metadata": {"version": "api_version"},
    "Metadata_Extension": {"base": "extension_base"},
}
# These have more fields at their ends, which Twofold does not use.
LONGER = {"Api", "CallFrame", "Metadata"}
CONSTANTS = {
    "PRED": "DataType_PRED",
    "S8": "DataType_S8",
    "S32": "DataType_S32",
    "U8": "DataType_U8",
    "U32": "DataType_U32",
    "U64": "DataType_U64",
    "F32": "DataType_F32",
    "F64": "DataType_F64",
    "ATTRIBUTE_ARRAY": "AttrType_ARRAY",
    "INVALID_ARGUMENT": "Error_Code_INVALID_ARGUMENT",
    "RESOURCE_EXHAUSTED": "Error_Code_RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION": "Error_Code_FAILED_PRECONDITION",
    "METADATA": "Extension_Metadata",
}


def comparisons(header: str) -> list[str]:
    """Returns conditions in C that are true if both headers agree."""
    found = re.findall(r"typedef struct[^{;]*\{(.*?)\n\} twofold_xla_(\w+);", header, re.DOTALL)
    assert {name for _, name in found} == STRUCTURES.keys()
    conditions = []
    for body, name in found:
        fields = re.findall(r"(\w+)(?:\)\(.*\))?;$", body, re.MULTILINE)
        assert len(fields) == body.count(";")
        for theirs in [STRUCTURES[name]] + ["Rets"] * (name == "buffers"):
            ours, other = f"twofold_xla_{name}", f"XLA_FFI_{theirs}"
            for field in fields:
                renamed = FIELDS.get(theirs, {}).get(field, field)
                conditions += [
                    f"offsetof({ours}, {field}) == offsetof({other}, {renamed})",
                    f"sizeof((({ours} *)0)->{field}) == sizeof((({other} *)0)->{renamed})",
                ]
            relation = "<" if theirs in LONGER else "=="
            conditions.append(f"sizeof({ours}) {relation} sizeof({other})")
    assert set(re.findall(r"TWOFOLD_XLA_(\w+) = \d", header)) == CONSTANTS.keys()
    conditions += [f"TWOFOLD_XLA_{ours} == XLA_FFI_{theirs}" for ours, theirs in CONSTANTS.items()]
    return [*conditions, "XLA_FFI_API_MAJOR == 0"]


def test_the_structures_and_constants_of_the_header_are_those_of_xla(tmp_path: Path) -> None:
    conditions = comparisons((HEADERS / "xla.h").read_text())
    assert len(conditions) > 120
    source = tmp_path / "comparison.c"
    include = [f"-I{HEADERS}", f"-I{jax.ffi.include_dir()}"]

    def errors() -> str:
        lines = ["#include <xla.h>", "#include <xla/ffi/api/c_api.h>"]
        lines += [f'_Static_assert({condition}, "");' for condition in conditions]
        source.write_text("\n".join(lines) + "\n")
        command = ["cc", "-std=c11", "-fsyntax-only", *include, str(source)]
        return subprocess.run(command, capture_output=True, text=True).stderr

    assert errors() == ""
    conditions.append("sizeof(twofold_xla_buffer) == sizeof(XLA_FFI_Args)")
    assert "static assertion failed" in errors()

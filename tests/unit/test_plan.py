"""The driver's `-###` becomes a plan."""

from __future__ import annotations

import pytest
from hipcache.base.errors import PassThrough
from hipcache.clang import plan
from hipcache.clang.cc1 import Role
from hipcache.clang.driver_options import Side
from recordings import CLANGS, KNOWN, SHAPES, recorded, text

# What a plan says


@pytest.mark.parametrize("name", KNOWN)
def test_a_device_pass_compiles_to_what_its_link_reads(name: str) -> None:
    for device in recorded(name).devices:
        assert device.compile.value(Role.OUTPUT) == device.obj
        assert device.obj in device.link.arguments
        assert device.code in device.link.arguments


@pytest.mark.parametrize("name", KNOWN)
def test_the_host_embeds_what_the_bundler_writes(name: str) -> None:
    found = recorded(name)
    assert found.host.value(Role.GPUBINARY) == found.bundled
    assert any(word.endswith(found.bundled) for word in found.bundle.arguments)


@pytest.mark.parametrize("name", KNOWN)
def test_an_arch_is_the_cpu_and_the_features_of_its_pass(name: str) -> None:
    for device in recorded(name).devices:
        cpu, *features = device.arch.split(":")
        options = device.compile.options
        assert [o.value for o in options if o.name == "-target-cpu"] == [cpu]
        wanted = {feature[-1] + feature[:-1] for feature in features}
        assert wanted == {o.value for o in options if o.name == "-target-feature"}


@pytest.mark.parametrize("name", KNOWN)
def test_all_passes_read_the_same_source_with_the_same_cuid(name: str) -> None:
    found = recorded(name)
    jobs = [found.host, *(device.compile for device in found.devices)]
    assert len({job.value(Role.INPUT) for job in jobs}) == 1
    assert len({job.value(Role.CUID) for job in jobs}) == 1


@pytest.mark.parametrize("clang", CLANGS)
def test_archs_stand_in_the_order_of_the_bundle(clang: str) -> None:
    assert [d.arch for d in recorded(f"{clang}-three-archs").devices] == ["gfx1030", "gfx906", "gfx90a"]


@pytest.mark.parametrize("clang", CLANGS)
def test_features_belong_to_the_arch(clang: str) -> None:
    archs = [device.arch for device in recorded(f"{clang}-features").devices]
    assert archs == ["gfx908:sramecc+:xnack-", "gfx90a:xnack+", "gfx90a:xnack-"]


def test_a_generic_arch_is_one_arch() -> None:
    assert [device.arch for device in recorded("clang19-generic").devices] == ["gfx10-3-generic", "gfx9-generic"]


@pytest.mark.parametrize("clang", CLANGS)
def test_the_compiler_chooses_the_name_of_an_object_that_has_none(clang: str) -> None:
    assert recorded(f"{clang}-default-output").host.value(Role.OUTPUT) == "k.o"


@pytest.mark.parametrize("clang", CLANGS)
def test_a_chosen_cuid_stays(clang: str) -> None:
    assert recorded(f"{clang}-cuid").host.value(Role.CUID) == "5eed"


@pytest.mark.parametrize("clang", CLANGS)
def test_the_dependency_file_is_told_with_its_target(clang: str) -> None:
    host = recorded(f"{clang}-dependencies").host
    assert host.value(Role.DEPENDENCIES, "-dependency-file") == "k d.d"
    assert host.value(Role.DEPENDENCIES, "-MT") == "k o.o"
    assert host.value(Role.DEPENDENCY_STYLE) == ""
    assert "-sys-header-deps" in [option.name for option in host.options]
    assert "-MP" in [option.name for option in host.options]


@pytest.mark.parametrize("clang", CLANGS)
def test_a_dependency_file_without_system_headers_has_no_sys_header_deps(clang: str) -> None:
    host = recorded(f"{clang}-user-dependencies").host
    assert host.value(Role.DEPENDENCIES, "-dependency-file") == "k.d"
    assert "-sys-header-deps" not in [option.name for option in host.options]


# Quoting


@pytest.mark.parametrize(
    ("kind", "macro", "source", "output"),
    [
        ("spaces", 'TEXT="two words"', "a dir/k k.hip", "a dir/k k.o"),
        ("quote", r'TEXT="a\"b"', 'quo"te/k.hip', 'quo"te/k.o'),
        ("backslash", r"TEXT=\\", r"back\slash/k.hip", r"back\slash/k.o"),
        ("dollar", "TEXT=$HOME", "dol$lar/k.hip", "dol$lar/k.o"),
        ("empty-word", "", "k.hip", "k.o"),
    ],
)
@pytest.mark.parametrize("clang", CLANGS)
def test_words_come_out_of_their_quotes_as_they_went_in(
    clang: str, kind: str, macro: str, source: str, output: str
) -> None:
    host = recorded(f"{clang}-{kind}").host
    assert macro in [option.value for option in host.options if option.role is Role.MACRO]
    assert host.value(Role.INPUT) == source
    assert host.value(Role.OUTPUT) == output


# What the driver says besides


@pytest.mark.parametrize("name", [name for name in KNOWN if not name.endswith("-warns")])
def test_the_banner_is_no_message(name: str) -> None:
    assert recorded(name).messages == ""


@pytest.mark.parametrize("clang", CLANGS)
def test_the_drivers_own_warning_is_a_message(clang: str) -> None:
    messages = recorded(f"{clang}-warns").messages
    assert messages.count("\n") == 1
    assert "-Wl,-z,now: 'linker' input unused" in messages


# Other shapes


@pytest.mark.parametrize("clang", CLANGS)
@pytest.mark.parametrize("kind", ["rdc", "assembly"])
def test_without_device_links_the_bundle_is_the_output(clang: str, kind: str) -> None:
    found = recorded(f"{clang}-shape-{kind}")
    assert found.outputs == (found.bundled,) == ({"rdc": "k.o", "assembly": "k.s"}[kind],)
    assert found.host and not found.embeds
    assert [(one.arch, one.link) for one in found.devices] == [("gfx906", None)]


@pytest.mark.parametrize("clang", CLANGS)
def test_a_host_of_bitcode_embeds_the_bundle(clang: str) -> None:
    found = recorded(f"{clang}-shape-lto")
    assert found.outputs == ("k.o",)
    assert found.embeds
    assert found.host
    assert found.host.emits == "-emit-llvm-bc"


@pytest.mark.parametrize("clang", CLANGS)
def test_the_devices_side_alone_ends_in_their_bundle(clang: str) -> None:
    found = plan.parse(text(f"{clang}-shape-device-only"), Side.DEVICE)
    assert found.host is None
    assert found.outputs == ("k.o",)
    assert [one.arch for one in found.devices] == ["gfx906"]
    assert found.devices[0].link


@pytest.mark.parametrize("clang", CLANGS)
def test_the_hosts_side_alone_is_one_pass(clang: str) -> None:
    found = plan.parse(text(f"{clang}-shape-host-only"), Side.HOST)
    assert (found.devices, found.bundle, found.outputs) == ((), None, ("k.o",))


def test_the_new_driver_keeps_the_hosts_text_alone() -> None:
    found = plan.parse(text("clang22-shape-text"))
    assert {one.arch for one in found.devices} == {"gfx906", "gfx90a"}
    assert (found.outputs, found.embeds) == (("k.i",), False)


SPIRV = text("clang22-spirv")


def test_spirv_is_bundled_beside_the_code_of_devices() -> None:
    found = plan.parse(SPIRV)
    assert found.spirv
    assert [one.arch for one in found.devices] == ["gfx906"]
    assert [job.program.rpartition("/")[2] for job in found.spirv.jobs] == ["clang", "llvm-link", "llvm-spirv"]
    assert found.bundle
    assert f"-input={found.spirv.code}" in found.bundle.arguments
    assert found.jobs == 7


def test_another_cuid_is_another_one_in_the_command_of_spirv() -> None:
    old = plan.parse(SPIRV).first.value(Role.CUID)
    found = plan.with_cuid(plan.parse(SPIRV), "other")
    assert found.spirv
    words = [word for job in found.spirv.jobs for word in job.arguments]
    assert "-cuid=other" in words
    assert f"-cuid={old}" not in words


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("llvm-link", "llvm-join"),
        ('"--spirv-max-version=1.6"', '"--other"'),
        ("-emit-llvm-bc", "-emit-obj"),
        ('"-fcuda-include-gpubinary"', '"-fgpu-other" "-o"'),
        ("linked", "joined"),
    ],
    ids=["job", "option", "end", "rdc", "file"],
)
def test_spirv_that_is_made_otherwise_is_left(old: str, new: str) -> None:
    raw = SPIRV.replace(old, new, 1)
    assert raw != SPIRV
    with pytest.raises(PassThrough):
        plan.parse(raw)


@pytest.mark.parametrize("name", [*KNOWN, *SHAPES])
def test_a_plan_for_another_side_than_was_asked_for_is_left(name: str) -> None:
    own = {"device-only": Side.DEVICE, "host-only": Side.HOST}.get(name.partition("-shape-")[2], Side.BOTH)
    for side in set(Side) - {own}:
        with pytest.raises(PassThrough):
            plan.parse(text(name), side)

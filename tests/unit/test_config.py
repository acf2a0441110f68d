"""Settings: where a value comes from, and what is said about a wrong one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hipcache import config
from hipcache.base.errors import ConfigError
from hipcache.config import files
from hipcache.config.files import NAMES_A_FILE
from hipcache.config.settings import SETTINGS, VARIABLES, parse_size
from hipcache.processes import room


def environ(tmp_path: Path, **variables: str) -> dict[str, str]:
    return {"HOME": str(tmp_path), **{f"HIPCACHE_{name}": value for name, value in variables.items()}}


def with_file(tmp_path: Path, text: str, **variables: str) -> dict[str, str]:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    return environ(tmp_path, CONFIG=str(file), **variables)


def fault(variables: dict[str, str], *, strict: bool = False) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        config.load(variables, strict=strict)
    return caught.value


def test_without_any_setting_the_defaults_hold(tmp_path: Path) -> None:
    settings = config.load(environ(tmp_path))
    assert settings.dir == tmp_path / ".cache/hipcache"
    assert settings.config_file is settings.basedir is settings.log is None
    assert not (settings.disable or settings.readonly or settings.recache)
    assert settings.max_size == 10 * 2**30
    assert settings.jobs == 0
    assert settings.job_slots == room.compilers(room.cores(), room.memory())
    assert set(settings.origins.values()) == {"default"}


def test_xdg_cache_home_moves_the_store_unless_it_is_relative(tmp_path: Path) -> None:
    assert config.load({**environ(tmp_path), "XDG_CACHE_HOME": "/c"}).dir == Path("/c/hipcache")
    assert config.load({**environ(tmp_path), "XDG_CACHE_HOME": "c"}).dir == tmp_path / ".cache/hipcache"


def test_an_empty_home_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no home directory"):
        config.load({"HOME": ""})
    assert config.load({"HOME": "", "HIPCACHE_DIR": str(tmp_path)}).dir == tmp_path


@pytest.mark.parametrize(
    ("variables", "variable"),
    [
        ({"HIPCACHE_DIR": "/a\nb"}, "HIPCACHE_DIR"),
        ({"HIPCACHE_DIR": "~/c\nd"}, "HIPCACHE_DIR"),
        ({"HIPCACHE_DIR": "~/c", "XDG_CACHE_HOME": "/c", "HOME": "/a\nb"}, "HOME"),
        ({"HOME": "/a\nb"}, "HOME"),
        ({"XDG_CACHE_HOME": "c\nd", "HOME": "/a\nb"}, "HOME"),
        ({"XDG_CACHE_HOME": "/a\nb"}, "XDG_CACHE_HOME"),
    ],
)
def test_a_line_break_in_the_path_of_the_store_is_told(variables: dict[str, str], variable: str) -> None:
    text = variables[variable]
    with pytest.raises(ConfigError) as caught:
        config.load({"HOME": "/h", **variables})
    assert caught.value.message == f"environment variable '{variable}': '{text}' has a line break"
    assert config.load({"HIPCACHE_DIR": "/c", "HOME": "/a\nb", "XDG_CACHE_HOME": "/a\nb"}).dir == Path("/c")


def test_the_config_file_of_the_user_is_read_where_it_exists(tmp_path: Path) -> None:
    for base, variables in ((tmp_path / ".config", {}), (tmp_path / "x", {"XDG_CONFIG_HOME": str(tmp_path / "x")})):
        file = base / "hipcache/hipcache.yaml"
        file.parent.mkdir(parents=True)
        file.write_text("jobs: 7\n")
        settings = config.load({**environ(tmp_path), **variables})
        assert (settings.jobs, settings.config_file) == (7, file)


def test_environment_wins_over_file_wins_over_default(tmp_path: Path) -> None:
    settings = config.load(with_file(tmp_path, "\nmax_size: 1G\njobs: 3\n", JOBS="5"))
    assert (settings.max_size, settings.jobs) == (10**9, 5)
    assert settings.origins["max_size"] == f"{tmp_path}/settings.yaml:2"
    assert settings.origins["jobs"] == "environment"
    assert settings.origins["log"] == "default"


def test_every_variable_has_its_two_keys_in_the_file(tmp_path: Path) -> None:
    sample = {
        "size": "3G",
        "flag": "yes",
        "count": "3",
        "positive": "3",
        "directory": "/three",
        "file": "/three",
        "directories": "/three:/four",
        "addresses": "grpc://three:1",
        "mask": "003",
        "share": "1/3",
        "format": "json",
        "name": "three",
        "program": "three",
    }
    for variable, setting in VARIABLES.items():
        if setting.key in NAMES_A_FILE:
            continue
        value = sample[setting.kind]
        expected = getattr(config.load({"HOME": "/h", variable: value}), setting.key)
        for key in (variable, variable.removeprefix("HIPCACHE_").lower()):
            settings = config.load(with_file(tmp_path, f"{key}: {value}\n"))
            assert getattr(settings, setting.key) == expected, key


def test_addresses_are_a_list_in_the_file_and_words_in_a_variable(tmp_path: Path) -> None:
    listed = "remote:\n  - grpc://one:1/main\n  - s3://two?read-only\n"
    expected = ("grpc://one:1/main", "s3://two?read-only")
    assert config.load(with_file(tmp_path, listed)).remote == expected
    assert config.load({"HOME": "/h", "HIPCACHE_REMOTE": " ".join(expected)}).remote == expected


def test_the_table_states_the_defaults_in_force(tmp_path: Path) -> None:
    settings = config.load(environ(tmp_path))
    spelt = {s.variable: s.default for s in SETTINGS if s.default and s.key not in NAMES_A_FILE}
    again = config.load({"HOME": str(tmp_path), **spelt})
    assert all(getattr(again, s.key) == getattr(settings, s.key) for s in SETTINGS)


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    empty = dict.fromkeys(VARIABLES, "")
    assert config.load({"HOME": str(tmp_path), **empty}) == config.load(environ(tmp_path))


def test_an_empty_file_and_an_empty_value_set_nothing(tmp_path: Path) -> None:
    for text in ("", "# nothing\n", "max_size:\n", "max_size: ''\n", "max_size: null\n"):
        assert config.load(with_file(tmp_path, text)).max_size == 10 * 2**30


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1000", 1000),
        ("12B", 12),
        ("500M", 500 * 10**6),
        ("10G", 10**10),
        ("10GB", 10**10),
        ("10GiB", 10 * 2**30),
        ("10 gib", 10 * 2**30),
        ("1.5T", 1_500_000_000_000),
        ("0.5Ki", 512),
        ("1.1G", 1_100_000_000),
        ("3k", 3000),
    ],
)
def test_sizes_count_in_thousands_or_with_an_i_in_1024s(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "G", "B", "-1G", "1.G", ".5G", "1e9", "10X", "10 G i B", "1,5G", "²", "1_000", "9" * 5000, "nan"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    assert parse_size(text) is None


@pytest.mark.parametrize("text", ["10", " 500 "])
def test_a_size_of_a_few_bytes_is_taken_for_a_forgotten_unit(tmp_path: Path, text: str) -> None:
    error = fault(environ(tmp_path, MAX_SIZE=text))
    assert "has no unit" in error.message
    assert f"{text.strip()}GiB" in error.hint


def test_flags_read_yes_and_no_in_every_usual_spelling(tmp_path: Path) -> None:
    for word, meaning in {
        "1": True,
        "TRUE": True,
        "yes": True,
        "On": True,
        "0": False,
        "no": False,
        "off": False,
    }.items():
        assert config.load(environ(tmp_path, DISABLE=word)).disable is meaning
        assert config.load(with_file(tmp_path, f"disable: {word}\n")).disable is meaning


@pytest.mark.parametrize(
    ("name", "value"), [("MAX_SIZE", "big"), ("DISABLE", "maybe"), ("JOBS", "-1"), ("BASEDIR", "src"), ("DIR", "./c")]
)
def test_a_bad_value_is_reported_with_its_variable_or_file_line_and_key(tmp_path: Path, name: str, value: str) -> None:
    error = fault(environ(tmp_path, **{name: value}))
    assert f"'HIPCACHE_{name}'" in error.message
    assert f"'{value}'" in error.message
    assert error.hint

    error = fault(with_file(tmp_path, f"# one\n{name.lower()}: {value}\n"))
    assert error.message.startswith(f"{tmp_path}/settings.yaml:2: key '{name.lower()}'")
    assert f"'{value}'" in error.message


def test_an_unknown_key_is_reported_with_the_nearest_one_in_the_same_style(tmp_path: Path) -> None:
    for key, nearest in (
        ("maxsize", "max_size"),
        ("HIPCACHE_MAXSIZE", "HIPCACHE_MAX_SIZE"),
        ("base_dir", "basedir"),
        ("MAX_SIZE", "max_size"),
        ("hipcache_max_size", "HIPCACHE_MAX_SIZE"),
    ):
        error = fault(with_file(tmp_path, f"jobs: 1\n{key}: 1\n"))
        assert error.message == f"{tmp_path}/settings.yaml:2: unknown key '{key}'"
        assert error.hint == f"did you mean '{nearest}'?"


def test_a_key_that_resembles_none_gets_the_list_of_all(tmp_path: Path) -> None:
    hint = fault(with_file(tmp_path, "zzzz: 1\n")).hint
    assert "max_size" in hint
    assert "config" not in hint, "no file may have this"


def test_an_unknown_variable_is_a_warning_for_a_compile_and_an_error_for_a_command(tmp_path: Path) -> None:
    variables = environ(tmp_path, MAXSIZE="1G", JOBS="2")
    settings = config.load(variables)
    assert settings.jobs == 2
    assert settings.warnings == ("unknown environment variable 'HIPCACHE_MAXSIZE'; did you mean 'HIPCACHE_MAX_SIZE'?",)
    error = fault(variables, strict=True)
    assert error.message == "unknown environment variable 'HIPCACHE_MAXSIZE'"
    assert error.hint == "did you mean 'HIPCACHE_MAX_SIZE'?"


def test_a_setting_of_an_older_version_is_told_and_does_no_harm(tmp_path: Path) -> None:
    told = "has no effect any more; remove it"
    for variables in (environ(tmp_path, SHARED_FRONT_ENDS="x"), with_file(tmp_path, "shared_front_ends: 1\n")):
        (warning,) = config.load(variables, strict=True).warnings
        assert warning.endswith(told), warning


def test_a_config_file_that_was_named_must_exist(tmp_path: Path) -> None:
    for name in ("absent.yaml", "."):
        error = fault(environ(tmp_path, CONFIG=str(tmp_path / name)))
        assert "HIPCACHE_CONFIG" in error.message
        assert str(tmp_path / name) in error.message


def test_a_config_file_cannot_name_another_one(tmp_path: Path) -> None:
    for key in ("config", "HIPCACHE_CONFIG"):
        assert "environment" in fault(with_file(tmp_path, f"{key}: /else.yaml\n")).hint


@pytest.mark.parametrize(
    "text",
    [
        *("max_size: [1, 2]\n", "max_size: {a: b}\n", "- max_size\n", "max_size\n", "max_size: '1\n", "a: b: c\n"),
        *(
            "jobs: 1\njobs: 2\n",
            "jobs: 1\nHIPCACHE_JOBS: 2\n",
            "? [a]\n: b\n",
            "jobs: *no\n",
            "jobs: 1\n---\njobs: 2\n",
        ),
        *("jobs: \x07\n", "[" * 5000, 'dir: "/a\\0b"\n'),
    ],
)
def test_a_file_that_is_not_plain_settings_is_reported_with_its_name(tmp_path: Path, text: str) -> None:
    assert str(tmp_path / "settings.yaml") in fault(with_file(tmp_path, text)).message


def test_a_file_that_is_not_text_is_reported_with_its_name(tmp_path: Path) -> None:
    variables = with_file(tmp_path, "")
    (tmp_path / "settings.yaml").write_bytes(b"dir: /\xff\xfe\n")
    assert str(tmp_path / "settings.yaml") in fault(variables).message


def test_a_file_cut_at_every_length_gives_settings_or_a_config_error(tmp_path: Path) -> None:
    text = "max_size: 20GiB\ndisable: no\nbasedir: '/src'\njobs: 12\n"
    for length in range(len(text)):
        variables = with_file(tmp_path, text[:length])
        try:
            config.load(variables)
        except ConfigError as error:
            assert "settings.yaml" in error.message


def test_a_tilde_stands_for_home(tmp_path: Path) -> None:
    assert config.load(environ(tmp_path, LOG="~/log")).log == tmp_path / "log"
    assert config.load(with_file(tmp_path, "dir: ~/cache\n")).dir == tmp_path / "cache"
    (tmp_path / "mine.yaml").write_text("jobs: 4\n")
    assert config.load(environ(tmp_path, CONFIG="~/mine.yaml")).jobs == 4


@pytest.mark.parametrize(
    ("cores", "memory", "compilers"), [(8, 64 << 30, 8), (8, 9 << 30, 4), (8, 1 << 30, 1), (8, 0, 8), (1, 64 << 30, 1)]
)
def test_as_many_compilers_run_as_cores_and_memory_allow(cores: int, memory: int, compilers: int) -> None:
    assert room.compilers(cores, memory) == compilers


@pytest.mark.parametrize("limited", ["", "slurm", "slurm/job_7", "slurm/job_7/step_0"])
@pytest.mark.parametrize("version", [1, 2])
def test_the_limit_of_each_control_group_above_a_job_counts(tmp_path: Path, limited: str, version: int) -> None:
    (tmp_path / "slurm/job_7/step_0").mkdir(parents=True)
    limits = tmp_path / limited
    if version == 2:
        cgroup, kind = "0::/slurm/job_7/step_0\n", "cgroup2 none rw"
        (limits / "memory.max").write_text("3221225472\n")
        (limits / "cpu.max").write_text("50000 100000\n")
    else:
        cgroup, kind = "4:memory,cpu:/slurm/job_7/step_0\n0::/other\n", "cgroup none rw,cpu,memory"
        (limits / "memory.limit_in_bytes").write_text("3221225472\n")
        (limits / "cpu.cfs_quota_us").write_text("50000\n")
        (limits / "cpu.cfs_period_us").write_text("100000\n")
    groups = groups_of(tmp_path, cgroup, f"/ {tmp_path} rw - {kind}")
    assert (room.memory(groups), room.cores(groups)) == (3 << 30, 1)


def test_a_container_sees_its_own_control_group_as_the_root(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("3221225472\n")
    for path, root in (("/", "/"), ("/docker/7", "/docker/7"), ("/../other", "/")):
        groups = groups_of(tmp_path, f"0::{path}\n", f"{root} {tmp_path} rw - cgroup2 none rw")
        assert room.memory(groups) == 3 << 30


def test_without_a_limit_the_whole_machine_counts(tmp_path: Path) -> None:
    for name, text in {"memory.max": "max\n", "cpu.max": "max 100000\n", "cpu.cfs_quota_us": "-1\n"}.items():
        (tmp_path / name).write_text(text)
    groups = groups_of(tmp_path, "0::/\n", f"/ {tmp_path} rw - cgroup2 none rw")
    assert groups == [str(tmp_path)]
    assert room.memory(groups) == room.memory([]) > 0
    assert room.cores(groups) == len(os.sched_getaffinity(0))


def groups_of(tmp_path: Path, cgroup: str, mount: str) -> list[str]:
    """Those of a process with these lines in its /proc/PID/cgroup and, from the fourth field on, mountinfo."""
    (tmp_path / "cgroup").write_text(cgroup)
    (tmp_path / "mountinfo").write_text(f"31 24 0:27 {mount}\n")
    return room.groups(str(tmp_path))


@pytest.mark.parametrize("note", ["", "src\n", "/\n", "/src/../other\n", "/src\n/other\n", "\n"])
def test_a_source_directory_that_is_noted_otherwise_does_not_count(tmp_path: Path, note: str) -> None:
    (tmp_path / ".hipcache-source").write_text(note)
    assert files.source_directory(str(tmp_path)) is None


def test_the_nearest_note_of_a_source_directory_counts(tmp_path: Path) -> None:
    (tmp_path / "build/below").mkdir(parents=True)
    (tmp_path / ".hipcache-source").write_text("/far\n")
    (tmp_path / "build/.hipcache-source").write_text("/near\n")
    assert files.source_directory(str(tmp_path / "build/below")) == Path("/near")
    (tmp_path / "build/.hipcache-source").unlink()
    (tmp_path / "build/.hipcache-source").symlink_to("../.hipcache-source")
    assert files.source_directory(str(tmp_path / "build/below")) == Path("/far")

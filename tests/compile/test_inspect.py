"""`hipcache inspect`: the key of each unit in words; and what hipcache says to options of other caches."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hip import Lab, only_19
from hipcache import cli
from hipcache.cli.ccache_options import OPTIONS, OTHERS, hint
from hipcache.config.settings import VARIABLES

pytestmark = pytest.mark.archs(1)

PAGE = (Path(__file__).parents[2] / "docs/from-ccache.md").read_text()
COMMANDS = PAGE.partition("## Commands")[2].partition("\n## ")[0]


@only_19
def test_a_units_key_and_what_it_read_are_shown(lab: Lab) -> None:
    lab.compile("-DSIZE=3")
    shown = lab.hipcache("inspect", "out.o").out.decode()
    assert shown.startswith(f"'{lab.root}/out.o'\n  command    ")
    assert "-DSIZE=3" in shown
    assert re.search(
        rf"^    [0-9a-f]{{16}}  {lab.root}/hip_in_short.hpp$|^    [0-9a-f]{{16}}  hip_in_short.hpp$", shown, re.M
    )
    assert len(re.findall(r"^  read 2 files; looked for \d+ more that did not exist:$", shown, re.MULTILINE)) >= 2

    one = json.loads(lab.hipcache("inspect", "--json", "--unit", "host").out)
    assert one["directory"] == str(lab.root)
    (host,) = one["units"].values()
    assert dict(host["key"])["compiler"]
    assert {Path(path).name for path in host["reads"]["files"]} >= {"k.hip", "hip_in_short.hpp"}
    # That is the key: another macro, another list.
    lab.compile("-DSIZE=4")
    (other,) = json.loads(lab.hipcache("inspect", "--json", "--unit", "host").out)["units"].values()
    assert other["key"] != host["key"]

    wrong = lab.hipcache("inspect", "--unit", "gfx9999")
    assert wrong.status == 1
    assert "host" in wrong.err.decode().splitlines()[1]


def test_without_a_compile_there_is_nothing_to_show(lab: Lab) -> None:
    ended = lab.hipcache("inspect", "other.o")
    assert ended.status == 1
    assert ended.err.decode().startswith("hipcache: the store has no record of a compile of 'other.o'\n")


@pytest.mark.parametrize(
    ("option", "told"), [("-s", "hipcache stats"), ("--max-size=5G", "hipcache config set max_size SIZE")]
)
def test_an_option_of_ccache_is_answered_with_the_word_for_it(lab: Lab, option: str, told: str) -> None:
    ended = lab.hipcache(option)
    assert ended.status == 2
    assert ended.err.decode() == f"hipcache: unknown option '{option}'\n  here it is '{told}'\n"


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("-M5G", "hipcache config set max_size SIZE"),
        ("-F0", "number of files"),
        ("-kmax_size", "hipcache config get KEY"),
        ("-omax_size=5G", "hipcache config set KEY VALUE"),
        ("-zs", "hipcache stats --zero"),
        ("-Cz", "hipcache clear"),
        ("-vv", "hipcache stats"),
        ("--trim-max-size=5G", "hipcache gc --max-size SIZE"),
        ("--json", "hipcache stats --json"),
        ("--verbose", "HIPCACHE_LOG"),
        ("--", "leave it out"),
    ],
)
def test_options_in_one_word_and_those_of_others_are_known(option: str, told: str) -> None:
    assert told in (hint(option) or "")


@pytest.mark.parametrize("option", ["-std=c++17", "-MD", "-MMD", "-fgpu-rdc", "-O2", "-save-temps", "-out.o"])
def test_an_option_of_a_compiler_is_none_of_a_cache(option: str) -> None:
    assert hint(option) is None


def test_no_server_is_to_be_started(lab: Lab) -> None:
    assert b"needs no server" in lab.hipcache("--start-server").err


def test_the_word_for_it_exists() -> None:
    assert {words.split()[1] for words in OPTIONS.values()} <= {*cli.VERBS, *cli.OPTIONS}


def test_an_option_without_an_equal_says_what_to_do_and_names_what_exists() -> None:
    told = [hint(f"{option}=7") or "" for option in OTHERS]
    assert not [option for option, text in zip(OTHERS, told, strict=True) if not text or "here it is" in text]
    assert set(re.findall(r"HIPCACHE_[A-Z]+", "\n".join(told))) <= {*VARIABLES}
    assert set(re.findall(r"'hipcache (\w+)", "\n".join(told))) <= {*cli.VERBS}


def test_the_page_has_the_same_words() -> None:
    rows = [row.split("|")[1:3] for row in COMMANDS.splitlines() if row.startswith("| ")]
    for option in re.findall(r"(?<=[` ])-[\w-]+", "\n".join(map("\n".join, rows))):
        assert option in OPTIONS or option in OTHERS, option


# The variables of ccache's settings whose names are not the setting's without underscores.
OF_CCACHE = {
    "absolute_paths_in_stderr": "ABSSTDERR",
    "base_dir": "BASEDIR",
    "cache_dir": "DIR",
    "ceiling_dirs": "CEILING_DIRS",
    "ceiling_markers": "CEILING_MARKERS",
    "compression": "COMPRESS",
    "compression_level": "COMPRESSLEVEL",
    "cpp_extension": "EXTENSION",
    "depend_mode": "DEPEND",
    "direct_mode": "DIRECT",
    "extra_files_to_hash": "EXTRAFILES",
    "ignore_headers_in_manifest": "IGNOREHEADERS",
    "keep_comments_cpp": "COMMENTS",
    "libexec_dirs": "LIBEXEC_DIRS",
    "limit_multiple": "LIMIT_MULTIPLE",
    "log_file": "LOGFILE",
    "msvc_dep_prefix": "MSVC_DEP_PREFIX",
    "msvc_utf8": "MSVC_UTF8",
    "pch_external_checksum": "PCH_EXTSUM",
    "prefix_command": "PREFIX",
    "prefix_command_cpp": "PREFIX_CPP",
    "read_only_direct": "READONLY_DIRECT",
    "remote_only": "REMOTE_ONLY",
    "remote_storage": "REMOTE_STORAGE",
    "response_file_format": "RESPONSE_FILE_FORMAT",
    "run_second_cpp": "CPP2",
    "safe_dirs": "SAFE_DIRS",
    "temporary_dir": "TEMPDIR",
}
# Of sccache 0.16, apart from the names of its tests.
OF_SCCACHE = """
ALLOW_CORE_DUMPS AZURE_BLOB_CONTAINER AZURE_CONNECTION_STRING AZURE_KEY_PREFIX AZURE_RW_MODE BASEDIRS BUCKET CACHED_CONF
CACHE_MULTIARCH CACHE_SIZE CACHE_ZSTD_LEVEL CONF COS_BUCKET COS_ENDPOINT COS_KEY_PREFIX COS_RW_MODE
C_CUSTOM_CACHE_BUSTER DIR DIRECT ENDPOINT ERROR_LOG GCS_BUCKET GCS_CREDENTIALS_URL GCS_KEY_PATH GCS_KEY_PREFIX
GCS_OAUTH_URL GCS_RW_MODE GCS_SERVICE_ACCOUNT GHA_ENABLED GHA_RW_MODE GHA_VERSION IDLE_TIMEOUT IGNORE_SERVER_IO_ERROR
LOCAL_RW_MODE LOG LOG_MILLIS MAX_FRAME_LENGTH MEMCACHED MEMCACHED_ENDPOINT MEMCACHED_EXPIRATION MEMCACHED_KEY_PREFIX
MEMCACHED_PASSWORD MEMCACHED_RW_MODE MEMCACHED_USERNAME MULTILEVEL_CHAIN MULTILEVEL_WRITE_ERROR_POLICY NO_CACHE
NO_DAEMON
OSS_BUCKET OSS_ENDPOINT OSS_KEY_PREFIX OSS_NO_CREDENTIALS OSS_RW_MODE RECACHE REDIS REDIS_CLUSTER_ENDPOINTS REDIS_DB
REDIS_ENDPOINT REDIS_EXPIRATION REDIS_KEY_PREFIX REDIS_PASSWORD REDIS_RW_MODE REDIS_TTL REDIS_USERNAME REGION
S3_ENABLE_VIRTUAL_HOST_STYLE S3_KEY_PREFIX S3_NO_CREDENTIALS S3_RW_MODE S3_SERVER_SIDE_ENCRYPTION S3_USE_SSL
SERVER_PORT SERVER_UDS STARTUP_NOTIFY START_SERVER WEBDAV_ENDPOINT WEBDAV_KEY_PREFIX WEBDAV_PASSWORD WEBDAV_RW_MODE
WEBDAV_TOKEN WEBDAV_USERNAME
"""


def _on_the_page(variable: str) -> bool:
    """By its name, or by those that begin alike: `SCCACHE_REDIS_...`."""
    families = re.findall(r"`(S?CCACHE_[A-Z0-9_]+_)\.\.\.`", PAGE)
    ends = ("_RW_MODE",) if "`..._RW_MODE=" in PAGE else ()
    exact = re.search(rf"`{variable}(?:=[^`]*)?`", PAGE)
    return bool(exact) or variable.startswith(tuple(families)) or variable.endswith(ends)


@pytest.mark.skipif(not shutil.which("ccache"), reason="no ccache")
def test_each_setting_of_ccache_is_on_the_page() -> None:
    shown = subprocess.run(["ccache", "--show-config"], capture_output=True, text=True, check=True, timeout=60).stdout
    settings = re.findall(r"^\([^\n]*\) (\w+) =", shown, re.MULTILINE)
    assert len(settings) > 40
    missing = [
        one for one in settings if not _on_the_page("CCACHE_" + OF_CCACHE.get(one, one.replace("_", "").upper()))
    ]
    assert missing == []


def test_each_variable_of_sccache_is_on_the_page() -> None:
    assert not [name for name in OF_SCCACHE.split() if not _on_the_page(f"SCCACHE_{name}")]

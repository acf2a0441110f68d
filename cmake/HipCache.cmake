#[=======================================================================[.rst:
HipCache
--------

Compile the HIP sources of a project through hipcache, which caches each GPU architecture on its own.

Three ways in:

* ``include(HipCache)``, with ``-DCMAKE_MODULE_PATH=$(hipcache --cmakedir)``
* ``find_package(HipCache)``, with hipcache in ``PATH`` or its prefix in ``CMAKE_PREFIX_PATH``
* ``-DCMAKE_PROJECT_TOP_LEVEL_INCLUDES=$(hipcache --cmakedir)/HipCache.cmake``, for a project without an edit (CMake 3.24;
  ``-DCMAKE_PROJECT_INCLUDE=...`` does the same with older ones)

Variables:

``HIPCACHE``
  Option, ON by default. OFF leaves every target as if this module did not exist.
``HIPCACHE_PREFETCH``
  ON by default: if a remote is set (HIPCACHE_REMOTE), the first step of the build is `hipcache prefetch`, which fetches
  the results of all compiles at once.
``HIPCACHE_SHARE_CHECKOUTS``
  OFF by default. ON: paths below CMAKE_SOURCE_DIR are relative in keys, so that a checkout in another directory is served
  what does not name this one. HIPCACHE_BASEDIR, in the environment or a config file, wins.
``HIPCACHE_PROGRAM``
  The hipcache to use, instead of the one installed beside this module or in ``PATH``.

This module keeps a target's own HIP_COMPILER_LAUNCHER; an empty one keeps that target out of the cache. Targets with
``-fgpu-rdc`` in their options also get a HIP_LINKER_LAUNCHER.

This module also covers C++ that is compiled as HIP: targets that get `-x hip` or `--offload-arch` from a library
(``hip::device``), from their options or from CMAKE_CXX_FLAGS, and all targets if CMAKE_CXX_COMPILER is hipcc. If such a
target already has a cache (ccache, sccache) as CXX_COMPILER_LAUNCHER, it stays behind hipcache and gets the sources that
are not HIP. Any other launcher stays as it is, without hipcache.
#]=======================================================================]

include("${CMAKE_CURRENT_LIST_DIR}/HipCacheIree.cmake") # hipcache_iree_module()

# This file may run before any language is enabled (through CMAKE_PROJECT_TOP_LEVEL_INCLUDES) or after targets exist (a
# late include()). So it only finds the program here. The work is deferred to the end of the top directory, where all
# targets and languages are known. Only the option itself goes into CMake's cache, so a reconfigure with HIPCACHE=OFF has
# nothing to clean up.

cmake_policy(PUSH)
cmake_policy(VERSION 3.21...4.0)

# The hipcache program, or nothing with a warning. Every configure searches again, so that a moved installation leaves no
# stale path behind.
function(_hipcache_find_program out)
  set(${out} "" PARENT_SCOPE)

  _hipcache_search(program)
  if(NOT program AND HIPCACHE_PROGRAM)
    message(WARNING
      "HipCache: HIPCACHE_PROGRAM is '${HIPCACHE_PROGRAM}', which is not a program: this build is not cached.\n"
      "Name an installed hipcache, or remove the setting with -UHIPCACHE_PROGRAM.")
    return()
  elseif(NOT program)
    message(WARNING
      "HipCache: the program 'hipcache' was not found: this build is not cached.\n"
      "Install it, or name it with -DHIPCACHE_PROGRAM=/path/to/hipcache.")
    return()
  endif()

  # A launcher that does not start would fail every compile; without a launcher compiles only take longer.
  execute_process(COMMAND "${program}" --version
    RESULT_VARIABLE status OUTPUT_VARIABLE version ERROR_VARIABLE said TIMEOUT 60)
  if(NOT status EQUAL 0)
    string(STRIP "${said}" said)
    message(WARNING
      "HipCache: '${program} --version' failed (${status}): this build is not cached.\n"
      "${said}\n"
      "Install hipcache again, or name another one with -DHIPCACHE_PROGRAM=/path/to/hipcache.")
    return()
  elseif(NOT version MATCHES "(^|\n)hipcache [0-9]")
    message(WARNING
      "HipCache: '${program}' is not hipcache, by what its --version says: this build is not cached.\n"
      "Name an installed hipcache with -DHIPCACHE_PROGRAM=/path/to/hipcache.")
    return()
  endif()
  set(${out} "${program}" PARENT_SCOPE)
endfunction()

# All source directories of the project from `directory` downwards.
function(_hipcache_directories out directory)
  set(all "${directory}")
  _hipcache_property(children DIRECTORY "${directory}" PROPERTY SUBDIRECTORIES)
  foreach(child IN LISTS children)
    _hipcache_directories(below "${child}")
    list(APPEND all ${below})
  endforeach()
  set(${out} "${all}" PARENT_SCOPE)
endfunction()

# All targets of the project that may compile something.
function(_hipcache_compiled_targets out)
  set(all "")
  _hipcache_directories(directories "${CMAKE_SOURCE_DIR}")
  foreach(directory IN LISTS directories)
    _hipcache_property(targets DIRECTORY "${directory}" PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
      get_target_property(type "${target}" TYPE)
      if(type MATCHES "^(STATIC_LIBRARY|SHARED_LIBRARY|MODULE_LIBRARY|OBJECT_LIBRARY|EXECUTABLE)$")
        list(APPEND all "${target}")
      endif()
    endforeach()
  endforeach()
  set(${out} "${all}" PARENT_SCOPE)
endfunction()

# Whether a target has HIP sources, by extension or by their LANGUAGE property.
function(_hipcache_has_hip_sources out target)
  set(${out} FALSE PARENT_SCOPE)
  _hipcache_property(sources TARGET "${target}" PROPERTY SOURCES)
  get_target_property(directory "${target}" SOURCE_DIR)
  foreach(source IN LISTS sources)
    if(source MATCHES "\\.hip>*$" AND NOT source MATCHES "TARGET_OBJECTS")
      set(${out} TRUE PARENT_SCOPE)
      return()
    elseif(NOT source MATCHES "\\$<")
      get_filename_component(source "${source}" ABSOLUTE BASE_DIR "${directory}")
      _hipcache_property(language SOURCE "${source}" TARGET_DIRECTORY "${target}" PROPERTY LANGUAGE)
      if(language STREQUAL "HIP")
        set(${out} TRUE PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
endfunction()

# Whether a launcher (a command line as a list) is hipcache, by any path and behind any prefix such as `env A=1`.
function(_hipcache_is_hipcache out launcher)
  set(${out} FALSE PARENT_SCOPE)
  _hipcache_property(program GLOBAL PROPERTY _HIPCACHE_PROGRAM)
  foreach(word IN LISTS launcher)
    get_filename_component(name "${word}" NAME)
    if(name MATCHES "^hipcache(\\.exe)?$" OR (program AND word STREQUAL program))
      set(${out} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# A link of relocatable device code has a device link for each architecture: hipcache before that linker, too.
# (Flags that a target has by way of another one are not seen here: -DCMAKE_HIP_LINKER_LAUNCHER=hipcache is for those.)
function(_hipcache_cover_link target program)
  _hipcache_flags(flags "${target}" HIP)
  _hipcache_property(options TARGET "${target}" PROPERTY LINK_OPTIONS)
  get_property(is_set TARGET "${target}" PROPERTY HIP_LINKER_LAUNCHER SET)
  get_target_property(type "${target}" TYPE)
  if(NOT is_set AND type MATCHES "^(EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY)$" AND "${flags} ${options}" MATCHES "[ :;]-fgpu-rdc")
    set_property(TARGET "${target}" PROPERTY HIP_LINKER_LAUNCHER "${program}")
  endif()
endfunction()

# Give the launcher to every target that has none. HIP targets that are cached go to `covered`, those with somebody
# else's launcher to `kept`.
function(_hipcache_cover_targets program covered kept)
  set(ours "")
  set(theirs "")
  _hipcache_compiled_targets(targets)
  foreach(target IN LISTS targets)
    _hipcache_has_hip_sources(has_hip "${target}")

    get_property(is_set TARGET "${target}" PROPERTY HIP_COMPILER_LAUNCHER SET)
    _hipcache_property(launcher TARGET "${target}" PROPERTY HIP_COMPILER_LAUNCHER)
    _hipcache_is_hipcache(is_ours "${launcher}")
    # An empty property is a refusal, unless the target only inherited it from -DCMAKE_HIP_COMPILER_LAUNCHER=
    if(is_set AND launcher STREQUAL "" AND DEFINED CACHE{CMAKE_HIP_COMPILER_LAUNCHER}
        AND "$CACHE{CMAKE_HIP_COMPILER_LAUNCHER}" STREQUAL "")
      set(is_set FALSE)
    endif()
    if(NOT is_set)
      set_property(TARGET "${target}" PROPERTY HIP_COMPILER_LAUNCHER "${program}")
      set(is_ours TRUE)
    endif()
    if(has_hip AND is_ours)
      _hipcache_cover_link("${target}" "${program}")
    endif()

    if(has_hip AND is_ours)
      list(APPEND ours "${target}")
    elseif(has_hip)
      list(APPEND theirs "${target}")
    endif()
  endforeach()
  set(${covered} "${ours}" PARENT_SCOPE)
  set(${kept} "${theirs}" PARENT_SCOPE)
endfunction()

# Whether flags make HIP of C++.
function(_hipcache_flags_make_hip out flags)
  set(${out} FALSE PARENT_SCOPE)
  if("${flags}" MATCHES "-x[ ;]*hip|--offload-arch|--cuda-gpu-arch")
    set(${out} TRUE PARENT_SCOPE)
  endif()
endfunction()

# Whether one of `libraries`, or what they link to, hands such flags on. Names stand in generator expressions, too; an
# imported target of another directory is not seen from here, so one of ROCm's is taken for what it is as a rule.
function(_hipcache_libraries_hand_hip out libraries)
  set(${out} FALSE PARENT_SCOPE)
  string(REGEX REPLACE "\\$<LINK_ONLY:[^>]*>" "" names "${libraries}")
  string(REPLACE "::" "@@" names "${names}")
  string(REGEX REPLACE "[$<>,:]" ";" names "${names}")
  string(REPLACE "@@" "::" names "${names}")
  list(REMOVE_DUPLICATES names)
  foreach(name IN LISTS names)
    if(TARGET "${name}")
      _hipcache_property(aliased TARGET "${name}" PROPERTY ALIASED_TARGET)
      if(aliased)
        set(name "${aliased}")
      endif()
      get_property(seen GLOBAL PROPERTY "_HIPCACHE_SEEN_${name}" SET)
      if(NOT seen)
        set_property(GLOBAL PROPERTY "_HIPCACHE_SEEN_${name}" FALSE) # ends circles
        _hipcache_property(flags TARGET "${name}" PROPERTY INTERFACE_COMPILE_OPTIONS)
        _hipcache_flags_make_hip(hands "${flags}")
        if(NOT hands)
          _hipcache_property(below TARGET "${name}" PROPERTY INTERFACE_LINK_LIBRARIES)
          _hipcache_libraries_hand_hip(hands "${below}")
        endif()
        set_property(GLOBAL PROPERTY "_HIPCACHE_SEEN_${name}" "${hands}")
      endif()
      _hipcache_property(hands GLOBAL PROPERTY "_HIPCACHE_SEEN_${name}")
    elseif(name MATCHES "^(roc|hip)::" AND NOT name MATCHES "^hip::(host|amdhip64|hiprtc)$")
      set(hands TRUE)
    else()
      set(hands FALSE)
    endif()
    if(hands)
      set(${out} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Whether a target's C++ is compiled as HIP.
function(_hipcache_cxx_is_hip out target)
  set(${out} TRUE PARENT_SCOPE)
  get_target_property(directory "${target}" SOURCE_DIR)
  _hipcache_definition(compiler "${directory}" CMAKE_CXX_COMPILER)
  get_filename_component(name "${compiler}" NAME)
  if(name MATCHES "^hipcc")
    return()
  endif()
  _hipcache_flags(flags "${target}" CXX)
  _hipcache_flags_make_hip(is_hip "${flags}")
  if(NOT is_hip)
    _hipcache_property(libraries TARGET "${target}" PROPERTY LINK_LIBRARIES)
    _hipcache_libraries_hand_hip(is_hip "${libraries}")
  endif()
  set(${out} "${is_hip}" PARENT_SCOPE)
endfunction()

# Give the launcher to every target whose C++ is HIP. Those that are cached go to `covered`.
function(_hipcache_cover_cxx_targets program covered)
  set(ours "")
  _hipcache_compiled_targets(targets)
  foreach(target IN LISTS targets)
    _hipcache_cxx_is_hip(is_hip "${target}")
    if(NOT is_hip)
      continue()
    endif()

    get_property(is_set TARGET "${target}" PROPERTY CXX_COMPILER_LAUNCHER SET)
    _hipcache_property(launcher TARGET "${target}" PROPERTY CXX_COMPILER_LAUNCHER)
    _hipcache_is_hipcache(is_ours "${launcher}")
    # As for HIP: of -DCMAKE_CXX_COMPILER_LAUNCHER= each target has inherited the empty property.
    if(is_set AND launcher STREQUAL "" AND DEFINED CACHE{CMAKE_CXX_COMPILER_LAUNCHER}
        AND "$CACHE{CMAKE_CXX_COMPILER_LAUNCHER}" STREQUAL "")
      set(is_set FALSE)
    endif()
    if(NOT is_ours AND (NOT is_set OR "${launcher}" MATCHES "^([^;]*/)?(ccache|sccache|buildcache|distcc|icecc)(;|$)"))
      set_property(TARGET "${target}" PROPERTY CXX_COMPILER_LAUNCHER "${program}" ${launcher})
      set(is_ours TRUE)
    endif()
    if(is_ours)
      list(APPEND ours "${target}")
    else()
      string(REPLACE ";" " " launcher "${launcher}")
      if(launcher STREQUAL "")
        message(STATUS "HipCache: not cached, CXX_COMPILER_LAUNCHER is set to nothing: ${target}")
      else()
        message(STATUS "HipCache: not cached, CXX_COMPILER_LAUNCHER is already '${launcher}': ${target}")
      endif()
    endif()
  endforeach()
  set(${covered} "${ours}" PARENT_SCOPE)
endfunction()

# Where HIPCACHE_CXX_CACHE names a cache for what is not HIP, give the launcher to C and C++ that have none.
function(_hipcache_hand_over program)
  execute_process(COMMAND "${program}" config get cxx_cache
    OUTPUT_VARIABLE cache ERROR_QUIET TIMEOUT 60 OUTPUT_STRIP_TRAILING_WHITESPACE)
  if("${cache}" MATCHES "^(none)?$")
    return()
  endif()
  _hipcache_compiled_targets(targets)
  foreach(target IN LISTS targets)
    foreach(language IN ITEMS C CXX)
      get_property(is_set TARGET "${target}" PROPERTY ${language}_COMPILER_LAUNCHER SET)
      if(NOT is_set)
        set_property(TARGET "${target}" PROPERTY ${language}_COMPILER_LAUNCHER "${program}")
      endif()
    endforeach()
  endforeach()
endfunction()

# One line for each foreign launcher that stays, with its targets.
function(_hipcache_say_kept targets)
  set(launchers "")
  foreach(target IN LISTS targets)
    _hipcache_property(launcher TARGET "${target}" PROPERTY HIP_COMPILER_LAUNCHER)
    string(REPLACE ";" " " launcher "${launcher}")
    string(MD5 key "${launcher}")
    list(APPEND launchers "${key}")
    set(text_${key} "${launcher}")
    string(APPEND targets_${key} " ${target}")
  endforeach()
  list(REMOVE_DUPLICATES launchers)
  foreach(key IN LISTS launchers)
    if(text_${key} STREQUAL "")
      message(STATUS "HipCache: not cached, HIP_COMPILER_LAUNCHER is set to nothing:${targets_${key}}")
    else()
      message(STATUS "HipCache: not cached, HIP_COMPILER_LAUNCHER is already '${text_${key}}':${targets_${key}}")
    endif()
  endforeach()
endfunction()

# A variable as a directory of the project sees it: HIP may be enabled in a subdirectory only.
macro(_hipcache_definition out directory variable)
  get_directory_property(${out} DIRECTORY "${directory}" DEFINITION "${variable}")
endmacro()

# Whether HIP compiles for AMD, with a message if not. CMake knows the platform once it has enabled the language.
function(_hipcache_is_amd out)
  set(${out} TRUE PARENT_SCOPE)
  if(CMAKE_HIP_PLATFORM AND NOT CMAKE_HIP_PLATFORM STREQUAL "amd")
    message(STATUS "HipCache: CMAKE_HIP_PLATFORM is '${CMAKE_HIP_PLATFORM}', hipcache caches 'amd' only: off")
    set(${out} FALSE PARENT_SCOPE)
  endif()
endfunction()

# Every flag a target's sources may get from variables and from its own options, as one string.
function(_hipcache_flags out target language)
  get_target_property(directory "${target}" SOURCE_DIR)
  _hipcache_definition(flags "${directory}" CMAKE_${language}_FLAGS)
  foreach(config IN LISTS CMAKE_BUILD_TYPE CMAKE_CONFIGURATION_TYPES)
    string(TOUPPER "${config}" config)
    _hipcache_definition(more "${directory}" "CMAKE_${language}_FLAGS_${config}")
    string(APPEND flags " ${more}")
  endforeach()
  _hipcache_property(options TARGET "${target}" PROPERTY COMPILE_OPTIONS)
  string(REPLACE ";" " " options "${options}")
  set(${out} " ${flags} ${options} " PARENT_SCOPE)
endfunction()

# Warn where a setting takes away what this module is for. `covered` are the HIP targets that are cached, `cxx_covered`
# those whose C++ is compiled as HIP.
function(_hipcache_warn covered cxx_covered)
  set(arch_off "")
  set(unity "")
  set(passed_HIP "")
  set(passed_CXX "")
  set(rule_launchers "")
  _hipcache_property(rule GLOBAL PROPERTY RULE_LAUNCH_COMPILE)
  list(APPEND rule_launchers "${rule}")

  foreach(target IN LISTS covered)
    # OFF with the architectures in the flags is a way to write them down, too.
    _hipcache_flags(flags "${target}" HIP)
    _hipcache_property(architectures TARGET "${target}" PROPERTY HIP_ARCHITECTURES)
    if(architectures MATCHES "^([Oo][Ff][Ff]|[Nn][Oo]|[Ff][Aa][Ll][Ss][Ee]|0)$"
        AND NOT flags MATCHES " --?(offload-arch|cuda-gpu-arch)")
      list(APPEND arch_off "${target}")
    endif()
    _hipcache_passed_flag("${flags}" passed_HIP)
    _hipcache_rule_launchers("${target}" rule_launchers)
  endforeach()

  foreach(target IN LISTS cxx_covered)
    _hipcache_merges_cxx(merges "${target}")
    if(merges)
      list(APPEND unity "${target}")
    endif()
    _hipcache_flags(flags "${target}" CXX)
    _hipcache_passed_flag("${flags}" passed_CXX)
    _hipcache_rule_launchers("${target}" rule_launchers)
  endforeach()

  if(arch_off)
    string(REPLACE ";" " " arch_off "${arch_off}")
    message(WARNING
      "HipCache: HIP_ARCHITECTURES is OFF for ${arch_off}: CMake passes no architecture, so clang compiles for its "
      "default one only.\n"
      "Set CMAKE_HIP_ARCHITECTURES to the architectures you ship, such as \"gfx906;gfx90a\".")
  endif()

  if(unity)
    string(REPLACE ";" " " unity "${unity}")
    message(WARNING
      "HipCache: UNITY_BUILD is on for ${unity}, whose C++ is compiled as HIP: CMake merges sources, so an edit of one "
      "recompiles all of them for every architecture.\n"
      "Set the UNITY_BUILD property of these targets to OFF.")
  endif()

  foreach(language IN ITEMS HIP CXX)
    if(passed_${language})
      list(REMOVE_DUPLICATES passed_${language})
      string(REPLACE ";" " " passed "${passed_${language}}")
      string(REPLACE "CXX" "C++" name "${language}")
      message(WARNING
        "HipCache: the ${name} flags contain ${passed}: hipcache passes such compiles to the compiler and caches "
        "nothing.\n"
        "Remove the flag where it is not needed.")
    endif()
  endforeach()

  # `ctest --launch` reports a compile and runs the rest of its command line: hipcache is still reached.
  list(REMOVE_DUPLICATES rule_launchers)
  list(FILTER rule_launchers EXCLUDE REGEX "^$|ctest[^ ]* +--launch|hipcache")
  if(rule_launchers)
    string(REPLACE ";" "', '" rule_launchers "${rule_launchers}")
    message(WARNING
      "HipCache: RULE_LAUNCH_COMPILE puts '${rule_launchers}' in front of hipcache. A compile cache there (ccache, "
      "sccache) caches whole objects, so a new architecture recompiles all of them.\n"
      "Switch it off for HIP sources; many projects have an option for it.")
  endif()
endfunction()

# Whether CMake merges sources of a target that are C++. It merges none of the language HIP.
function(_hipcache_merges_cxx out target)
  set(${out} FALSE PARENT_SCOPE)
  _hipcache_property(is_unity TARGET "${target}" PROPERTY UNITY_BUILD)
  if(NOT is_unity)
    return()
  endif()
  _hipcache_property(sources TARGET "${target}" PROPERTY SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.(C|CPP|c\\+\\+|cc|cpp|cxx)>*$")
  list(FILTER sources EXCLUDE REGEX "TARGET_OBJECTS")
  get_target_property(directory "${target}" SOURCE_DIR)
  set(count 0)
  foreach(source IN LISTS sources)
    set(skips FALSE)
    set(language CXX)
    if(NOT source MATCHES "\\$<")
      get_filename_component(source "${source}" ABSOLUTE BASE_DIR "${directory}")
      _hipcache_property(skips SOURCE "${source}" TARGET_DIRECTORY "${target}" PROPERTY SKIP_UNITY_BUILD_INCLUSION)
      _hipcache_property(language SOURCE "${source}" TARGET_DIRECTORY "${target}" PROPERTY LANGUAGE)
    endif()
    if(NOT skips AND (NOT language OR language STREQUAL "CXX"))
      math(EXPR count "${count} + 1")
    endif()
  endforeach()
  if(count GREATER 1)
    set(${out} TRUE PARENT_SCOPE)
  endif()
endfunction()

# Append to `list` a flag with which a compile passes through, if there is one.
function(_hipcache_passed_flag flags list)
  if(flags MATCHES "[ :](--?save-temps[^ >]*)")
    list(APPEND ${list} "${CMAKE_MATCH_1}")
    set(${list} "${${list}}" PARENT_SCOPE)
  endif()
endfunction()

# Append to `list` the programs that a target and its directory put before every compile.
function(_hipcache_rule_launchers target list)
  get_target_property(directory "${target}" SOURCE_DIR)
  _hipcache_property(of_directory DIRECTORY "${directory}" PROPERTY RULE_LAUNCH_COMPILE)
  _hipcache_property(of_target TARGET "${target}" PROPERTY RULE_LAUNCH_COMPILE)
  list(APPEND ${list} "${of_directory}" "${of_target}")
  set(${list} "${${list}}" PARENT_SCOPE)
endfunction()

# The compiler and its version, as in `clang++ 15.0.6`.
function(_hipcache_compiler out directory language)
  _hipcache_definition(compiler "${directory}" CMAKE_${language}_COMPILER)
  _hipcache_definition(version "${directory}" CMAKE_${language}_COMPILER_VERSION)
  get_filename_component(name "${compiler}" NAME)
  string(REGEX REPLACE "-[0-9.]+$" "" name "${name}")
  string(STRIP "${name} ${version}" name)
  set(${out} "${name}" PARENT_SCOPE)
endfunction()

# The architectures of all cached targets, in the project's order, as words.
function(_hipcache_architectures out covered)
  set(all "")
  foreach(target IN LISTS covered)
    _hipcache_property(architectures TARGET "${target}" PROPERTY HIP_ARCHITECTURES)
    if(architectures AND NOT architectures MATCHES "\\$<")
      list(APPEND all ${architectures})
    else()
      list(APPEND all "architectures-by-flags")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES all)
  string(REPLACE ";" " " all "${all}")
  string(REPLACE "architectures-by-flags" "the architectures in its flags" all "${all}")
  set(${out} "${all}" PARENT_SCOPE)
endfunction()

# Bytes as MiB or GiB with one decimal: CMake's math has integers only.
function(_hipcache_size out bytes)
  set(unit 1048576)
  set(name MiB)
  if(bytes GREATER_EQUAL 1073741824)
    set(unit 1073741824)
    set(name GiB)
  endif()
  math(EXPR tenths "(${bytes} * 10 + ${unit} / 2) / ${unit}")
  math(EXPR whole "${tenths} / 10")
  math(EXPR rest "${tenths} % 10")
  set(${out} "${whole}.${rest} ${name}" PARENT_SCOPE)
endfunction()

# Where the store is and how full, as in `store /home/me/.cache/hipcache (3.1 MiB of 10.0 GiB)`. Empty if hipcache does not
# say: a line of information is no reason to stop.
function(_hipcache_store out program)
  set(${out} "" PARENT_SCOPE)
  execute_process(COMMAND "${program}" config --json
    RESULT_VARIABLE status OUTPUT_VARIABLE config ERROR_QUIET TIMEOUT 60)
  if(NOT status EQUAL 0)
    return()
  endif()
  string(JSON directory ERROR_VARIABLE error GET "${config}" HIPCACHE_DIR value)
  if(error)
    return()
  endif()
  set(text ", store ${directory}")

  execute_process(COMMAND "${program}" stats --json
    RESULT_VARIABLE status OUTPUT_VARIABLE stats ERROR_QUIET TIMEOUT 60)
  if(status EQUAL 0)
    string(JSON used ERROR_VARIABLE no_used GET "${stats}" store bytes)
    string(JSON limit ERROR_VARIABLE no_limit GET "${stats}" store max_bytes)
    if(NOT no_used AND "${used}" MATCHES "^[0-9]+$")
      _hipcache_size(used "${used}")
      if(NOT no_limit AND "${limit}" MATCHES "^[1-9][0-9]*$")
        _hipcache_size(limit "${limit}")
        string(APPEND text " (${used} of ${limit})")
      else()
        string(APPEND text " (${used}, no limit)")
      endif()
    endif()
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# Warn of each condition that prevents caching here, also by that compiler, in hipcache's words: one line each.
function(_hipcache_warn_of_conditions program compiler)
  execute_process(COMMAND "${program}" doctor --brief --compiler "${compiler}"
    RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_QUIET TIMEOUT 60 OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(status EQUAL 1 AND said)
    string(REPLACE "\n" "\nHipCache: " said "${said}")
    message(WARNING "HipCache: ${said}")
  endif()
endfunction()

# If a remote is set, fetch the results for the `covered` targets before the first of them is compiled: once per build
# directory, and again when the commands change. The step never fails.
function(_hipcache_prefetch program covered)
  if(DEFINED HIPCACHE_PREFETCH AND NOT HIPCACHE_PREFETCH)
    return()
  endif()
  execute_process(COMMAND "${program}" config --json
    RESULT_VARIABLE status OUTPUT_VARIABLE config ERROR_QUIET TIMEOUT 60)
  if(NOT status EQUAL 0 OR TARGET hipcache_prefetch)
    return()
  endif()
  string(JSON remote ERROR_VARIABLE error GET "${config}" HIPCACHE_REMOTE value)
  if(error OR NOT remote MATCHES ":")
    return()
  endif()
  set(commands "${CMAKE_BINARY_DIR}/compile_commands.json")
  set(stamp "${CMAKE_BINARY_DIR}/CMakeFiles/hipcache_prefetch.stamp")
  add_custom_command(OUTPUT "${stamp}"
    COMMAND sh -c [["$0" prefetch --step "$1" || :]] "${program}" "${commands}"
    COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
    DEPENDS "${commands}"
    COMMENT "Prefetching results of this build from hipcache's remote"
    VERBATIM)
  add_custom_target(hipcache_prefetch DEPENDS "${stamp}")
  foreach(target IN LISTS covered)
    set_property(TARGET "${target}" PROPERTY EXPORT_COMPILE_COMMANDS ON)
    add_dependencies("${target}" hipcache_prefetch)
  endforeach()
endfunction()

# Have CMake list its targets in the build directory, for `hipcache report` and `hipcache explain TARGET`. CMake before
# 3.27 looks for queries before it reads the project, so there the list appears with the next configure step.
function(_hipcache_ask_for_targets)
  if(COMMAND cmake_file_api)
    cmake_file_api(QUERY API_VERSION 1 CODEMODEL 2)
  elseif(NOT EXISTS "${CMAKE_BINARY_DIR}/.cmake/api/v1/query/client-hipcache/codemodel-v2")
    file(WRITE "${CMAKE_BINARY_DIR}/.cmake/api/v1/query/client-hipcache/codemodel-v2" "")
  endif()
endfunction()

# Note the source directory in the build directory, where hipcache looks for it (config/files.py). `out`: what the
# configure line says of it.
function(_hipcache_note_source out covered)
  set(${out} "" PARENT_SCOPE)
  set(note "${CMAKE_BINARY_DIR}/.hipcache-source")
  if(NOT HIPCACHE_SHARE_CHECKOUTS)
    file(REMOVE "${note}")
    return()
  endif()
  file(WRITE "${note}" "${CMAKE_SOURCE_DIR}\n")
  set(all "")
  foreach(target IN LISTS covered)
    foreach(language IN ITEMS HIP CXX)
      _hipcache_flags(flags "${target}" "${language}")
      string(APPEND all "${flags}")
    endforeach()
  endforeach()
  set(remedy "")
  if(NOT all MATCHES "-f(file|macro)-prefix-map=")
    set(remedy "; with -ffile-prefix-map=${CMAKE_SOURCE_DIR}=. it does not")
  endif()
  set(${out} ", shared with other checkouts if it does not name ${CMAKE_SOURCE_DIR} (__FILE__, -g)${remedy}" PARENT_SCOPE)
endfunction()

# The end of the configure step: the first call goes to the back of the queue, because the calls that a project has
# deferred itself may create targets.
function(_hipcache_finish last)
  if(NOT last)
    cmake_language(DEFER CALL _hipcache_finish TRUE)
    return()
  endif()
  _hipcache_property(program GLOBAL PROPERTY _HIPCACHE_PROGRAM)

  _hipcache_is_amd(is_amd)
  if(NOT is_amd)
    return()
  endif()

  _hipcache_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  set(cxx_covered "")
  if("CXX" IN_LIST languages)
    _hipcache_cover_cxx_targets("${program}" cxx_covered)
  endif()
  _hipcache_hand_over("${program}")
  set(covered "")
  set(kept "")
  if("HIP" IN_LIST languages)
    _hipcache_cover_targets("${program}" covered kept)
    if(kept)
      _hipcache_say_kept("${kept}")
    endif()
  elseif(NOT cxx_covered)
    message(WARNING
      "HipCache: the language HIP is not enabled, and no C++ is compiled as HIP: nothing is cached.\n"
      "Add it with project(... LANGUAGES CXX HIP) or enable_language(HIP).")
    return()
  endif()

  if(covered OR cxx_covered)
    set(all ${covered} ${cxx_covered})
    _hipcache_note_source(shared "${all}")
  endif()
  if(covered)
    list(GET covered 0 first)
    get_target_property(directory "${first}" SOURCE_DIR)
    _hipcache_compiler(compiler "${directory}" HIP)
    _hipcache_architectures(architectures "${covered}")
    _hipcache_store(store "${program}")
    message(STATUS "HipCache: ${compiler}, ${architectures}${store}${shared}")
  elseif(cxx_covered)
    list(GET cxx_covered 0 first)
    get_target_property(directory "${first}" SOURCE_DIR)
    _hipcache_compiler(compiler "${directory}" CXX)
    _hipcache_store(store "${program}")
    message(STATUS "HipCache: ${compiler}, C++ as HIP${store}${shared}")
  elseif(NOT kept)
    message(STATUS "HipCache: no target has HIP sources")
  endif()
  if(covered OR cxx_covered)
    set(language CXX)
    if(covered)
      set(language HIP)
    endif()
    _hipcache_definition(compiler "${directory}" CMAKE_${language}_COMPILER)
    _hipcache_warn_of_conditions("${program}" "${compiler}")
    _hipcache_warn("${covered}" "${cxx_covered}")
    _hipcache_ask_for_targets()
    _hipcache_prefetch("${program}" "${all}")
  endif()
endfunction()

# HIPCACHE=OFF: say so, once.
function(_hipcache_say_off)
  _hipcache_property(said GLOBAL PROPERTY _HIPCACHE_SAID_OFF)
  if(said)
    return()
  endif()
  set_property(GLOBAL PROPERTY _HIPCACHE_SAID_OFF TRUE)
  message(STATUS "HipCache: off (HIPCACHE=${HIPCACHE})")
  file(REMOVE "${CMAKE_BINARY_DIR}/.hipcache-source")
  set(not_needed_now "${HIPCACHE_PROGRAM}") # or CMake would call the setting unused
  _hipcache_is_hipcache(is_hipcache "${CMAKE_HIP_COMPILER_LAUNCHER};$ENV{CMAKE_HIP_COMPILER_LAUNCHER}")
  if(is_hipcache)
    message(WARNING
      "HipCache: HIPCACHE is OFF, but you have set CMAKE_HIP_COMPILER_LAUNCHER to hipcache.\n"
      "Remove it with -UCMAKE_HIP_COMPILER_LAUNCHER, and from the environment.")
  endif()
endfunction()

# The first include of a configure step: find the program, and put the rest off to the end of the top directory.
function(_hipcache_start)
  set_property(GLOBAL PROPERTY _HIPCACHE_PROGRAM "")
  if(NOT CMAKE_GENERATOR MATCHES "Ninja|Make")
    message(WARNING
      "HipCache: the generator '${CMAKE_GENERATOR}' runs no compiler launchers: this build is not cached.\n"
      "Configure with -G Ninja or -G \"Unix Makefiles\".")
    return()
  endif()
  _hipcache_is_amd(is_amd)
  if(NOT is_amd)
    return()
  endif()
  _hipcache_find_program(program)
  if(program)
    set_property(GLOBAL PROPERTY _HIPCACHE_PROGRAM "${program}")
    cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL _hipcache_finish FALSE)
  endif()
endfunction()

get_property(_hipcache_in_trial GLOBAL PROPERTY IN_TRY_COMPILE)
get_property(_hipcache_known GLOBAL PROPERTY _HIPCACHE_PROGRAM SET)
if(NOT _hipcache_in_trial)
  option(HIPCACHE "Compile HIP sources through hipcache" ON)

  # CMake does not find a distribution's HIP unasked.
  file(GLOB _hipcache_packaged /usr/lib/*/cmake/hip-lang)
  if(_hipcache_packaged AND NOT CMAKE_HIP_COMPILER_LOADED AND NOT CMAKE_TOOLCHAIN_FILE AND NOT EXISTS /opt/rocm
      AND NOT DEFINED CMAKE_HIP_COMPILER_ROCM_ROOT AND NOT DEFINED ENV{ROCM_PATH})
    include("${CMAKE_CURRENT_LIST_DIR}/HipToolchain.cmake")
  endif()
  unset(_hipcache_packaged)

  if(NOT _hipcache_known AND NOT HIPCACHE)
    _hipcache_say_off()
  elseif(NOT _hipcache_known AND HIPCACHE)
    _hipcache_start()
  endif()

  # For projects that pass the variable on, for example to an external project; targets get theirs in _hipcache_finish.
  # It stays unset until HIP is enabled, or CMake would ignore the environment's launcher.
  _hipcache_property(_hipcache_program GLOBAL PROPERTY _HIPCACHE_PROGRAM)
  if(HIPCACHE AND _hipcache_program AND CMAKE_HIP_COMPILER_LOADED AND NOT CMAKE_HIP_COMPILER_LAUNCHER)
    set(CMAKE_HIP_COMPILER_LAUNCHER "${_hipcache_program}")
  endif()
  unset(_hipcache_program)
endif()
unset(_hipcache_in_trial)
unset(_hipcache_known)

cmake_policy(POP)

#[=======================================================================[.rst:
HipCacheIree
------------

Build IREE modules, one ``.vmfb`` for each device and target, through hipcache. HipCache includes this module; a project
without HIP includes it alone: ``include(HipCacheIree)``, with ``-DCMAKE_MODULE_PATH=$(hipcache --cmakedir)``.

::

    hipcache_iree_module(NAME SOURCE model.mlir DEVICES hip amdgpu [local] TARGETS gfx942 gfx90a
                         [FLAGS ...] [DEPENDS ...] [OUTPUT_DIRECTORY dir])

makes ``NAME.hip.gfx942.vmfb``, ``NAME.hip.gfx90a.vmfb``, ``NAME.amdgpu.gfx942.vmfb`` ... and ``NAME.iree.json``, which lists
them with device, target and digest, as the target NAME. ``local`` (the processor) has no targets: ``NAME.local.vmfb``. What was
made is checked (``hipcache iree-check``): a module that is not for what its name says fails the build. FLAGS are iree-compile's;
DEPENDS names files that these name, such as archives of parameters.

::

    hipcache_iree_test(TEST MODULE NAME DEVICE hip [TARGET gfx942] FUNCTION main [ARGS --input=16xf32=2 ...])

adds a test that runs a function of a module by iree-run-module, with the ``--device=`` that the module is built for. With
``--expected_output=`` among ARGS it compares. The module's path, for commands of your own, is property
``IREE_MODULE_<device>_<target>`` of target NAME.

Variables: ``IREE_COMPILE`` and ``IREE_RUN_MODULE`` (found in ``PATH``), ``HIPCACHE`` (OFF compiles without the cache),
``HIPCACHE_PROGRAM``.
#]=======================================================================]

include_guard(GLOBAL)
cmake_policy(PUSH)
cmake_policy(VERSION 3.21...4.0)

# A function sees the variables of the project that calls it, and CMake's cache (-Dprogram=...) where a variable of its
# own is not set. A command that looks at its result variable, or may leave it unset, gets a name of ours.

# The path of the program that HIPCACHE_PROGRAM names, or of the hipcache beside this module or in PATH; or nothing.
function(_hipcache_search out)
  # <prefix>/share/cmake/HipCache belongs to <prefix>/bin, a source checkout to its own .venv.
  file(REAL_PATH "${CMAKE_CURRENT_FUNCTION_LIST_DIR}" here)
  set(beside "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../bin" "${here}/../../../bin" "${here}/../.venv/bin")
  if(HIPCACHE_PROGRAM)
    find_program(_hipcache_found NAMES "${HIPCACHE_PROGRAM}" NO_CACHE NO_CMAKE_FIND_ROOT_PATH)
  else()
    find_program(_hipcache_found NAMES hipcache HINTS ${beside} NO_CACHE NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
    if(NOT _hipcache_found)
      find_program(_hipcache_found NAMES hipcache NO_CACHE NO_CMAKE_FIND_ROOT_PATH)
    endif()
  endif()
  set(${out} "" PARENT_SCOPE)
  if(_hipcache_found)
    get_filename_component(program "${_hipcache_found}" ABSOLUTE)
    set(${out} "${program}" PARENT_SCOPE)
  endif()
endfunction()

# A property as get_property() has it; empty if it is not set.
function(_hipcache_property out)
  get_property(_hipcache_value ${ARGN})
  set(${out} "${_hipcache_value}" PARENT_SCOPE)
endfunction()

# The program, with a warning if there is none.
function(_hipcache_iree_program out)
  _hipcache_search(program)
  set(${out} "${program}" PARENT_SCOPE)
  if(NOT program)
    _hipcache_property(said GLOBAL PROPERTY _HIPCACHE_IREE_SAID)
    if(NOT said)
      message(WARNING
        "HipCacheIree: the program 'hipcache' was not found: modules are not cached and not checked.\n"
        "Install it, or name it with -DHIPCACHE_PROGRAM=/path/to/hipcache.")
      set_property(GLOBAL PROPERTY _HIPCACHE_IREE_SAID TRUE)
    endif()
  endif()
endfunction()

function(_hipcache_iree_refuse what hint)
  message(FATAL_ERROR "hipcache_iree_module: ${what}\n${hint}")
endfunction()

function(hipcache_iree_module name)
  cmake_parse_arguments(PARSE_ARGV 1 _hipcache "" "SOURCE;OUTPUT_DIRECTORY" "DEVICES;TARGETS;FLAGS;DEPENDS")
  if(_hipcache_UNPARSED_ARGUMENTS)
    _hipcache_iree_refuse("'${_hipcache_UNPARSED_ARGUMENTS}' is none of its words" "Write SOURCE, DEVICES, TARGETS, FLAGS, DEPENDS.")
  endif()
  if(NOT _hipcache_SOURCE OR NOT _hipcache_DEVICES)
    _hipcache_iree_refuse("SOURCE or DEVICES is missing" "Write for example SOURCE model.mlir DEVICES hip TARGETS gfx942.")
  endif()
  foreach(device IN LISTS _hipcache_DEVICES)
    if(NOT device MATCHES "^(hip|amdgpu|local)$")
      _hipcache_iree_refuse("unknown device '${device}'" "Known are hip, amdgpu and local.")
    elseif(NOT device STREQUAL "local" AND NOT _hipcache_TARGETS)
      _hipcache_iree_refuse("no TARGETS for ${device}" "Write for example TARGETS gfx942 gfx90a.")
    endif()
  endforeach()
  foreach(target IN LISTS _hipcache_TARGETS)
    if(NOT target MATCHES "^[A-Za-z0-9_+:-]+$")
      _hipcache_iree_refuse("'${target}' is no target" "Write one word for each: TARGETS gfx942 gfx90a.")
    endif()
  endforeach()
  foreach(flag IN LISTS _hipcache_FLAGS)
    if(flag MATCHES "^--?iree-(hal-target-device|hal-target-backends|rocm-target|rocm-container-type)(=|$)")
      _hipcache_iree_refuse("FLAGS has '${flag}', which would make another module" "Say it by DEVICES and TARGETS.")
    endif()
  endforeach()

  find_program(IREE_COMPILE NAMES iree-compile DOC "IREE's compiler" REQUIRED)
  _hipcache_iree_program(program)
  set(launcher "")
  if(program AND (HIPCACHE OR NOT DEFINED HIPCACHE))
    set(launcher "${program}")
  endif()
  if(NOT _hipcache_OUTPUT_DIRECTORY)
    set(_hipcache_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
  endif()
  # The input's name as it is spelled is in the module: a relative one is the same in each checkout.
  get_filename_component(source "${_hipcache_SOURCE}" ABSOLUTE)
  file(RELATIVE_PATH spelled "${CMAKE_CURRENT_SOURCE_DIR}" "${source}")

  set(modules "")
  set(properties "")
  foreach(device IN LISTS _hipcache_DEVICES)
    set(targets "${_hipcache_TARGETS}")
    set(flags "--iree-hal-target-device=${device}")
    if(device STREQUAL "local")
      set(targets "local")
      list(APPEND flags "--iree-hal-local-target-device-backends=llvm-cpu")
    endif()
    foreach(target IN LISTS targets)
      if(device STREQUAL "local")
        set(stem "${device}")
        set(of_target "")
      else()
        set(stem "${device}.${target}")
        set(of_target "--iree-rocm-target=${target}")
      endif()
      set(module "${_hipcache_OUTPUT_DIRECTORY}/${name}.${stem}.vmfb")
      add_custom_command(OUTPUT "${module}"
        COMMAND ${launcher} "${IREE_COMPILE}" ${flags} ${of_target} ${_hipcache_FLAGS} "${spelled}" -o "${module}"
        DEPENDS "${source}" "${IREE_COMPILE}" ${_hipcache_DEPENDS}
        WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
        COMMENT "Building IREE module ${name}.${stem}.vmfb"
        VERBATIM)
      list(APPEND modules "${module}")
      string(REPLACE "." "_" property "${stem}")
      list(APPEND properties "IREE_MODULE_${property}" "${module}")
    endforeach()
  endforeach()

  set(made ${modules})
  if(program)
    set(manifest "${_hipcache_OUTPUT_DIRECTORY}/${name}.iree.json")
    add_custom_command(OUTPUT "${manifest}"
      COMMAND "${program}" iree-check --quiet "--manifest=${manifest}" ${modules}
      DEPENDS ${modules}
      COMMENT "Checking IREE modules of ${name}"
      VERBATIM)
    list(APPEND made "${manifest}")
  endif()
  add_custom_target("${name}" ALL DEPENDS ${made})
  set_target_properties("${name}" PROPERTIES ${properties})
endfunction()

function(hipcache_iree_test test)
  cmake_parse_arguments(PARSE_ARGV 1 _hipcache "" "MODULE;DEVICE;TARGET;FUNCTION" "ARGS")
  set(stem "${_hipcache_DEVICE}")
  if(_hipcache_TARGET)
    string(APPEND stem "_${_hipcache_TARGET}")
  endif()
  set(module "")
  if(TARGET "${_hipcache_MODULE}")
    get_target_property(module "${_hipcache_MODULE}" "IREE_MODULE_${stem}")
  endif()
  if(NOT module)
    message(FATAL_ERROR
      "hipcache_iree_test: '${_hipcache_MODULE}' has no module for ${_hipcache_DEVICE} ${_hipcache_TARGET}\n"
      "Name MODULE, DEVICE and TARGET as in its hipcache_iree_module().")
  endif()
  set(device "${_hipcache_DEVICE}")
  if(device STREQUAL "local")
    set(device "local-task")
  endif()
  find_program(IREE_RUN_MODULE NAMES iree-run-module DOC "IREE's program that runs a module" REQUIRED)
  set(function "")
  if(_hipcache_FUNCTION)
    set(function "--function=${_hipcache_FUNCTION}")
  endif()
  add_test(NAME "${test}"
    COMMAND "${IREE_RUN_MODULE}" "--device=${device}" "--module=${module}" ${function} ${_hipcache_ARGS})
endfunction()

cmake_policy(POP)

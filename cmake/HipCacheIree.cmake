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

# The hipcache beside this module, in PATH, or nothing.
function(_hipcache_iree_program out)
  file(REAL_PATH "${CMAKE_CURRENT_FUNCTION_LIST_DIR}" here)
  set(beside "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../bin" "${here}/../../../bin" "${here}/../.venv/bin")
  if(HIPCACHE_PROGRAM)
    find_program(program NAMES "${HIPCACHE_PROGRAM}" NO_CACHE NO_CMAKE_FIND_ROOT_PATH)
  else()
    find_program(program NAMES hipcache HINTS ${beside} NO_CACHE NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
    if(NOT program)
      find_program(program NAMES hipcache NO_CACHE NO_CMAKE_FIND_ROOT_PATH)
    endif()
  endif()
  if(program)
    get_filename_component(program "${program}" ABSOLUTE)
    set(${out} "${program}" PARENT_SCOPE)
  else()
    set(${out} "" PARENT_SCOPE)
    get_property(said GLOBAL PROPERTY _HIPCACHE_IREE_SAID)
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
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SOURCE;OUTPUT_DIRECTORY" "DEVICES;TARGETS;FLAGS;DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    _hipcache_iree_refuse("'${arg_UNPARSED_ARGUMENTS}' is none of its words" "Write SOURCE, DEVICES, TARGETS, FLAGS, DEPENDS.")
  endif()
  if(NOT arg_SOURCE OR NOT arg_DEVICES)
    _hipcache_iree_refuse("SOURCE or DEVICES is missing" "Write for example SOURCE model.mlir DEVICES hip TARGETS gfx942.")
  endif()
  foreach(device IN LISTS arg_DEVICES)
    if(NOT device MATCHES "^(hip|amdgpu|local)$")
      _hipcache_iree_refuse("unknown device '${device}'" "Known are hip, amdgpu and local.")
    elseif(NOT device STREQUAL "local" AND NOT arg_TARGETS)
      _hipcache_iree_refuse("no TARGETS for ${device}" "Write for example TARGETS gfx942 gfx90a.")
    endif()
  endforeach()
  foreach(target IN LISTS arg_TARGETS)
    if(NOT target MATCHES "^[A-Za-z0-9_+:-]+$")
      _hipcache_iree_refuse("'${target}' is no target" "Write one word for each: TARGETS gfx942 gfx90a.")
    endif()
  endforeach()
  foreach(flag IN LISTS arg_FLAGS)
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
  if(NOT arg_OUTPUT_DIRECTORY)
    set(arg_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
  endif()
  # The input's name as it is spelled is in the module: a relative one is the same in each checkout.
  get_filename_component(source "${arg_SOURCE}" ABSOLUTE)
  file(RELATIVE_PATH spelled "${CMAKE_CURRENT_SOURCE_DIR}" "${source}")

  set(modules "")
  set(properties "")
  foreach(device IN LISTS arg_DEVICES)
    set(targets "${arg_TARGETS}")
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
      set(module "${arg_OUTPUT_DIRECTORY}/${name}.${stem}.vmfb")
      add_custom_command(OUTPUT "${module}"
        COMMAND ${launcher} "${IREE_COMPILE}" ${flags} ${of_target} ${arg_FLAGS} "${spelled}" -o "${module}"
        DEPENDS "${source}" "${IREE_COMPILE}" ${arg_DEPENDS}
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
    set(manifest "${arg_OUTPUT_DIRECTORY}/${name}.iree.json")
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
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "MODULE;DEVICE;TARGET;FUNCTION" "ARGS")
  set(stem "${arg_DEVICE}")
  if(arg_TARGET)
    string(APPEND stem "_${arg_TARGET}")
  endif()
  set(module "")
  if(TARGET "${arg_MODULE}")
    get_target_property(module "${arg_MODULE}" "IREE_MODULE_${stem}")
  endif()
  if(NOT module)
    message(FATAL_ERROR
      "hipcache_iree_test: '${arg_MODULE}' has no module for ${arg_DEVICE} ${arg_TARGET}\n"
      "Name MODULE, DEVICE and TARGET as in its hipcache_iree_module().")
  endif()
  set(device "${arg_DEVICE}")
  if(device STREQUAL "local")
    set(device "local-task")
  endif()
  find_program(IREE_RUN_MODULE NAMES iree-run-module DOC "IREE's program that runs a module" REQUIRED)
  set(function "")
  if(arg_FUNCTION)
    set(function "--function=${arg_FUNCTION}")
  endif()
  add_test(NAME "${test}"
    COMMAND "${IREE_RUN_MODULE}" "--device=${device}" "--module=${module}" ${function} ${arg_ARGS})
endfunction()

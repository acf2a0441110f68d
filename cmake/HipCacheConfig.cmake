# find_package(HipCache): the same as include(HipCache).
include("${CMAKE_CURRENT_LIST_DIR}/HipCache.cmake")

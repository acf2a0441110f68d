/* Values that Python and C share. Written by scripts/shared_header.py from shared.py, where the reasons are. */
#ifndef HIPCACHE_SHARED_H
#define HIPCACHE_SHARED_H

/* clang-format off */
#define KEY_FORMAT "10"
#define DIRECT_KIND "direct 3"
#define DIRECT_KIND_ON_TERMINAL "direct 3 on a terminal"
#define DIRECT_KIND_ELSEWHERE "direct 3 elsewhere"
#define VARIABLES_DOMAIN "hipcache direct variables 2"
#define STATE_DOMAIN "hipcache direct state 2"
#define SYSTEM_DOMAIN "hipcache system state 1"
#define ACTION_DOMAIN "hipcache action record 1"
#define SEAL_CONTEXT "hipcache 2026-11-22 records of a store"
#define NAMESPACE_CONTEXT "hipcache 2026-11-23 namespace of a store"
#define SEALED_NAME_DOMAIN "hipcache sealed name 1"
#define CONTENT_CLAIM_DOMAIN "hipcache content of a status 1"
#define LARGE_CONTENT 1048576
#define CHECK_DIRECTORIES {"/CMakeFiles/CMakeScratch/", "/CMakeFiles/CMakeTmp/", "/.sconf_temp/", NULL}
#define MESON_CHECK "/meson-private/tmp"
#define BASEDIR_MARK "<basedir>"
#define MOST_BLOB 4294967296ll
#define MOST_STATISTICS 67108864
#define SYSTEM_CONFIG "/etc/hipcache.yaml"
#define STORE_SETTINGS "hipcache.yaml"
#define PROJECT_SETTINGS ".hipcache.yaml"
#define SETTINGS_DOMAIN "hipcache settings of a file 1"
#define MOST_CONFIG 65536
#define LEXER_BARE 1
#define LEXER_ALL 2
#define LEXER_RAW 4
#define LEXED_NOT_BARE 1
#define LEXED_UNPLAIN 2
#define LEXED_AMBIGUOUS 4
#define LEXED_NO_MEMORY 8
#define WORD_IN_LINES 1
#define WORD_NAMES 2
#define WORD_KNOWN 4
#define OBSERVED 0
#define NO_FILTER 1
#define NO_THREAD 2
#define NOT_READABLE 3
#define UNKNOWN_CALL 4
#define TOO_MANY 5
#define LEFT_BEHIND 6
#define BUILDERS_VARIABLES {"DEB_BUILD_ARCH", "DH_INTERNAL_OPTIONS", "DH_INTERNAL_BUILDFLAGS", "RPM_BUILD_ROOT", "RPM_PACKAGE_NAME", "NIX_BUILD_TOP", "PORTAGE_BUILDDIR", "CONDA_BUILD", "SPACK_SHORT_SPEC", NULL}
#define MAKEPKGS_TEXTDOMAIN "pacman-scripts"
#define STORAGE_HELPER "--storage-helper"
#define CREDENTIALS {"AWS_", "GOOGLE_", "AZURE_", "SSL_CERT_", "GRPC_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "NO_GRPC_PROXY", NULL}
#define REMOTE_DOWN 600

#endif

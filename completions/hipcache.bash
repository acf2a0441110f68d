# bash completion for hipcache; made by scripts/manual.py.
_hipcache() {
    local current=${COMP_WORDS[COMP_CWORD]} words= word last=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        if [[ $current = */* ]]; then
            _hipcache_files "$current"
            return
        fi
        mapfile -t COMPREPLY < <(
            compgen -W "run stats explain report inspect doctor demo gc clear verify export import sync prefetch config iree-check help --cmakedir --mesondir --sconsdir --version --help" -- "$current"
            compgen -c -- "$current" | grep -E '^(hipcc|(amd)?clang|iree-compile)'
        )
        return
    fi
    case ${COMP_WORDS[1]} in
        help) words="run stats explain report inspect doctor demo gc clear verify export import sync prefetch config iree-check" ;;
        config)
            for word in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do
                [[ $word = -* ]] || last=$word
            done
            case "$last $current" in
                "get -"* | "set -"* | "unset -"*) ;;
                "get "* | "set "* | "unset "*) words="dir disable readonly recache max_size packs basedir namespace key umask log log_format stats_log jobs remote executor prefetch verify preambles preamble_checks cxx_cache iree_checks resident system_paths" ;;
                " "*) words="get set unset --json --system --store --project --help" ;;
            esac ;;
    esac
    if [ -n "$words" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
        return
    fi
    case ${COMP_WORDS[1]} in
        run) words="--report --json --label --no-live --help" ;;
        stats) words="--json --kinds --markdown --since --stats-log --zero --help" ;;
        explain) words="--build --json --help" ;;
        report) words="--html --open --chrome-trace --stats-log --help" ;;
        inspect) words="--unit --json --help" ;;
        doctor) words="--compiler --brief --build --try --help" ;;
        demo) words="--flags --report --help" ;;
        gc) words="--max-size --older-than --not-used-by --namespace --evict-namespace --dry-run --help" ;;
        clear) words="--dry-run --yes --help" ;;
        verify) words="--compile --sample -p --json --help" ;;
        export) words="--since --used-by --help" ;;
        import) words="--help" ;;
        sync) words="--timeout --help" ;;
        prefetch) words="--timeout --step --help" ;;
        config) words="--json --system --store --project --help" ;;
        iree-check) words="--device --target --manifest --quiet --help" ;;
    esac
    _hipcache_files "$current"
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$words" -- "$current")
}
# Only a name of a file gets a slash or quotes: in a directory `report`, `hipcache rep` is not `hipcache report/`.
_hipcache_files() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}
complete -F _hipcache hipcache

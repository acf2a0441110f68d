# Runs one compile whose dependency file may have to share its name with another one's.
#
#     sh shared-depfile.sh OWN SHARED COMMAND...
#
# COMMAND writes its dependency file to OWN, but Meson before 1.12 tells Ninja to read it from SHARED, which has the
# same name for a/sort.hip and b/sort.hip of one target. Ninja reads SHARED after each command and then deletes it
# (`deps = gcc`). So a dependency file is put there only when the last one has been read, and `ln`, which does not
# replace a file, settles it between two commands that end at the same time.

own=$1
shared=$2
shift 2

# A Ninja that was killed leaves the file behind. One's own from then is of no use to anybody;
if [ "$shared" -ef "$own" ]; then
    rm -f "$shared"
fi

"$@" || exit

# another's looks like one that is about to be read: wait for ten seconds at most.
tries=0
until ln "$own" "$shared" 2>/dev/null; do
    # A file system without hard links: the shell does not replace a file either (noclobber).
    if [ ! -e "$shared" ] && (set -C && cat "$own" >"$shared") 2>/dev/null; then
        exit
    fi
    tries=$((tries + 1))
    if [ "$tries" -ge 1000 ]; then
        exec cp "$own" "$shared"
    fi
    sleep 0.01
done

# The first step of a build where a remote is set: has fetched what its HIP compiles need, all at once.
#
#     sh prefetch.sh HIPCACHE STAMP DEPFILE
#
# Ninja runs it again when the commands have changed. Each object depends on STAMP, which is older than all of them and
# stays as it is: no object is out of date for it. The build goes on whatever happens here.

"$1" prefetch --step compile_commands.json || :
if [ ! -e "$2" ]; then
    touch -t 197001020000 "$2"
fi
printf '%s: compile_commands.json\n' "$2" >"$3"

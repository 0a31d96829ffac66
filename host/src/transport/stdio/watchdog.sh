trap '' INT TERM HUP
entries=
while read -r sign group number; do
    case $sign in
        +) entries="$entries $group:$number" ;;
        -) kept=
           for entry in $entries; do
               [ "${entry#*:}" = "$number" ] || kept="$kept $entry"
           done
           entries=$kept ;;
    esac
done
signal() {
    for entry in $entries; do kill -s "$1" -- "-${entry%:*}"; done
}
look() {
    read -r line < "/proc/$1/stat" || return 1
    id=$1
    set -- ${line##*) }
    process=$id:$2:$3:${20}
}
ours=$1
is_ours() {
    look self || return 1
    rest=${process#*:}
    [ "${rest%%:*}" = "$ours" ]
}
turn=0
while [ -n "$entries" ] && [ $turn -lt 200 ] && is_ours; do
    sleep 0.05 || sleep 1
    turn=$((turn + 1))
done
strays=
if [ -n "$entries" ] && look self; then
    signal STOP
    processes=
    for folder in /proc/[0-9]*; do
        look "${folder#/proc/}" && processes="$processes $process"
    done
    groups=' '
    for entry in $entries; do groups="$groups${entry%:*} "; done
    family=' '
    more=yes
    while [ -n "$more" ]; do
        more=
        for process in $processes; do
            id=${process%%:*}
            rest=${process#*:}
            parent=${rest%%:*}
            rest=${rest#*:}
            case $family in *" $id "*) continue ;; esac
            case $groups in
                *" ${rest%:*} "*) family="$family$id " more=yes ;;
                *) case $family in
                       *" $parent "*) family="$family$id " more=yes strays="$strays $process" ;;
                   esac ;;
            esac
        done
    done
fi
signal TERM
signal CONT
for stray in $strays; do kill -s TERM "${stray%%:*}"; done
for turn in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    kept=
    for entry in $entries; do
        kill -s 0 -- "-${entry%:*}" && kept="$kept $entry"
    done
    entries=$kept
    kept=
    for stray in $strays; do
        look "${stray%%:*}" && [ "${process##*:}" = "${stray##*:}" ] && kept="$kept $stray"
    done
    strays=$kept
    [ -n "$entries$strays" ] || exit 0
    sleep 0.05 || { sleep 1; break; }
done
signal KILL
for stray in $strays; do kill -s KILL "${stray%%:*}"; done

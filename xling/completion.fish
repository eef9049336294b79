# Completes xling in fish.
function __xling_found
    set -l before (commandline -opc)
    set -l cur (commandline -ct)
    printf '%s\n' $_xling_words | awk -v before="$before[2..-1]" -v cur="$cur" "$_xling_awk"
end
# Files where no word fits.
complete -c xling -n 'count (__xling_found) >/dev/null' -f -a '(__xling_found)'

# Completes xling in bash.
_xling() {
    local line="${COMP_LINE:0:COMP_POINT}" cur before found IFS=$'\n'
    cur="${line##* }"
    before="${line% *}"
    before="${before#*xling}"
    found=$(awk -v before="$before" -v cur="$cur" "$_xling_awk" <<<"$_xling_words")
    COMPREPLY=()
    if [[ -z $found ]]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "${cur#*=}"))
        return
    fi
    compopt -o nospace 2>/dev/null
    local word
    for word in $found; do
        # Readline takes what follows "=" for a word of its own.
        [[ $cur == *=* && $COMP_WORDBREAKS == *=* ]] && word="${word#"${cur%%=*}="}"
        [[ $word == *[=.] ]] || word+=" "
        COMPREPLY+=("$word")
    done
}
complete -F _xling xling

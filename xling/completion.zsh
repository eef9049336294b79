#compdef xling
# Completes xling in zsh.
_xling() {
    local cur="${words[CURRENT]}" before="${words[2,CURRENT-1]}"
    local -a found open whole
    found=(${(f)"$(awk -v before="$before" -v cur="$cur" "$_xling_awk" <<<"$_xling_words")"})
    if (( ! $#found )); then
        compset -P '*='
        _files
        return
    fi
    open=(${(M)found:#*[=.]})
    whole=(${found:#*[=.]})
    (( $#open )) && compadd -S '' -a open
    (( $#whole )) && compadd -a whole
}

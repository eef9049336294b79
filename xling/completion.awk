BEGIN {
    FS = "\t"
    n = split(before, w, " ")
    i = 1
    if (w[1] == "config") i = 2
    else if (w[1] == "slurm" && w[2] == "plan") i = 3
    one = w[i]
    two = one " " w[i + 1]
}
index($2, cur) == 1 { fits[$1] = fits[$1] $2 "\n" }
{ known[$1] = 1 }
END {
    key = two in known ? two : one in known ? one : i > n ? "" : "-"
    printf "%s", fits[key]
}

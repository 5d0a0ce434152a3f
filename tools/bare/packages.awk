# Prints the root packages and their dependencies. Of alternative dependencies, prints the one that is installed here.
# awk -F '\t' -f packages.awk INSTALLED ROOTS
# INSTALLED contains a line for each package: name, status, priority, provided packages, dependencies.

function bare(text) {
  sub(/\(.*/, "", text)
  sub(/:.*/, "", text)
  gsub(/ /, "", text)
  return text
}

# Adds a package, or an installed package that provides it. Returns whether there is one.
function want(name) {
  if (!(name in depends)) name = provider[name]
  if (name == "") return 0
  if (!(name in wanted)) {
    wanted[name]
    queue[++last] = name
  }
  return 1
}

FILENAME != former {
  former = FILENAME
  file++
}

file == 1 && $2 == "installed" {
  depends[$1] = $5
  count = split($4, provided, ",")
  for (i = 1; i <= count; i++) {
    name = bare(provided[i])
    if (provider[name] == "" || $3 == "required") provider[name] = $1
  }
}

file == 2 { want($1) }

END {
  for (first = 1; first <= last; first++) {
    print queue[first]
    groups = split(depends[queue[first]], group, ",")
    for (i = 1; i <= groups; i++) {
      choices = split(group[i], choice, "|")
      for (j = 1; j <= choices; j++) if (want(bare(choice[j]))) break
    }
  }
}

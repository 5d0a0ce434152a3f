# Prints the words that stand where a shell expects a command, in scripts and in a Makefile's recipes.
# With lines=1 each line is a script of its own.

function enter(context) { contexts[++depth] = context }

# Adds a line without comments, with Q for what is quoted, and each substitution on a line of its own.
function scan(line,    i, c, before, isContinued) {
  for (i = 1; i <= length(line); i++) {
    c = substr(line, i, 1)
    if (contexts[depth] == "single") {
      if (c == "'") depth--
    } else if (c == "\\") {
      isContinued = i++ == length(line)
    } else if (contexts[depth] == "double") {
      if (c == "\"") depth--
      if (substr(line, i, 2) == "$(") { enter("command"); i++; text = text "\n" }
    } else if (c == "'") {
      enter("single"); text = text "Q"
    } else if (c == "\"") {
      enter("double"); text = text "Q"
    } else if (c == "(") {
      enter("command"); text = text "\n"
    } else if (c == ")") {
      if (depth > 1) depth--
      text = text "\n"
    } else if (c == "#" && (i == 1 || substr(line, i - 1, 1) ~ /[ \t]/)) {
      break
    } else {
      text = text c
    }
  }
  text = text (isContinued ? " " : contexts[depth] == "command" ? "\n" : "")
}

# The commands that scanned text begins with, piece by piece.
function tell(    pieces, piece, i, j, count, words, word) {
  pieces = split(text, piece, /[;|&\n]+/)
  for (i = 1; i <= pieces; i++) {
    count = split(piece[i], words, /[ \t]+/)
    for (j = 1; j <= count; j++) {
      word = words[j]
      sub(/^@/, "", word)
      if (word ~ /^(env|sudo|xargs)$/) print word
      if (word == "" || word ~ /^[A-Za-z_][A-Za-z0-9_]*[+:]?=/ || word ~ /^-/) continue
      if (word ~ /^(!|{|}|if|then|else|elif|while|until|do|exec|command|time|env|sudo|xargs)$/) continue
      if (word ~ /^[A-Za-z0-9_.\/+-]+$/) print word
      break
    }
  }
  text = ""
}

function begin() {
  depth = 0
  enter("command")
}

BEGIN { begin() }
{ scan($0) }
lines { tell(); begin() }
END { tell() }

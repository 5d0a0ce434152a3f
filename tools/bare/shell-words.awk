# Prints the words in command position of shell scripts and Makefile recipes. With lines=1 each line is a separate
# script.

function enter(context) { contexts[++depth] = context }

# Appends a line to `text`: without comments, with Q in place of quoted strings, and each substitution on a separate
# line.
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

# Prints the first word of each simple command in `text`.
function print_commands(    pieces, piece, i, j, count, words, word) {
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
lines { print_commands(); begin() }
END { print_commands() }

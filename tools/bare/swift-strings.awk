# Prints the string literals of Swift sources that look like shell commands, one per line.

function print_if_command(literal) {
  gsub(/\\"/, "\"", literal)
  gsub(/\\\([^)]*\)/, "Q", literal)
  if (literal ~ / \| |&& |\|\| |\$\(|2>|> \/dev\/null|; do |^exec |; exec /) print literal
}

/^ *\/\// { next }
/"""/ { isBlock = !isBlock; next }
isBlock { print_if_command($0); next }
{
  while (match($0, /"([^"\\]|\\.)*"/)) {
    print_if_command(substr($0, RSTART + 1, RLENGTH - 2))
    $0 = substr($0, RSTART + RLENGTH)
  }
}

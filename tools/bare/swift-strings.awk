# Prints those string literals of Swift sources that look like a line of a shell, a line each.

function tell(literal) {
  gsub(/\\"/, "\"", literal)
  gsub(/\\\([^)]*\)/, "Q", literal)
  if (literal ~ / \| |&& |\|\| |\$\(|2>|> \/dev\/null|; do |^exec |; exec /) print literal
}

/^ *\/\// { next }
/"""/ { isBlock = !isBlock; next }
isBlock { tell($0); next }
{
  while (match($0, /"([^"\\]|\\.)*"/)) {
    tell(substr($0, RSTART + 1, RLENGTH - 2))
    $0 = substr($0, RSTART + RLENGTH)
  }
}

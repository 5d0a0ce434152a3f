/// Ends the program with a message if a guarantee is violated, even in optimized builds.
func check(_ holds: Bool, _ broken: @autoclosure () -> String) {
  if !holds { fail(broken()) }
}

func fail(_ broken: String) -> Never { fatalError(broken) }

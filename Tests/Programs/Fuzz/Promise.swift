/// Ends the program where a promise does not hold, in words also where it is optimized.
func check(_ holds: Bool, _ broken: @autoclosure () -> String) {
  if !holds { fail(broken()) }
}

func fail(_ broken: String) -> Never { fatalError(broken) }

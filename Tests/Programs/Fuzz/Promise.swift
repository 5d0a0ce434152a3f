/// Ends the program with a message if a guarantee is violated. Unlike `assert`, this also works in
/// optimized builds.
func check(_ holds: Bool, _ message: @autoclosure () -> String) {
  if !holds { fail(message()) }
}

func fail(_ message: String) -> Never { fatalError(message) }

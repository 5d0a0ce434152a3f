/// Lets others run until it is so, or until the test is given up: a loop that only looks would go on for ever then.
package func yieldUntil(
  _ isSo: @autoclosure () -> Bool, isolation: isolated (any Actor)? = #isolation
) async {
  while !isSo(), !Task.isCancelled { await Task.yield() }
}

/// Yields to other tasks until the condition is true or the test is cancelled. Without the check for
/// cancellation, the loop of a cancelled test would never end.
package func yieldUntil(
  _ condition: @autoclosure () -> Bool, isolation: isolated (any Actor)? = #isolation
) async {
  while !condition(), !Task.isCancelled { await Task.yield() }
}

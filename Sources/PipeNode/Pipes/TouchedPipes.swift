/// The pipes to which something has happened that a turn has yet to look at: what a turn costs does not
/// depend on how many pipes there are.
final class TouchedPipes<Pipe: Touchable> {
  // Exclusivity is not checked at run time for what each event touches: the loop's thread alone does.
  @exclusivity(unchecked)
  private(set) var pipes: [Pipe] = []

  func touch(_ pipe: Pipe) {
    guard !pipe.isTouched else { return }
    pipe.isTouched = true
    pipes.append(pipe)
  }

  /// The turn has looked at them: forgets all but those that the next one is to look at again.
  func forget(but isLeft: (Pipe) -> Bool) {
    var left = 0
    for place in pipes.indices {
      let pipe = pipes[place]
      guard isLeft(pipe) else {
        pipe.isTouched = false
        continue
      }
      pipes[left] = pipe
      left += 1
    }
    pipes.removeLast(pipes.count - left)
  }
}

/// What is among the ``TouchedPipes`` at most once.
protocol Touchable: AnyObject {
  var isTouched: Bool { get set }
}

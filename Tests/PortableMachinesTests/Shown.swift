import Observation

/// A value that can be observed.
@MainActor @Observable
final class Shown {
  var value = 0
}

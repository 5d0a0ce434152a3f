extension Duration {
  /// The duration in nanoseconds; a very long one, of either sign, as a hundred years.
  package var clampedNanoseconds: Int64 {
    let (seconds, attoseconds) = components
    let century: Int64 = 100 * 365 * 86_400
    guard seconds.magnitude < century else { return seconds.signum() * century * 1_000_000_000 }
    return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
  }
}

/// What a caller asks of a coordinator: the flags of `synchronize`.
package enum SynchronizeFlag: UInt8, Sendable {
  /// All or none, tried once.
  case `try` = 0
  /// All or none, tried again for `count` milliseconds; 0 is without limit.
  case await = 1
  /// Each for itself.
  case broadcast = 2
  /// What has become of the transaction that the body names.
  case ask = 3
  /// The request of this number is of no interest any more, if nothing is under way for it.
  case withdraw = 4
  /// The caller waits for no answer to a request before this number.
  case settle = 5

  /// Whether the frame only tells which answers are not waited for any more, and so belongs to no event.
  package static func isSettling(_ header: FrameHeader) -> Bool {
    header.kind == .synchronize && header.flags == settle.rawValue
  }
}

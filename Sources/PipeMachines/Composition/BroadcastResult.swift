/// What became of an event at one participant, where each takes it for itself.
public enum BroadcastResult: Hashable, Sendable {
  /// It has moved, to this version.
  case moved(version: UInt64)
  /// Its state does not allow it.
  case refused(Withholding)
  /// It takes no event now.
  case busy
  /// It was not asked: it does not run.
  case unavailable
  /// It was asked, and has not answered.
  case unknown
}

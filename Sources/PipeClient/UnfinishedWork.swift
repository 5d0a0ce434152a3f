import PipeJournal

extension JournalSnapshot.Pending {
  /// The numbers of unfinished items by kind, such as `2 events in the outbox` and `1 dead letter`.
  package var parts: [String] {
    [
      (outboxEventCount, "event", " in the outbox"), (postponedEventCount, "postponed event", ""),
      (deadLetterCount, "dead letter", ""), (effectCount, "running effect", ""),
      (preparedEventCount, "promised synchronized event", ""),
      (unacknowledgedCount, "commit", " not acknowledged by all participants"),
    ].filter { $0.0 > 0 }.map { $0.counted($1) + $2 }
  }
}

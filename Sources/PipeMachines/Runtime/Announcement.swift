import Synchronization

/// That an event stands for something which has been done already, as long as no step goes without it.
///
/// An effect gives its event with one where what the event is about may come to nothing while it waits for
/// its turn: then it is withdrawn, and no step is taken.
@usableFromInline
package final class Announcement: Sendable {
  private let withdrawn = Atomic(false)

  package init() {}

  /// Whether the event is not to be taken any more.
  package var isWithdrawn: Bool { withdrawn.load(ordering: .acquiring) }

  /// What the event stands for is a part of another step, or never was.
  package func withdraw() { withdrawn.store(true, ordering: .releasing) }
}

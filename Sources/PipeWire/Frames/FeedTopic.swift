import PipeSupport

/// The topic of a subscription to a feed: the first bytes of the frames to receive.
///
/// A feed publishes a kind of frame only if a topic names it. A topic that is shorter than a kind,
/// including the empty topic, asks for every state.
package enum FeedTopic: Hashable, Sendable {
  /// Every state, in order. With a value, only the states that a coordinator has committed, or has not.
  case states(areCommitted: Bool?)
  /// The summaries of all nodes that the feed reports on, or of one node.
  case summaries(of: String?)
  /// The steps of all nodes that the feed reports on, or of one node.
  case steps(of: String?)
  /// The events that all nodes of the feed, or one of the nodes, have refused or postponed.
  case refusals(of: String?)
  /// The states of all instances of a keyed node, or of one instance, by its name: `orders[4711]`.
  case instances(of: String?)
  /// The events of the node's outbound pipes, or of one of them.
  case tap(pipe: String?)

  /// A flag of frames with states that a coordinator has committed.
  package static let committedFlag: UInt8 = 1

  package var bytes: [UInt8] {
    switch self {
    case .states(let areCommitted):
      Self.start(of: .state) + (areCommitted.map { [$0 ? Self.committedFlag : 0] } ?? [])
    case .summaries(let node): Self.start(of: .summary, about: node)
    case .steps(let node): Self.start(of: .step, about: node)
    case .refusals(let node): Self.start(of: .refusal, about: node)
    case .instances(let name): Self.start(of: .instance, about: name)
    case .tap(let pipe): Self.start(of: .tap, about: pipe)
    }
  }

  /// Returns the first bytes of the frames of a kind.
  private static func start(of kind: FrameKind) -> [UInt8] {
    [FrameHeader.magic, FrameHeader.version, kind.rawValue]
  }

  private static func start(of kind: FrameKind, about name: String?) -> [UInt8] {
    guard let name else { return start(of: kind) }
    return start(of: kind) + [0] + withUnsafeBytes(of: number(of: name).littleEndian, Array.init)
  }

  /// Returns the number that represents a name in the `count` of a frame: the 32-bit FNV-1a hash of
  /// its UTF-8. Two names may have the same number; the body has the name.
  package static func number(of name: String) -> UInt32 { FNV.hash(of: name) }

  /// Returns the number in a subscription to one instance; `nil` for any other subscription.
  package static func instanceNumber(of subscription: [UInt8]) -> UInt32? {
    let start = start(of: .instance) + [0]
    guard subscription.count == start.count + 4, subscription.starts(with: start) else {
      return nil
    }
    return subscription.suffix(4).reversed().reduce(0) { $0 << 8 | UInt32($1) }
  }

  /// Whether a subscription asks for all or some frames of the topic.
  package func isRequested(by subscription: [UInt8]) -> Bool {
    if case .states = self {} else if subscription.count < 3 { return false }
    let own = bytes
    return own.starts(with: subscription.prefix(own.count))
  }
}

/// The combined subscriptions of a feed's subscribers.
package struct FeedSubscriptions: Sendable {
  private var topics: Set<[UInt8]> = []

  package init() {}

  /// Processes a message of an XPUB: the topic behind one byte, which is 1 for a subscription and 0
  /// for the end of the topic's last subscription.
  /// - Returns: The topic of a subscription, including a repeated one; `nil` for any other message.
  package mutating func take(_ message: UnsafeRawBufferPointer) -> [UInt8]? {
    guard let first = message.first else { return nil }
    let topic = Array(message.dropFirst())
    switch first {
    case 1:
      topics.insert(topic)
      return topic
    case 0: topics.remove(topic)
    default: break
    }
    return nil
  }

  /// The topics of instances that subscribers ask for: the numbers of their names, or `nil` for all
  /// instances.
  package var instances: Set<UInt32>? {
    let all = FeedTopic.instances(of: nil)
    var numbers: Set<UInt32> = []
    for topic in topics where all.isRequested(by: topic) {
      guard let number = FeedTopic.instanceNumber(of: topic) else { return nil }
      numbers.insert(number)
    }
    return numbers
  }

  /// Whether a subscriber asks for all or some frames of a topic.
  package func hasSubscriber(for topic: FeedTopic) -> Bool {
    topics.contains { topic.isRequested(by: $0) }
  }

  /// The maximum number of messages that wait at a node for one subscriber. It bounds the memory
  /// that a stopped subscriber costs.
  package static let queueLimit: Int32 = 10_000
}

import PipeSupport

/// The topic of a subscription to a feed. A topic is the first bytes of the requested frames.
///
/// A feed publishes a kind of frame only while a subscriber's topic includes that kind. A topic too
/// short to contain a kind, such as the empty topic, requests all states.
package enum FeedTopic: Hashable, Sendable {
  /// All states, in order. `true` limits the topic to states that a coordinator has committed,
  /// `false` to all other states.
  case states(areCommitted: Bool?)
  /// The summaries of the named node or, if `nil`, of all nodes in the feed.
  case summaries(of: String?)
  /// The steps of the named node or, if `nil`, of all nodes in the feed.
  case steps(of: String?)
  /// The refused and postponed events of the named node or, if `nil`, of all nodes in the feed.
  case refusals(of: String?)
  /// The states of the named instance, such as `orders[4711]`, or, if `nil`, of all instances in
  /// the feed.
  case instances(of: String?)
  /// The events in the named outbound pipe or, if `nil`, in all outbound pipes of the node.
  case tap(pipe: String?)

  /// The flag of a frame whose state a coordinator has committed.
  package static let committedFlag: UInt8 = 1

  package var bytes: [UInt8] {
    switch self {
    case .states(let areCommitted):
      Self.framePrefix(of: .state) + (areCommitted.map { [$0 ? Self.committedFlag : 0] } ?? [])
    case .summaries(let node): Self.framePrefix(of: .summary, about: node)
    case .steps(let node): Self.framePrefix(of: .step, about: node)
    case .refusals(let node): Self.framePrefix(of: .refusal, about: node)
    case .instances(let name): Self.framePrefix(of: .instance, about: name)
    case .tap(let pipe): Self.framePrefix(of: .tap, about: pipe)
    }
  }

  /// Returns the first bytes of the frames of a kind.
  private static func framePrefix(of kind: FrameKind) -> [UInt8] {
    [FrameHeader.magic, FrameHeader.version, kind.rawValue]
  }

  private static func framePrefix(of kind: FrameKind, about name: String?) -> [UInt8] {
    guard let name else { return framePrefix(of: kind) }
    return framePrefix(of: kind) + [0]
      + withUnsafeBytes(of: topicNumber(of: name).littleEndian, Array.init)
  }

  /// Returns the number that represents a name in a frame's `count`: the 32-bit FNV-1a hash of the
  /// name in UTF-8. Different names can have the same number, so the body also contains the name.
  package static func topicNumber(of name: String) -> UInt32 { FNV.hash(of: name) }

  /// Returns the topic number of the instance in a subscription to one instance; `nil` for any
  /// other subscription.
  package static func instanceNumber(of subscription: [UInt8]) -> UInt32? {
    let start = framePrefix(of: .instance) + [0]
    guard subscription.count == start.count + 4, subscription.starts(with: start) else {
      return nil
    }
    return subscription.suffix(4).reversed().reduce(0) { $0 << 8 | UInt32($1) }
  }

  /// Whether a subscription requests at least some frames of the topic.
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

  /// Processes a message of an XPUB socket: one byte, then a topic. The byte is 1 for a
  /// subscription, and 0 when the topic's last subscription has ended.
  /// - Returns: The topic of a subscription, including a repeated subscription; `nil` for any other
  ///   message.
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

  /// The topic numbers of the instances that subscribers request; `nil` if a subscriber requests
  /// all instances.
  package var requestedInstanceTopicNumbers: Set<UInt32>? {
    let all = FeedTopic.instances(of: nil)
    var numbers: Set<UInt32> = []
    for topic in topics where all.isRequested(by: topic) {
      guard let number = FeedTopic.instanceNumber(of: topic) else { return nil }
      numbers.insert(number)
    }
    return numbers
  }

  /// Whether a subscriber requests at least some frames of a topic.
  package func hasSubscriber(for topic: FeedTopic) -> Bool {
    topics.contains { topic.isRequested(by: $0) }
  }

  /// The maximum number of messages that a node queues for one subscriber. The limit bounds the
  /// node's memory when a subscriber stops reading.
  package static let queueLimit: Int32 = 10_000
}
